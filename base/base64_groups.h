/* SPDX-License-Identifier: Apache-2.0 */
/* base: base64 by vectors, where the CPU has SSSE3: 12 bytes become 16 characters at a time. For buf.c alone. */
#ifndef BASE_BASE64_GROUPS_H
#define BASE_BASE64_GROUPS_H

#include <stddef.h>

#ifdef __x86_64__
#include <tmmintrin.h>

/* Three bytes in each 32 bits become four times six bits, in the order of the characters. */
__attribute__((target("ssse3"))) static inline __m128i base64_spread(__m128i v)
{
	const __m128i order = _mm_set_epi8(10, 11, 9, 10, 7, 8, 6, 7, 4, 5, 3, 4, 1, 2, 0, 1);
	__m128i first, second;

	v = _mm_shuffle_epi8(v, order);
	first = _mm_mulhi_epu16(
		_mm_and_si128(v, _mm_set1_epi32(0x0FC0FC00)), _mm_set1_epi32(0x04000040));
	second = _mm_mullo_epi16(
		_mm_and_si128(v, _mm_set1_epi32(0x003F03F0)), _mm_set1_epi32(0x01000010));
	return _mm_or_si128(first, second);
}

/* Six bits to their character: what is to be added depends on the range alone. */
__attribute__((target("ssse3"))) static inline __m128i base64_letters(__m128i v)
{
	const __m128i add =
		_mm_setr_epi8('a' - 26, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52,
			'0' - 52, '0' - 52, '0' - 52, '0' - 52, '+' - 62, '/' - 63, 'A', 0, 0);
	__m128i range = _mm_subs_epu8(v, _mm_set1_epi8(51));

	range = _mm_or_si128(
		range, _mm_and_si128(_mm_cmpgt_epi8(_mm_set1_epi8(26), v), _mm_set1_epi8(13)));
	return _mm_add_epi8(v, _mm_shuffle_epi8(add, range));
}

__attribute__((target("ssse3"))) static inline size_t base64_ssse3(
	char *out, const unsigned char *in, size_t len)
{
	size_t done = 0;

	/* 16 bytes are read for 12. */
	for (; len - done >= 16; done += 12, out += 16) {
		__m128i v = _mm_loadu_si128((const __m128i_u *)(const void *)(in + done));

		_mm_storeu_si128((__m128i_u *)(void *)out, base64_letters(base64_spread(v)));
	}
	return done;
}
#endif

/* Encode as many groups of 12 bytes as can be done fast, none on some CPUs; returns how many bytes were taken. out has room for four
 * characters for each three bytes. */
static inline size_t base64_groups(char *out, const unsigned char *in, size_t len)
{
#ifdef __x86_64__
	if (len >= 16 && __builtin_cpu_supports("ssse3"))
		return base64_ssse3(out, in, len);
#else
	(void)out, (void)in, (void)len;
#endif
	return 0;
}

#endif
