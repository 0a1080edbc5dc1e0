/* SPDX-License-Identifier: Apache-2.0 */
/* net: connections as streams that are carried: accepted ones, records sent without a copy, ends of
 * one direction. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/client_socket_impl.h"

/* A burst of records, each with what TLS adds to it. */
#define AHEAD_MAX (CLIENT_SOCKET_BURST + CLIENT_SOCKET_BURST / CLIENT_SOCKET_RECORD * 22)
/* Peers may ask for small records, of which more is added. */
#define SEALED_MAX (2 * CLIENT_SOCKET_BURST)

struct server_tls {
	gnutls_certificate_credentials_t credentials;
	struct tls_identity *identity;
};

struct server_tls *server_tls_new(struct tls_identity *id)
{
	struct server_tls *t = calloc(1, sizeof(*t));

	if (!t || gnutls_certificate_allocate_credentials(&t->credentials) != 0) {
		free(t);
		return NULL;
	}
	t->identity = id;
	tls_serve_attached(t->credentials);
	return t;
}

void server_tls_free(struct server_tls *t)
{
	if (!t)
		return;
	gnutls_certificate_free_credentials(t->credentials);
	free(t);
}

static ssize_t forget_ahead(struct client_socket *s, ssize_t ret)
{
	free(s->ahead);
	s->ahead = NULL;
	return ret;
}

/* What is received ahead stays until TLS asks for it; where nothing is, or there is no memory for
 * it, TLS gets what it asked for, as the library does it. */
static ssize_t pull(gnutls_transport_ptr_t ptr, void *to, size_t max)
{
	struct client_socket *s = ptr;
	ssize_t n;

	if (s->reads_ahead && !s->ahead && (s->ahead = malloc(AHEAD_MAX)) != NULL)
		s->ahead_at = s->ahead_len = 0;
	if (!s->ahead || s->ahead_at == s->ahead_len) {
		n = recv(s->fd, s->ahead ? s->ahead : to, s->ahead ? AHEAD_MAX : max, 0);
		/* What TLS reads may be no data, and then only we know whether more is there. */
		s->dry = n < 0 && errno == EAGAIN;
		if (n > 0 && s->ahead)
			s->ahead_len = (size_t)n;
		if (n <= 0 || !s->ahead)
			return forget_ahead(s, n);
	}
	n = (ssize_t)(s->ahead_len - s->ahead_at);
	if ((size_t)n > max)
		n = (ssize_t)max;
	memcpy(to, s->ahead + s->ahead_at, (size_t)n);
	s->ahead_at += (size_t)n;
	return s->ahead_at == s->ahead_len ? forget_ahead(s, n) : n;
}

/* Behind what is sealed nothing overtakes it: what TLS has to say of itself waits there, too. */
static ssize_t push(gnutls_transport_ptr_t ptr, const giovec_t *parts, int n)
{
	struct client_socket *s = ptr;
	struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)parts, .msg_iovlen = (size_t)n};
	size_t before = s->sealed.len;

	if (!s->burst && before == 0)
		return sendmsg(s->fd, &m, MSG_NOSIGNAL);
	for (int i = 0; i < n; i++)
		buf_slice(&s->sealed, (struct slice){parts[i].iov_base, parts[i].iov_len});
	if (!s->sealed.failed)
		return (ssize_t)(s->sealed.len - before);
	gnutls_transport_set_errno(s->tls, ENOMEM);
	return -1;
}

void client_socket_transport(struct client_socket *s)
{
	buf_init(&s->sealed, SEALED_MAX);
	gnutls_transport_set_int(s->tls, s->fd);
	gnutls_transport_set_ptr(s->tls, s);
	gnutls_transport_set_pull_function(s->tls, pull);
	gnutls_transport_set_vec_push_function(s->tls, push);
}

void client_socket_read_ahead(struct client_socket *s)
{
	s->reads_ahead = true;
}

int client_socket_accept(int fd, const char *who, struct server_tls *tls,
	struct client_socket **ret, struct err *err)
{
	struct client_socket *s = calloc(1, sizeof(*s));
	int rc;

	if (!s) {
		(void)close(fd);
		return err_set(err, ERR_NOMEM, "out of memory for a connection");
	}
	s->fd = fd;
	s->whole = true;
	s->state = tls ? HANDSHAKE : READY;
	buf_init(&s->out, CLIENT_SOCKET_RECORD);
	client_socket_keepalive(fd);
	s->host = strdup(who);
	if (!tls && s->host) {
		*ret = s;
		return 0;
	}
	rc = s->host ? gnutls_init(&s->tls, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL)
		     : GNUTLS_E_MEMORY_ERROR;
	if (rc == 0)
		rc = gnutls_priority_set_direct(s->tls, tls_priorities, NULL);
	if (rc == 0)
		rc = gnutls_credentials_set(s->tls, GNUTLS_CRD_CERTIFICATE, tls->credentials);
	if (rc != 0) {
		client_socket_free(s);
		return err_set(err, rc == GNUTLS_E_MEMORY_ERROR ? ERR_NOMEM : ERR_INTERNAL,
			"TLS: %s", gnutls_strerror(rc));
	}
	tls_session_attach(&s->session, tls->identity, s->tls);
	client_socket_transport(s);
	*ret = s;
	return 0;
}

static int broke(const struct client_socket *s, struct err *err)
{
	return err_set(err, ERR_IO, "%s: %s", s->host, strerrordesc_np(errno));
}

static int tls_broke(const struct client_socket *s, ssize_t n, struct err *err)
{
	return err_set(err, ERR_IO, "%s: %s", s->host, gnutls_strerror((int)n));
}

static int send_sealed(struct client_socket *s, struct err *err)
{
	ssize_t n = send(s->fd, s->sealed.data + s->sealed_sent, s->sealed.len - s->sealed_sent,
		MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : broke(s, err);
	s->sealed_sent += (size_t)n;
	if (s->sealed_sent == s->sealed.len) {
		buf_release(&s->sealed);
		s->sealed_sent = 0;
	}
	return 0;
}

int client_socket_flush(struct client_socket *s, struct err *err)
{
	int rc = s->sealed.len > 0 ? send_sealed(s, err) : 0;

	if (rc != 0 || s->sealed.len > 0 || !s->ending || s->shut)
		return rc;
	if (!s->tls) {
		s->shut = shutdown(s->fd, SHUT_WR) == 0;
		return s->shut ? 0 : broke(s, err);
	}
	rc = gnutls_bye(s->tls, GNUTLS_SHUT_WR);
	s->shut = rc == 0;
	return rc == 0 || rc == GNUTLS_E_AGAIN || rc == GNUTLS_E_INTERRUPTED
		       ? 0
		       : tls_broke(s, rc, err);
}

static int write_plain(
	struct client_socket *s, struct slice bytes, size_t *ret_taken, struct err *err)
{
	ssize_t n = send(s->fd, bytes.at, bytes.len, MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return broke(s, err);
	*ret_taken = n > 0 ? (size_t)n : 0;
	return 0;
}

int client_socket_write(
	struct client_socket *s, struct slice bytes, size_t *ret_taken, struct err *err)
{
	ssize_t n = 0;

	*ret_taken = 0;
	if (bytes.len > CLIENT_SOCKET_BURST)
		bytes.len = CLIENT_SOCKET_BURST;
	if (!s->tls)
		return write_plain(s, bytes, ret_taken, err);
	s->burst = true;
	while (*ret_taken < bytes.len && n >= 0) {
		n = gnutls_record_send(s->tls, bytes.at + *ret_taken, bytes.len - *ret_taken);
		*ret_taken += n > 0 ? (size_t)n : 0;
	}
	s->burst = false;
	/* push() takes all, and so this is no word that something has to wait. */
	return n < 0 ? tls_broke(s, n, err) : client_socket_flush(s, err);
}

int client_socket_shut(struct client_socket *s, struct err *err)
{
	s->ending = true;
	return client_socket_flush(s, err);
}

void client_socket_break(struct client_socket *s)
{
	const struct linger now = {.l_onoff = 1};

	(void)setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	/* An end by TLS's own word would look like one of the stream. */
	s->shut = true;
}

bool client_socket_sending(const struct client_socket *s)
{
	return s->sealed.len > 0 || s->sent < s->out.len || (s->ending && !s->shut);
}

bool client_socket_dry(const struct client_socket *s)
{
	return !s->tls || s->dry;
}
