/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the leader's duty that keeps the accounts of policies true (law P6): what has ended is
 * taken out of them, names that nobody answers for go, and how many pods wait is written there. */
#ifndef WEBHOOK_CLUSTER_RECONCILE_POLICY_KEEPER_H
#define WEBHOOK_CLUSTER_RECONCILE_POLICY_KEEPER_H

#include "webhook/cluster/leader/leader.h"
#include "webhook/cluster/ledger/policy_accounts.h"

/* All borrowed for as long as the duty may run. */
struct policy_keeper_config {
	struct kube *kube;
	struct servers *servers; /* nothing is counted before these have come */
	struct accounts *accounts;
	const struct log *log;
};

/* The duty as the leader starts it; cfg becomes its ctx. */
struct leader_duty policy_keeper_duty(struct policy_keeper_config *cfg);

#endif
