/* SPDX-License-Identifier: Apache-2.0 */
/* test: when a probe is asked again. */
#include "test/unit/test.h"
#include "webhook/cluster/reconcile/probe_moment.h"

#define EVERY 10

/* Every moment of two rounds: it is half a round to one and a half away, and always the server's
 * own moment. */
static void check_rounds(unsigned failures, int64_t round)
{
	const char *name = "gpu-07";
	int64_t own = probe_moment(name, failures, EVERY, 0) % round;

	for (int64_t asked = 0; asked < 2 * round; asked++) {
		int64_t next = probe_moment(name, failures, EVERY, asked);

		assert_int_equal(next % round, own);
		assert_in_range(next - asked, round / 2, round / 2 + round - 1);
	}
}

TEST(test_own_moment)
{
	check_rounds(0, EVERY);
	check_rounds(PROBE_FAILURES_MAX - 1, EVERY);
}

TEST(test_who_does_not_answer_is_asked_less)
{
	check_rounds(PROBE_FAILURES_MAX, 2 * EVERY);
	check_rounds(PROBE_FAILURES_MAX + 1, 4 * EVERY);
	check_rounds(PROBE_FAILURES_MAX + 2, 6 * EVERY);
	check_rounds(1000, 6 * EVERY);
}

TEST(test_servers_are_spread)
{
	char name[] = "gpu-00";
	bool seen[EVERY] = {false};
	unsigned n = 0;

	for (int i = 0; i < 100; i++) {
		name[4] = (char)('0' + i / 10);
		name[5] = (char)('0' + i % 10);
		seen[probe_moment(name, 0, EVERY, 0) % EVERY] = true;
	}
	for (int i = 0; i < EVERY; i++)
		n += seen[i];
	assert_int_equal(n, EVERY);
}

TESTS(test_own_moment, test_who_does_not_answer_is_asked_less, test_servers_are_spread)
