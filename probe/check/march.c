/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the march test. The first passes are March C- with a second read after each write: every
 * cell is written up and down while its neighbours on either side were and were not yet written.
 * Those that follow change the background, so that bits which are one wire, or follow each other,
 * meet every combination. But what a warp writes at once has no order, and two bits of one number
 * in neighbouring cells have the same background: which values they meet in is a matter of the
 * pattern. So the last passes have other patterns, inverted and back: the first one with every odd
 * cell inverted, which makes equal bits of neighbours different and different ones equal, and one
 * of another seed. Two passes go the same way, one after the other: between them lies all of the
 * memory that is tested, which no cache holds when it is large. */
#include "probe/check/march.h"

#include <assert.h>

#include "probe/kernels/pattern.h"

#define UP false
#define DOWN true
/* Odd, so that no pattern comes twice. */
#define SEED_STEP 0xd1b54a32d192ed03ull

const struct march_element march[MARCH_PASSES] = {
	{0, 0, UP, MARCH_FILL},
	{0, 1, UP, MARCH_READ_AGAIN},
	{1, 0, UP, MARCH_READ_AGAIN},
	{0, 1, DOWN, MARCH_READ_AGAIN},
	{1, 2, DOWN, MARCH_READ_AGAIN},
	{2, 3, UP, MARCH_WRITE},
	{3, 4, UP, MARCH_WRITE},
	{4, 5, DOWN, MARCH_WRITE},
	{5, 6, DOWN, MARCH_WRITE},
	{6, 7, UP, MARCH_WRITE},
	{7, 8, UP, MARCH_WRITE},
	{8, 8, DOWN, MARCH_READ},
	{0, 0, UP, MARCH_FILL},
	{0, 1, DOWN, MARCH_READ_AGAIN},
	{1, 0, DOWN, MARCH_READ_AGAIN},
	{0, 0, UP, MARCH_READ},
	{0, 0, UP, MARCH_FILL},
	{0, 1, DOWN, MARCH_READ_AGAIN},
	{1, 0, DOWN, MARCH_READ_AGAIN},
	{0, 0, UP, MARCH_READ},
};

uint64_t march_seed(unsigned pass, uint64_t seed)
{
	unsigned fills = 0;

	assert(pass < MARCH_PASSES);
	for (unsigned i = 1; i <= pass; i++)
		if (march[i].rewrite == MARCH_FILL)
			seed += fills++ == 0 ? PATTERN_ODD_INVERTED : SEED_STEP;
	return seed;
}

struct kernel_cell march_background(unsigned background)
{
	/* bit n of a word is bit `background - 2` of n */
	static const uint64_t numbers[] = {0xaaaaaaaaaaaaaaaaull, 0xccccccccccccccccull,
		0xf0f0f0f0f0f0f0f0ull, 0xff00ff00ff00ff00ull, 0xffff0000ffff0000ull,
		0xffffffff00000000ull};

	if (background < 2)
		return background ? (struct kernel_cell){~0ull, ~0ull} : (struct kernel_cell){0, 0};
	if (background < MARCH_BACKGROUNDS - 1)
		return (struct kernel_cell){numbers[background - 2], numbers[background - 2]};
	return (struct kernel_cell){0, ~0ull};
}

uint32_t march_shift(unsigned pass, int multiprocessors)
{
	return multiprocessors > 1 ? pass * (((uint32_t)multiprocessors + 1) / 2) : 0;
}
