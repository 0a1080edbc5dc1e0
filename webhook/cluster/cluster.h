/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: everything of a replica that needs the cluster, put together: API client, GPUServers,
 * ledger, serving pair, leader. */
#ifndef WEBHOOK_CLUSTER_CLUSTER_H
#define WEBHOOK_CLUSTER_CLUSTER_H

#include <stdbool.h>

#include "base/err.h"
#include "base/log.h"
#include "base/metric.h"
#include "net/tls_identity.h"
#include "webhook/core/pool/ledger.h"
#include "webhook/edge/admin/reload.h"
#include "webhook/edge/admin/usage_page.h"
#include "webhook/edge/admission/admission.h"
#include "webhook/edge/admission/plan_keys.h"
#include "webhook/edge/pool/pool_waiting.h"
#include "webhook/edge/settings/settings.h"

/* All borrowed until cluster_stop. */
struct cluster_config {
	const struct cluster_settings *settings;
	size_t servers_at_once; /* for servers_at_once(); 0: as the program holds right */
	bool own_certificate; /* the serving pair comes from files: no Secret is read, none is made
			       */
	/* What the environment says: KUBERNETES_SERVICE_HOST, _PORT, POD_NAME (else the host's
	 * name); NULL: nothing. */
	const char *api_host, *api_port, *pod_name;
	const struct carrier *carrier; /* of places to pods; NULL: claims/carrier.h's own */
	struct config_source source;   /* asked from cluster_start on */
	struct tls_identity *identity;
	struct plan_keys *keys; /* for the proofs in plans */
	struct metrics *metrics;
	const struct log *log;
};

struct cluster;

/* Find the API and prepare; nothing is called yet. Errors of kube_config_load and
 * kube_config_in_cluster, ERR_IO (no libcurl), ERR_NOMEM, ERR_INVALID (no namespace). */
int cluster_new(const struct cluster_config *cfg, struct cluster **ret, struct err *err);
/* Watch, take part in the election. ERR_NOMEM, ERR_INTERNAL. */
int cluster_start(struct cluster *c, struct err *err);
/* For the validating route. Lives until cluster_free. */
struct ledger *cluster_ledger(struct cluster *c);
/* Brings the leader the client's Secrets into namespaces? Then `check` asks whether one is open for
 * them. Lives until cluster_free. */
struct secrets_check cluster_secrets(struct cluster *c);
/* Refuses what a ResourceQuota would. Lives until cluster_free. */
struct quotas_check cluster_quotas(struct cluster *c);
/* Counts who waits for GPUs. Lives until cluster_free. */
struct waiters cluster_waiters(struct cluster *c);
/* Tells people who waits: as the leader has decided, where this replica leads, else as the pods
 * say. Lives until cluster_free. */
struct pool_waiting_source cluster_waiting(struct cluster *c);
/* Which policy a namespace picks; `any` NULL: the settings want none. Lives until
 * cluster_free. */
struct policies_known cluster_policies(struct cluster *c);
/* Reads the imagePullSecrets of pods. Lives until cluster_free. */
struct login_source cluster_logins(struct cluster *c);
/* Which Secrets the validating hook hears of. For the thread that calls cluster_start; lives until
 * cluster_free. */
struct secrets_heard cluster_heard(struct cluster *c);
/* ctx of usage_routes; NULL: the settings want no such listener. Lives until cluster_free. */
struct usage_page *cluster_usage(struct cluster *c);
/* Can reviews be decided: NULL when so, else why not. Any thread. */
const char *cluster_unready(struct cluster *c);
/* End the duties, give the lease back. Reviews can still be answered. NULL-safe. */
void cluster_stop(struct cluster *c);
/* After the last review: take back what is to be taken back, free everything. NULL-safe. */
void cluster_free(struct cluster *c);

#endif
