/* SPDX-License-Identifier: Apache-2.0 */
/* probe: how fast is the way to the GPU and back? Rates of long copies by the GPU's own events;
 * what a program waits for by the host's clock, which is where a remote-GPU client shows. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "probe/check/checks_shared.h"
#include "probe/kernels/pattern.h"
#include "probe/result/evidence.h"

#define LINK_BYTES (32ull << 20)
#define LINK_REMOTE_BYTES (16ull << 20)
/* Of waits that are measured: of short ones, and of 32 MiB or many launches. */
#define WAITS 20
#define WAITS_LONG 5
#define LAUNCHES 50
/* For the slowest of links. */
#define LIMIT_S 120

/* ---- waits ---- */

/* Seconds by the host's clock from before start() until the GPU is done, the median of `n` after
 * one that does not count, of which each of `parts` takes its share. Nothing is expected of it. */
static bool measure_wait(struct check_world *w, struct check_result *r, unsigned n, unsigned parts,
	const struct timed *timed)
{
	double took[WAITS];

	for (unsigned i = 0; i <= n; i++) {
		double began = clock_s(), ended;

		if (!timed->start(w, r, timed->arg) || !finish(w, r))
			return false;
		ended = clock_s();
		if (i > 0)
			took[i - 1] = ended - began;
		if (timed->after && !timed->after(w, r, timed->arg))
			return false;
	}
	r->value = median(took, n) / parts;
	r->unit = "s";
	check_pass(r);
	return true;
}

struct launches {
	unsigned each;
	uint64_t made;
	struct work work;
};

static bool start_launches(struct check_world *w, struct check_result *r, void *arg)
{
	struct launches *run = arg;
	void *args[] = {&run->work.at};

	for (unsigned i = 0; i < run->each; i++, run->made++)
		if (!launch(w, r, "gp_nop", 1, args))
			return false;
	return true;
}

bool check_round_trip(struct check_world *w, struct check_result *r)
{
	struct launches run = {.each = r->id == CHECK_LAUNCH ? LAUNCHES : 1};
	const struct timed timed = {start_launches, NULL, &run};

	if (w->job->busy && r->id != CHECK_REMOTE_RTT) {
		check_skip(r, "busy");
		return true;
	}
	w->within(w->arg, LIMIT_S);
	if (work_init(w, r, &run.work) && finish(w, r) &&
		measure_wait(w, r, run.each == 1 ? WAITS : WAITS_LONG, run.each, &timed) &&
		work_read(w, r, &run.work)) {
		run.work.wanted[0] = run.made;
		(void)work_complete(&run.work, r, "gp_nop");
	}
	work_release(w, r, &run.work);
	return cuda_usable(r);
}

/* ---- copies ---- */

struct link_run {
	void *host, *device, *found;
	uint64_t bytes, cells;
	uint64_t wrong; /* that arrived here */
	bool up;        /* to the GPU */
	struct work work;
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

static void write_here(struct kernel_cell *at, uint64_t cells, uint64_t seed)
{
	for (uint64_t i = 0; i < cells; i++)
		at[i] = pattern_cell(i, seed);
}

static uint64_t wrong_here(const struct kernel_cell *at, uint64_t cells, uint64_t seed)
{
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < cells; i++) {
		struct kernel_cell c = pattern_cell(i, seed);

		wrong += at[i].lo != c.lo || at[i].hi != c.hi;
	}
	return wrong;
}

/* Nothing of the pattern stands where the next copy goes. */
static bool clear_link(struct check_world *w, struct check_result *r, struct link_run *run)
{
	if (!run->up) {
		memset(run->host, 0x5a, run->bytes);
		return true;
	}
	return cuda_ok(w, r, w->rt->mem_set(run->device, 0, run->bytes, w->stream),
		       "cudaMemsetAsync") &&
	       finish(w, r);
}

/* The pattern stands where the copies come from. */
static bool prepare_link(struct check_world *w, struct check_result *r, struct link_run *run)
{
	if (!work_init(w, r, &run->work) || !begin_findings(w, r, &run->found) ||
		!cuda_ok(w, r, w->rt->mem_alloc(&run->device, run->bytes), "cudaMalloc"))
		return false;
	if (run->up)
		write_here(run->host, run->cells, w->seed);
	else if (!fill_cells(w, r, run->device, run->cells, w->seed, &run->work))
		return false;
	return clear_link(w, r, run);
}

/* Did all of this copy arrive as it was sent? */
static bool check_copy(struct check_world *w, struct check_result *r, void *arg)
{
	struct link_run *run = arg;

	if (!run->up)
		run->wrong += wrong_here(run->host, run->cells, w->seed);
	else if (!check_cells(w, r, run->device, run->cells, w->seed, 0, run->found, &run->work))
		return false;
	return clear_link(w, r, run);
}

/* What the copies have left. */
static void prove_link(struct check_world *w, struct check_result *r, struct link_run *run)
{
	struct kernel_findings f;
	uint64_t wrong;

	if (!read_findings(w, r, run->found, &f) || !work_read(w, r, &run->work))
		return;
	wrong = run->up ? evidence_wrong_cells(&f) : run->wrong;
	r->errors = (int64_t)wrong;
	if (wrong > 0) {
		if (run->up)
			evidence_keep(r, &f);
		check_fail(r, CODE_LINK_ERRORS,
			"%" PRIu64
			" cells of 16 bytes did not arrive as they were sent, of %" PRIu64
			" in each copy",
			wrong, run->cells);
	} else if (!work_complete(&run->work, r, run->up ? "gp_check" : "gp_fill")) {
		r->errors = -1;
	}
}

/* Which copies, by the check; whether it is the host that waits for them. */
static bool choose_copies(const struct check_world *w, enum check_id id, struct link_run *run)
{
	static const struct {
		enum check_id id;
		uint64_t bytes;
	} waits[] = {{CHECK_H2D_4K, 4096}, {CHECK_D2H_4K, 4096}, {CHECK_H2D_1M, 1 << 20},
		{CHECK_D2H_1M, 1 << 20}, {CHECK_H2D_32M, LINK_BYTES}, {CHECK_D2H_32M, LINK_BYTES}};

	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		if (waits[i].id == id) {
			run->bytes = waits[i].bytes;
			run->up = i % 2 == 0;
			return true;
		}
	}
	run->bytes = w->job->remote ? LINK_REMOTE_BYTES : LINK_BYTES;
	run->up = id != CHECK_D2H;
	return false;
}

bool check_link_rate(struct check_world *w, struct check_result *r)
{
	struct link_run run = {0};
	bool waits = choose_copies(w, r->id, &run);
	const struct timed copies = {start_copy, check_copy, &run};
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
	run.cells = run.bytes / sizeof(struct kernel_cell);
	w->within(w->arg, LIMIT_S);
	if (!run.host) {
		check_error(r, CODE_OUT_OF_MEMORY, "no memory on the host");
	} else {
		/* by a reference, if there is one; against the link by the parent, who knows it */
		if (prepare_link(w, r, &run) &&
			(waits ? measure_wait(w, r, run.bytes < LINK_BYTES ? WAITS : WAITS_LONG, 1,
					 &copies)
			       : measure_rate(w, r, (double)run.bytes, "B/s", &copies)))
			prove_link(w, r, &run);
		if (cuda_usable(r) && run.device)
			(void)w->rt->mem_free(run.device);
		if (cuda_usable(r) && run.found)
			(void)w->rt->mem_free(run.found);
		work_release(w, r, &run.work);
	}
	free(pageable);
	if (pinned && cuda_usable(r))
		(void)w->rt->host_free(pinned);
	return cuda_usable(r);
}
