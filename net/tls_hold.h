/* SPDX-License-Identifier: Apache-2.0 */
/* net: a reply's headers wait for its body, so that both leave in one system call: libmicrohttpd
 * gives them to TLS one by one. */
#ifndef NET_TLS_HOLD_H
#define NET_TLS_HOLD_H

#include <stdbool.h>
#include <stddef.h>

/* A record with the headers of a reply takes about 200 bytes; what is longer does not wait. */
#define TLS_HOLD_MAX 512

/* One session's outgoing bytes; embedded in the connection, zero before use. */
struct tls_hold {
	int fd;
	bool next; /* the next record is to wait */
	size_t n;  /* bytes that wait */
	char bytes[TLS_HOLD_MAX];
};

/* Send what the gnutls_session_t (as void *) writes by way of h, to its socket. h must live as long
 * as the session. */
void tls_hold_attach(struct tls_hold *h, int fd, void *gnutls_session);

/* The next record waits for the one after it: only where that one is sure to come. */
void tls_hold_next(struct tls_hold *h);

#endif
