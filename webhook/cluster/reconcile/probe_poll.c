/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the leader's duties that ask the probes and gates of GPU servers. A few threads take the
 * one that is due next from one table. */
#include "webhook/cluster/reconcile/probe_poll.h"

#include <stdlib.h>

#include "base/clock.h"
#include "webhook/cluster/reconcile/probe_poll_impl.h"

#define EVERY_MS 10000
#define TIMEOUT_MS 3000
#define STALE_AFTER_MS 30000
#define HASTE_MS 500
#define AT_ONCE_MAX 64u
#define ARENA_MAX_BYTES ((size_t)16 << 20)

static bool go_on(void *ctx)
{
	struct probe_poll *p = ctx;

	return !atomic_load(&p->stopping);
}

/* Ask it, and write what follows. */
static void ask(struct probe_poll *p, struct target *t)
{
	bool hasty = !t->slow && !t->doubtful && p->cfg.haste_ms < p->cfg.timeout_ms;
	const struct poll_kind *kind = p->cfg.kind;
	struct probe_question q = {.end = {t->url, t->ca_secret, t->token_secret, t->client_secret},
		.who = kind->who,
		.path = kind->path,
		.read = kind->read,
		.timeout_ms = hasty ? p->cfg.haste_ms : p->cfg.timeout_ms,
		.doubtful = t->failures > 0,
		.go_on = go_on,
		.go_on_ctx = p};
	struct err err = {0};
	struct arena a;
	int64_t began = clock_ms();
	void *answer;
	int rc;

	arena_init(&a, ARENA_MAX_BYTES);
	answer = arena_alloc(&a, kind->answer_size);
	rc = answer ? probe_ask(p->secrets, &q, &a, answer, &err)
		    : err_set(&err, ERR_NOMEM, "out of memory");
	/* Rule R17: it has come while this replica stood still, and others know better by now. */
	if (rc == 0 && clock_ms() - began >= p->cfg.stale_after_ms)
		rc = err_set(&err, ERR_TIMEOUT, "it has not answered in time");
	t->doubtful = rc != 0;
	if (rc == 0 && clock_ms() - began < p->cfg.haste_ms)
		t->slow = false;
	if (rc == ERR_TIMEOUT && hasty)
		t->slow = true;
	else if (go_on(p) && rc == 0)
		probe_answered(p, t, answer);
	else if (go_on(p))
		probe_failed(p, t, &err);
	arena_release(&a);
}

/* With the lock, which is let go meanwhile. */
static void ask_one(struct probe_poll *p, struct target *t, int64_t now)
{
	bool doubtful = t->doubtful, hasty = !t->slow;

	t->busy = true;
	p->n_doubtful += doubtful;
	pthread_mutex_unlock(&p->lock);
	ask(p, t);
	pthread_mutex_lock(&p->lock);
	p->n_doubtful -= doubtful;
	t->busy = false;
	/* with time enough, now */
	t->due_ms = hasty && t->slow ? clock_ms()
				     : probe_moment(t->name, t->failures, p->cfg.every_ms, now);
}

/* ---- the duty ---- */

static int64_t tick(void *ctx, struct duty *d)
{
	struct probe_poll *p = ctx;
	int64_t wait = LOOK_MS;

	pthread_mutex_lock(&p->lock);
	while (go_on(p) && !duty_stopping(d)) {
		struct target *t;
		int64_t now = clock_ms();

		probe_targets_look(p);
		t = probe_targets_next(p);
		if (!t || t->due_ms > now) {
			if (t && t->due_ms - now < wait)
				wait = t->due_ms - now;
			break;
		}
		ask_one(p, t, now);
	}
	pthread_mutex_unlock(&p->lock);
	return wait;
}

/* Rule R17: what was heard ages by this leader's clock, whatever the threads that ask are waiting
 * for. */
static int64_t age(void *ctx, struct duty *d)
{
	struct probe_poll *p = ctx;
	int64_t next = INT64_MAX, now = clock_ms();
	struct target *t;

	pthread_mutex_lock(&p->lock);
	probe_targets_look(p);
	while (!duty_stopping(d) && (t = probe_targets_old(p, now, &next))) {
		int64_t good = atomic_load(&t->good_ms);
		bool done;

		t->ageing = true;
		pthread_mutex_unlock(&p->lock);
		done = probe_aged(p, t, good);
		pthread_mutex_lock(&p->lock);
		t->ageing = false;
		if (done)
			t->aged_ms = good;
		else
			t->age_ms = clock_ms() + LOOK_MS;
	}
	pthread_mutex_unlock(&p->lock);
	now = clock_ms();
	return next > now + LOOK_MS ? LOOK_MS : next - now;
}

static void fill_defaults(struct probe_poll_config *c)
{
	if (c->every_ms <= 0)
		c->every_ms = EVERY_MS;
	if (c->timeout_ms <= 0)
		c->timeout_ms = TIMEOUT_MS;
	if (c->haste_ms <= 0)
		c->haste_ms = HASTE_MS;
	if (c->stale_after_ms <= 0)
		c->stale_after_ms = STALE_AFTER_MS;
	if (c->at_once == 0)
		c->at_once = c->kind->at_once;
	if (c->at_once > AT_ONCE_MAX)
		c->at_once = AT_ONCE_MAX;
}

static void stop(void *running)
{
	struct probe_poll *p = running;

	/* All at once, then each is waited for; the first at the end, for what the others find
	 * wakes it. */
	atomic_store(&p->stopping, true);
	duty_stop(p->age);
	for (unsigned i = p->n_workers; i-- > 0;)
		duty_stop(p->workers[i]);
	probe_targets_free(p);
	if (p->cfg.kind->tell)
		for (unsigned i = 0; i < METRIC_FINDINGS; i++)
			metric_set(p->cfg.metrics, M_GATE_FINDINGS, i, 0, 0);
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
		struct duty *d = duty_start(p->cfg.kind->ask, tick, p, err);

		if (!d)
			break;
		p->workers[p->n_workers++] = d;
	}
	/* fewer threads than wanted do the same, later */
	if (p->n_workers > 0)
		p->age = duty_start(p->cfg.kind->age, age, p, err);
	if (!p->age) {
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

static struct leader_duty as_duty(struct probe_poll_config *cfg, const struct poll_kind *kind)
{
	cfg->kind = kind;
	return (struct leader_duty){.name = kind->ask,
		.start = start,
		.stop = stop,
		.servers_changed = servers_changed,
		.ctx = cfg};
}

struct leader_duty probe_poll_duty(struct probe_poll_config *cfg)
{
	return as_duty(cfg, &poll_probes);
}

struct leader_duty gate_poll_duty(struct probe_poll_config *cfg)
{
	return as_duty(cfg, &poll_gates);
}
