/* SPDX-License-Identifier: Apache-2.0 */
/* sim: what the product calls of threads, clocks and random numbers, over the scheduler. mk/sim.mk
 * has the list for the linker (--wrap). A mutex and a condition keep what they need in their own
 * memory, so that they go with a killed replica's heap; zero is a free one, as glibc's initializers
 * are. Every lock that is taken or let go, and every wait, is a point where the scheduler may
 * choose another task. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "test/sim/sim.h"

/* What lies in a pthread_mutex_t and a pthread_cond_t. */
struct lock {
	uint32_t held, waiting;
	uint64_t chain; /* of who held it last */
};

static uint64_t all_locks;

uint64_t sim_locks(void)
{
	return all_locks;
}

static uint64_t one_lock(const struct lock *l)
{
	uint64_t it = ((uint64_t)(uintptr_t)l ^ l->chain) * UINT64_C(0x9E3779B97F4A7C15);

	return (it ^ it >> 29) * UINT64_C(0xD1B54A32D192ED03);
}

/* One spurious wake-up in so many million waits. */
#define SPURIOUS 5000
/* Who naps gets no processor for up to so long. */
#define NAP_US (SECOND / 5)

bool sim_naps;

int __wrap_pthread_create(
	pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_join(pthread_t thread, void **ret);
int __wrap_pthread_setname_np(pthread_t thread, const char *name);
int __wrap_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_cond_init(pthread_cond_t *c, const pthread_condattr_t *attr);
int __wrap_pthread_cond_destroy(pthread_cond_t *c);
int __wrap_pthread_cond_signal(pthread_cond_t *c);
int __wrap_pthread_cond_broadcast(pthread_cond_t *c);
int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __wrap_pthread_cond_timedwait(
	pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until);
int __wrap_pthread_once(pthread_once_t *once, void (*fn)(void));
int __wrap_clock_gettime(clockid_t id, struct timespec *ret);
ssize_t __wrap_getrandom(void *to, size_t len, unsigned flags);
int __wrap_nanosleep(const struct timespec *nap, struct timespec *left);

/* A point behind something that others see. What is done until the next such thing nobody sees, so
 * the point before that will do where every choice is tried. */
static void after(void)
{
	if (!sim_small)
		sim_point();
}

/* ---- threads ---- */

struct start {
	void *(*run)(void *);
	void *arg;
};

static void thread_main(void *arg)
{
	struct start st = *(struct start *)arg;

	(void)st.run(st.arg);
}

int __wrap_pthread_create(
	pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	/* Kept for the run: the scheduler has no place for it, and a run is short. */
	static struct start starts[1 << 20];
	static size_t n;

	(void)attr;
	sim_point();
	if (n == sizeof(starts) / sizeof(starts[0]))
		sim_fail("simulator", "too many threads");
	starts[n] = (struct start){run, arg};
	*ret = (pthread_t)sim_spawn(sim_owner(), "thread", thread_main, &starts[n++]);
	after();
	return 0;
}

int __wrap_pthread_join(pthread_t thread, void **ret)
{
	while (sim_is_there((uint64_t)thread))
		(void)sim_wait((const void *)(uintptr_t)thread, FOREVER);
	if (ret)
		*ret = NULL;
	return 0;
}

int __wrap_pthread_setname_np(pthread_t thread, const char *name)
{
	sim_name((uint64_t)thread, name);
	return 0;
}

/* ---- locks ---- */

int __wrap_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr)
{
	(void)attr;
	memset(m, 0, sizeof(*m));
	return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *m)
{
	struct lock *l = (struct lock *)m;

	if (l->held || l->waiting)
		sim_fail("locks", "a mutex that is in use was destroyed");
	return 0;
}

static void lock_now(struct lock *l)
{
	int64_t since = sim_now();

	while (l->held) {
		l->waiting++;
		(void)sim_wait(l, FOREVER);
		l->waiting--;
		sim_kept(since);
	}
	l->held = 1;
	sim_chain(l->chain);
}

static void unlock_now(struct lock *l)
{
	if (!l->held)
		sim_fail("locks", "a mutex that nobody holds was let go");
	l->held = 0;
	all_locks -= one_lock(l);
	l->chain = sim_chain_now();
	all_locks += one_lock(l);
	if (l->waiting)
		sim_wake(l);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
	sim_point();
	lock_now((struct lock *)m);
	return 0;
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t *m)
{
	struct lock *l = (struct lock *)m;

	sim_point();
	if (l->held) {
		sim_chain(EBUSY);
		return EBUSY;
	}
	lock_now(l);
	return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
	unlock_now((struct lock *)m);
	after();
	return 0;
}

/* ---- conditions ---- */

int __wrap_pthread_cond_init(pthread_cond_t *c, const pthread_condattr_t *attr)
{
	(void)attr;
	memset(c, 0, sizeof(*c));
	return 0;
}

int __wrap_pthread_cond_destroy(pthread_cond_t *c)
{
	if (((struct lock *)c)->waiting)
		sim_fail("locks", "a condition that somebody waits for was destroyed");
	return 0;
}

static int wait_for(struct lock *c, struct lock *m, int64_t until)
{
	bool woken, spurious = sim_chance(SPURIOUS);

	if (spurious && until > sim_now())
		until = sim_now() + (int64_t)sim_below(1000);
	else
		spurious = false;
	c->waiting++;
	unlock_now(m);
	woken = sim_wait(c, until);
	c->waiting--;
	lock_now(m);
	return woken || spurious ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
	return wait_for((struct lock *)c, (struct lock *)m, FOREVER);
}

int __wrap_pthread_cond_timedwait(
	pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until)
{
	int64_t us =
		until->tv_sec > INT64_C(1) << 40
			? FOREVER
			: sim_true(sim_owner(), until->tv_sec * SECOND + until->tv_nsec / 1000);

	return wait_for((struct lock *)c, (struct lock *)m, us);
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *c)
{
	struct lock *l = (struct lock *)c;

	if (l->waiting)
		sim_wake(l);
	after();
	return 0;
}

/* Waking all is what a signal may do, too. */
int __wrap_pthread_cond_signal(pthread_cond_t *c)
{
	return __wrap_pthread_cond_broadcast(c);
}

int __wrap_pthread_once(pthread_once_t *once, void (*fn)(void))
{
	if (*once == PTHREAD_ONCE_INIT) {
		*once = 2;
		fn();
	}
	return 0;
}

/* ---- clocks and random numbers ---- */

int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
	int64_t us = id == CLOCK_REALTIME ? sim_wall(sim_owner()) : sim_mono(sim_owner());

	sim_chain((uint64_t)us);
	ret->tv_sec = us / SECOND;
	ret->tv_nsec = us % SECOND * 1000;
	return 0;
}

ssize_t __wrap_getrandom(void *to, size_t len, unsigned flags)
{
	unsigned char *at = to;

	(void)flags;
	for (size_t i = 0; i < len; i++)
		at[i] = (unsigned char)(sim_random() >> 24);
	return (ssize_t)len;
}

/* What naps for a moment has let its lock go before, and takes it again behind: there others may go
 * on, in some runs for long. */
int __wrap_nanosleep(const struct timespec *nap, struct timespec *left)
{
	int64_t since = sim_now();

	(void)nap;
	(void)left;
	if (sim_naps) {
		sim_sleep((int64_t)sim_below(NAP_US));
		sim_kept(since);
	}
	return 0;
}
