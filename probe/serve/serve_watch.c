/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what gpuprobe-serve looks at: NVML, the list of GPUs, verifies. It holds no CUDA context:
 * workers do what needs CUDA or NVML. */
#define _GNU_SOURCE
#include "probe/serve/serve_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "probe/run.h"
#include "probe/worker/workers.h"

#define LOOK_LIMIT_S 10.0

/* ---- looks ---- */

struct look {
	struct serve_shared *shared;
	struct wire_state *states;
	size_t n;
};

static void take_state(void *arg, const struct wire_state *state)
{
	struct look *l = arg;

	if (l->n < REPORT_GPUS_MAX)
		l->states[l->n++] = *state;
}

/* One look of NVML, in a process of its own: with a lost GPU its calls may never return. */
void serve_look(struct serving *s)
{
	struct worker_job job = {.task = TASK_NVML, .nvml = s->options.verify.nvml};
	struct look l = {
		.shared = &s->shared, .states = calloc(REPORT_GPUS_MAX, sizeof(struct wire_state))};
	struct workers_config config = {.program = s->program,
		.jobs = &job,
		.n_jobs = 1,
		.phase_limit_s = LOOK_LIMIT_S,
		.total_limit_s = LOOK_LIMIT_S,
		.stop_fd = s->term_fd,
		.state = take_state,
		.arg = &l};
	enum workers_end end;
	struct report r;

	report_init(&r);
	if (l.states && workers_run(&config, &r, &end, NULL) == 0 && end == WORKERS_DONE &&
		r.n_errors == 0 && r.nvml) {
		(void)pthread_mutex_lock(&s->shared.lock);
		fleet_look_begin(&s->shared.fleet);
		for (size_t i = 0; i < l.n; i++)
			fleet_look(&s->shared.fleet, &l.states[i]);
		fleet_look_end(&s->shared.fleet, (int)l.n, clock_wall_s());
		(void)pthread_mutex_unlock(&s->shared.lock);
		s->shared.nvml = true;
	} else {
		s->shared.nvml = false;
	}
	report_release(&r);
	free(l.states);
}

/* The list of GPUs by CUDA; with their free memory where NVML does not tell it. */
void serve_list(struct serving *s)
{
	struct probe_options o = s->options.verify;
	struct report r;
	struct err err = {0};

	o.command = COMMAND_LIST;
	o.free_memory = !s->shared.nvml;
	o.min_memory_bytes = 0; /* verify looks at it; here it would take a context each time */

	struct run_config config = {.options = &o,
		.thresholds = &s->thresholds,
		.program = s->program,
		.root = s->root,
		.stop_fd = s->term_fd};

	report_init(&r);
	if (run_probe(&config, &r, &err) == 0) {
		(void)pthread_mutex_lock(&s->shared.lock);
		fleet_listed(&s->shared.fleet, &r, clock_wall_s());
		(void)pthread_mutex_unlock(&s->shared.lock);
	} else {
		log_line(&s->log, LOG_LEVEL_ERROR, "list", log_str("error", err.msg));
	}
	report_release(&r);
}

/* ---- verify ---- */

/* GPUs that somebody computes on keep their verdict: --gpu names the others. False: there is none
 * to check. */
static bool choose_idle(struct serving *s, struct probe_options *o, char (*names)[48])
{
	const struct fleet *f = &s->shared.fleet;
	bool busy = false;

	(void)pthread_mutex_lock(&s->shared.lock);
	for (size_t i = 0; i < f->n_gpus; i++) {
		const struct fleet_gpu *gpu = &f->gpus[i];

		if (!gpu->present)
			continue;
		if (!fleet_idle(gpu)) {
			busy = true;
			continue;
		}
		(void)snprintf(names[o->n_gpus], sizeof(names[0]), "%s",
			gpu->known.uuid[0] ? gpu->known.uuid : gpu->known.pci);
		o->gpus[o->n_gpus] = names[o->n_gpus];
		o->n_gpus++;
	}
	(void)pthread_mutex_unlock(&s->shared.lock);
	if (!busy)
		o->n_gpus = 0; /* all, those that nobody has seen yet among them */
	return !busy || o->n_gpus > 0;
}

static void note_change(struct serving *s, const struct report *r)
{
	for (size_t i = 0; i < r->n_gpus; i++)
		if (!r->gpus[i].fit)
			log_line(&s->log, LOG_LEVEL_WARN, "GPU is not fit",
				log_int("index", r->gpus[i].index),
				log_str("uuid", r->gpus[i].uuid), log_str("pci", r->gpus[i].pci),
				log_str("code", code_text(report_problem(r, &r->gpus[i]))->name));
	log_line(&s->log, LOG_LEVEL_INFO, "verified", log_int("gpus", (int64_t)r->n_gpus),
		log_str("verdict", report_verdict_name(r->exit)),
		log_int("ms", (int64_t)(r->duration_s * 1000)));
}

static void verify(struct serving *s)
{
	char(*names)[48] = calloc(REPORT_GPUS_MAX, sizeof(*names));
	struct probe_options o = s->options.verify;
	struct run_config config = {.options = &o,
		.thresholds = &s->thresholds,
		.program = s->program,
		.root = s->root,
		.stop_fd = s->stop_fd};
	struct report r;
	struct err err = {0};

	report_init(&r);
	if (!names || !choose_idle(s, &o, names)) {
		log_text(&s->log, LOG_LEVEL_INFO, "verify: put off, every GPU is in use");
		atomic_store(&s->open, true);
	} else if (run_probe(&config, &r, &err) != 0) {
		log_line(&s->log, LOG_LEVEL_ERROR, "verify", log_str("error", err.msg));
	} else {
		struct buf text;

		note_change(s, &r);
		for (size_t i = 0; i < r.n_gpus; i++)
			if (fleet_was_busy(&r.gpus[i]))
				atomic_store(&s->open, true);
		buf_init(&text, SERVE_BYTES_MAX);
		(void)report_json(&r, &text, NULL);
		(void)pthread_mutex_lock(&s->shared.lock);
		fleet_verified(&s->shared.fleet, &r, clock_wall_s());
		if (!text.failed) {
			buf_release(&s->shared.report);
			s->shared.report = text;
			buf_init(&text, 0);
		}
		(void)pthread_mutex_unlock(&s->shared.lock);
		buf_release(&text);
	}
	report_release(&r);
	free(names);
}

static void *run_verifier(void *arg)
{
	struct serving *s = arg;

	verify(s);
	atomic_store(&s->verified, true);
	return NULL;
}

void serve_join(struct serving *s)
{
	if (!s->verifying)
		return;
	(void)pthread_join(s->verifier, NULL);
	s->verifying = false;
}

/* In a thread of its own, since a hung GPU takes its time, and the others are looked at meanwhile.
 */
void serve_verify(struct serving *s)
{
	if (s->verifying && !atomic_load(&s->verified))
		return;
	serve_join(s);
	atomic_store(&s->verified, false);
	atomic_store(&s->open, false);
	s->verifying = pthread_create(&s->verifier, NULL, run_verifier, s) == 0;
	if (!s->verifying)
		log_text(&s->log, LOG_LEVEL_ERROR, "verify: no thread could be started");
}
