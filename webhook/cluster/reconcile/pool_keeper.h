/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the leader's duty that shows the pool to those who may not see its servers: the GPUPool
 * "pool", whose status is core/pool/pool_status with the time of its last change. */
#ifndef WEBHOOK_CLUSTER_RECONCILE_POOL_KEEPER_H
#define WEBHOOK_CLUSTER_RECONCILE_POOL_KEEPER_H

#include "webhook/cluster/leader/leader.h"
#include "webhook/core/pool/ledger.h"

#define POOLS_PATH "/apis/poolgate.io/v1alpha1/gpupools"
#define POOL_NAME "pool"

/* All borrowed for as long as the duty may run. */
struct pool_keeper_config {
	struct kube *kube;
	struct servers *servers; /* nothing is shown before these have come */
	struct ledger *ledger;
	const struct log *log;
	/* 0: the usual times. Tests make them shorter. pause_ms: between two writes at least.
	 * every_ms: written anew, whoever changed it. absent_ms: asked again where the object
	 * cannot be kept, since its component (components/gpupool) is not installed. */
	int pause_ms, every_ms, absent_ms;
};

/* The duty as the leader starts it; cfg becomes its ctx. It makes the object where it is missing,
 * and writes when a number has changed. */
struct leader_duty pool_keeper_duty(struct pool_keeper_config *cfg);

#endif
