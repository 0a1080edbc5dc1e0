/* SPDX-License-Identifier: Apache-2.0 */
/* gate: the end of one claim's server: asked for, by force, and what was ours of it. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gate/children_impl.h"
#include "gate/process/family.h"

/* Its pid may be another's already, where another gate has started it. */
static void tell(const struct child *s, int signal)
{
	if (s->pidfd >= 0)
		(void)syscall(SYS_pidfd_send_signal, s->pidfd, signal, NULL, 0);
	else
		(void)kill(s->pid, signal);
}

void child_stop(struct child *s, bool by_force)
{
	if (by_force && s->cgroup)
		cgroup_kill(s->cgroup);
	if (s->pid <= 0)
		return;
	if (!by_force) {
		tell(s, SIGTERM);
		return;
	}
	if (family_began(s->pid) == s->began)
		(void)family_signal(s->pid, SIGKILL, false);
	tell(s, SIGKILL);
}

void child_close(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

void child_close_pidfd(struct child *s)
{
	if (s->pidfd >= 0)
		loop_drop(s->all->cfg.loop, s->pidfd);
	child_close(&s->pidfd);
}

int child_reap(struct child *s)
{
	int status = 0;

	/* Of another gate's it is not ours to ask. */
	if (s->pid <= 0 || waitpid(s->pid, &status, WNOHANG) <= 0)
		status = 0;
	child_close_pidfd(s);
	child_close(&s->listener);
	s->pid = 0;
	return status;
}
