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

/* As the library does it, but what it reads may be no data, and then only we know whether more is
 * there. */
static ssize_t pull(gnutls_transport_ptr_t ptr, void *to, size_t max)
{
	struct client_socket *s = ptr;
	ssize_t n = recv(s->fd, to, max, 0);

	s->dry = n < 0 && errno == EAGAIN;
	return n;
}

void client_socket_transport(struct client_socket *s)
{
	gnutls_transport_set_int(s->tls, s->fd);
	gnutls_transport_set_ptr2(s->tls, s, gnutls_transport_get_ptr(s->tls));
	gnutls_transport_set_pull_function(s->tls, pull);
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
	s->state = HANDSHAKE;
	buf_init(&s->out, CLIENT_SOCKET_RECORD);
	s->host = strdup(who);
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
	client_socket_keepalive(fd);
	*ret = s;
	return 0;
}

static int failed(const struct client_socket *s, ssize_t n, struct err *err)
{
	return err_set(err, ERR_IO, "%s: %s", s->host,
		s->tls ? gnutls_strerror((int)n) : strerrordesc_np(errno));
}

/* A record that has gone out held less of what was taken: the rest would be lost unseen. */
static int too_small(const struct client_socket *s, struct err *err)
{
	return err_set(err, ERR_IO,
		"%s: it takes smaller records than %d bytes, expected at least these", s->host,
		CLIENT_SOCKET_RECORD);
}

static bool waits(ssize_t n)
{
	return n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED;
}

int client_socket_flush(struct client_socket *s, struct err *err)
{
	ssize_t n;

	if (s->pending) {
		/* No bytes: those that it has. */
		n = gnutls_record_send(s->tls, NULL, 0);
		s->pending = waits(n);
		if (n < 0 && !s->pending)
			return failed(s, n, err);
		if (!s->pending && (size_t)n < s->given)
			return too_small(s, err);
	}
	if (s->pending || !s->ending || s->shut)
		return 0;
	n = s->tls ? gnutls_bye(s->tls, GNUTLS_SHUT_WR) : shutdown(s->fd, SHUT_WR);
	s->shut = n == 0;
	return n == 0 || (s->tls && waits(n)) ? 0 : failed(s, n, err);
}

int client_socket_write(
	struct client_socket *s, struct slice bytes, size_t *ret_taken, struct err *err)
{
	ssize_t n;

	*ret_taken = 0;
	if (bytes.len > CLIENT_SOCKET_RECORD)
		bytes.len = CLIENT_SOCKET_RECORD;
	if (!s->tls) {
		n = send(s->fd, bytes.at, bytes.len, MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return failed(s, n, err);
		*ret_taken = n > 0 ? (size_t)n : 0;
		return 0;
	}
	n = gnutls_record_send(s->tls, bytes.at, bytes.len);
	if (n < 0 && !waits(n))
		return failed(s, n, err);
	s->pending = n < 0;
	s->given = bytes.len;
	*ret_taken = bytes.len;
	return n < 0 || (size_t)n == bytes.len ? 0 : too_small(s, err);
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
	return s->pending || s->sent < s->out.len || (s->ending && !s->shut);
}

bool client_socket_dry(const struct client_socket *s)
{
	return !s->tls || s->dry;
}
