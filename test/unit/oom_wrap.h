/* SPDX-License-Identifier: Apache-2.0 */
/* test: malloc, calloc and realloc that ask the including program's own fails() first. For programs that are linked with
 * --wrap for the three (test_*_oom); included once, behind the definition of fails(). */
#ifndef TEST_UNIT_OOM_WRAP_H
#define TEST_UNIT_OOM_WRAP_H

#include <stddef.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *at, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *at, size_t size);

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *at, size_t size)
{
	return fails() ? NULL : __real_realloc(at, size);
}

#endif
