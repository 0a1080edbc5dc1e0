/* SPDX-License-Identifier: Apache-2.0 */
/* core: a pod that has its claim and finds no node: what the scheduler says of it, and who would
 * make another if it were evicted. */
#ifndef WEBHOOK_CORE_POD_UNPLACED_H
#define WEBHOOK_CORE_POD_UNPLACED_H

#include "base/arena.h"
#include "base/json/json_read.h"

/* The reason of its condition PodScheduled, which is pod_waits()'s, too. */
#define UNPLACED_REASON "Unschedulable"

/* What becomes of a pod that is evicted is its controller's to say. */
enum unplaced_owner {
	OWNER_NONE,     /* nobody makes another */
	OWNER_REPLACES, /* makes another one, whatever became of this */
	OWNER_JOB,      /* may count it as a failure: unplaced_job_ignores() */
	OWNER_OTHER     /* nobody here knows */
};

/* Strings are decoded, in the arena or the JSON text. */
struct unplaced {
	struct slice message; /* the scheduler's; absent: it says none */
	enum unplaced_owner owner;
	struct slice owner_kind, owner_name, owner_uid; /* absent for OWNER_NONE */
};

/* Has no node been chosen for this pod since, as the scheduler says, none takes it, and is it not
 * being deleted? False: ret is not to be used. Total; object is the pod. */
bool unplaced_read(const struct json *j, const struct json_node *object, struct arena *a,
	struct unplaced *ret);

/* Does the Job go on as if nothing had happened when this pod is evicted as it is now? Of its
 * podFailurePolicy the first rule counts that matches what the pod would be then; without one the
 * eviction counts against backoffLimit. Total. */
bool unplaced_job_ignores(const struct json *jj, const struct json_node *job, const struct json *j,
	const struct json_node *object, struct arena *a);

#endif
