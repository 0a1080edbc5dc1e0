/* SPDX-License-Identifier: Apache-2.0 */
/* net: what client_socket.c and client_socket_stream.c share. */
#ifndef NET_CLIENT_SOCKET_IMPL_H
#define NET_CLIENT_SOCKET_IMPL_H

#include <gnutls/gnutls.h>

#include "base/buf.h"
#include "net/client_socket.h"
#include "net/tls_identity.h"

enum state { CONNECTING, HANDSHAKE, READY };

struct client_socket {
	int fd;
	enum state state;
	gnutls_certificate_credentials_t trust;
	gnutls_session_t tls; /* NULL: none */
	char *host;           /* that the certificate must be for; of an accepted one, who it is */
	bool dry;             /* the last read found nothing more */
	bool whole;           /* an end without TLS's own is an error */
	bool burst;           /* records are gathered in sealed, to be sent in one call */
	struct buf sealed;    /* records that are not sent yet; */
	size_t sealed_sent;   /* of them, so many bytes are */
	bool reads_ahead;
	char *ahead;                /* received, and not asked for by TLS yet; NULL: nothing; */
	size_t ahead_at, ahead_len; /* where that begins and ends in it */
	unsigned empty;             /* records in a row in which nothing was for us */
	bool ending, shut;          /* the end of what we send is to go out, or did */
	struct tls_session session; /* of an accepted one */
	struct buf out;
	size_t sent; /* of out */
	/* What the certificate must be, which GnuTLS borrows: for host, and a server's. */
	gnutls_typed_vdata_st peer[2];
};

/* TLS reads and writes s->fd. */
void client_socket_transport(struct client_socket *s);
/* Send what is sealed, and then the end where it is due. ERR_IO. */
int client_socket_flush(struct client_socket *s, struct err *err);

#endif
