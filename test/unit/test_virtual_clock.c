/* SPDX-License-Identifier: Apache-2.0 */
/* test: of the clock that goes on only while nobody computes, what no program that goes by it would
 * show: it behaves as the C library's where that is easily forgotten. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "test/unit/test.h"

#define PATIENCE_S 60

static time_t first;

/* Before the clock itself has begun, as a library might. */
__attribute__((constructor(101))) static void ask_first(void)
{
	first = time(NULL);
}

TEST(time_before_it_has_begun)
{
	assert_true(first > 0 && first <= time(NULL));
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static atomic_bool had;

static void *have_it(void *arg)
{
	(void)arg;
	(void)pthread_mutex_lock(&lock);
	atomic_store(&had, true);
	(void)pthread_mutex_unlock(&lock);
	return NULL;
}

/* Of the machine: while this test looks again and again, the other stands still. */
static time_t true_s(void)
{
	struct timespec t;

	assert_int_equal(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t), 0);
	return t.tv_sec;
}

TEST(a_time_that_has_passed_lets_the_mutex_go)
{
	time_t until = true_s() + PATIENCE_S;
	pthread_t thread;

	assert_int_equal(pthread_mutex_lock(&lock), 0);
	assert_int_equal(pthread_create(&thread, NULL, have_it, NULL), 0);
	while (!atomic_load(&had) && true_s() < until)
		assert_int_equal(
			pthread_cond_timedwait(&never, &lock, &(struct timespec){0}), ETIMEDOUT);
	assert_int_equal(pthread_mutex_unlock(&lock), 0);
	assert_true(atomic_load(&had));
	assert_int_equal(pthread_join(thread, NULL), 0);
}

TESTS(time_before_it_has_begun, a_time_that_has_passed_lets_the_mutex_go)
