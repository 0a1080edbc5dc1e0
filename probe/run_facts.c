/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what a run gathers beside CUDA, and the checks it makes of that. */
#define _GNU_SOURCE
#include "probe/run_facts.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "probe/kernels/kernels.h"

#define KERNEL_LOG_MAX (4u << 20)

bool run_facts_init(struct run_facts *f, const char *root)
{
	*f = (struct run_facts){.root = root};
	f->gpus = calloc(REPORT_GPUS_MAX, sizeof(*f->gpus));
	return f->gpus != NULL;
}

void run_facts_release(struct run_facts *f)
{
	free(f->host);
	free(f->gpus);
	f->host = NULL;
	f->gpus = NULL;
	f->n_gpus = 0;
	f->n_host = 0;
}

/* Instances share their GPU's place on the bus. */
static struct gpu_facts *find_exactly(const struct run_facts *f, const char *uuid, const char *pci)
{
	bool instance = report_is_instance(uuid);

	for (size_t i = 0; i < f->n_gpus; i++) {
		struct gpu_facts *g = &f->gpus[i];

		if (instance ? strcmp(g->uuid, uuid) == 0
			     : !report_is_instance(g->uuid) && host_same_pci(g->pci, pci))
			return g;
	}
	return NULL;
}

/* What NVML said of it; of an instance that it does not name, what it said of the GPU. */
static struct gpu_facts *find(const struct run_facts *f, const struct gpu_report *gpu)
{
	struct gpu_facts *found = find_exactly(f, gpu->uuid, gpu->pci);

	return found ? found : find_exactly(f, "", gpu->pci);
}

void run_facts_before(void *facts, const struct wire_state *state)
{
	struct run_facts *f = facts;
	struct gpu_facts *gpu;

	if (f->n_gpus == REPORT_GPUS_MAX || find_exactly(f, state->uuid, state->pci))
		return;
	gpu = &f->gpus[f->n_gpus++];
	*gpu = (struct gpu_facts){.lost = state->lost, .before = state->nvml};
	(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "%s", state->uuid);
	(void)snprintf(gpu->pci, sizeof(gpu->pci), "%s", state->pci);
}

void run_facts_state(void *facts, const struct wire_state *state)
{
	struct gpu_facts *gpu = find_exactly(facts, state->uuid, state->pci);

	if (!gpu)
		return;
	gpu->lost = gpu->lost || state->lost;
	if (state->lost)
		return;
	gpu->after = state->nvml;
	gpu->seen_after = true;
	nvml_watch_add(&gpu->watch, &state->nvml);
}

void run_facts_progress(void *facts, double done, const char *text)
{
	const struct run_facts *f = facts;

	if (f->config && f->config->progress)
		f->config->progress(f->config->arg, done, text);
}

bool run_facts_busy(const struct run_facts *f, const struct gpu_report *gpu)
{
	const struct gpu_facts *known = find(f, gpu);

	return known && !known->lost && nvml_is_busy(&known->before);
}

/* The kernel's messages that are there now; NULL: not allowed, or none. */
static char *read_kernel_log(const char *root)
{
	char path[4096], line[8192];
	struct buf text;
	int fd;
	ssize_t n;

	if (snprintf(path, sizeof(path), "%s/dev/kmsg", root) >= (int)sizeof(path))
		return NULL;
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	buf_init(&text, KERNEL_LOG_MAX);
	while (!text.failed && (n = read(fd, line, sizeof(line))) > 0)
		buf_add(&text, line, (size_t)n);
	(void)close(fd);
	if (text.failed) { /* the newest would be missing */
		buf_release(&text);
		return NULL;
	}
	return buf_take(&text, NULL);
}

static const struct host_gpu *find_host(const struct run_facts *f, const char *pci)
{
	for (size_t i = 0; i < f->n_host; i++)
		if (host_same_pci(f->host[i].pci, pci))
			return &f->host[i];
	return NULL;
}

/* Why CUDA cannot be used. */
static enum probe_code why_no_cuda(const struct report *r)
{
	for (size_t i = 0; i < r->n_errors; i++)
		if (r->errors[i].gpu < 0 && code_is_no_cuda(r->errors[i].code))
			return r->errors[i].code;
	return r->cuda == 0 ? CODE_NO_DEVICE : CODE_NONE;
}

/* CUDA works. */
static void check_driver(struct report *r, struct gpu_report *gpu)
{
	enum probe_code code = why_no_cuda(r);
	struct check_result c;

	check_begin(&c, CHECK_ENV_DRIVER);
	if (code != CODE_NONE)
		check_fail(&c, code, "no GPU can be used");
	else if (r->cuda > 0)
		check_pass(&c);
	else
		check_error(&c, CODE_NOT_RUN, "CUDA did not say how many GPUs there are");
	(void)report_set_check(gpu, &c);
}

bool run_facts_instance(const struct report *r)
{
	for (size_t i = 0; i < r->n_gpus; i++)
		if (r->gpus[i].mig == 1)
			return true;
	return false;
}

/* All who can tell know of this GPU, and as many are there as were expected. */
static void check_count(const struct run_facts *f, struct report *r, struct gpu_report *gpu)
{
	struct check_result c;

	check_begin(&c, CHECK_ENV_COUNT);
	if (r->cuda <= 0 || (!gpu->name[0] && (gpu->by_uuid || run_facts_instance(r))))
		check_error(&c, CODE_NOT_RUN, "CUDA does not show it");
	else if (r->expected > 0 && r->cuda < r->expected)
		check_fail(&c, CODE_GPU_MISSING, "CUDA sees %d, expected are %d", r->cuda,
			r->expected);
	else if (!gpu->name[0])
		check_fail(&c, CODE_GPU_MISSING, "CUDA does not see this GPU");
	else if (r->nvml && !gpu->remote && gpu->pci[0] && !find(f, gpu))
		check_fail(&c, CODE_GPU_MISSING, "CUDA sees this GPU, and NVML does not");
	else
		check_pass(&c);
	(void)report_set_check(gpu, &c);
}

/* A list makes no context, so nothing is loaded: are there kernels for it? */
static void check_image(struct report *r, struct gpu_report *gpu)
{
	struct check_result c;

	if (r->profile != PROFILE_LIST || !gpu->name[0])
		return;
	check_begin(&c, CHECK_KERNEL_IMAGE);
	if (kernel_image_for(gpu->cc_major, gpu->cc_minor))
		check_pass(&c);
	else
		check_fail(&c, CODE_NO_KERNEL_IMAGE,
			"the GPU is sm_%d%d, for which this build has no kernels", gpu->cc_major,
			gpu->cc_minor);
	(void)report_set_check(gpu, &c);
}

static void check_gpu(struct run_facts *f, const struct thresholds *t, struct report *r,
	struct gpu_report *gpu, const char *kernel_log)
{
	const struct gpu_facts *nvml = find(f, gpu);
	struct host_facts facts = {.gpu = gpu,
		.local = !gpu->remote,
		.vm = r->vm == 1,
		.server_has_nvml = r->nvml,
		.host = find_host(f, gpu->pci),
		.all = f->host,
		.n_all = f->n_host,
		.environment = (const char *const *)environ,
		.kernel_log = kernel_log,
		.fatal_xids = t->fatal_xids_given ? t->fatal_xids : NULL,
		.n_fatal_xids = t->n_fatal_xids};

	if (nvml && !nvml->lost) {
		facts.before = &nvml->before;
		facts.watch = nvml->seen_after ? &nvml->watch : NULL;
		gpu->processes = nvml->before.processes;
		if (gpu->mig < 0 && nvml->before.mig == 0)
			gpu->mig = 0;
		if (nvml->before.utilization_percent >= 0)
			gpu->utilization_percent = nvml->before.utilization_percent;
	}
	for (int i = 0; i < CHECK_COUNT; i++) {
		struct check_result c;

		if (check_kind((enum check_id)i)->need[r->profile] == NEED_NOT_RUN)
			continue;
		if ((i == CHECK_H2D || i == CHECK_D2H) && gpu->checks[i])
			check_link(&facts, r->vm == 1, t, gpu->checks[i]);
		if (gpu->checks[i]) {
			check_shared(&facts, gpu->checks[i]);
			check_power_cap(&facts, gpu->checks[i]);
		}
		/* how counters grew takes two looks; the rest stands in the first one, too */
		facts.after = NULL;
		if (facts.before && (nvml->seen_after || i != CHECK_NVML_ECC))
			facts.after = nvml->seen_after ? &nvml->after : &nvml->before;
		check_begin(&c, (enum check_id)i);
		if (check_host(&facts, &c))
			(void)report_set_check(gpu, &c);
	}
	check_driver(r, gpu);
	check_count(f, r, gpu);
	check_image(r, gpu);
}

void run_facts_checks(struct run_facts *f, const struct thresholds *t, struct report *r)
{
	char *kernel_log = r->remote ? NULL : read_kernel_log(f->root);

	for (size_t i = 0; i < r->n_gpus; i++) {
		struct gpu_report *gpu = &r->gpus[i];
		const struct gpu_facts *nvml = find(f, gpu);

		if (nvml && nvml->lost)
			(void)report_add_error(r, gpu->index, CODE_GPU_MISSING, 0,
				"NVML cannot reach the GPU at %s: it has fallen off the bus",
				gpu->pci);
		check_gpu(f, t, r, gpu, kernel_log);
	}
	free(kernel_log);
}
