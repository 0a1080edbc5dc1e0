/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what a healthy GPU reaches, and how far below it is a warning or a failure. */
#include "probe/result/thresholds.h"

#include <math.h>
#include <string.h>

/* How far above what its clocks say a GPU may be. Memory: published peaks are met within 3 %.
 * Arithmetic: the clock that the runtime tells is the one on the box, and GeForce boards go above
 * it by themselves as long as they are cool. */
#define MEMORY_MARGIN 1.05
#define CLOCK_MARGIN 1.30
/* Of fp32's peak: no generation has more fp64 units than half, and no tensor cores of more than 64
 * times (Blackwell; Volta has 8). */
#define FP64_MOST 0.5
#define TENSOR_MOST 64
/* A file of 1 MiB, read. */
#define ARENA_MAX (8u << 20)

void thresholds_init(struct thresholds *t)
{
	static const struct {
		enum check_id id;
		struct threshold of;
	} defaults[] = {{CHECK_MEM_READ, {0.80, 0.70}}, {CHECK_MEM_COPY, {0.75, 0.65}},
		{CHECK_FP32_RATE, {0.60, 0.40}}, {CHECK_H2D, {0.75, 0.65}},
		{CHECK_D2H, {0.75, 0.65}},
		/* links are laid out in many ways: what is slower may be meant so */
		{CHECK_P2P, {0.85, (double)NAN}}};

	*t = (struct thresholds){.peers = {0.95, 0.85}};
	arena_init(&t->arena, ARENA_MAX);
	for (size_t i = 0; i < CHECK_COUNT; i++)
		t->of[i] = (struct threshold){(double)NAN, (double)NAN};
	for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++)
		t->of[defaults[i].id] = defaults[i].of;
}

void thresholds_release(struct thresholds *t)
{
	arena_release(&t->arena);
	t->references = NULL;
	t->n_references = 0;
}

/* ---- what the clocks say ---- */

double expect_memory_rate(const struct gpu_report *gpu)
{
	if (gpu->memory_clock_max_mhz <= 0 || gpu->memory_bus_bits <= 0 || gpu->mig == 1)
		return (double)NAN;
	/* two transfers a clock */
	return 2.0 * gpu->memory_clock_max_mhz * 1e6 * gpu->memory_bus_bits / 8;
}

/* fp32 units of a multiprocessor, by compute capability (CUDA C programming guide, "Arithmetic
 * Instructions"). 0: not known. */
static int fp32_lanes(int major, int minor)
{
	if (major == 5 || (major == 6 && minor > 0))
		return 128;
	if (major == 6 || major == 7 || (major == 8 && minor == 0))
		return 64;
	return major >= 8 && major <= 12 ? 128 : 0;
}

double expect_fp32_rate(const struct gpu_report *gpu)
{
	int lanes = fp32_lanes(gpu->cc_major, gpu->cc_minor);

	if (lanes == 0 || gpu->sm_count <= 0 || gpu->clock_max_mhz <= 0)
		return (double)NAN;
	return 2.0 * lanes * gpu->sm_count * gpu->clock_max_mhz * 1e6;
}

double thresholds_most(const struct gpu_report *gpu, enum check_id id)
{
	switch ((unsigned)id) {
	case CHECK_MEM_READ:
	case CHECK_MEM_WRITE:
	case CHECK_MEM_COPY:
	/* one end of each copy is this memory, however the link is made */
	case CHECK_H2D:
	case CHECK_D2H:
	case CHECK_P2P:
	case CHECK_REMOTE_BANDWIDTH:
		return MEMORY_MARGIN * expect_memory_rate(gpu);
	case CHECK_FP32_RATE:
		return CLOCK_MARGIN * expect_fp32_rate(gpu);
	case CHECK_FP64_RATE:
		return CLOCK_MARGIN * FP64_MOST * expect_fp32_rate(gpu);
	case CHECK_TENSOR_RATE:
		return CLOCK_MARGIN * TENSOR_MOST * expect_fp32_rate(gpu);
	default:
		return (double)NAN;
	}
}

/* ---- expectations ---- */

static const struct reference *find_reference(
	const struct thresholds *t, const struct gpu_report *gpu)
{
	for (size_t i = 0; i < t->n_references; i++) {
		const struct reference *r = &t->references[i];

		if (strcmp(r->name, gpu->name) == 0 &&
			r->memory_total_bytes == gpu->memory_total_bytes)
			return r;
	}
	return NULL;
}

void thresholds_expect(
	const struct thresholds *t, const struct gpu_report *gpu, struct check_result *r)
{
	const struct reference *reference = find_reference(t, gpu);
	struct threshold of = t->of[r->id];
	double clock = (double)NAN;

	r->expected = r->ratio = r->warn_below = r->fail_below = (double)NAN;
	r->fail_above = thresholds_most(gpu, r->id);
	r->basis = BASIS_NONE;
	if (reference && !isnan(reference->rate[r->id])) {
		r->expected = reference->rate[r->id];
		r->basis = BASIS_REFERENCE;
		/* shares of a peak leave room for what no kernel reaches; a reference was reached
		 */
		if (!t->given[r->id])
			of = t->peers;
	} else {
		if (r->id == CHECK_MEM_READ || r->id == CHECK_MEM_WRITE || r->id == CHECK_MEM_COPY)
			clock = expect_memory_rate(gpu);
		else if (r->id == CHECK_FP32_RATE)
			clock = expect_fp32_rate(gpu);
		/* without shares it could never fail: then it is compared with its peers */
		if (isnan(clock) || (isnan(of.warn_below) && isnan(of.fail_below)))
			return;
		r->expected = clock;
		r->basis = BASIS_CLOCK;
	}
	r->warn_below = of.warn_below;
	r->fail_below = of.fail_below;
	r->ratio = r->value / r->expected;
}

static bool comparable(const struct check_result *r)
{
	return r && r->basis == BASIS_NONE && r->unit && isfinite(r->value) && r->value > 0 &&
	       (r->status == STATUS_PASS || r->status == STATUS_WARN);
}

bool thresholds_is_rate(enum check_id id)
{
	return id >= CHECK_MEM_READ && id <= CHECK_TENSOR_RATE && id != CHECK_P2P;
}

static void compare(const struct thresholds *t, struct report *r, size_t gpu, enum check_id id)
{
	struct check_result *own = r->gpus[gpu].checks[id];
	double best = 0;
	size_t peers = 0;

	for (size_t i = 0; i < r->n_gpus; i++) {
		const struct check_result *other = r->gpus[i].checks[id];

		if (strcmp(r->gpus[i].name, r->gpus[gpu].name) != 0 || !other ||
			!isfinite(other->value) || other->value <= 0 ||
			(other->basis != BASIS_NONE && other->basis != BASIS_PEERS))
			continue;
		peers++;
		best = fmax(best, other->value);
	}
	/* instances share their GPU's link to the host */
	if (peers < 2 || (r->gpus[gpu].mig == 1 && (id == CHECK_H2D || id == CHECK_D2H)))
		return;
	own->expected = best;
	own->ratio = own->value / best;
	own->warn_below = t->peers.warn_below;
	own->fail_below = t->peers.fail_below;
	own->basis = BASIS_PEERS;
	if (own->ratio < own->fail_below)
		check_fail(own, CODE_SLOWER_THAN_PEERS,
			"%.0f %% of the best GPU of this model here, expected at least %.0f %%",
			100 * own->ratio, 100 * own->fail_below);
	else if (own->ratio < own->warn_below)
		check_warn(own, CODE_SLOWER_THAN_PEERS,
			"%.0f %% of the best GPU of this model here, expected at least %.0f %%",
			100 * own->ratio, 100 * own->warn_below);
}

void thresholds_peers(const struct thresholds *t, struct report *r)
{
	for (size_t i = 0; i < r->n_gpus; i++)
		for (int id = 0; id < CHECK_COUNT; id++)
			if (comparable(r->gpus[i].checks[id]) &&
				thresholds_is_rate((enum check_id)id))
				compare(t, r, i, (enum check_id)id);
}
