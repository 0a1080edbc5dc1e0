/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what /usage-metrics shows, on every replica: the GPUServers' usage as sums that only
 * grow, and the API server's word on who may read it. */
#ifndef WEBHOOK_CLUSTER_USAGE_COUNT_H
#define WEBHOOK_CLUSTER_USAGE_COUNT_H

#include "base/log.h"
#include "kube/kube.h"
#include "webhook/cluster/ledger/servers.h"
#include "webhook/cluster/policy/policy_look.h"
#include "webhook/edge/admin/usage_page.h"

struct usage_count;

/* All borrowed. */
struct usage_count_config {
	struct kube *kube;
	struct servers *servers;
	struct policy_look *policies; /* NULL: there are none */
	const struct log *log;
	int every_ms; /* between two looks; 0: as usual */
};

/* ERR_NOMEM: NULL. */
struct usage_count *usage_count_new(const struct usage_count_config *cfg, struct err *err);
/* Count from now on. ERR_NOMEM, ERR_INTERNAL. */
int usage_count_start(struct usage_count *u, struct err *err);
/* No listener may ask any more. NULL-safe. */
void usage_count_free(struct usage_count *u);
/* ctx of usage_routes. Lives until usage_count_free. */
struct usage_page *usage_count_page(struct usage_count *u);

#endif
