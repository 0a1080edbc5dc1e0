/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: tells pods that wait for their turn why (law W9 of waiting): a condition of the pod,
 * which its owner may read, and an Event where the reason is another one. */
#include <stdio.h>

#include "base/clock.h"
#include "base/rfc3339.h"
#include "webhook/cluster/claims/claims_queue_impl.h"
#include "webhook/core/pod/late.h"

#define PATH_BYTES 2048
#define BODY_BYTES 8192
#define WHY_BYTES 900
/* Of one round: the next tells more. Nobody is told anything twice within this. */
#define TOLD_MAX 16
#define AGAIN_MS 10000

static const char *reason_of(enum queue_verdict v)
{
	switch (v) {
	case QUEUE_START:
		return "HasItsTurn";
	case QUEUE_NO_ROOM:
		return "NoCapacity";
	case QUEUE_KEPT:
		return "KeptForAnother";
	case QUEUE_FOREIGN:
		return "OtherGate";
	case QUEUE_BARRED:
		return "PolicyBound";
	case QUEUE_INCOMPLETE:
		return "GangIncomplete";
	case QUEUE_UNEVEN:
		return "GangUneven";
	case QUEUE_NEVER:
		return "NeverFits";
	case QUEUE_LATER:
	default:
		return "BehindOthers";
	}
}

/* 1, 2 and 3, 4 to 7, …: one who moves up among many is not told each step. */
static uint8_t class_of(size_t place)
{
	return place ? (uint8_t)(64 - __builtin_clzll((unsigned long long)place)) : 0;
}

/* Has that pod to be told what was decided? */
static bool is_due(struct holder *h, const struct pod_waiting *pod, const struct queue_entry *e)
{
	const char *reason = reason_of(e->verdict);

	/* Who has its turn is told so where it was told that it waits. */
	if (e->verdict == QUEUE_START)
		return pod->said.at || h->rest->why_reason;
	if (clock_ms() < h->rest->why_again_ms)
		return false;
	if (h->rest->why_reason)
		return (strcmp(h->rest->why_reason, reason) != 0 ||
			       h->rest->why_class != class_of(e->place)) &&
		       clock_ms() >= h->rest->why_ms + AGAIN_MS;
	if (!slice_is(pod->said, reason))
		return true;
	/* Another leader has said it. */
	h->rest->why_reason = reason;
	h->rest->why_class = class_of(e->place);
	return false;
}

static void write_body(const struct pod_waiting *pod, bool first, bool yes, const char *reason,
	struct slice text, struct buf *out)
{
	char now[RFC3339_SIZE];

	rfc3339_write(clock_wall_ms(), now);
	buf_str(out, "{\"metadata\":{\"uid\":");
	buf_json_str(out, pod->pod.uid);
	buf_str(out, "},\"status\":{\"conditions\":[{\"type\":\"" LATE_CONDITION "\",\"status\":");
	buf_str(out, yes ? "\"True\"" : "\"False\"");
	/* of the status, not of its reason */
	if (first || yes)
		buf_fmt(out, ",\"lastTransitionTime\":\"%s\"", now);
	buf_fmt(out, ",\"reason\":\"%s\",\"message\":", reason);
	buf_json_str(out, text);
	buf_str(out, "}]}}");
}

static int write_condition(struct claims *c, const struct holder *h, const struct pod_waiting *pod,
	enum queue_verdict v, struct slice text, struct err *err)
{
	struct buf path, body;
	struct kube_call call = {.method = "PATCH",
		.content_type = KUBE_STRATEGIC_PATCH,
		.timeout_ms = CLAIMS_CALL_MS};
	int rc;

	buf_init(&path, PATH_BYTES);
	buf_init(&body, BODY_BYTES);
	kube_path(&path, "/api/v1", h->namespace, "pods", h->name, "status");
	write_body(pod, !pod->said.at && !h->rest->why_reason, v == QUEUE_START, reason_of(v), text,
		&body);
	call.path = path.data;
	call.body = buf_as_slice(&body);
	rc = path.failed || body.failed ? err_set(err, ERR_NOMEM, "out of memory for a condition")
					: kube_do(c->cfg->kube, &call, NULL, err);
	buf_release(&path);
	buf_release(&body);
	return rc;
}

/* In the condition and, where the reason is another, in an Event. Any thread; a holder by one. */
static void tell(struct claims *c, struct holder *h, const struct pod_waiting *pod,
	const struct queue_entry *e, const char *text)
{
	const char *reason = reason_of(e->verdict);
	bool other = !h->rest->why_reason ? !slice_is(pod->said, reason)
					  : strcmp(h->rest->why_reason, reason) != 0;
	struct kube_event event = {.api_version = "v1",
		.kind = "Pod",
		.namespace = slice_of(h->namespace),
		.name = slice_of(h->name),
		.uid = slice_of(h->uid),
		.type = "Normal",
		.reason = "WaitsForGPUs",
		.note = text,
		.component = "poolgate"};
	struct err err = {0};
	int rc = write_condition(c, h, pod, e->verdict, slice_of(text), &err);
	bool away = rc == ERR_IO || rc == ERR_TIMEOUT;

	if (rc < 0 && !kube_says_gone(rc, &err) && !h->rest->why_again_ms)
		log_line(c->cfg->log, LOG_LEVEL_WARN, "pod cannot be told why it waits",
			log_str("uid", h->uid), log_str("namespace", h->namespace),
			log_str("name", h->name), log_str("error", err.msg));
	h->rest->why_again_ms = away ? clock_ms() + CLAIMS_AWAY_MS : 0;
	if (away)
		return;
	/* Whoever may not write it says it by the Event alone. */
	if (other && e->verdict != QUEUE_START)
		(void)kube_tell(c->cfg->kube, &event, NULL);
	h->rest->why_reason = reason;
	h->rest->why_class = class_of(e->place);
	h->rest->why_ms = clock_ms();
}

struct telling {
	struct queueing *q;
	size_t *who;
	char (*text)[WHY_BYTES];
	size_t n;
};

static void tell_one(void *ctx, size_t i)
{
	struct telling *t = ctx;
	size_t at = t->who[i];

	if (!duty_stopping(t->q->c->self))
		tell(t->q->c, t->q->who[at], t->q->list[at], &t->q->round.entries[at], t->text[i]);
}

/* Few in a round: the next one waits for it. */
void why_tell(struct queueing *q)
{
	struct telling t = {.q = q};
	size_t waiting = 0, most = q->n_starts + TOLD_MAX;
	struct buf b;

	t.who = arena_array(&q->arena, most, sizeof(*t.who));
	t.text = arena_array(&q->arena, most, sizeof(*t.text));
	if (q->arena.failed)
		return;
	for (size_t i = 0; i < q->n; i++) {
		bool has = q->round.entries[i].verdict == QUEUE_START;

		if ((has ? !q->started[i] : !q->words || waiting == TOLD_MAX) ||
			!is_due(q->who[i], q->list[i], &q->round.entries[i]))
			continue;
		waiting += !has;
		buf_init(&b, WHY_BYTES);
		queue_say(&q->world, q->pods, q->n, &q->round, i, &b);
		(void)snprintf(t.text[t.n], WHY_BYTES, "%s", b.data ? b.data : "");
		buf_release(&b);
		t.who[t.n++] = i;
	}
	run_side_by_side(t.n, tell_one, &t);
	if (waiting == TOLD_MAX)
		claims_until(q->c, clock_ms() + WHY_EVERY_MS);
}
