/* SPDX-License-Identifier: Apache-2.0 */
/* probe: data between GPUs, pair by pair. */
#ifndef PROBE_RUN_PAIRS_H
#define PROBE_RUN_PAIRS_H

#include "probe/run.h"
#include "probe/run_facts.h"
#include "probe/worker/workers.h"

/* In profiles that have CHECK_P2P: a worker for each pair of GPUs that are fit to be measured, in
 * rounds in which no GPU is in two pairs. What they tell goes to r->links. One that hangs costs its
 * deadline; its GPUs are in no further pair. limit_s: what is left for all of it. ERR_NOMEM,
 * ERR_IO. */
int run_pairs(const struct run_config *c, struct run_facts *f, struct report *r, double limit_s,
	enum workers_end *end, struct err *err);

#endif
