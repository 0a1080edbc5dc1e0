/* SPDX-License-Identifier: Apache-2.0 */
/* gate: the process that asks MPS's control daemon, as seen by the gate. */
#define _GNU_SOURCE
#include "gate/mps.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

#define PIPE_VARIABLE "CUDA_MPS_PIPE_DIRECTORY"

/* In the child. It ends with the gate. */
static void become_asker(const struct mps *m, const pid_t *pids, size_t n)
{
	char name[] = "gpugate", word[] = "mps";
	char *argv[MPS_CLIENTS_MAX + 4] = {name, word, strdup(m->control)};
	char text[MPS_CLIENTS_MAX][16];
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)close_range(3, ~0U, 0);
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(text[i], sizeof(text[i]), "%d", (int)pids[i]);
		argv[3 + i] = text[i];
	}
	if (m->pipe)
		(void)setenv(PIPE_VARIABLE, m->pipe, 1);
	(void)execv("/proc/self/exe", argv);
	_exit(127);
}

static void finish(struct mps *m, bool answered)
{
	(void)close(m->fd);
	m->fd = -1;
	m->pid = 0;
	m->over(m->ctx, m->uid, answered);
}

static void on_end(void *ctx, uint32_t events)
{
	struct mps *m = ctx;
	int status = 0;

	(void)events;
	if (m->pid > 0 && waitpid(m->pid, &status, WNOHANG) == m->pid)
		finish(m, WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void mps_end(struct mps *m, const char *uid, const pid_t *pids, size_t n)
{
	struct err err = {0};

	if (m->pid)
		return;
	(void)snprintf(m->uid, sizeof(m->uid), "%s", uid);
	m->pid = fork();
	if (m->pid == 0)
		become_asker(m, pids, n < MPS_CLIENTS_MAX ? n : MPS_CLIENTS_MAX);
	m->fd = m->pid > 0 ? (int)syscall(SYS_pidfd_open, m->pid, 0) : -1;
	m->watch = (struct loop_watch){on_end, m};
	m->until_ms = clock_ms() + MPS_PATIENCE_MS;
	if (m->fd >= 0 && loop_add(m->loop, m->fd, &m->watch, &err) == 0)
		return;
	if (m->pid > 0) {
		(void)kill(m->pid, SIGKILL);
		(void)waitpid(m->pid, NULL, 0);
	}
	finish(m, false);
}

int64_t mps_turn(struct mps *m)
{
	int64_t left = m->until_ms - clock_ms();

	if (!m->pid)
		return -1;
	if (left > 0)
		return left;
	/* Its end, which the loop tells, is that of a question without an answer. */
	(void)kill(m->pid, SIGKILL);
	return MPS_PATIENCE_MS;
}

void mps_close(struct mps *m)
{
	if (!m->pid)
		return;
	(void)kill(m->pid, SIGKILL);
	(void)waitpid(m->pid, NULL, 0);
	(void)close(m->fd);
	m->pid = 0;
}
