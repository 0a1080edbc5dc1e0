/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the leader's duty for usage (law P7): it begins the periods that every replica's commits
 * add to, and stores those that have ended in GPUUsage objects before it forgets them. */
#ifndef WEBHOOK_CLUSTER_RECONCILE_USAGE_KEEPER_H
#define WEBHOOK_CLUSTER_RECONCILE_USAGE_KEEPER_H

#include "webhook/cluster/leader/leader.h"

#define USAGES_PATH "/apis/poolgate.io/v1alpha1/gpuusages"

/* All borrowed for as long as the duty may run. */
struct usage_keeper_config {
	struct kube *kube;
	struct servers *servers;
	const struct log *log;
	struct metrics *metrics; /* over metric_table */
	/* Begin periods. Without it what has begun is ended and stored. */
	bool enabled;
	/* 0: the usual times; tests and the simulator make them shorter. every_ms: between two
	 * looks; absent_ms: where nothing can be stored, since the kind or the right is missing. */
	int every_ms, absent_ms;
};

/* The duty as the leader starts it; cfg becomes its ctx. An object is named by its day and by what
 * it holds: who stores the same again makes no other one. */
struct leader_duty usage_keeper_duty(struct usage_keeper_config *cfg);

#endif
