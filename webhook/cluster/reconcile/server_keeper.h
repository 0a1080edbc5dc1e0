/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the leader's duty that keeps each GPUServer's own fields true: GPUs of hand-listed
 * servers, conditions, finalizer (rules R7, R9, R10). */
#ifndef WEBHOOK_CLUSTER_RECONCILE_SERVER_KEEPER_H
#define WEBHOOK_CLUSTER_RECONCILE_SERVER_KEEPER_H

#include "webhook/cluster/leader/leader.h"

/* All borrowed for as long as the duty may run. */
struct server_keeper_config {
	struct kube *kube;
	struct servers *servers;
	const struct log *log;
	/* Has a whole round of adoption begun after since_ms (CLOCK_MONOTONIC) and ended? Only then
	 * does a server whose GPUs first stood in its status at since_ms get its finalizer, so that
	 * one made anew holds its running pods' claims before it takes new ones. One without GPUs
	 * gets none. NULL: nothing is adopted, do not wait. */
	bool (*adopted)(void *ctx, int64_t since_ms);
	void *adopted_ctx;
};

/* The duty as the leader starts it; cfg becomes its ctx. */
struct leader_duty server_keeper_duty(struct server_keeper_config *cfg);

#endif
