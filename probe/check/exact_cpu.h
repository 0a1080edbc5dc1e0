/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the chains of exact arithmetic on a CPU, many at once. */
#ifndef PROBE_CHECK_EXACT_CPU_H
#define PROBE_CHECK_EXACT_CPU_H

#include <stddef.h>
#include <stdint.h>

/* The checksums of n lanes' chains, as exact_fma32 and exact_fma64 give them one by one: some
 * twenty times as fast, with the processor's own fused multiply-add where it has one. */
void exact_cpu32(const uint32_t *lanes, size_t n, uint32_t steps, uint32_t fold, uint64_t seed,
	uint64_t *ret_sums);
void exact_cpu64(const uint32_t *lanes, size_t n, uint32_t steps, uint32_t fold, uint64_t seed,
	uint64_t *ret_sums);

enum exact_kind { EXACT_FP32, EXACT_FP64, EXACT_TENSOR };

/* The same by kind; of EXACT_TENSOR those of warps, as exact_mma16 gives them. */
void exact_cpu_chains(enum exact_kind kind, const uint32_t *chains, size_t n, uint32_t steps,
	uint32_t fold, uint64_t seed, uint64_t *ret_sums);

#endif
