/* SPDX-License-Identifier: Apache-2.0 */
/* kube: who leads: a thread that looks at a Lease, takes it when it may, renews it while it can. */
#define _GNU_SOURCE 1 /* strerrorname_np */
#include "kube/kube_lease.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/thread.h"
#include "kube/kube_lease_impl.h"

#define LEASES "/apis/" LEASE_API
/* Looks and writes in a row when others write in between, before waiting for the next round. */
#define TRIES 3

/* ---- rounds ---- */

/* Say when it begins to fail and when that is over. */
static void tell(struct kube_lease *l, int rc, const struct err *err)
{
	bool fails = rc != 0 && !atomic_load(&l->stopping);

	if (fails && !l->failing)
		log_line(l->cfg.log, LOG_LEVEL_WARN, "lease out of reach",
			log_str("lease", l->name), log_str("why", err->msg));
	if (rc == 0 && l->failing)
		log_line(l->cfg.log, LOG_LEVEL_INFO, "lease within reach again",
			log_str("lease", l->name));
	l->failing = fails;
}

static bool is_over(const struct kube_lease *l)
{
	return atomic_load(&l->stopping) || (l->leads && lease_time_left(l) <= 0);
}

/* Look if need be, decide, write. ret_until_ms: when the present holder's time ends; else now. */
static int try_once(struct kube_lease *l, bool must_look, int64_t *ret_until_ms, struct err *err)
{
	struct lease_sight sight;
	enum lease_step step;
	int rc = must_look ? lease_look(l, err) : 0;

	if (rc != 0 || is_over(l))
		return rc;
	sight = (struct lease_sight){.record = l->seen ? &l->record : NULL,
		.there = l->there,
		.changed_ms = l->changed_ms};
	step = lease_decide(
		&sight, l->identity, (int64_t)l->cfg.duration_s * 1000, clock_ms(), ret_until_ms);
	if (step != LEASE_WAIT)
		return lease_write_step(l, step, err);
	lease_lose(l, "somebody else holds it");
	return 0;
}

static int64_t jitter(int64_t below)
{
	uint32_t r = 0;

	(void)!getrandom(&r, sizeof(r), GRND_NONBLOCK);
	return below > 0 ? (int64_t)(r % (uint64_t)below) : 0;
}

/* One round. How long to wait for the next. */
static int64_t go_round(struct kube_lease *l)
{
	struct err err = {0};
	/* The record that we wrote ourselves is the one that is there, unless somebody interfered.
	 */
	bool must_look = !l->leads || l->unsure;
	int64_t until = 0, wait = l->cfg.retry_ms;
	int rc = ERR_CONFLICT;

	for (int i = 0; i < TRIES && (rc == ERR_CONFLICT || rc == ERR_NOTFOUND); i++) {
		if (is_over(l))
			break;
		rc = try_once(l, must_look, &until, &err);
		must_look = true;
	}
	tell(l, rc, &err);
	if (l->leads)
		return lease_time_left(l) < wait ? lease_time_left(l) : wait;
	wait += jitter(l->cfg.retry_ms / 4);
	until -= clock_ms();
	return until > 0 && until < wait ? until : wait;
}

static void pause_for(struct kube_lease *l, int64_t ms)
{
	int64_t at = clock_ms() + (ms > 0 ? ms : 0);

	(void)pthread_mutex_lock(&l->lock);
	while (!atomic_load(&l->stopping))
		if (thread_wait_until(&l->cond, &l->lock, at) != 0)
			break;
	(void)pthread_mutex_unlock(&l->lock);
}

static void *lease_main(void *arg)
{
	struct kube_lease *l = arg;

	while (!atomic_load(&l->stopping)) {
		int64_t wait = go_round(l);

		if (l->leads && lease_time_left(l) <= 0)
			lease_lose(l, "it could not be renewed in time");
		else
			pause_for(l, wait);
	}
	lease_lose(l, "the program ends");
	lease_give_back(l);
	return NULL;
}

/* ---- life ---- */

static int check(const struct kube_lease_config *c, struct err *err)
{
	if (!c->namespace[0] || !c->name[0] || !c->identity[0] ||
		strlen(c->identity) >= LEASE_HOLDER_SIZE)
		return err_set(err, ERR_INVALID,
			"want a lease with namespace, name and an identity of 1 to %d bytes",
			LEASE_HOLDER_SIZE - 1);
	if (c->retry_ms <= 0 || c->retry_ms >= c->renew_ms ||
		c->renew_ms >= (int64_t)c->duration_s * 1000)
		return err_set(err, ERR_INVALID,
			"want times of a lease in the order retry (%d ms) < renew (%d ms) < "
			"duration (%d s)",
			c->retry_ms, c->renew_ms, c->duration_s);
	return 0;
}

static void release(struct kube_lease *l)
{
	free(l->namespace);
	free(l->name);
	free(l->identity);
	buf_release(&l->collection);
	buf_release(&l->path);
	arena_release(&l->arena[0]);
	arena_release(&l->arena[1]);
	(void)pthread_cond_destroy(&l->cond);
	(void)pthread_mutex_destroy(&l->lock);
	free(l);
}

static bool fill(struct kube_lease *l)
{
	l->namespace = strdup(l->cfg.namespace);
	l->name = strdup(l->cfg.name);
	l->identity = strdup(l->cfg.identity);
	buf_init(&l->collection, 1024);
	buf_init(&l->path, 2048);
	kube_path(&l->collection, LEASES, l->cfg.namespace, "leases", NULL, NULL);
	kube_path(&l->path, LEASES, l->cfg.namespace, "leases", l->cfg.name, NULL);
	arena_init(&l->arena[0], LEASE_BYTES_MAX);
	arena_init(&l->arena[1], LEASE_BYTES_MAX);
	return l->namespace && l->name && l->identity && !l->collection.failed && !l->path.failed;
}

struct kube_lease *kube_lease_start(const struct kube_lease_config *cfg, struct err *err)
{
	struct kube_lease *l = calloc(1, sizeof(*l));
	int rc;

	if (!l) {
		(void)err_set(err, ERR_NOMEM, "out of memory for a lease");
		return NULL;
	}
	l->cfg = *cfg;
	l->cfg.duration_s = cfg->duration_s ? cfg->duration_s : KUBE_LEASE_DURATION_S;
	l->cfg.renew_ms = cfg->renew_ms ? cfg->renew_ms : KUBE_LEASE_RENEW_MS;
	l->cfg.retry_ms = cfg->retry_ms ? cfg->retry_ms : KUBE_LEASE_RETRY_MS;
	(void)pthread_mutex_init(&l->lock, NULL);
	(void)thread_cond_init(&l->cond);
	rc = check(&l->cfg, err);
	if (!fill(l) && rc == 0)
		rc = err_set(err, ERR_NOMEM, "out of memory for a lease");
	if (rc == 0 && (rc = thread_start(&l->thread, "lease", lease_main, l)) != 0)
		rc = err_set(err, ERR_INTERNAL, "no thread for the lease: %s", strerrorname_np(rc));
	if (rc == 0)
		return l;
	release(l);
	return NULL;
}

void kube_lease_stop(struct kube_lease *l)
{
	if (!l)
		return;
	(void)pthread_mutex_lock(&l->lock);
	atomic_store(&l->stopping, true);
	(void)pthread_cond_broadcast(&l->cond);
	(void)pthread_mutex_unlock(&l->lock);
	(void)pthread_join(l->thread, NULL);
	release(l);
}

bool kube_lease_held(struct kube_lease *l)
{
	bool held;

	(void)pthread_mutex_lock(&l->lock);
	held = l->held && lease_time_left(l) > 0;
	(void)pthread_mutex_unlock(&l->lock);
	return held;
}

int64_t kube_lease_changed_ms(struct kube_lease *l)
{
	int64_t ms;

	(void)pthread_mutex_lock(&l->lock);
	ms = l->changed_ms;
	(void)pthread_mutex_unlock(&l->lock);
	return ms;
}
