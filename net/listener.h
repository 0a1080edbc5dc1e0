/* SPDX-License-Identifier: Apache-2.0 */
/* net: a listening TCP socket from "ADDR:PORT". */
#ifndef NET_LISTENER_H
#define NET_LISTENER_H

#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/slice.h"

/* Bind and listen. ADDR is an IPv4 address, an IPv6 address in brackets, "localhost" (127.0.0.1) or
 * nothing (all addresses of both families); `[::]` serves IPv4 too. Port 0 takes any free one. The
 * socket is non-blocking and closed on exec; the caller closes it. room: so many bytes that its
 * peer does not take wait in the kernel for each connection (which takes them twice). 0: as many as
 * the kernel finds good, up to 4 MiB, without which a peer gets less than its line can carry.
 * ERR_INVALID (the text), ERR_IO (in use, no such address, no right). */
int listener_open(const char *address, int backlog, int room, int *ret_fd, uint16_t *ret_port,
	struct err *err);

/* The room for those who answer many and little: replies that a client does not read hold no more
 * of the pod's memory. */
#define LISTENER_ROOM 65536

/* Is it such an address? 0, or ERR_INVALID; err may be NULL. Nothing is bound: a port may still be
 * in use. */
int listener_check(struct slice address, struct err *err);

/* "10.0.0.7:41234" or "[::1]:41234"; IPv4 that came over a socket of both families is written as
 * IPv4. Any other family: "?". */
void listener_peer_text(const struct sockaddr *addr, char ret[56]);

#endif
