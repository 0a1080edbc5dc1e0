/* SPDX-License-Identifier: Apache-2.0 */
/* base: signalfd. */
#define _GNU_SOURCE
#include "base/signals.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

int signals_open(int *ret_fd, struct err *err)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	*ret_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	return *ret_fd >= 0 ? 0 : err_set(err, ERR_IO, "signalfd: %s", strerrordesc_np(errno));
}

const char *signals_came(int fd)
{
	struct signalfd_siginfo info;

	return read(fd, &info, sizeof(info)) == sizeof(info) ? sigabbrev_np((int)info.ssi_signo)
							     : NULL;
}
