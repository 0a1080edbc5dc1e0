/* SPDX-License-Identifier: Apache-2.0 */
/* probe: a report's memory and its names. */
#include "probe/result/report.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void report_init(struct report *r)
{
	memset(r, 0, sizeof(*r));
	r->command = "verify";
	r->profile = PROFILE_VERIFY;
	r->vm = -1;
	r->expected = r->pci = r->nvml_count = r->cuda = -1;
	r->duration_s = NAN;
	/* nothing was found out yet */
	r->exit = EXIT_INCONCLUSIVE;
}

void report_release(struct report *r)
{
	for (size_t i = 0; i < r->n_gpus; i++)
		for (size_t k = 0; k < CHECK_COUNT; k++)
			free(r->gpus[i].checks[k]);
	free(r->gpus);
	free(r->links);
	free(r->errors);
	report_init(r);
}

void report_gpu_init(struct gpu_report *gpu)
{
	memset(gpu, 0, sizeof(*gpu));
	gpu->index = -1;
	gpu->cc_major = gpu->cc_minor = gpu->sm_count = -1;
	gpu->ecc = gpu->mig = gpu->compute_mode = -1;
	gpu->memory_total_bytes = gpu->memory_free_bytes = gpu->l2_bytes = -1;
	gpu->clock_max_mhz = gpu->memory_clock_max_mhz = gpu->memory_bus_bits = -1;
	gpu->health = HEALTH_UNKNOWN;
	gpu->utilization_percent = NAN;
	gpu->processes = -1;
}

struct gpu_report *report_add_gpu(struct report *r)
{
	struct gpu_report *gpus, *gpu;

	if (r->n_gpus == REPORT_GPUS_MAX)
		return NULL;
	gpus = realloc(r->gpus, (r->n_gpus + 1) * sizeof(*gpus));
	if (!gpus)
		return NULL;
	r->gpus = gpus;
	gpu = &gpus[r->n_gpus++];
	report_gpu_init(gpu);
	return gpu;
}

bool report_set_check(struct gpu_report *gpu, const struct check_result *result)
{
	struct check_result **at;

	if ((unsigned)result->id >= CHECK_COUNT)
		return false;
	at = &gpu->checks[result->id];
	if (!*at)
		*at = malloc(sizeof(**at));
	if (!*at)
		return false;
	**at = *result;
	return true;
}

bool report_add_error(
	struct report *r, int gpu, enum probe_code code, int cuda_error, const char *fmt, ...)
{
	struct report_error *errors = realloc(r->errors, (r->n_errors + 1) * sizeof(*errors));
	struct report_error *e;
	va_list args;

	if (!errors) {
		/* the error is lost, so nothing may pass any more */
		r->complete = false;
		return false;
	}
	r->errors = errors;
	e = &errors[r->n_errors++];
	memset(e, 0, sizeof(*e));
	e->gpu = gpu;
	e->code = code;
	e->cuda_error = cuda_error;
	va_start(args, fmt);
	vsnprintf(e->message, sizeof(e->message), fmt, args);
	va_end(args);
	return true;
}

const char *report_health_name(enum gpu_health health)
{
	static const char *const names[] = {"unknown", "ok", "warn", "fail"};

	return names[(unsigned)health <= HEALTH_FAIL ? health : HEALTH_UNKNOWN];
}

const char *report_verdict_name(enum probe_exit status)
{
	static const char *const names[] = {"pass", "fail", "usage", "no_cuda", "inconclusive"};

	return names[(unsigned)status <= EXIT_INCONCLUSIVE ? status : EXIT_INCONCLUSIVE];
}
