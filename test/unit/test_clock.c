/* SPDX-License-Identifier: Apache-2.0 */
/* test: the clocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"

/* One clock in three units: read in this order, none is behind the one before it. */
static void goes_on(void **state)
{
	const struct timespec nap = {.tv_nsec = 5000000};
	int64_t us = clock_us(), ms = clock_ms();
	double s = clock_s();

	(void)state;
	assert_true(ms >= us / 1000 && ms < us / 1000 + 60000);
	assert_true(s >= (double)ms / 1e3 && s < (double)ms / 1e3 + 60);
	(void)nanosleep(&nap, NULL);
	assert_true(clock_ms() - ms >= 5);
	assert_true(clock_us() - us >= 5000);
	assert_true(clock_s() - s >= 0.0049);
}

static void time_of_day(void **state)
{
	int64_t s = clock_wall_s(), ms = clock_wall_ms();

	(void)state;
	/* After 2020, before 2200. */
	assert_true(s > INT64_C(1577836800) && s < INT64_C(7258118400));
	assert_true(ms / 1000 >= s && ms / 1000 < s + 60);
}

static void test_text(void **state)
{
	char text[CLOCK_TEXT_SIZE];

	(void)state;
	assert_string_equal(clock_text(0, text), "1970-01-01T00:00:00Z");
	assert_string_equal(clock_text(INT64_C(1817114400), text), "2027-08-01T10:00:00Z");
	assert_string_equal(clock_text(-1, text), "1969-12-31T23:59:59Z");
	assert_string_equal(clock_text(INT64_MAX, text), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(goes_on),
		cmocka_unit_test(time_of_day),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
