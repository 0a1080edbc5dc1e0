/* SPDX-License-Identifier: Apache-2.0 */
/* probe: which GPUs a run is about, beyond those that CUDA shows to one process. */
#ifndef PROBE_RUN_GPUS_H
#define PROBE_RUN_GPUS_H

#include "probe/result/report.h"
#include "probe/run_facts.h"

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

#endif
