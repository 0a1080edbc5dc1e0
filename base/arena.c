/* SPDX-License-Identifier: Apache-2.0 */
/* base: the bump allocator: chunks in a list, the first one kept from one piece of work to the
 * next. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(ARENA_ASAN)
#define ARENA_ASAN 1
#endif

/* Under AddressSanitizer everything that was not handed out is poisoned, and a gap behind each
 * piece stays so. */
#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
/* Wider than most structs: a member of the element behind an array's last lies in it, too. */
#define ARENA_GAP 256
/* Functions, since gcc 12 takes the const pointers of the interface for a read of bytes nobody has
 * written. */
static __attribute__((noinline)) void arena_poison(void *at, size_t size)
{
	__asan_poison_memory_region(at, size);
}

static __attribute__((noinline)) void arena_unpoison(void *at, size_t size)
{
	__asan_unpoison_memory_region(at, size);
}
#else
#define ARENA_GAP 0
#define arena_poison(at, size) ((void)(at), (void)(size))
#define arena_unpoison(at, size) ((void)(at), (void)(size))
#endif

/* A review takes some tens of KB; chunks grow to the larger size for the few that take more. */
#define ARENA_CHUNK 65536
#define ARENA_SPILL 256
#define ARENA_CHUNK_MAX 1048576
/* A first chunk over this came from one large piece and is not worth keeping. */
#define ARENA_KEEP_MAX 262144
#define ARENA_ALIGN 16

struct arena_chunk {
	struct arena_chunk *next;
	size_t size; /* of data */
	size_t used;
	_Alignas(ARENA_ALIGN) char data[];
};

_Static_assert(_Alignof(max_align_t) <= ARENA_ALIGN, "pieces must be aligned for any type");

void arena_init(struct arena *a, size_t max)
{
	*a = (struct arena){.max = max};
}

void arena_init_small(struct arena *a, size_t max, size_t expected)
{
	*a = (struct arena){.max = max, .chunk = expected ? expected : ARENA_ALIGN};
}

static void free_list(struct arena_chunk *c)
{
	while (c) {
		struct arena_chunk *next = c->next;

		arena_unpoison(c->data, c->size);
		free(c);
		c = next;
	}
}

void arena_reset(struct arena *a)
{
	if (a->first && a->first->size > ARENA_KEEP_MAX) {
		free_list(a->first);
		a->first = NULL;
	}
	if (a->first) {
		free_list(a->first->next);
		a->first->next = NULL;
		a->first->used = 0;
		arena_poison(a->first->data, a->first->size);
	}
	a->now = a->first;
	a->used = 0;
	a->failed = a->full = false;
}

void arena_release(struct arena *a)
{
	free_list(a->first);
	*a = (struct arena){.max = a->max, .chunk = a->chunk};
}

/* A new chunk at the end of the list with room for need bytes; NULL when memory ran out. */
static struct arena_chunk *add_chunk(struct arena *a, size_t need)
{
	size_t size = a->chunk ? a->chunk : ARENA_CHUNK;
	struct arena_chunk *c;

	if (a->now)
		size = a->now->size < ARENA_CHUNK_MAX / 2 ? a->now->size * 2 : ARENA_CHUNK_MAX;
	/* what was expected was nearly right: thousands of such arenas stay, and twice as much
	 * again would triple them */
	if (a->chunk && a->now && a->now == a->first && size > 8 * ARENA_SPILL)
		size /= 8;
	if (size < need)
		size = need;
	c = malloc(sizeof(*c) + size);
	if (!c)
		return NULL;
	c->next = NULL;
	c->size = size;
	c->used = 0;
	arena_poison(c->data, size);
	if (a->now)
		a->now->next = c;
	else
		a->first = c;
	a->now = c;
	return c;
}

/* alloc without the zeroing, for callers that fill it at once. */
static void *take(struct arena *a, size_t size)
{
	struct arena_chunk *c = a->now;
	size_t need;
	char *at;

	if (a->failed)
		return NULL;
	/* Nothing counts as one byte, so that the maximum bounds the number of pieces too. */
	if (size == 0)
		size = 1;
	/* The first bound keeps the sums below from wrapping round. */
	if (size > SIZE_MAX / 4 || size > a->max - a->used) {
		a->full = true;
		goto fail;
	}
	need = (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
	need += ARENA_GAP;
	if (!c || need > c->size - c->used)
		c = add_chunk(a, need);
	if (!c)
		goto fail;
	at = c->data + c->used;
	c->used += need;
	a->used += size;
	arena_unpoison(at, size);
	return at;
fail:
	a->failed = true;
	return NULL;
}

void *arena_alloc(struct arena *a, size_t size)
{
	void *at = take(a, size);

	if (at && size)
		memset(at, 0, size);
	return at;
}

void *arena_array(struct arena *a, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		a->failed = true;
		return NULL;
	}
	return arena_alloc(a, bytes);
}

void *arena_space(struct arena *a, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		a->failed = true;
		return NULL;
	}
	return take(a, bytes);
}

void *arena_copy(struct arena *a, const void *from, size_t n, size_t size)
{
	void *copy = arena_space(a, n, size);

	if (copy && n > 0)
		memcpy(copy, from, n * size);
	return copy;
}

char *arena_strdup(struct arena *a, struct slice s)
{
	char *copy = s.len < SIZE_MAX ? take(a, s.len + 1) : NULL;

	if (!copy)
		return NULL;
	if (s.len)
		memcpy(copy, s.at, s.len);
	copy[s.len] = '\0';
	return copy;
}

char *arena_fmt(struct arena *a, const char *fmt, ...)
{
	va_list args, again;
	char *text = NULL;
	int n;

	va_start(args, fmt);
	va_copy(again, args);
	n = vsnprintf(NULL, 0, fmt, args);
	if (n < 0)
		a->failed = true;
	else
		text = take(a, (size_t)n + 1);
	if (text)
		vsnprintf(text, (size_t)n + 1, fmt, again);
	va_end(again);
	va_end(args);
	return text;
}

struct slice arena_slice(struct arena *a, struct slice s)
{
	char *copy = s.at ? arena_strdup(a, s) : NULL;

	return (struct slice){copy, copy ? s.len : 0};
}

struct slice *arena_slices(struct arena *a, const struct slice *list, size_t n)
{
	struct slice *copy = arena_array(a, n, sizeof(*copy));

	for (size_t i = 0; copy && i < n; i++)
		copy[i] = arena_slice(a, list[i]);
	return copy;
}
