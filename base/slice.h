/* SPDX-License-Identifier: Apache-2.0 */
/* base: bytes that somebody else owns. */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Not NUL-terminated. at == NULL means "absent"; len 0 with at set means "empty". */
struct slice {
	const char *at;
	size_t len;
};

/* A slice over a string literal, without strlen. */
#define SLICE(lit) ((struct slice){(lit), sizeof(lit) - 1})

static inline struct slice slice_of(const char *s)
{
	return (struct slice){s, s ? strlen(s) : 0};
}

static inline bool slice_eq(struct slice a, struct slice b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

static inline bool slice_is(struct slice a, const char *s)
{
	return a.at && slice_eq(a, slice_of(s));
}

static inline bool slice_starts(struct slice a, struct slice prefix)
{
	return a.len >= prefix.len && (prefix.len == 0 || memcmp(a.at, prefix.at, prefix.len) == 0);
}

#endif
