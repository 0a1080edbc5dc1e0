/* SPDX-License-Identifier: Apache-2.0 */
/* base: a growing byte buffer with a named maximum. Failure sticks: append freely, ask once at the
 * end. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/slice.h"

/* data is NUL-terminated whenever it is not NULL; the NUL is not counted in len. */
struct buf {
	char *data;
	size_t len;
	size_t cap;
	size_t max;  /* len never exceeds it */
	bool failed; /* an append did not fit or memory ran out; the contents are then what fitted
			before */
	bool full;   /* it failed because of max, not for want of memory */
};

/* An empty buffer that will hold at most max bytes. Allocates nothing. */
void buf_init(struct buf *b, size_t max);

/* Free the bytes and make it empty, max kept, failed cleared. */
void buf_release(struct buf *b);

/* Forget the bytes but keep the memory; failed cleared. */
void buf_clear(struct buf *b);

/* Make room for `more` bytes. False (and failed) when over max or out of memory. */
bool buf_reserve(struct buf *b, size_t more);

/* Is there room already? The appends below are inline for this common case: a reply consists of a
 * few hundred. */
static inline bool buf_has_room(const struct buf *b, size_t more)
{
	return !b->failed && more < b->cap - b->len;
}

static inline void buf_add(struct buf *b, const void *bytes, size_t len)
{
	if (len == 0 || (!buf_has_room(b, len) && !buf_reserve(b, len)))
		return;
	memcpy(b->data + b->len, bytes, len);
	b->len += len;
	b->data[b->len] = '\0';
}

static inline void buf_str(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

static inline void buf_slice(struct buf *b, struct slice s)
{
	buf_add(b, s.at, s.len);
}

static inline void buf_char(struct buf *b, char c)
{
	if (!buf_has_room(b, 1) && !buf_reserve(b, 1))
		return;
	b->data[b->len++] = c;
	b->data[b->len] = '\0';
}

/* Append a number in decimal digits, or as printf writes. */
void buf_u64(struct buf *b, uint64_t n);
void buf_i64(struct buf *b, int64_t n);
void buf_fmt(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Append s as a JSON string with its quotes: `"`, `\` and bytes below 0x20 escaped, all else
 * (UTF-8) as it is. */
void buf_json_str(struct buf *b, struct slice s);

/* Append s as the inside of a JSON string, without quotes. */
void buf_json_esc(struct buf *b, struct slice s);

/* How many bytes of s, from its beginning, are the same inside of a JSON string: s.len when nothing
 * has to be escaped. */
size_t buf_json_plain(struct slice s);

/* Append one segment of a JSON pointer (RFC 6901: `~` becomes `~0`, `/` becomes `~1`), escaped for
 * a JSON string too. */
void buf_pointer_seg(struct buf *b, struct slice s);

/* Append s percent-encoded for a query or a segment of a URL's path: all but A-Z a-z 0-9 - . _ ~
 * (RFC 3986). */
void buf_percent(struct buf *b, struct slice s);

/* Append base64 (RFC 4648, padded) of the bytes. */
void buf_base64(struct buf *b, const void *bytes, size_t len);

/* Hand the bytes over: the caller frees them with free(). NULL when failed; an empty buffer gives
 * "". b is empty after. */
char *buf_take(struct buf *b, size_t *ret_len);

/* The contents as a slice that lives until the next append. */
struct slice buf_as_slice(const struct buf *b);

#endif
