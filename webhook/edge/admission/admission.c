/* SPDX-License-Identifier: Apache-2.0 */
/* edge: answer reviews: read the bytes, let the core decide, write the reply. */
#include "webhook/edge/admission/admission_impl.h"

#include <stdlib.h>

/* A reply's size beside its patch, so that it takes one allocation. */
#define REPLY_SLACK 1024
#define REPLY_MAX (32U * 1024 * 1024)
/* What is larger is read and decided on a worker: a review costs as many instructions as it has
 * bytes, and the I/O thread is everybody's. */
#define INLINE_BYTES_MAX (64 * 1024)

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
		rc = call_decide(c);
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
	call_use_sources(&c);
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
