/* SPDX-License-Identifier: Apache-2.0 */
/* net: one connection to somebody else, with TLS or without, for a program that waits in poll()
 * alone. Nothing waits in here but the look-up of a name. */
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
	bool tls; /* 1.2 at least; the certificate must be valid, a server's and for host, or name
		   */
	const char *ca_file;   /* PEM, the only CAs that are trusted; NULL: those of the system */
	const char *cert_file; /* PEM, our own certificate; NULL: none */
	const char *key_file;  /* PEM, its key */
	const char *name;      /* that the certificate must be for; NULL: host */
	bool whole; /* an end without TLS's own, which anybody on the way can play, is an error */
};

/* Begin to connect. An address costs no waiting; a name is looked up first. ERR_NOTFOUND (the
 * name), ERR_IO (no socket, no way there, a file that cannot be read), ERR_NOMEM. */
int client_socket_open(
	const struct client_target *target, struct client_socket **ret, struct err *err);
/* NULL-safe. */
void client_socket_free(struct client_socket *s);

/* For poll(). What it waits for may change with every call of the others. */
int client_socket_fd(const struct client_socket *s);
short client_socket_events(const struct client_socket *s);

/* Send these bytes (copied) as soon as it can be. ERR_NOMEM, ERR_TOOBIG: more than a megabyte
 * waits. */
int client_socket_send(struct client_socket *s, struct slice bytes, struct err *err);

/* Go on with what is not done: connecting, the handshake, sending. ERR_IO (refused, reset, a
 * certificate that is not trusted, with the reason): the connection is of no more use. */
int client_socket_turn(struct client_socket *s, struct err *err);
/* Connected, and its peer is who it should be. */
bool client_socket_ready(const struct client_socket *s);

/* Read what there is: *ret_len is 0 when nothing is, and *ret_end says that nothing will come.
 * ERR_IO. To be called until *ret_len is 0, since poll() does not know what TLS has in hand. */
int client_socket_read(struct client_socket *s, void *to, size_t max, size_t *ret_len,
	bool *ret_end, struct err *err);

/* ---- for those who carry a stream, without a copy of it (client_socket_stream.c) ---- */

/* Bytes of a record of TLS at most, and those that one call takes at most: a few records share what
 * a call of the kernel's costs. */
#define CLIENT_SOCKET_RECORD 16384
#define CLIENT_SOCKET_BURST (3 * CLIENT_SOCKET_RECORD)

/* What accepted connections share: our certificate. id is borrowed. NULL when out of memory. */
struct server_tls;
struct tls_identity;
struct server_tls *server_tls_new(struct tls_identity *id);
/* NULL-safe; after the last connection. */
void server_tls_free(struct server_tls *t);

/* A connection that was accepted, and that speaks TLS as its server does from now on (1.2 at
 * least); with tls NULL a plain one. Takes fd, also where it fails; it does not block. who: it, for
 * messages. ERR_NOMEM, ERR_INTERNAL. */
int client_socket_accept(int fd, const char *who, struct server_tls *tls,
	struct client_socket **ret, struct err *err);

/* Small packets at once, and a peer that is gone is found out within a minute. */
void client_socket_keepalive(int fd);
/* But one that answers is waited for, for however long it does not read. Of one that is gone while
 * something is on the way to it the kernel finds out by itself (tcp_retries2). */
void client_socket_patient(int fd);

/* From now on what there is, a burst at most, is received before it is asked for. Whoever calls
 * this has let the peer in: it is memory that the peer can fill. */
void client_socket_read_ahead(struct client_socket *s);
/* Send now, once it is ready, and when client_socket_sending() says no: all of it is taken, at most
 * CLIENT_SOCKET_BURST bytes, or of a connection without TLS what there was room for: *ret_taken.
 * ERR_IO. */
int client_socket_write(
	struct client_socket *s, struct slice bytes, size_t *ret_taken, struct err *err);
/* Nothing more will be sent, but it can still be read. client_socket_turn() goes on with it.
 * ERR_IO. */
int client_socket_shut(struct client_socket *s, struct err *err);
/* When it is freed, the other side shall see that it broke off, and not take it for the end. */
void client_socket_break(struct client_socket *s);
/* Something that was taken, or the end, is not sent yet: client_socket_turn() goes on with it. */
bool client_socket_sending(const struct client_socket *s);
/* Nothing was read because nothing is there, not because TLS had something to say to itself. */
bool client_socket_dry(const struct client_socket *s);

#endif
