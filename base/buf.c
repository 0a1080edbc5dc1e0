/* SPDX-License-Identifier: Apache-2.0 */
/* base: the growing byte buffer: doubling, a hard maximum, failure that sticks. */
#include "base/buf.h"

#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

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

/* Bytes that are escaped at a time; each may become six. */
#define ESC_CHUNK 256

/* Write one byte escaped as JSON wants it; returns the end. */
static char *put_escaped(char *out, unsigned char c)
{
	static const char hex[] = "0123456789abcdef",
			  low[0x20 + 1] = "uuuuuuuubtnufruuuuuuuuuuuuuuuuuu";

	*out++ = '\\';
	*out++ = c < 0x20 ? low[c] : (char)c;
	if (out[-1] != 'u')
		return out;
	*out++ = '0';
	*out++ = '0';
	*out++ = hex[c >> 4];
	*out++ = hex[c & 15];
	return out;
}

#ifdef __SSE2__
/* The first len (under 16) bytes, zeros behind them. No byte behind them is read: they may be the last of a page. */
static inline __m128i load_part(const char *in, size_t len)
{
	uint64_t low = 0, high = 0;

	if (len >= 8) {
		memcpy(&low, in, 8);
		memcpy(&high, in + len - 8, 8);
		high = len > 8 ? high >> 8 * (16 - len) : 0;
	} else if (len >= 4) {
		uint32_t first, last;

		memcpy(&first, in, 4);
		memcpy(&last, in + len - 4, 4);
		low = first | (uint64_t)last << 8 * (len - 4);
	} else if (len > 0) {
		low = (unsigned char)in[0] | (uint64_t)(unsigned char)in[len / 2] << 8 * (len / 2) |
		      (uint64_t)(unsigned char)in[len - 1] << 8 * (len - 1);
	}
	return _mm_set_epi64x((long long)high, (long long)low);
}
#endif

#ifdef __SSE2__
/* Which of the 16 bytes need an escape; with pointer, in a segment of a JSON pointer within a string. A zero does. */
static inline unsigned special(__m128i v, bool pointer)
{
	const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'),
		      control = _mm_set1_epi8(0x1f), tilde = _mm_set1_epi8('~'),
		      slash = _mm_set1_epi8('/');
	__m128i hit =
		_mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, backslash)),
			_mm_cmpeq_epi8(_mm_min_epu8(v, control), v));

	if (pointer)
		hit = _mm_or_si128(
			hit, _mm_or_si128(_mm_cmpeq_epi8(v, tilde), _mm_cmpeq_epi8(v, slash)));
	return (unsigned)_mm_movemask_epi8(hit);
}

static inline void copy_16(char *out, const char *in)
{
	_mm_storeu_si128(
		(__m128i_u *)(void *)out, _mm_loadu_si128((const __m128i_u *)(const void *)in));
}
#endif

/* Copy bytes that need no escape, in a string or, with pointer, in a segment of a JSON pointer there; returns how many. `out` has room
 * for 16 bytes more than there are. */
static inline size_t put_plain(char *out, const char *in, size_t len, bool pointer)
{
	size_t n = 0;

#ifdef __SSE2__
	for (;; n += 16) {
		bool part = len - n < 16;
		__m128i v = part ? load_part(in + n, len - n)
				 : _mm_loadu_si128((const __m128i_u *)(const void *)(in + n));
		/* Of a part, the first zero behind it is a hit. */
		unsigned mask = special(v, pointer);

		_mm_storeu_si128((__m128i_u *)(void *)(out + n), v);
		if (mask)
			return n + (size_t)__builtin_ctz(mask);
	}
#else
	for (; n < len && (unsigned char)in[n] >= 0x20 && in[n] != '"' && in[n] != '\\' &&
		(!pointer || (in[n] != '~' && in[n] != '/'));
		n++)
		out[n] = in[n];
	return n;
#endif
}

/* Write a byte that needs an escape; returns the end. */
static inline char *put_special(char *out, char c, bool pointer)
{
	if (!pointer || (c != '~' && c != '/'))
		return put_escaped(out, (unsigned char)c);
	*out++ = '~';
	*out++ = c == '~' ? '0' : '1';
	return out;
}

/* Write the first bytes of long text, 16 at a time, and move *in and *len behind them: in JSON within JSON each few bytes are a quote,
 * so all of a block's are found at once. Returns the end. */
static inline char *put_blocks(char *out, const char **in, size_t *len, bool pointer)
{
#ifdef __SSE2__
	const char *at = *in;
	size_t left = *len;

	/* 16 bytes are copied behind each escape, so as many must follow the block. */
	for (; left >= 32; left -= 16, at += 16) {
		unsigned mask =
			special(_mm_loadu_si128((const __m128i_u *)(const void *)at), pointer);
		size_t from = 0;

		for (; mask; mask &= mask - 1) {
			size_t hit = (size_t)__builtin_ctz(mask);

			copy_16(out, at + from);
			out = put_special(out + (hit - from), at[hit], pointer);
			from = hit + 1;
		}
		copy_16(out, at + from);
		out += 16 - from;
	}
	*in = at;
	*len = left;
#else
	(void)in, (void)len, (void)pointer;
#endif
	return out;
}

/* Write len bytes escaped; returns the end. `out` has room for six times as many and 16 more. */
static inline char *put_chunk(char *out, const char *in, size_t len, bool pointer)
{
	out = put_blocks(out, &in, &len, pointer);
	for (;;) {
		size_t n = put_plain(out, in, len, pointer);

		out += n;
		if (n == len)
			return out;
		out = put_special(out, in[n], pointer);
		in += n + 1;
		len -= n + 1;
	}
}

/* Text that is long or for which there is little room. */
static __attribute__((noinline)) void escape_chunks(struct buf *b, struct slice s, bool pointer)
{
	/* written before it is read; zeroing it would cost more than the work */
	char text[6 * ESC_CHUNK + 16] __attribute__((uninitialized));

	while (s.len > 0) {
		size_t chunk = s.len < ESC_CHUNK ? s.len : ESC_CHUNK;

		if (buf_has_room(b, 6 * chunk + 16)) {
			char *end = put_chunk(b->data + b->len, s.at, chunk, pointer);

			*end = '\0';
			b->len = (size_t)(end - b->data);
		} else {
			buf_add(b, text, (size_t)(put_chunk(text, s.at, chunk, pointer) - text));
		}
		s = (struct slice){s.at + chunk, s.len - chunk};
	}
}

/* Does it certainly fit, however much is escaped, with so many bytes around it? True for most, which are short. */
static inline bool fits_escaped(const struct buf *b, size_t len, size_t around)
{
	return len <= ESC_CHUNK && buf_has_room(b, 6 * len + 16 + around);
}

static inline void escape(struct buf *b, struct slice s, bool pointer)
{
	char *end;

	if (!fits_escaped(b, s.len, 0)) {
		escape_chunks(b, s, pointer);
		return;
	}
	end = put_chunk(b->data + b->len, s.at, s.len, pointer);
	*end = '\0';
	b->len = (size_t)(end - b->data);
}

void buf_json_esc(struct buf *b, struct slice s)
{
	escape(b, s, false);
}

void buf_json_str(struct buf *b, struct slice s)
{
	char *at;

	if (!fits_escaped(b, s.len, 2)) {
		buf_char(b, '"');
		escape_chunks(b, s, false);
		buf_char(b, '"');
		return;
	}
	at = b->data + b->len;
	*at++ = '"';
	at = put_chunk(at, s.at, s.len, false);
	*at++ = '"';
	*at = '\0';
	b->len = (size_t)(at - b->data);
}

size_t buf_json_plain(struct slice s)
{
	char text[ESC_CHUNK + 16] __attribute__((uninitialized));
	size_t n = 0;

	while (n < s.len) {
		size_t chunk = s.len - n < ESC_CHUNK ? s.len - n : ESC_CHUNK;
		size_t plain = put_plain(text, s.at + n, chunk, false);

		n += plain;
		if (plain < chunk)
			break;
	}
	return n;
}

void buf_pointer_seg(struct buf *b, struct slice s)
{
	escape(b, s, true);
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
