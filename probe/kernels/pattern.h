/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what stands in a memory cell: a hash of its number, so that stuck bits, neighbours that
 * disturb each other and wrong address lines all show. The same bits from the kernels and from C.
 */
#ifndef PROBE_KERNELS_PATTERN_H
#define PROBE_KERNELS_PATTERN_H

#include "probe/kernels/kernels.h"

#ifdef __CUDACC_RTC__
#define KERNEL_SHARED_FN static __device__ __forceinline__
#else
/* Always: else GCC does not inline it into what it compiles for a newer processor. */
#define KERNEL_SHARED_FN static inline __attribute__((always_inline))
#endif

/* In a seed: cells of odd numbers are inverted. So any bit of two neighbours is equal under a seed
 * without it, or under the same with it, and different under the other. */
#define PATTERN_ODD_INVERTED (1ull << 63)

/* What should stand in cell `index`. About 20 instructions on a GPU, which even an H200 has time
 * for at its memory's speed. No two indices share a cell: each step of the lower half can be
 * undone; where odd cells are inverted, an odd one and an even one do so by chance alone, 1 pair in
 * 2^128. */
KERNEL_SHARED_FN struct kernel_cell pattern_cell(uint64_t index, uint64_t seed)
{
	struct kernel_cell cell;
	uint64_t odd = 0 - (index & (seed >> 63));
	uint64_t x = index * 0x9e3779b97f4a7c15ull + (seed & ~PATTERN_ODD_INVERTED) +
		     0x2545f4914f6cdd1dull;

	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	x ^= x >> 29;
	cell.lo = x ^ odd;
	x *= 0xa0761d6478bd642full;
	cell.hi = x ^ (x >> 32) ^ odd;
	return cell;
}

#endif
