/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the leader's duty that tells GPUPolicies, in their conditions, what they may not have
 * meant (core/policy/policy_told). */
#ifndef WEBHOOK_CLUSTER_RECONCILE_POLICY_TELLER_H
#define WEBHOOK_CLUSTER_RECONCILE_POLICY_TELLER_H

#include "kube/kube.h"
#include "webhook/cluster/leader/leader.h"

/* All borrowed for as long as the duty may run. */
struct policy_teller_config {
	struct kube *kube;
	const struct log *log;
	int every_ms; /* 0: the usual */
};

/* The duty as the leader starts it; cfg becomes its ctx. */
struct leader_duty policy_teller_duty(struct policy_teller_config *cfg);

#endif
