/* SPDX-License-Identifier: Apache-2.0 */
/* probe: chains side by side, so that the compiler sees vectors and the processor has something to
 * do while it waits for a result. */
#include "probe/check/exact_cpu.h"

#include <stdbool.h>

#include "probe/kernels/exact.h"

#define BATCH 32

#define LANES for (unsigned l = 0; l < BATCH; l++)

/* n of the lanes, at most BATCH of them; the last one fills the rest. keep: a constant, see
 * exact.h. */
KERNEL_SHARED_FN void batch32(const uint32_t *lanes, size_t n, uint32_t steps, uint32_t fold,
	uint64_t seed, int keep, uint64_t *ret)
{
	float x[BATCH], minus_a[BATCH], b[BATCH];
	uint32_t kept[BATCH];
	uint64_t hash[BATCH];

	LANES hash[l] = exact_start(lanes[l < n ? l : n - 1], seed);
	for (uint32_t done = 0; done < steps; done += fold) {
		LANES
		{
			struct exact_state32 s = exact_seed32(hash[l]);

			x[l] = s.x;
			minus_a[l] = s.minus_a;
			b[l] = s.b;
			kept[l] = 0;
		}
		for (uint32_t i = 0; i < fold; i += 2)
			LANES
			{
				struct exact_state32 s = {x[l], minus_a[l], b[l]};

				x[l] = exact_pair32(s, keep ? &kept[l] : 0);
			}
		LANES hash[l] = exact_fold32(hash[l], x[l], kept[l]);
	}
	for (size_t l = 0; l < n; l++)
		ret[l] = hash[l];
}

KERNEL_SHARED_FN void batch64(const uint32_t *lanes, size_t n, uint32_t steps, uint32_t fold,
	uint64_t seed, int keep, uint64_t *ret)
{
	double x[BATCH], minus_a[BATCH], b[BATCH];
	struct exact_kept64 kept[BATCH];
	uint64_t hash[BATCH];

	LANES hash[l] = exact_start(lanes[l < n ? l : n - 1], seed);
	for (uint32_t done = 0; done < steps; done += fold) {
		LANES
		{
			struct exact_state64 s = exact_seed64(hash[l]);

			x[l] = s.x;
			minus_a[l] = s.minus_a;
			b[l] = s.b;
			kept[l] = (struct exact_kept64){0, 0};
		}
		for (uint32_t i = 0; i < fold; i += 2)
			LANES
			{
				struct exact_state64 s = {x[l], minus_a[l], b[l]};

				x[l] = exact_pair64(s, keep ? &kept[l] : 0);
			}
		LANES hash[l] = exact_fold64(hash[l], x[l], kept[l]);
	}
	for (size_t l = 0; l < n; l++)
		ret[l] = hash[l];
}

/* The same code for the processor that is here: without its own instruction each multiply-add is a
 * call. */
#ifdef __x86_64__
#define WITH_FMA __attribute__((target("avx2,fma")))
#define HAS_FMA (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#else
#define WITH_FMA
#define HAS_FMA true
#endif

#define ALL_BATCHES(bits)                                                                          \
	for (size_t i = 0; i < n; i += BATCH) {                                                    \
		size_t some = n - i < BATCH ? n - i : BATCH;                                       \
                                                                                                   \
		if (fold == EXACT_FOLD_RATE)                                                       \
			batch##bits(lanes + i, some, steps, fold, seed, 0, ret_sums + i);          \
		else                                                                               \
			batch##bits(lanes + i, some, steps, fold, seed, 1, ret_sums + i);          \
	}

WITH_FMA static void with_fma32(const uint32_t *lanes, size_t n, uint32_t steps, uint32_t fold,
	uint64_t seed, uint64_t *ret_sums){ALL_BATCHES(32)}

WITH_FMA static void with_fma64(const uint32_t *lanes, size_t n, uint32_t steps, uint32_t fold,
	uint64_t seed, uint64_t *ret_sums)
{
	ALL_BATCHES(64)
}

static void exact_cpu32(const uint32_t *lanes, size_t n, uint32_t steps, uint32_t fold,
	uint64_t seed, uint64_t *ret_sums)
{
	if (HAS_FMA) {
		with_fma32(lanes, n, steps, fold, seed, ret_sums);
		return;
	}
	ALL_BATCHES(32)
}

/* The checksums of n lanes' chains, as exact_fma32 and exact_fma64 give them one by one: some
 * twenty times as fast, with the processor's own fused multiply-add where it has one. */
static void exact_cpu64(const uint32_t *lanes, size_t n, uint32_t steps, uint32_t fold,
	uint64_t seed, uint64_t *ret_sums)
{
	if (HAS_FMA) {
		with_fma64(lanes, n, steps, fold, seed, ret_sums);
		return;
	}
	ALL_BATCHES(64)
}

void exact_cpu_chains(enum exact_kind kind, const uint32_t *chains, size_t n, uint32_t steps,
	uint32_t fold, uint64_t seed, uint64_t *ret_sums)
{
	if (kind == EXACT_FP32)
		exact_cpu32(chains, n, steps, fold, seed, ret_sums);
	else if (kind == EXACT_FP64)
		exact_cpu64(chains, n, steps, fold, seed, ret_sums);
	else
		for (size_t i = 0; i < n; i++)
			ret_sums[i] = exact_mma16(chains[i], steps, fold, seed);
}
