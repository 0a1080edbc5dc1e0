/* SPDX-License-Identifier: Apache-2.0 */
/* base: one UTF-8 sequence (RFC 3629), shared by the files of this floor that must look at single characters. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>

/* The length in bytes of the well-formed sequence at s[0..len), or 0: no surrogates, no overlong forms, at most
 * U+10FFFF. len 0 gives 0. */
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

#endif
