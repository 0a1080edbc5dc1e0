/* SPDX-License-Identifier: Apache-2.0 */
/* bench: for how long one lock is held. The product's calls come here by the linker's --wrap. CPU
 * time of the holder: on a busy machine a thread that holds the lock may stand still, which is not
 * the program's doing. */
#include <stdatomic.h>
#include <time.h>

#include "test/bench/scale/scale.h"

int __real_pthread_mutex_lock(pthread_mutex_t *m);
int __real_pthread_mutex_unlock(pthread_mutex_t *m);
int __real_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __real_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t);

static _Atomic(pthread_mutex_t *) measured;
/* Guarded by the lock that is measured. */
static struct hold_times held;
static int64_t began_ns;

static int64_t cpu_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void taken(const pthread_mutex_t *m)
{
	if (m == atomic_load(&measured))
		began_ns = cpu_ns();
}

static void let_go(const pthread_mutex_t *m)
{
	double us;

	if (m != atomic_load(&measured) || began_ns == 0)
		return;
	us = (double)(cpu_ns() - began_ns) / 1000;
	held.times++;
	held.sum_us += us;
	held.max_us = us > held.max_us ? us : held.max_us;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
	int rc = __real_pthread_mutex_lock(m);

	taken(m);
	return rc;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
	let_go(m);
	return __real_pthread_mutex_unlock(m);
}

int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
	int rc;

	let_go(m);
	rc = __real_pthread_cond_wait(c, m);
	taken(m);
	return rc;
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t)
{
	int rc;

	let_go(m);
	rc = __real_pthread_cond_timedwait(c, m, t);
	taken(m);
	return rc;
}

void lock_measure(pthread_mutex_t *lock)
{
	(void)__real_pthread_mutex_lock(lock);
	held = (struct hold_times){0};
	began_ns = 0;
	atomic_store(&measured, lock);
	(void)__real_pthread_mutex_unlock(lock);
}

struct hold_times lock_measured(void)
{
	pthread_mutex_t *lock = atomic_load(&measured);
	struct hold_times ret;

	(void)__real_pthread_mutex_lock(lock);
	ret = held;
	(void)__real_pthread_mutex_unlock(lock);
	return ret;
}
