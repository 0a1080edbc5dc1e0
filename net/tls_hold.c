/* SPDX-License-Identifier: Apache-2.0 */
/* net: the send function of TLS sessions. */
#include "net/tls_hold.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <gnutls/gnutls.h>

/* Pieces in one call; GnuTLS comes again with what was not taken. */
#define PIECES_MAX 8

static size_t total(const giovec_t *piece, int n)
{
	size_t sum = 0;
	for (int i = 0; i < n; i++)
		sum += piece[i].iov_len;
	return sum;
}

/* Take them all, to be sent later. */
static ssize_t keep(struct tls_hold *h, const giovec_t *piece, int n)
{
	size_t before = h->n;
	for (int i = 0; i < n; i++) {
		memcpy(h->bytes + h->n, piece[i].iov_base, piece[i].iov_len);
		h->n += piece[i].iov_len;
	}
	return (ssize_t)(h->n - before);
}

/* How much of the pieces went out when `sent` bytes did, what had waited first; -1 and EAGAIN for
 * nothing. */
static ssize_t account(struct tls_hold *h, size_t sent)
{
	if (sent > h->n) {
		sent -= h->n;
		h->n = 0;
		return (ssize_t)sent;
	}
	h->n -= sent;
	memmove(h->bytes, h->bytes + sent, h->n);
	errno = EAGAIN;
	return -1;
}

static ssize_t push(gnutls_transport_ptr_t ptr, const giovec_t *piece, int n)
{
	struct tls_hold *h = ptr;
	struct iovec iov[PIECES_MAX + 1];
	struct msghdr msg = {.msg_iov = iov};
	bool wait = h->next;
	h->next = false;
	if (wait && total(piece, n) <= sizeof(h->bytes) - h->n)
		return keep(h, piece, n);
	if (h->n > 0)
		iov[msg.msg_iovlen++] = (struct iovec){h->bytes, h->n};
	for (int i = 0; i < n && i < PIECES_MAX; i++)
		iov[msg.msg_iovlen++] = (struct iovec){piece[i].iov_base, piece[i].iov_len};
	ssize_t sent = sendmsg(h->fd, &msg, MSG_NOSIGNAL);
	return sent < 0 ? -1 : account(h, (size_t)sent);
}

void tls_hold_attach(struct tls_hold *h, int fd, void *gnutls_session)
{
	h->fd = fd;
	/* Receiving stays GnuTLS's own, for which the pointer is the socket's number. */
	gnutls_transport_set_ptr2(gnutls_session, (gnutls_transport_ptr_t)(intptr_t)fd, h);
	gnutls_transport_set_vec_push_function(gnutls_session, push);
}

void tls_hold_next(struct tls_hold *h)
{
	h->next = true;
}
