/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what workers tell, put into the report. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "probe/check/worker_wire.h"
#include "probe/result/report_links.h"
#include "probe/worker/retry.h"
#include "probe/worker/workers_impl.h"

#define PROGRESS_EVERY_MS 100

int64_t crowd_after(double seconds)
{
	return clock_ms() + (int64_t)(seconds * 1000);
}

void crowd_note(struct crowd *c, const struct running *w, enum probe_code code, int cuda,
	const char *message)
{
	int gpu = w->gpu < 0 ? -1 : c->r->gpus[w->gpu].index;

	if (w->link >= 0) { /* it says of neither GPU alone what is wrong */
		links_note(c->r, (size_t)w->link, code, cuda, message);
		links_note(c->r, (size_t)w->link + 1, code, cuda, message);
		return;
	}
	if (!report_add_error(c->r, gpu, code, cuda, "%s", message))
		c->failed = true;
}

static void refuse(struct crowd *c, struct running *w, enum probe_code code, const char *message)
{
	w->refused = true;
	crowd_note(c, w, code, 0, message);
}

/* When a GPU goes, those behind it move up: then this worker has another one than it was started
 * for. */
static bool is_another(const struct gpu_report *known, const struct gpu_report *found)
{
	return (known->uuid[0] && !known->by_uuid && strcmp(known->uuid, found->uuid) != 0) ||
	       (known->pci[0] && strcmp(known->pci, found->pci) != 0);
}

/* A GPU that was described: a scout's is new, another's is better known now. */
static void take_gpu(struct crowd *c, struct running *w, const struct gpu_report *found)
{
	struct gpu_report *gpu = w->gpu < 0 ? report_add_gpu(c->r) : &c->r->gpus[w->gpu];
	struct gpu_report known;

	if (!gpu) {
		c->failed = true;
		return;
	}
	if (w->gpu >= 0 && is_another(gpu, found)) {
		refuse(c, w, CODE_GPU_MISSING,
			"another GPU has its number now: GPUs have gone since they were counted");
		return;
	}
	known = *gpu;
	*gpu = *found;
	memcpy(gpu->checks, known.checks, sizeof(gpu->checks));
	gpu->first_try = known.first_try;
	if (w->gpu >= 0) {
		gpu->index = known.index;
		gpu->remote = known.remote;
		gpu->by_uuid = known.by_uuid;
		if (known.by_uuid) /* it was asked for by this one, whatever the runtime calls it */
			memcpy(gpu->uuid, known.uuid, sizeof(gpu->uuid));
		gpu->processes = known.processes;
		gpu->utilization_percent = known.utilization_percent;
	}
}

static void take_runtime(struct report *r, const struct wire_line *line)
{
	r->driver_cuda = line->driver;
	r->cudart = line->runtime;
	r->cuda = line->devices;
	(void)snprintf(r->link, sizeof(r->link), "%s", line->link);
	(void)snprintf(r->archs, sizeof(r->archs), "%s", line->archs);
}

static void take_nvml(struct report *r, const struct wire_line *line)
{
	r->nvml = line->devices >= 0;
	r->nvml_count = line->devices;
	(void)snprintf(
		r->driver_version, sizeof(r->driver_version), "%.31s", r->nvml ? line->text : "");
}

/* Of all GPUs together. */
static double done_so_far(const struct crowd *c)
{
	double sum = 0;
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++) {
		if (c->all[i].job->task != TASK_GPU)
			continue;
		sum += c->all[i].done;
		n++;
	}
	return n ? sum / (double)n : 0;
}

static void take_progress(struct crowd *c, struct running *w, const struct wire_line *line)
{
	w->done = line->done;
	if (c->config->progress && clock_ms() - c->shown >= PROGRESS_EVERY_MS) {
		c->shown = clock_ms();
		c->config->progress(c->config->arg, done_so_far(c), line->text);
	}
}

/* An error that spoilt the context, of a GPU that may be tried once more. */
static bool try_again(struct crowd *c, struct running *w, enum check_id check, enum probe_code code,
	int cuda_error, const char *message)
{
	struct gpu_report *gpu = w->gpu < 0 ? NULL : &c->r->gpus[w->gpu];

	if (!gpu || c->config->in_process || c->stopping || w->leaving ||
		!retry_allowed(c->r, gpu, check, code, cuda_error))
		return false;
	retry_note(gpu, check, code, cuda_error, message);
	w->again = true;
	return true;
}

static void take_check(struct crowd *c, struct running *w, const struct check_result *found)
{
	if (found->status == STATUS_FAIL || found->status == STATUS_ERROR)
		(void)try_again(c, w, found->id, found->code, found->cuda_error, found->message);
	else if (found->id == CHECK_KERNEL_IMAGE)
		w->held = false; /* the context that could not be had is there */
	if (!report_set_check(&c->r->gpus[w->gpu], found))
		c->failed = true;
}

static void take_error(struct crowd *c, struct running *w, const struct report_error *found)
{
	char twice[sizeof(found->message)];

	if (try_again(c, w, CHECK_COUNT, found->code, found->cuda_error, found->message)) {
		w->held = true;
	} else if (w->held && c->r->gpus[w->gpu].first_try.code == found->code) {
		w->held = false;
		(void)snprintf(twice, sizeof(twice), "%.260s, in two processes one after the other",
			found->message);
		crowd_note(c, w, found->code, found->cuda_error, twice);
	} else {
		crowd_note(c, w, found->code, found->cuda_error, found->message);
	}
}

void crowd_note_held(struct crowd *c, struct running *w)
{
	const struct first_try *first = w->held ? &c->r->gpus[w->gpu].first_try : NULL;

	w->held = false;
	if (first)
		crowd_note(c, w, first->code, first->cuda_error, first->message);
}

static bool is_uuid_of(const struct report *r, int index, const char *uuid)
{
	for (size_t i = 0; i < r->n_gpus; i++)
		if (r->gpus[i].index == index)
			return !r->gpus[i].uuid[0] || strcmp(r->gpus[i].uuid, uuid) == 0;
	return false;
}

static void take_link(struct crowd *c, struct running *w, const struct wire_line *line)
{
	size_t place = (size_t)w->link + (line->reverse ? 1 : 0);
	const struct link_report *link = &c->r->links[place];

	if (is_uuid_of(c->r, link->from, line->from) && is_uuid_of(c->r, link->to, line->to))
		links_take(c->r, place, &line->check);
	else
		refuse(c, w, CODE_GPU_MISSING,
			"another GPU has its number now: GPUs have gone since they were counted");
}

static void take_line(struct crowd *c, struct running *w, const struct wire_line *line)
{
	if (!w->leaving)
		w->limit = crowd_after(
			line->kind == WIRE_WITHIN ? line->seconds : c->config->phase_limit_s);
	switch (line->kind) {
	case WIRE_RUNTIME:
		take_runtime(c->r, line);
		break;
	case WIRE_GPU:
		take_gpu(c, w, &line->gpu);
		break;
	case WIRE_WITHIN:
		(void)snprintf(w->phase, sizeof(w->phase), "%s", line->text);
		break;
	case WIRE_CHECK:
		if (w->gpu >= 0)
			take_check(c, w, &line->check);
		break;
	case WIRE_PROGRESS:
		take_progress(c, w, line);
		break;
	case WIRE_ERROR:
		take_error(c, w, &line->error);
		break;
	case WIRE_NVML:
		take_nvml(c->r, line);
		break;
	case WIRE_STATE:
		if (c->config->state)
			c->config->state(c->config->arg, &line->state);
		break;
	case WIRE_LINK:
		if (w->link >= 0)
			take_link(c, w, line);
		break;
	case WIRE_DONE:
		w->finished = true;
		w->done = 1;
		(void)snprintf(w->phase, sizeof(w->phase), "the end of its process");
		break;
	}
}

static void read_line(struct crowd *c, struct running *w, struct slice text)
{
	struct wire_line line;
	struct err err = {0};
	char message[320];

	if (wire_read(text, &line, &err) == 0) {
		take_line(c, w, &line);
		return;
	}
	(void)snprintf(message, sizeof(message),
		"the worker wrote what cannot be read, in %.90s: %.160s",
		w->phase[0] ? w->phase : "start", err.msg);
	refuse(c, w, CODE_WORKER_DIED, message);
}

void crowd_take_lines(struct crowd *c, struct running *w)
{
	size_t from = 0;

	for (size_t i = 0; i < w->in.len && !w->refused; i++) {
		if (w->in.data[i] != '\n')
			continue;
		read_line(c, w, (struct slice){w->in.data + from, i - from});
		from = i + 1;
	}
	if (from > 0) {
		memmove(w->in.data, w->in.data + from, w->in.len - from);
		w->in.len -= from;
	}
}
