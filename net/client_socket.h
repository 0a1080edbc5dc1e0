/* SPDX-License-Identifier: Apache-2.0 */
/* net: one connection to somebody else, with TLS or without, for a program that waits in poll() alone. Nothing waits in here but
 * the look-up of a name. */
#ifndef NET_CLIENT_SOCKET_H
#define NET_CLIENT_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

struct client_socket;

/* Where to, and who is trusted there. Borrowed for the call. */
struct client_target {
	const char *host; /* a name or an address, without brackets */
	uint16_t port;
	unsigned first; /* of a name's addresses, the one to begin with, counted around */
	bool tls;       /* 1.2 at least; the certificate must be valid, a server's and for host */
	const char *ca_file;   /* PEM, the only CAs that are trusted; NULL: those of the system */
	const char *cert_file; /* PEM, our own certificate; NULL: none */
	const char *key_file;  /* PEM, its key */
};

/* Begin to connect. An address costs no waiting; a name is looked up first. ERR_NOTFOUND (the name), ERR_IO (no socket, no way
 * there, a file that cannot be read), ERR_NOMEM. */
int client_socket_open(
	const struct client_target *target, struct client_socket **ret, struct err *err);
/* NULL-safe. */
void client_socket_free(struct client_socket *s);

/* For poll(). What it waits for may change with every call of the others. */
int client_socket_fd(const struct client_socket *s);
short client_socket_events(const struct client_socket *s);

/* Send these bytes (copied) as soon as it can be. ERR_NOMEM, ERR_TOOBIG: more than a megabyte waits. */
int client_socket_send(struct client_socket *s, struct slice bytes, struct err *err);

/* Go on with what is not done: connecting, the handshake, sending. ERR_IO (refused, reset, a certificate that is not trusted, with
 * the reason): the connection is of no more use. */
int client_socket_turn(struct client_socket *s, struct err *err);
/* Connected, and its peer is who it should be. */
bool client_socket_ready(const struct client_socket *s);

/* Read what there is: *ret_len is 0 when nothing is, and *ret_end says that nothing will come. ERR_IO. To be called until *ret_len is 0, since
 * poll() does not know what TLS has in hand. */
int client_socket_read(struct client_socket *s, void *to, size_t max, size_t *ret_len,
	bool *ret_end, struct err *err);

#endif
