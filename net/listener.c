/* SPDX-License-Identifier: Apache-2.0 */
/* net: binds the server's sockets, so that an address in use is reported in words before any thread
 * runs. */
#include "net/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_storage storage;
};

static int address_read(struct slice text, union address *ret, struct err *err)
{
	char host[64];
	uint16_t port = 0;
	int rc = text_host_port(text, host, &port, err);
	if (rc != 0)
		return rc;
	memset(ret, 0, sizeof(*ret));
	if (host[0] == '\0' || inet_pton(AF_INET6, host, &ret->v6.sin6_addr) == 1) {
		ret->v6.sin6_family = AF_INET6;
		ret->v6.sin6_port = htons(port);
		return 0;
	}
	if (inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host,
		    &ret->v4.sin_addr) == 1) {
		ret->v4.sin_family = AF_INET;
		ret->v4.sin_port = htons(port);
		return 0;
	}
	return err_set(err, ERR_INVALID,
		"cannot listen on \"%.*s\": give a numeric address and a port, such as "
		"127.0.0.1:8443, "
		"[::1]:8443 or :8443",
		text.len > 80 ? 80 : (int)text.len, text.at);
}

int listener_check(struct slice address, struct err *err)
{
	union address a;

	return address_read(address, &a, err);
}

/* A kernel without IPv6 still serves "all addresses". */
static bool fall_back_to_v4(union address *a)
{
	if (a->any.sa_family != AF_INET6 ||
		memcmp(&a->v6.sin6_addr, &in6addr_any, sizeof(in6addr_any)) != 0)
		return false;
	in_port_t port = a->v6.sin6_port;
	memset(a, 0, sizeof(*a));
	a->v4.sin_family = AF_INET;
	a->v4.sin_port = port;
	return true;
}

static int socket_open(union address *a)
{
	int type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
	int fd = socket(a->any.sa_family, type, 0);
	if (fd < 0 && errno == EAFNOSUPPORT && fall_back_to_v4(a))
		fd = socket(AF_INET, type, 0);
	return fd;
}

static int socket_listen(int fd, const union address *a, int backlog, int room, uint16_t *ret_port)
{
	int on = 1, off = 0;
	bool v6 = a->any.sa_family == AF_INET6;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0)
		return -1;
	if (room > 0 && setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) != 0)
		return -1;
	if (v6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) != 0)
		return -1;
	if (bind(fd, &a->any, v6 ? sizeof(a->v6) : sizeof(a->v4)) != 0 || listen(fd, backlog) != 0)
		return -1;
	union address bound;
	socklen_t len = sizeof(bound);
	if (getsockname(fd, &bound.any, &len) != 0)
		return -1;
	*ret_port = ntohs(v6 ? bound.v6.sin6_port : bound.v4.sin_port);
	return 0;
}

int listener_open(const char *address, int backlog, int room, int *ret_fd, uint16_t *ret_port,
	struct err *err)
{
	union address a;
	int rc = address_read(slice_of(address), &a, err);
	if (rc != 0)
		return rc;
	int fd = socket_open(&a);
	if (fd < 0)
		return err_set(err, ERR_IO, "cannot listen on %s: %s", address, strerror(errno));
	uint16_t port = 0;
	if (socket_listen(fd, &a, backlog, room, &port) != 0) {
		rc = err_set(err, ERR_IO, "cannot listen on %s: %s%s", address, strerror(errno),
			errno == EADDRINUSE ? "; stop the other program or choose another port"
					    : "");
		(void)close(fd);
		return rc;
	}
	*ret_fd = fd;
	*ret_port = port;
	return 0;
}

void listener_peer_text(const struct sockaddr *addr, char ret[56])
{
	char host[INET6_ADDRSTRLEN] = "";
	if (addr && addr->sa_family == AF_INET) {
		struct sockaddr_in v4;
		memcpy(&v4, addr, sizeof(v4));
		(void)inet_ntop(AF_INET, &v4.sin_addr, host, sizeof(host));
		(void)snprintf(ret, 56, "%s:%u", host, ntohs(v4.sin_port));
	} else if (addr && addr->sa_family == AF_INET6) {
		struct sockaddr_in6 v6;
		memcpy(&v6, addr, sizeof(v6));
		if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
			(void)inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], host, sizeof(host));
			(void)snprintf(ret, 56, "%s:%u", host, ntohs(v6.sin6_port));
		} else {
			(void)inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof(host));
			(void)snprintf(ret, 56, "[%s]:%u", host, ntohs(v6.sin6_port));
		}
	} else {
		(void)snprintf(ret, 56, "?");
	}
}
