/* SPDX-License-Identifier: Apache-2.0 */
/* probe: is there as much memory as there should be, and does each cell keep what is written to it?
 * The march test of march.h, over a pattern of addresses, finds stuck bits, coupling, wrong address
 * lines and caches that are not what memory is. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "probe/check/checks_shared.h"
#include "probe/check/march.h"
#include "probe/result/evidence.h"

#define GIB (1ull << 30)
/* One allocation of nearly all memory takes some drivers minutes. */
#define CHUNK_BYTES GIB
#define CHUNKS_MAX 1024
/* What a sweep may take: the slowest memory of any GPU in question, over a hundred times slower
 * than that of today's. */
#define SLOWEST_RATE 5e9
#define SMALL_STEP_S 20.0
#define PAGE_BYTES 65536

/* Shares of memory: of free memory, by profile, and what must have been tested at least. */
#define SHARE_VERIFY 0.90
#define SHARE_REMOTE 0.25
#define SHARE_STRESS 0.95
#define LEAST_VERIFY 0.50
#define LEAST_STRESS 0.75
/* Of what was asked for: with less the user has another test than the one he wanted, and what is
 * said to be free is not. */
#define LEAST_ASKED 0.95
/* In use before anything was allocated. */
#define FREE_WARN 0.95

bool check_free_memory(struct check_world *w, struct check_result *r)
{
	int64_t total = w->gpu->memory_total_bytes, available = w->gpu->memory_free_bytes;

	if (total <= 0 || available < 0 || available > total) {
		check_error(r, CODE_CUDA_ERROR,
			"the GPU says that %" PRId64 " of %" PRId64 " bytes are free", available,
			total);
		return true;
	}
	r->value = (double)available;
	r->expected = (double)total;
	r->ratio = r->value / r->expected;
	r->unit = "B";
	r->warn_below = FREE_WARN;
	if (r->ratio < FREE_WARN && !w->job->remote)
		check_warn(r, CODE_LOW_FREE_MEMORY,
			"%.1f %% of its memory is in use before the test, expected at most %.0f %%",
			100 * (1 - r->ratio), 100 * (1 - FREE_WARN));
	else
		check_pass(r);
	return true;
}

struct chunk {
	void *at;
	uint64_t first, cells;
};

struct sweep {
	struct check_world *w;
	struct check_result *r;
	struct chunk *chunks;
	size_t n;
	uint64_t bytes;
	void *found, *tried; /* findings on the GPU: of the passes, of the trial */
	struct work work;
	uint64_t trial_cells; /* that gp_check had to find wrong, and what it found */
	struct kernel_findings trial;
};

/* What can be had and what is to be had are counted in pages alike. */
static uint64_t whole_pages(uint64_t bytes)
{
	return bytes - bytes % PAGE_BYTES;
}

/* How much is to be tested. Some is always left for others. */
static uint64_t share_of_memory(const struct check_world *w)
{
	uint64_t available = (uint64_t)w->gpu->memory_free_bytes, left = available / 10;
	double share = w->job->memory_share;

	if (w->job->memory_bytes > 0)
		return (uint64_t)w->job->memory_bytes < available ? (uint64_t)w->job->memory_bytes
								  : available;
	if (share > 0)
		return (uint64_t)((double)available * share);
	if (w->job->profile == PROFILE_STRESS)
		return (uint64_t)((double)available * SHARE_STRESS);
	if (w->job->profile == PROFILE_VERIFY_REMOTE)
		return (uint64_t)((double)available * SHARE_REMOTE);
	if (left < GIB)
		left = GIB < available / 2 ? GIB : available / 2;
	return available - left < (uint64_t)((double)available * SHARE_VERIFY)
		       ? available - left
		       : (uint64_t)((double)available * SHARE_VERIFY);
}

/* Less would not tell enough. */
static uint64_t least_bytes(const struct check_world *w, uint64_t wanted)
{
	if (w->job->memory_bytes > 0 || w->job->memory_share > 0 ||
		w->job->profile == PROFILE_VERIFY_REMOTE)
		return (uint64_t)((double)wanted * LEAST_ASKED);
	if (w->job->profile == PROFILE_STRESS)
		return (uint64_t)((double)w->gpu->memory_total_bytes * LEAST_STRESS);
	return (uint64_t)((double)w->gpu->memory_free_bytes * LEAST_VERIFY);
}

/* Chunk by chunk, down to smaller ones near the end, all of whole pages as `wanted` is. What cannot
 * be had is left out. False: the runtime failed otherwise. */
static bool take_memory(struct sweep *s, uint64_t wanted)
{
	uint64_t size = CHUNK_BYTES, least = 16u << 20;

	while (s->bytes < wanted && s->n < CHUNKS_MAX) {
		uint64_t next = wanted - s->bytes < size ? wanted - s->bytes : size;
		struct chunk *c = &s->chunks[s->n];
		int error;

		error = s->w->rt->mem_alloc(&c->at, next);
		if (error == RT_OUT_OF_MEMORY) {
			(void)s->w->rt->last_error();
			if (size <= least)
				break;
			size /= 2;
			continue;
		}
		if (!cuda_ok(s->w, s->r, error, "cudaMalloc"))
			return false;
		c->first = s->bytes / sizeof(struct kernel_cell);
		c->cells = next / sizeof(struct kernel_cell);
		s->bytes += next;
		s->n++;
	}
	return true;
}

/* One pass over one chunk. */
static bool launch_pass(struct sweep *s, struct chunk *c, unsigned pass)
{
	const struct march_element *e = &march[pass];
	struct kernel_cell expect = march_background(e->expect), next = march_background(e->next);
	uint32_t shift = march_shift(pass, s->w->gpu->sm_count), rewrite = e->rewrite,
		 down = e->down;
	uint64_t seed = march_seed(pass, s->w->seed);
	void *fill[] = {
		&c->at, &c->first, &c->cells, &seed, &next.lo, &next.hi, &shift, &s->work.at};
	void *check[] = {&c->at, &c->first, &c->cells, &seed, &expect.lo, &expect.hi, &shift, &down,
		&rewrite, &next.lo, &next.hi, &s->found, &s->work.at};

	work_add(&s->work, c->cells, shift);
	return e->rewrite == MARCH_FILL ? launch(s->w, s->r, "gp_fill", s->work.blocks, fill)
					: launch(s->w, s->r, "gp_check", s->work.blocks, check);
}

static bool make_pass(struct sweep *s, unsigned pass)
{
	for (size_t i = 0; i < s->n; i++)
		if (!launch_pass(s, &s->chunks[march[pass].down ? s->n - 1 - i : i], pass))
			return false;
	return finish(s->w, s->r);
}

/* Does gp_check see what is wrong? It is told to expect the complement of what stands in memory,
 * one tile for each multiprocessor. */
static bool try_check(struct sweep *s)
{
	struct chunk *c = &s->chunks[0];
	uint64_t tiles = (uint64_t)s->work.blocks / BLOCKS_PER_SM * KERNEL_TILE;
	struct kernel_cell left = march_background(march[MARCH_PASSES - 1].next),
			   wrong = {~left.lo, ~left.hi};
	uint32_t none = 0;
	uint64_t seed = march_seed(MARCH_PASSES - 1, s->w->seed);
	void *args[] = {&c->at, &c->first, &s->trial_cells, &seed, &wrong.lo, &wrong.hi, &none,
		&none, &none, &wrong.lo, &wrong.hi, &s->tried, &s->work.at};

	s->trial_cells = c->cells < tiles ? c->cells : tiles;
	work_add(&s->work, s->trial_cells, 0);
	return launch(s->w, s->r, "gp_check", s->work.blocks, args) && finish(s->w, s->r) &&
	       read_findings(s->w, s->r, s->tried, &s->trial);
}

/* For tests on real GPUs: a bit in the middle of the last chunk flips. */
static bool plant(struct sweep *s)
{
	struct chunk *c = &s->chunks[s->n - 1];
	struct kernel_cell *at = (struct kernel_cell *)c->at + c->cells / 2, cell;

	if (!cuda_ok(s->w, s->r,
		    s->w->rt->mem_copy(&cell, at, sizeof(cell), RT_DEVICE_TO_HOST, s->w->stream),
		    "cudaMemcpyAsync") ||
		!finish(s->w, s->r))
		return false;
	cell.lo ^= 1ull << 17;
	return cuda_ok(s->w, s->r,
		       s->w->rt->mem_copy(at, &cell, sizeof(cell), RT_HOST_TO_DEVICE, s->w->stream),
		       "cudaMemcpyAsync") &&
	       finish(s->w, s->r);
}

/* What the kernels found. whole: every sweep was made. wanted: bytes that should have been there to
 * be had. */
static bool judge(struct sweep *s, uint64_t wanted, uint64_t least, bool whole)
{
	struct check_result *r = s->r;
	struct kernel_findings f;

	uint64_t wrong;

	if (!read_findings(s->w, r, s->found, &f) || !work_read(s->w, r, &s->work))
		return false;
	wrong = evidence_wrong_cells(&f);
	r->bytes_tested = (int64_t)s->bytes;
	r->coverage_percent =
		(int)(100.0 * (double)s->bytes / (double)s->w->gpu->memory_total_bytes);
	r->beyond_l2 =
		s->w->gpu->l2_bytes <= 0 ? -1 : s->bytes >= 2 * (uint64_t)s->w->gpu->l2_bytes;
	r->errors = (int64_t)wrong;
	if (wrong > 0) {
		evidence_keep(r, &f);
		check_fail(r, CODE_MEMORY_ERRORS,
			"%" PRIu64 " reads of 16 bytes did not give what was written, the first at "
			"offset %" PRIu64,
			wrong, r->n_memory ? r->memory[0].offset : 0);
	} else if (!work_complete(&s->work, r, "gp_fill and gp_check")) {
		r->errors = -1; /* what was not read was not found wrong */
	} else if (whole && !evidence_all_wrong(&s->trial, s->trial_cells)) {
		check_fail(r, CODE_WORK_MISSING,
			"gp_check had %" PRIu64 " cells to find wrong and told of %" PRIu64
			": it does not see or count what is wrong",
			s->trial_cells, s->trial.wrong_cells);
		r->errors = -1;
	} else if (!whole) {
		check_error(r, CODE_INTERRUPTED, "ended before all was checked");
	} else if (s->bytes < least) {
		check_error(r, CODE_COVERAGE,
			"%.1f GiB could be tested, expected at least %.1f GiB",
			(double)s->bytes / GIB, (double)least / GIB);
	} else if ((double)s->bytes < (double)wanted * LEAST_ASKED && !s->w->job->busy) {
		check_fail(r, CODE_SHORT_ALLOCATION,
			"of %.1f GiB that it called free, %.1f GiB could be had; at least %.0f %% "
			"must be",
			(double)wanted / GIB, (double)s->bytes / GIB, 100 * LEAST_ASKED);
	} else {
		check_pass(r);
	}
	return true;
}

static bool sweep_all(struct sweep *s)
{
	double each = SMALL_STEP_S + 2 * (double)s->bytes / SLOWEST_RATE;
	struct check_world *w = s->w;

	for (unsigned pass = 0; pass < MARCH_PASSES; pass++) {
		char words[64];

		(void)snprintf(
			words, sizeof(words), "memory: pass %u of %d", pass + 1, MARCH_PASSES);
		w->progress(w->arg, 0.1 + 0.8 * pass / MARCH_PASSES, words);
		w->within(w->arg, each);
		if (!make_pass(s, pass) || (pass == 0 && w->job->plant == 1 && !plant(s)))
			return false;
		if (pass + 1 < MARCH_PASSES && w->stopped(w->arg))
			return true;
	}
	return try_check(s);
}

/* Everything is given back, unless the context is lost anyway. */
static void release(struct sweep *s)
{
	if (cuda_usable(s->r)) {
		for (size_t i = 0; i < s->n; i++)
			(void)s->w->rt->mem_free(s->chunks[i].at);
		if (s->found)
			(void)s->w->rt->mem_free(s->found);
		if (s->tried)
			(void)s->w->rt->mem_free(s->tried);
	}
	work_release(s->w, s->r, &s->work);
	free(s->chunks);
}

bool check_mem_pattern(struct check_world *w, struct check_result *r)
{
	struct sweep s = {.w = w, .r = r, .chunks = calloc(CHUNKS_MAX, sizeof(struct chunk))};
	uint64_t wanted = whole_pages(share_of_memory(w)),
		 least = whole_pages(least_bytes(w, wanted));

	if (!s.chunks) {
		check_error(r, CODE_OUT_OF_MEMORY, "no memory on the host");
		return true;
	}
	w->within(w->arg, SMALL_STEP_S + (double)wanted / SLOWEST_RATE);
	if (begin_findings(w, r, &s.found) && begin_findings(w, r, &s.tried) &&
		work_init(w, r, &s.work) && take_memory(&s, wanted)) {
		if (s.n == 0)
			check_error(r, CODE_OUT_OF_MEMORY,
				"no memory could be allocated, %" PRId64 " bytes are free",
				w->gpu->memory_free_bytes);
		else if (sweep_all(&s))
			(void)judge(&s, wanted, least, !w->stopped(w->arg));
	}
	release(&s);
	return cuda_usable(r);
}
