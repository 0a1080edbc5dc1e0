/* SPDX-License-Identifier: Apache-2.0 */
/* bench: the least that carries a connection without a copy: a thread for each direction, a pipe of
 * the kernel's own size, splice(2) until the end:
 *   splice PORT SERVER_PORT    both on 127.0.0.1; ends with a signal */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE 65536

/* As a pthread's word: from in the upper half, to in the lower one. */
static void *carry(void *arg)
{
	int from = (int)((uintptr_t)arg >> 32), to = (int)((uintptr_t)arg & INT32_MAX), pipes[2];
	ssize_t n = 1, m = 1;

	if (pipe(pipes) != 0)
		return NULL;
	while (m > 0 && (n = splice(from, NULL, pipes[1], NULL, PIECE, SPLICE_F_MOVE)) > 0)
		for (; n > 0 && m > 0; n -= m)
			m = splice(pipes[0], NULL, to, NULL, (size_t)n, SPLICE_F_MOVE);
	(void)shutdown(to, SHUT_WR);
	(void)close(pipes[0]);
	(void)close(pipes[1]);
	return NULL;
}

static void begin(int from, int to)
{
	pthread_t thread;
	const int on = 1;

	(void)setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (pthread_create(&thread, NULL, carry, (void *)((uintptr_t)from << 32 | (uintptr_t)to)) !=
		0)
		exit(1);
	(void)pthread_detach(thread);
}

static struct sockaddr_in at(const char *port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
		.sin_port = htons((uint16_t)strtoul(port, NULL, 10)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

int main(int argc, char **argv)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0), pod, server;
	const int on = 1;

	if (argc != 3)
		return 2;
	struct sockaddr_in here = at(argv[1]), there = at(argv[2]);
	(void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener, (struct sockaddr *)&here, sizeof(here)) != 0 ||
		listen(listener, 16) != 0)
		return 1;
	/* A few connections are all that a bench makes: none is closed. */
	while ((pod = accept(listener, NULL, NULL)) >= 0) {
		server = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(server, (struct sockaddr *)&there, sizeof(there)) != 0)
			return 1;
		begin(pod, server);
		begin(server, pod);
	}
	return 0;
}
