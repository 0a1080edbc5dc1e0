/* SPDX-License-Identifier: Apache-2.0 */
/* probe: does every multiprocessor compute right? Chains of arithmetic whose every bit is known:
 * each chain runs three times, in other lanes, warps, partitions and multiprocessors each time. All
 * results are compared with each other, and a sample with the CPU. */
#include <inttypes.h>
#include <stdlib.h>

#include "probe/check/checks_shared.h"
#include "probe/check/exact_cpu.h"
#include "probe/kernels/exact.h"
#include "probe/result/evidence.h"

#define WARP 32
#define STEPS_32 65536
#define STEPS_64 4096
#define STEPS_TENSOR 4096
/* A chain is run so often in all. */
#define RUNS 3
/* Chains that the CPU computes at once. */
#define AT_ONCE 256
/* Wrong ones after which the rest is not looked at. */
#define ENOUGH 4096

struct exact {
	struct check_world *w;
	struct check_result *r;
	const char *kernel;
	enum exact_kind how;
	uint32_t steps, fold;
	unsigned blocks;
	uint32_t each, chains;          /* of a block, of all */
	struct kernel_chain *out;       /* on the GPU */
	struct kernel_chain *run[RUNS]; /* of each run, on the host */
	uint32_t shift[RUNS], turn[RUNS];
	bool *seen; /* multiprocessors, by number */
	size_t n_seen;
};

/* Kernel, length and number of chains, by the kind of arithmetic. */
static void prepare(struct exact *e)
{
	e->blocks = grid_of(e->w);
	e->each = KERNEL_THREADS;
	e->fold = EXACT_FOLD_CHECK;
	if (e->r->id == CHECK_EXACT_FP32) {
		e->kernel = "gp_fma32";
		e->how = EXACT_FP32;
		e->steps = STEPS_32;
	} else if (e->r->id == CHECK_EXACT_FP64) {
		e->kernel = "gp_fma64";
		e->how = EXACT_FP64;
		e->steps = STEPS_64;
	} else {
		e->kernel = "gp_mma16";
		e->how = EXACT_TENSOR;
		e->steps = STEPS_TENSOR;
		e->fold = EXACT_MMA_FOLD_CHECK;
		e->each /= WARP;
	}
	e->chains = e->blocks * e->each;
}

/* One run of all chains, block b doing the work of block b + its shift, and thread t that of t +
 * its turn. */
static bool run_chains(struct exact *e, unsigned run)
{
	struct check_world *w = e->w;
	size_t bytes = e->chains * sizeof(struct kernel_chain);
	uint64_t seed = w->seed;
	void *out = e->out;
	void *args[] = {&e->steps, &e->fold, &seed, &e->shift[run], &e->turn[run], &out};

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

/* The lane or warp, counted over the grid, that had the chain in this run. */
static uint32_t who_ran(const struct exact *e, uint32_t chain, unsigned run)
{
	uint32_t block = (chain / e->each + e->blocks - e->shift[run]) % e->blocks;

	return block * e->each + (chain % e->each + e->each - e->turn[run]) % e->each;
}

/* A chain whose runs differ, or that the CPU computes otherwise. */
static void note_wrong(struct exact *e, uint32_t chain, uint64_t expected)
{
	struct check_result *r = e->r;
	struct compute_error error = {.expected = expected};

	r->errors++;
	for (unsigned i = 0; i < RUNS; i++) {
		if (e->run[i][chain].sum == expected)
			continue;
		if (error.repeats++ == 0) {
			error.got = e->run[i][chain].sum;
			error.sm = e->run[i][chain].sm;
			error.lane = who_ran(e, chain, i);
		}
	}
	if (r->n_compute < CHECK_RECORDS_MAX)
		r->compute[r->n_compute++] = error;
}

/* Chains that did not run once in each run, by their own count. */
static uint32_t count_missing(const struct exact *e)
{
	uint32_t missing = 0;

	for (uint32_t i = 0; i < e->chains; i++) {
		bool all = true;

		for (unsigned run = 0; run < RUNS; run++)
			all = all && e->run[run][i].runs == 1;
		missing += !all;
	}
	return missing;
}

/* Compare these chains with the CPU. */
static void compare_some(struct exact *e, const uint32_t *chains, size_t n)
{
	uint64_t expected[AT_ONCE];

	exact_cpu_chains(e->how, chains, n, e->steps, e->fold, e->w->seed, expected);
	for (size_t i = 0; i < n; i++) {
		bool right = true;

		for (unsigned run = 0; run < RUNS; run++)
			right = right && e->run[run][chains[i]].sum == expected[i];
		if (!right)
			note_wrong(e, chains[i], expected[i]);
	}
}

/* Those of the sample, and those whose runs differ. */
static void compare_runs(struct exact *e)
{
	uint32_t some[AT_ONCE];
	size_t n = 0;

	for (uint32_t i = 0; i < e->chains && e->r->errors <= ENOUGH; i++) {
		uint64_t first = e->run[0][i].sum;
		bool same = e->run[1][i].sum == first && e->run[2][i].sum == first;

		if (!same || evidence_in_sample(i, e->each, (uint32_t)e->n_seen))
			some[n++] = i;
		if (n == AT_ONCE || (n > 0 && i + 1 == e->chains)) {
			compare_some(e, some, n);
			n = 0;
		}
	}
}

static void judge(struct exact *e)
{
	struct check_result *r = e->r;
	uint32_t missing = count_missing(e);

	if (missing > 0)
		check_fail(r, CODE_WORK_MISSING,
			"%" PRIu32 " of %" PRIu32 " chains of exact arithmetic did not run in each "
			"of %d runs",
			missing, e->chains, RUNS);
	else if (r->errors > 0)
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
	/* on a GPU that deals its blocks out in turn no chain meets a multiprocessor again, as far
	 * as there are others; the turns of threads are by one warp and 11 lanes, and by two and 23
	 */
	const uint32_t sms = (uint32_t)w->gpu->sm_count;
	const uint32_t shifts[RUNS] = {0, (sms + 1) / 2, 1};
	const uint32_t turns[RUNS] = {0, WARP + 11, 2 * WARP + 23};

	for (unsigned i = 0; i < RUNS; i++) {
		e->shift[i] = shifts[i] % e->blocks;
		e->turn[i] = e->each == KERNEL_THREADS ? turns[i] : i;
		if (!run_chains(e, i))
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

/* What the blocks of gp_smem have left. Distinct memory is that of distinct multiprocessors: what
 * several blocks of one had may be the same. */
static void judge_shared_memory(struct check_world *w, struct check_result *r,
	const struct kernel_findings *f, const struct work *k, const uint32_t *sms)
{
	uint64_t wrong = evidence_wrong_cells(f);

	r->sms_total = w->gpu->sm_count;
	r->sms_visited = 0;
	for (uint32_t b = 0; b < k->blocks; b++) {
		bool seen = (int64_t)sms[b] >= w->gpu->sm_count;

		for (uint32_t i = 0; i < b && !seen; i++)
			seen = sms[i] == sms[b];
		r->sms_visited += !seen;
	}
	r->errors = (int64_t)wrong;
	r->bytes_tested = (int64_t)r->sms_visited * KERNEL_SHARED_BYTES;
	if (wrong > 0) {
		check_fail(r, CODE_MEMORY_ERRORS,
			"%" PRIu64 " cells of shared memory did not keep what was written", wrong);
	} else if (!work_complete(k, r, "gp_smem")) {
		r->errors = -1;
	} else if (r->sms_visited < r->sms_total) {
		check_error(r, CODE_SMS_MISSED, "%d of %d multiprocessors were reached",
			r->sms_visited, r->sms_total);
	} else {
		check_pass(r);
	}
}

bool check_shared_memory(struct check_world *w, struct check_result *r)
{
	unsigned blocks = grid_of(w);
	uint32_t rounds = 16, *told = calloc(blocks, sizeof(*told));
	uint64_t seed = w->seed;
	struct kernel_findings f;
	struct work work = {0};
	void *found = NULL, *sms = NULL;
	void *args[] = {&rounds, &seed, &found, &sms, &work.at};

	if (!told) {
		check_error(r, CODE_OUT_OF_MEMORY, "no memory on the host");
		return true;
	}
	if (cuda_ok(w, r, w->rt->mem_alloc(&found, sizeof(f)), "cudaMalloc") &&
		cuda_ok(w, r, w->rt->mem_alloc(&sms, blocks * sizeof(*told)), "cudaMalloc") &&
		cuda_ok(w, r, w->rt->mem_set(found, 0, sizeof(f), w->stream), "cudaMemsetAsync") &&
		work_init(w, r, &work) && launch(w, r, "gp_smem", blocks, args) && finish(w, r) &&
		read_findings(w, r, found, &f) && work_read(w, r, &work) &&
		cuda_ok(w, r,
			w->rt->mem_copy(
				told, sms, blocks * sizeof(*told), RT_DEVICE_TO_HOST, w->stream),
			"cudaMemcpyAsync") &&
		finish(w, r)) {
		work_add_each(
			&work, 2ull * rounds * (KERNEL_SHARED_BYTES / sizeof(struct kernel_cell)));
		judge_shared_memory(w, r, &f, &work, told);
	}
	if (cuda_usable(r)) {
		if (found)
			(void)w->rt->mem_free(found);
		if (sms)
			(void)w->rt->mem_free(sms);
	}
	work_release(w, r, &work);
	free(told);
	return cuda_usable(r);
}
