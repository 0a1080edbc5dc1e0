/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the kernels; kernels.h says what each does. Compiled by compile.c for each architecture, without any header but ours. */
#include "probe/kernels/exact.h"

#define KERNEL extern "C" __global__ void __launch_bounds__(KERNEL_THREADS)
/* Independent accesses of one thread in flight. */
#define DEPTH 8
#define TILE (uint64_t)(KERNEL_THREADS * DEPTH)
#define WARPS (KERNEL_THREADS / 32)

/* Streaming: what is read or written once shall not push anything out of the caches. Volatile keeps a load whose value only matters
 * to the clock. */
static __device__ __forceinline__ struct kernel_cell load(const struct kernel_cell *at)
{
	struct kernel_cell c;

	asm volatile("ld.global.cs.v2.u64 {%0, %1}, [%2];" : "=l"(c.lo), "=l"(c.hi) : "l"(at));
	return c;
}

static __device__ __forceinline__ void store(struct kernel_cell *at, uint64_t lo, uint64_t hi)
{
	asm volatile("st.global.cs.v2.u64 [%0], {%1, %2};" : : "l"(at), "l"(lo), "l"(hi) : "memory");
}

static __device__ __forceinline__ uint32_t sm_id()
{
	uint32_t id;

	asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
	return id;
}

/* Out of line, so that the healthy path keeps its registers. */
static __device__ __noinline__ void report(
	struct kernel_findings *out, uint64_t cell, uint64_t lo, uint64_t hi, uint64_t got_lo, uint64_t got_hi, const void *at)
{
	const volatile uint64_t *cells = (const volatile uint64_t *)at;
	uint64_t again_lo = cells[0], again_hi = cells[1];
	uint32_t slot;

	atomicAdd(&out->wrong_cells, 1ull);
	atomicAdd(&out->bits_0_to_1, (uint64_t)(__popcll(got_lo & ~lo) + __popcll(got_hi & ~hi)));
	atomicAdd(&out->bits_1_to_0, (uint64_t)(__popcll(~got_lo & lo) + __popcll(~got_hi & hi)));
	slot = atomicAdd(&out->kept, 1u);
	if (slot < KERNEL_MISMATCHES_MAX) {
		struct kernel_mismatch *m = &out->mismatch[slot];

		m->cell = cell;
		m->expected.lo = lo;
		m->expected.hi = hi;
		m->got.lo = got_lo;
		m->got.hi = got_hi;
		m->again.lo = again_lo;
		m->again.hi = again_hi;
	}
}

KERNEL gp_fill(struct kernel_cell *at, uint64_t first, uint64_t cells, uint64_t seed, uint64_t invert)
{
	for (uint64_t base = blockIdx.x * TILE; base < cells; base += gridDim.x * TILE) {
#pragma unroll
		for (uint32_t j = 0; j < DEPTH; j++) {
			uint64_t i = base + j * KERNEL_THREADS + threadIdx.x;

			if (i < cells) {
				struct kernel_cell c = pattern_cell(first + i, seed);

				store(at + i, c.lo ^ invert, c.hi ^ invert);
			}
		}
	}
}

static __device__ __forceinline__ void check_cell(struct kernel_cell *at, struct kernel_cell got, uint64_t cell, uint64_t seed,
	uint64_t invert, uint32_t rewrite, struct kernel_findings *out)
{
	struct kernel_cell c = pattern_cell(cell, seed);

	c.lo ^= invert;
	c.hi ^= invert;
	if (((got.lo ^ c.lo) | (got.hi ^ c.hi)) != 0)
		report(out, cell, c.lo, c.hi, got.lo, got.hi, at);
	if (rewrite)
		store(at, ~c.lo, ~c.hi);
}

KERNEL gp_check(struct kernel_cell *at, uint64_t first, uint64_t cells, uint64_t seed, uint64_t invert, uint32_t rewrite,
	struct kernel_findings *out)
{
	for (uint64_t base = blockIdx.x * TILE; base < cells; base += gridDim.x * TILE) {
		uint64_t mine = base + threadIdx.x;

		if (base + TILE <= cells) {
			struct kernel_cell got[DEPTH];

#pragma unroll
			for (uint32_t j = 0; j < DEPTH; j++)
				got[j] = load(at + mine + j * KERNEL_THREADS);
#pragma unroll
			for (uint32_t j = 0; j < DEPTH; j++) {
				uint64_t i = mine + j * KERNEL_THREADS;

				check_cell(at + i, got[j], first + i, seed, invert, rewrite, out);
			}
			continue;
		}
		for (uint64_t i = mine; i < cells; i += KERNEL_THREADS)
			check_cell(at + i, load(at + i), first + i, seed, invert, rewrite, out);
	}
}

KERNEL gp_read(const struct kernel_cell *at, uint64_t cells, uint64_t *sink)
{
	uint64_t sum = 0;

	for (uint64_t base = blockIdx.x * TILE; base < cells; base += gridDim.x * TILE) {
		uint64_t mine = base + threadIdx.x;

		if (base + TILE <= cells) {
			struct kernel_cell got[DEPTH];

#pragma unroll
			for (uint32_t j = 0; j < DEPTH; j++)
				got[j] = load(at + mine + j * KERNEL_THREADS);
#pragma unroll
			for (uint32_t j = 0; j < DEPTH; j++)
				sum ^= got[j].lo ^ got[j].hi;
			continue;
		}
		for (uint64_t i = mine; i < cells; i += KERNEL_THREADS) {
			struct kernel_cell got = load(at + i);

			sum ^= got.lo ^ got.hi;
		}
	}
	/* next to never */
	if (sum == 0x6a09e667f3bcc908ull)
		*sink = sum;
}

KERNEL gp_write(struct kernel_cell *at, uint64_t cells, uint64_t value)
{
	for (uint64_t base = blockIdx.x * TILE; base < cells; base += gridDim.x * TILE) {
#pragma unroll
		for (uint32_t j = 0; j < DEPTH; j++) {
			uint64_t i = base + j * KERNEL_THREADS + threadIdx.x;

			if (i < cells)
				store(at + i, value ^ i, ~value);
		}
	}
}

KERNEL gp_copy(struct kernel_cell *to, const struct kernel_cell *from, uint64_t cells)
{
	for (uint64_t base = blockIdx.x * TILE; base < cells; base += gridDim.x * TILE) {
		uint64_t mine = base + threadIdx.x;

		if (base + TILE <= cells) {
			struct kernel_cell got[DEPTH];

#pragma unroll
			for (uint32_t j = 0; j < DEPTH; j++)
				got[j] = load(from + mine + j * KERNEL_THREADS);
#pragma unroll
			for (uint32_t j = 0; j < DEPTH; j++)
				store(to + mine + j * KERNEL_THREADS, got[j].lo, got[j].hi);
			continue;
		}
		for (uint64_t i = mine; i < cells; i += KERNEL_THREADS) {
			struct kernel_cell got = load(from + i);

			store(to + i, got.lo, got.hi);
		}
	}
}

/* The block whose work this one does. */
static __device__ __forceinline__ uint32_t shifted_block(uint32_t shift)
{
	return (blockIdx.x + shift) % gridDim.x;
}

static __device__ __forceinline__ void tell(struct kernel_chain *out, uint64_t sum)
{
	out->sum = sum;
	out->sm = sm_id();
	out->unused = 0;
}

KERNEL gp_fma32(uint32_t steps, uint32_t fold, uint64_t seed, uint32_t shift, struct kernel_chain *out)
{
	uint32_t lane = threadIdx.x + KERNEL_THREADS * shifted_block(shift);

	tell(out + lane, exact_fma32(lane, steps, fold, seed));
}

KERNEL gp_fma64(uint32_t steps, uint32_t fold, uint64_t seed, uint32_t shift, struct kernel_chain *out)
{
	uint32_t lane = threadIdx.x + KERNEL_THREADS * shifted_block(shift);

	tell(out + lane, exact_fma64(lane, steps, fold, seed));
}

/* A block's shared memory: written by one thread, read by another. */
KERNEL gp_smem(uint32_t rounds, uint64_t seed, struct kernel_findings *out, uint32_t *sm)
{
	const uint32_t cells = KERNEL_SHARED_BYTES / sizeof(struct kernel_cell);
	__shared__ struct kernel_cell tile[KERNEL_SHARED_BYTES / sizeof(struct kernel_cell)];
	uint64_t first = (uint64_t)blockIdx.x * cells;

	for (uint32_t r = 0; r < 2 * rounds; r++) {
		uint64_t invert = r % 2 ? ~0ull : 0;

		for (uint32_t i = threadIdx.x; i < cells; i += KERNEL_THREADS) {
			struct kernel_cell c = pattern_cell(first + i, seed + r / 2);

			tile[i].lo = c.lo ^ invert;
			tile[i].hi = c.hi ^ invert;
		}
		__syncthreads();
		for (uint32_t n = threadIdx.x; n < cells; n += KERNEL_THREADS) {
			uint32_t i = cells - 1 - n;
			struct kernel_cell c = pattern_cell(first + i, seed + r / 2);
			const volatile struct kernel_cell *at = &tile[i];
			uint64_t lo = at->lo, hi = at->hi;

			c.lo ^= invert;
			c.hi ^= invert;
			if (((lo ^ c.lo) | (hi ^ c.hi)) != 0)
				report(out, first + i, c.lo, c.hi, lo, hi, &tile[i]);
		}
		__syncthreads();
	}
	if (threadIdx.x == 0)
		sm[blockIdx.x] = sm_id();
}

KERNEL gp_nop()
{
}

/* Tensor cores. The instructions differ by architecture, the products and sums do not: each accumulator is a whole number, and what
 * it counts in the checksum depends on its row and column alone. */
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 700

/* Two operands as halves: 1024 + u is u in the last bits of a half; 1087 is 1024 + 63. */
static __device__ __forceinline__ uint32_t halves(uint32_t u)
{
	uint32_t h;

	asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(h) : "r"(u | 0x64006400u), "r"(0x643f643fu));
	return h;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 750

/* Four products of 8 × 8 × 4 at once, one by each group of eight threads: groups 0 and 2 have the upper rows, 1 and 3 the lower ones;
 * 0 and 1 an even quarter of the depth, 2 and 3 an odd one. Two instructions make a step. */
#define ACCUMULATORS 8

struct tile {
	uint32_t left[EXACT_MMA_OPERANDS][4], right[EXACT_MMA_OPERANDS][4]; /* by instruction: two words each */
};

static __device__ __forceinline__ uint32_t quad_pair(uint32_t lane)
{
	return (lane >> 2) & 3;
}

static __device__ __forceinline__ void load_tile(struct tile *t, uint64_t key, uint32_t lane)
{
	uint32_t line = (lane & 3) + (lane & 16 ? 4 : 0), group = quad_pair(lane);

#pragma unroll
	for (uint32_t o = 0; o < EXACT_MMA_OPERANDS; o++) {
#pragma unroll
		for (uint32_t word = 0; word < 4; word++) {
			uint32_t pair = (word >> 1) * 4 + (group >> 1) * 2 + (word & 1);

			t->left[o][word] = halves(exact_operands(key, 0, o, line + 8 * (group & 1), pair));
			t->right[o][word] = halves(exact_operands(key, 1, o, line, pair));
		}
	}
}

static __device__ __forceinline__ void multiply4(float *acc, const uint32_t *left, const uint32_t *right)
{
	asm("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11}, "
	    "{%0, %1, %2, %3, %4, %5, %6, %7};"
	    : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]), "+f"(acc[7])
	    : "r"(left[0]), "r"(left[1]), "r"(right[0]), "r"(right[1]));
}

static __device__ __forceinline__ void multiply(float *acc, const uint32_t *left, const uint32_t *right)
{
	multiply4(acc, left, right);
	multiply4(acc, left + 2, right + 2);
}

static __device__ __forceinline__ uint64_t weight_of(uint32_t lane, uint32_t i)
{
	uint32_t row = (lane & 1) + (i & 2) + (lane & 16 ? 4 : 0) + 8 * (quad_pair(lane) & 1);

	return exact_weight(row, (i & 4) + (lane & 2) + (i & 1));
}

#else

#define ACCUMULATORS 4

struct tile {
	uint32_t left[EXACT_MMA_OPERANDS][4], right[EXACT_MMA_OPERANDS][2];
};

static __device__ __forceinline__ void load_tile(struct tile *t, uint64_t key, uint32_t lane)
{
	uint32_t group = lane >> 2, pair = lane & 3;

#pragma unroll
	for (uint32_t o = 0; o < EXACT_MMA_OPERANDS; o++) {
		t->left[o][0] = halves(exact_operands(key, 0, o, group, pair));
		t->left[o][1] = halves(exact_operands(key, 0, o, group + 8, pair));
		t->left[o][2] = halves(exact_operands(key, 0, o, group, pair + 4));
		t->left[o][3] = halves(exact_operands(key, 0, o, group + 8, pair + 4));
		t->right[o][0] = halves(exact_operands(key, 1, o, group, pair));
		t->right[o][1] = halves(exact_operands(key, 1, o, group, pair + 4));
	}
}

static __device__ __forceinline__ void multiply(float *acc, const uint32_t *left, const uint32_t *right)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
	asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
	    : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
	    : "r"(left[0]), "r"(left[1]), "r"(right[0]));
	asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
	    : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
	    : "r"(left[2]), "r"(left[3]), "r"(right[1]));
#else
	asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
	    : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
	    : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
#endif
}

static __device__ __forceinline__ uint64_t weight_of(uint32_t lane, uint32_t i)
{
	return exact_weight((lane >> 2) + (i & 2) * 4, (lane & 3) * 2 + (i & 1));
}

#endif

/* All products of one fold; even and odd steps into sums of their own, so that two are in flight. */
static __device__ __forceinline__ void multiply_fold(float (&acc)[2][ACCUMULATORS], const struct tile &t, uint32_t fold)
{
	for (uint32_t done = 0; done < fold; done += EXACT_MMA_FOLD_UNIT) {
#pragma unroll
		for (uint32_t s = 0; s < EXACT_MMA_FOLD_UNIT; s++)
			multiply(acc[s & 1], t.left[s % EXACT_MMA_OPERANDS], t.right[s / EXACT_MMA_OPERANDS]);
	}
}

KERNEL gp_mma16(uint32_t steps, uint32_t fold, uint64_t seed, uint32_t shift, struct kernel_chain *out)
{
	uint32_t lane = threadIdx.x & 31, warp = threadIdx.x / 32 + WARPS * shifted_block(shift);
	uint64_t start = exact_start(warp, seed), sum = 0;
	uint64_t weight[ACCUMULATORS];
	struct tile t;

#pragma unroll
	for (uint32_t i = 0; i < ACCUMULATORS; i++)
		weight[i] = weight_of(lane, i);
	for (uint32_t n = 0; n < steps / fold; n++) {
		float acc[2][ACCUMULATORS];

		if (n % EXACT_MMA_REFRESH == 0)
			load_tile(&t, exact_key(start, n / EXACT_MMA_REFRESH), lane);
#pragma unroll
		for (uint32_t i = 0; i < ACCUMULATORS; i++)
			acc[0][i] = acc[1][i] = 0;
		multiply_fold(acc, t, fold);
		sum *= EXACT_MMA_SUM_FACTOR;
		/* Exact: both are whole and below 2^23. A sum that is not (a fault) must not be rounded away: its bits count. */
#pragma unroll
		for (uint32_t i = 0; i < ACCUMULATORS; i++) {
			float whole = __fadd_rn(acc[0][i], acc[1][i]);
			long long value = (long long)__float2int_rn(whole);

			if (__int2float_rn((int)value) != whole)
				value = (long long)__float_as_uint(whole) << 32;
			sum += (uint64_t)value * weight[i];
		}
	}
	/* The checksum is linear in all sums, so the threads' shares add up. */
#pragma unroll
	for (uint32_t step = 16; step > 0; step /= 2)
		sum += __shfl_xor_sync(0xffffffffu, sum, step);
	if (lane == 0)
		tell(out + warp, exact_mix(start, sum));
}

#endif
