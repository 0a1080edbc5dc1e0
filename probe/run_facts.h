/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what a run gathers beside CUDA, and the checks it makes of that. */
#ifndef PROBE_RUN_FACTS_H
#define PROBE_RUN_FACTS_H

#include <stdbool.h>
#include <stddef.h>

#include "probe/check/checks_host.h"
#include "probe/check/worker_wire.h"
#include "probe/result/report.h"
#include "probe/run.h"

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

#endif
