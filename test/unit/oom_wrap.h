/* SPDX-License-Identifier: Apache-2.0 */
/* test: make the n-th malloc, calloc or realloc fail, or the n-th piece of an arena. For programs
 * that are linked with --wrap for these (test_*_oom), and with oom_wrap.o and oom_nth.o. */
#ifndef TEST_UNIT_OOM_WRAP_H
#define TEST_UNIT_OOM_WRAP_H

#include <stdbool.h>
#include <stddef.h>

enum oom_extent {
	OOM_ONE,       /* only that allocation */
	OOM_ALL_AFTER, /* that and each one after it, until oom_end() */
};

/* Count allocations from here on, over all threads, and let the n-th of them fail, from 0;
 * negative: none. */
void oom_begin(long n, enum oom_extent extent);
/* The same, of the allocations of threads of that name alone, which is borrowed: others play
 * something for them. */
void oom_begin_in(const char *thread, long n, enum oom_extent extent);
/* The same, of the calling thread's alone. */
void oom_begin_here(long n, enum oom_extent extent);
/* No more fail. Has one since oom_begin()? */
bool oom_end(void);
/* Has one failed since oom_begin()? Goes on. */
bool oom_failed(void);

/* What oom_wrap.o asks at each allocation: does this one fail, of so many bytes? oom_nth.o answers,
 * or the simulator. */
bool oom_fails(size_t size);

#endif
