/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what the checks share. */
#include "probe/checks_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RUNS_MAX 15

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

bool read_findings(struct check_world *w, struct check_result *r, const void *found,
	struct kernel_findings *ret)
{
	memset(ret, 0xff, sizeof(*ret)); /* what is not copied is no pass */
	return cuda_ok(w, r,
		       w->rt->mem_copy(ret, found, sizeof(*ret), RT_DEVICE_TO_HOST, w->stream),
		       "cudaMemcpyAsync") &&
	       finish(w, r);
}

static int compare(const void *a, const void *b)
{
	float x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

/* One run between two events. */
static bool timed(struct check_world *w, struct check_result *r, rt_event from, rt_event to,
	bool (*start)(struct check_world *, struct check_result *, void *), void *arg, float *ms)
{
	return cuda_ok(w, r, w->rt->event_record(from, w->stream), "cudaEventRecord") &&
	       start(w, r, arg) &&
	       cuda_ok(w, r, w->rt->event_record(to, w->stream), "cudaEventRecord") &&
	       cuda_ok(w, r, w->rt->event_synchronize(to), "cudaEventSynchronize") &&
	       cuda_ok(w, r, w->rt->event_elapsed(ms, from, to), "cudaEventElapsedTime");
}

bool median_time(struct check_world *w, struct check_result *r, unsigned runs,
	bool (*start)(struct check_world *, struct check_result *, void *), void *arg,
	double *ret_seconds)
{
	float ms[RUNS_MAX] = {0}, first;
	rt_event from = NULL, to = NULL;
	bool ok = cuda_ok(w, r, w->rt->event_create(&from), "cudaEventCreate") &&
		  cuda_ok(w, r, w->rt->event_create(&to), "cudaEventCreate") &&
		  timed(w, r, from, to, start, arg, &first);

	if (runs > RUNS_MAX)
		runs = RUNS_MAX;
	for (unsigned i = 0; i < runs && ok; i++)
		ok = timed(w, r, from, to, start, arg, &ms[i]);
	if (cuda_usable(r)) {
		if (from)
			(void)w->rt->event_destroy(from);
		if (to)
			(void)w->rt->event_destroy(to);
	}
	if (!ok)
		return false;
	*ret_seconds = (double)NAN;
	for (unsigned i = 0; i < runs; i++)
		if (!isfinite(ms[i]))
			return true; /* one time that is no number spoils all */
	qsort(ms, runs, sizeof(ms[0]), compare);
	*ret_seconds = (double)ms[runs / 2] / 1000;
	return true;
}
