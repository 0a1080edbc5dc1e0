/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the chains of exact arithmetic on a CPU, many at once. */
#ifndef PROBE_CHECK_EXACT_CPU_H
#define PROBE_CHECK_EXACT_CPU_H

#include <stddef.h>
#include <stdint.h>

enum exact_kind { EXACT_FP32, EXACT_FP64, EXACT_TENSOR };

/* The same by kind; of EXACT_TENSOR those of warps, as exact_mma16 gives them. */
void exact_cpu_chains(enum exact_kind kind, const uint32_t *chains, size_t n, uint32_t steps,
	uint32_t fold, uint64_t seed, uint64_t *ret_sums);

#endif
