/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: one replica's parts, for the files that put them together. */
#ifndef WEBHOOK_CLUSTER_CLUSTER_IMPL_H
#define WEBHOOK_CLUSTER_CLUSTER_IMPL_H

#include <pthread.h>

#include "webhook/cluster/claims/claims.h"
#include "webhook/cluster/cluster.h"
#include "webhook/cluster/leader/leader.h"
#include "webhook/cluster/ledger/quota_look.h"
#include "webhook/cluster/ledger/servers.h"
#include "webhook/cluster/ledger/waiting_look.h"
#include "webhook/cluster/reconcile/policy_keeper.h"
#include "webhook/cluster/reconcile/policy_teller.h"
#include "webhook/cluster/reconcile/pool_keeper.h"
#include "webhook/cluster/reconcile/probe_poll.h"
#include "webhook/cluster/reconcile/server_keeper.h"
#include "webhook/cluster/reconcile/usage_keeper.h"
#include "webhook/cluster/secrets/cert_keeper.h"
#include "webhook/cluster/secrets/plan_key_secret.h"
#include "webhook/cluster/secrets/secret_sync.h"

/* Of the leader, where the settings want all of them. */
#define DUTIES_MAX 11

struct cluster {
	struct cluster_config cfg;
	struct arena arena;
	struct kube_config api;
	const char *namespace, *identity;
	struct kube *kube;
	struct servers *servers;
	struct ledger *ledger;
	struct tls_secret *tls;
	struct hook_look *hooks;
	struct policy_look *policies; /* NULL: there are none */
	/* For those who may wait, and who may not. */
	struct policy_source policies_asked, policies_shown;
	struct policy_keeper_config accounts;
	struct policy_teller_config told;
	struct plan_key_config plan_keys;
	struct plan_key_look *plan_key_look;
	pthread_mutex_t lock;
	struct leader *
		leader; /* guarded by lock: the watch of the servers, which outlives it, calls it */
	struct claims_config claims;
	struct server_keeper_config keeper;
	struct pool_keeper_config pool;
	struct usage_keeper_config usage;
	struct usage_count *count; /* NULL: nobody is shown it */
	struct probe_poll_config probes, gates;
	struct cert_keeper_config certs;
	struct secret_sync_config secrets;
	struct secret_gate *gate; /* NULL: no Secrets are copied */
	struct quota_look quotas;
	struct waiting_look waiting;
	struct leader_duty duties[DUTIES_MAX];
	size_t n_duties;
};

/* ---- cluster_duties.c ---- */

/* Fill in the leader's duties, and what they work on: of all that c has by then. */
void cluster_list_duties(struct cluster *c);

#endif
