/* SPDX-License-Identifier: Apache-2.0 */
/* base: text escaped for JSON strings and pointers, 16 bytes at a time. */
#include "base/buf.h"

#include "base/text.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

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
/* The first len (under 16) bytes, zeros behind them. No byte behind them is read: they may be the
 * last of a page. */
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
/* Which of the 16 bytes need an escape; with pointer, in a segment of a JSON pointer within a
 * string. A zero does. */
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

/* Copy bytes that need no escape, in a string or, with pointer, in a segment of a JSON pointer
 * there; returns how many. `out` has room for 16 bytes more than there are. */
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

/* Write the first bytes of long text, 16 at a time, and move *in and *len behind them: in JSON
 * within JSON each few bytes are a quote, so all of a block's are found at once. Returns the end.
 */
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

/* Does it certainly fit, however much is escaped, with so many bytes around it? True for most,
 * which are short. */
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
	size_t n = 0, end = 0;

	/* As long as all of a chunk is plain. */
	while (n == end && end < s.len) {
		end = s.len - n < ESC_CHUNK ? s.len : n + ESC_CHUNK;
		n += put_plain(text, s.at + n, end - n, false);
	}
	return n;
}

void buf_pointer_seg(struct buf *b, struct slice s)
{
	escape(b, s, true);
}

void buf_percent(struct buf *b, struct slice s)
{
	static const char hex[] = "0123456789ABCDEF";

	for (size_t i = 0; i < s.len; i++) {
		unsigned char ch = (unsigned char)s.at[i];

		if (text_is_alnum(s.at[i]) || (ch && strchr("-._~", ch))) {
			buf_char(b, s.at[i]);
		} else {
			buf_char(b, '%');
			buf_char(b, hex[ch >> 4]);
			buf_char(b, hex[ch & 15]);
		}
	}
}
