/* SPDX-License-Identifier: Apache-2.0 */
/* probe: a worker that has two GPUs, and copies between them. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "probe/check/checks_peer.h"
#include "probe/check/worker.h"
#include "probe/check/worker_tell.h"
#include "probe/kernels/kernels.h"
#include "probe/result/device.h"

/* Contexts on two GPUs, and what a slow link takes for six copies of 256 MiB. */
#define STEP_LIMIT_S 20.0

struct pair {
	const struct rt *rt;
	const struct worker_job *job;
	struct worker_tell tell;
	struct gpu_report gpus[2];
	struct check_world worlds[2];
};

static void on_within(void *arg, double seconds)
{
	struct pair *p = arg;

	tell_within(&p->tell, check_kind(CHECK_P2P)->id, seconds);
}

static void on_progress(void *arg, double done, const char *text)
{
	(void)arg;
	(void)done;
	(void)text;
}

static bool on_stopped(void *arg)
{
	struct pair *p = arg;

	return tell_ends(&p->tell);
}

/* False: it is an error, which was told. */
static bool went_well(struct pair *p, int error, const char *call)
{
	if (error == RT_SUCCESS)
		return true;
	tell_error(&p->tell, -1, code_of_cuda(error, 1, 1), error, CUDA_SAID, call, error,
		error == RT_MISSING_CALL ? "the runtime lacks it" : p->rt->error_name(error));
	return false;
}

/* One of the two, with its context, kernels and stream. False: it cannot be used, which was told.
 */
static bool take_gpu(struct pair *p, int side)
{
	int index = side == 0 ? p->job->index : p->job->peer, error = p->rt->set_device(index);
	const struct kernel_image *image = NULL;
	struct gpu_report *gpu = &p->gpus[side];
	rt_library library = NULL;
	rt_stream stream = NULL;

	if (!went_well(p, error, "cudaSetDevice"))
		return false;
	if (device_describe(p->rt, index, gpu, &error) != CODE_NONE)
		return went_well(p, error, "cudaGetDeviceProperties");
	if (device_memory(p->rt, gpu, &error) != CODE_NONE)
		return went_well(p, error == RT_SUCCESS ? RT_UNKNOWN : error, "cudaMemGetInfo");
	image = kernel_image_for(gpu->cc_major, gpu->cc_minor);
	/* what was loaded for the first serves the second, if it is of its kind */
	if (side == 1 && gpu->cc_major == p->gpus[0].cc_major &&
		gpu->cc_minor == p->gpus[0].cc_minor)
		library = p->worlds[0].library;
	else if (side == 0 &&
		 !went_well(p,
			 image ? p->rt->library_load(&library, image->data) : RT_NO_KERNEL_IMAGE,
			 "cudaLibraryLoadData"))
		return false;
	if (!went_well(p, p->rt->stream_create(&stream), "cudaStreamCreate"))
		return false;
	p->worlds[side] = (struct check_world){.rt = p->rt,
		.job = p->job,
		.gpu = gpu,
		.library = library,
		.seed = p->job->seed,
		.stream = stream,
		.within = on_within,
		.progress = on_progress,
		.stopped = on_stopped,
		.arg = p};
	return true;
}

/* One direction. False: a context is lost. */
static bool run_one(struct pair *p, int from)
{
	struct wire_line line = {.kind = WIRE_LINK, .reverse = from == 1};
	int index[2] = {p->job->index, p->job->peer};
	double began = clock_s();
	bool usable;

	on_within(p, STEP_LIMIT_S);
	check_begin(&line.check, CHECK_P2P);
	usable = check_peer(
		&p->worlds[from], index[from], &p->worlds[1 - from], index[1 - from], &line.check);
	line.check.duration_s = clock_s() - began;
	(void)snprintf(line.from, sizeof(line.from), "%s", p->gpus[from].uuid);
	(void)snprintf(line.to, sizeof(line.to), "%s", p->gpus[1 - from].uuid);
	tell_line(&p->tell, &line);
	return usable;
}

int worker_pair(const struct rt *rt, const struct worker_job *job, int fd, bool (*stopped)(void *),
	void *arg)
{
	struct pair p = {.rt = rt, .job = job, .tell = {.fd = fd, .stopped = stopped, .arg = arg}};
	bool well;

	on_within(&p, STEP_LIMIT_S);
	well = take_gpu(&p, 0) && take_gpu(&p, 1) && run_one(&p, 0) && !tell_ends(&p.tell) &&
	       run_one(&p, 1);
	if (!tell_ends(&p.tell))
		tell_done(&p.tell);
	return tell_status(&p.tell, well ? 0 : 1);
}
