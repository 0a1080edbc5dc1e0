/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: takes part in the election, and does the leader's duties while this replica leads. The
 * lease's thread only says what has happened; a thread of the leader's own starts and stops the
 * duties, which may take its time. */
#include "webhook/cluster/leader/leader.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "kube/kube_lease.h"
#include "webhook/cluster/duty/duty.h"
#include "webhook/edge/metrics/metrics.h"

#define LEADERLESS_MS 60000
#define AGAIN_MS 1000

/* A duty and what its start() made. */
struct started {
	bool is;
	bool failing; /* said so already */
	void *running;
};

struct leader {
	struct leader_config cfg;
	/* Odd while we lead: a term that ended and began anew between two looks is another one. */
	atomic_uint term;

	/* The own thread's. */
	unsigned done; /* the term that the duties run for; even: none runs */
	int64_t began_ms;
	bool leaderless;

	pthread_mutex_t lock;
	/* Guarded by lock. */
	struct kube_lease *lease;
	struct duty *duty;
	struct started *started; /* written by the own thread alone */
};

static bool leads(unsigned term)
{
	return term % 2 == 1;
}

/* ---- the lease's thread ---- */

static void turn(struct leader *l, bool lead)
{
	(void)atomic_fetch_add(&l->term, 1);
	metric_set(l->cfg.metrics, M_LEADER, 0, 0, lead);
	metric_add(l->cfg.metrics, M_LEADER_CHANGES, 0, 0, 1);
	(void)pthread_mutex_lock(&l->lock);
	duty_wake(l->duty);
	(void)pthread_mutex_unlock(&l->lock);
}

static void on_gained(void *ctx)
{
	turn(ctx, true);
}

static void on_lost(void *ctx)
{
	turn(ctx, false);
}

/* ---- the own thread ---- */

/* The last that started ends first: what others lean on stays. */
static void stop_duties(struct leader *l)
{
	for (size_t i = l->cfg.n_duties; i-- > 0;) {
		struct started *s = &l->started[i];
		struct started was = *s;

		/* From here on nobody tells it anything. */
		(void)pthread_mutex_lock(&l->lock);
		*s = (struct started){0};
		(void)pthread_mutex_unlock(&l->lock);
		if (was.is)
			l->cfg.duties[i].stop(was.running);
	}
}

static void start_duty(struct leader *l, size_t i)
{
	const struct leader_duty *d = &l->cfg.duties[i];
	struct started *s = &l->started[i];
	struct err err = {0};
	void *running = NULL;

	if (d->start(d->ctx, &running, &err) != 0) {
		if (!s->failing)
			log_line(l->cfg.log, LOG_LEVEL_ERROR,
				"a duty of the leader cannot start, it is tried again",
				log_str("duty", d->name), log_str("why", err.msg));
		s->failing = true;
		return;
	}
	(void)pthread_mutex_lock(&l->lock);
	*s = (struct started){.is = true, .running = running};
	/* What changed between its start and now. */
	if (d->servers_changed)
		d->servers_changed(running);
	(void)pthread_mutex_unlock(&l->lock);
}

/* Start those that do not run yet, unless the term ends meanwhile. */
static void start_duties(struct leader *l, const struct duty *own)
{
	for (size_t i = 0; i < l->cfg.n_duties; i++) {
		if (atomic_load(&l->term) != l->done || duty_stopping(own))
			return;
		if (!l->started[i].is)
			start_duty(l, i);
	}
}

/* Rule "without a leader". In how many milliseconds to look again. */
static int64_t watch_lease(struct leader *l, struct kube_lease *lease)
{
	int64_t limit = l->cfg.leaderless_ms ? l->cfg.leaderless_ms : LEADERLESS_MS;
	int64_t changed = kube_lease_changed_ms(lease), left;
	bool leaderless;

	if (changed < l->began_ms)
		changed = l->began_ms;
	left = changed + limit - clock_ms();
	leaderless = left <= 0;
	if (leaderless != l->leaderless) {
		l->leaderless = leaderless;
		log_line(l->cfg.log, leaderless ? LOG_LEVEL_WARN : LOG_LEVEL_INFO,
			leaderless ? "nobody leads: servers with a probe take no new claims"
				   : "somebody leads again",
			log_str("lease", l->cfg.lease));
		servers_set_leaderless(l->cfg.servers, leaderless);
	}
	return leaderless || left > AGAIN_MS ? AGAIN_MS : left;
}

static int64_t leader_tick(void *ctx, struct duty *own)
{
	struct leader *l = ctx;
	unsigned term = atomic_load(&l->term);
	struct kube_lease *lease;
	int64_t again = AGAIN_MS;

	if (term != l->done) {
		stop_duties(l);
		l->done = term;
	}
	/* What does not start is tried again with the next look at the lease. */
	if (leads(term))
		start_duties(l, own);
	(void)pthread_mutex_lock(&l->lock);
	lease = l->lease;
	(void)pthread_mutex_unlock(&l->lock);
	if (lease)
		again = watch_lease(l, lease);
	return again;
}

/* ---- life ---- */

static void release(struct leader *l)
{
	free(l->started);
	(void)pthread_mutex_destroy(&l->lock);
	free(l);
}

static struct kube_lease *take_part(struct leader *l, struct err *err)
{
	const struct leader_config *c = &l->cfg;
	struct kube_lease_config lease = {.kube = c->kube,
		.log = c->log,
		.namespace = c->namespace,
		.name = c->lease,
		.identity = c->identity,
		.gained = on_gained,
		.lost = on_lost,
		.ctx = l,
		.duration_s = c->duration_s,
		.renew_ms = c->renew_ms,
		.retry_ms = c->retry_ms};

	return kube_lease_start(&lease, err);
}

struct leader *leader_start(const struct leader_config *cfg, struct err *err)
{
	struct leader *l = calloc(1, sizeof(*l));
	struct duty *own;

	if (l)
		l->started = calloc(cfg->n_duties ? cfg->n_duties : 1, sizeof(*l->started));
	if (!l || !l->started) {
		free(l);
		(void)err_set(err, ERR_NOMEM, "out of memory for the leader");
		return NULL;
	}
	l->cfg = *cfg;
	l->began_ms = clock_ms();
	(void)pthread_mutex_init(&l->lock, NULL);
	/* Both threads wait for the lock before they look for each other. */
	(void)pthread_mutex_lock(&l->lock);
	l->duty = own = duty_start("leader", leader_tick, l, err);
	if (own)
		l->lease = take_part(l, err);
	(void)pthread_mutex_unlock(&l->lock);
	if (l->lease)
		return l;
	duty_stop(own);
	release(l);
	return NULL;
}

void leader_servers_changed(void *leader)
{
	struct leader *l = leader;

	(void)pthread_mutex_lock(&l->lock);
	for (size_t i = 0; i < l->cfg.n_duties; i++)
		if (l->started[i].is && l->cfg.duties[i].servers_changed)
			l->cfg.duties[i].servers_changed(l->started[i].running);
	(void)pthread_mutex_unlock(&l->lock);
}

bool leader_is(struct leader *l)
{
	return kube_lease_held(l->lease);
}

void leader_stop(struct leader *l)
{
	struct duty *own;

	if (!l)
		return;
	(void)pthread_mutex_lock(&l->lock);
	own = l->duty;
	l->duty = NULL;
	(void)pthread_mutex_unlock(&l->lock);
	duty_stop(own);
	/* Its thread has ended: what was its own is ours now. The lease is renewed until all have
	 * stopped, so that the next leader starts with nobody beside it. */
	stop_duties(l);
	kube_lease_stop(l->lease);
	release(l);
}
