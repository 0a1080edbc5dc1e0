/* SPDX-License-Identifier: Apache-2.0 */
/* base: how the strict JSON reader looks at bytes: blanks, plain runs inside strings, escapes. For json_read.c
 * and json_string.c alone. All of it relies on a zero byte behind the text and JSON_PAD readable ones. */
#ifndef BASE_JSON_SCAN_H
#define BASE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* The first byte that is no JSON blank. */
static inline const char *json_blanks(const char *p)
{
	/* Documents from programs have few: one comparison for the common case. */
	while ((unsigned char)*p <= ' ' && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
		p++;
	return p;
}

/* Does this byte end a run that a string may hold as it is? A quote, a backslash, a control character, non-ASCII. */
static inline bool json_special(char c)
{
	unsigned char u = (unsigned char)c;

	return u < 0x20 || u >= 0x80 || u == '"' || u == '\\';
}

/* The first special byte at or after p. The zero byte behind the text is one, so the search always ends. */
static inline const char *json_plain(const char *p)
{
#ifdef __SSE2__
	const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');
	const __m128i low = _mm_set1_epi8(0x1F);

	for (;; p += 16) {
		__m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
		__m128i hit = _mm_or_si128(_mm_cmpeq_epi8(x, quote), _mm_cmpeq_epi8(x, slash));
		unsigned mask;

		/* The mask takes the top bit of each byte: x itself stands for "not ASCII". */
		hit = _mm_or_si128(hit, _mm_cmpeq_epi8(_mm_min_epu8(x, low), x));
		mask = (unsigned)_mm_movemask_epi8(_mm_or_si128(hit, x));
		if (mask)
			return p + __builtin_ctz(mask);
	}
#else
	const uint64_t ones = 0x0101010101010101U, tops = ones << 7;

	for (;; p += 8) {
		uint64_t x, quote, slash;

		memcpy(&x, p, 8);
		quote = x ^ ones * '"';
		slash = x ^ ones * '\\';
		if (((x - ones * 0x20) | x | (quote - ones) | (slash - ones)) & tops)
			break;
	}
	while (!json_special(*p))
		p++;
	return p;
#endif
}

/* The four hexadecimal digits at p as a number, or negative when one is none. */
static inline int json_hex4(const char *p)
{
	/* 0 stands for "no digit", so that the table can be written down: digits are one more. */
	static const signed char digit[256] = {
		['0'] = 1,
		['1'] = 2,
		['2'] = 3,
		['3'] = 4,
		['4'] = 5,
		['5'] = 6,
		['6'] = 7,
		['7'] = 8,
		['8'] = 9,
		['9'] = 10,
		['a'] = 11,
		['b'] = 12,
		['c'] = 13,
		['d'] = 14,
		['e'] = 15,
		['f'] = 16,
		['A'] = 11,
		['B'] = 12,
		['C'] = 13,
		['D'] = 14,
		['E'] = 15,
		['F'] = 16,
	};
	const unsigned char *u = (const unsigned char *)p;
	int a = digit[u[0]] - 1, b = digit[u[1]] - 1, c = digit[u[2]] - 1, d = digit[u[3]] - 1;

	if ((a | b | c | d) < 0)
		return -1;
	return a << 12 | b << 8 | c << 4 | d;
}

/* Copy the run before the next backslash, or before end, from *p to *out, and move both behind it. 16 bytes may be read
 * and written from any position on. */
static inline void json_copy_run(const char **p, const char *end, char **out)
{
#ifdef __SSE2__
	const __m128i slash = _mm_set1_epi8('\\');

	while (*p < end) {
		__m128i x = _mm_loadu_si128((const __m128i *)(const void *)*p);
		unsigned mask = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(x, slash));
		size_t n = (size_t)(end - *p);

		if (n > 16)
			n = 16;
		if (mask && (size_t)__builtin_ctz(mask) < n)
			n = (size_t)__builtin_ctz(mask);
		_mm_storeu_si128((__m128i *)(void *)*out, x);
		*p += n;
		*out += n;
		if (mask)
			return;
	}
#else
	while (*p < end && **p != '\\')
		*(*out)++ = *(*p)++;
#endif
}

/* The character that a one-letter escape stands for ('n' is a newline), or 0. */
static inline char json_escape(char c)
{
	static const char meaning[256] = {
		['"'] = '"',
		['\\'] = '\\',
		['/'] = '/',
		['b'] = '\b',
		['f'] = '\f',
		['n'] = '\n',
		['r'] = '\r',
		['t'] = '\t',
	};

	return meaning[(unsigned char)c];
}

#endif
