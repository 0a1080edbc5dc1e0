/* SPDX-License-Identifier: Apache-2.0 */
/* probe: how fast are memory and arithmetic? Medians of a few runs, timed by the GPU's own events.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "probe/check/checks_shared.h"
#include "probe/check/exact_cpu.h"
#include "probe/kernels/exact.h"
#include "probe/result/evidence.h"

#define WARP 32
#define TRIES 3
/* From one try to the next: what a process leaves behind that ends meanwhile is cleared by then. */
#define TRY_AGAIN_S 0.25
/* A buffer must be far larger than the L2 cache: one that kept all it can would lend a rate an
 * eighth. */
#define BUFFER_BYTES (2ull << 30)
#define BUFFER_LEAST (64ull << 20)
#define L2_TIMES 8
/* Some drivers clear what was freed afterwards, and slow down whoever uses the memory meanwhile: an
 * H100's at 400 GiB a second, the slowest thing here. */
#define CLEARED_RATE (100.0 * (1ull << 30))
#define RATE_STEPS_32 65536
#define RATE_STEPS_64 4096
#define RATE_STEPS_TENSOR 16384

static void nap(double seconds)
{
	struct timespec t = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};

	while (nanosleep(&t, &t) != 0 && errno == EINTR)
		;
}

/* One slow measurement is no proof, and the best one counts. */
bool measure_rate(struct check_world *w, struct check_result *r, double amount, const char *unit,
	const struct timed *timed)
{
	double best = 0, seconds;

	for (int i = 0; i < TRIES; i++) {
		if (!median_time(w, r, timed, &seconds))
			return false;
		if (i > 0 && amount / seconds < best)
			seconds = amount / best;
		r->value = best = amount / seconds;
		r->unit = unit;
		r->basis = BASIS_NONE;
		if (w->job->profile != PROFILE_VERIFY_REMOTE)
			thresholds_expect(w->thresholds, w->gpu, r);
		else
			r->fail_above = thresholds_most(w->gpu, r->id);
		check_judge_rate(r);
		if (r->code != CODE_SLOW || w->stopped(w->arg))
			break;
		if (i + 1 < TRIES)
			nap(TRY_AGAIN_S);
	}
	return true;
}

/* ---- memory ---- */

struct stream_run {
	void *from, *to, *found;
	uint64_t cells;
	uint64_t launches;
	struct work work, proof; /* of the timed kernel, and of what prepares and checks it */
};

static bool start_memory(struct check_world *w, struct check_result *r, void *arg)
{
	struct stream_run *run = arg;
	uint64_t first = 0, seed = w->seed, flip = 0;
	uint32_t shift = 0;
	void *read_args[] = {&run->from, &run->cells, &run->work.at};
	void *write_args[] = {
		&run->to, &first, &run->cells, &seed, &flip, &flip, &shift, &run->work.at};
	void *copy_args[] = {&run->to, &run->from, &run->cells, &run->work.at};

	work_add(&run->work, run->cells, 0);
	run->launches++;
	switch ((unsigned)r->id) {
	case CHECK_MEM_READ:
		return launch(w, r, "gp_read", run->work.blocks, read_args);
	case CHECK_MEM_WRITE:
		return launch(w, r, "gp_fill", run->work.blocks, write_args);
	default:
		return launch(w, r, "gp_copy", run->work.blocks, copy_args);
	}
}

/* Take what is needed. Never timed on zeros: data that does not change draws less power and runs
 * faster. */
static bool prepare_memory(struct check_world *w, struct check_result *r, struct stream_run *run)
{
	size_t bytes = run->cells * sizeof(struct kernel_cell);
	bool reads = r->id != CHECK_MEM_WRITE, writes = r->id != CHECK_MEM_READ;

	return work_init(w, r, &run->work) && work_init(w, r, &run->proof) &&
	       begin_findings(w, r, &run->found) &&
	       (!reads || (cuda_ok(w, r, w->rt->mem_alloc(&run->from, bytes), "cudaMalloc") &&
				  fill_cells(w, r, run->from, run->cells, w->seed, &run->proof))) &&
	       (!writes || (cuda_ok(w, r, w->rt->mem_alloc(&run->to, bytes), "cudaMalloc") &&
				   cuda_ok(w, r, w->rt->mem_set(run->to, 0, bytes, w->stream),
					   "cudaMemsetAsync")));
}

/* Was all of it read, or written, as it should be? The rate of what was not done is no rate. */
static void prove_memory(struct check_world *w, struct check_result *r, struct stream_run *run)
{
	bool read = r->id == CHECK_MEM_READ;
	struct kernel_findings f;
	uint32_t block;

	/* what was written is checked by other blocks; what was read by the same, whose sums are
	 * then the same */
	if (!check_cells(w, r, read ? run->from : run->to, run->cells, w->seed, read ? 0 : 1,
		    run->found, &run->proof) ||
		!work_read(w, r, &run->work) || !work_read(w, r, &run->proof) ||
		!read_findings(w, r, run->found, &f))
		return;
	if (evidence_wrong_cells(&f) > 0) {
		r->errors = (int64_t)evidence_wrong_cells(&f);
		evidence_keep(r, &f);
		check_fail(r, CODE_MEMORY_ERRORS,
			"%" PRIu64 " cells of 16 bytes were not what was written",
			evidence_wrong_cells(&f));
	}
	if (!work_complete(&run->proof, r, "gp_fill and gp_check") ||
		!work_complete(&run->work, r, "the timed kernel") || !read)
		return;
	block = evidence_misread_block(
		run->work.got, run->proof.got, run->work.blocks, run->launches);
	if (block < run->work.blocks)
		check_fail(r, CODE_WORK_MISSING,
			"block %" PRIu32 " of gp_read did not read what stands in memory", block);
}

bool check_mem_rate(struct check_world *w, struct check_result *r)
{
	struct stream_run run = {0};
	const struct timed timed = {start_memory, NULL, &run};
	uint64_t bytes = BUFFER_BYTES, available = (uint64_t)w->gpu->memory_free_bytes;

	if (w->job->busy) {
		check_skip(r, "busy");
		return true;
	}
	while (bytes > available / 4)
		bytes /= 2;
	if (bytes < BUFFER_LEAST ||
		(w->gpu->l2_bytes > 0 && bytes < L2_TIMES * (uint64_t)w->gpu->l2_bytes)) {
		check_error(r, CODE_OUT_OF_MEMORY, "too little free memory to measure its speed");
		return true;
	}
	run.cells = bytes / sizeof(struct kernel_cell);
	if (prepare_memory(w, r, &run) &&
		measure_rate(
			w, r, (double)bytes * (r->id == CHECK_MEM_COPY ? 2 : 1), "B/s", &timed))
		prove_memory(w, r, &run);
	if (cuda_usable(r)) {
		void *all[] = {run.from, run.to, run.found};

		for (size_t i = 0; i < 3; i++)
			if (all[i])
				(void)w->rt->mem_free(all[i]);
	}
	work_release(w, r, &run.work);
	work_release(w, r, &run.proof);
	nap(2 * (double)bytes / CLEARED_RATE);
	return cuda_usable(r);
}

/* ---- arithmetic ---- */

struct flop_run {
	const char *kernel;
	enum exact_kind how;
	uint32_t steps, fold, each; /* each: chains of a block */
	uint32_t chains, launches;
	void *out;
};

static bool start_chains(struct check_world *w, struct check_result *r, void *arg)
{
	struct flop_run *run = arg;
	uint64_t seed = w->seed;
	uint32_t none = 0;
	void *args[] = {&run->steps, &run->fold, &seed, &none, &none, &run->out};

	run->launches++;
	return launch(w, r, run->kernel, grid_of(w), args);
}

/* How many chains are not what they should be, or were not computed as often as they were launched.
 */
static uint32_t count_wrong(const struct check_world *w, const struct flop_run *run,
	const struct kernel_chain *all, uint32_t *sample, uint64_t *sums)
{
	uint32_t wrong = 0;
	size_t n = 0;

	for (uint32_t i = 0; i < run->chains; i++) {
		if (all[i].runs != run->launches)
			wrong++;
		else if (evidence_in_sample(i, run->each, (uint32_t)w->gpu->sm_count))
			sample[n++] = i;
	}
	exact_cpu_chains(run->how, sample, n, run->steps, run->fold, w->seed, sums);
	for (size_t i = 0; i < n; i++)
		wrong += all[sample[i]].sum != sums[i];
	return wrong;
}

/* The rate of what was not computed, or not right, is no rate. */
static void prove_chains(struct check_world *w, struct check_result *r, struct flop_run *run)
{
	struct kernel_chain *all = calloc(run->chains, sizeof(*all));
	uint32_t *sample = calloc(run->chains, sizeof(*sample)), wrong;
	uint64_t *sums = calloc(run->chains, sizeof(*sums));

	if (!all || !sample || !sums) {
		check_error(r, CODE_OUT_OF_MEMORY, "no memory on the host");
	} else if (cuda_ok(w, r,
			   w->rt->mem_copy(all, run->out, run->chains * sizeof(*all),
				   RT_DEVICE_TO_HOST, w->stream),
			   "cudaMemcpyAsync") &&
		   finish(w, r)) {
		wrong = count_wrong(w, run, all, sample, sums);
		if (wrong > 0)
			check_fail(r, CODE_WORK_MISSING,
				"%" PRIu32 " of %" PRIu32
				" timed chains were not computed, or wrong",
				wrong, run->chains);
	}
	free(all);
	free(sample);
	free(sums);
}

bool check_flop_rate(struct check_world *w, struct check_result *r)
{
	struct flop_run run = {.kernel = "gp_fma32",
		.how = EXACT_FP32,
		.steps = RATE_STEPS_32,
		.fold = EXACT_FOLD_RATE,
		.each = KERNEL_THREADS};
	const struct timed timed = {start_chains, NULL, &run};
	double each = EXACT_FMA_FLOPS;
	size_t bytes;

	if (w->job->busy) {
		check_skip(r, "busy");
		return true;
	}
	if (r->id == CHECK_TENSOR_RATE && w->gpu->cc_major < 7) {
		check_skip(r, "not_on_this_gpu");
		return true;
	}
	if (r->id == CHECK_FP64_RATE) {
		run.kernel = "gp_fma64";
		run.how = EXACT_FP64;
		run.steps = RATE_STEPS_64;
	} else if (r->id == CHECK_TENSOR_RATE) {
		run = (struct flop_run){.kernel = "gp_mma16",
			.how = EXACT_TENSOR,
			.steps = RATE_STEPS_TENSOR,
			.fold = EXACT_MMA_FOLD_RATE,
			.each = KERNEL_THREADS / WARP};
		each = EXACT_MMA_FLOPS;
	}
	run.chains = grid_of(w) * run.each;
	bytes = run.chains * sizeof(struct kernel_chain);
	w->within(w->arg, 60);
	if (cuda_ok(w, r, w->rt->mem_alloc(&run.out, bytes), "cudaMalloc")) {
		if (cuda_ok(w, r, w->rt->mem_set(run.out, 0, bytes, w->stream),
			    "cudaMemsetAsync") &&
			measure_rate(w, r, (double)run.chains * run.steps * each, "FLOP/s", &timed))
			prove_chains(w, r, &run);
		if (cuda_usable(r))
			(void)w->rt->mem_free(run.out);
	}
	return cuda_usable(r);
}
