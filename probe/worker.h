/* SPDX-License-Identifier: Apache-2.0 */
/* probe: one process per GPU. The parent re-executes this program as a worker, reads JSON lines from its pipe, and holds it to a
 * deadline; a GPU that hangs costs its deadline and no more, since the parent kills the worker and does not wait for it. Fork
 * without exec would share a remote-GPU client's connection, which it makes before main(). */
#ifndef PROBE_WORKER_H
#define PROBE_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "probe/report.h"
#include "probe/rt.h"

/* What a worker is asked to do; passed on its command line. */
struct worker_job {
	enum probe_profile profile;
	const char *device; /* what CUDA_VISIBLE_DEVICES is set to: UUID, MIG UUID, or an index */
	int index;          /* its index in the report */
	bool remote, busy;  /* busy: no thresholds, no large allocations */
	uint64_t seed;
	double memory_share;    /* of free memory to test, 0 … 1; 0: the profile's own */
	int64_t memory_bytes;   /* or so many bytes; 0: by share */
	double seconds;         /* of stress */
	const char *thresholds; /* file, or NULL */
	const char *cudart;     /* for rt_dlopen, or NULL: as linked */
	int plant; /* a planted fault, for tests on real GPUs: 0 none, 1 memory bit, 2 lane */
};

/* In the worker: run the job, write one line per event to fd: {"gpu":{…}}, {"phase":"mem.pattern","within_s":20}, {"check":{…}},
 * {"progress":0.4,"text":"…"}, {"error":{…}}, {"done":true}. Stops after the first error that makes the context unusable. Returns the process's
 * exit status: 0 done, 1 stopped by an error that was told, 3 could not tell. */
int worker_run(const struct rt *rt, const struct worker_job *job, int fd);

/* In the parent. Called from workers_run() on its own thread. */
typedef void (*worker_progress)(void *arg, int index, double done, const char *text);

struct workers_config {
	const char *program; /* to re-execute; "/proc/self/exe" */
	const struct worker_job *jobs;
	size_t n_jobs;
	double phase_limit_s; /* for a phase that names no own limit, and for the start: 20 */
	double total_limit_s; /* of the whole run; 0: none */
	int stop_fd;          /* readable when the run is to end early, or -1 */
	bool in_process; /* one after another in this process, for clients that forbid children: no deadline holds then */
	const struct rt *rt;      /* for in_process */
	worker_progress progress; /* NULL: nobody asks */
	void *arg;
};

/* Run all jobs at once and put what they tell into the report's GPUs (job.index). A worker that passes its deadline is killed: CODE_HANG with
 * the phase; one that dies: CODE_WORKER_DIED with its signal; a line that cannot be read: CODE_WORKER_DIED. Ended by stop_fd or the total
 * limit: 0 with r->complete false. Returns 0; ERR_NOMEM, ERR_IO (no process could be started). */
int workers_run(const struct workers_config *config, struct report *r, struct err *err);

#endif
