/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what kernels leave behind, judged: did they do all of their work, and was anything wrong?
 * No single number is believed. */
#ifndef PROBE_RESULT_EVIDENCE_H
#define PROBE_RESULT_EVIDENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "probe/kernels/kernels.h"
#include "probe/result/check.h"

/* The largest number in a report: JSON's are exact up to here. */
#define EVIDENCE_MOST (1ull << 53)

/* How many cells were wrong, at least: the most that any part of the findings tells. A counter may
 * be what is broken. */
uint64_t evidence_wrong_cells(const struct kernel_findings *f);

/* How many of f's records are to be looked at: those that are counted, and those that are there. */
unsigned evidence_records(const struct kernel_findings *f);

/* Do all parts of the findings tell that this many cells were wrong in every bit? */
bool evidence_all_wrong(const struct kernel_findings *f, uint64_t cells);

/* The records of wrong cells, bits and pages of what was found into a result. */
void evidence_keep(struct check_result *r, const struct kernel_findings *f);

/* Cells of a block's share: of a memory kernel over `cells` cells in `blocks` blocks with this
 * shift. */
uint64_t evidence_share(uint64_t cells, uint32_t blocks, uint32_t block, uint32_t shift);

/* The first block that did more or less than it should have, or `blocks` when none did. */
uint32_t evidence_short_block(
	const struct kernel_work *work, const uint64_t *wanted, uint32_t blocks);

/* The first block that did not read in `times` launches of gp_read what it read in one of gp_check,
 * or `blocks` when all did. */
uint32_t evidence_misread_block(const struct kernel_work *read, const struct kernel_work *checked,
	uint32_t blocks, uint64_t times);

/* Is this chain computed by the CPU, too? each: chains of a block, KERNEL_THREADS (lanes) or an
 * eighth (warps). One warp of each block is in the sample, with all of its lanes. On a GPU that
 * deals blocks out in turn, eight to a multiprocessor, each multiprocessor is compared in every
 * lane of every warp, and so in all four partitions, however many multiprocessors there are. */
bool evidence_in_sample(uint32_t chain, uint32_t each, uint32_t multiprocessors);

#endif
