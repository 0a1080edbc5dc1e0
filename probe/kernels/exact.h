/* SPDX-License-Identifier: Apache-2.0 */
/* probe: arithmetic whose every bit is known beforehand, on every GPU and on a CPU, so that a wrong
 * unit shows without a tolerance.
 *
 * Floating point: a chain of fused multiply-adds, x·4/3 − a and then x·3/4 + b. The two slopes
 * cancel, so the state does not grow (maps like x² + c fall into short cycles). It does forget: a
 * last bit that flipped is soon rounded away. So the bits of every single result go into a sum of
 * whole numbers, k·odd + bits, in which no error can vanish by itself; every `fold` steps that sum
 * and the state are mixed into the checksum, and the next state comes out of that. Chains that only
 * measure a rate leave the sum out. Nothing may be contracted but what is written as fma: kernels
 * are compiled with --fmad=false, C for a CPU with FMA gives the same bits as without.
 *
 * Tensor cores: products of whole numbers of magnitude 63 at most, at most 2,048 of them in one
 * sum: below 2^23, hence exact in single precision in any order of addition. An error that is whole
 * stays to the end of the fold; one that is not is looked for after every instruction. */
#ifndef PROBE_KERNELS_EXACT_H
#define PROBE_KERNELS_EXACT_H

#include "probe/kernels/pattern.h"

/* A chain's fold is a multiple of this, its steps one of the fold: so much is straight code. Above
 * 4096 the state's growth begins to hide its last bits. */
#define EXACT_FOLD_UNIT 64
/* For the check, and for the rate, where folding must not count and single results are not kept. */
#define EXACT_FOLD_CHECK 64
#define EXACT_FOLD_RATE 512
/* What a sum of results is multiplied by before the next is added: odd, so that nothing is lost. */
#define EXACT_KEEP 0x9e3779b1u
/* Operations per step of a lane. */
#define EXACT_FMA_FLOPS 2

/* A step of a warp: (16 × 16) · (16 × 8). */
#define EXACT_MMA_ROWS 16
#define EXACT_MMA_COLS 8
#define EXACT_MMA_DEPTH 16
#define EXACT_MMA_FLOPS (2 * EXACT_MMA_ROWS * EXACT_MMA_COLS * EXACT_MMA_DEPTH)
/* So many left and right operands; step s takes left s mod 4 and right (s / 4) mod 4. */
#define EXACT_MMA_OPERANDS 4
#define EXACT_MMA_FOLD_UNIT (EXACT_MMA_OPERANDS * EXACT_MMA_OPERANDS)
/* 128 steps of 16 products: no more, see above. */
#define EXACT_MMA_FOLD_MAX 128
/* For the check, and for the rate alone, where results are not looked at one by one. */
#define EXACT_MMA_FOLD_CHECK 64
#define EXACT_MMA_FOLD_RATE EXACT_MMA_FOLD_MAX
/* What a sum that was not whole adds to the checksum. */
#define EXACT_MMA_BROKEN 0x6a09e667f3bcc909ull
/* After so many folds come new operands. */
#define EXACT_MMA_REFRESH 8
#define EXACT_MMA_SUM_FACTOR 0xd1342543de82ef95ull

KERNEL_SHARED_FN uint64_t exact_mix(uint64_t hash, uint64_t bits)
{
	hash = (hash ^ bits) * 0x9fb21c651e98df25ull;
	return hash ^ (hash >> 32);
}

/* The checksum that a lane or warp begins with. */
KERNEL_SHARED_FN uint64_t exact_start(uint32_t lane, uint64_t seed)
{
	return exact_mix(exact_mix(seed, 0x2545f4914f6cdd1dull), lane);
}

#ifdef __CUDACC_RTC__
#define exact_fmaf(x, y, z) __fmaf_rn(x, y, z)
#define exact_fma(x, y, z) __fma_rn(x, y, z)
#define exact_float(bits) __uint_as_float(bits)
#define exact_double(bits) __longlong_as_double((long long)(bits))
#define exact_float_bits(x) __float_as_uint(x)
#define exact_double_bits(x) ((uint64_t)__double_as_longlong(x))
/* Not to be computed anew in every loop, which counts as work that nobody asked for. */
#define exact_hold(x, kind) asm volatile("" : "+" kind(x))
#else
#define exact_hold(x, kind)
#define exact_fmaf(x, y, z) __builtin_fmaf(x, y, z)
#define exact_fma(x, y, z) __builtin_fma(x, y, z)
KERNEL_SHARED_FN float exact_float(uint32_t bits)
{
	union {
		uint32_t bits;
		float x;
	} u = {bits};

	return u.x;
}
KERNEL_SHARED_FN double exact_double(uint64_t bits)
{
	union {
		uint64_t bits;
		double x;
	} u = {bits};

	return u.x;
}
KERNEL_SHARED_FN uint32_t exact_float_bits(float x)
{
	union {
		float x;
		uint32_t bits;
	} u = {x};

	return u.bits;
}
KERNEL_SHARED_FN uint64_t exact_double_bits(double x)
{
	union {
		double x;
		uint64_t bits;
	} u = {x};

	return u.bits;
}
#endif

/* The state and the constants that come out of a checksum: x in 1 … 2, a in 0.5 … 1, and b so that
 * x grows by 1/64 in two steps. */
struct exact_state32 {
	float x, minus_a, b;
};
struct exact_state64 {
	double x, minus_a, b;
};

KERNEL_SHARED_FN struct exact_state32 exact_seed32(uint64_t hash)
{
	struct exact_state32 s;
	float a = exact_float(0x3f000000u | ((uint32_t)(hash >> 9) & 0x7fffffu));

	s.x = exact_float(0x3f800000u | (uint32_t)(hash >> 41));
	s.minus_a = -a;
	s.b = exact_fmaf(a, 0.75f, 0.015625f);
	exact_hold(s.minus_a, "f");
	exact_hold(s.b, "f");
	return s;
}

KERNEL_SHARED_FN struct exact_state64 exact_seed64(uint64_t hash)
{
	struct exact_state64 s;
	double a = exact_double(0x3fe0000000000000ull | (hash & 0xfffffffffffffull));

	s.x = exact_double(0x3ff0000000000000ull | (hash >> 12));
	s.minus_a = -a;
	s.b = exact_fma(a, 0.75, 0.015625);
	exact_hold(s.minus_a, "d");
	exact_hold(s.b, "d");
	return s;
}

/* One result into the sum of all. Without a place for it: the chain is for a rate. */
KERNEL_SHARED_FN void exact_keep32(uint32_t *kept, float x)
{
	if (kept)
		*kept = *kept * EXACT_KEEP + exact_float_bits(x);
}

struct exact_kept64 {
	uint32_t lo, hi;
};

KERNEL_SHARED_FN void exact_keep64(struct exact_kept64 *kept, double x)
{
	if (kept) {
		kept->lo = kept->lo * EXACT_KEEP + (uint32_t)exact_double_bits(x);
		kept->hi = kept->hi * EXACT_KEEP + (uint32_t)(exact_double_bits(x) >> 32);
	}
}

/* Two steps: the state after them. */
KERNEL_SHARED_FN float exact_pair32(struct exact_state32 s, uint32_t *kept)
{
	float y = exact_fmaf(s.x, 1.33333337f, s.minus_a);

	exact_keep32(kept, y);
	y = exact_fmaf(y, 0.75f, s.b);
	exact_keep32(kept, y);
	return y;
}

KERNEL_SHARED_FN double exact_pair64(struct exact_state64 s, struct exact_kept64 *kept)
{
	double y = exact_fma(s.x, 1.3333333333333333, s.minus_a);

	exact_keep64(kept, y);
	y = exact_fma(y, 0.75, s.b);
	exact_keep64(kept, y);
	return y;
}

/* What a fold adds to the checksum. */
KERNEL_SHARED_FN uint64_t exact_fold32(uint64_t hash, float x, uint32_t kept)
{
	return exact_mix(exact_mix(hash, exact_float_bits(x)), kept);
}

KERNEL_SHARED_FN uint64_t exact_fold64(uint64_t hash, double x, struct exact_kept64 kept)
{
	return exact_mix(exact_mix(exact_mix(hash, exact_double_bits(x)), kept.lo), kept.hi);
}

/* keep: a constant; 0 for a rate. */
KERNEL_SHARED_FN uint64_t exact_chain32(
	uint32_t lane, uint32_t steps, uint32_t fold, uint64_t seed, int keep)
{
	uint64_t hash = exact_start(lane, seed);

	for (uint32_t done = 0; done < steps; done += fold) {
		struct exact_state32 s = exact_seed32(hash);
		uint32_t kept = 0;

		for (uint32_t i = 0; i < fold; i += EXACT_FOLD_UNIT) {
#ifdef __CUDACC_RTC__
#pragma unroll
#endif
			for (uint32_t j = 0; j < EXACT_FOLD_UNIT; j += 2)
				s.x = exact_pair32(s, keep ? &kept : 0);
		}
		hash = exact_fold32(hash, s.x, kept);
	}
	return hash;
}

KERNEL_SHARED_FN uint64_t exact_chain64(
	uint32_t lane, uint32_t steps, uint32_t fold, uint64_t seed, int keep)
{
	uint64_t hash = exact_start(lane, seed);

	for (uint32_t done = 0; done < steps; done += fold) {
		struct exact_state64 s = exact_seed64(hash);
		struct exact_kept64 kept = {0, 0};

		for (uint32_t i = 0; i < fold; i += EXACT_FOLD_UNIT) {
#ifdef __CUDACC_RTC__
#pragma unroll
#endif
			for (uint32_t j = 0; j < EXACT_FOLD_UNIT; j += 2)
				s.x = exact_pair64(s, keep ? &kept : 0);
		}
		hash = exact_fold64(hash, s.x, kept);
	}
	return hash;
}

/* The checksum of one lane's chain. fold EXACT_FOLD_RATE: of one that only measures. */
KERNEL_SHARED_FN uint64_t exact_fma32(uint32_t lane, uint32_t steps, uint32_t fold, uint64_t seed)
{
	return fold == EXACT_FOLD_RATE ? exact_chain32(lane, steps, fold, seed, 0)
				       : exact_chain32(lane, steps, fold, seed, 1);
}

KERNEL_SHARED_FN uint64_t exact_fma64(uint32_t lane, uint32_t steps, uint32_t fold, uint64_t seed)
{
	return fold == EXACT_FOLD_RATE ? exact_chain64(lane, steps, fold, seed, 0)
				       : exact_chain64(lane, steps, fold, seed, 1);
}

/* Two operands that stand side by side along the depth: bits 0 to 6 and 16 to 22 of a word. right:
 * of the right matrix; line: the left one's row or the right one's column; pair: 0 … 7. */
KERNEL_SHARED_FN uint32_t exact_operands(
	uint64_t key, uint32_t right, uint32_t operand, uint32_t line, uint32_t pair)
{
	uint32_t id = ((right * EXACT_MMA_OPERANDS + operand) * EXACT_MMA_ROWS + line) *
			      (EXACT_MMA_DEPTH / 2) +
		      pair;
	uint32_t w = (uint32_t)key + id * 0x9e3779b1u;

	w = (w ^ (w >> 15)) * 0x85ebca77u;
	w ^= (uint32_t)(key >> 32);
	w = (w ^ (w >> 13)) * 0xc2b2ae3du;
	w ^= w >> 16;
	/* 0 … 126 each; the operand is 63 less */
	return (w & 0x003f003fu) + ((w >> 6) & 0x00010001u) * 63u;
}

/* The key of a warp's operands after so many refreshes. */
KERNEL_SHARED_FN uint64_t exact_key(uint64_t start, uint32_t refresh)
{
	return exact_mix(start, 0x632be59bd9b4e019ull + refresh);
}

/* What an element of the sum counts in the checksum: odd, so that no error vanishes. */
KERNEL_SHARED_FN uint64_t exact_weight(uint32_t row, uint32_t column)
{
	return exact_mix(0x3c6ef372fe94f82bull, row * EXACT_MMA_COLS + column) | 1u;
}

#ifndef __CUDACC_RTC__
/* The sum of all products of one fold, by the sums of the operands: each left one meets each right
 * one equally often. */
static inline uint64_t exact_mma_fold(uint64_t key, uint32_t fold)
{
	int left[EXACT_MMA_ROWS][EXACT_MMA_DEPTH] = {{0}};
	int right[EXACT_MMA_COLS][EXACT_MMA_DEPTH] = {{0}};
	int rounds = (int)(fold / EXACT_MMA_FOLD_UNIT);
	uint64_t sum = 0;

	for (uint32_t o = 0; o < EXACT_MMA_OPERANDS; o++) {
		for (uint32_t line = 0; line < EXACT_MMA_ROWS; line++) {
			for (uint32_t pair = 0; pair < EXACT_MMA_DEPTH / 2; pair++) {
				uint32_t a = exact_operands(key, 0, o, line, pair);
				uint32_t b = exact_operands(key, 1, o, line, pair);

				left[line][2 * pair] += (int)(a & 127) - 63;
				left[line][2 * pair + 1] += (int)(a >> 16) - 63;
				if (line >= EXACT_MMA_COLS)
					continue;
				right[line][2 * pair] += (int)(b & 127) - 63;
				right[line][2 * pair + 1] += (int)(b >> 16) - 63;
			}
		}
	}
	for (uint32_t row = 0; row < EXACT_MMA_ROWS; row++) {
		for (uint32_t column = 0; column < EXACT_MMA_COLS; column++) {
			int element = 0;

			for (uint32_t k = 0; k < EXACT_MMA_DEPTH; k++)
				element += left[row][k] * right[column][k];
			sum += (uint64_t)((int64_t)rounds * element) * exact_weight(row, column);
		}
	}
	return sum;
}

/* The checksum of one warp's products. fold: a multiple of EXACT_MMA_FOLD_UNIT up to
 * EXACT_MMA_FOLD_MAX; steps: one of the fold. */
static inline uint64_t exact_mma16(uint32_t warp, uint32_t steps, uint32_t fold, uint64_t seed)
{
	uint64_t start = exact_start(warp, seed), sum = 0, folded = 0;

	for (uint32_t n = 0; n < steps / fold; n++) {
		if (n % EXACT_MMA_REFRESH == 0)
			folded = exact_mma_fold(exact_key(start, n / EXACT_MMA_REFRESH), fold);
		sum = sum * EXACT_MMA_SUM_FACTOR + folded;
	}
	return exact_mix(start, sum);
}
#endif

#endif
