/* SPDX-License-Identifier: Apache-2.0 */
/* edge: what others have to be asked for a review: registries about images, an API server about
 * policies. Whoever may not wait says that he has to (call.later). */
#include "webhook/core/policy/policy.h"
#include "webhook/edge/admission/admission_impl.h"

/* Of the time until the deadline, what a registry may take: eighths. */
#define REGISTRY_SHARE 6
/* Kept from the time of what may wait: the transport answers at the deadline, and cannot say why.
 */
#define SAY_WHY_MS 250

int64_t call_work_until(const struct call *c)
{
	int64_t time = c->req->deadline_ms - c->req->received_ms;

	return c->req->deadline_ms - (time < 8 * SAY_WHY_MS ? time / 8 : SAY_WHY_MS);
}

/* ---- images ---- */

static bool image_allows(void *ctx, struct slice image)
{
	const struct call *c = ctx;

	return image_look_allows(c->config->registries, c->config->n_registries, image);
}

static int image_find(void *ctx, const struct image_ask *ask, struct arena *a,
	struct image_start *ret, struct err *err)
{
	struct call *c = ctx;
	int64_t now = http_now_ms();

	c->later = !c->may_wait;
	if (c->later)
		return err_set(err, ERR_TIMEOUT, "a registry is to be asked");
	return image_look_find(c->adm->deps.images, c->config->registries, c->config->n_registries,
		ask, now + (call_work_until(c) - now) * REGISTRY_SHARE / 8, a, ret, err);
}

static void use_images(struct call *c)
{
	c->images = (struct image_source){c, image_allows, image_find};
	if (c->adm->deps.images && c->config->n_registries > 0)
		c->world.images = &c->images;
}

/* ---- policies ---- */

/* It picks a policy, and nobody knows which: as it was before it did, a pod could run on a GPU of
 * its node. */
static int refuse_unknown(struct err *err)
{
	struct err why = *err;

	return err_reason(err, ERR_REFUSED, "ApiServerAway",
		"its namespace picks a policy (label " LABEL_POLICY
		"), and this replica, which has not seen that yet, could not learn which in time; "
		"nothing is wrong with the pod: create it again (%s)",
		why.msg[0] ? why.msg : "no answer");
}

static int policy_find(void *ctx, struct slice namespace, struct arena *a,
	const struct policy **ret, struct err *err)
{
	struct call *c = ctx;
	const struct policies_known *p = &c->adm->deps.policies;
	bool picks = c->of_policies && slice_eq(namespace, c->review.namespace);
	int rc = p->of(p->ctx, c->config, namespace, picks, c->may_wait ? call_work_until(c) : 0, a,
		ret, err);

	c->later = c->later || (rc == ERR_TIMEOUT && !c->may_wait);
	return rc == ERR_TIMEOUT && c->may_wait && picks ? refuse_unknown(err) : rc;
}

static int policy_not_set(void *ctx, struct slice namespace, struct arena *a,
	const struct policy **ret, struct err *err)
{
	(void)ctx, (void)namespace, (void)a, (void)ret;
	return policy_unset(err);
}

static void use_policies(struct call *c)
{
	const struct policies_known *p = &c->adm->deps.policies;
	bool any = p->any && p->any(p->ctx, c->config);

	/* Settings that lag behind the hooks let nothing pass as if there were no policy. */
	c->policies = (struct policy_source){c, any ? policy_find : policy_not_set};
	if (any || c->of_policies)
		c->world.policies = &c->policies;
}

void call_use_sources(struct call *c)
{
	use_images(c);
	use_policies(c);
}
