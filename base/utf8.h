/* SPDX-License-Identifier: Apache-2.0 */
/* base: one UTF-8 sequence (RFC 3629), for all that must look at single characters. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The length in bytes of the well-formed sequence at s[0..len), or 0: no surrogates, no overlong
 * forms, at most U+10FFFF. len 0 gives 0. */
static inline size_t utf8_len(const char *s, size_t len)
{
	const unsigned char *p = (const unsigned char *)s;
	unsigned char lo = 0x80, hi = 0xBF;
	size_t n;

	if (len == 0)
		return 0;
	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xC2 || p[0] > 0xF4)
		return 0;
	n = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
	if (len < n)
		return 0;
	if (p[0] == 0xE0)
		lo = 0xA0;
	else if (p[0] == 0xED)
		hi = 0x9F;
	else if (p[0] == 0xF0)
		lo = 0x90;
	else if (p[0] == 0xF4)
		hi = 0x8F;
	if (p[1] < lo || p[1] > hi)
		return 0;
	for (size_t i = 2; i < n; i++)
		if ((p[i] & 0xC0) != 0x80)
			return 0;
	return n;
}

/* The character of a well-formed sequence of n bytes. */
static inline uint32_t utf8_char(const char *s, size_t n)
{
	const unsigned char *p = (const unsigned char *)s;
	uint32_t c = n == 1 ? p[0] : p[0] & (0xFFu >> (n + 1));

	for (size_t i = 1; i < n; i++)
		c = c << 6 | (p[i] & 0x3Fu);
	return c;
}

/* Would it move the cursor, change colours, hide or reorder text, on a terminal or a page? No text
 * of a stranger brings such a character to a person. */
static inline bool utf8_unsafe(uint32_t c)
{
	return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0xAD || c == 0x61C || c == 0x180E ||
	       (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
	       (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF || (c >= 0xFFF9 && c <= 0xFFFB) ||
	       c >= 0xE0000;
}

/* In place: unsafe characters and bytes that are no UTF-8 become '?'. The length afterwards;
 * nothing is written behind it. */
static inline size_t utf8_clean(char *text, size_t len)
{
	size_t out = 0;

	for (size_t i = 0; i < len;) {
		size_t n = utf8_len(text + i, len - i);

		if (n == 0 || utf8_unsafe(utf8_char(text + i, n))) {
			text[out++] = '?';
			i += n ? n : 1;
			continue;
		}
		memmove(text + out, text + i, n);
		out += n;
		i += n;
	}
	return out;
}

#endif
