/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the life of a worker process. */
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "probe/check/worker.h"
#include "probe/check/worker_wire.h"

static volatile sig_atomic_t asked_to_stop;

static void on_term(int number)
{
	(void)number;
	asked_to_stop = 1;
}

static bool asked(void *arg)
{
	(void)arg;
	return asked_to_stop != 0;
}

int worker_main(const char *job_text, int fd)
{
	struct sigaction term = {.sa_handler = on_term}, quiet = {.sa_handler = SIG_IGN};
	struct worker_job job;
	struct rt rt;
	struct err err = {0};
	int rc;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)sigaction(SIGTERM, &term, NULL);
	(void)sigaction(SIGINT, &quiet, NULL); /* the parent decides */
	(void)sigaction(SIGPIPE, &quiet, NULL);
	if (worker_job_read(job_text, &job, &err) != 0) {
		(void)fprintf(stderr, "gpuprobe: --worker: %s\n", err.msg);
		return 3;
	}
	if (job.task == TASK_NVML || job.task == TASK_NVML_WATCH) {
		rc = worker_nvml(&job, fd, asked, NULL);
		worker_job_release(&job);
		return rc;
	}
	rc = job.cudart ? rt_dlopen(job.cudart, &rt, &err) : rt_default(&rt, &err);
	if (rc != 0) {
		struct wire_line line = {.kind = WIRE_ERROR,
					 .error = {.gpu = -1, .code = CODE_NO_RUNTIME}},
				 done = {.kind = WIRE_DONE};

		(void)snprintf(line.error.message, sizeof(line.error.message), "%.300s", err.msg);
		rc = wire_send(&line, fd) && wire_send(&done, fd) ? 1 : 3;
	} else {
		rc = worker_run(&rt, &job, fd, asked, NULL);
	}
	worker_job_release(&job);
	return rc;
}
