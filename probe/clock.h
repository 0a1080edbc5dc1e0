/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the clocks: one that only goes on, for deadlines and durations, and the time of day. */
#ifndef PROBE_CLOCK_H
#define PROBE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Seconds of the monotonic clock. */
static inline double clock_s(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The same in whole milliseconds. */
static inline int64_t clock_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The time of day, seconds since 1970. */
static inline int64_t clock_wall_s(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec;
}

#endif
