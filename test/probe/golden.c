/* SPDX-License-Identifier: Apache-2.0 */
/* test: prints what the kernels must compute, as a CPU computes it; `golden` compares it with
 * golden.txt for several compilers. */
#include <stdio.h>

#include "probe/kernels/exact.h"

int main(void)
{
	const uint64_t seeds[] = {0, 7, 0xfedcba9876543210ull};
	const uint64_t cells[] = {0, 1, 0xffffffffull, 0x100000000ull, 0x123456789abcull};
	const uint32_t lanes[] = {0, 1, 255, 65536, 0xffffffffu};

	for (int s = 0; s < 3; s++) {
		for (int i = 0; i < 5; i++) {
			struct kernel_cell c = pattern_cell(cells[i], seeds[s]);

			printf("cell %llx of seed %llx: %016llx %016llx\n",
				(unsigned long long)cells[i], (unsigned long long)seeds[s],
				(unsigned long long)c.lo, (unsigned long long)c.hi);
		}
		for (int i = 0; i < 5; i++)
			printf("lane %x of seed %llx: fma32 %016llx %016llx fma64 %016llx mma16 "
			       "%016llx\n",
				lanes[i], (unsigned long long)seeds[s],
				(unsigned long long)exact_fma32(
					lanes[i], 4096, EXACT_FOLD_CHECK, seeds[s]),
				(unsigned long long)exact_fma32(
					lanes[i], 4096, EXACT_FOLD_RATE, seeds[s]),
				(unsigned long long)exact_fma64(
					lanes[i], 4096, EXACT_FOLD_CHECK, seeds[s]),
				(unsigned long long)exact_mma16(
					lanes[i], 4096, EXACT_MMA_FOLD_MAX, seeds[s]));
	}
	return 0;
}
