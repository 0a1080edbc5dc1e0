/* SPDX-License-Identifier: Apache-2.0 */
/* base: memory for one piece of work (a review, a file): taken bit by bit, given back at once. Not
 * thread-safe; one thread, one arena. Under AddressSanitizer what was not handed out is poisoned.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

struct arena_chunk;

struct arena {
	struct arena_chunk *first; /* kept by arena_reset */
	struct arena_chunk *now;
	size_t used;  /* bytes handed out since the last reset */
	size_t max;   /* used never exceeds it */
	bool failed;  /* an allocation did not fit or memory ran out: sticks until arena_reset */
	bool full;    /* it failed because of max, not for want of memory */
	size_t chunk; /* bytes of the first chunk; 0: as much as a review takes */
};

/* An empty arena that hands out at most max bytes between two resets. Allocates nothing. */
void arena_init(struct arena *a, size_t max);
/* The same for one of many arenas that live long: expected is about what it will hand out. */
void arena_init_small(struct arena *a, size_t max, size_t expected);
/* Forget everything handed out; keeps the first chunk. */
void arena_reset(struct arena *a);
/* Free everything. */
void arena_release(struct arena *a);

/* size zeroed bytes, aligned for any type. NULL (and failed) when over max or out of memory; size 0
 * gives non-NULL. */
void *arena_alloc(struct arena *a, size_t size);
/* n objects of that size, zeroed; an overflow of n × size fails. */
void *arena_array(struct arena *a, size_t n, size_t size);
/* The same, not zeroed: for large arrays whose elements are all written before they are read. */
void *arena_space(struct arena *a, size_t n, size_t size);
/* A copy of n objects of that size; from may be NULL when n is 0. NULL when failed. */
void *arena_copy(struct arena *a, const void *from, size_t n, size_t size);
/* A NUL-terminated copy. NULL when failed. */
char *arena_strdup(struct arena *a, struct slice s);
/* printf into the arena; NULL when failed. */
char *arena_fmt(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A copy as a slice (NUL-terminated behind). Absent when failed. */
struct slice arena_slice(struct arena *a, struct slice s);
/* A copy of n slices and of what they hold. NULL, or with absent ones, when failed. */
struct slice *arena_slices(struct arena *a, const struct slice *list, size_t n);

#endif
