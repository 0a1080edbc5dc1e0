/* SPDX-License-Identifier: Apache-2.0 */
/* test: calls that are made at the same time: each once, sixteen that wait for each other. */
#include <stdatomic.h>

#include "base/clock.h"
#include "test/unit/test.h"
#include "webhook/cluster/duty/side_by_side.h"

#define TOGETHER 16
/* Far more than threads need to begin: only what does not hold takes so long. */
#define LONG_MS 60000

struct meeting {
	atomic_size_t come, met;
};

static void count_one(void *ctx, size_t i)
{
	(void)atomic_fetch_add(&((atomic_int *)ctx)[i], 1);
}

static void meet(void *ctx, size_t i)
{
	struct meeting *m = ctx;
	int64_t until = clock_ms() + LONG_MS;

	(void)i;
	(void)atomic_fetch_add(&m->come, 1);
	while (atomic_load(&m->come) < TOGETHER && clock_ms() < until)
		usleep(1000);
	if (atomic_load(&m->come) == TOGETHER)
		(void)atomic_fetch_add(&m->met, 1);
}

TEST(test_each_once)
{
	static const size_t sizes[] = {0, 1, 2, 15, 16, 17, 300};
	atomic_int calls[300];

	for (size_t k = 0; k < COUNT(sizes); k++) {
		for (size_t i = 0; i < COUNT(calls); i++)
			atomic_init(&calls[i], 0);
		run_side_by_side(sizes[k], count_one, calls);
		for (size_t i = 0; i < COUNT(calls); i++)
			assert_int_equal(atomic_load(&calls[i]), i < sizes[k]);
	}
}

TEST(test_sixteen_at_a_time)
{
	struct meeting m = {0};

	run_side_by_side(TOGETHER, meet, &m);
	assert_int_equal(atomic_load(&m.met), TOGETHER);
}

TESTS(test_each_once, test_sixteen_at_a_time)
