/* SPDX-License-Identifier: Apache-2.0 */
/* For servers that can only listen on all addresses of their machine, as LUPINE's does: preloaded,
 * it has them listen at BIND_ADDRESS instead. Behind a gate each claim's server has an address of
 * its own.
 *
 *     cc -shared -fPIC -O2 -Wall -o libbind-address.so bind-address.c
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	int (*next)(int, const struct sockaddr *, socklen_t) = NULL;
	const char *address = getenv("BIND_ADDRESS");
	struct sockaddr_in v4;

	*(void **)&next = dlsym(RTLD_NEXT, "bind");
	if (!next) {
		errno = ENOSYS;
		return -1;
	}
	if (!address || len < sizeof(v4) || addr->sa_family != AF_INET)
		return next(fd, addr, len);
	memcpy(&v4, addr, sizeof(v4));
	if (v4.sin_addr.s_addr == htonl(INADDR_ANY) &&
		inet_pton(AF_INET, address, &v4.sin_addr) != 1) {
		errno = EADDRNOTAVAIL;
		return -1;
	}
	return next(fd, (const struct sockaddr *)&v4, sizeof(v4));
}
