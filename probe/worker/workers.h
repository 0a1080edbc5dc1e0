/* SPDX-License-Identifier: Apache-2.0 */
/* probe: one process per GPU, seen from outside. The parent executes this program anew for each,
 * reads its lines and holds it to its deadlines. A GPU that hangs costs its deadline and no more:
 * the worker is killed and not waited for, since a process in the driver may be unkillable. Fork
 * without exec would share the connection that a remote-GPU client makes before main(). */
#ifndef PROBE_WORKER_WORKERS_H
#define PROBE_WORKER_WORKERS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "probe/check/worker.h"
#include "probe/check/worker_wire.h"
#include "probe/result/report.h"

struct workers_config {
	const char *program; /* to execute with "--worker JOB"; "/proc/self/exe" */
	const struct worker_job *jobs;
	const int *gpus; /* of each job, the place in r->gpus that its lines are for; of TASK_PAIR,
			    that of its first link in r->links; not looked at for other tasks */
	size_t n_jobs;
	double phase_limit_s; /* until the first line, and after a line that names no limit */
	double total_limit_s; /* of the whole run; 0: none */
	int stop_fd;          /* readable when the run is to end early, or -1 */
	bool in_process; /* one after another in this process, for launchers that forbid children:
			    no deadline holds then */
	/* What NVML said of a GPU; WIRE_STATE lines. NULL: nobody asks. */
	void (*state)(void *arg, const struct wire_state *state);
	/* How far all are together, 0 … 1, and a few words; at most ten times a second. NULL:
	 * nobody asks. */
	void (*progress)(void *arg, double done, const char *text);
	void *arg;
};

enum workers_end { WORKERS_DONE, WORKERS_STOPPED, WORKERS_TIMED_OUT };

/* Run all jobs at once, TASK_NVML_WATCH for as long as others go on, and put what they tell into
 * the report: of a scout runtime versions and GPUs, of others the checks of their GPU. A worker
 * that passes a deadline is killed: error HANG with the phase; one that dies or writes what cannot
 * be read: WORKER_DIED, with its signal or status. *ret_end says how it ended: by stop_fd or the
 * total limit all workers are told to stop, then killed after a second. ERR_NOMEM, ERR_IO: no
 * process could be started. */
int workers_run(const struct workers_config *config, struct report *r, enum workers_end *ret_end,
	struct err *err);

#endif
