/* SPDX-License-Identifier: Apache-2.0 */
/* probe: data from one GPU to another: do they arrive as they were sent, and how fast? */
#include "probe/check/checks_peer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "probe/check/checks_shared.h"
#include "probe/result/evidence.h"
#include "probe/result/thresholds.h"

#define RUNS 5
#define COPY_BYTES (256ull << 20)
#define COPY_LEAST (1ull << 20)
/* cudaErrorPeerAccessUnsupported, …AlreadyEnabled */
#define PEER_UNSUPPORTED 217
#define PEER_ENABLED 704

struct transfer {
	struct check_world *from, *to;
	int from_index, to_index;
	struct check_result *r;
	void *source, *target, *found;
	rt_event begin, end;
	struct work filled, checked;
	uint64_t cells;
	double seconds[RUNS];
};

/* What is launched and allocated from now on belongs to this GPU. */
static bool use(struct transfer *t, struct check_world *w)
{
	return cuda_ok(w, t->r, w->rt->set_device(w == t->from ? t->from_index : t->to_index),
		"cudaSetDevice");
}

/* Ask for access. False: the result says why there is none. */
static bool open_access(struct transfer *t)
{
	const struct rt *rt = t->from->rt;
	int can = 0, error;

	if (!cuda_ok(t->from, t->r, rt->can_access_peer(&can, t->from_index, t->to_index),
		    "cudaDeviceCanAccessPeer"))
		return false;
	if (!can) {
		check_skip(t->r, "no_peer_access");
		return false;
	}
	if (!use(t, t->from))
		return false;
	error = rt->enable_peer(t->to_index, 0);
	if (error == PEER_ENABLED || error == PEER_UNSUPPORTED)
		(void)rt->last_error();
	if (error == PEER_UNSUPPORTED) {
		check_skip(t->r, "no_peer_access");
		return false;
	}
	return error == PEER_ENABLED || cuda_ok(t->from, t->r, error, "cudaDeviceEnablePeerAccess");
}

static bool take_memory(struct transfer *t)
{
	const struct rt *rt = t->from->rt;
	uint64_t bytes = COPY_BYTES, least = (uint64_t)t->from->gpu->memory_free_bytes;

	if ((uint64_t)t->to->gpu->memory_free_bytes < least)
		least = (uint64_t)t->to->gpu->memory_free_bytes;
	while (bytes > least / 4)
		bytes /= 2;
	if (bytes < COPY_LEAST) {
		check_error(
			t->r, CODE_OUT_OF_MEMORY, "too little free memory to copy between GPUs");
		return false;
	}
	t->cells = bytes / sizeof(struct kernel_cell);
	return use(t, t->from) &&
	       cuda_ok(t->from, t->r, rt->mem_alloc(&t->source, bytes), "cudaMalloc") &&
	       cuda_ok(t->from, t->r, rt->event_create(&t->begin), "cudaEventCreate") &&
	       cuda_ok(t->from, t->r, rt->event_create(&t->end), "cudaEventCreate") &&
	       use(t, t->to) &&
	       cuda_ok(t->to, t->r, rt->mem_alloc(&t->target, bytes), "cudaMalloc") &&
	       begin_findings(t->to, t->r, &t->found) && work_init(t->to, t->r, &t->checked) &&
	       finish(t->to, t->r) && use(t, t->from) && work_init(t->from, t->r, &t->filled) &&
	       finish(t->from, t->r);
}

/* The pattern of this seed at the source, and nothing of it at the target. */
static bool prepare(struct transfer *t, uint64_t seed)
{
	return use(t, t->to) &&
	       cuda_ok(t->to, t->r,
		       t->to->rt->mem_set(
			       t->target, 0, t->cells * sizeof(struct kernel_cell), t->to->stream),
		       "cudaMemsetAsync") &&
	       finish(t->to, t->r) && use(t, t->from) &&
	       fill_cells(t->from, t->r, t->source, t->cells, seed, &t->filled);
}

/* One copy between two events. */
static bool copy(struct transfer *t, float *ms)
{
	struct check_world *w = t->from;
	const struct rt *rt = w->rt;

	return cuda_ok(w, t->r, rt->event_record(t->begin, w->stream), "cudaEventRecord") &&
	       cuda_ok(w, t->r,
		       rt->mem_copy(t->target, t->source, t->cells * sizeof(struct kernel_cell),
			       RT_DEVICE_TO_DEVICE, w->stream),
		       "cudaMemcpyAsync") &&
	       cuda_ok(w, t->r, rt->event_record(t->end, w->stream), "cudaEventRecord") &&
	       cuda_ok(w, t->r, rt->event_synchronize(t->end), "cudaEventSynchronize") &&
	       cuda_ok(w, t->r, rt->event_elapsed(ms, t->begin, t->end), "cudaEventElapsedTime");
}

static bool compare(struct transfer *t, uint64_t seed)
{
	return use(t, t->to) &&
	       check_cells(t->to, t->r, t->target, t->cells, seed, 0, t->found, &t->checked);
}

static void judge(struct transfer *t)
{
	struct check_result *r = t->r;
	struct kernel_findings f;
	uint64_t wrong;
	double seconds;

	if (!read_findings(t->to, r, t->found, &f) || !work_read(t->to, r, &t->checked) ||
		!use(t, t->from) || !work_read(t->from, r, &t->filled))
		return;
	wrong = evidence_wrong_cells(&f);
	seconds = median(t->seconds, RUNS);
	if (!isfinite(seconds)) {
		check_fail(r, CODE_NOT_A_NUMBER, "the time of a copy is not a number");
		return;
	}
	r->bytes_tested = (int64_t)(t->cells * sizeof(struct kernel_cell) * (RUNS + 1));
	r->errors = (int64_t)wrong;
	r->unit = "B/s";
	r->value = (double)(t->cells * sizeof(struct kernel_cell)) / seconds;
	r->fail_above =
		fmin(thresholds_most(t->from->gpu, r->id), thresholds_most(t->to->gpu, r->id));
	check_judge_rate(r);
	if (wrong > 0) {
		evidence_keep(r, &f);
		r->pages = r->bits_0_to_1 = r->bits_1_to_0 = -1;
		check_fail(r, CODE_LINK_ERRORS,
			"%" PRIu64 " cells of 16 bytes arrived changed, the first at offset "
			"%" PRIu64,
			wrong, r->n_memory ? r->memory[0].offset : 0);
	} else if (!work_complete(&t->filled, r, "gp_fill") ||
		   !work_complete(&t->checked, r, "gp_check")) {
		r->errors = -1;
	}
}

static bool run_all(struct transfer *t)
{
	for (unsigned i = 0; i <= RUNS; i++) { /* the first one is not timed */
		uint64_t seed = t->from->seed + i;
		float ms;

		if (!prepare(t, seed) || !copy(t, &ms) || !compare(t, seed))
			return false;
		if (i > 0)
			t->seconds[i - 1] = (double)ms / 1000;
		if (t->from->stopped(t->from->arg))
			return false; /* as it began: skipped, "not_run" */
	}
	return true;
}

static void release(struct transfer *t)
{
	const struct rt *rt = t->from->rt;

	if (t->source)
		(void)rt->mem_free(t->source);
	if (t->target)
		(void)rt->mem_free(t->target);
	if (t->found)
		(void)rt->mem_free(t->found);
	if (t->begin)
		(void)rt->event_destroy(t->begin);
	if (t->end)
		(void)rt->event_destroy(t->end);
}

bool check_peer(struct check_world *from, int from_index, struct check_world *to, int to_index,
	struct check_result *r)
{
	struct transfer t = {
		.from = from, .to = to, .from_index = from_index, .to_index = to_index, .r = r};

	/* kernels are for one architecture, and a runtime loads them for every GPU that is in use
	 */
	if (from->gpu->cc_major != to->gpu->cc_major || from->gpu->cc_minor != to->gpu->cc_minor) {
		check_skip(r, "different_gpus");
		return true;
	}
	if (open_access(&t) && take_memory(&t) && run_all(&t))
		judge(&t);
	if (cuda_usable(r))
		release(&t);
	work_release(t.from, r, &t.filled);
	work_release(t.to, r, &t.checked);
	return cuda_usable(r);
}
