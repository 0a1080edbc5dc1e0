/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what a run gathers beside CUDA, which GPUs it is about, and the checks it makes of that;
 * data between GPUs, pair by pair. */
#ifndef PROBE_RUN_FACTS_H
#define PROBE_RUN_FACTS_H

#include <stdbool.h>
#include <stddef.h>

#include "probe/check/checks_host.h"
#include "probe/check/worker_wire.h"
#include "probe/result/report.h"
#include "probe/run.h"
#include "probe/worker/workers.h"

/* What NVML said of one GPU. */
struct gpu_facts {
	char uuid[48], pci[20];
	bool lost; /* NVML could not reach it */
	struct nvml_state before, after;
	bool seen_after;
	struct nvml_watch watch;
};

struct run_facts {
	const struct run_config *config; /* for progress; NULL: nobody asks */
	const char *root;
	struct host_gpu *host;
	size_t n_host;
	struct gpu_facts *gpus; /* room for REPORT_GPUS_MAX */
	size_t n_gpus;
};

/* False: no memory. */
bool run_facts_init(struct run_facts *f, const char *root);
void run_facts_release(struct run_facts *f);

/* For struct workers_config, whose arg is the facts: the first look, looks under load, and
 * progress. */
void run_facts_before(void *facts, const struct wire_state *state);
void run_facts_state(void *facts, const struct wire_state *state);
void run_facts_progress(void *facts, double done, const char *text);

/* Did CUDA show a MIG instance? It shows a process one of them, and no other GPU beside it. */
bool run_facts_instance(const struct report *r);

/* Does somebody else compute on this GPU? False without NVML. */
bool run_facts_busy(const struct run_facts *f, const struct gpu_report *gpu);

/* Put the results of all checks that need no CUDA context with their GPUs, and judge links. */
void run_facts_checks(struct run_facts *f, const struct thresholds *t, struct report *r);

/* Add to the GPUs that the scout saw:
 * - the MIG instances that NVML knows, and the whole GPUs beside them, which CUDA shows only to a
 * process that names them (gpu->by_uuid);
 * - GPUs that the machine has and CUDA does not show, unless they are hidden on purpose, with an
 * error that says so. */
void run_gpus_complete(const struct run_facts *f, struct report *r);

/* CUDA's count, when every GPU had a worker: of those that were shown to a process that named them,
 * too. */
void run_gpus_count(struct report *r);

/* Whose instances are they? */
void run_gpus_parents(const struct run_facts *f, struct report *r);

/* In profiles that have CHECK_P2P: a worker for each pair of GPUs that are fit to be measured, in
 * rounds in which no GPU is in two pairs. What they tell goes to r->links. One that hangs costs its
 * deadline; its GPUs are in no further pair. limit_s: what is left for all of it. ERR_NOMEM,
 * ERR_IO. */
int run_pairs(const struct run_config *c, struct run_facts *f, struct report *r, double limit_s,
	enum workers_end *end, struct err *err);

#endif
