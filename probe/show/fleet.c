/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what `gpuprobe serve` knows of its server's GPUs between checks. */
#include "probe/show/fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/check/checks_host.h"

bool fleet_init(struct fleet *f, const char *server, int expected, int64_t stale_after_s)
{
	*f = (struct fleet){.expected = expected, .stale_after_s = stale_after_s};
	(void)snprintf(f->server, sizeof(f->server), "%s", server);
	f->gpus = calloc(REPORT_GPUS_MAX, sizeof(*f->gpus));
	return f->gpus != NULL;
}

static void drop_checks(struct gpu_report *gpu)
{
	for (int i = 0; i < CHECK_COUNT; i++) {
		free(gpu->checks[i]);
		gpu->checks[i] = NULL;
	}
}

void fleet_release(struct fleet *f)
{
	for (size_t i = 0; i < f->n_gpus; i++)
		drop_checks(&f->gpus[i].known);
	free(f->gpus);
	f->gpus = NULL;
	f->n_gpus = 0;
}

/* ---- which one ---- */

static struct fleet_gpu *find(struct fleet *f, const char *uuid, const char *pci)
{
	for (size_t i = 0; i < f->n_gpus; i++) {
		const struct gpu_report *known = &f->gpus[i].known;

		if (uuid[0] && known->uuid[0] ? strcmp(known->uuid, uuid) == 0
					      : host_same_pci(known->pci, pci))
			return &f->gpus[i];
	}
	return NULL;
}

/* Who it is and how large. The verdict, and the checks that it came from, are a verify's alone:
 * what a list finds in order says nothing of memory and arithmetic. */
static struct fleet_gpu *find_or_add(struct fleet *f, const struct gpu_report *gpu)
{
	struct fleet_gpu *ret = find(f, gpu->uuid, gpu->pci);
	struct check_result *checks[CHECK_COUNT] = {NULL};

	if (!ret) {
		if (f->n_gpus == REPORT_GPUS_MAX)
			return NULL;
		ret = &f->gpus[f->n_gpus++];
		*ret = (struct fleet_gpu){0};
	}
	memcpy(checks, ret->known.checks, sizeof(checks));
	if (gpu->name[0] || !ret->known.name[0]) { /* of a lost one only the PCI id is known */
		int64_t available = ret->known.memory_free_bytes,
			total = ret->known.memory_total_bytes;
		enum gpu_health health = ret->known.health;
		bool fit = ret->known.fit;

		ret->known = *gpu;
		ret->known.fit = fit;
		ret->known.health = health;
		if (gpu->memory_total_bytes < 0 && ret->verified)
			ret->known.memory_total_bytes = total;
		if (gpu->memory_free_bytes < 0 && ret->verified)
			ret->known.memory_free_bytes = available;
	}
	memcpy(ret->known.checks, checks, sizeof(checks));
	return ret;
}

/* ---- reasons ---- */

static void add_reason(char *to, const char *code, const char *text)
{
	size_t len = strlen(to);

	(void)snprintf(to + len, FLEET_REASONS_MAX - len, "%s%s: %s", len ? "; " : "", code, text);
}

static void add_reasons(
	struct fleet_gpu *gpu, const struct report *r, const struct gpu_report *seen)
{
	gpu->verdict[0] = '\0';
	for (size_t i = 0; i < r->n_errors; i++)
		if (r->errors[i].gpu == seen->index)
			add_reason(gpu->verdict, code_text(r->errors[i].code)->name,
				r->errors[i].message);
	for (int i = 0; i < CHECK_COUNT; i++) {
		const struct check_result *c = seen->checks[i];

		if (c && (c->status == STATUS_FAIL || c->status == STATUS_ERROR ||
				 (c->status == STATUS_WARN && r->strict)))
			add_reason(gpu->verdict, code_text(c->code)->name, c->message);
	}
	if (!gpu->verdict[0])
		add_reason(gpu->verdict, code_text(CODE_NOT_RUN)->name,
			"a required check has no result");
}

/* What stands against the server as a whole. */
static void take_trouble(struct fleet *f, const struct report *r)
{
	f->trouble[0] = '\0';
	for (size_t i = 0; i < r->n_errors; i++)
		if (r->errors[i].gpu < 0)
			add_reason(f->trouble, code_text(r->errors[i].code)->name,
				r->errors[i].message);
}

/* ---- reports ---- */

static void keep_checks(struct fleet_gpu *gpu, const struct gpu_report *seen)
{
	drop_checks(&gpu->known);
	for (int i = 0; i < CHECK_COUNT; i++)
		if (seen->checks[i])
			(void)report_set_check(&gpu->known, seen->checks[i]);
}

bool fleet_was_busy(const struct gpu_report *gpu)
{
	const struct check_result *c = gpu->checks[CHECK_MEM_READ];

	return c && c->status == STATUS_SKIP && strcmp(c->reason, "busy") == 0;
}

void fleet_verified(struct fleet *f, const struct report *r, int64_t now)
{
	/* without CUDA no GPU can be used, whatever was found earlier */
	for (size_t i = 0; i < f->n_gpus && r->exit == EXIT_NO_CUDA; i++)
		f->gpus[i].present = false;
	for (size_t i = 0; i < r->n_gpus; i++) {
		const struct gpu_report *seen = &r->gpus[i];
		struct fleet_gpu *gpu;

		/* what was not finished says nothing, unless it says that something is wrong */
		if (!r->complete && seen->health != HEALTH_FAIL)
			continue;
		gpu = find_or_add(f, seen);
		if (!gpu)
			continue;
		/* somebody began to compute there: what could not be measured takes no verdict back
		 */
		if (gpu->verified && seen->health == HEALTH_UNKNOWN && fleet_was_busy(seen))
			continue;
		gpu->present = seen->name[0] != '\0';
		gpu->verified = true;
		gpu->verified_at = now;
		gpu->known.fit = seen->fit;
		gpu->known.health = seen->health;
		if (seen->fit)
			gpu->verdict[0] = '\0';
		else
			add_reasons(gpu, r, seen);
		keep_checks(gpu, seen);
	}
	f->driver_cuda = r->driver_cuda;
	if (r->driver_version[0])
		(void)snprintf(
			f->driver_version, sizeof(f->driver_version), "%s", r->driver_version);
	take_trouble(f, r);
	if (r->complete)
		f->verified_at = f->looked_at = now;
}

void fleet_listed(struct fleet *f, const struct report *r, int64_t now)
{
	take_trouble(f, r);
	f->driver_cuda = r->driver_cuda;
	if (!r->complete)
		return;
	for (size_t i = 0; i < f->n_gpus; i++)
		f->gpus[i].present = false;
	for (size_t i = 0; i < r->n_gpus; i++) {
		struct fleet_gpu *gpu = find_or_add(f, &r->gpus[i]);

		if (gpu)
			gpu->present = r->gpus[i].name[0] != '\0';
	}
	f->looked_at = now;
}

/* ---- looks of NVML ---- */

void fleet_look_begin(struct fleet *f)
{
	for (size_t i = 0; i < f->n_gpus; i++) {
		f->gpus[i].now[0] = '\0';
		f->gpus[i].told_now = false;
	}
}

/* Checks of NVML's counters since the first look at this GPU. */
static void judge_now(struct fleet_gpu *gpu)
{
	static const enum check_id ids[] = {CHECK_NVML_ECC, CHECK_NVML_REMAP};
	struct host_facts facts = {.gpu = &gpu->known,
		.local = true,
		.server_has_nvml = true,
		.before = &gpu->first,
		.after = &gpu->last};

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		struct check_result c;

		check_begin(&c, ids[i]);
		if (check_host(&facts, &c) && c.status == STATUS_FAIL)
			add_reason(gpu->now, code_text(c.code)->name, c.message);
	}
}

void fleet_look(struct fleet *f, const struct wire_state *state)
{
	struct fleet_gpu *gpu = find(f, state->uuid, state->pci);

	if (!gpu)
		return; /* CUDA has not shown it yet: the next list or verify will */
	gpu->told_now = true;
	if (state->lost) {
		add_reason(gpu->now, code_text(CODE_GPU_MISSING)->name,
			"NVML cannot reach it: it has fallen off the bus");
		return;
	}
	if (!gpu->told)
		gpu->first = state->nvml;
	gpu->told = true;
	gpu->last = state->nvml;
	gpu->known.processes = state->nvml.processes;
	gpu->known.utilization_percent = state->nvml.utilization_percent;
	if (state->nvml.memory_free >= 0 && state->nvml.memory_total > 0) {
		/* NVML counts reserved memory, too: what is free of CUDA's total */
		int64_t used = state->nvml.memory_total - state->nvml.memory_free;

		gpu->known.memory_free_bytes = gpu->known.memory_total_bytes > used
						       ? gpu->known.memory_total_bytes - used
						       : 0;
	}
	judge_now(gpu);
}

void fleet_look_end(struct fleet *f, int told, int64_t now)
{
	if (told < 0)
		return;
	for (size_t i = 0; i < f->n_gpus; i++)
		if (f->gpus[i].told && !f->gpus[i].told_now)
			add_reason(f->gpus[i].now, code_text(CODE_GPU_MISSING)->name,
				"NVML no longer lists it");
	f->looked_at = now;
}

bool fleet_idle(const struct fleet_gpu *gpu)
{
	return !gpu->told || !nvml_is_busy(&gpu->last);
}

bool fleet_fit(const struct fleet_gpu *gpu)
{
	return gpu->present && gpu->verified && gpu->known.fit && !gpu->now[0];
}

const char *fleet_unready(const struct fleet *f, int64_t now)
{
	if (f->verified_at == 0)
		return "not verified yet";
	if (now - f->looked_at > f->stale_after_s)
		return "the last look at the GPUs is too old";
	for (size_t i = 0; i < f->n_gpus; i++)
		if (fleet_fit(&f->gpus[i]))
			return NULL;
	return "no GPU is fit";
}
