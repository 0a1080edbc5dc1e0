/* SPDX-License-Identifier: Apache-2.0 */
/* base: the clocks: one that only goes on, for deadlines and durations, and the time of day. Not
 * for webhook/core, which has none. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Of any clock, in whole microseconds. */
static inline int64_t clock_of_us(clockid_t id)
{
	struct timespec t;

	(void)clock_gettime(id, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Microseconds of the monotonic clock. */
static inline int64_t clock_us(void)
{
	return clock_of_us(CLOCK_MONOTONIC);
}

/* The same in whole milliseconds. */
static inline int64_t clock_ms(void)
{
	return clock_us() / 1000;
}

/* The same in seconds, as fine as the clock is: for durations below a microsecond. */
static inline double clock_s(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The time of day, whole milliseconds since 1970. */
static inline int64_t clock_wall_ms(void)
{
	return clock_of_us(CLOCK_REALTIME) / 1000;
}

/* The same in whole seconds. */
static inline int64_t clock_wall_s(void)
{
	return clock_of_us(CLOCK_REALTIME) / 1000000;
}

/* Seconds since 1970 as RFC 3339 in UTC: "2027-08-01T10:00:00Z"; "" for a date that cannot be
 * written so. Returns ret. */
#define CLOCK_TEXT_SIZE 32
const char *clock_text(int64_t seconds, char ret[static CLOCK_TEXT_SIZE]);

#endif
