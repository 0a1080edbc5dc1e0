/* SPDX-License-Identifier: Apache-2.0 */
/* gate: does somebody listen where a server shall? */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
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
