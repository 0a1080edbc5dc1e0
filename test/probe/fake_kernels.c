/* SPDX-License-Identifier: Apache-2.0 */
/* test: the kernels in C, by name, over the arithmetic that the real ones use. */
#include "test/probe/fake_cudart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "probe/check/exact_cpu.h"
#include "probe/kernels/exact.h"
#include "probe/result/evidence.h"
#include "probe/runtime/rt.h"

#define WARP 32

/* What a good kernel reaches of the peak. */
static const double efficiency[SPEED_COUNT] = {
	[SPEED_READ] = 0.92,
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

/* While freed memory is cleared (measured on an H100: docs/gpuprobe.md). */
double fake_share(const struct fake_device *d, enum fake_speed kind)
{
	if (d->now_s >= d->cleared_s || clock_s() >= d->host_s)
		return 1;
	if (kind == SPEED_H2D)
		return 0.48;
	return kind == SPEED_READ || kind == SPEED_COPY ? 0.84 : 1;
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

	d->now_s += amount / (peak * efficiency[kind] * d->factor[kind] * fake_share(d, kind));
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

/* Does this multiprocessor leave the launch out? */
static bool is_idle(const struct fake_device *d, const char *kernel, uint32_t sm)
{
	return d->idle.left != 0 && strcmp(d->idle.kernel, kernel) == 0 &&
	       (d->idle.sm < 0 || d->idle.sm == (int)sm);
}

static void end_launch(struct fake_device *d, const char *kernel)
{
	if (strcmp(d->idle.kernel, kernel) == 0 && d->idle.left > 0)
		d->idle.left--;
}

/* What each block leaves of a launch over so many cells. What it read is a number that depends on
 * the cells alone: nobody compares it with anything but what another kernel read of the same. */
static void account(struct fake_device *d, const char *kernel, struct kernel_work *work,
	unsigned blocks, uint64_t cells, uint32_t shift)
{
	for (uint32_t b = 0; b < blocks; b++) {
		uint64_t share = evidence_share(cells, blocks, b, shift);

		if (is_idle(d, kernel, sm_of(d, b)))
			continue;
		work[b].cells += share;
		if (strcmp(kernel, "gp_read") == 0 || strcmp(kernel, "gp_check") == 0)
			work[b].sum += (share + 1) * 0x9e3779b97f4a7c15ull;
	}
	end_launch(d, kernel);
}

/* ---- chains ---- */

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
	uint32_t *lanes;

	if (k->sum && k->steps == steps && k->fold == fold && k->seed == seed &&
		k->chains == chains)
		return k->sum;
	free(k->sum);
	*k = (struct sums){steps, fold, chains, seed, calloc(chains, sizeof(*k->sum))};
	if (!k->sum)
		fake_die("no memory");
	lanes = calloc(chains, sizeof(*lanes));
	if (!lanes)
		fake_die("no memory");
	for (uint32_t i = 0; i < chains; i++)
		lanes[i] = i;
	exact_cpu_chains(kind == SPEED_FMA32   ? EXACT_FP32
			 : kind == SPEED_FMA64 ? EXACT_FP64
					       : EXACT_TENSOR,
		lanes, chains, steps, fold, seed, k->sum);
	free(lanes);
	return k->sum;
}

static void chains(
	struct fake_device *d, const char *name, enum fake_speed kind, unsigned blocks, void **args)
{
	uint32_t steps = *(uint32_t *)args[0], fold = *(uint32_t *)args[1],
		 shift = *(uint32_t *)args[3], turn = *(uint32_t *)args[4];
	uint32_t each = kind == SPEED_MMA16 ? KERNEL_THREADS / WARP : KERNEL_THREADS;
	uint64_t seed = *(uint64_t *)args[2];
	struct kernel_chain *out = *(struct kernel_chain **)args[5];
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
		if (is_idle(d, name, sm))
			continue;
		for (uint32_t t = 0; t < each; t++) {
			uint32_t chain = (t + turn) % each + each * ((b + shift) % blocks);

			out[chain].sum = sums[chain];
			out[chain].sm = sm;
			out[chain].runs++;
			if (wrong && (d->wrong.lane < 0 || d->wrong.lane == t))
				out[chain].sum ^= d->wrong.mask;
		}
	}
	if (spoiled && d->wrong.left > 0)
		d->wrong.left--;
	end_launch(d, name);
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

static struct kernel_cell flip_of(void **args)
{
	return (struct kernel_cell){*(uint64_t *)args[0], *(uint64_t *)args[1]};
}

static void fill(struct fake_device *d, unsigned blocks, void **args)
{
	uint64_t cells = *(uint64_t *)args[2];

	fake_fill(d, *(void **)args[0], *(uint64_t *)args[1], cells, *(uint64_t *)args[3],
		flip_of(args + 4));
	account(d, "gp_fill", *(struct kernel_work **)args[7], blocks, cells, *(uint32_t *)args[6]);
	spend(d, SPEED_FILL, (double)cells * sizeof(struct kernel_cell));
}

static void check(struct fake_device *d, unsigned blocks, void **args)
{
	void *at = *(void **)args[0];
	uint64_t first = *(uint64_t *)args[1], cells = *(uint64_t *)args[2],
		 seed = *(uint64_t *)args[3];
	uint32_t rewrite = *(uint32_t *)args[8];
	struct kernel_findings *out = *(struct kernel_findings **)args[11];

	fake_check(d, at, first, cells, seed, flip_of(args + 4), out);
	if (rewrite)
		fake_fill(d, at, first, cells, seed, flip_of(args + 9));
	if (rewrite == 2)
		fake_check(d, at, first, cells, seed, flip_of(args + 9), out);
	account(d, "gp_check", *(struct kernel_work **)args[12], blocks, cells,
		*(uint32_t *)args[6]);
	spend(d, SPEED_CHECK, (double)cells * sizeof(struct kernel_cell) * (rewrite ? 2 : 1));
}

static void read_all(struct fake_device *d, unsigned blocks, void **args)
{
	uint64_t cells = *(uint64_t *)args[1];

	account(d, "gp_read", *(struct kernel_work **)args[2], blocks, cells, 0);
	spend(d, SPEED_READ, (double)cells * sizeof(struct kernel_cell));
}

static void copy_all(struct fake_device *d, unsigned blocks, void **args)
{
	uint64_t cells = *(uint64_t *)args[2];

	fake_copy(d, *(void **)args[0], *(void **)args[1], cells);
	account(d, "gp_copy", *(struct kernel_work **)args[3], blocks, cells, 0);
	spend(d, SPEED_COPY, 2.0 * (double)cells * sizeof(struct kernel_cell));
}

static void smem(struct fake_device *d, unsigned blocks, void **args)
{
	uint64_t seed = *(uint64_t *)args[1];
	struct kernel_findings *out = *(struct kernel_findings **)args[2];
	uint32_t *sms = *(uint32_t **)args[3];
	struct kernel_work *work = *(struct kernel_work **)args[4];
	uint64_t cells =
		2ull * *(uint32_t *)args[0] * (KERNEL_SHARED_BYTES / sizeof(struct kernel_cell));
	bool spoiled = false;

	for (uint32_t b = 0; b < blocks; b++) {
		uint64_t cell = (uint64_t)b * (KERNEL_SHARED_BYTES / sizeof(struct kernel_cell));
		struct kernel_cell right = pattern_cell(cell, seed), got = right;

		if (is_idle(d, "gp_smem", sm_of(d, b)))
			continue;
		work[b].cells += cells;
		sms[b] = sm_of(d, b);
		got.lo ^= d->wrong.mask;
		if (is_wrong(d, "gp_smem", sms[b])) {
			fake_report(out, cell, right, got, got);
			spoiled = true;
		}
	}
	if (spoiled && d->wrong.left > 0)
		d->wrong.left--;
	end_launch(d, "gp_smem");
}

static void nop(struct fake_device *d, unsigned blocks, void **args)
{
	struct kernel_work *work = *(struct kernel_work **)args[0];

	for (unsigned b = 0; b < blocks; b++)
		work[b].cells += !is_idle(d, "gp_nop", 0);
	end_launch(d, "gp_nop");
}

static const struct {
	const char *name;
	void (*run)(struct fake_device *d, unsigned blocks, void **args);
} kernels[] = {{"gp_fill", fill}, {"gp_check", check}, {"gp_read", read_all}, {"gp_copy", copy_all},
	{"gp_fma32", fma32}, {"gp_fma64", fma64}, {"gp_mma16", mma16}, {"gp_smem", smem},
	{"gp_nop", nop}};
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
