/* SPDX-License-Identifier: Apache-2.0 */
/* soak: how long requests took, counted in buckets that are 1.6 % wide at most. */
#include "test/faults/soak.h"

size_t times_bucket(uint64_t us)
{
	unsigned top;
	size_t at;

	if (us < 128)
		return us;
	top = 63 - (unsigned)__builtin_clzll(us);
	at = 128 + (size_t)(top - 7) * 64 + (us >> (top - 6) & 63);
	return at < TIMES ? at : TIMES - 1;
}

static uint64_t bucket_us(size_t at)
{
	return at < 128 ? at : (64 + (at - 128) % 64) << ((at - 128) / 64 + 1);
}

double times_ms(const uint64_t histogram[TIMES], uint64_t of_10000)
{
	uint64_t all = 0, sum = 0;
	size_t i;

	for (i = 0; i < TIMES; i++)
		all += histogram[i];
	for (i = 0; i < TIMES - 1 && (sum += histogram[i]) * 10000 < all * of_10000; i++)
		;
	return (double)bucket_us(i) / 1000;
}
