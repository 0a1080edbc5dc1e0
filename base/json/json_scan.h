/* SPDX-License-Identifier: Apache-2.0 */
/* base: how the strict JSON reader looks at bytes: blanks, plain runs inside strings, escapes. For
 * json_read.c and json_string.c alone. All of it relies on a zero byte behind the text and JSON_PAD
 * readable ones. */
#ifndef BASE_JSON_JSON_SCAN_H
#define BASE_JSON_JSON_SCAN_H

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

/* The value of a hexadecimal digit, negative for anything else. */
static inline int json_hex(char c)
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

	return digit[(unsigned char)c] - 1;
}

/* The four hexadecimal digits at p as a number, or negative when one is none. */
static inline int json_hex4(const char *p)
{
	int a = json_hex(p[0]), b = json_hex(p[1]), c = json_hex(p[2]), d = json_hex(p[3]);

	return (a | b | c | d) < 0 ? -1 : a << 12 | b << 8 | c << 4 | d;
}

/* Copy the run before the next backslash, or before end, from *p to *out, and move both behind it.
 * 16 bytes may be read and written from any position on. */
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
