/* SPDX-License-Identifier: Apache-2.0 */
/* edge: what is told of a review: its time, its counts, its line in the log, its place among the
 * last decisions. */
#include "webhook/edge/admission/admission_impl.h"

void call_begin(struct call *c)
{
	for (int i = 0; i < METRIC_STAGES; i++)
		c->took_us[i] = -1;
	c->mark_us = c->req->whole_us;
	call_mark(c, STAGE_WAIT);
}

void call_mark(struct call *c, enum metric_stage stage)
{
	int64_t now = http_now_us();

	c->took_us[stage] = now - c->mark_us;
	c->mark_us = now;
}

static void count_call(const struct call *c)
{
	struct metrics *m = c->adm->deps.metrics;

	metric_add3(m, M_REVIEWS, c->hook, c->result,
		c->readable ? (size_t)c->review.operation : OPERATION_NONE, 1);
	if (c->result == RESULT_REFUSED)
		metric_add(m, M_REFUSALS, c->hook, metric_reason(c->answer.reason), 1);
	metric_observe(m, M_REVIEW_SECONDS, c->hook, 0, c->mark_us - c->req->whole_us);
	for (size_t i = 0; i < METRIC_STAGES; i++)
		if (c->took_us[i] >= 0)
			metric_observe(m, M_STAGE_SECONDS, c->hook, i, c->took_us[i]);
}

/* The pod's, or how the one begins that the API server will make up. */
static struct slice pod_name(const struct call *c)
{
	const struct review *r = &c->review;
	struct slice name = r->name;

	if (name.len == 0)
		name = json_str(
			r->j, json_path(r->j, r->object, "metadata", "name", NULL), &c->s->arena);
	if (name.len == 0)
		name = json_str(r->j, json_path(r->j, r->object, "metadata", "generateName", NULL),
			&c->s->arena);
	return name;
}

/* Names, and words of ours. Of a pod's values refusals quote figures, names and our own
 * annotations; of a command, of a variable nothing. */
static void remember(const struct call *c)
{
	const struct review *r = &c->review;
	struct slice message = slice_of(c->note);

	if (c->result == RESULT_REFUSED)
		message = c->answer.message;
	else if (c->result == RESULT_FAILED)
		message = slice_of(c->err.msg);
	else if (c->result == RESULT_CLAIMED)
		message = c->answer.audit_claim;
	decisions_add(c->adm->deps.decisions,
		&(struct decision_note){.hook = c->hook,
			.operation = r->operation,
			.result = c->result,
			.dry_run = r->dry_run,
			.kind = r->kind,
			.namespace = r->namespace,
			.name = pod_name(c),
			.reason = c->result == RESULT_REFUSED ? c->answer.reason : NULL,
			.message = message});
}

static void log_call(const struct call *c, unsigned status)
{
	const struct review *r = &c->review;
	const struct log *log = c->adm->deps.log;
	bool bad = c->result == RESULT_UNREADABLE || c->result == RESULT_FAILED;
	enum log_level level = bad ? LOG_LEVEL_WARN : LOG_LEVEL_INFO;

	if (!log_on(log, level))
		return;
	if (!c->readable) {
		log_line(log, level, "unreadable review",
			log_str("hook", c->hook == HOOK_MUTATE ? "mutate" : "validate"),
			log_int("status", (int64_t)status), log_str("why", c->err.msg),
			log_str("path", c->err.path), log_str("peer", c->req->peer),
			log_int("bytes", (int64_t)c->req->body_len));
		return;
	}
	log_line(log, level, "review",
		log_str("hook", c->hook == HOOK_MUTATE ? "mutate" : "validate"),
		log_str("result", metric_result_name(c->result)),
		log_str("operation", metric_operation_name(r->operation)),
		log_slice("kind", r->kind),
		log_slice("subresource", r->subresource.len ? r->subresource : (struct slice){0}),
		log_slice("namespace", r->namespace), log_slice("name", r->name),
		log_slice("uid", r->uid), log_bool("dryRun", r->dry_run),
		log_str("reason", c->answer.allowed ? NULL : c->answer.reason),
		log_slice("message", c->answer.message), log_str("note", c->note),
		log_slice("plan", c->answer.audit_plan), log_slice("claim", c->answer.audit_claim),
		log_int("status", (int64_t)status),
		log_int("ms", http_now_ms() - c->req->received_ms));
}

void call_note(const struct call *c, unsigned status)
{
	count_call(c);
	if (c->readable)
		remember(c);
	log_call(c, status);
}
