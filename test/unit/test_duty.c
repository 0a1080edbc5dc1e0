/* SPDX-License-Identifier: Apache-2.0 */
/* test: cluster/duty/duty: called at once, when due, when woken; ends promptly. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "test/unit/test.h"
#include "webhook/cluster/duty/duty.h"

static void nap(int ms)
{
	struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};

	(void)nanosleep(&t, NULL);
}

struct counter {
	atomic_int ticks;
	atomic_bool busy; /* a tick runs */
	atomic_bool slept_whole;
	int64_t again_ms;
	int sleep_ms;
	bool wake_itself_once;
};

static int64_t count(void *ctx, struct duty *d)
{
	struct counter *c = ctx;

	atomic_store(&c->busy, true);
	if (c->sleep_ms)
		atomic_store(&c->slept_whole, duty_sleep(d, c->sleep_ms));
	if (atomic_fetch_add(&c->ticks, 1) == 0 && c->wake_itself_once)
		duty_wake(d);
	atomic_store(&c->busy, false);
	return c->again_ms;
}

static bool reaches(struct counter *c, int n)
{
	for (int i = 0; i < 1000; i++, nap(2))
		if (atomic_load(&c->ticks) >= n)
			return true;
	return false;
}

static struct duty *begin(struct counter *c)
{
	struct err err = {0};
	struct duty *d = duty_start("test", count, c, &err);

	assert_non_null(d);
	return d;
}

TEST(called_at_once_then_when_due)
{
	struct counter c = {.again_ms = 20};
	int64_t start = clock_ms();
	struct duty *d = begin(&c);

	assert_true(reaches(&c, 4));
	assert_true(clock_ms() - start >= 60);
	duty_stop(d);
}

TEST(negative_is_at_once)
{
	struct counter c = {.again_ms = -5};
	struct duty *d = begin(&c);

	assert_true(reaches(&c, 50));
	duty_stop(d);
}

TEST(not_before_it_is_due)
{
	struct counter c = {.again_ms = INT64_MAX};
	struct duty *d = begin(&c);

	assert_true(reaches(&c, 1));
	nap(50);
	assert_int_equal(atomic_load(&c.ticks), 1);
	duty_stop(d);
}

TEST(woken)
{
	struct counter c = {.again_ms = 60000};
	struct duty *d = begin(&c);

	for (int i = 1; i <= 20; i++) {
		assert_true(reaches(&c, i));
		/* Lets it go to sleep in some rounds and not in others. */
		nap(i % 3);
		duty_wake(d);
	}
	assert_true(reaches(&c, 21));
	duty_stop(d);
}

TEST(what_changes_during_a_tick_makes_another)
{
	struct counter c = {.again_ms = 60000, .wake_itself_once = true};
	struct duty *d = begin(&c);

	assert_true(reaches(&c, 2));
	nap(30);
	assert_int_equal(atomic_load(&c.ticks), 2);
	duty_stop(d);
}

TEST(a_sleep_is_not_ended_by_waking)
{
	struct counter c = {.again_ms = 60000, .sleep_ms = 120};
	int64_t start = clock_ms();
	struct duty *d = begin(&c);

	nap(20);
	duty_wake(d);
	assert_true(reaches(&c, 1));
	assert_true(clock_ms() - start >= 120);
	assert_true(atomic_load(&c.slept_whole));
	/* The waking was not forgotten. */
	assert_true(reaches(&c, 2));
	duty_stop(d);
}

TEST(stopping_ends_a_sleep_and_waits_for_the_tick)
{
	struct counter c = {.again_ms = 60000, .sleep_ms = 60000};
	int64_t start = clock_ms();
	struct duty *d = begin(&c);

	while (!atomic_load(&c.busy))
		nap(1);
	assert_false(duty_stopping(d));
	duty_stop(d);
	assert_int_equal(atomic_load(&c.ticks), 1);
	assert_false(atomic_load(&c.busy));
	assert_false(atomic_load(&c.slept_whole));
	assert_true(clock_ms() - start < 5000);
}

static void *wake_often(void *arg)
{
	for (int i = 0; i < 2000; i++)
		duty_wake(arg);
	return NULL;
}

TEST(woken_by_many_threads)
{
	struct counter c = {.again_ms = 60000};
	struct duty *d = begin(&c);
	pthread_t t[4];
	int before;

	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&t[i], NULL, wake_often, d), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_join(t[i], NULL), 0);
	nap(20);
	before = atomic_load(&c.ticks);
	assert_in_range(before, 1, 8001);
	duty_wake(d);
	assert_true(reaches(&c, before + 1));
	duty_stop(d);
}

TEST(nothing_for_null)
{
	duty_wake(NULL);
	duty_stop(NULL);
}

TESTS(called_at_once_then_when_due, negative_is_at_once, not_before_it_is_due, woken,
	what_changes_during_a_tick_makes_another, a_sleep_is_not_ended_by_waking,
	stopping_ends_a_sleep_and_waits_for_the_tick, woken_by_many_threads, nothing_for_null)
