/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what the checks share. */
#include "probe/check/checks_shared.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "probe/result/evidence.h"

#define RUNS 5

bool cuda_ok(struct check_world *w, struct check_result *r, int error, const char *call)
{
	enum probe_code code;

	if (error == RT_SUCCESS)
		return true;
	code = code_of_cuda(error, 1, 1);
	r->cuda_error = error;
	if (code_is_fault(code))
		check_fail(r, code, CUDA_SAID, call, error, w->rt->error_name(error));
	else
		check_error(r, code, CUDA_SAID, call, error, w->rt->error_name(error));
	return false;
}

bool cuda_usable(const struct check_result *r)
{
	return r->cuda_error == RT_SUCCESS || r->cuda_error == RT_OUT_OF_MEMORY ||
	       r->cuda_error == RT_MISSING_CALL || r->cuda_error == RT_INVALID_VALUE;
}

unsigned grid_of(const struct check_world *w)
{
	return w->gpu->sm_count > 0 ? (unsigned)w->gpu->sm_count * BLOCKS_PER_SM : 1024;
}

bool launch(struct check_world *w, struct check_result *r, const char *name, unsigned blocks,
	void **args)
{
	rt_kernel kernel;

	return cuda_ok(w, r, w->rt->library_kernel(&kernel, w->library, name),
		       "cudaLibraryGetKernel") &&
	       cuda_ok(w, r,
		       w->rt->launch(kernel, (struct rt_dim3){blocks, 1, 1},
			       (struct rt_dim3){KERNEL_THREADS, 1, 1}, args, 0, w->stream),
		       "cudaLaunchKernel");
}

bool finish(struct check_world *w, struct check_result *r)
{
	return cuda_ok(w, r, w->rt->stream_synchronize(w->stream), "cudaStreamSynchronize");
}

bool begin_findings(struct check_world *w, struct check_result *r, void **ret)
{
	size_t bytes = sizeof(struct kernel_findings);

	return cuda_ok(w, r, w->rt->mem_alloc(ret, bytes), "cudaMalloc") &&
	       cuda_ok(w, r, w->rt->mem_set(*ret, 0, bytes, w->stream), "cudaMemsetAsync");
}

bool read_findings(struct check_world *w, struct check_result *r, const void *found,
	struct kernel_findings *ret)
{
	memset(ret, 0xff, sizeof(*ret)); /* what is not copied is no pass */
	if (!cuda_ok(w, r, w->rt->mem_copy(ret, found, sizeof(*ret), RT_DEVICE_TO_HOST, w->stream),
		    "cudaMemcpyAsync") ||
		!finish(w, r))
		return false;
	if (ret->zero != 0)
		check_fail(r, CODE_WORK_MISSING,
			"where the kernels count what is wrong the GPU was to write zeros, or to "
			"copy them from there, and did not");
	return ret->zero == 0;
}

/* ---- what was done ---- */

bool work_init(struct check_world *w, struct check_result *r, struct work *k)
{
	void *at = NULL;
	size_t bytes;

	*k = (struct work){.blocks = grid_of(w)};
	bytes = k->blocks * sizeof(*k->got);
	k->got = calloc(k->blocks, sizeof(*k->got));
	k->wanted = calloc(k->blocks, sizeof(*k->wanted));
	if (!k->got || !k->wanted) {
		check_error(r, CODE_OUT_OF_MEMORY, "no memory on the host");
		return false;
	}
	if (!cuda_ok(w, r, w->rt->mem_alloc(&at, bytes), "cudaMalloc"))
		return false;
	k->at = at;
	return cuda_ok(w, r, w->rt->mem_set(at, 0, bytes, w->stream), "cudaMemsetAsync");
}

void work_add(struct work *k, uint64_t cells, uint32_t shift)
{
	for (uint32_t b = 0; b < k->blocks; b++)
		k->wanted[b] += evidence_share(cells, k->blocks, b, shift);
}

void work_add_each(struct work *k, uint64_t cells)
{
	for (uint32_t b = 0; b < k->blocks; b++)
		k->wanted[b] += cells;
}

bool work_read(struct check_world *w, struct check_result *r, struct work *k)
{
	size_t bytes = k->blocks * sizeof(*k->got);

	memset(k->got, 0xff, bytes); /* what is not copied is no pass */
	return cuda_ok(w, r, w->rt->mem_copy(k->got, k->at, bytes, RT_DEVICE_TO_HOST, w->stream),
		       "cudaMemcpyAsync") &&
	       finish(w, r);
}

bool work_complete(const struct work *k, struct check_result *r, const char *kernels)
{
	uint32_t b = evidence_short_block(k->got, k->wanted, k->blocks);

	if (b == k->blocks)
		return true;
	check_fail(r, CODE_WORK_MISSING,
		"%s: block %" PRIu32 " of %" PRIu32 " handled %" PRIu64
		" cells, expected are %" PRIu64,
		kernels, b, k->blocks, k->got[b].cells, k->wanted[b]);
	return false;
}

void work_release(struct check_world *w, const struct check_result *r, struct work *k)
{
	if (k->at && cuda_usable(r))
		(void)w->rt->mem_free(k->at);
	free(k->got);
	free(k->wanted);
}

bool fill_cells(struct check_world *w, struct check_result *r, void *at, uint64_t cells,
	uint64_t seed, struct work *k)
{
	uint64_t first = 0, lo = 0, hi = 0;
	uint32_t shift = 0;
	void *args[] = {&at, &first, &cells, &seed, &lo, &hi, &shift, &k->at};

	work_add(k, cells, shift);
	return launch(w, r, "gp_fill", k->blocks, args) && finish(w, r);
}

bool check_cells(struct check_world *w, struct check_result *r, void *at, uint64_t cells,
	uint64_t seed, uint32_t shift, void *found, struct work *k)
{
	uint32_t down = 0, rewrite = 0;
	uint64_t first = 0, lo = 0, hi = 0;
	void *args[] = {&at, &first, &cells, &seed, &lo, &hi, &shift, &down, &rewrite, &lo, &hi,
		&found, &k->at};

	work_add(k, cells, shift);
	return launch(w, r, "gp_check", k->blocks, args) && finish(w, r);
}

/* ---- time ---- */

static int compare(const void *a, const void *b)
{
	double x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

double median(double *values, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (!isfinite(values[i]))
			return (double)NAN;
	qsort(values, n, sizeof(values[0]), compare);
	return values[n / 2];
}

/* One run between two events. */
static bool run_once(struct check_world *w, struct check_result *r, rt_event from, rt_event to,
	const struct timed *t, double *ret_seconds)
{
	float ms = 0;
	bool ok = cuda_ok(w, r, w->rt->event_record(from, w->stream), "cudaEventRecord") &&
		  t->start(w, r, t->arg) &&
		  cuda_ok(w, r, w->rt->event_record(to, w->stream), "cudaEventRecord") &&
		  cuda_ok(w, r, w->rt->event_synchronize(to), "cudaEventSynchronize") &&
		  cuda_ok(w, r, w->rt->event_elapsed(&ms, from, to), "cudaEventElapsedTime") &&
		  (!t->after || t->after(w, r, t->arg));

	*ret_seconds = (double)ms / 1000;
	return ok;
}

bool median_time(struct check_world *w, struct check_result *r, const struct timed *timed,
	double *ret_seconds)
{
	double took[RUNS], first;
	rt_event from = NULL, to = NULL;
	bool ok = cuda_ok(w, r, w->rt->event_create(&from), "cudaEventCreate") &&
		  cuda_ok(w, r, w->rt->event_create(&to), "cudaEventCreate") &&
		  run_once(w, r, from, to, timed, &first);

	for (unsigned i = 0; i < RUNS && ok; i++)
		ok = run_once(w, r, from, to, timed, &took[i]);
	if (cuda_usable(r)) {
		if (from)
			(void)w->rt->event_destroy(from);
		if (to)
			(void)w->rt->event_destroy(to);
	}
	if (ok)
		*ret_seconds = median(took, RUNS);
	return ok;
}
