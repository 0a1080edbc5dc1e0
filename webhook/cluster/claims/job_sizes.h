/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: gangs that are as large as their Job says (poolgate.io/gang-size: job). The Job is
 * asked while they wait, and again after some seconds, since its parallelism can be changed. And
 * the Job that made a pod. */
#ifndef WEBHOOK_CLUSTER_CLAIMS_JOB_SIZES_H
#define WEBHOOK_CLUSTER_CLAIMS_JOB_SIZES_H

#include "kube/kube.h"
#include "webhook/cluster/claims/pods.h"
#include "webhook/cluster/duty/duty.h"

struct job_sizes;

/* Nothing is known yet. Both are borrowed until job_sizes_free. NULL: out of memory. */
struct job_sizes *job_sizes_new(struct kube *k, const struct log *log);
/* For those who wait, pods[i] of list[i]: write the size of each whose gang is as large as its Job
 * says; 0 where that cannot be read. Of each namespace's Jobs some are asked, sixteen at a time and
 * at most 256 a second, and none any more when one has no answer, or when `self`, the duty that
 * calls, is to end. Jobs that nobody of these names are forgotten. When another call may find more
 * (CLOCK_MONOTONIC); INT64_MAX: never. One thread. */
int64_t job_sizes_read(struct job_sizes *all, const struct duty *self,
	struct pod_waiting *const *list, struct queue_pod *pods, size_t n);
/* NULL-safe. */
void job_sizes_free(struct job_sizes *all);

/* GET it; ret is released by the caller in every case. ERR_CONFLICT: it is gone, or another one has
 * its name; else as kube_do says, ERR_REFUSED where we may not read Jobs. */
int job_get(struct kube *k, struct slice namespace, struct slice name, struct slice uid,
	struct kube_answer *ret, struct err *err);

#endif
