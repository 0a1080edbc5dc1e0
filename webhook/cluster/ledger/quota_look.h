/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the ResourceQuotas of a namespace whose pods never come (rule R12). For reviews. */
#ifndef WEBHOOK_CLUSTER_LEDGER_QUOTA_LOOK_H
#define WEBHOOK_CLUSTER_LEDGER_QUOTA_LOOK_H

#include <stdatomic.h>

#include "base/log.h"
#include "webhook/cluster/ledger/servers.h"
#include "webhook/edge/admission/admission.h"

/* After the API server said that we may not list quotas. */
#define QUOTA_LOOK_AGAIN_MS 60000

/* All borrowed. */
struct quota_look {
	struct kube *kube;
	struct servers *servers;
	const struct log *log;
	atomic_int_least64_t forbidden_ms; /* when it said so last; 0: it did not */
};

/* Would a quota of this namespace refuse the pod? Asked past every cache, and only where a claim of
 * that namespace ended within ten minutes whose pod never came; at most half of the time until the
 * deadline (CLOCK_MONOTONIC), and a second. 0 also where quotas cannot be read: that is no reason
 * to refuse. ERR_REFUSED as quota_check() says it; ERR_NOMEM. ctx is the struct quota_look. Any
 * thread that may wait. */
int quota_look_check(void *ctx, struct slice namespace, const struct json *j,
	const struct json_node *pod, int64_t deadline_ms, struct err *err);

#endif
