/* SPDX-License-Identifier: Apache-2.0 */
/* base: the growing byte buffer: doubling, a hard maximum, failure that sticks. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
		return false;
	}
	need = b->len + more + 1;
	if (need <= b->cap)
		return true;
	cap = b->cap <= SIZE_MAX / 2 ? b->cap * 2 : need;
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

void buf_add(struct buf *b, const void *bytes, size_t len)
{
	if (len == 0 || !buf_reserve(b, len))
		return;
	memcpy(b->data + b->len, bytes, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void buf_str(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_slice(struct buf *b, struct slice s)
{
	buf_add(b, s.at, s.len);
}

void buf_char(struct buf *b, char c)
{
	if (!buf_reserve(b, 1))
		return;
	b->data[b->len++] = c;
	b->data[b->len] = '\0';
}

void buf_u64(struct buf *b, uint64_t n)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	buf_add(b, digits + at, sizeof(digits) - at);
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

/* Append one character, escaped where JSON wants it. */
static void add_escaped(struct buf *b, char c)
{
	static const char hex[] = "0123456789abcdef";
	unsigned char u = (unsigned char)c;
	char text[6] = {'\\', c, '0', '0', hex[u >> 4], hex[u & 15]};

	switch (c) {
	case '"':
	case '\\':
		break;
	case '\b':
		text[1] = 'b';
		break;
	case '\f':
		text[1] = 'f';
		break;
	case '\n':
		text[1] = 'n';
		break;
	case '\r':
		text[1] = 'r';
		break;
	case '\t':
		text[1] = 't';
		break;
	default:
		text[1] = 'u';
		buf_add(b, text, 6);
		return;
	}
	buf_add(b, text, 2);
}

void buf_json_esc(struct buf *b, struct slice s)
{
	size_t from = 0;

	for (size_t i = 0; i < s.len; i++) {
		if ((unsigned char)s.at[i] >= 0x20 && s.at[i] != '"' && s.at[i] != '\\')
			continue;
		buf_add(b, s.at + from, i - from);
		add_escaped(b, s.at[i]);
		from = i + 1;
	}
	if (from < s.len)
		buf_add(b, s.at + from, s.len - from);
}

void buf_json_str(struct buf *b, struct slice s)
{
	buf_char(b, '"');
	buf_json_esc(b, s);
	buf_char(b, '"');
}

void buf_pointer_seg(struct buf *b, struct slice s)
{
	size_t from = 0;

	for (size_t i = 0; i < s.len; i++) {
		if (s.at[i] != '~' && s.at[i] != '/')
			continue;
		buf_json_esc(b, (struct slice){s.at + from, i - from});
		buf_add(b, s.at[i] == '~' ? "~0" : "~1", 2);
		from = i + 1;
	}
	if (from < s.len)
		buf_json_esc(b, (struct slice){s.at + from, s.len - from});
}

void buf_base64(struct buf *b, const void *bytes, size_t len)
{
	static const char code[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *in = bytes;
	char *out;

	if (len > SIZE_MAX / 2) {
		b->failed = true;
		return;
	}
	if (len == 0 || !buf_reserve(b, (len + 2) / 3 * 4))
		return;
	out = b->data + b->len;
	for (; len >= 3; len -= 3, in += 3) {
		*out++ = code[in[0] >> 2];
		*out++ = code[(in[0] & 3) << 4 | in[1] >> 4];
		*out++ = code[(in[1] & 15) << 2 | in[2] >> 6];
		*out++ = code[in[2] & 63];
	}
	if (len > 0) {
		unsigned second = len == 2 ? in[1] : 0;

		*out++ = code[in[0] >> 2];
		*out++ = code[(in[0] & 3U) << 4 | second >> 4];
		*out++ = len == 2 ? code[(second & 15) << 2] : '=';
		*out++ = '=';
	}
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
