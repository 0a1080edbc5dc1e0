/* SPDX-License-Identifier: Apache-2.0 */
/* core: the validating decision: may this pod exist, and what has to be claimed for it. Nothing is
 * taken on trust that can be checked. */
#ifndef WEBHOOK_CORE_VALIDATE_VALIDATE_H
#define WEBHOOK_CORE_VALIDATE_VALIDATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json/json_read.h"
#include "webhook/core/inject/mutate.h"
#include "webhook/core/pod/plan.h"
#include "webhook/core/pod/pod.h"
#include "webhook/core/review/review.h"

/* What was decided, when nothing was refused. */
struct validation {
	bool claims; /* the pod may exist only if `demand` can be taken from the pool */
	struct demand demand;
	uint64_t plan_hash; /* of the annotation's bytes */
	const struct profile
		*profile; /* the plan's, borrowed from the config; NULL: not known here */
	struct plan plan;
	/* It was to be injected by its policy and was not; spec.onOutage lets it pass. */
	bool local;
	enum proof proof; /* filled, also when it is refused, where the pod is not what this replica
			     would write now */
	struct warnings warnings;
};

/* Decide about a pod that is being created, as all mutating hooks left it. The claim follows from
 * the plan in it. Refused with ERR_REFUSED, a reason and a path:
 *   NotInjected         the switch is on, by the pod or by its policy, and it asks, but the
 *                       mutating hook did not answer
 *   GpuWithoutPlan      it sets bitfusion.io/gpu itself
 *   PlanMissing         it has our label, but no plan
 *   PlanUnreadable      its plan is none
 * and, unless the plan's proof holds:
 *   ProfileChanged      its plan was made for a launcher that is not this server's
 *   PlanMismatch        it is not, word for word, what this server would write for its plan: forged
 *                       or half-removed
 * and
 *   SecretWithoutClaim  it mounts the client's secret, or reads it into a variable, and asks for
 *                       nothing
 * ERR_INVALID with the path: a grace period above config.max_grace_s. ERR_NOMEM, ERR_INTERNAL. */
int validate_create(const struct mutate_world *world, const struct json *j,
	const struct json_node *pod, struct slice namespace, struct arena *a,
	struct validation *ret, struct err *err);

/* Decide about an update, of the pod or of a subresource: our labels and annotations stay as they
 * are (ERR_REFUSED, reason "PlanChanged"), and an ephemeral container reads no client's secret
 * ("SecretWithoutClaim"). A whole pod (not a subresource) that is not being deleted, whose switch
 * is on and that asks for GPUs without a plan is refused as NotInjected: nothing can be injected
 * into a pod that lives. */
int validate_update(
	const struct mutate_world *world, const struct review *r, struct arena *a, struct err *err);

/* Does a pod with this plan hold whole servers? As its profile says (granularity); where c has no
 * profile of that name, or is NULL: one whose servers were picked for it does. */
bool validate_whole_servers(const struct config *c, const struct plan *plan);

/* The pod against its plan (the part of validate_create that does that). Errors as PlanMismatch and
 * NotInjected. *ret_proof as in struct validation. */
int validate_plan(const struct mutate_world *world, const struct pod *pod, struct slice namespace,
	const struct plan *plan, struct arena *a, enum proof *ret_proof, struct err *err);

#endif
