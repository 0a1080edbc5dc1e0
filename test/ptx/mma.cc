// SPDX-License-Identifier: Apache-2.0
// ptx: products of matrices of 16-bit numbers with sums of 32 bits, by the tables of fragments in the PTX ISA ("Matrix Fragments
// for mma.m16n8k16", ".m16n8k8", ".m8n8k4").
//
// Sums are made in doubles, which hold those of any operands that the probe uses; where a GPU's bits would depend on the order of
// additions, that is counted. Where all operands are whole and small, floats are as exact, and eight times as fast.
#include <immintrin.h>

#include "test/ptx/half.h"
#include "test/ptx/insn.h"

namespace ptx
{

// Products of one: rows of `left`, columns of `right` (as rows), sums.
struct Product {
	alignas(64) float left[16][16], right[8][16], sum[16][8];
};

static void whole_warp(const Warp &w, uint32_t mask)
{
	if (mask != ~0u || w.alive != ~0u)
		throw Stop{719, "mma.sync without all lanes"};
}

// A register of all lanes holds 8 lines of 8 halves, in order.
static void take_lines(Warp &w, int slot, float (*to)[16], int column)
{
	const char *from = w.reg<char>(slot);

	for (int line = 0; line < 8; line++)
		_mm256_store_ps(&to[line][column],
			_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + 16 * line))));
}

// The two sums of a lane stand in two registers, side by side in their row.
static void take_sums(Warp &w, int even, int odd, float (*to)[8])
{
	const float *e = w.reg<float>(even), *o = w.reg<float>(odd);
	float *flat = to[0];

	for (int lane = 0; lane < LANES; lane++) {
		flat[2 * lane] = e[lane];
		flat[2 * lane + 1] = o[lane];
	}
}

static void give_sums(Warp &w, int even, int odd, const float (*from)[8])
{
	float *e = w.reg<float>(even), *o = w.reg<float>(odd);
	const float *flat = from[0];

	for (int lane = 0; lane < LANES; lane++) {
		e[lane] = flat[2 * lane];
		o[lane] = flat[2 * lane + 1];
	}
}

// The largest magnitude; infinite when one of them is no whole number. Bits of magnitudes are ordered as they are.
template <int N> static float largest(const float *x)
{
	uint32_t most = 0, broken = 0;
	float r;

	for (int i = 0; i < N; i++) {
		float rounded = __builtin_nearbyintf(x[i]);
		uint32_t bits, whole;

		memcpy(&bits, &x[i], sizeof(bits));
		memcpy(&whole, &rounded, sizeof(whole));
		broken |= bits ^ whole;
		bits &= 0x7fffffff;
		most = bits > most ? bits : most;
	}
	memcpy(&r, &most, sizeof(r));
	return broken ? INFINITY : r;
}

static float finish(Warp &w, double sum, double magnitude)
{
	float f = (float)sum;

	if ((double)f != sum || magnitude > 16777216.0)
		w.block->machine->counts.inexact_mma++;
	return f;
}

static void multiply_slowly(Warp &w, Product &p, int rows, int depth)
{
	for (int row = 0; row < rows; row++)
		for (int column = 0; column < 8; column++) {
			double sum = p.sum[row][column], magnitude = std::fabs(sum);

			for (int k = 0; k < depth; k++) {
				double product =
					(double)p.left[row][k] * (double)p.right[column][k];

				sum += product;
				magnitude += std::fabs(product);
			}
			p.sum[row][column] = finish(w, sum, magnitude);
		}
}

template <int DEPTH> static void multiply(Warp &w, Product &p)
{
	float most = (float)DEPTH * largest<256>(p.left[0]) * largest<128>(p.right[0]) +
		     largest<128>(p.sum[0]);
	const __m256i columns = _mm256_setr_epi32(0, 16, 32, 48, 64, 80, 96, 112);
	__m256 right[DEPTH];

	w.block->machine->counts.mma_flops += 2ull * 16 * 8 * DEPTH;
	if (!(most <= 16777216.0f)) {
		multiply_slowly(w, p, 16, DEPTH);
		return;
	}
	for (int k = 0; k < DEPTH; k++)
		right[k] = _mm256_i32gather_ps(&p.right[0][k], columns, 4);
	for (int row = 0; row < 16; row += 4) {
		__m256 sum[4];

		for (int r = 0; r < 4; r++)
			sum[r] = _mm256_load_ps(p.sum[row + r]);
		for (int k = 0; k < DEPTH; k++)
			for (int r = 0; r < 4; r++)
				sum[r] = _mm256_fmadd_ps(
					_mm256_set1_ps(p.left[row + r][k]), right[k], sum[r]);
		for (int r = 0; r < 4; r++)
			_mm256_store_ps(p.sum[row + r], sum[r]);
	}
}

// more: four sums, two or four registers of the left operand, one or two of the right one, four sums that are added.
template <int DEPTH> static void mma_16x8(Warp &w, const Insn &in, uint32_t mask)
{
	constexpr int left = 4, right = left + DEPTH / 4, add = right + DEPTH / 8;
	Product p;

	whole_warp(w, mask);
	if (DEPTH == 8) {
		memset(p.left, 0, sizeof(p.left));
		memset(p.right, 0, sizeof(p.right));
	}
	for (int half = 0; half < DEPTH / 8; half++) {
		take_lines(w, in.more[left + 2 * half], p.left, 8 * half);
		take_lines(w, in.more[left + 2 * half + 1], p.left + 8, 8 * half);
		take_lines(w, in.more[right + half], p.right, 8 * half);
	}
	take_sums(w, in.more[add], in.more[add + 1], p.sum);
	take_sums(w, in.more[add + 2], in.more[add + 3], p.sum + 8);
	multiply<DEPTH>(w, p);
	give_sums(w, in.more[0], in.more[1], p.sum);
	give_sums(w, in.more[2], in.more[3], p.sum + 8);
}

static double half_in(Warp &w, int slot, int lane, int which)
{
	uint32_t bits = w.reg<uint32_t>(slot)[lane];

	return half_of(which ? bits >> 16 : bits & 0xffff);
}

// Four products at once, each by the eight lanes 4q … 4q + 3 and 16 + 4q … 16 + 4q + 3. Sums and results may stand in the same
// registers: each lane reads its own ones alone.
static void mma_8x8x4(Warp &w, const Insn &in, uint32_t mask)
{
	whole_warp(w, mask);
	for (int q = 0; q < 4; q++) {
		double left[8][4], right[8][4];

		for (int t = 0; t < 8; t++) {
			int lane = 4 * q + (t & 3) + (t >= 4 ? 16 : 0),
			    line = lane % 4 + (lane < 16 ? 0 : 4);

			for (int i = 0; i < 4; i++) {
				left[line][i] = half_in(w, in.more[8 + (size_t)i / 2], lane, i & 1);
				right[line][i] =
					half_in(w, in.more[10 + (size_t)i / 2], lane, i & 1);
			}
		}
		for (int t = 0; t < 8; t++) {
			int lane = 4 * q + (t & 3) + (t >= 4 ? 16 : 0);

			for (int i = 0; i < 8; i++) {
				int row = (lane & 1) + (i & 2) + (lane < 16 ? 0 : 4),
				    column = (i & 4) + (lane & 2) + (i & 1);
				double sum = w.reg<float>(in.more[12 + (size_t)i])[lane],
				       magnitude = std::fabs(sum);

				for (int k = 0; k < 4; k++) {
					sum += left[row][k] * right[column][k];
					magnitude += std::fabs(left[row][k] * right[column][k]);
				}
				w.reg<float>(in.more[(size_t)i])[lane] = finish(w, sum, magnitude);
			}
		}
	}
	w.block->machine->counts.mma_flops += 4ull * 2 * 8 * 8 * 4;
}

Handler find_mma(const std::string &op, size_t *registers)
{
	if (op == "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") {
		*registers = 14;
		return mma_16x8<16>;
	}
	if (op == "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32") {
		*registers = 11;
		return mma_16x8<8>;
	}
	if (op == "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32") {
		*registers = 20;
		return mma_8x8x4;
	}
	return nullptr;
}

} // namespace ptx
