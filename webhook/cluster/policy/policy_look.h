/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: which policy a namespace picks: a picture of the GPUPolicies and of the namespaces,
 * which two watches keep. For reviews, on every replica. */
#ifndef WEBHOOK_CLUSTER_POLICY_POLICY_LOOK_H
#define WEBHOOK_CLUSTER_POLICY_POLICY_LOOK_H

#include <stdbool.h>

#include "base/log.h"
#include "kube/kube.h"
#include "webhook/core/policy/policy.h"

struct policy_look;

/* All borrowed. */
struct policy_look_config {
	struct kube *kube;
	const struct log *log;
	bool required; /* namespaces that pick none are refused, not open */
};

/* Knows nothing yet, and asks for everything. NULL: ERR_NOMEM. */
struct policy_look *policy_look_new(const struct policy_look_config *cfg, struct err *err);
/* Watch. ERR_NOMEM, ERR_IO (no libcurl), ERR_INTERNAL (no thread). */
int policy_look_start(struct policy_look *l, struct err *err);
/* NULL-safe. Nobody may ask any more. */
void policy_look_free(struct policy_look *l);

/* Have both lists been read once? */
bool policy_look_synced(struct policy_look *l);

/* As `of` of struct policies_known (edge/admission): what the picture says. A namespace or a policy
 * that it does not show may be younger, and so may a label that the API server has seen (picks): it
 * is asked for, which takes a deadline. A policy that has turned wrong is as it was when it was
 * last right. What is found lives in the arena. */
int policy_look_of(struct policy_look *l, struct slice namespace, bool picks, int64_t deadline_ms,
	struct arena *a, const struct policy **ret, struct err *err);

/* What the namespace's label names, by the picture alone, be there such a policy or not; absent:
 * nothing, or it is not known. Lives in the arena. */
struct slice policy_look_named(struct policy_look *l, struct slice namespace, struct arena *a);

#endif
