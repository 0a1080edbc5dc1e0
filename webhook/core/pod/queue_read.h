/* SPDX-License-Identifier: Apache-2.0 */
/* core: what the queue has to know of a pod that waits, out of the pod. All names are here; the
 * queue knows none. Pure. */
#ifndef WEBHOOK_CORE_POD_QUEUE_READ_H
#define WEBHOOK_CORE_POD_QUEUE_READ_H

#include "base/json/json_keys.h"
#include "base/json/json_read.h"
#include "webhook/core/pod/plan.h"
#include "webhook/core/pod/pod.h"
#include "webhook/core/pool/queue.h"

#define LABEL_KUEUE "kueue.x-k8s.io/queue-name"

/* Names of the PriorityClasses that count; a pod of any other has priority 0, or its policy's
 * (policy_bound.h), since every tenant can name one (W5). */
struct queue_classes {
	const struct slice *names;
	size_t n;
};

/* Read a pod into ret, all but demand, claimed and gang_let_go, which are as they were. Strings are
 * the text's or the arena's. A gang whose size is missing or no number has size 0, which the queue
 * calls uneven, and so has one whose Job says it. A time that nobody can read is 1970. *ret_mark
 * (may be NULL): Kueue has let it go, and nobody has written when: the leader writes
 * ANN_QUEUED_SINCE (core/pod/late.h). Total but for memory: false. */
bool queue_read(const struct json *j, const struct json_node *object,
	const struct queue_classes *classes, struct arena *a, struct queue_pod *ret,
	bool *ret_mark);

/* What a demand asks, as a number for queue_pod.asks: of a seed that nobody outside knows, so that
 * nobody makes two that differ look alike. 0: out of memory. */
uint64_t queue_asks(const struct demand *d, struct json_seed seed);

/* Does a pod name its gang as it must: a name of 1 to 63 characters and a size of 1 to
 * GANG_SIZE_MAX or "job", both or neither; or "group" alone, where Kueue's label and annotation say
 * both? ERR_INVALID with the place, what was found and what is
 * expected; ERR_NOMEM. */
int queue_check_gang(const struct pod *p, struct arena *a, struct err *err);
/* The gang of a pod that names it as it must; absent and 0 where it goes alone, 0 where its Job
 * says how large it is. False: out of memory. */
bool queue_gang_of(const struct pod *p, struct arena *a, struct slice *ret, uint32_t *ret_size);
/* Of a pod that was made: is there a Job to say so? ERR_INVALID with the place. */
int queue_check_job(const struct pod *p, struct err *err);
/* The name of the Job that made the pod, in the arena or its text; absent: none did. */
struct slice queue_job_of(const struct pod *p, struct arena *a);
/* How many pods the Job has at one time: parallelism, or what completions leave of it; as many as a
 * gang may have at most. Total; object is the Job. */
uint32_t queue_job_size(const struct json *j, const struct json_node *object);

#endif
