/* SPDX-License-Identifier: Apache-2.0 */
/* probe: how fast are memory, host link and arithmetic? Medians of a few runs, timed by the GPU's own events; only the round trip is
 * timed by the host's clock. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "probe/checks_impl.h"
#include "probe/kernels/exact.h"

#define WARP 32
#define RUNS 5
#define TRIES 3
/* A buffer must be far larger than the L2 cache. */
#define BUFFER_BYTES (2ull << 30)
#define BUFFER_LEAST (64ull << 20)
#define LINK_BYTES (64ull << 20)
#define LINK_REMOTE_BYTES (16ull << 20)
#define ROUND_TRIPS 20
#define RATE_STEPS_32 65536
#define RATE_STEPS_64 4096
#define RATE_STEPS_TENSOR 16384

/* ---- memory ---- */

struct stream_run {
	void *from, *to, *sink;
	uint64_t cells;
};

static bool start_memory(struct check_world *w, struct check_result *r, void *arg)
{
	struct stream_run *run = arg;
	uint64_t value = 0x5bd1e995a5a5c3c3ull;
	void *read_args[] = {&run->from, &run->cells, &run->sink};
	void *write_args[] = {&run->to, &run->cells, &value};
	void *copy_args[] = {&run->to, &run->from, &run->cells};

	switch ((unsigned)r->id) {
	case CHECK_MEM_READ:
		return launch(w, r, "gp_read", grid_of(w), read_args);
	case CHECK_MEM_WRITE:
		return launch(w, r, "gp_write", grid_of(w), write_args);
	default:
		return launch(w, r, "gp_copy", grid_of(w), copy_args);
	}
}

/* Never timed on zeros: data that does not change draws less power and runs faster. */
static bool fill_buffer(struct check_world *w, struct check_result *r, void *at, uint64_t cells)
{
	uint64_t first = 0, seed = w->job->seed, invert = 0;
	void *args[] = {&at, &first, &cells, &seed, &invert};

	return launch(w, r, "gp_fill", grid_of(w), args) && finish(w, r);
}

/* Measure `amount` of work and judge its rate, up to three times: one slow measurement is no proof, and the best one counts. */
static bool measure(struct check_world *w, struct check_result *r, double amount, const char *unit,
	bool (*start)(struct check_world *, struct check_result *, void *), void *arg)
{
	double best = 0, seconds;

	for (int i = 0; i < TRIES; i++) {
		if (!median_time(w, r, RUNS, start, arg, &seconds))
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
	}
	return true;
}

bool check_mem_rate(struct check_world *w, struct check_result *r)
{
	struct stream_run run = {0};
	uint64_t bytes = BUFFER_BYTES, available = (uint64_t)w->gpu->memory_free_bytes;

	if (w->job->busy) {
		check_skip(r, "busy");
		return true;
	}
	while (bytes > available / 4)
		bytes /= 2;
	if (bytes < BUFFER_LEAST ||
		(w->gpu->l2_bytes > 0 && bytes < 4 * (uint64_t)w->gpu->l2_bytes)) {
		check_error(r, CODE_OUT_OF_MEMORY, "too little free memory to measure its speed");
		return true;
	}
	run.cells = bytes / sizeof(struct kernel_cell);
	if (cuda_ok(w, r, w->rt->mem_alloc(&run.from, bytes), "cudaMalloc") &&
		cuda_ok(w, r, w->rt->mem_alloc(&run.to, bytes), "cudaMalloc") &&
		cuda_ok(w, r, w->rt->mem_alloc(&run.sink, sizeof(uint64_t)), "cudaMalloc") &&
		fill_buffer(w, r, run.from, run.cells))
		(void)measure(w, r, (double)bytes * (r->id == CHECK_MEM_COPY ? 2 : 1), "B/s",
			start_memory, &run);
	if (cuda_usable(r)) {
		void *all[] = {run.from, run.to, run.sink};

		for (size_t i = 0; i < 3; i++)
			if (all[i])
				(void)w->rt->mem_free(all[i]);
	}
	return cuda_usable(r);
}

/* ---- the host's link ---- */

struct link_run {
	void *host, *device;
	uint64_t bytes;
	bool up; /* to the GPU */
};

static bool start_copy(struct check_world *w, struct check_result *r, void *arg)
{
	struct link_run *run = arg;
	void *to = run->up ? run->device : run->host, *from = run->up ? run->host : run->device;

	return cuda_ok(w, r,
		w->rt->mem_copy(to, from, run->bytes,
			run->up ? RT_HOST_TO_DEVICE : RT_DEVICE_TO_HOST, w->stream),
		"cudaMemcpyAsync");
}

bool check_link_rate(struct check_world *w, struct check_result *r)
{
	struct link_run run = {
		.up = r->id != CHECK_D2H, .bytes = w->job->remote ? LINK_REMOTE_BYTES : LINK_BYTES};
	void *pageable = NULL, *pinned = NULL;

	if (w->job->busy) {
		check_skip(r, "busy");
		return true;
	}
	/* a remote-GPU client may have no pinned memory to offer */
	if (w->rt->host_alloc(&pinned, run.bytes) != RT_SUCCESS) {
		(void)w->rt->last_error();
		pinned = NULL;
		pageable = malloc(run.bytes);
	}
	run.host = pinned ? pinned : pageable;
	w->within(w->arg, 60);
	if (!run.host) {
		check_error(r, CODE_OUT_OF_MEMORY, "no memory on the host");
	} else if (cuda_ok(w, r, w->rt->mem_alloc(&run.device, run.bytes), "cudaMalloc")) {
		memset(run.host, 0x5a, run.bytes);
		/* by a reference, if there is one; against the link by the parent, who knows it */
		(void)measure(w, r, (double)run.bytes, "B/s", start_copy, &run);
		if (cuda_usable(r))
			(void)w->rt->mem_free(run.device);
	}
	free(pageable);
	if (pinned && cuda_usable(r))
		(void)w->rt->host_free(pinned);
	return cuda_usable(r);
}

/* ---- arithmetic ---- */

struct flop_run {
	const char *kernel;
	uint32_t steps, fold;
	void *out;
};

static bool start_chains(struct check_world *w, struct check_result *r, void *arg)
{
	struct flop_run *run = arg;
	uint64_t seed = w->job->seed;
	uint32_t shift = 0;
	void *args[] = {&run->steps, &run->fold, &seed, &shift, &run->out};

	return launch(w, r, run->kernel, grid_of(w), args);
}

bool check_flop_rate(struct check_world *w, struct check_result *r)
{
	struct flop_run run = {"gp_fma32", RATE_STEPS_32, EXACT_FOLD_RATE, NULL};
	size_t chains = (size_t)grid_of(w) * KERNEL_THREADS;
	double each = EXACT_FMA_FLOPS;

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
		run.steps = RATE_STEPS_64;
	} else if (r->id == CHECK_TENSOR_RATE) {
		run = (struct flop_run){"gp_mma16", RATE_STEPS_TENSOR, EXACT_MMA_FOLD_MAX, NULL};
		chains /= WARP;
		each = EXACT_MMA_FLOPS;
	}
	w->within(w->arg, 60);
	if (cuda_ok(w, r, w->rt->mem_alloc(&run.out, chains * sizeof(struct kernel_chain)),
		    "cudaMalloc")) {
		(void)measure(
			w, r, (double)chains * run.steps * each, "FLOP/s", start_chains, &run);
		if (cuda_usable(r))
			(void)w->rt->mem_free(run.out);
	}
	return cuda_usable(r);
}

/* ---- the way there and back ---- */

bool check_round_trip(struct check_world *w, struct check_result *r)
{
	double least = (double)INFINITY;

	for (int i = 0; i < ROUND_TRIPS; i++) {
		double began = clock_s();

		if (!launch(w, r, "gp_nop", 1, NULL) || !finish(w, r))
			return cuda_usable(r);
		least = fmin(least, clock_s() - began);
	}
	r->value = least;
	r->unit = "s";
	check_pass(r);
	return true;
}
