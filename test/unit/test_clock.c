/* SPDX-License-Identifier: Apache-2.0 */
/* test: the clocks. */
#include "base/clock.h"
#include "test/unit/test.h"

/* One clock in three units: read in this order, none is behind the one before it. */
TEST(goes_on)
{
	const struct timespec nap = {.tv_nsec = 5000000};
	int64_t us = clock_us(), ms = clock_ms();
	double s = clock_s();

	assert_true(ms >= us / 1000 && ms < us / 1000 + 60000);
	assert_true(s >= (double)ms / 1e3 && s < (double)ms / 1e3 + 60);
	(void)nanosleep(&nap, NULL);
	assert_true(clock_ms() - ms >= 5);
	assert_true(clock_us() - us >= 5000);
	assert_true(clock_s() - s >= 0.0049);
}

TEST(time_of_day)
{
	int64_t s = clock_wall_s(), ms = clock_wall_ms();

	/* After 2020, before 2200. */
	assert_true(s > INT64_C(1577836800) && s < INT64_C(7258118400));
	assert_true(ms / 1000 >= s && ms / 1000 < s + 60);
}

TEST(test_text)
{
	char text[CLOCK_TEXT_SIZE];

	assert_string_equal(clock_text(0, text), "1970-01-01T00:00:00Z");
	assert_string_equal(clock_text(INT64_C(1817114400), text), "2027-08-01T10:00:00Z");
	assert_string_equal(clock_text(-1, text), "1969-12-31T23:59:59Z");
	assert_string_equal(clock_text(INT64_MAX, text), "");
}

TESTS(test_text, goes_on, time_of_day)
