/* SPDX-License-Identifier: Apache-2.0 */
/* probe: one run, from the first look at the machine to the verdict. */
#define _GNU_SOURCE
#include "probe/run.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "probe/kernels/kernels.h"
#include "probe/result/report_links.h"
#include "probe/run_facts.h"
#include "probe/runtime/host.h"
#include "probe/worker/retry.h"
#include "probe/worker/workers.h"

#define PHASE_LIMIT_S 20.0
#define LOOK_LIMIT_S 60.0
#define VERIFY_LIMIT_S 60.0
#define BENCH_LIMIT_S 600.0
#define STRESS_SECONDS 300.0

static const char *const names[] = {"list", "verify", "stress", "bench"};
static const enum probe_profile profiles[] = {
	PROFILE_LIST, PROFILE_VERIFY, PROFILE_STRESS, PROFILE_BENCH};

static void begin(const struct run_config *c, struct report *r)
{
	const struct probe_options *o = c->options;
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	r->command = names[o->command];
	r->profile = profiles[o->command];
	r->strict = o->strict;
	r->require_nvml = o->require_nvml;
	r->started_at = t.tv_sec;
	r->seed = o->seed ? o->seed : (uint64_t)t.tv_sec * 1000000007u ^ (uint64_t)t.tv_nsec;
	r->expected = o->expect_gpus;
	r->vm = host_is_vm(c->root);
	kernel_archs(r->archs, sizeof(r->archs)); /* the scout's word counts, who has the kernels */
	if (gethostname(r->host, sizeof(r->host) - 1) != 0)
		r->host[0] = '\0';
}

/* Seconds that are left of the run's limit; 0: it has none, never less than a moment. */
static double left_of(double limit, double began)
{
	double left = began + limit - clock_s();

	if (limit <= 0)
		return 0;
	return left > 0.001 ? left : 0.001;
}

/* ---- which GPUs there are ---- */

static int look_around(const struct run_config *c, struct run_facts *f, struct report *r,
	enum workers_end *end, struct err *err)
{
	const struct probe_options *o = c->options;
	struct worker_job jobs[2] = {
		{.task = TASK_SCOUT, .cudart = o->cudart}, {.task = TASK_NVML, .nvml = o->nvml}};
	struct workers_config config = {.program = c->program,
		.jobs = jobs,
		.n_jobs = o->no_nvml ? 1 : 2,
		.phase_limit_s = PHASE_LIMIT_S,
		.total_limit_s = o->timeout_s > 0 ? o->timeout_s : LOOK_LIMIT_S,
		.stop_fd = c->stop_fd,
		.in_process = o->in_process,
		.state = run_facts_before,
		.arg = f};
	int rc = host_gpus(c->root, &f->host, &f->n_host, err);

	if (rc != 0)
		return rc;
	r->pci = (int)f->n_host;
	return workers_run(&config, r, end, err);
}

/* Without one GPU of this machine's among them, the GPUs are those of another. */
static void decide_remote(const struct run_config *c, const struct run_facts *f, struct report *r)
{
	bool local = false;

	for (size_t i = 0; i < r->n_gpus; i++) {
		struct gpu_report *gpu = &r->gpus[i];

		gpu->remote = c->options->remote || !host_has_pci(c->root, gpu->pci);
		local = local || !gpu->remote;
	}
	r->remote = c->options->remote || (r->n_gpus > 0 && !local && f->n_host == 0);
	if (r->remote && r->profile == PROFILE_VERIFY)
		r->profile = PROFILE_VERIFY_REMOTE;
}

/* "0", a UUID or its beginning, or a PCI id with or without its domain. */
static bool is_meant(const struct gpu_report *gpu, const char *which)
{
	uint64_t index;
	char id[PCI_ID_MAX];

	if (text_u64(slice_of(which), REPORT_GPUS_MAX, &index))
		return gpu->index == (int)index;
	if (strncasecmp(which, "GPU-", 4) == 0 || strncasecmp(which, "MIG-", 4) == 0)
		return strlen(which) > 6 && strncasecmp(gpu->uuid, which, strlen(which)) == 0;
	if (host_pci_id(which, id))
		return strcmp(gpu->pci, id) == 0;
	return strlen(gpu->pci) > 5 && strcasecmp(gpu->pci + 5, which) == 0;
}

/* What is wrong with GPUs that are not asked about is not asked about either. */
static void forget_others(struct report *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->n_errors; i++) {
		bool ours = r->errors[i].gpu < 0;

		for (size_t k = 0; k < r->n_gpus; k++)
			ours = ours || r->errors[i].gpu == r->gpus[k].index;
		if (ours)
			r->errors[kept++] = r->errors[i];
	}
	r->n_errors = kept;
}

/* Keep the GPUs that --gpu names, in the report's order. */
static int select_gpus(const struct probe_options *o, struct report *r, struct err *err)
{
	size_t kept = 0;

	if (o->n_gpus == 0 || r->n_gpus == 0)
		return 0;
	for (size_t k = 0; k < o->n_gpus; k++) {
		bool found = false;

		for (size_t i = 0; i < r->n_gpus; i++)
			found = found || is_meant(&r->gpus[i], o->gpus[k]);
		if (!found)
			return err_set(err, ERR_INVALID,
				"--gpu %s: there is none such; `gpuprobe list` shows the %zu that "
				"are there",
				o->gpus[k], r->n_gpus);
	}
	for (size_t i = 0; i < r->n_gpus; i++) {
		bool meant = false;

		for (size_t k = 0; k < o->n_gpus; k++)
			meant = meant || is_meant(&r->gpus[i], o->gpus[k]);
		if (meant)
			r->gpus[kept++] = r->gpus[i]; /* none has checks yet */
	}
	r->n_gpus = kept;
	forget_others(r);
	return 0;
}

/* ---- what is expected of them ---- */

static void demand(const struct probe_options *o, struct report *r)
{
	for (size_t i = 0; i < r->n_gpus; i++) {
		const struct gpu_report *gpu = &r->gpus[i];

		if (!gpu->name[0])
			continue; /* it is missing; that was said */
		if (o->expect_name && fnmatch(o->expect_name, gpu->name, 0) != 0)
			(void)report_add_error(r, gpu->index, CODE_NAME_MISMATCH, 0,
				"its name is \"%s\", expected \"%s\"", gpu->name, o->expect_name);
		if (o->min_memory_bytes > 0 && gpu->memory_total_bytes < 0)
			(void)report_add_error(r, gpu->index, CODE_NOT_RUN, 0,
				"how much memory it has could not be found out");
		else if (o->min_memory_bytes > 0 && gpu->memory_total_bytes < o->min_memory_bytes)
			(void)report_add_error(r, gpu->index, CODE_MEMORY_TOO_SMALL, 0,
				"it has %lld MiB, expected at least %lld MiB",
				(long long)(gpu->memory_total_bytes >> 20),
				(long long)(o->min_memory_bytes >> 20));
	}
}

/* ---- the checks ---- */

/* Job of one GPU. False: there is nothing to run for it. */
static bool make_job(const struct run_config *c, const struct run_facts *f, const struct report *r,
	const struct gpu_report *gpu, struct worker_job *ret)
{
	const struct probe_options *o = c->options;

	*ret = (struct worker_job){.task = TASK_GPU,
		.profile = r->profile,
		.index = gpu->index,
		.free_memory = o->free_memory || o->min_memory_bytes > 0,
		.remote = gpu->remote,
		.busy = run_facts_busy(f, gpu),
		.seed = r->seed,
		.memory_share = o->memory_share,
		.memory_bytes = o->memory_bytes,
		.seconds = o->seconds > 0 ? o->seconds : STRESS_SECONDS,
		.thresholds = o->thresholds,
		.cudart = o->cudart,
		.plant = (int)o->plant};
	if (!gpu->by_uuid)
		return gpu->name[0] != '\0';
	ret->index = 0; /* CUDA shows a process one MIG instance at most, and then nothing else */
	ret->visible = o->in_process ? NULL : gpu->uuid;
	return !o->in_process || gpu->name[0] != '\0';
}

static double limit_of(const struct probe_options *o)
{
	if (o->timeout_s > 0)
		return o->timeout_s;
	if (o->command == COMMAND_STRESS)
		return (o->seconds > 0 ? o->seconds : STRESS_SECONDS) + VERIFY_LIMIT_S;
	return o->command == COMMAND_BENCH ? BENCH_LIMIT_S : VERIFY_LIMIT_S;
}

static int check_gpus(const struct run_config *c, struct run_facts *f, struct report *r,
	double began, enum workers_end *end, struct err *err)
{
	const struct probe_options *o = c->options;
	struct worker_job *jobs = calloc(r->n_gpus + 1, sizeof(*jobs));
	int *places = calloc(r->n_gpus + 1, sizeof(*places)), rc = 0;
	struct workers_config config = {.program = c->program,
		.jobs = jobs,
		.gpus = places,
		.phase_limit_s = PHASE_LIMIT_S,
		.total_limit_s = left_of(limit_of(o), began),
		.stop_fd = c->stop_fd,
		.in_process = o->in_process,
		.state = run_facts_state,
		.progress = run_facts_progress,
		.arg = f};

	if (!jobs || !places)
		rc = err_set(err, ERR_NOMEM, "out of memory");
	for (size_t i = 0; i < r->n_gpus && rc == 0; i++) {
		if (!make_job(c, f, r, &r->gpus[i], &jobs[config.n_jobs])) {
			if (r->gpus[i].by_uuid)
				(void)report_add_error(r, r->gpus[i].index, CODE_NOT_RUN, 0,
					"CUDA shows a process one MIG instance, so in one process "
					"this one could not be checked");
			continue;
		}
		places[config.n_jobs++] = (int)i;
	}
	if (rc == 0 && config.n_jobs > 0) {
		/* in this process there is nobody to watch meanwhile: one look afterwards */
		if (r->nvml && !r->remote)
			jobs[config.n_jobs++] = (struct worker_job){
				.task = o->in_process ? TASK_NVML : TASK_NVML_WATCH,
				.nvml = o->nvml};
		f->config = c;
		rc = workers_run(&config, r, end, err);
	}
	if (rc == 0 && *end == WORKERS_DONE)
		rc = run_pairs(c, f, r, left_of(limit_of(o), began), end, err);
	free(jobs);
	free(places);
	return rc;
}

/* list without contexts needs no worker per GPU. */
static bool needs_workers(const struct run_config *c, const struct report *r)
{
	for (size_t i = 0; i < r->n_gpus; i++)
		if (r->gpus[i].by_uuid && !r->gpus[i].name[0])
			return true; /* the scout did not see it */
	return r->profile != PROFILE_LIST || c->options->free_memory ||
	       c->options->min_memory_bytes > 0;
}

/* NVML may have hung or died: that stands against the server, and says nothing of its GPUs. */
static bool can_use_cuda(const struct report *r)
{
	for (size_t i = 0; i < r->n_errors; i++)
		if (r->errors[i].gpu < 0 && code_is_no_cuda(r->errors[i].code))
			return false;
	return r->cuda > 0;
}

/* In use before the run, and that is not to be. */
static void demand_idle(struct report *r)
{
	static const enum check_id ids[] = {CHECK_FREE_MEMORY, CHECK_NVML_PROCESSES};

	for (size_t i = 0; i < r->n_gpus; i++) {
		for (size_t k = 0; k < sizeof(ids) / sizeof(ids[0]); k++) {
			struct check_result *c = r->gpus[i].checks[ids[k]];

			if (c && c->status == STATUS_WARN)
				c->status = STATUS_FAIL;
		}
	}
}

static void finish(const struct run_config *c, struct run_facts *f, struct report *r,
	enum workers_end end, double began)
{
	r->complete = end == WORKERS_DONE;
	if (end == WORKERS_STOPPED)
		(void)report_add_error(
			r, -1, CODE_INTERRUPTED, 0, "the run was ended before it was done");
	if (end == WORKERS_TIMED_OUT)
		(void)report_add_error(r, -1, CODE_TIMED_OUT, 0,
			"the run took longer than its limit; --timeout sets another");
	run_gpus_count(r);
	run_gpus_parents(f, r);
	if (r->cuda > 0)
		demand(c->options, r);
	run_facts_checks(f, c->thresholds, r);
	if (r->profile != PROFILE_VERIFY_REMOTE)
		thresholds_peers(c->thresholds, r);
	if (c->options->require_idle)
		demand_idle(r);
	links_judge(c->thresholds, r);
	retry_tell(r);
	r->duration_s = clock_s() - began;
	report_judge(r);
}

int run_probe(const struct run_config *config, struct report *r, struct err *err)
{
	struct run_facts facts;
	enum workers_end end = WORKERS_DONE;
	double began = clock_s();
	int rc;

	begin(config, r);
	if (!run_facts_init(&facts, config->root))
		return err_set(err, ERR_NOMEM, "out of memory");
	rc = look_around(config, &facts, r, &end, err);
	if (rc == 0) {
		decide_remote(config, &facts, r);
		run_gpus_complete(&facts, r);
		rc = select_gpus(config->options, r, err);
	}
	if (rc == 0 && end == WORKERS_DONE && can_use_cuda(r) && needs_workers(config, r))
		rc = check_gpus(config, &facts, r, began, &end, err);
	if (rc == 0)
		finish(config, &facts, r, end, began);
	run_facts_release(&facts);
	return rc;
}
