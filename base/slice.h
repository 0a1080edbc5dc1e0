/* SPDX-License-Identifier: Apache-2.0 */
/* base: bytes that somebody else owns. */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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

/* Are these n bytes the same? In place and a word at a time, for what is short, such as keys:
 * memcmp would be a call. */
static inline bool bytes_eq(const char *a, const char *b, size_t n)
{
	uint64_t x, y;
	uint32_t v, w;

	if (n >= sizeof(x)) {
		for (; n > sizeof(x); n -= sizeof(x), a += sizeof(x), b += sizeof(x)) {
			memcpy(&x, a, sizeof(x));
			memcpy(&y, b, sizeof(y));
			if (x != y)
				return false;
		}
		/* the last word may begin in the one before it */
		memcpy(&x, a + n - sizeof(x), sizeof(x));
		memcpy(&y, b + n - sizeof(y), sizeof(y));
		return x == y;
	}
	if (n >= sizeof(v)) {
		memcpy(&v, a, sizeof(v));
		memcpy(&w, b, sizeof(w));
		if (v != w)
			return false;
		memcpy(&v, a + n - sizeof(v), sizeof(v));
		memcpy(&w, b + n - sizeof(w), sizeof(w));
		return v == w;
	}
	while (n > 0 && a[n - 1] == b[n - 1])
		n--;
	return n == 0;
}

static inline bool slice_eq(struct slice a, struct slice b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

/* Byte by byte; who is shorter and otherwise alike goes first. */
static inline int slice_order(struct slice a, struct slice b)
{
	size_t n = a.len < b.len ? a.len : b.len;
	int order = n ? memcmp(a.at, b.at, n) : 0;

	return order ? order : (a.len > b.len) - (a.len < b.len);
}

static inline bool slice_is(struct slice a, const char *s)
{
	return a.at && slice_eq(a, slice_of(s));
}

static inline bool slice_starts(struct slice a, struct slice prefix)
{
	return a.len >= prefix.len && (prefix.len == 0 || memcmp(a.at, prefix.at, prefix.len) == 0);
}

static inline bool slice_holds(struct slice a, struct slice word)
{
	for (size_t i = 0; i + word.len <= a.len; i++)
		if (memcmp(a.at + i, word.at, word.len) == 0)
			return true;
	return false;
}

#endif
