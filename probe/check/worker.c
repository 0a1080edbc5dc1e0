/* SPDX-License-Identifier: Apache-2.0 */
/* probe: one process per GPU, seen from inside. */
#include "probe/check/worker.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "probe/check/checks.h"
#include "probe/check/worker_tell.h"
#include "probe/kernels/kernels.h"
#include "probe/result/device.h"

/* What a step may take that says nothing itself: making a context takes seconds on a server without
 * persistence mode. */
#define STEP_LIMIT_S 20.0
/* From one round of stress to the next: odd, so that no seed comes twice, and with many bits set,
 * so that patterns differ in half of theirs. */
#define SEED_STEP 0x9e6c63d0876a9a47ull

struct worker {
	const struct rt *rt;
	const struct worker_job *job;
	struct worker_tell tell;
	enum check_id at;  /* the check that runs */
	double round_done; /* of stress: how far its time is */
};

/* ---- telling ---- */

static void tell_check(struct worker *w, const struct check_result *r)
{
	struct wire_line line = {.kind = WIRE_CHECK, .check = *r};

	tell_line(&w->tell, &line);
}

static void tell_gpu(struct worker *w, const struct gpu_report *gpu)
{
	struct wire_line line = {.kind = WIRE_GPU, .gpu = *gpu};

	tell_line(&w->tell, &line);
}

/* ---- what checks call ---- */

static void on_within(void *arg, double seconds)
{
	struct worker *w = arg;

	tell_within(&w->tell, check_kind(w->at)->id, seconds);
}

static void on_progress(void *arg, double done, const char *text)
{
	struct worker *w = arg;
	struct wire_line line = {.kind = WIRE_PROGRESS,
		.done = w->job->profile == PROFILE_STRESS ? w->round_done : done};

	(void)snprintf(line.text, sizeof(line.text), "%s", text);
	tell_line(&w->tell, &line);
}

static bool on_stopped(void *arg)
{
	struct worker *w = arg;

	return tell_ends(&w->tell);
}

/* ---- scout: which GPUs there are ---- */

static int look_around(struct worker *w)
{
	struct report seen;
	struct wire_line line = {.kind = WIRE_RUNTIME};
	enum probe_code code;

	report_init(&seen);
	code = device_count(w->rt, &seen);
	line.driver = seen.driver_cuda;
	line.runtime = seen.cudart;
	line.devices = seen.cuda;
	(void)snprintf(line.link, sizeof(line.link), "%s", w->rt->link);
	kernel_archs(line.archs, sizeof(line.archs));
	tell_line(&w->tell, &line);
	for (size_t i = 0; i < seen.n_errors; i++) {
		struct wire_line error = {.kind = WIRE_ERROR, .error = seen.errors[i]};

		tell_line(&w->tell, &error);
	}
	for (int i = 0; code == CODE_NONE && i < seen.cuda; i++) {
		struct gpu_report gpu;
		enum probe_code why;
		int error;

		tell_within(&w->tell, "list", STEP_LIMIT_S);
		why = device_describe(w->rt, i, &gpu, &error);
		tell_gpu(w, &gpu);
		if (why != CODE_NONE)
			tell_error(&w->tell, i, why, error,
				CUDA_SAID ": it does not say what it is", "cudaGetDeviceProperties",
				error, w->rt->error_name(error));
	}
	report_release(&seen);
	return code == CODE_NONE ? 0 : 1;
}

/* ---- a GPU ---- */

static bool (*const checks[CHECK_COUNT])(struct check_world *, struct check_result *) = {
	[CHECK_FREE_MEMORY] = check_free_memory,
	[CHECK_REMOTE_RTT] = check_round_trip,
	[CHECK_REMOTE_BANDWIDTH] = check_link_rate,
	[CHECK_LAUNCH] = check_round_trip,
	[CHECK_LAUNCH_WAIT] = check_round_trip,
	[CHECK_H2D_4K] = check_link_rate,
	[CHECK_D2H_4K] = check_link_rate,
	[CHECK_H2D_1M] = check_link_rate,
	[CHECK_D2H_1M] = check_link_rate,
	[CHECK_H2D_32M] = check_link_rate,
	[CHECK_D2H_32M] = check_link_rate,
	[CHECK_EXACT_FP32] = check_exact,
	[CHECK_EXACT_FP64] = check_exact,
	[CHECK_EXACT_TENSOR] = check_exact,
	[CHECK_SHARED_MEMORY] = check_shared_memory,
	[CHECK_MEM_PATTERN] = check_mem_pattern,
	[CHECK_MEM_READ] = check_mem_rate,
	[CHECK_MEM_WRITE] = check_mem_rate,
	[CHECK_MEM_COPY] = check_mem_rate,
	[CHECK_H2D] = check_link_rate,
	[CHECK_D2H] = check_link_rate,
	[CHECK_FP32_RATE] = check_flop_rate,
	[CHECK_FP64_RATE] = check_flop_rate,
	[CHECK_TENSOR_RATE] = check_flop_rate};

/* Checks that stress repeats: those that find wrong data, and none that only measure. */
static bool repeats(enum check_id id)
{
	return id == CHECK_EXACT_FP32 || id == CHECK_EXACT_FP64 || id == CHECK_EXACT_TENSOR ||
	       id == CHECK_SHARED_MEMORY || id == CHECK_MEM_PATTERN;
}

/* False: the context is lost. */
static bool run_check(
	struct worker *w, struct check_world *world, enum check_id id, struct check_result *ret)
{
	double began = clock_s();
	bool usable;

	w->at = id;
	check_begin(ret, id);
	on_within(w, STEP_LIMIT_S);
	usable = checks[id](world, ret);
	ret->duration_s = clock_s() - began;
	return usable;
}

/* The kernels for this GPU. False: there are none, which was told. */
static bool load_kernels(struct worker *w, const struct gpu_report *gpu, rt_library *ret)
{
	const struct kernel_image *image = kernel_image_for(gpu->cc_major, gpu->cc_minor);
	struct check_result r;
	int error = image ? w->rt->library_load(ret, image->data) : RT_NO_KERNEL_IMAGE;

	check_begin(&r, CHECK_KERNEL_IMAGE);
	r.cuda_error = error;
	if (error == RT_SUCCESS)
		check_pass(&r);
	else if (error == RT_MISSING_CALL)
		check_error(&r, CODE_RUNTIME_INCOMPLETE,
			"the CUDA runtime that was found has no cudaLibraryLoadData (it came with "
			"12.8); a launcher that stands in for the runtime may lack it");
	else if (!image || error == RT_NO_KERNEL_IMAGE)
		check_fail(&r, CODE_NO_KERNEL_IMAGE,
			"the GPU is sm_%d%d, for which this build has no kernels (gpuprobe "
			"--version lists them)",
			gpu->cc_major, gpu->cc_minor);
	else if (code_is_fault(code_of_cuda(error, 1, 1)))
		check_fail(&r, code_of_cuda(error, 1, 1), CUDA_SAID, "cudaLibraryLoadData", error,
			w->rt->error_name(error));
	else
		check_error(&r, code_of_cuda(error, 1, 1), CUDA_SAID, "cudaLibraryLoadData", error,
			w->rt->error_name(error));
	tell_check(w, &r);
	return error == RT_SUCCESS;
}

/* Keep the worst of a check's rounds: a failure is, whatever could not run later. */
static void keep_worst(struct check_result *worst, const struct check_result *found)
{
	if (worst->status != STATUS_FAIL &&
		(found->status == STATUS_FAIL || found->status > worst->status))
		*worst = *found;
}

/* Stress: again and again, until its time is over. False: the context is lost. */
static bool go_on(
	struct worker *w, struct check_world *world, double began, struct check_result *worst)
{
	while (clock_s() - began < w->job->seconds && !on_stopped(w)) {
		world->seed += SEED_STEP;
		for (int id = 0; id < CHECK_COUNT; id++) {
			struct check_result r;
			bool usable;

			if (!repeats((enum check_id)id) ||
				check_kind((enum check_id)id)->need[PROFILE_STRESS] == NEED_NOT_RUN)
				continue;
			w->round_done = fmin(1, (clock_s() - began) / w->job->seconds);
			on_progress(w, w->round_done, check_kind((enum check_id)id)->title);
			usable = run_check(w, world, (enum check_id)id, &r);
			keep_worst(&worst[id], &r);
			if (!usable)
				return false;
			if (on_stopped(w))
				break;
		}
	}
	return true;
}

/* The i-th to run. The memory test comes last: when it has given back nearly all memory, the driver
 * clears that for some time, and what is measured meanwhile is slow. */
static enum check_id in_turn(int i)
{
	if (i < CHECK_MEM_PATTERN)
		return (enum check_id)i;
	return i + 1 < CHECK_COUNT ? (enum check_id)(i + 1) : CHECK_MEM_PATTERN;
}

/* results: one for each check */
static int run_checks(struct worker *w, struct check_world *world, struct check_result *results)
{
	double began = clock_s();
	bool usable = true;

	for (int i = 0; i < CHECK_COUNT && usable && !on_stopped(w); i++) {
		enum check_id id = in_turn(i);

		check_begin(&results[id], id);
		if (!checks[id] || check_kind(id)->need[w->job->profile] == NEED_NOT_RUN)
			continue;
		usable = run_check(w, world, id, &results[id]);
		tell_check(w, &results[id]);
	}
	if (w->job->profile == PROFILE_STRESS && usable && !on_stopped(w)) {
		usable = go_on(w, world, began, results);
		for (int i = 0; i < CHECK_COUNT; i++)
			if (repeats((enum check_id)i) && checks[i])
				tell_check(w, &results[i]);
	}
	return usable ? 0 : 1;
}

/* Describe the GPU and make its context. CODE_NONE, or why not, which was told. */
static enum probe_code take_gpu(struct worker *w, struct gpu_report *gpu)
{
	/* choosing a device makes its context, and a list is to make none */
	bool context = w->job->profile != PROFILE_LIST || w->job->free_memory;
	int error = context ? w->rt->set_device(w->job->index) : RT_SUCCESS;
	enum probe_code code = code_of_cuda(error, 1, 1);
	const char *call = "cudaSetDevice";

	if (code == CODE_NONE) {
		code = device_describe(w->rt, w->job->index, gpu, &error);
		call = "cudaGetDeviceProperties";
	}
	if (w->job->visible && report_is_instance(w->job->visible))
		gpu->mig = 1; /* whatever its name says */
	if (code == CODE_NONE && context) {
		code = device_memory(w->rt, gpu, &error);
		call = "cudaMemGetInfo";
	}
	if (w->job->visible && (code == CODE_NO_DEVICE || code == CODE_GPU_MISSING)) {
		tell_error(&w->tell, w->job->index, CODE_GPU_MISSING, error,
			"NVML knows it, and CUDA does not show it to a process that asks for %s",
			w->job->visible);
		return CODE_GPU_MISSING;
	}
	if (code != CODE_NONE) {
		tell_error(&w->tell, w->job->index, code, error,
			CUDA_SAID ": GPU %d cannot be used", call, error, w->rt->error_name(error),
			w->job->index);
		return code;
	}
	tell_gpu(w, gpu);
	return CODE_NONE;
}

static int probe_gpu(struct worker *w)
{
	struct gpu_report gpu;
	struct thresholds thresholds;
	struct err err = {0};
	rt_library library = NULL;
	rt_stream stream = NULL;
	struct check_result *results;
	int rc = 1;

	if (take_gpu(w, &gpu) != CODE_NONE)
		return 1;
	if (w->job->profile == PROFILE_LIST)
		return 0;
	results = calloc(CHECK_COUNT, sizeof(*results));
	if (!results)
		return 1; /* the parent sees that required results are missing */
	thresholds_init(&thresholds);
	if (w->job->thresholds && thresholds_read(&thresholds, w->job->thresholds, &err) != 0) {
		tell_error(&w->tell, w->job->index, CODE_WORKER_DIED, 0, "%s: %s",
			w->job->thresholds, err.msg);
	} else if (load_kernels(w, &gpu, &library)) {
		int error = w->rt->stream_create(&stream);

		if (error == RT_SUCCESS) {
			struct check_world world = {.rt = w->rt,
				.job = w->job,
				.gpu = &gpu,
				.thresholds = &thresholds,
				.library = library,
				.seed = w->job->seed,
				.stream = stream,
				.within = on_within,
				.progress = on_progress,
				.stopped = on_stopped,
				.arg = w};

			rc = run_checks(w, &world, results);
		} else {
			tell_error(&w->tell, w->job->index, code_of_cuda(error, 1, 1), error,
				CUDA_SAID, "cudaStreamCreate", error, w->rt->error_name(error));
		}
	}
	thresholds_release(&thresholds);
	free(results);
	return rc; /* what is open on the GPU ends with the process */
}

int worker_run(const struct rt *rt, const struct worker_job *job, int fd, bool (*stopped)(void *),
	void *arg)
{
	struct worker w = {
		.rt = rt, .job = job, .tell = {.fd = fd, .stopped = stopped, .arg = arg}};
	int rc;

	if (job->task == TASK_PAIR)
		return worker_pair(rt, job, fd, stopped, arg);
	tell_within(&w.tell, "start", STEP_LIMIT_S);
	rc = job->task == TASK_SCOUT ? look_around(&w) : probe_gpu(&w);
	if (!tell_ends(&w.tell))
		tell_done(&w.tell);
	return tell_status(&w.tell, rc);
}
