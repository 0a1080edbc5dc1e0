/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: who is let go (laws W3, W5 of waiting): each pod whose turn the queue says it is gets
 * its claim, written as any other claim is, all of a gang or none. The gate falls afterwards, when
 * the claim stands (claims_place.c). The others are told why they wait (law W9): a condition of
 * the pod, which its owner may read, and an Event where the reason is another one. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/json/json_number.h"
#include "base/rfc3339.h"
#include "webhook/cluster/claims/claims_queue_impl.h"
#include "webhook/core/pod/late.h"
#include "webhook/edge/metrics/metrics.h"

/* ---- who is let go ---- */

#define SCRATCH_MAX (1u << 20)
#define SCRATCH_USUAL 2048
/* Claims that one round writes: the next is not far. */
#define STARTS_MAX 256
/* From a cap that is full to a round in which nothing is decided for those who stand behind it. */
#define BARRED_MS 50

struct starting {
	struct adoption a;
	const struct pod_waiting *pod;
	struct starting *next; /* of its gang */
	bool *started;
	size_t place; /* in the order of the queue, where a cap leaves some of it to others; 0: it
			 does not */
	int rc;
	struct err err;
};

static int start_gang(struct starting *first, struct err *err)
{
	struct adoption **members;
	size_t n = 0;

	for (const struct starting *s = first; s; s = s->next)
		n++;
	members = arena_array(&first->a.arena, n, sizeof(struct adoption *));
	if (!members)
		return err_set(err, ERR_NOMEM, "out of memory for the claims of a gang");
	n = 0;
	for (struct starting *s = first; s; s = s->next)
		members[n++] = &s->a;
	return gang_write(members, n, err);
}

static void start_one(void *ctx, size_t i)
{
	struct queueing *q = ctx;
	struct starting *first = q->units[i];
	int rc;

	if (duty_stopping(q->c->self))
		rc = err_set(&first->err, ERR_TIMEOUT, "this replica does not lead any more");
	else if (first->next)
		rc = start_gang(first, &first->err);
	else
		rc = adopt_write(&first->a, &first->err);
	for (struct starting *s = first; s; s = s->next) {
		s->rc = rc;
		s->err = first->err;
	}
}

static void settle(struct queueing *q, const struct starting *s)
{
	const struct claims_config *cfg = q->c->cfg;
	const struct holder *h = s->a.who;
	int64_t waited = clock_wall_ms() - s->pod->pod.since_ms;

	if (s->rc == 0) {
		q->n_started++;
		*s->started = true;
		metric_observe(cfg->metrics, M_WAIT_SECONDS, 0, 0, waited > 0 ? waited * 1000 : 0);
		log_line(cfg->log, LOG_LEVEL_INFO, "pod has its turn", log_str("uid", h->uid),
			log_str("namespace", h->namespace), log_str("name", h->name),
			log_str("server", s->a.servers[0]), log_int("waited_ms", waited));
		return;
	}
	if (s->rc == ERR_REFUSED) {
		q->refused = true;
		claims_bar(q->c, h->namespace, s->err.msg);
		claims_until(q->c, clock_ms() + BARRED_MS);
		return;
	}
	/* Somebody else has taken it: the next round decides on what is left. */
	if (s->rc == ERR_CONFLICT)
		claims_until(q->c, clock_ms());
	else
		log_line(cfg->log, LOG_LEVEL_WARN, "pod cannot be given its claim yet",
			log_str("uid", h->uid), log_str("namespace", h->namespace),
			log_str("name", h->name), log_str("error", s->err.msg));
}

/* The unit of a gang's other members; NULL: it is the first of it, or goes alone. */
static struct starting *unit_of(const struct queueing *q, const struct queue_pod *pod)
{
	for (size_t i = 0; pod->gang.at && pod->gang_let_go == 0 && i < q->n_units; i++) {
		const struct queue_pod *first = &q->units[i]->pod->pod;

		if (first->gang.at && slice_eq(first->namespace, pod->namespace) &&
			queue_compare_gang(first, pod) == 0)
			return q->units[i];
	}
	return NULL;
}

/* By the queue's order where there are caps, else by server. */
static int by_turn(const void *a, const void *b)
{
	const struct starting *const *x = a, *const *y = b;
	size_t first = (*x)->a.where.servers[0], second = (*y)->a.where.servers[0];

	if ((*x)->place != (*y)->place)
		return (*x)->place < (*y)->place ? -1 : 1;
	return (first > second) - (first < second);
}

static bool is_capped(const struct queueing *q, const struct queue_pod *pod)
{
	return q->capped && q->capped[pod - q->pods];
}

/* Has it, or one of its gang, a part of a claim that could not be taken back yet? It begins when
 * that is gone. */
static bool is_half(const struct queueing *q, size_t i)
{
	const struct queue_pod *pod = &q->pods[i];

	for (size_t k = 0; q->n_halves > 0 && k < q->n; k++)
		if (q->who[k]->n_records > 0 &&
			(k == i || (pod->gang.at && q->pods[k].gang.at &&
					   slice_eq(q->pods[k].namespace, pod->namespace) &&
					   queue_compare_gang(&q->pods[k], pod) == 0)))
			return true;
	return false;
}

/* Who starts, in the queue's order. NULL: out of memory. */
static size_t *by_place(struct queueing *q)
{
	size_t *order = arena_array(&q->arena, q->round.n_start, sizeof(*order));

	for (size_t i = 0; order && i < q->n; i++)
		if (q->round.entries[i].verdict == QUEUE_START)
			order[q->round.entries[i].place - 1] = i;
	return order;
}

/* Claims of gangs say what each of them asks; those of who begins, what all of these do. */
static void note_begun(struct queueing *q)
{
	struct gpu largest = queue_largest(&q->pool.inventory);

	for (size_t i = 0; i < q->n_units; i++) {
		bool begins = q->units[i]->a.began.size && !q->units[i]->a.began.bytes;
		uint64_t bytes = 0;

		for (struct starting *s = q->units[i]; s; s = s->next) {
			struct gang_began *of = &s->a.began;

			of->like = begins ? largest.bytes : of->like;
			of->asks = of->key ? queue_size_in(&s->pod->demand, of, &largest) : 0;
			bytes = of->asks < JSON_INT_MAX - bytes ? bytes + of->asks : JSON_INT_MAX;
		}
		for (struct starting *s = q->units[i]; s && begins; s = s->next)
			s->a.began.bytes = bytes;
	}
}

/* All members of a gang, or none. Server by server: edits that wait for the same one share a
 * write; but where there are caps, who has what they leave is not for a server's name to say. */
void start_all(struct queueing *q)
{
	const struct slice nobody = {0};
	const size_t *order = by_place(q);

	q->starts = arena_array(&q->arena, q->round.n_start, sizeof(*q->starts));
	q->units = arena_array(&q->arena, q->round.n_start, sizeof(struct starting *));
	q->started = arena_array(&q->arena, q->n, sizeof(*q->started));
	for (size_t k = 0; !q->arena.failed && k < q->round.n_start; k++) {
		struct starting *s = &q->starts[q->n_starts], *first;
		size_t i = order[k], before = q->round.entries[i].before;

		first = unit_of(q, &q->pods[i]);
		if (!first && q->n_starts >= STARTS_MAX) {
			claims_until(q->c, clock_ms());
			continue;
		}
		if (is_half(q, i))
			continue;
		*s = (struct starting){.pod = q->list[i],
			.next = first ? first->next : NULL,
			.started = &q->started[i],
			.place = is_capped(q, &q->pods[i]) ? k + 1 : 0,
			.a = {.c = q->c,
				.who = q->who[i],
				.turn = true,
				.behind = before == SIZE_MAX ? nobody : q->pods[before].uid,
				.kept = &q->kept,
				.grace_s = q->list[i]->grace_s,
				.plan_hash = q->list[i]->plan_hash,
				.began = q->pods[i].gang_began,
				.pool.inventory = q->pool.inventory,
				.where = q->round.entries[i].where}};
		arena_init_small(&s->a.arena, SCRATCH_MAX, SCRATCH_USUAL);
		q->n_starts++;
		if (first)
			first->next = s;
		else
			q->units[q->n_units++] = s;
	}
	note_begun(q);
	if (q->n_units)
		qsort(q->units, q->n_units, sizeof(struct starting *), by_turn);
	run_side_by_side(q->n_units, start_one, q);
	for (size_t i = 0; i < q->n_starts; i++) {
		settle(q, &q->starts[i]);
		arena_release(&q->starts[i].a.arena);
	}
}

/* ---- why the others wait ---- */

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
	struct buf body;
	const struct kube_call call = {.method = "PATCH",
		.at = {"/api/v1", h->namespace, "pods", h->name, "status"},
		.content_type = KUBE_STRATEGIC_PATCH,
		.text = &body,
		.timeout_ms = CLAIMS_CALL_MS};
	int rc;

	buf_init(&body, BODY_BYTES);
	write_body(pod, !pod->said.at && !h->rest->why_reason, v == QUEUE_START, reason_of(v), text,
		&body);
	rc = kube_do(c->cfg->kube, &call, NULL, err);
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
}
