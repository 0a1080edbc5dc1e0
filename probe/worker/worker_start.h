/* SPDX-License-Identifier: Apache-2.0 */
/* probe: a new process for a worker. */
#ifndef PROBE_WORKER_WORKER_START_H
#define PROBE_WORKER_WORKER_START_H

#include <sys/types.h>

#include "base/err.h"
#include "probe/check/worker.h"

/* The worker's end of its pipe. */
#define WORKER_FD 3

/* Execute `program --worker JOB` in a process group of its own, so that the terminal's Ctrl-C is
 * the parent's alone, with an environment that makes CUDA number GPUs as the PCI bus does and load
 * kernels before they are timed. Its lines come from *ret_fd (not blocking, closed on exec; the
 * caller closes it). What a launcher's library prints to standard output goes to standard error.
 * ERR_IO, ERR_NOMEM. */
int worker_start(const char *program, const struct worker_job *job, pid_t *ret_pid, int *ret_fd,
	struct err *err);

#endif
