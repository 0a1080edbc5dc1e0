// SPDX-License-Identifier: Apache-2.0
// cluster: the leader's duty that asks the probes of GPU servers. A few threads take the probe that is due next from one table.
#include "webhook/cluster/probe_poll.h"

#include <stdlib.h>

#include "base/clock.h"
#include "webhook/cluster/probe_poll_impl.h"

#define EVERY_MS 10000
#define TIMEOUT_MS 3000
#define STALE_AFTER_MS 30000
#define AT_ONCE 8u
#define AT_ONCE_MAX 64u
#define ARENA_MAX_BYTES ((size_t)16 << 20)

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
		.client_secret = t->client_secret,
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
			probe_answered(p, t, &inv);
		else
			probe_failed(p, t, &err);
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
		int64_t now = clock_ms();

		probe_targets_look(p);
		t = probe_targets_next(p);
		if (!t || t->due_ms > now) {
			if (t && t->due_ms - now < wait)
				wait = t->due_ms - now;
			break;
		}
		t->busy = true;
		t->due_ms = probe_targets_moment(t, p->cfg.every_ms, now);
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

	/* All at once, then each is waited for; the first at the end, for what the others find wakes it. */
	atomic_store(&p->stopping, true);
	for (unsigned i = p->n_workers; i-- > 0;)
		duty_stop(p->workers[i]);
	probe_targets_free(p);
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
