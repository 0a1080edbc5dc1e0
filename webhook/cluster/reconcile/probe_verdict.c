/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what becomes of an answer of a probe or a gate, or of none, in the server's status. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/rfc3339.h"
#include "webhook/cluster/reconcile/probe_poll_impl.h"
#include "webhook/core/server/server_keep.h"

#define EDIT_MS 5000
#define WORDS_ARENA_MAX ((size_t)4 << 20)

static bool same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* Messages of failures differ in every millisecond that they name: the first one stays. */
static bool says_so(
	const struct poll_kind *kind, const struct condition *c, const struct verdict *v)
{
	return c && same(c->status, kind->bad) &&
	       (v->aged_ms ? !same(c->reason, kind->heard)
			   : same(c->reason, v->reason) && !same(c->message, kind->aged));
}

static enum edit_result write_verdict(
	void *ctx, struct server_object *o, bool again, struct arena *a, struct err *err)
{
	struct verdict *v = ctx;
	const struct poll_kind *kind = v->poll->cfg.kind;
	const struct condition *c = server_status_condition(&o->status, kind->condition);
	bool changed;

	(void)again;
	/* another server by now, or another end */
	if (!probe_target_is(kind, v->target, o))
		return EDIT_SAME;
	if (!v->answer && says_so(kind, c, v))
		return EDIT_SAME;
	/* it has answered after all, and that answer comes after us or came before */
	if (v->aged_ms && atomic_load(&v->target->good_ms) != v->aged_ms)
		return EDIT_SAME;
	changed = kind->write(v, o, a);
	changed = server_keep_status(o, v->now, a) || changed;
	if (a->failed) {
		err_set(err, ERR_NOMEM, "out of memory");
		return EDIT_GIVE_UP;
	}
	return changed ? EDIT_CHANGED : EDIT_SAME;
}

static void tell(const struct verdict *v)
{
	const struct poll_kind *kind = v->poll->cfg.kind;
	bool good = v->answer != NULL;

	if (atomic_exchange(&v->target->told, !good) == !good)
		return;
	log_line(v->poll->cfg.log, good ? LOG_LEVEL_INFO : LOG_LEVEL_WARN,
		good ? kind->back : kind->lost, log_str("server", v->target->name),
		log_str("why", v->message));
}

/* Written, and what follows is told. */
static int commit(struct probe_poll *p, struct target *t, struct verdict *v)
{
	struct err err = {0};
	int rc;

	v->poll = p;
	v->target = t;
	arena_init_small(&v->arena, WORDS_ARENA_MAX, 1024);
	rfc3339_write(clock_wall_ms(), v->now);
	tell(v);
	rc = servers_edit(p->cfg.servers, t->name, write_verdict, v, clock_ms() + EDIT_MS, &err);
	if (rc != 0 && rc != ERR_NOTFOUND)
		log_line(p->cfg.log, LOG_LEVEL_WARN, "status of a server cannot be written",
			log_str("server", t->name), log_str("error", err.msg));
	if (rc == 0 && !v->aged_ms && p->cfg.kind->tell)
		p->cfg.kind->tell(p, v);
	arena_release(&v->arena);
	return rc;
}

/* Rule R17: what is said of an answer that is too old, until a question that fails says more. */
bool probe_aged(struct probe_poll *p, struct target *t, int64_t good_ms)
{
	struct verdict v = {
		.reason = FRESH_NO_ANSWER, .message = p->cfg.kind->aged, .aged_ms = good_ms};
	int rc = commit(p, t, &v);

	return rc == 0 || rc == ERR_NOTFOUND;
}

void probe_failed(struct probe_poll *p, struct target *t, const struct err *why)
{
	char message[sizeof(why->msg) + sizeof(why->path) + 4];
	struct verdict v = {.reason = FRESH_NO_ANSWER, .message = message};
	bool kept;

	metric_add(p->cfg.metrics, p->cfg.kind->polls, PROBE_FAILED, 0, 1);
	t->failures += t->failures < UINT_MAX;
	/* Not even asked, and trying again changes nothing. */
	kept = strcmp(why->reason, FRESH_TOKEN_KEPT) == 0 ||
	       strcmp(why->reason, FRESH_SECRET_KEPT) == 0;
	if (!kept && t->failures < PROBE_FAILURES_MAX &&
		clock_ms() - atomic_load(&t->good_ms) < p->cfg.stale_after_ms)
		return;
	if (kept || strcmp(why->reason, FRESH_SECRET_MISSING) == 0)
		v.reason = why->reason;
	snprintf(message, sizeof(message), "%s%s%s", why->path, why->path[0] ? ": " : "", why->msg);
	(void)commit(p, t, &v);
}

void probe_answered(struct probe_poll *p, struct target *t, const void *answer)
{
	char message[VERDICT_MESSAGE];
	struct verdict v = {.answer = answer, .message = message};

	t->failures = 0;
	p->cfg.kind->judge(&v, message);
	metric_add(p->cfg.metrics, p->cfg.kind->polls, v.result, 0, 1);
	if (v.answer)
		atomic_store(&t->good_ms, clock_ms());
	(void)commit(p, t, &v);
}
