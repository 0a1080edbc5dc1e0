/* SPDX-License-Identifier: Apache-2.0 */
/* probe: a new process for a worker. */
#define _GNU_SOURCE
#include "probe/worker/worker_start.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The environment of a worker: ours, with what makes CUDA number GPUs as the PCI bus does and load
 * kernels before they are timed. */
static char **worker_environment(const struct worker_job *job, struct buf *visible)
{
	static char order[] = "CUDA_DEVICE_ORDER=PCI_BUS_ID", eager[] = "CUDA_MODULE_LOADING=EAGER";
	size_t n = 0, to = 0;
	char **ret;

	while (environ[n])
		n++;
	ret = calloc(n + 4, sizeof(*ret));
	if (!ret)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		if (strncmp(environ[i], "CUDA_DEVICE_ORDER=", 18) == 0 ||
			strncmp(environ[i], "CUDA_MODULE_LOADING=", 20) == 0 ||
			(job->visible && strncmp(environ[i], "CUDA_VISIBLE_DEVICES=", 21) == 0))
			continue;
		ret[to++] = environ[i];
	}
	ret[to++] = order;
	ret[to++] = eager;
	if (job->visible) {
		buf_fmt(visible, "CUDA_VISIBLE_DEVICES=%s", job->visible);
		buf_char(visible, '\0');
		if (!visible->failed)
			ret[to] = visible->data;
	}
	return ret;
}

/* Its own process group: the terminal's Ctrl-C is the parent's alone. Standard output is ours: what
 * a launcher's library prints goes to standard error. */
static int spawn(const char *program, const char *job, char **environment, int fd, pid_t *ret)
{
	char name[] = "gpuprobe", flag[] = "--worker";
	char *text = strdup(job);
	char *argv[] = {name, flag, text, NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	int rc;

	if (!text)
		return ENOMEM;
	(void)sigemptyset(&none);
	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawnattr_init(&attributes);
	(void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
	(void)posix_spawnattr_setsigmask(&attributes, &none);
	(void)posix_spawn_file_actions_adddup2(&actions, fd, WORKER_FD);
	(void)posix_spawn_file_actions_adddup2(&actions, 2, 1);
	rc = posix_spawn(ret, program, &actions, &attributes, argv, environment);
	(void)posix_spawn_file_actions_destroy(&actions);
	(void)posix_spawnattr_destroy(&attributes);
	free(text);
	return rc;
}

int worker_start(const char *program, const struct worker_job *job, pid_t *ret_pid, int *ret_fd,
	struct err *err)
{
	struct buf text, visible;
	char **environment;
	int ends[2], rc;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
		return err_set(err, ERR_IO, "pipe: %s", strerrordesc_np(errno));
	(void)fcntl(ends[1], F_SETFL, 0); /* the worker's end blocks */
	buf_init(&text, 65536);
	buf_init(&visible, 4096);
	worker_job_write(job, &text);
	buf_char(&text, '\0');
	environment = worker_environment(job, &visible);
	if (text.failed || visible.failed || !environment)
		rc = ENOMEM;
	else
		rc = spawn(program, text.data, environment, ends[1], ret_pid);
	free(environment);
	buf_release(&text);
	buf_release(&visible);
	(void)close(ends[1]);
	if (rc != 0) {
		(void)close(ends[0]);
		return err_set(err, rc == ENOMEM ? ERR_NOMEM : ERR_IO, "cannot start %s: %s",
			program, strerrordesc_np(rc));
	}
	*ret_fd = ends[0];
	return 0;
}
