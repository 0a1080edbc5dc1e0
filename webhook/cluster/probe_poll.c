/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the leader's duty that asks the probes of GPU servers. A few threads take the probe that is due next from one table. */
#include "webhook/cluster/probe_poll.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "webhook/cluster/duty.h"
#include "webhook/cluster/probe_ask.h"
#include "webhook/core/server_keep.h"
#include "webhook/edge/metrics.h"

#define EVERY_MS 10000
#define TIMEOUT_MS 3000
#define STALE_AFTER_MS 30000
#define AT_ONCE 8u
#define AT_ONCE_MAX 64u
#define FAILURES_MAX 3
#define EDIT_MS 5000
/* No longer than this until somebody looks for servers that are new. */
#define LOOK_MS 1000
#define ARENA_MAX_BYTES ((size_t)16 << 20)

/* A server with a probe. */
struct target {
	struct target *next;
	char *name, *uid, *url, *ca_secret, *token_secret;
	int64_t due_ms,
		good_ms;   /* CLOCK_MONOTONIC: next question; last good answer, or when we began */
	unsigned failures; /* in a row */
	bool busy;         /* somebody asks it: that thread's alone but for `there` */
	bool there;        /* in the picture */
	bool told;         /* that it is not fresh */
};

struct probe_poll {
	struct probe_poll_config cfg; /* defaults filled in */
	struct probe_secrets *secrets;
	struct duty **workers;
	unsigned n_workers;
	atomic_bool stopping;
	pthread_mutex_t lock;
	/* Guarded by lock: */
	struct target *first;
	bool changed; /* the picture, since it was looked at */
	int64_t looked_ms;
};

/* ---- the table; all with the lock held ---- */

static void target_free(struct target *t)
{
	free(t->name);
	free(t->uid);
	free(t->url);
	free(t->ca_secret);
	free(t->token_secret);
	free(t);
}

static char *copy(const char *s, bool *ok)
{
	char *c = s ? strdup(s) : NULL;

	*ok = *ok && (c || !s);
	return c;
}

static bool same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool is_target(const struct target *t, const struct server_object *o)
{
	return same(t->uid, o->uid) && same(t->url, o->probe_url) &&
	       same(t->ca_secret, o->probe_ca_secret) &&
	       same(t->token_secret, o->probe_token_secret);
}

/* A server that is new, or whose probe is another now, is asked at once. Without memory the next look tries again. */
static bool note(void *ctx, const struct server_object *o)
{
	struct probe_poll *p = ctx;
	struct target *t = p->first;
	bool ok = true;

	if (!o->probe_url)
		return true;
	while (t && !is_target(t, o))
		t = t->next;
	if (t) {
		t->there = true;
		return true;
	}
	t = calloc(1, sizeof(*t));
	if (!t)
		return true;
	t->name = copy(o->name, &ok);
	t->uid = copy(o->uid, &ok);
	t->url = copy(o->probe_url, &ok);
	t->ca_secret = copy(o->probe_ca_secret, &ok);
	t->token_secret = copy(o->probe_token_secret, &ok);
	if (!ok) {
		target_free(t);
		return true;
	}
	t->due_ms = t->good_ms = clock_now_ms();
	t->there = true;
	t->next = p->first;
	p->first = t;
	return true;
}

static void look(struct probe_poll *p)
{
	int64_t now = clock_now_ms();

	if (!servers_synced(p->cfg.servers) || (!p->changed && now - p->looked_ms < LOOK_MS))
		return;
	/* each claim changes the picture */
	if (p->changed && now - p->looked_ms < LOOK_MS / 4)
		return;
	p->changed = false;
	p->looked_ms = now;
	for (struct target *t = p->first; t; t = t->next)
		t->there = false;
	servers_each(p->cfg.servers, note, p);
	for (struct target **at = &p->first, *t; (t = *at);) {
		if (t->there || t->busy) {
			at = &t->next;
		} else {
			*at = t->next;
			target_free(t);
		}
	}
}

static struct target *next_due(struct probe_poll *p)
{
	struct target *best = NULL;

	for (struct target *t = p->first; t; t = t->next)
		if (t->there && !t->busy && (!best || t->due_ms < best->due_ms))
			best = t;
	return best;
}

/* Each server has its own moment of the round, by its name, so that what began at once does not stay so. */
static int64_t moment(const struct target *t, int64_t every_ms, int64_t asked_ms)
{
	int64_t phase = (int64_t)(text_hash64(slice_of(t->name)) % (uint64_t)every_ms);
	int64_t at = asked_ms - asked_ms % every_ms + phase;

	while (at < asked_ms + (every_ms + 1) / 2)
		at += every_ms;
	return at;
}

/* ---- what becomes of a question ---- */

struct verdict {
	const struct target *target;
	const struct probe_inventory *inventory; /* NULL: none that counts */
	const char *reason, *message;
	char now[32];
};

static enum edit_result write_verdict(
	void *ctx, struct server_object *o, bool again, struct arena *a, struct err *err)
{
	const struct verdict *v = ctx;
	const struct condition *c = server_status_condition(&o->status, SERVER_FRESH);
	bool changed = false;

	(void)again;
	/* another server by now, or another probe */
	if (!is_target(v->target, o))
		return EDIT_SAME;
	/* messages of failures differ in every millisecond that they name: the first one stays */
	if (!v->inventory && c && same(c->status, "False") && same(c->reason, v->reason))
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
	if (fresh != t->told)
		return;
	t->told = !fresh;
	log_line(p->cfg.log, fresh ? LOG_LEVEL_INFO : LOG_LEVEL_WARN,
		fresh ? "probe answers again" : "server's GPUs are not known to be fit",
		log_str("server", t->name), log_str("why", message));
}

static void commit(const struct probe_poll *p, struct target *t, struct verdict *v)
{
	struct err err = {0};
	int rc;

	v->target = t;
	server_time_write(clock_wall_ms(), v->now);
	tell(p, t, v->inventory != NULL, v->message);
	rc = servers_edit(
		p->cfg.servers, t->name, write_verdict, v, clock_now_ms() + EDIT_MS, &err);
	if (rc != 0 && rc != ERR_NOTFOUND)
		log_line(p->cfg.log, LOG_LEVEL_WARN, "status of a server cannot be written",
			log_str("server", t->name), log_str("error", err.msg));
}

static void failed(const struct probe_poll *p, struct target *t, const struct err *why)
{
	char message[sizeof(why->msg) + sizeof(why->path) + 4];
	struct verdict v = {.reason = FRESH_NO_ANSWER, .message = message};

	metric_add(p->cfg.metrics, M_PROBE_POLLS, PROBE_FAILED, 0, 1);
	t->failures += t->failures < FAILURES_MAX;
	/* Not even asked, and trying again changes nothing. */
	if (strcmp(why->reason, FRESH_TOKEN_KEPT) == 0 ||
		strcmp(why->reason, FRESH_SECRET_KEPT) == 0)
		v.reason = why->reason;
	else if (t->failures < FAILURES_MAX && clock_now_ms() - t->good_ms < p->cfg.stale_after_ms)
		return;
	snprintf(message, sizeof(message), "%s%s%s", why->path, why->path[0] ? ": " : "", why->msg);
	commit(p, t, &v);
}

static void answered(
	const struct probe_poll *p, struct target *t, const struct probe_inventory *inv)
{
	char message[128];
	struct verdict v = {
		.inventory = inv, .reason = FRESH_ANSWERED, .message = "the probe answers"};

	t->failures = 0;
	if (probe_inventory_fresh(inv)) {
		metric_add(p->cfg.metrics, M_PROBE_POLLS, PROBE_ANSWERED, 0, 1);
		t->good_ms = clock_now_ms();
	} else {
		metric_add(p->cfg.metrics, M_PROBE_POLLS, PROBE_STALE, 0, 1);
		v.inventory = NULL;
		v.reason = FRESH_STALE;
		v.message = message;
		if (inv->state == PROBE_UNKNOWN)
			snprintf(message, sizeof(message), "the probe itself knows no verdict");
		else
			snprintf(message, sizeof(message),
				"the probe's last verdicts are older than its own limit of %lld s",
				(long long)inv->stale_after_s);
	}
	commit(p, t, &v);
}

static bool go_on(void *ctx)
{
	struct probe_poll *p = ctx;

	return !atomic_load(&p->stopping);
}

static void ask(struct probe_poll *p, struct target *t)
{
	struct probe_question q = {.url = t->url,
		.ca_secret = t->ca_secret,
		.token_secret = t->token_secret,
		.timeout_ms = p->cfg.timeout_ms,
		.doubtful = t->failures > 0,
		.go_on = go_on,
		.go_on_ctx = p};
	struct probe_inventory inv = {0};
	struct err err = {0};
	struct arena a;
	int rc;

	arena_init(&a, ARENA_MAX_BYTES);
	rc = probe_ask(p->secrets, &q, &a, &inv, &err);
	if (go_on(p)) {
		if (rc == 0)
			answered(p, t, &inv);
		else
			failed(p, t, &err);
	}
	arena_release(&a);
}

/* ---- the duty ---- */

static int64_t tick(void *ctx, struct duty *d)
{
	struct probe_poll *p = ctx;
	int64_t wait = LOOK_MS;

	pthread_mutex_lock(&p->lock);
	while (go_on(p) && !duty_stopping(d)) {
		struct target *t;
		int64_t now = clock_now_ms();

		look(p);
		t = next_due(p);
		if (!t || t->due_ms > now) {
			if (t && t->due_ms - now < wait)
				wait = t->due_ms - now;
			break;
		}
		t->busy = true;
		t->due_ms = moment(t, p->cfg.every_ms, now);
		pthread_mutex_unlock(&p->lock);
		ask(p, t);
		pthread_mutex_lock(&p->lock);
		t->busy = false;
	}
	pthread_mutex_unlock(&p->lock);
	return wait;
}

static void fill_defaults(struct probe_poll_config *c)
{
	if (c->every_ms <= 0)
		c->every_ms = EVERY_MS;
	if (c->timeout_ms <= 0)
		c->timeout_ms = TIMEOUT_MS;
	if (c->stale_after_ms <= 0)
		c->stale_after_ms = STALE_AFTER_MS;
	if (c->at_once == 0)
		c->at_once = AT_ONCE;
	if (c->at_once > AT_ONCE_MAX)
		c->at_once = AT_ONCE_MAX;
}

static void stop(void *running)
{
	struct probe_poll *p = running;

	/* all at once, then each is waited for */
	atomic_store(&p->stopping, true);
	for (unsigned i = 0; i < p->n_workers; i++)
		duty_stop(p->workers[i]);
	for (struct target *t = p->first, *next; t; t = next) {
		next = t->next;
		target_free(t);
	}
	probe_secrets_free(p->secrets);
	pthread_mutex_destroy(&p->lock);
	free(p->workers);
	free(p);
}

static int start(void *ctx, void **ret, struct err *err)
{
	const struct probe_poll_config *cfg = ctx;
	struct probe_poll *p = calloc(1, sizeof(*p));

	if (!p)
		return err_set(err, ERR_NOMEM, "out of memory");
	p->cfg = *cfg;
	fill_defaults(&p->cfg);
	pthread_mutex_init(&p->lock, NULL);
	p->secrets = probe_secrets_new(cfg->kube, cfg->namespace);
	p->workers = calloc(p->cfg.at_once, sizeof(struct duty *));
	if (!p->secrets || !p->workers)
		err_set(err, ERR_NOMEM, "out of memory");
	while (p->secrets && p->workers && p->n_workers < p->cfg.at_once) {
		struct duty *d = duty_start("probe-poll", tick, p, err);

		if (!d)
			break;
		p->workers[p->n_workers++] = d;
	}
	/* fewer threads than wanted do the same, later */
	if (p->n_workers == 0) {
		stop(p);
		return (int)err->code;
	}
	*ret = p;
	return 0;
}

static void servers_changed(void *running)
{
	struct probe_poll *p = running;

	pthread_mutex_lock(&p->lock);
	p->changed = true;
	pthread_mutex_unlock(&p->lock);
	duty_wake(p->workers[0]);
}

struct leader_duty probe_poll_duty(struct probe_poll_config *cfg)
{
	return (struct leader_duty){.name = "probe-poll",
		.start = start,
		.stop = stop,
		.servers_changed = servers_changed,
		.ctx = cfg};
}
