/* SPDX-License-Identifier: Apache-2.0 */
/* gate: where a server listens: looked for, or opened for it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gate/children_impl.h"

/* A server that listens has answered on loopback before the call returns. */
#define ANSWER_MS 10

static struct sockaddr_in at(const char *address, uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};

	(void)inet_pton(AF_INET, address, &a.sin_addr);
	return a;
}

bool child_listens(const char *address, uint16_t port)
{
	const struct sockaddr_in to = at(address, port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), why = 0;
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	socklen_t len = sizeof(why);
	bool yes = false;

	if (fd < 0)
		return false;
	if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0)
		yes = true;
	else if (errno == EINPROGRESS && poll(&p, 1, ANSWER_MS) == 1)
		yes = getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &len) == 0 && why == 0;
	(void)close(fd);
	return yes;
}

int child_open(struct child *s, struct err *err)
{
	const struct sockaddr_in where = at(s->address, s->all->cfg.profile->port);
	int yes = 1;

	s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s->listener >= 0 &&
		setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0 &&
		bind(s->listener, (const struct sockaddr *)&where, sizeof(where)) == 0 &&
		listen(s->listener, SOMAXCONN) == 0 &&
		child_listens(s->address, s->all->cfg.profile->port))
		return 0;
	return err_set(err, ERR_IO, "its socket at %s port %u: %s", s->address,
		(unsigned)s->all->cfg.profile->port, strerrordesc_np(errno));
}

bool child_accepts(const struct child *s)
{
	struct pollfd p = {.fd = s->listener, .events = POLLIN};

	return s->listener < 0 ? child_listens(s->address, s->all->cfg.profile->port)
			       : poll(&p, 1, 0) == 0;
}
