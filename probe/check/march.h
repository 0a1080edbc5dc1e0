/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the march test of memory: in which order what is read, expected and written, so that cells
 * and bits which disturb each other show, and no multiprocessor checks what it wrote itself. */
#ifndef PROBE_CHECK_MARCH_H
#define PROBE_CHECK_MARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "probe/kernels/kernels.h"

/* What is exclusive-ored to the pattern of addresses. 0: nothing; 1: all bits; then bit by bit the
 * number, 0 … 127, of each bit of a cell. So any two bits of a cell are equal under one background
 * and different under another, whatever the pattern. */
#define MARCH_BACKGROUNDS 9
struct kernel_cell march_background(unsigned background);

enum march_rewrite { MARCH_READ, MARCH_WRITE, MARCH_READ_AGAIN, MARCH_FILL };

/* One pass through memory: a cell is read and compared with background `expect`, then `next` is
 * written, then it is read again. MARCH_FILL: nothing is read, and `next` is written over another
 * pattern. */
struct march_element {
	uint8_t expect, next; /* backgrounds */
	bool down;            /* from the last cell to the first */
	enum march_rewrite rewrite;
};

/* All of them, in their order. */
#define MARCH_PASSES 20
extern const struct march_element march[MARCH_PASSES];

/* The seed of a pass's pattern, out of that of the first. */
uint64_t march_seed(unsigned pass, uint64_t seed);

/* The shift of blocks for a pass: on a GPU that deals its blocks out in turn the next pass meets
 * each cell on another multiprocessor, if there are several. */
uint32_t march_shift(unsigned pass, int multiprocessors);

#endif
