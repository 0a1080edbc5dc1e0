/* SPDX-License-Identifier: Apache-2.0 */
/* base: the growing byte buffer: doubling, a hard maximum, failure that sticks. */
#include "base/buf.h"

#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64_groups.h"

/* The first growth asks for this much, so that short texts cost one allocation. */
#define BUF_FIRST 256

void buf_init(struct buf *b, size_t max)
{
	*b = (struct buf){.max = max};
}

void buf_release(struct buf *b)
{
	free(b->data);
	*b = (struct buf){.max = b->max};
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	b->failed = false;
	b->full = false;
	if (b->data)
		b->data[0] = '\0';
}

bool buf_reserve(struct buf *b, size_t more)
{
	size_t need, cap;
	char *data;

	if (b->failed)
		return false;
	if (more > b->max - b->len || b->len + more > SIZE_MAX - 1) {
		b->failed = true;
		b->full = true;
		return false;
	}
	need = b->len + more + 1;
	if (need <= b->cap)
		return true;
	cap = b->cap * 2; /* no object is larger than half of the address space */
	if (cap < BUF_FIRST)
		cap = BUF_FIRST;
	if (cap < need)
		cap = need;
	if (cap - 1 > b->max)
		cap = b->max + 1;
	data = realloc(b->data, cap);
	if (!data) {
		b->failed = true;
		return false;
	}
	data[b->len] = '\0';
	b->data = data;
	b->cap = cap;
	return true;
}

void buf_u64(struct buf *b, uint64_t n)
{
	size_t digits = 1;

	for (uint64_t rest = n; rest >= 10; rest /= 10)
		digits++;
	if (!buf_has_room(b, digits) && !buf_reserve(b, digits))
		return;
	b->len += digits;
	b->data[b->len] = '\0';
	for (size_t at = b->len; digits > 0; digits--, n /= 10)
		b->data[--at] = (char)('0' + n % 10);
}

void buf_i64(struct buf *b, int64_t n)
{
	uint64_t size = (uint64_t)n;

	/* One reservation for sign and digits: an append is whole or not there at all. */
	if (n < 0) {
		if (!buf_reserve(b, 2))
			return;
		buf_char(b, '-');
		size = 0 - size;
	}
	buf_u64(b, size);
	if (n < 0 && b->failed) {
		b->len--;
		b->data[b->len] = '\0';
	}
}

void buf_fmt(struct buf *b, const char *fmt, ...)
{
	va_list args, again;
	size_t room;
	int n;

	if (b->failed)
		return;
	room = b->data ? b->cap - b->len : 0;
	va_start(args, fmt);
	va_copy(again, args);
	n = vsnprintf(b->data ? b->data + b->len : NULL, room, fmt, args);
	if (n < 0) {
		b->failed = true;
	} else if ((size_t)n < room) {
		b->len += (size_t)n;
	} else if (buf_reserve(b, (size_t)n)) {
		vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
		b->len += (size_t)n;
	}
	if (b->data)
		b->data[b->len] = '\0';
	va_end(again);
	va_end(args);
}

/* All pairs of base64 characters, so that 12 bits are one look-up. */
#define B64_ROW(c)                                                                                 \
	{c, 'A'}, {c, 'B'}, {c, 'C'}, {c, 'D'}, {c, 'E'}, {c, 'F'}, {c, 'G'}, {c, 'H'}, {c, 'I'},  \
		{c, 'J'}, {c, 'K'}, {c, 'L'}, {c, 'M'}, {c, 'N'}, {c, 'O'}, {c, 'P'}, {c, 'Q'},    \
		{c, 'R'}, {c, 'S'}, {c, 'T'}, {c, 'U'}, {c, 'V'}, {c, 'W'}, {c, 'X'}, {c, 'Y'},    \
		{c, 'Z'}, {c, 'a'}, {c, 'b'}, {c, 'c'}, {c, 'd'}, {c, 'e'}, {c, 'f'}, {c, 'g'},    \
		{c, 'h'}, {c, 'i'}, {c, 'j'}, {c, 'k'}, {c, 'l'}, {c, 'm'}, {c, 'n'}, {c, 'o'},    \
		{c, 'p'}, {c, 'q'}, {c, 'r'}, {c, 's'}, {c, 't'}, {c, 'u'}, {c, 'v'}, {c, 'w'},    \
		{c, 'x'}, {c, 'y'}, {c, 'z'}, {c, '0'}, {c, '1'}, {c, '2'}, {c, '3'}, {c, '4'},    \
		{c, '5'}, {c, '6'}, {c, '7'}, {c, '8'}, {c, '9'}, {c, '+'},                        \
	{                                                                                          \
		c, '/'                                                                             \
	}
#define B64_ROWS(a, b, c, d, e, f, g, h)                                                           \
	B64_ROW(a), B64_ROW(b), B64_ROW(c), B64_ROW(d), B64_ROW(e), B64_ROW(f), B64_ROW(g),        \
		B64_ROW(h)

static const char b64_pair[4096][2] = {B64_ROWS('A', 'B', 'C', 'D', 'E', 'F', 'G', 'H'),
	B64_ROWS('I', 'J', 'K', 'L', 'M', 'N', 'O', 'P'),
	B64_ROWS('Q', 'R', 'S', 'T', 'U', 'V', 'W', 'X'),
	B64_ROWS('Y', 'Z', 'a', 'b', 'c', 'd', 'e', 'f'),
	B64_ROWS('g', 'h', 'i', 'j', 'k', 'l', 'm', 'n'),
	B64_ROWS('o', 'p', 'q', 'r', 's', 't', 'u', 'v'),
	B64_ROWS('w', 'x', 'y', 'z', '0', '1', '2', '3'),
	B64_ROWS('4', '5', '6', '7', '8', '9', '+', '/')};

/* The last one or two bytes, padded. */
static char *b64_tail(char *out, const unsigned char *in, size_t len)
{
	unsigned bits = (unsigned)in[0] << 16 | (len == 2 ? (unsigned)in[1] << 8 : 0);

	memcpy(out, b64_pair[bits >> 12], 2);
	out[2] = len == 2 ? b64_pair[bits & 4095][0] : '=';
	out[3] = '=';
	return out + 4;
}

void buf_base64(struct buf *b, const void *bytes, size_t len)
{
	const unsigned char *in = bytes;
	size_t done;
	char *out;

	if (len > SIZE_MAX / 2) {
		b->failed = true;
		return;
	}
	if (len == 0 || !buf_reserve(b, (len + 2) / 3 * 4))
		return;
	out = b->data + b->len;
	done = base64_groups(out, in, len);
	in += done;
	len -= done;
	out += done / 3 * 4;
	for (; len >= 8; len -= 6, in += 6, out += 8) {
		uint64_t bits;

		memcpy(&bits, in, 8);
		bits = be64toh(bits);
		memcpy(out, b64_pair[bits >> 52], 2);
		memcpy(out + 2, b64_pair[bits >> 40 & 4095], 2);
		memcpy(out + 4, b64_pair[bits >> 28 & 4095], 2);
		memcpy(out + 6, b64_pair[bits >> 16 & 4095], 2);
	}
	for (; len >= 3; len -= 3, in += 3, out += 4) {
		unsigned bits = (unsigned)in[0] << 16 | (unsigned)in[1] << 8 | in[2];

		memcpy(out, b64_pair[bits >> 12], 2);
		memcpy(out + 2, b64_pair[bits & 4095], 2);
	}
	if (len > 0)
		out = b64_tail(out, in, len);
	*out = '\0';
	b->len = (size_t)(out - b->data);
}

char *buf_take(struct buf *b, size_t *ret_len)
{
	char *data;
	size_t len = b->len;

	if (!b->data)
		buf_reserve(b, 0);
	if (b->failed) {
		buf_release(b);
		return NULL;
	}
	data = b->data;
	*b = (struct buf){.max = b->max};
	if (ret_len)
		*ret_len = len;
	return data;
}

struct slice buf_as_slice(const struct buf *b)
{
	return (struct slice){b->data ? b->data : "", b->len};
}
