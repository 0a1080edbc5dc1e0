/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: work that one thread repeats: when it is due, and when somebody says that something has
 * changed. */
#define _GNU_SOURCE 1 /* strerrorname_np */
#include "webhook/cluster/duty/duty.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"

/* No wait is longer: keeps sums of times far from their limits. */
#define WAIT_MAX_MS (24 * INT64_C(3600000))

struct duty {
	duty_tick *tick;
	void *ctx;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool woken; /* under lock */
	atomic_bool stopping;
};

/* Wait until that time, until it is to end, or (if asked) until woken. Under lock. */
static void wait_until(struct duty *d, int64_t until_ms, bool ends_when_woken)
{
	while (!atomic_load(&d->stopping) && !(ends_when_woken && d->woken))
		if (thread_wait_until(&d->cond, &d->lock, until_ms) != 0)
			return;
}

static int64_t later(int64_t ms)
{
	if (ms < 0)
		ms = 0;
	return clock_ms() + (ms < WAIT_MAX_MS ? ms : WAIT_MAX_MS);
}

static void *duty_main(void *arg)
{
	struct duty *d = arg;

	while (!atomic_load(&d->stopping)) {
		int64_t due;

		/* Before the tick: what changes while it runs makes another one. */
		(void)pthread_mutex_lock(&d->lock);
		d->woken = false;
		(void)pthread_mutex_unlock(&d->lock);
		due = later(d->tick(d->ctx, d));
		(void)pthread_mutex_lock(&d->lock);
		wait_until(d, due, true);
		(void)pthread_mutex_unlock(&d->lock);
	}
	return NULL;
}

static void release(struct duty *d)
{
	(void)pthread_cond_destroy(&d->cond);
	(void)pthread_mutex_destroy(&d->lock);
	free(d);
}

struct duty *duty_start(const char *name, duty_tick *tick, void *ctx, struct err *err)
{
	struct duty *d = calloc(1, sizeof(*d));
	int rc;

	if (!d) {
		(void)err_set(err, ERR_NOMEM, "out of memory for the duty %s", name);
		return NULL;
	}
	d->tick = tick;
	d->ctx = ctx;
	(void)pthread_mutex_init(&d->lock, NULL);
	(void)thread_cond_init(&d->cond);
	rc = thread_start(&d->thread, name, duty_main, d);
	if (rc != 0) {
		(void)err_set(err, ERR_INTERNAL, "no thread for the duty %s: %s", name,
			strerrorname_np(rc));
		release(d);
		return NULL;
	}
	return d;
}

void duty_wake(struct duty *d)
{
	if (!d)
		return;
	(void)pthread_mutex_lock(&d->lock);
	d->woken = true;
	(void)pthread_cond_broadcast(&d->cond);
	(void)pthread_mutex_unlock(&d->lock);
}

bool duty_stopping(const struct duty *d)
{
	return atomic_load(&d->stopping);
}

bool duty_sleep(struct duty *d, int64_t ms)
{
	int64_t until = later(ms);

	(void)pthread_mutex_lock(&d->lock);
	wait_until(d, until, false);
	(void)pthread_mutex_unlock(&d->lock);
	return !atomic_load(&d->stopping);
}

void duty_stop(struct duty *d)
{
	if (!d)
		return;
	(void)pthread_mutex_lock(&d->lock);
	atomic_store(&d->stopping, true);
	(void)pthread_cond_broadcast(&d->cond);
	(void)pthread_mutex_unlock(&d->lock);
	(void)pthread_join(d->thread, NULL);
	release(d);
}

/* ---- keepers ---- */

static struct duty **duty_of(void *keeper)
{
	return keeper;
}

int duty_keep(void *keeper, const char *name, duty_tick *tick, void **ret, struct err *err)
{
	if (!keeper)
		return err_set(err, ERR_NOMEM, "out of memory");
	*duty_of(keeper) = duty_start(name, tick, keeper, err);
	if (!*duty_of(keeper)) {
		free(keeper);
		return (int)err->code;
	}
	*ret = keeper;
	return 0;
}

void duty_wake_keeper(void *keeper)
{
	duty_wake(*duty_of(keeper));
}

void duty_free_keeper(void *keeper)
{
	duty_stop(*duty_of(keeper));
	free(keeper);
}
