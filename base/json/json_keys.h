/* SPDX-License-Identifier: Apache-2.0 */
/* base: finding a key that an object holds twice, by hashes that nobody outside can foresee. For
 * json_read.c. */
#ifndef BASE_JSON_JSON_KEYS_H
#define BASE_JSON_JSON_KEYS_H

#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/json/json_read.h"

struct json_seed {
	uint64_t a, b;
};

/* The process's seed: random, drawn at the first call. */
struct json_seed json_seed(void);

/* Both halves of the 128-bit product, folded. */
static inline uint64_t json_mix(uint64_t a, uint64_t b)
{
	__uint128_t product = (__uint128_t)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t json_load64(const char *p)
{
	uint64_t x;

	memcpy(&x, p, 8);
	return x;
}

/* The first 16 bytes of a key of at most so many, zeros behind it. No key holds a zero byte, so no
 * two have the same. */
static inline void json_short(const char *at, size_t len, uint64_t *ret_a, uint64_t *ret_b)
{
#ifdef __SSE2__
	static const unsigned char keep[32] = {
		255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
	__m128i x = _mm_and_si128(_mm_loadu_si128((const __m128i *)(const void *)at),
		_mm_loadu_si128((const __m128i *)(const void *)(keep + 16 - len)));

	*ret_a = (uint64_t)_mm_cvtsi128_si64(x);
	*ret_b = (uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(x, x));
#else
	char key[16] = {0};

	memcpy(key, at, len);
	*ret_a = json_load64(key);
	*ret_b = json_load64(key + 8);
#endif
}

/* The hash of a key; JSON_PAD bytes from at on must be readable, whatever len is. Both factors of
 * each product depend on the seed, so that without it nobody can make keys that collide, which
 * would cost a comparison each. */
static inline uint64_t json_hash(struct json_seed seed, const char *at, size_t len)
{
	uint64_t a, b, h = seed.b;

	if (len <= 16) {
		json_short(at, len, &a, &b);
	} else {
		const char *end = at + len;

		for (; end - at > 16; at += 16)
			h = json_mix(json_load64(at) ^ seed.a, json_load64(at + 8) ^ h);
		a = json_load64(end - 16);
		b = json_load64(end - 8);
	}
	return json_mix(a ^ seed.a, b ^ (h + len));
}

/* Compare the key at node index `key` with those before it in the object at node index `object`,
 * decoded. ERR_SYNTAX when one is the same, ERR_NOMEM. */
int json_keys_compare(const struct json *j, uint32_t object, uint32_t key, struct err *err);

/* Look for equal keys among all n of the object, whose hashes are given in order. As
 * json_keys_compare. */
int json_keys_check(
	const struct json *j, uint32_t object, const uint64_t *hash, size_t n, struct err *err);

#endif
