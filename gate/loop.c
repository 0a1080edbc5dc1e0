/* SPDX-License-Identifier: Apache-2.0 */
/* gate: epoll. */
#define _GNU_SOURCE
#include "gate/loop.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define EVENTS_MAX 512

int loop_open(int *ret_fd, struct err *err)
{
	*ret_fd = epoll_create1(EPOLL_CLOEXEC);
	return *ret_fd >= 0 ? 0 : err_set(err, ERR_IO, "epoll: %s", strerrordesc_np(errno));
}

static bool put(int loop, int what, int fd, uint32_t events, struct loop_watch *w)
{
	struct epoll_event e = {.events = events, .data.ptr = w};

	return epoll_ctl(loop, what, fd, &e) == 0;
}

static int change(int loop, int what, int fd, struct loop_watch *w, struct err *err)
{
	if (put(loop, what, fd, w->asked, w))
		return 0;
	return err_set(err, errno == ENOMEM || errno == ENOSPC ? ERR_NOMEM : ERR_IO, "epoll: %s",
		strerrordesc_np(errno));
}

int loop_add(int loop, int fd, struct loop_watch *w, struct err *err)
{
	w->asked = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
	return change(loop, EPOLL_CTL_ADD, fd, w, err);
}

int loop_ask(int loop, int fd, struct loop_watch *w, uint32_t events, struct err *err)
{
	if (w->asked == events)
		return 0;
	w->asked = events;
	return change(loop, EPOLL_CTL_MOD, fd, w, err);
}

void loop_drop(int loop, int fd)
{
	(void)epoll_ctl(loop, EPOLL_CTL_DEL, fd, NULL);
}

int loop_turn(int loop, int ms)
{
	struct epoll_event e[EVENTS_MAX];
	int n = epoll_wait(loop, e, EVENTS_MAX, ms);

	for (int i = 0; i < n; i++) {
		struct loop_watch *w = e[i].data.ptr;

		w->ready(w->ctx, e[i].events);
	}
	return n < 0 ? 0 : n;
}

/* ---- those of poll() ---- */

static void nothing(void *ctx, uint32_t events)
{
	(void)ctx;
	(void)events;
}

int loop_others_open(int loop, struct loop_others *o, struct err *err)
{
	int rc;

	*o = (struct loop_others){.watch = {nothing, NULL, EPOLLIN}};
	rc = loop_open(&o->fd, err);
	return rc == 0 ? change(loop, EPOLL_CTL_ADD, o->fd, &o->watch, err) : rc;
}

void loop_others_close(struct loop_others *o)
{
	if (o->fd >= 0)
		(void)close(o->fd);
}

static bool has(const struct pollfd *fds, size_t n, int fd)
{
	while (n > 0)
		if (fds[--n].fd == fd)
			return true;
	return false;
}

bool loop_others_are(struct loop_others *o, const struct pollfd *fds, size_t n)
{
	bool all = true;

	for (size_t i = 0; i < o->n; i++)
		if (!has(fds, n, o->was[i]))
			loop_drop(o->fd, o->was[i]);
	o->n = 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t events = (uint32_t)fds[i].events;
		int fd = fds[i].fd;

		if (fd < 0)
			continue;
		/* One that was closed is not in there any more, though another has its number. */
		if (put(o->fd, EPOLL_CTL_MOD, fd, events, NULL) ||
			put(o->fd, EPOLL_CTL_ADD, fd, events, NULL))
			o->was[o->n++] = fd;
		else
			all = false;
	}
	return all;
}
