/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: how many pods wait for GPUs, for who applies a workload whose pods would wait behind
 * them. For reviews. */
#ifndef WEBHOOK_CLUSTER_LEDGER_WAITING_LOOK_H
#define WEBHOOK_CLUSTER_LEDGER_WAITING_LOOK_H

#include <pthread.h>

#include "kube/kube.h"
#include "webhook/core/inject/mutate.h"

/* So many are counted: who applies something learns no more of the others. */
#define WAITING_LOOK_MAX 256
/* So long an answer is good for everybody, or that there was none. */
#define WAITING_LOOK_AGAIN_MS 5000

/* What one list said. */
struct waiting_seen {
	size_t n;
	bool more;
	uint64_t namespaces[WAITING_LOOK_MAX]; /* hashes */
};

struct waiting_look {
	struct kube *kube; /* borrowed */
	pthread_mutex_t lock;
	/* Guarded by lock: */
	int64_t due_ms;
	bool looking, known;
	struct waiting_seen seen;
};

/* Without kube, which is to be set before it is asked. */
void waiting_look_init(struct waiting_look *w);
void waiting_look_release(struct waiting_look *w);

/* The `count` of struct waiters: pods behind our gate that nobody else holds, by a list that was
 * made within five seconds, or is being made anew for another, in 700 ms. ctx is the struct
 * waiting_look. Any thread that may wait. */
bool waiting_look_count(void *ctx, struct slice namespace, struct waiters_count *ret);

#endif
