/* SPDX-License-Identifier: Apache-2.0 */
/* gate: epoll. */
#define _GNU_SOURCE
#include "gate/loop.h"

#include <errno.h>
#include <string.h>

#define EVENTS_MAX 512

int loop_open(int *ret_fd, struct err *err)
{
	*ret_fd = epoll_create1(EPOLL_CLOEXEC);
	return *ret_fd >= 0 ? 0 : err_set(err, ERR_IO, "epoll: %s", strerrordesc_np(errno));
}

int loop_add(int loop, int fd, struct loop_watch *w, struct err *err)
{
	struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = w};

	if (epoll_ctl(loop, EPOLL_CTL_ADD, fd, &e) == 0)
		return 0;
	return err_set(err, errno == ENOMEM || errno == ENOSPC ? ERR_NOMEM : ERR_IO, "epoll: %s",
		strerrordesc_np(errno));
}

void loop_drop(int loop, int fd)
{
	(void)epoll_ctl(loop, EPOLL_CTL_DEL, fd, NULL);
}

void loop_turn(int loop)
{
	struct epoll_event e[EVENTS_MAX];
	int n = epoll_wait(loop, e, EVENTS_MAX, 0);

	for (int i = 0; i < n; i++) {
		struct loop_watch *w = e[i].data.ptr;

		w->ready(w->ctx, e[i].events);
	}
}
