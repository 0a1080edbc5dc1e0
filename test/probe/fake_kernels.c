/* SPDX-License-Identifier: Apache-2.0 */
/* test: the kernels in C, by name, over the arithmetic that the real ones use. */
#include "test/probe/fake_cudart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "probe/kernels/exact.h"
#include "probe/rt.h"

/* Up to so much is really read, written and copied; beyond, only time passes. */
#define MOVE_MOST (4u << 20)
#define WARP 32
/* Lanes that are computed together, so that the compiler can use vectors. */
#define BATCH 32

/* What a good kernel reaches of the peak. */
static const double efficiency[SPEED_COUNT] = {
	[SPEED_READ] = 0.92,
	[SPEED_WRITE] = 0.90,
	[SPEED_COPY] = 0.87,
	[SPEED_FILL] = 0.85,
	[SPEED_CHECK] = 0.85,
	[SPEED_FMA32] = 0.90,
	[SPEED_FMA64] = 0.90,
	[SPEED_MMA16] = 0.60,
};

double fake_peak_memory(const struct fake_device *d)
{
	double peak = 2e3 * d->memory_clock_khz * d->bus_bits / 8;

	return peak > 0 ? peak : 5e11;
}

/* Operations per second of each kind of arithmetic. */
static double peak_flops(const struct fake_device *d, enum fake_speed kind)
{
	int lanes = d->major == 7 || (d->major != 5 && d->minor == 0 && d->major <= 8) ? 64 : 128;
	double fp32 = 2e3 * d->sms * lanes * (d->clock_khz > 0 ? d->clock_khz : 1500000);

	if (kind == SPEED_FMA64)
		return d->minor == 0 && d->major >= 6 && d->major <= 10 ? fp32 / 2 : fp32 / 64;
	return kind == SPEED_MMA16 ? fp32 * 8 : fp32;
}

static void spend(struct fake_device *d, enum fake_speed kind, double amount)
{
	double peak = kind == SPEED_FMA32 || kind == SPEED_FMA64 || kind == SPEED_MMA16
			      ? peak_flops(d, kind)
			      : fake_peak_memory(d);

	d->now_s += amount / (peak * efficiency[kind] * d->factor[kind]);
}

/* Blocks go out in turn; a multiprocessor that does no work leaves them to the next one. */
static uint32_t sm_of(const struct fake_device *d, uint32_t block)
{
	uint32_t sm = block % (uint32_t)d->sms;

	return (int)sm == d->missing_sm ? (sm + 1) % (uint32_t)d->sms : sm;
}

static bool is_wrong(const struct fake_device *d, const char *kernel, uint32_t sm)
{
	return d->wrong.left != 0 && d->wrong.sm == (int)sm &&
	       (!d->wrong.kernel[0] || strcmp(d->wrong.kernel, kernel) == 0);
}

/* ---- chains ---- */

#ifdef __x86_64__
#define WITH_VECTORS __attribute__((target_clones("fma", "default")))
#else
#define WITH_VECTORS
#endif

/* Written so that compilers see vectors: lanes side by side, and between them straight code. */
_Static_assert(EXACT_FOLD_UNIT == 64, "32 pairs");
#define CHAIN(bits, real, fused)                                                                   \
	WITH_VECTORS static void chains##bits(                                                     \
		uint32_t first, uint32_t steps, uint32_t fold, uint64_t seed, uint64_t *sums)      \
	{                                                                                          \
		uint64_t hash[BATCH];                                                              \
		real x[BATCH], minus_a[BATCH], b[BATCH];                                           \
                                                                                                   \
		for (uint32_t l = 0; l < BATCH; l++)                                               \
			hash[l] = exact_start(first + l, seed);                                    \
		for (uint32_t done = 0; done < steps; done += fold) {                              \
			for (uint32_t l = 0; l < BATCH; l++) {                                     \
				struct exact_state##bits s = exact_seed##bits(hash[l]);            \
                                                                                                   \
				x[l] = s.x;                                                        \
				minus_a[l] = s.minus_a;                                            \
				b[l] = s.b;                                                        \
			}                                                                          \
			for (uint32_t i = 0; i < fold; i += EXACT_FOLD_UNIT) {                     \
				for (uint32_t l = 0; l < BATCH; l++) {                             \
					struct exact_state##bits s = {x[l], minus_a[l], b[l]};     \
                                                                                                   \
					_Pragma("GCC unroll 32") for (int j = 0; j < 32; j++)      \
						s.x = exact_pair##bits(s);                         \
					x[l] = s.x;                                                \
				}                                                                  \
			}                                                                          \
			for (uint32_t l = 0; l < BATCH; l++)                                       \
				hash[l] = exact_mix(hash[l], exact_##fused##_bits(x[l]));          \
		}                                                                                  \
		memcpy(sums, hash, sizeof(hash));                                                  \
	}

CHAIN(32, float, float)
CHAIN(64, double, double)

/* The right sums of the last launch of each kind: the same chains are asked for several times. */
struct sums {
	uint32_t steps, fold, chains;
	uint64_t seed;
	uint64_t *sum;
};

static const uint64_t *right_sums(
	enum fake_speed kind, uint32_t steps, uint32_t fold, uint64_t seed, uint32_t chains)
{
	static struct sums kept[SPEED_COUNT];
	struct sums *k = &kept[kind];

	if (k->sum && k->steps == steps && k->fold == fold && k->seed == seed &&
		k->chains == chains)
		return k->sum;
	free(k->sum);
	*k = (struct sums){steps, fold, chains, seed, calloc(chains, sizeof(*k->sum))};
	if (!k->sum)
		fake_die("no memory");
	if (kind == SPEED_MMA16) {
		for (uint32_t i = 0; i < chains; i++)
			k->sum[i] = exact_mma16(i, steps, fold, seed);
		return k->sum;
	}
	/* The rate's chains are looked at by nobody. */
	for (uint32_t i = 0; i < chains && fold != EXACT_FOLD_RATE; i += BATCH) {
		if (kind == SPEED_FMA32)
			chains32(i, steps, fold, seed, k->sum + i);
		else
			chains64(i, steps, fold, seed, k->sum + i);
	}
	return k->sum;
}

static void chains(
	struct fake_device *d, const char *name, enum fake_speed kind, unsigned blocks, void **args)
{
	uint32_t steps = *(uint32_t *)args[0], fold = *(uint32_t *)args[1],
		 shift = *(uint32_t *)args[3];
	uint32_t each = kind == SPEED_MMA16 ? KERNEL_THREADS / WARP : KERNEL_THREADS;
	uint64_t seed = *(uint64_t *)args[2];
	struct kernel_chain *out = *(struct kernel_chain **)args[4];
	const uint64_t *sums = right_sums(kind, steps, fold, seed, blocks * each);
	bool spoiled = false;

	if (fold == 0 || steps % fold != 0 ||
		(kind == SPEED_MMA16 ? fold % EXACT_MMA_FOLD_UNIT != 0 || fold > EXACT_MMA_FOLD_MAX
				     : fold % EXACT_FOLD_UNIT != 0))
		fake_die("%s: %u steps, a fold every %u", name, steps, fold);
	for (uint32_t b = 0; b < blocks; b++) {
		uint32_t sm = sm_of(d, b);
		bool wrong = is_wrong(d, name, sm);

		spoiled |= wrong;
		for (uint32_t t = 0; t < each; t++) {
			uint32_t chain = t + each * ((b + shift) % blocks);

			out[chain] = (struct kernel_chain){.sum = sums[chain], .sm = sm};
			if (wrong && (d->wrong.lane < 0 || d->wrong.lane == t))
				out[chain].sum ^= d->wrong.mask;
		}
	}
	if (spoiled && d->wrong.left > 0)
		d->wrong.left--;
	spend(d, kind,
		(double)blocks * each * steps *
			(kind == SPEED_MMA16 ? EXACT_MMA_FLOPS : EXACT_FMA_FLOPS));
}

static void fma32(struct fake_device *d, unsigned blocks, void **args)
{
	chains(d, "gp_fma32", SPEED_FMA32, blocks, args);
}

static void fma64(struct fake_device *d, unsigned blocks, void **args)
{
	chains(d, "gp_fma64", SPEED_FMA64, blocks, args);
}

static void mma16(struct fake_device *d, unsigned blocks, void **args)
{
	chains(d, "gp_mma16", SPEED_MMA16, blocks, args);
}

/* ---- memory ---- */

static void fill(struct fake_device *d, unsigned blocks, void **args)
{
	uint64_t cells = *(uint64_t *)args[2];

	(void)blocks;
	fake_fill(d, *(void **)args[0], *(uint64_t *)args[1], cells, *(uint64_t *)args[3],
		*(uint64_t *)args[4]);
	spend(d, SPEED_FILL, (double)cells * sizeof(struct kernel_cell));
}

static void check(struct fake_device *d, unsigned blocks, void **args)
{
	uint64_t cells = *(uint64_t *)args[2];
	uint32_t rewrite = *(uint32_t *)args[5];

	(void)blocks;
	fake_check(d, *(void **)args[0], *(uint64_t *)args[1], cells, *(uint64_t *)args[3],
		*(uint64_t *)args[4], rewrite, *(struct kernel_findings **)args[6]);
	spend(d, SPEED_CHECK, (double)cells * sizeof(struct kernel_cell) * (rewrite ? 2 : 1));
}

static void read_all(struct fake_device *d, unsigned blocks, void **args)
{
	(void)blocks;
	spend(d, SPEED_READ, (double)*(uint64_t *)args[1] * sizeof(struct kernel_cell));
}

static void write_all(struct fake_device *d, unsigned blocks, void **args)
{
	struct kernel_cell *at = *(struct kernel_cell **)args[0];
	uint64_t cells = *(uint64_t *)args[1], written = *(uint64_t *)args[2];
	size_t bytes = cells * sizeof(*at);

	(void)blocks;
	fake_host_writes(d, at, bytes);
	for (uint64_t i = 0; i < cells && bytes <= MOVE_MOST; i++)
		at[i] = (struct kernel_cell){written ^ i, ~written};
	spend(d, SPEED_WRITE, (double)bytes);
}

static void copy_all(struct fake_device *d, unsigned blocks, void **args)
{
	struct kernel_cell *to = *(struct kernel_cell **)args[0];
	struct kernel_cell *from = *(struct kernel_cell **)args[1];
	size_t bytes = *(uint64_t *)args[2] * sizeof(*to);

	(void)blocks;
	fake_host_writes(d, to, bytes);
	if (bytes <= MOVE_MOST) {
		fake_host_reads(d, from, bytes);
		memcpy(to, from, bytes);
	}
	spend(d, SPEED_COPY, 2.0 * (double)bytes);
}

static void smem(struct fake_device *d, unsigned blocks, void **args)
{
	uint64_t seed = *(uint64_t *)args[1];
	struct kernel_findings *out = *(struct kernel_findings **)args[2];
	uint32_t *sms = *(uint32_t **)args[3];
	bool spoiled = false;

	for (uint32_t b = 0; b < blocks; b++) {
		uint64_t cell = (uint64_t)b * (KERNEL_SHARED_BYTES / sizeof(struct kernel_cell));
		struct kernel_cell right = pattern_cell(cell, seed), got = right;

		sms[b] = sm_of(d, b);
		got.lo ^= d->wrong.mask;
		if (is_wrong(d, "gp_smem", sms[b])) {
			fake_report(out, cell, right, got, got);
			spoiled = true;
		}
	}
	if (spoiled && d->wrong.left > 0)
		d->wrong.left--;
}

static void nop(struct fake_device *d, unsigned blocks, void **args)
{
	(void)d;
	(void)blocks;
	(void)args;
}

static const struct {
	const char *name;
	void (*run)(struct fake_device *d, unsigned blocks, void **args);
} kernels[] = {{"gp_fill", fill}, {"gp_check", check}, {"gp_read", read_all},
	{"gp_write", write_all}, {"gp_copy", copy_all}, {"gp_fma32", fma32}, {"gp_fma64", fma64},
	{"gp_mma16", mma16}, {"gp_smem", smem}, {"gp_nop", nop}};
#define N_KERNELS (sizeof(kernels) / sizeof(kernels[0]))

const char *fake_kernel(const char *name)
{
	for (size_t i = 0; i < N_KERNELS; i++) {
		if (strcmp(kernels[i].name, name) == 0)
			return kernels[i].name;
	}
	return NULL;
}

int fake_launch(struct fake_device *d, const char *name, unsigned blocks, void **args)
{
	for (size_t i = 0; i < N_KERNELS; i++) {
		if (strcmp(kernels[i].name, name) == 0) {
			kernels[i].run(d, blocks, args);
			return 0;
		}
	}
	return RT_INVALID_VALUE;
}
