/* SPDX-License-Identifier: Apache-2.0 */
/* probe: is there as much memory as there should be, and does each cell keep what is written to it? Moving inversions with a
 * pattern of addresses: write, check and write the complement, check that. Four sweeps find stuck bits, coupling and wrong
 * address lines. */
#include <inttypes.h>
#include <stdlib.h>

#include "probe/checks_impl.h"
#include "probe/kernels/pattern.h"

#define GIB (1ull << 30)
/* One allocation of nearly all memory takes some drivers minutes. */
#define CHUNK_BYTES GIB
#define CHUNKS_MAX 1024
/* What a sweep may take: the slowest memory of any GPU in question, over a hundred times slower than that of today's. */
#define SLOWEST_RATE 5e9
#define SMALL_STEP_S 20.0
#define PAGE_BYTES 65536

/* Shares of memory: of free memory, by profile, and what must have been tested at least. */
#define SHARE_VERIFY 0.90
#define SHARE_REMOTE 0.25
#define SHARE_STRESS 0.95
#define LEAST_VERIFY 0.50
#define LEAST_STRESS 0.75
/* Of what was asked for: with less the user has another test than the one he wanted, and what is said to be free is not. */
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
	struct kernel_findings *found; /* on the GPU */
};

/* How much is to be tested. Some is always left for others. */
static uint64_t wanted_bytes(const struct check_world *w)
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

/* Chunk by chunk, down to smaller ones near the end. What cannot be had is left out. False: the runtime failed otherwise. */
static bool take_memory(struct sweep *s, uint64_t wanted)
{
	uint64_t size = CHUNK_BYTES, least = 16u << 20;

	while (s->bytes < wanted && s->n < CHUNKS_MAX) {
		uint64_t next = wanted - s->bytes < size ? wanted - s->bytes : size;
		struct chunk *c = &s->chunks[s->n];
		int error;

		next -= next % PAGE_BYTES;
		if (next == 0)
			break;
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

static bool fill(struct sweep *s)
{
	for (size_t i = 0; i < s->n; i++) {
		struct chunk *c = &s->chunks[i];
		uint64_t seed = s->w->job->seed, invert = 0;
		void *args[] = {&c->at, &c->first, &c->cells, &seed, &invert};

		if (!launch(s->w, s->r, "gp_fill", grid_of(s->w), args))
			return false;
	}
	return finish(s->w, s->r);
}

static bool check_all(struct sweep *s, uint64_t invert, uint32_t rewrite)
{
	for (size_t i = 0; i < s->n; i++) {
		struct chunk *c = &s->chunks[i];
		uint64_t seed = s->w->job->seed;
		void *found = s->found;
		void *args[] = {&c->at, &c->first, &c->cells, &seed, &invert, &rewrite, &found};

		if (!launch(s->w, s->r, "gp_check", grid_of(s->w), args))
			return false;
	}
	return finish(s->w, s->r);
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

_Static_assert(KERNEL_MISMATCHES_MAX <= CHECK_RECORDS_MAX, "room for all");

static void keep_records(struct check_result *r, const struct kernel_findings *f)
{
	uint64_t pages[KERNEL_MISMATCHES_MAX];
	unsigned kept = f->kept, n_pages = 0;

	if (kept > KERNEL_MISMATCHES_MAX)
		kept = KERNEL_MISMATCHES_MAX;
	for (unsigned i = 0; i < kept; i++) {
		const struct kernel_mismatch *m = &f->mismatch[i];
		uint64_t page = m->cell * sizeof(struct kernel_cell) / PAGE_BYTES;
		unsigned k = 0;

		r->memory[i] = (struct memory_error){.offset = m->cell * sizeof(struct kernel_cell),
			.expected = {m->expected.lo, m->expected.hi},
			.got = {m->got.lo, m->got.hi},
			.again = {m->again.lo, m->again.hi}};
		while (k < n_pages && pages[k] != page)
			k++;
		if (k == n_pages)
			pages[n_pages++] = page;
	}
	r->n_memory = kept;
	r->bits_0_to_1 = (int64_t)f->bits_0_to_1;
	r->bits_1_to_0 = (int64_t)f->bits_1_to_0;
	if (f->wrong_cells <= kept) /* with more than are kept nobody has counted them */
		r->pages = n_pages;
}

/* What the kernels found. whole: every sweep was made. wanted: bytes that should have been there to be had. */
static bool judge(struct sweep *s, uint64_t wanted, uint64_t least, bool whole)
{
	struct check_result *r = s->r;
	struct kernel_findings f;

	if (!read_findings(s->w, r, s->found, &f))
		return false;
	r->bytes_tested = (int64_t)s->bytes;
	r->coverage_percent =
		(int)(100.0 * (double)s->bytes / (double)s->w->gpu->memory_total_bytes);
	r->errors = (int64_t)f.wrong_cells;
	if (f.wrong_cells > 0) {
		keep_records(r, &f);
		check_fail(r, CODE_MEMORY_ERRORS,
			"%" PRIu64 " cells of 16 bytes did not keep what was written, the first at "
			"offset %" PRIu64,
			f.wrong_cells, r->n_memory ? r->memory[0].offset : 0);
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
	bool ok;

	w->progress(w->arg, 0.1, "memory: write");
	w->within(w->arg, each);
	ok = fill(s) && (w->job->plant != 1 || plant(s));
	if (!ok || w->stopped(w->arg))
		return ok;
	w->progress(w->arg, 0.4, "memory: check, write the complement");
	w->within(w->arg, each);
	ok = check_all(s, 0, 1);
	if (!ok || w->stopped(w->arg))
		return ok;
	w->progress(w->arg, 0.8, "memory: check the complement");
	w->within(w->arg, each);
	return check_all(s, ~0ull, 0);
}

/* Everything is given back, unless the context is lost anyway. */
static void release(struct sweep *s)
{
	if (cuda_usable(s->r)) {
		for (size_t i = 0; i < s->n; i++)
			(void)s->w->rt->mem_free(s->chunks[i].at);
		if (s->found)
			(void)s->w->rt->mem_free(s->found);
	}
	free(s->chunks);
}

bool check_mem_pattern(struct check_world *w, struct check_result *r)
{
	struct sweep s = {.w = w, .r = r, .chunks = calloc(CHUNKS_MAX, sizeof(struct chunk))};
	uint64_t wanted = wanted_bytes(w), least = least_bytes(w, wanted);
	void *found = NULL;

	if (!s.chunks) {
		check_error(r, CODE_OUT_OF_MEMORY, "no memory on the host");
		return true;
	}
	w->within(w->arg, SMALL_STEP_S + (double)wanted / SLOWEST_RATE);
	if (cuda_ok(w, r, w->rt->mem_alloc(&found, sizeof(*s.found)), "cudaMalloc")) {
		s.found = found;
		if (cuda_ok(w, r, w->rt->mem_set(found, 0, sizeof(*s.found), w->stream),
			    "cudaMemsetAsync") &&
			take_memory(&s, wanted)) {
			if (s.n == 0)
				check_error(r, CODE_OUT_OF_MEMORY,
					"no memory could be allocated, %" PRId64 " bytes are free",
					w->gpu->memory_free_bytes);
			else if (sweep_all(&s))
				(void)judge(&s, wanted, least, !w->stopped(w->arg));
		}
	}
	release(&s);
	return cuda_usable(r);
}
