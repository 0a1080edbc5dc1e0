/* SPDX-License-Identifier: Apache-2.0 */
/* edge: answer reviews: read the bytes, let the core decide, write the reply. */
#include "webhook/edge/admission/admission.h"

#include <stdlib.h>

#include "webhook/core/policy/policy_bound.h"
#include "webhook/core/validate/validate.h"
#include "webhook/core/validate/workload.h"
#include "webhook/edge/admission/admission_impl.h"

/* A reply's size beside its patch, so that it takes one allocation. */
#define REPLY_SLACK 1024
#define REPLY_MAX (32U * 1024 * 1024)
/* What is larger is read and decided on a worker: a review costs as many instructions as it has
 * bytes, and the I/O thread is everybody's. */
#define INLINE_BYTES_MAX (64 * 1024)
/* Of the time until the deadline, what a registry may take: eighths. */
#define REGISTRY_SHARE 6
/* Kept from the time of what may wait: the transport answers at the deadline, and cannot say why.
 */
#define SAY_WHY_MS 250

#define ROUTE(of_path, of)                                                                         \
	{                                                                                          \
		.path = (of_path), .method = HTTP_POST, .content_type = "application/json",        \
		.handle = (of), .slow = of##_slow                                                  \
	}
/* From here on they are those of policies. */
#define FIRST_OF_POLICIES 2
const struct http_route admission_routes[ADMISSION_ROUTES] = {
	ROUTE("/mutate", admission_mutate),
	ROUTE("/validate", admission_validate),
	ROUTE("/mutate-policy", admission_mutate),
	ROUTE("/validate-policy", admission_validate),
};

struct admission *admission_new(const struct admission_deps *deps, struct err *err)
{
	struct admission *a = calloc(1, sizeof(*a));

	if (a) {
		a->deps = *deps;
		a->scratches = scratch_pool_new();
	}
	if (!a || !a->scratches) {
		free(a);
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	return a;
}

void admission_free(struct admission *a)
{
	if (!a)
		return;
	scratch_pool_free(a->scratches);
	free(a);
}

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

/* Until when the ledger and others may wait. */
static int64_t work_until(const struct call *c)
{
	int64_t time = c->req->deadline_ms - c->req->received_ms;

	return c->req->deadline_ms - (time < 8 * SAY_WHY_MS ? time / 8 : SAY_WHY_MS);
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
		.deadline_ms = work_until(c)};

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
				 v->profile->n_secrets, work_until(c), &c->err)
		       : 0;
}

/* Nor for one that is refused behind us. */
static int check_quotas(struct call *c)
{
	const struct quotas_check *q = &c->adm->deps.quotas;
	const struct review *r = &c->review;

	return q->check ? q->check(q->ctx, r->namespace, r->j, r->object, work_until(c), &c->err)
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
		ask, now + (work_until(c) - now) * REGISTRY_SHARE / 8, a, ret, err);
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
	int rc = p->of(
		p->ctx, c->config, namespace, picks, c->may_wait ? work_until(c) : 0, a, ret, err);

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

static void reply_error(struct call *c, struct http_reply *reply)
{
	char text[sizeof(c->err.msg) + sizeof(c->err.path) + 64];
	bool ours = c->readable || c->err.code == ERR_NOMEM || c->err.code == ERR_INTERNAL;
	struct buf b;

	c->result = ours ? RESULT_FAILED : RESULT_UNREADABLE;
	buf_init(&b, sizeof(text));
	if (!ours)
		buf_str(&b, "this is no AdmissionReview that can be read: ");
	if (c->err.path[0])
		buf_fmt(&b, "%s: ", c->err.path);
	buf_str(&b, c->err.msg[0] ? c->err.msg : "out of memory");
	http_reply_text(reply, ours ? 500 : 400, b.data ? b.data : "out of memory");
	buf_release(&b);
}

static void reply_review(struct call *c, struct http_reply *reply)
{
	struct buf out;

	buf_init(&out, REPLY_MAX);
	buf_reserve(&out, c->answer.patch.len / 3 * 4 + c->answer.message.len * 2 + REPLY_SLACK);
	review_write(&c->review, &c->answer, &out);
	reply->body = buf_take(&out, &reply->body_len);
	buf_release(&out);
	if (!reply->body) {
		err_set(&c->err, ERR_NOMEM, "out of memory");
		reply_error(c, reply);
		return;
	}
	reply->status = 200;
	reply->content_type = "application/json";
}

/* A pod that is created or updated without being there: nothing could be decided, and "allowed"
 * would be a guess. */
static int check_object(struct call *c)
{
	const struct review *r = &c->review;
	const char *missing = !r->object                                    ? "object"
			      : r->operation == OP_UPDATE && !r->old_object ? "oldObject"
									    : NULL;

	if (!missing || !review_is_pod(r, "") ||
		(r->operation != OP_CREATE && r->operation != OP_UPDATE))
		return 0;
	err_set(&c->err, ERR_SYNTAX, "found nothing, expected the pod");
	return err_in(&c->err, "request/%s", missing);
}

static int read_body(struct call *c)
{
	if (c->req->body_len == 0)
		return err_set(&c->err, ERR_SYNTAX, "Empty body");
	if (json_read(&c->s->json, c->req->body, c->req->body_len, REVIEW_NODES_MAX, &c->err) < 0)
		return c->err.code;
	if (review_read(&c->s->json, &c->s->arena, &c->review, &c->err) < 0)
		return c->err.code;
	return check_object(c);
}

static void answer(struct call *c, struct http_reply *reply)
{
	int rc = read_body(c);

	call_mark(c, STAGE_READ);
	c->readable = rc == 0;
	if (rc == 0) {
		rc = c->hook == HOOK_MUTATE ? decide_mutate(c) : decide_validate(c);
		/* what takes a claim has ended this stage before it did */
		if (c->took_us[STAGE_CLAIM] < 0)
			call_mark(c, STAGE_DECIDE);
	}
	if (c->later)
		return;
	if (rc < 0 && c->err.code == ERR_NONE)
		err_set(&c->err, ERR_NOMEM, "out of memory");
	if (rc < 0)
		reply_error(c, reply);
	else
		reply_review(c, reply);
	call_mark(c, STAGE_WRITE);
}

/* worker: what has to wait may. HTTP_LATER alone from who is none; nothing has been told or taken
 * then. */
static enum http_outcome run(struct admission *adm, enum metric_hook hook, bool worker,
	struct http_request *req, struct http_reply *reply)
{
	struct call c = {.adm = adm,
		.req = req,
		.hook = hook,
		.may_wait = worker,
		.of_policies = req->route && req->route - admission_routes >= FIRST_OF_POLICIES,
		.s = scratch_take(adm->scratches)};

	if (!c.s) {
		http_reply_text(reply, 500, "out of memory");
		return HTTP_DONE;
	}
	call_begin(&c);
	c.config = adm->deps.source.acquire(adm->deps.source.ctx);
	c.world = (struct mutate_world){
		.config = c.config, .ledger = adm->deps.ledger, .signer = adm->deps.signer};
	use_images(&c);
	use_policies(&c);
	answer(&c, reply);
	if (!c.later)
		call_note(&c, reply->status);
	/* until the reply is queued, the claim is only lent */
	if (c.ticket && reply->status == 200)
		req->user = (void *)(uintptr_t)c.ticket;
	else if (c.ticket)
		adm->deps.ledger->ops->undo(adm->deps.ledger, c.ticket);
	adm->deps.source.release(adm->deps.source.ctx, c.config);
	scratch_give(adm->scratches, c.s);
	return c.later ? HTTP_LATER : HTTP_DONE;
}

enum http_outcome admission_mutate(void *ctx, struct http_request *req, struct http_reply *reply)
{
	return req->body_len > INLINE_BYTES_MAX ? HTTP_LATER
						: run(ctx, HOOK_MUTATE, false, req, reply);
}

enum http_outcome admission_mutate_slow(
	void *ctx, struct http_request *req, struct http_reply *reply)
{
	return run(ctx, HOOK_MUTATE, true, req, reply);
}

enum http_outcome admission_validate(void *ctx, struct http_request *req, struct http_reply *reply)
{
	struct admission *adm = ctx;

	return adm->deps.ledger->may_wait || req->body_len > INLINE_BYTES_MAX
		       ? HTTP_LATER
		       : run(adm, HOOK_VALIDATE, false, req, reply);
}

enum http_outcome admission_validate_slow(
	void *ctx, struct http_request *req, struct http_reply *reply)
{
	return run(ctx, HOOK_VALIDATE, true, req, reply);
}

void admission_queued(void *ctx, struct http_request *req, bool queued)
{
	struct admission *adm = ctx;
	uint64_t ticket = (uint64_t)(uintptr_t)req->user;

	if (ticket == 0)
		return;
	req->user = NULL;
	if (queued && req->status == 200)
		return;
	adm->deps.ledger->ops->undo(adm->deps.ledger, ticket);
	log_line(adm->deps.log, LOG_LEVEL_WARN, "claim taken back: the answer was not sent",
		log_str("peer", req->peer));
}

void admission_done(void *ctx, struct http_request *req)
{
	(void)ctx;
	req->user = NULL;
}

void admission_transport(void *ctx, const char *msg)
{
	const struct admission *a = ctx;

	log_line(a->deps.log, LOG_LEVEL_WARN, "transport", log_str("msg", msg));
}
