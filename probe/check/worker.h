/* SPDX-License-Identifier: Apache-2.0 */
/* probe: one process per GPU, seen from inside: a worker does its job and tells what it finds, a
 * JSON line at a time. */
#ifndef PROBE_CHECK_WORKER_H
#define PROBE_CHECK_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "probe/result/report.h"
#include "probe/runtime/rt.h"

enum worker_task {
	TASK_GPU,        /* describe one GPU and make the profile's checks of it */
	TASK_SCOUT,      /* only say which GPUs CUDA has, without a context */
	TASK_NVML,       /* say once what NVML knows of all GPUs */
	TASK_NVML_WATCH, /* say it again and again, until told to end */
	TASK_PAIR        /* copy between two GPUs, there and back */
};

/* What a worker is asked to do. NVML has workers, too: with a GPU that was lost, its calls may
 * never return. */
struct worker_job {
	enum worker_task task;
	enum probe_profile profile;
	int index, peer; /* CUDA's, among those the worker sees; peer: the other one of a pair */
	const char *visible; /* what CUDA_VISIBLE_DEVICES is set to (a MIG instance, then index is
				0), or NULL: left alone */
	bool free_memory;    /* list: make a context for it */
	bool remote, busy;   /* busy: somebody else computes there: no thresholds */
	uint64_t seed;
	double memory_share;    /* of free memory to test, 0 … 1; 0: the profile's own */
	int64_t memory_bytes;   /* or so many bytes; 0: by share */
	double seconds;         /* of stress */
	const char *thresholds; /* file, or NULL: the defaults */
	const char *cudart;     /* for rt_dlopen, or NULL: rt_default */
	const char *nvml;       /* for nvml_open, or NULL: the usual one */
	int plant;              /* a planted fault: 0 none, 1 a bit of memory, 2 a lane */
	struct arena arena;     /* of the texts of a job that was read */
};

/* The job as the one argument of a worker's command line, and read again; worker_job_release frees
 * what was read. ERR_SYNTAX, ERR_INVALID, ERR_NOMEM. */
void worker_job_write(const struct worker_job *job, struct buf *out);
int worker_job_read(const char *text, struct worker_job *ret, struct err *err);
void worker_job_release(struct worker_job *job);

/* The whole life of a worker process: dies with its parent, takes SIGTERM as a wish to end early,
 * opens the runtime, does the job, and writes one line per event to fd (see worker_wire.h). Returns
 * the exit status: 0 done, 1 stopped by an error that was told, 3 could not tell. */
int worker_main(const char *job_text, int fd);

/* Do a job with this runtime in this process; lines go to fd; stopped() is asked at least once a
 * second. Errors of the GPU are told, not returned: 0 done, 1 stopped by an error that was told, 3
 * could not tell. */
int worker_run(const struct rt *rt, const struct worker_job *job, int fd, bool (*stopped)(void *),
	void *arg);

/* A worker of two GPUs: tells of two links, from the first to the second and back. Returns as
 * worker_run. */
int worker_pair(const struct rt *rt, const struct worker_job *job, int fd, bool (*stopped)(void *),
	void *arg);

/* A worker that looks at NVML: task NVML once, NVML_WATCH about twice a second until stopped() says
 * so, and then once more. Without NVML it tells that it has -1 devices, with the reason as its
 * driver's version. Returns as worker_run. */
int worker_nvml(const struct worker_job *job, int fd, bool (*stopped)(void *), void *arg);

#endif
