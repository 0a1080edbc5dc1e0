/* SPDX-License-Identifier: Apache-2.0 */
/* edge: what the core and the ledger say to one review, and what others have to be asked for it:
 * registries about images, an API server about policies. Whoever may not wait says that he has to
 * (call.later). */
#include "webhook/core/policy/policy.h"
#include "webhook/core/policy/policy_bound.h"
#include "webhook/core/validate/validate.h"
#include "webhook/core/validate/workload.h"
#include "webhook/edge/admission/admission_impl.h"

/* ---- sources ---- */

/* Of the time until the deadline, what a registry may take: eighths. */
#define REGISTRY_SHARE 6
/* Kept from the time of what may wait: the transport answers at the deadline, and cannot say why.
 */
#define SAY_WHY_MS 250

/* Until when the ledger and others may wait. */
static int64_t call_work_until(const struct call *c)
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

/* ---- decisions ---- */

/* The core's answer to a review, or an error that is no answer (NOMEM, INTERNAL, TIMEOUT). */
static int allow(
	struct call *c, enum metric_result result, const struct warnings *w, const char *note)
{
	/* without memory an annotation may have gone unread */
	if (c->s->arena.failed)
		return err_set(&c->err, ERR_NOMEM, "out of memory");
	c->answer.allowed = true;
	c->answer.warnings = w && w->n ? w : NULL;
	c->result = result;
	c->note = note;
	return 0;
}

static int refuse_or_fail(struct call *c, const struct warnings *w)
{
	/* without memory no refusal is sure to be right */
	if (c->s->arena.failed)
		return err_set(&c->err, ERR_NOMEM, "out of memory");
	if (c->err.code != ERR_INVALID && c->err.code != ERR_REFUSED && c->err.code != ERR_SYNTAX &&
		c->err.code != ERR_TOOBIG)
		return c->err.code;
	answer_refuse(&c->answer, &c->err, &c->s->arena);
	if (c->s->arena.failed)
		return err_set(&c->err, ERR_NOMEM, "out of memory");
	c->answer.warnings = w && w->n ? w : NULL;
	c->result = RESULT_REFUSED;
	return 0;
}

/* Warnings and plans outlive the functions that make them: they lie in the scratch's arena. */
static void *keep(struct call *c, const void *p, size_t size)
{
	void *copy = arena_alloc(&c->s->arena, size);

	if (copy)
		memcpy(copy, p, size);
	return copy;
}

static int decide_mutate(struct call *c)
{
	const struct review *r = &c->review;
	struct mutation m = {0};
	struct warnings *w;
	int rc = 0;

	if (review_is_pod(r, "") && r->operation == OP_CREATE && r->object)
		rc = mutate_create(&c->world, r->j, r->object, r->namespace, &c->s->arena,
			&c->s->patch, &m, &c->err);
	else if (review_is_pod(r, "") && r->operation == OP_UPDATE && r->object && r->old_object)
		rc = mutate_update(c->world.config, r->j, r->object, r->old_object, r->namespace,
			&c->s->arena, &c->s->patch, &m, &c->err);
	else
		m.why_not = "not a pod that is created or updated";
	w = keep(c, &m.warnings, sizeof(m.warnings));
	if (!w)
		return ERR_NOMEM;
	if (rc < 0)
		return refuse_or_fail(c, w);
	if (m.patched) {
		c->answer.patch = buf_as_slice(&c->s->patch);
		answer_plan(&c->answer, m.plan_hash, &c->s->arena);
	}
	return allow(c, m.patched ? RESULT_PATCHED : RESULT_UNTOUCHED, w, m.why_not);
}

static struct slice pod_uid(const struct call *c, const struct json_node *pod)
{
	return json_str(
		c->review.j, json_path(c->review.j, pod, "metadata", "uid", NULL), &c->s->arena);
}

static struct claim_ask ask_of(struct call *c, const struct validation *v)
{
	const struct review *r = &c->review;
	struct claim_ask ask = {.uid = pod_uid(c, r->object),
		.namespace = r->namespace,
		.name = r->name,
		.demand = &v->demand,
		.policy = c->policy,
		.policies = c->world.policies,
		.plan_hash = v->plan_hash,
		.grace_s = pod_grace(r->j, r->object),
		.dry_run = r->dry_run,
		.deadline_ms = call_work_until(c)};

	if (ask.name.len == 0)
		ask.name = json_str(
			r->j, json_path(r->j, r->object, "metadata", "name", NULL), &c->s->arena);
	return ask;
}

/* By law P1 what its namespace picks now bounds it, whatever the plan was made by. */
static int bound_by_policy(struct call *c, struct validation *v)
{
	struct arena *a = &c->s->arena;

	if (policy_of(c->world.policies, c->review.namespace, a, &c->policy, &c->err) < 0 ||
		policy_allows_launcher(c->policy, v->demand.launcher, &c->err) < 0)
		return c->err.code;
	v->demand.bound = policy_bound(c->policy, a);
	return a->failed ? err_set(&c->err, ERR_NOMEM, "out of memory") : 0;
}

/* Take what the plan claims. */
static int claim(struct call *c, const struct validation *v, const struct warnings *w)
{
	struct ledger *l = c->world.ledger;
	const struct review *r = &c->review;
	struct claim_answer got;
	struct claim_ask ask = ask_of(c, v);

	if (l->ops->take(l, &ask, &c->s->arena, &got, &c->err) < 0)
		return refuse_or_fail(c, w);
	c->ticket = got.ticket;
	/* a dry run has decided and holds nothing */
	if (!r->dry_run)
		answer_claim(&c->answer, got.parts, got.n_parts, &c->s->arena);
	return allow(c, RESULT_CLAIMED, w, NULL);
}

/* By law W2 a pod that waits takes nothing, and comes in when the pool could ever hold it. A quota
 * that refuses it behind us leaves nothing behind. */
static int let_wait(struct call *c, const struct validation *v, const struct warnings *w)
{
	struct ledger *l = c->world.ledger;
	struct claim_ask ask = ask_of(c, v);

	if (!l->ops->could_ever)
		err_reason(&c->err, ERR_REFUSED, "PlanMismatch",
			"pods do not wait for GPUs here: nobody would ever let it go; create the "
			"pod again from its own manifest");
	else
		(void)l->ops->could_ever(l, &ask, &c->s->arena, &c->err);
	return c->err.code ? refuse_or_fail(c, w) : allow(c, RESULT_WAITING, w, "waits for GPUs");
}

/* No claim for a pod that would wait for its Secrets for ever. */
static int check_secrets(struct call *c, const struct validation *v)
{
	const struct secrets_check *s = &c->adm->deps.secrets;

	return s->check && v->profile && v->profile->n_secrets > 0
		       ? s->check(s->ctx, c->review.namespace, v->profile->secrets,
				 v->profile->n_secrets, call_work_until(c), &c->err)
		       : 0;
}

/* Nor for one that is refused behind us. */
static int check_quotas(struct call *c)
{
	const struct quotas_check *q = &c->adm->deps.quotas;
	const struct review *r = &c->review;

	return q->check ? q->check(q->ctx, r->namespace, r->j, r->object, call_work_until(c),
				  &c->err)
			: 0;
}

static int validate_pod_create(struct call *c)
{
	const struct review *r = &c->review;
	struct validation *v = arena_alloc(&c->s->arena, sizeof(*v));
	int rc;

	if (!v)
		return ERR_NOMEM;
	rc = validate_create(&c->world, r->j, r->object, r->namespace, &c->s->arena, v, &c->err);
	if (v->proof != PROOF_UNASKED)
		metric_add(c->adm->deps.metrics, M_PLAN_PROOFS, v->proof - PROOF_NONE, 0, 1);
	if (rc < 0)
		return refuse_or_fail(c, &v->warnings);
	if (v->local && !r->dry_run)
		metric_add(c->adm->deps.metrics, M_POLICY_LOCAL, 0, 0, 1);
	if (!v->claims)
		return allow(c, RESULT_UNTOUCHED, &v->warnings, "nothing to claim");
	answer_plan(&c->answer, v->plan_hash, &c->s->arena);
	call_mark(c, STAGE_DECIDE);
	if (bound_by_policy(c, v) < 0 || check_secrets(c, v) < 0 ||
		(!v->plan.waits && check_quotas(c) < 0))
		rc = refuse_or_fail(c, &v->warnings);
	else
		rc = v->plan.waits ? let_wait(c, v, &v->warnings) : claim(c, v, &v->warnings);
	call_mark(c, STAGE_CLAIM);
	return rc;
}

/* Without a cluster, the last DELETE review is all that tells that a pod has gone. */
static int end_claim(struct call *c)
{
	const struct review *r = &c->review;
	struct ledger *l = c->world.ledger;
	size_t n = 0;

	if (!l->ends_by_review || r->dry_run || !r->graceless)
		return allow(c, RESULT_UNTOUCHED, NULL, "nothing ends yet");
	if (l->ops->release(l, pod_uid(c, r->old_object), r->namespace, r->name, &n, &c->err) < 0 &&
		c->err.code != ERR_NOTFOUND)
		return c->err.code;
	err_clear(&c->err);
	return allow(c, RESULT_UNTOUCHED, NULL, n ? "claim ended" : "no claim to end");
}

/* A workload is no pod yet: its image is looked at when its pods come. */
static int image_stand_in(void *ctx, const struct image_ask *ask, struct arena *a,
	struct image_start *ret, struct err *err)
{
	static struct slice word = {"entrypoint", 10};

	(void)ctx, (void)ask, (void)a, (void)err;
	*ret = (struct image_start){
		.digest = SLICE("sha256:"), .entrypoint = &word, .n_entrypoint = 1};
	return 0;
}

static int warn_workload(struct call *c)
{
	const struct review *r = &c->review;
	struct warnings *w = arena_alloc(&c->s->arena, sizeof(*w));
	struct workload load;

	if (!w)
		return ERR_NOMEM;
	if (!r->object || (r->operation != OP_CREATE && r->operation != OP_UPDATE) ||
		r->subresource.len > 0 || !workload_read(r->j, r->object, r->kind, &load))
		return allow(c, RESULT_UNTOUCHED, w, "no pod");
	if (r->operation == OP_UPDATE && r->old_object)
		workload_was(r->j, r->old_object, r->kind, &load);
	c->images.look = image_stand_in;
	c->world.waiters = c->adm->deps.waiters.count ? &c->adm->deps.waiters : NULL;
	if (workload_warn(&c->world, r->j, &load, r->namespace, &c->s->arena, w, &c->err) < 0)
		return c->err.code;
	return allow(c, RESULT_UNTOUCHED, w, "no pod");
}

static int decide_validate(struct call *c)
{
	const struct review *r = &c->review;

	if (review_is_pod(r, "") && r->operation == OP_CREATE && r->object)
		return validate_pod_create(c);
	if (r->operation == OP_UPDATE && r->object && r->old_object && slice_is(r->kind, "Pod") &&
		r->group.len == 0) {
		if (validate_update(&c->world, r, &c->s->arena, &c->err) < 0)
			return refuse_or_fail(c, NULL);
		return allow(c, RESULT_UNTOUCHED, NULL, "nothing of ours changed");
	}
	if (review_is_pod(r, "") && r->operation == OP_DELETE)
		return end_claim(c);
	return warn_workload(c);
}

int call_decide(struct call *c)
{
	return c->hook == HOOK_MUTATE ? decide_mutate(c) : decide_validate(c);
}
