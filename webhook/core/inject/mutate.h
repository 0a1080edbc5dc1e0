/* SPDX-License-Identifier: Apache-2.0 */
/* core: the mutating decision: what is done to a pod, and the patch that does it. */
#ifndef WEBHOOK_CORE_INJECT_MUTATE_H
#define WEBHOOK_CORE_INJECT_MUTATE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_read.h"
#include "webhook/core/image/image.h"
#include "webhook/core/launcher/config.h"
#include "webhook/core/pod/plan.h"
#include "webhook/core/pod/plan_proof.h"
#include "webhook/core/policy/policy.h"
#include "webhook/core/pool/ledger.h"
#include "webhook/core/review/review.h"

/* How many pods wait for GPUs: of all namespaces, of them in one; more: there are more than were
 * counted. */
struct waiters_count {
	size_t all, here;
	bool more;
};

/* Who knows it; false: nobody does now. */
struct waiters {
	void *ctx;
	bool (*count)(void *ctx, struct slice namespace, struct waiters_count *ret);
};

/* What a decision may look at beside the pod. */
struct mutate_world {
	const struct config *config;
	/* The pool, asked for only when a filter or a placement needs it. NULL: there is no pool to
	 * look at. */
	struct ledger *ledger;
	const struct plan_signer *signer;  /* NULL: plans get no proof, and none is believed */
	const struct image_source *images; /* what images start; NULL: nobody knows */
	const struct waiters *waiters;     /* asked for workloads alone; NULL: nobody knows */
	/* Which policy the pod's namespace picks; NULL: there are none. */
	const struct policy_source *policies;
	bool owned;   /* it stands for pods that a controller is going to make */
	bool preview; /* nothing is created yet: a client whose image is not set is a warning */
};

/* What was decided. */
struct mutation {
	bool patched;        /* a plan was made and a patch written */
	const char *why_not; /* when not patched: a few words for the log */
	struct plan plan;    /* when patched */
	uint64_t plan_hash;  /* of the annotation's bytes, when patched */
	/* Which the pod's namespace picks, as far as that was asked; NULL: none. */
	const struct policy *policy;
	struct warnings warnings;
};

/* Decide about a pod (or a pod template) that is being created, and append the patch to `patch`;
 * its paths are relative to `pod`. Applying the patch twice equals applying it once. namespace: the
 * request's. Where the pod does not say it, the policy of its namespace does (pod_policy.h). 0 with
 * ret filled, also when the pod does not concern us. Refused: ERR_INVALID for
 * what can never be right, ERR_REFUSED (with a reason) for the rest, with a path below the pod.
 * ERR_NOMEM, ERR_INTERNAL. */
int mutate_create(const struct mutate_world *world, const struct json *j,
	const struct json_node *pod, struct slice namespace, struct arena *a, struct buf *patch,
	struct mutation *ret, struct err *err);

/* Decide about an update of a whole pod: when old carries a plan and the new object asks for GPUs
 * again (somebody applied the user's own manifest a second time), bring back what was injected,
 * from the live pod itself, so that the API server sees no forbidden change. A request that differs
 * from the plan is refused: it cannot be changed. config (may be NULL): its profile tells the
 * launcher from the words that another hook has put in front of it. */
int mutate_update(const struct config *config, const struct json *j, const struct json_node *pod,
	const struct json_node *old, struct slice namespace, struct arena *a, struct buf *patch,
	struct mutation *ret, struct err *err);

/* Take an injection back: the patch that turns an injected pod into the manifest it was made from,
 * by its plan alone. patched is false for a pod without a plan. ERR_INVALID when the pod no longer
 * is what its plan says. */
int mutate_undo(const struct json *j, const struct json_node *pod, struct arena *a,
	struct buf *patch, struct mutation *ret, struct err *err);

#endif
