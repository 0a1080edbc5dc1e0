/* SPDX-License-Identifier: Apache-2.0 */
/* test: threads without signals, and waits that end by the clock. */
#define _GNU_SOURCE 1 /* pthread_getname_np */
#include <errno.h>
#include <signal.h>

#include "base/clock.h"
#include "base/thread.h"
#include "test/unit/test.h"

struct seen {
	int terminating, hanging_up; /* are they blocked? */
};

static void *look(void *arg)
{
	struct seen *s = arg;
	sigset_t blocked;

	(void)pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	s->terminating = sigismember(&blocked, SIGTERM);
	s->hanging_up = sigismember(&blocked, SIGHUP);
	return NULL;
}

TEST(takes_no_signals)
{
	struct seen s = {.terminating = -1, .hanging_up = -1};
	sigset_t mine;
	pthread_t t;

	assert_int_equal(thread_start(&t, "looker", look, &s), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(s.terminating, 1);
	assert_int_equal(s.hanging_up, 1);
	/* who starts it goes on to take them */
	(void)pthread_sigmask(SIG_SETMASK, NULL, &mine);
	assert_int_equal(sigismember(&mine, SIGTERM), 0);
}

TEST(holds_signals)
{
	sigset_t held, pending, mine;
	int fd[2];

	thread_hold_signals(&held);
	assert_int_equal(sigismember(&held, SIGHUP), 1);
	assert_int_equal(sigismember(&held, SIGPIPE), 0);
	for (int i = 0; i < 3; i++) {
		static const int signals[] = {SIGTERM, SIGINT, SIGHUP};

		assert_int_equal(raise(signals[i]), 0);
		(void)sigpending(&pending);
		assert_int_equal(sigismember(&pending, signals[i]), 1);
		assert_int_equal(sigtimedwait(&held, NULL, &(struct timespec){0}), signals[i]);
	}
	assert_int_equal(pipe(fd), 0);
	(void)close(fd[0]);
	assert_int_equal(write(fd[1], "x", 1), -1);
	assert_int_equal(errno, EPIPE);
	(void)close(fd[1]);
	(void)pthread_sigmask(SIG_UNBLOCK, &held, &mine);
	assert_int_equal(sigismember(&mine, SIGTERM), 1);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond;
static bool woken;

/* Held back by the lock until whoever started it has looked and waits. */
static void *wake(void *arg)
{
	(void)pthread_mutex_lock(&lock);
	woken = true;
	(void)pthread_cond_signal(&cond);
	(void)pthread_mutex_unlock(&lock);
	return arg;
}

TEST(has_a_name)
{
	char name[16] = "";
	pthread_t t;

	(void)pthread_mutex_lock(&lock);
	assert_int_equal(thread_cond_init(&cond), 0);
	assert_int_equal(thread_start(&t, "looker", wake, NULL), 0);
	assert_int_equal(pthread_getname_np(t, name, sizeof(name)), 0);
	assert_string_equal(name, "looker");
	(void)pthread_mutex_unlock(&lock);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(pthread_cond_destroy(&cond), 0);
}

TEST(waits)
{
	int64_t began = clock_ms(), until = began + 30;
	pthread_t t;
	int rc = 0;

	woken = false;
	assert_int_equal(thread_cond_init(&cond), 0);
	(void)pthread_mutex_lock(&lock);
	while (rc == 0)
		rc = thread_wait_until(&cond, &lock, until);
	assert_int_equal(rc, ETIMEDOUT);
	assert_in_range(clock_ms() - began, 30, 30000);
	/* gone by already */
	assert_int_equal(thread_wait_until(&cond, &lock, until), ETIMEDOUT);
	/* woken long before */
	assert_int_equal(thread_start(&t, NULL, wake, NULL), 0);
	for (rc = 0; !woken && rc == 0;)
		rc = thread_wait_until(&cond, &lock, clock_ms() + 60000);
	assert_int_equal(rc, 0);
	(void)pthread_mutex_unlock(&lock);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_true(clock_ms() - began < 60000);
	assert_int_equal(pthread_cond_destroy(&cond), 0);
}

TESTS(takes_no_signals, holds_signals, has_a_name, waits)
