/* SPDX-License-Identifier: Apache-2.0 */
/* probe: does every multiprocessor compute right? Chains of arithmetic whose every bit is known: each lane's chain runs twice, on
 * different multiprocessors, all results are compared with each other, and a sample with the CPU. */
#include <inttypes.h>
#include <stdlib.h>

#include "probe/checks_impl.h"
#include "probe/kernels/exact.h"

#define WARP 32
#define STEPS_32 65536
#define STEPS_64 4096
#define STEPS_TENSOR 8192
/* Chains that the CPU computes, too. A permanently wrong unit agrees with itself, but not with these. */
#define SAMPLE 96
/* A chain that came out wrong is run so often in all. */
#define RUNS 3

struct exact {
	struct check_world *w;
	struct check_result *r;
	const char *kernel;
	uint32_t steps, fold;
	unsigned blocks;
	uint32_t chains;
	struct kernel_chain *out;       /* on the GPU */
	struct kernel_chain *run[RUNS]; /* of each run, on the host */
	bool *seen;                     /* multiprocessors, by number */
	size_t n_seen;
};

static uint64_t on_cpu(const struct exact *e, uint32_t chain)
{
	uint64_t seed = e->w->job->seed;

	switch ((unsigned)e->r->id) {
	case CHECK_EXACT_FP32:
		return exact_fma32(chain, e->steps, e->fold, seed);
	case CHECK_EXACT_FP64:
		return exact_fma64(chain, e->steps, e->fold, seed);
	default:
		return exact_mma16(chain, e->steps, e->fold, seed);
	}
}

/* Kernel, length and number of chains, by the kind of arithmetic. */
static void prepare(struct exact *e)
{
	e->blocks = grid_of(e->w);
	e->chains = e->blocks * KERNEL_THREADS;
	e->fold = EXACT_FOLD_CHECK;
	if (e->r->id == CHECK_EXACT_FP32) {
		e->kernel = "gp_fma32";
		e->steps = STEPS_32;
	} else if (e->r->id == CHECK_EXACT_FP64) {
		e->kernel = "gp_fma64";
		e->steps = STEPS_64;
	} else {
		e->kernel = "gp_mma16";
		e->steps = STEPS_TENSOR;
		e->fold = EXACT_MMA_FOLD_MAX;
		e->chains /= WARP;
	}
}

/* One run of all chains, block b doing the work of block b + shift. */
static bool run_chains(struct exact *e, unsigned run, uint32_t shift)
{
	struct check_world *w = e->w;
	size_t bytes = e->chains * sizeof(struct kernel_chain);
	uint64_t seed = w->job->seed;
	void *out = e->out;
	void *args[] = {&e->steps, &e->fold, &seed, &shift, &out};

	return cuda_ok(w, e->r, w->rt->mem_set(out, 0, bytes, w->stream), "cudaMemsetAsync") &&
	       launch(w, e->r, e->kernel, e->blocks, args) && finish(w, e->r) &&
	       cuda_ok(w, e->r,
		       w->rt->mem_copy(e->run[run], out, bytes, RT_DEVICE_TO_HOST, w->stream),
		       "cudaMemcpyAsync") &&
	       finish(w, e->r);
}

static void note_sms(struct exact *e, const struct kernel_chain *run)
{
	for (uint32_t i = 0; i < e->chains; i++) {
		uint32_t sm = run[i].sm;

		if (sm < e->n_seen && !e->seen[sm]) {
			e->seen[sm] = true;
			e->r->sms_visited++;
		}
	}
}

/* A chain whose runs differ, or that the CPU computes otherwise. */
static void note_wrong(struct exact *e, uint32_t chain, uint64_t expected)
{
	struct check_result *r = e->r;
	struct compute_error error = {.lane = chain, .expected = expected};

	r->errors++;
	for (unsigned i = 0; i < RUNS; i++) {
		if (e->run[i][chain].sum == expected)
			continue;
		if (error.repeats++ == 0) {
			error.got = e->run[i][chain].sum;
			error.sm = e->run[i][chain].sm;
		}
	}
	if (r->n_compute < CHECK_RECORDS_MAX)
		r->compute[r->n_compute++] = error;
}

static bool in_sample(const struct exact *e, uint32_t chain)
{
	uint32_t every = e->chains > SAMPLE ? e->chains / SAMPLE : 1;

	return chain % every == 0;
}

static void compare_runs(struct exact *e)
{
	for (uint32_t i = 0; i < e->chains; i++) {
		uint64_t first = e->run[0][i].sum;
		bool same = e->run[1][i].sum == first && e->run[2][i].sum == first;

		if (same && !in_sample(e, i))
			continue;
		uint64_t expected = on_cpu(e, i);

		if (!same || first != expected)
			note_wrong(e, i, expected);
		if (e->r->errors > 4096)
			return; /* enough to know; the CPU is slow */
	}
}

static void judge(struct exact *e)
{
	struct check_result *r = e->r;

	if (r->errors > 0)
		check_fail(r, CODE_COMPUTE_ERRORS,
			"%" PRId64 " of %u chains of exact arithmetic came out wrong, the first on "
			"multiprocessor %u",
			r->errors, e->chains, r->compute[0].sm);
	else if (r->sms_visited < r->sms_total)
		check_error(r, CODE_SMS_MISSED, "%d of %d multiprocessors were reached",
			r->sms_visited, r->sms_total);
	else
		check_pass(r);
}

/* For tests on real GPUs: one lane's result of the first run is changed where it stands. */
static void plant(struct exact *e)
{
	if (e->w->job->plant == 2 && e->r->id == CHECK_EXACT_FP32)
		e->run[0][e->chains / 2].sum ^= 1ull << 40;
}

static bool run_all(struct exact *e)
{
	struct check_world *w = e->w;
	/* no block meets the multiprocessor again that it had in the run before, as far as blocks go out in turn */
	const uint32_t shifts[RUNS] = {
		0, (uint32_t)w->gpu->sm_count / 2 + 1, (uint32_t)w->gpu->sm_count / 3 + 1};

	for (unsigned i = 0; i < RUNS; i++) {
		if (!run_chains(e, i, shifts[i] % e->blocks))
			return false;
		note_sms(e, e->run[i]);
	}
	plant(e);
	compare_runs(e);
	judge(e);
	return true;
}

bool check_exact(struct check_world *w, struct check_result *r)
{
	struct exact e = {.w = w, .r = r};
	void *out = NULL;
	bool memory = true;

	if (r->id == CHECK_EXACT_TENSOR && w->gpu->cc_major < 7) {
		check_skip(r, "not_on_this_gpu");
		return true;
	}
	prepare(&e);
	w->within(w->arg, 60);
	r->sms_total = w->gpu->sm_count;
	r->sms_visited = 0;
	r->errors = 0;
	e.n_seen = w->gpu->sm_count > 0 ? (size_t)w->gpu->sm_count : 0;
	e.seen = calloc(e.n_seen + 1, sizeof(*e.seen));
	for (unsigned i = 0; i < RUNS; i++) {
		e.run[i] = calloc(e.chains, sizeof(*e.run[i]));
		memory = memory && e.run[i];
	}
	if (!memory || !e.seen)
		check_error(r, CODE_OUT_OF_MEMORY, "no memory on the host");
	else if (cuda_ok(w, r, w->rt->mem_alloc(&out, e.chains * sizeof(*e.out)), "cudaMalloc")) {
		e.out = out;
		(void)run_all(&e);
		if (cuda_usable(r))
			(void)w->rt->mem_free(out);
	}
	for (unsigned i = 0; i < RUNS; i++)
		free(e.run[i]);
	free(e.seen);
	return cuda_usable(r);
}

bool check_shared_memory(struct check_world *w, struct check_result *r)
{
	unsigned blocks = grid_of(w);
	uint32_t rounds = 16;
	uint64_t seed = w->job->seed;
	struct kernel_findings f;
	void *found = NULL, *sms = NULL;
	void *args[] = {&rounds, &seed, &found, &sms};

	if (cuda_ok(w, r, w->rt->mem_alloc(&found, sizeof(f)), "cudaMalloc") &&
		cuda_ok(w, r, w->rt->mem_alloc(&sms, blocks * sizeof(uint32_t)), "cudaMalloc") &&
		cuda_ok(w, r, w->rt->mem_set(found, 0, sizeof(f), w->stream), "cudaMemsetAsync") &&
		launch(w, r, "gp_smem", blocks, args) && finish(w, r) &&
		read_findings(w, r, found, &f)) {
		r->errors = (int64_t)f.wrong_cells;
		r->bytes_tested = (int64_t)blocks * KERNEL_SHARED_BYTES;
		if (f.wrong_cells > 0)
			check_fail(r, CODE_MEMORY_ERRORS,
				"%" PRIu64 " cells of shared memory did not keep what was written",
				f.wrong_cells);
		else
			check_pass(r);
	}
	if (cuda_usable(r)) {
		if (found)
			(void)w->rt->mem_free(found);
		if (sms)
			(void)w->rt->mem_free(sms);
	}
	return cuda_usable(r);
}
