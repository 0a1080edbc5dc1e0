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

/* The value of a hexadecimal digit, or -1. */
static inline int json_hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* The four digits behind "\u", or -1 when one is none. */
static inline int json_hex4(const char *p)
{
	int n = 0;

	for (int i = 0; i < 4; i++) {
		int digit = json_hex(p[i]);

		if (digit < 0)
			return -1;
		n = n << 4 | digit;
	}
	return n;
}

/* The character that a one-letter escape stands for ('n' is a newline), or 0. */
static inline char json_escape(char c)
{
	switch (c) {
	case '"':
	case '\\':
	case '/':
		return c;
	case 'b':
		return '\b';
	case 'f':
		return '\f';
	case 'n':
		return '\n';
	case 'r':
		return '\r';
	case 't':
		return '\t';
	default:
		return 0;
	}
}

#endif
