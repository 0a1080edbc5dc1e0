/* SPDX-License-Identifier: Apache-2.0 */
/* test: see oom_wrap.h. */
#include <stddef.h>
#include <string.h>

#include "base/arena.h"
#include "test/unit/oom_wrap.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *at, size_t size);
/* Weak, as those of an arena below: of a program that is not linked with --wrap for it. */
void *__real_reallocarray(void *at, size_t n, size_t size) __attribute__((weak));
char *__real_strdup(const char *s) __attribute__((weak));
char *__real_strndup(const char *s, size_t n) __attribute__((weak));
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *at, size_t size);
void *__wrap_reallocarray(void *at, size_t n, size_t size);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);

void *__wrap_malloc(size_t size)
{
	return oom_fails(size) ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return oom_fails(n * size) ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *at, size_t size)
{
	return oom_fails(size) ? NULL : __real_realloc(at, size);
}

void *__wrap_reallocarray(void *at, size_t n, size_t size)
{
	return oom_fails(n * size) ? NULL : __real_reallocarray(at, n, size);
}

/* The C library's allocate by themselves. */
char *__wrap_strdup(const char *s)
{
	return oom_fails(strlen(s)) ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n)
{
	return oom_fails(n) ? NULL : __real_strndup(s, n);
}

/* ---- an arena's pieces ---- */

/* A chunk holds many, and so the n-th malloc never fails at most of them. Weak: of a program that
 * is not linked with --wrap for these. */
void *__real_arena_alloc(struct arena *a, size_t size) __attribute__((weak));
void *__real_arena_array(struct arena *a, size_t n, size_t size) __attribute__((weak));
void *__real_arena_space(struct arena *a, size_t n, size_t size) __attribute__((weak));
void *__real_arena_copy(struct arena *a, const void *from, size_t n, size_t size)
	__attribute__((weak));
char *__real_arena_strdup(struct arena *a, struct slice s) __attribute__((weak));
struct slice __real_arena_slice(struct arena *a, struct slice s) __attribute__((weak));
void *__wrap_arena_alloc(struct arena *a, size_t size);
void *__wrap_arena_array(struct arena *a, size_t n, size_t size);
void *__wrap_arena_space(struct arena *a, size_t n, size_t size);
void *__wrap_arena_copy(struct arena *a, const void *from, size_t n, size_t size);
char *__wrap_arena_strdup(struct arena *a, struct slice s);
struct slice __wrap_arena_slice(struct arena *a, struct slice s);

/* As the arena does where its next chunk cannot be had. */
static bool lacks(struct arena *a, size_t size)
{
	if (oom_fails(size))
		a->failed = true;
	return a->failed;
}

void *__wrap_arena_alloc(struct arena *a, size_t size)
{
	return lacks(a, size) ? NULL : __real_arena_alloc(a, size);
}

void *__wrap_arena_array(struct arena *a, size_t n, size_t size)
{
	return lacks(a, n * size) ? NULL : __real_arena_array(a, n, size);
}

void *__wrap_arena_space(struct arena *a, size_t n, size_t size)
{
	return lacks(a, n * size) ? NULL : __real_arena_space(a, n, size);
}

void *__wrap_arena_copy(struct arena *a, const void *from, size_t n, size_t size)
{
	return lacks(a, n * size) ? NULL : __real_arena_copy(a, from, n, size);
}

char *__wrap_arena_strdup(struct arena *a, struct slice s)
{
	return lacks(a, s.len) ? NULL : __real_arena_strdup(a, s);
}

struct slice __wrap_arena_slice(struct arena *a, struct slice s)
{
	return lacks(a, s.len) ? (struct slice){0} : __real_arena_slice(a, s);
}
