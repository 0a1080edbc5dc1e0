/* SPDX-License-Identifier: Apache-2.0 */
/* base: base64 by vectors, where the CPU has AVX2: 24 bytes become 32 characters at a time. For
 * buf.c alone. */
#ifndef BASE_BASE64_GROUPS_H
#define BASE_BASE64_GROUPS_H

#include <stddef.h>

#ifdef __x86_64__
#include <immintrin.h>

/* Three bytes in each 32 bits become four times six bits, in the order of the characters. */
__attribute__((target("avx2"))) static inline __m256i base64_spread(__m256i v)
{
	const __m256i order = _mm256_broadcastsi128_si256(
		_mm_set_epi8(10, 11, 9, 10, 7, 8, 6, 7, 4, 5, 3, 4, 1, 2, 0, 1));
	__m256i first, second;

	v = _mm256_shuffle_epi8(v, order);
	first = _mm256_mulhi_epu16(
		_mm256_and_si256(v, _mm256_set1_epi32(0x0FC0FC00)), _mm256_set1_epi32(0x04000040));
	second = _mm256_mullo_epi16(
		_mm256_and_si256(v, _mm256_set1_epi32(0x003F03F0)), _mm256_set1_epi32(0x01000010));
	return _mm256_or_si256(first, second);
}

/* Six bits to their character: what is to be added depends on the range alone. */
__attribute__((target("avx2"))) static inline __m256i base64_letters(__m256i v)
{
	const __m256i add = _mm256_broadcastsi128_si256(
		_mm_setr_epi8('a' - 26, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52,
			'0' - 52, '0' - 52, '0' - 52, '0' - 52, '+' - 62, '/' - 63, 'A', 0, 0));
	__m256i range = _mm256_subs_epu8(v, _mm256_set1_epi8(51));

	range = _mm256_or_si256(range,
		_mm256_and_si256(_mm256_cmpgt_epi8(_mm256_set1_epi8(26), v), _mm256_set1_epi8(13)));
	return _mm256_add_epi8(v, _mm256_shuffle_epi8(add, range));
}

__attribute__((target("avx2"))) static inline size_t base64_avx2(
	char *out, const unsigned char *in, size_t len)
{
	const unsigned char *at = in;

	/* Each half takes 12 bytes and reads 16. */
	for (; len - (size_t)(at - in) >= 28; at += 24, out += 32) {
		__m128i low = _mm_loadu_si128((const __m128i_u *)(const void *)at);
		__m128i high = _mm_loadu_si128((const __m128i_u *)(const void *)(at + 12));

		_mm256_storeu_si256((__m256i_u *)(void *)out,
			base64_letters(base64_spread(_mm256_set_m128i(high, low))));
	}
	return (size_t)(at - in);
}
#endif

/* Encode as many groups of 24 bytes as can be done fast, none on some CPUs; returns how many bytes
 * were taken. out has room for four characters for each three bytes. */
static inline size_t base64_groups(char *out, const unsigned char *in, size_t len)
{
#ifdef __x86_64__
	if (len >= 28 && __builtin_cpu_supports("avx2"))
		return base64_avx2(out, in, len);
#else
	(void)out, (void)in, (void)len;
#endif
	return 0;
}

#endif
