// SPDX-License-Identifier: Apache-2.0
// cluster: what becomes of a probe's answer, or of none: GPUs and conditions in the server's
// status.
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/rfc3339.h"
#include "webhook/cluster/reconcile/probe_poll_impl.h"
#include "webhook/core/server/server_keep.h"
#include "webhook/edge/metrics/metrics.h"

#define EDIT_MS 5000
/* Rule R17: what is said of an answer that is too old, until a question that fails says more. */
#define AGED "the probe has given no good answer lately"

static bool same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

struct verdict {
	const struct target *target;
	const struct probe_inventory *inventory; /* NULL: none that counts */
	const char *reason, *message;
	int64_t aged_ms; /* it counts if no good answer has come since then; 0: it counts */
	char now[32];
};

/* Messages of failures differ in every millisecond that they name: the first one stays. */
static bool says_so(const struct condition *c, const struct verdict *v)
{
	return c && same(c->status, "False") &&
	       (v->aged_ms || (same(c->reason, v->reason) && !same(c->message, AGED)));
}

static enum edit_result write_verdict(
	void *ctx, struct server_object *o, bool again, struct arena *a, struct err *err)
{
	const struct verdict *v = ctx;
	const struct condition *c = server_status_condition(&o->status, SERVER_FRESH);
	bool changed = false;

	(void)again;
	/* another server by now, or another probe */
	if (!probe_target_is(v->target, o))
		return EDIT_SAME;
	if (!v->inventory && says_so(c, v))
		return EDIT_SAME;
	/* it has answered after all, and that answer comes after us or came before */
	if (v->aged_ms && atomic_load(&v->target->good_ms) != v->aged_ms)
		return EDIT_SAME;
	if (v->inventory)
		changed = server_status_from_probe(o, v->inventory, a);
	changed = server_keep_fresh(o, v->inventory != NULL, v->reason, v->message, v->now, a) ||
		  changed;
	changed = server_keep_status(o, v->now, a) || changed;
	if (a->failed) {
		err_set(err, ERR_NOMEM, "out of memory");
		return EDIT_GIVE_UP;
	}
	return changed ? EDIT_CHANGED : EDIT_SAME;
}

static void tell(const struct probe_poll *p, struct target *t, bool fresh, const char *message)
{
	if (atomic_exchange(&t->told, !fresh) == !fresh)
		return;
	log_line(p->cfg.log, fresh ? LOG_LEVEL_INFO : LOG_LEVEL_WARN,
		fresh ? "probe answers again" : "server's GPUs are not known to be fit",
		log_str("server", t->name), log_str("why", message));
}

static int commit(const struct probe_poll *p, struct target *t, struct verdict *v)
{
	struct err err = {0};
	int rc;

	v->target = t;
	rfc3339_write(clock_wall_ms(), v->now);
	tell(p, t, v->inventory != NULL, v->message);
	rc = servers_edit(p->cfg.servers, t->name, write_verdict, v, clock_ms() + EDIT_MS, &err);
	if (rc != 0 && rc != ERR_NOTFOUND)
		log_line(p->cfg.log, LOG_LEVEL_WARN, "status of a server cannot be written",
			log_str("server", t->name), log_str("error", err.msg));
	return rc;
}

bool probe_aged(const struct probe_poll *p, struct target *t, int64_t good_ms)
{
	struct verdict v = {.reason = FRESH_NO_ANSWER, .message = AGED, .aged_ms = good_ms};
	int rc = commit(p, t, &v);

	return rc == 0 || rc == ERR_NOTFOUND;
}

void probe_failed(const struct probe_poll *p, struct target *t, const struct err *why)
{
	char message[sizeof(why->msg) + sizeof(why->path) + 4];
	struct verdict v = {.reason = FRESH_NO_ANSWER, .message = message};
	bool kept;

	metric_add(p->cfg.metrics, M_PROBE_POLLS, PROBE_FAILED, 0, 1);
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

void probe_answered(const struct probe_poll *p, struct target *t, const struct probe_inventory *inv)
{
	char message[128 + PROBE_TROUBLE_MAX];
	const char *colon = *inv->trouble ? ": " : "";
	struct verdict v = {.inventory = inv, .reason = FRESH_ANSWERED, .message = message};

	snprintf(message, sizeof(message), "the probe answers%s%s", colon, inv->trouble);
	t->failures = 0;
	if (probe_inventory_fresh(inv)) {
		metric_add(p->cfg.metrics, M_PROBE_POLLS, PROBE_ANSWERED, 0, 1);
		atomic_store(&t->good_ms, clock_ms());
	} else {
		metric_add(p->cfg.metrics, M_PROBE_POLLS, PROBE_STALE, 0, 1);
		v.inventory = NULL;
		v.reason = FRESH_STALE;
		if (inv->state == PROBE_UNKNOWN)
			snprintf(message, sizeof(message), "the probe itself knows no verdict%s%s",
				colon, inv->trouble);
		else
			snprintf(message, sizeof(message),
				"the probe's last verdicts are older than its own limit of %lld "
				"s%s%s",
				(long long)inv->stale_after_s, colon, inv->trouble);
	}
	(void)commit(p, t, &v);
}
