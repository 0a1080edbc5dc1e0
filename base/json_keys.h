/* SPDX-License-Identifier: Apache-2.0 */
/* base: finding a key that an object holds twice, by hashes that nobody outside can foresee. For json_read.c. */
#ifndef BASE_JSON_KEYS_H
#define BASE_JSON_KEYS_H

#include <stdint.h>
#include <string.h>

#include "base/json_read.h"

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

/* The hash of a decoded key; 8 bytes from at on must be readable, whatever len is. Both factors of each product depend
 * on the seed, so that without it nobody can make keys that collide, which would cost a comparison each. */
static inline uint64_t json_hash(struct json_seed seed, const char *at, size_t len)
{
	uint64_t a = 0, b = 0, h = seed.b;

	if (len <= 8) {
		if (len > 0) {
			a = json_load64(at);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
			a <<= 64 - 8 * len;
#else
			a >>= 64 - 8 * len;
#endif
		}
	} else {
		const char *end = at + len;

		for (; end - at > 16; at += 16)
			h = json_mix(json_load64(at) ^ seed.a, json_load64(at + 8) ^ h);
		a = json_load64(end - at >= 8 ? at : end - 8);
		b = json_load64(end - 8);
	}
	return json_mix(json_mix(a ^ seed.a, b ^ h) ^ len, seed.b);
}

/* Compare the key at node index `key` with those before it in the object at node index `object`, decoded. ERR_SYNTAX
 * when one is the same, ERR_NOMEM. */
int json_keys_compare(const struct json *j, uint32_t object, uint32_t key, struct err *err);

/* Look for equal keys among all n of the object, whose hashes are given in order. As json_keys_compare. */
int json_keys_check(
	const struct json *j, uint32_t object, const uint64_t *hash, size_t n, struct err *err);

#endif
