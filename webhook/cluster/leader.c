// SPDX-License-Identifier: Apache-2.0
// cluster: the leader's duties start when the Lease is won and end when it is lost.
#include "webhook/cluster/leader.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "webhook/cluster/duty.h"
#include "webhook/edge/kube_lease.h"
#include "webhook/edge/metrics.h"

/* How often to look: for duties that could not start, and whether there is a leader at all. */
#define LOOK_MS 1000
/* Rule "without a leader": the Lease has not changed for so long. */
#define LEADERLESS_MS 60000
#define DUTIES_MAX 16

struct leader {
	struct leader_config cfg;
	struct kube_lease *lease;
	struct duty *runner;
	atomic_bool wanted; /* the Lease is ours */
	atomic_bool ending;
	int64_t started_ms;
	bool leaderless;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t ended; /* no duty runs, and none will be started */
	bool all_ended;
	void *running[DUTIES_MAX]; /* NULL: not started */
};

static void gained(void *ctx)
{
	struct leader *l = ctx;

	atomic_store(&l->wanted, true);
	metric_set(l->cfg.metrics, M_LEADER, 0, 0, 1);
	metric_add(l->cfg.metrics, M_LEADER_CHANGES, 0, 0, 1);
	log_text(l->cfg.log, LOG_LEVEL_INFO, "this replica leads");
	duty_wake(l->runner);
}

static void lost(void *ctx)
{
	struct leader *l = ctx;

	atomic_store(&l->wanted, false);
	metric_set(l->cfg.metrics, M_LEADER, 0, 0, 0);
	metric_add(l->cfg.metrics, M_LEADER_CHANGES, 0, 0, 1);
	log_text(l->cfg.log, LOG_LEVEL_INFO, "this replica no longer leads");
	duty_wake(l->runner);
}

static void set_running(struct leader *l, size_t i, void *to)
{
	(void)pthread_mutex_lock(&l->lock);
	l->running[i] = to;
	(void)pthread_mutex_unlock(&l->lock);
}

static void start_duties(struct leader *l)
{
	for (size_t i = 0;
		i < l->cfg.n_duties && atomic_load(&l->wanted) && !atomic_load(&l->ending); i++) {
		const struct leader_duty *d = &l->cfg.duties[i];
		struct err err = {0};
		void *running = NULL;

		if (l->running[i])
			continue;
		if (d->start(d->ctx, &running, &err) == 0)
			set_running(l, i, running);
		else
			log_line(l->cfg.log, LOG_LEVEL_ERROR,
				"a duty of the leader could not start, it is tried again",
				log_str("duty", d->name), log_str("error", err.msg));
	}
}

/* The last that started ends first: what others lean on stays. */
static void stop_duties(struct leader *l)
{
	for (size_t i = l->cfg.n_duties; i-- > 0;) {
		void *running = l->running[i];

		if (!running)
			continue;
		set_running(l, i, NULL);
		l->cfg.duties[i].stop(running);
	}
}

static void watch_leadership(struct leader *l)
{
	int64_t changed = kube_lease_changed_ms(l->lease);
	int64_t since = changed ? changed : l->started_ms;
	bool none = clock_now_ms() - since >= LEADERLESS_MS;

	if (none == l->leaderless)
		return;
	l->leaderless = none;
	log_text(l->cfg.log, none ? LOG_LEVEL_WARN : LOG_LEVEL_INFO,
		none ? "nobody leads: servers with a probe take no new claims"
		     : "somebody leads again");
	servers_set_leaderless(l->cfg.servers, none);
}

static int64_t run(void *ctx, struct duty *d)
{
	struct leader *l = ctx;

	(void)d;
	/* The lease may call back before leader_start has its handle. */
	(void)pthread_mutex_lock(&l->lock);
	bool ready = l->lease != NULL;
	(void)pthread_mutex_unlock(&l->lock);

	if (!ready)
		return 10;
	if (atomic_load(&l->ending)) {
		stop_duties(l);
		(void)pthread_mutex_lock(&l->lock);
		l->all_ended = true;
		(void)pthread_cond_broadcast(&l->ended);
		(void)pthread_mutex_unlock(&l->lock);
		return LOOK_MS;
	}
	if (atomic_load(&l->wanted))
		start_duties(l);
	else
		stop_duties(l);
	watch_leadership(l);
	return LOOK_MS;
}

struct leader *leader_start(const struct leader_config *cfg, struct err *err)
{
	struct leader *l = calloc(1, sizeof(*l));
	struct kube_lease_config lease = {.kube = cfg->kube,
		.log = cfg->log,
		.namespace = cfg->namespace,
		.name = cfg->lease,
		.identity = cfg->identity,
		.gained = gained,
		.lost = lost,
		.ctx = l};
	struct kube_lease *started;

	if (!l || cfg->n_duties > DUTIES_MAX) {
		err_set(err, l ? ERR_INTERNAL : ERR_NOMEM, "cannot take part in the election");
		free(l);
		return NULL;
	}
	l->cfg = *cfg;
	l->started_ms = clock_now_ms();
	(void)pthread_mutex_init(&l->lock, NULL);
	(void)pthread_cond_init(&l->ended, NULL);
	l->runner = duty_start("leader", run, l, err);
	started = l->runner ? kube_lease_start(&lease, err) : NULL;
	if (!started) {
		duty_stop(l->runner);
		(void)pthread_cond_destroy(&l->ended);
		(void)pthread_mutex_destroy(&l->lock);
		free(l);
		return NULL;
	}
	(void)pthread_mutex_lock(&l->lock);
	l->lease = started;
	(void)pthread_mutex_unlock(&l->lock);
	return l;
}

void leader_servers_changed(void *leader)
{
	struct leader *l = leader;

	(void)pthread_mutex_lock(&l->lock);
	for (size_t i = 0; i < l->cfg.n_duties; i++)
		if (l->running[i] && l->cfg.duties[i].servers_changed)
			l->cfg.duties[i].servers_changed(l->running[i]);
	(void)pthread_mutex_unlock(&l->lock);
}

bool leader_is(struct leader *l)
{
	return atomic_load(&l->wanted);
}

void leader_stop(struct leader *l)
{
	if (!l)
		return;
	/* No duty is left when the Lease is given back: the next leader starts with nobody beside it. */
	atomic_store(&l->ending, true);
	duty_wake(l->runner);
	(void)pthread_mutex_lock(&l->lock);
	while (!l->all_ended)
		(void)pthread_cond_wait(&l->ended, &l->lock);
	(void)pthread_mutex_unlock(&l->lock);
	kube_lease_stop(l->lease);
	duty_stop(l->runner);
	(void)pthread_cond_destroy(&l->ended);
	(void)pthread_mutex_destroy(&l->lock);
	free(l);
}
