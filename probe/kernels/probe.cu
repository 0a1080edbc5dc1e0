/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the kernels; kernels.h says what each does. Compiled by compile.c for each architecture, without any header but ours. */
#include "probe/kernels/exact.h"

#define KERNEL extern "C" __global__ void __launch_bounds__(KERNEL_THREADS)
#define DEPTH KERNEL_DEPTH
#define TILE (uint64_t)KERNEL_TILE
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

/* The block whose work this one does. */
static __device__ __forceinline__ uint32_t shifted_block(uint32_t shift)
{
	return (blockIdx.x + shift) % gridDim.x;
}

/* What a thread did, added to its block's. All threads of the warp come here. */
static __device__ __forceinline__ void account(struct kernel_work *work, uint32_t cells, uint64_t sum)
{
#pragma unroll
	for (uint32_t step = 16; step > 0; step /= 2) {
		cells += __shfl_xor_sync(0xffffffffu, cells, step);
		sum ^= __shfl_xor_sync(0xffffffffu, sum, step);
	}
	if (threadIdx.x % 32 == 0) {
		atomicAdd(&work[blockIdx.x].cells, (uint64_t)cells);
		atomicAdd(&work[blockIdx.x].sum, sum);
	}
}

/* Where a block's thread is in memory: `cells` cells, from either end. */
struct way {
	uint64_t last;
	bool down;

	__device__ __forceinline__ uint64_t cell(uint64_t i) const
	{
		return down ? last - i : i;
	}
};

static __device__ __forceinline__ struct kernel_cell pattern_of(uint64_t cell, uint64_t seed, uint64_t lo, uint64_t hi)
{
	struct kernel_cell c = pattern_cell(cell, seed);

	c.lo ^= lo;
	c.hi ^= hi;
	return c;
}

KERNEL gp_fill(struct kernel_cell *at, uint64_t first, uint64_t cells, uint64_t seed, uint64_t lo, uint64_t hi, uint32_t shift,
	struct kernel_work *work)
{
	uint32_t done = 0;

	for (uint64_t base = shifted_block(shift) * TILE; base < cells; base += gridDim.x * TILE) {
#pragma unroll
		for (uint32_t j = 0; j < DEPTH; j++) {
			uint64_t i = base + j * KERNEL_THREADS + threadIdx.x;

			if (i < cells) {
				struct kernel_cell c = pattern_of(first + i, seed, lo, hi);

				store(at + i, c.lo, c.hi);
				done++;
			}
		}
	}
	account(work, done, 0);
}

/* What gp_check knows of every cell. */
struct order {
	struct kernel_cell *at;
	uint64_t first, seed, lo, hi, next_lo, next_hi;
	struct kernel_findings *out;
};

static __device__ __forceinline__ void compare(const struct order &o, uint64_t cell, struct kernel_cell c, struct kernel_cell got)
{
	if (((got.lo ^ c.lo) | (got.hi ^ c.hi)) != 0)
		report(o.out, o.first + cell, c.lo, c.hi, got.lo, got.hi, o.at + cell);
}

static __device__ __forceinline__ void check_cell(const struct order &o, uint64_t cell, struct kernel_cell got, uint32_t rewrite)
{
	struct kernel_cell c = pattern_cell(o.first + cell, o.seed);
	struct kernel_cell expected = {c.lo ^ o.lo, c.hi ^ o.hi};

	compare(o, cell, expected, got);
	if (rewrite)
		store(o.at + cell, c.lo ^ o.next_lo, c.hi ^ o.next_hi);
}

/* What was written just now. */
static __device__ __forceinline__ void check_again(const struct order &o, uint64_t cell)
{
	compare(o, cell, pattern_of(o.first + cell, o.seed, o.next_lo, o.next_hi), load(o.at + cell));
}

KERNEL gp_check(struct kernel_cell *at, uint64_t first, uint64_t cells, uint64_t seed, uint64_t lo, uint64_t hi, uint32_t shift,
	uint32_t down, uint32_t rewrite, uint64_t next_lo, uint64_t next_hi, struct kernel_findings *out, struct kernel_work *work)
{
	struct order o = {at, first, seed, lo, hi, next_lo, next_hi, out};
	struct way way = {cells - 1, down != 0};
	uint64_t sum = 0;
	uint32_t done = 0;

	for (uint64_t base = shifted_block(shift) * TILE; base < cells; base += gridDim.x * TILE) {
		uint64_t mine = base + threadIdx.x;

		if (base + TILE <= cells) {
			struct kernel_cell got[DEPTH];

#pragma unroll
			for (uint32_t j = 0; j < DEPTH; j++)
				got[j] = load(at + way.cell(mine + j * KERNEL_THREADS));
#pragma unroll
			for (uint32_t j = 0; j < DEPTH; j++, done++) {
				sum ^= got[j].lo ^ got[j].hi;
				check_cell(o, way.cell(mine + j * KERNEL_THREADS), got[j], rewrite);
			}
			if (rewrite == 2)
				for (uint32_t j = 0; j < DEPTH; j++)
					check_again(o, way.cell(mine + j * KERNEL_THREADS));
			continue;
		}
		for (uint64_t i = mine; i < cells; i += KERNEL_THREADS, done++) {
			struct kernel_cell got = load(at + way.cell(i));

			sum ^= got.lo ^ got.hi;
			check_cell(o, way.cell(i), got, rewrite);
			if (rewrite == 2)
				check_again(o, way.cell(i));
		}
	}
	account(work, done, sum);
}

KERNEL gp_read(const struct kernel_cell *at, uint64_t cells, struct kernel_work *work)
{
	uint64_t sum = 0;
	uint32_t done = 0;

	for (uint64_t base = blockIdx.x * TILE; base < cells; base += gridDim.x * TILE) {
		uint64_t mine = base + threadIdx.x;

		if (base + TILE <= cells) {
			struct kernel_cell got[DEPTH];

#pragma unroll
			for (uint32_t j = 0; j < DEPTH; j++)
				got[j] = load(at + mine + j * KERNEL_THREADS);
#pragma unroll
			for (uint32_t j = 0; j < DEPTH; j++, done++)
				sum ^= got[j].lo ^ got[j].hi;
			continue;
		}
		for (uint64_t i = mine; i < cells; i += KERNEL_THREADS, done++) {
			struct kernel_cell got = load(at + i);

			sum ^= got.lo ^ got.hi;
		}
	}
	account(work, done, sum);
}

KERNEL gp_copy(struct kernel_cell *to, const struct kernel_cell *from, uint64_t cells, struct kernel_work *work)
{
	uint32_t done = 0;

	for (uint64_t base = blockIdx.x * TILE; base < cells; base += gridDim.x * TILE) {
		uint64_t mine = base + threadIdx.x;

		if (base + TILE <= cells) {
			struct kernel_cell got[DEPTH];

#pragma unroll
			for (uint32_t j = 0; j < DEPTH; j++)
				got[j] = load(from + mine + j * KERNEL_THREADS);
#pragma unroll
			for (uint32_t j = 0; j < DEPTH; j++, done++)
				store(to + mine + j * KERNEL_THREADS, got[j].lo, got[j].hi);
			continue;
		}
		for (uint64_t i = mine; i < cells; i += KERNEL_THREADS, done++) {
			struct kernel_cell got = load(from + i);

			store(to + i, got.lo, got.hi);
		}
	}
	account(work, done, 0);
}

static __device__ __forceinline__ void tell(struct kernel_chain *out, uint64_t sum)
{
	out->sum = sum;
	out->sm = sm_id();
	out->runs++;
}

KERNEL gp_fma32(uint32_t steps, uint32_t fold, uint64_t seed, uint32_t shift, uint32_t turn, struct kernel_chain *out)
{
	uint32_t lane = (threadIdx.x + turn) % KERNEL_THREADS + KERNEL_THREADS * shifted_block(shift);

	tell(out + lane, exact_fma32(lane, steps, fold, seed));
}

KERNEL gp_fma64(uint32_t steps, uint32_t fold, uint64_t seed, uint32_t shift, uint32_t turn, struct kernel_chain *out)
{
	uint32_t lane = (threadIdx.x + turn) % KERNEL_THREADS + KERNEL_THREADS * shifted_block(shift);

	tell(out + lane, exact_fma64(lane, steps, fold, seed));
}

/* A block's shared memory: written by one thread, read by another. */
KERNEL gp_smem(uint32_t rounds, uint64_t seed, struct kernel_findings *out, uint32_t *sm, struct kernel_work *work)
{
	const uint32_t cells = KERNEL_SHARED_BYTES / sizeof(struct kernel_cell);
	__shared__ struct kernel_cell tile[KERNEL_SHARED_BYTES / sizeof(struct kernel_cell)];
	uint64_t first = (uint64_t)blockIdx.x * cells;
	uint32_t done = 0;

	for (uint32_t r = 0; r < 2 * rounds; r++) {
		uint64_t invert = r % 2 ? ~0ull : 0;

		for (uint32_t i = threadIdx.x; i < cells; i += KERNEL_THREADS) {
			struct kernel_cell c = pattern_cell(first + i, seed + r / 2);

			tile[i].lo = c.lo ^ invert;
			tile[i].hi = c.hi ^ invert;
		}
		__syncthreads();
		for (uint32_t n = threadIdx.x; n < cells; n += KERNEL_THREADS, done++) {
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
	account(work, done, 0);
}

KERNEL gp_nop(struct kernel_work *work)
{
	if (threadIdx.x == 0)
		work[blockIdx.x].cells++;
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

/* Is a sum no whole number? Adding 1.5 · 2^23 rounds a fraction away, and taking it off again shows that. Asked after each instruction:
 * the next ones would round it away themselves. Infinite and no number count, too; what is too large for this stays so to the end. */
template <uint32_t n>
static __device__ __forceinline__ uint32_t broken(const float *acc)
{
	uint32_t is = 0;

#pragma unroll
	for (uint32_t i = 0; i < n; i++)
		is |= __fadd_rn(__fadd_rn(acc[i], 12582912.0f), -12582912.0f) != acc[i] ? 1u : 0u;
	return is;
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

template <bool keep>
static __device__ __forceinline__ uint32_t multiply(float *acc, const uint32_t *left, const uint32_t *right)
{
	uint32_t bad;

	multiply4(acc, left, right);
	bad = keep ? broken<ACCUMULATORS>(acc) : 0;
	multiply4(acc, left + 2, right + 2);
	return keep ? bad | broken<ACCUMULATORS>(acc) : 0;
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

template <bool keep>
static __device__ __forceinline__ uint32_t multiply(float *acc, const uint32_t *left, const uint32_t *right)
{
	uint32_t bad = 0;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
	asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
	    : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
	    : "r"(left[0]), "r"(left[1]), "r"(right[0]));
	bad = keep ? broken<ACCUMULATORS>(acc) : 0;
	asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
	    : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
	    : "r"(left[2]), "r"(left[3]), "r"(right[1]));
#else
	asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
	    : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
	    : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
#endif
	return keep ? bad | broken<ACCUMULATORS>(acc) : 0;
}

static __device__ __forceinline__ uint64_t weight_of(uint32_t lane, uint32_t i)
{
	return exact_weight((lane >> 2) + (i & 2) * 4, (lane & 3) * 2 + (i & 1));
}

#endif

/* All products of one fold; even and odd steps into sums of their own, so that two are in flight. keep: look at every sum, and tell
 * whether all were whole. */
template <bool keep>
static __device__ __forceinline__ uint32_t multiply_fold(float (&acc)[2][ACCUMULATORS], const struct tile &t, uint32_t fold)
{
	uint32_t bad = 0;

	for (uint32_t done = 0; done < fold; done += EXACT_MMA_FOLD_UNIT) {
#pragma unroll
		for (uint32_t s = 0; s < EXACT_MMA_FOLD_UNIT; s++)
			bad |= multiply<keep>(acc[s & 1], t.left[s % EXACT_MMA_OPERANDS], t.right[s / EXACT_MMA_OPERANDS]);
	}
	return bad;
}

/* A sum as a whole number. One that is none (a fault) must not be rounded to one: its bits count. */
static __device__ __forceinline__ uint64_t whole(float sum)
{
	int value = __float2int_rn(sum);

	return __int2float_rn(value) == sum ? (uint64_t)(long long)value : (uint64_t)__float_as_uint(sum) << 32;
}

template <bool keep>
static __device__ __forceinline__ uint64_t mma16(uint32_t warp, uint32_t lane, uint32_t steps, uint32_t fold, uint64_t seed)
{
	uint64_t start = exact_start(warp, seed), sum = 0;
	uint64_t weight[ACCUMULATORS];
	struct tile t;
	uint32_t bad = 0;

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
		bad |= multiply_fold<keep>(acc, t, fold);
		sum *= EXACT_MMA_SUM_FACTOR;
#pragma unroll
		for (uint32_t i = 0; i < ACCUMULATORS; i++)
			sum += (whole(acc[0][i]) + whole(acc[1][i])) * weight[i];
	}
	/* what no sum of whole numbers is likely to cancel */
	if (bad)
		sum += EXACT_MMA_BROKEN;
	/* The checksum is linear in all sums, so the threads' shares add up. */
#pragma unroll
	for (uint32_t step = 16; step > 0; step /= 2)
		sum += __shfl_xor_sync(0xffffffffu, sum, step);
	return exact_mix(start, sum);
}

KERNEL gp_mma16(uint32_t steps, uint32_t fold, uint64_t seed, uint32_t shift, uint32_t turn, struct kernel_chain *out)
{
	uint32_t lane = threadIdx.x & 31, warp = (threadIdx.x / 32 + turn) % WARPS + WARPS * shifted_block(shift);
	uint64_t sum = fold == EXACT_MMA_FOLD_RATE ? mma16<false>(warp, lane, steps, fold, seed)
						   : mma16<true>(warp, lane, steps, fold, seed);

	if (lane == 0)
		tell(out + warp, sum);
}

#endif
