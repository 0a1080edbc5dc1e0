/* SPDX-License-Identifier: Apache-2.0 */
/* net: a connection to somebody else, through GnuTLS. */
#define _GNU_SOURCE
#include "net/client_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/x509.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/client_socket_impl.h"

#define SEND_MAX (1u << 20)
/* A peer that is gone is found out within a minute: asked after so many seconds of silence, so
 * often, so many times. */
#define KEEPALIVE_IDLE_S 30
#define KEEPALIVE_EACH_S 10
#define KEEPALIVE_TIMES 3
#define UNANSWERED_MS 60000
/* Records in a row without a byte of the stream: tickets, keys, warnings. */
#define EMPTY_MAX 32

static int no_memory(struct err *err)
{
	return err_set(err, ERR_NOMEM, "out of memory for a connection");
}

/* ---- the way there ---- */

static int look_up(const struct client_target *t, struct addrinfo **ret, struct err *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
	char port[8];
	int rc;

	(void)snprintf(port, sizeof(port), "%u", (unsigned)t->port);
	rc = getaddrinfo(t->host, port, &hints, ret);
	if (rc == EAI_NONAME) {
		hints.ai_flags = AI_ADDRCONFIG;
		rc = getaddrinfo(t->host, port, &hints, ret);
	}
	if (rc == EAI_MEMORY)
		return no_memory(err);
	if (rc != 0)
		return err_set(err, ERR_NOTFOUND, "%s: %s", t->host, gai_strerror(rc));
	return 0;
}

void client_socket_keepalive(int fd)
{
	const int on = 1, idle = KEEPALIVE_IDLE_S, each = KEEPALIVE_EACH_S, times = KEEPALIVE_TIMES;
	const unsigned unanswered = UNANSWERED_MS;

	/* What cannot be set leaves a connection that takes longer to be found dead. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &each, sizeof(each));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof(times));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered, sizeof(unanswered));
}

void client_socket_patient(int fd)
{
	const unsigned never = 0;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &never, sizeof(never));
}

static const struct addrinfo *nth(const struct addrinfo *a, unsigned n)
{
	while (n-- > 0)
		a = a->ai_next;
	return a;
}

/* The first of its addresses, from t->first on, to which a connection can be begun. */
static int begin(const struct client_target *t, int *ret_fd, struct err *err)
{
	struct addrinfo *all = NULL;
	int fd = -1, why = 0, rc = look_up(t, &all, err);
	unsigned n = 0;

	if (rc != 0)
		return rc;
	for (const struct addrinfo *a = all; a; a = a->ai_next)
		n++;
	for (unsigned i = 0; i < n && fd < 0; i++) {
		const struct addrinfo *a = nth(all, (t->first % n + i) % n);

		fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) != 0 &&
			errno != EINPROGRESS) {
			why = errno;
			(void)close(fd);
			fd = -1;
		} else if (fd < 0) {
			why = errno;
		}
	}
	freeaddrinfo(all);
	if (fd < 0)
		return err_set(err, ERR_IO, "%s port %u: %s", t->host, (unsigned)t->port,
			strerrordesc_np(why));
	client_socket_keepalive(fd);
	*ret_fd = fd;
	return 0;
}

static int finish_connect(struct client_socket *s, struct err *err)
{
	struct pollfd p = {.fd = s->fd, .events = POLLOUT};
	socklen_t len = sizeof(int);
	int why = 0;

	if (poll(&p, 1, 0) <= 0)
		return 0;
	if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &why, &len) != 0)
		why = errno;
	if (why != 0)
		return err_set(err, ERR_IO, "%s: %s", s->host, strerrordesc_np(why));
	s->state = s->tls ? HANDSHAKE : READY;
	return 0;
}

/* ---- TLS ---- */

static int tls_failed(int rc, const char *what, struct err *err)
{
	if (rc == GNUTLS_E_MEMORY_ERROR)
		return no_memory(err);
	return err_set(err, ERR_IO, "%s: %s", what, gnutls_strerror(rc));
}

static int load_files(struct client_socket *s, const struct client_target *t, struct err *err)
{
	int rc = t->ca_file ? gnutls_certificate_set_x509_trust_file(
				      s->trust, t->ca_file, GNUTLS_X509_FMT_PEM)
			    : gnutls_certificate_set_x509_system_trust(s->trust);

	if (rc < 0)
		return tls_failed(rc, t->ca_file ? t->ca_file : "the system's CAs", err);
	if (rc == 0)
		return err_set(err, ERR_IO, "%s: holds no certificate",
			t->ca_file ? t->ca_file : "the system's CAs");
	if (!t->cert_file)
		return 0;
	rc = gnutls_certificate_set_x509_key_file(s->trust, t->cert_file,
		t->key_file ? t->key_file : t->cert_file, GNUTLS_X509_FMT_PEM);
	return rc < 0 ? tls_failed(rc, t->cert_file, err) : 0;
}

static int start_tls(struct client_socket *s, const struct client_target *t, struct err *err)
{
	static unsigned char purpose[] = GNUTLS_KP_TLS_WWW_SERVER;
	unsigned char address[sizeof(struct in6_addr)];
	int rc = gnutls_certificate_allocate_credentials(&s->trust);

	if (rc != 0)
		return tls_failed(rc, "TLS", err);
	rc = load_files(s, t, err);
	if (rc != 0)
		return rc;
	rc = gnutls_init(&s->tls, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
	if (rc == 0)
		rc = gnutls_priority_set_direct(s->tls, tls_priorities, NULL);
	if (rc == 0)
		rc = gnutls_credentials_set(s->tls, GNUTLS_CRD_CERTIFICATE, s->trust);
	if (rc == 0 && inet_pton(AF_INET, s->host, address) != 1 &&
		inet_pton(AF_INET6, s->host, address) != 1)
		rc = gnutls_server_name_set(s->tls, GNUTLS_NAME_DNS, s->host, strlen(s->host));
	if (rc != 0)
		return tls_failed(rc, "TLS", err);
	/* A cluster's CA signs clients, too, with names that they asked for. */
	s->peer[0].type = GNUTLS_DT_DNS_HOSTNAME;
	s->peer[0].data = (unsigned char *)s->host;
	s->peer[1].type = GNUTLS_DT_KEY_PURPOSE_OID;
	s->peer[1].data = purpose;
	gnutls_session_set_verify_cert2(s->tls, s->peer, 2, 0);
	client_socket_transport(s);
	return 0;
}

static int untrusted(const struct client_socket *s, struct err *err)
{
	unsigned status = gnutls_session_get_verify_cert_status(s->tls);
	gnutls_datum_t text = {0};

	if (gnutls_certificate_verification_status_print(
		    status, gnutls_certificate_type_get(s->tls), &text, 0) != 0)
		return err_set(err, ERR_IO, "%s: its certificate is not trusted", s->host);
	(void)err_set(err, ERR_IO, "%s: %.*s", s->host, (int)text.size, (const char *)text.data);
	gnutls_free(text.data);
	return ERR_IO;
}

static int handshake(struct client_socket *s, struct err *err)
{
	int rc;

	do
		rc = gnutls_handshake(s->tls);
	while (rc < 0 && rc != GNUTLS_E_AGAIN && rc != GNUTLS_E_INTERRUPTED &&
		!gnutls_error_is_fatal(rc));
	if (rc == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR)
		return untrusted(s, err);
	if (rc == GNUTLS_E_FATAL_ALERT_RECEIVED)
		return err_set(err, ERR_IO, "%s: TLS alert: %s", s->host,
			gnutls_alert_get_name(gnutls_alert_get(s->tls)));
	if (rc < 0 && gnutls_error_is_fatal(rc))
		return tls_failed(rc, s->host, err);
	if (rc == 0)
		s->state = READY;
	return 0;
}

/* ---- from outside ---- */

int client_socket_open(
	const struct client_target *target, struct client_socket **ret, struct err *err)
{
	struct client_socket *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return no_memory(err);
	s->fd = -1;
	s->whole = target->whole;
	buf_init(&s->out, SEND_MAX);
	s->host = strdup(target->name ? target->name : target->host);
	rc = s->host ? begin(target, &s->fd, err) : no_memory(err);
	if (rc == 0 && target->tls)
		rc = start_tls(s, target, err);
	if (rc != 0) {
		client_socket_free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

void client_socket_free(struct client_socket *s)
{
	if (!s)
		return;
	if (s->tls) {
		if (s->state == READY && !s->shut)
			(void)gnutls_bye(s->tls, GNUTLS_SHUT_WR);
		gnutls_deinit(s->tls);
	}
	tls_session_detach(&s->session);
	if (s->trust)
		gnutls_certificate_free_credentials(s->trust);
	if (s->fd >= 0)
		(void)close(s->fd);
	if (s->out.data)
		explicit_bzero(s->out.data, s->out.cap); /* it had a token */
	buf_release(&s->out);
	buf_release(&s->sealed);
	free(s->ahead);
	free(s->host);
	free(s);
}

int client_socket_fd(const struct client_socket *s)
{
	return s->fd;
}

bool client_socket_ready(const struct client_socket *s)
{
	return s->state == READY;
}

short client_socket_events(const struct client_socket *s)
{
	if (s->state == CONNECTING)
		return POLLOUT;
	if (s->state == HANDSHAKE)
		return gnutls_record_get_direction(s->tls) ? POLLOUT : POLLIN;
	return client_socket_sending(s) ? POLLIN | POLLOUT : POLLIN;
}

int client_socket_send(struct client_socket *s, struct slice bytes, struct err *err)
{
	buf_slice(&s->out, bytes);
	if (s->out.failed)
		return s->out.full ? err_set(err, ERR_TOOBIG, "%s: too much to send", s->host)
				   : no_memory(err);
	return 0;
}

static int send_rest(struct client_socket *s, struct err *err)
{
	int rc = client_socket_flush(s, err);

	if (rc != 0 || s->sealed.len > 0)
		return rc;
	while (s->sent < s->out.len) {
		const char *at = s->out.data + s->sent;
		size_t len = s->out.len - s->sent;
		ssize_t n = s->tls ? gnutls_record_send(s->tls, at, len)
				   : send(s->fd, at, len, MSG_NOSIGNAL);

		if (n < 0 && (s->tls ? n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED
				     : errno == EAGAIN || errno == EINTR))
			return 0;
		if (n < 0)
			return err_set(err, ERR_IO, "%s: %s", s->host,
				s->tls ? gnutls_strerror((int)n) : strerrordesc_np(errno));
		s->sent += (size_t)n;
	}
	if (s->out.data)
		explicit_bzero(s->out.data, s->out.len);
	buf_clear(&s->out);
	s->sent = 0;
	return 0;
}

int client_socket_turn(struct client_socket *s, struct err *err)
{
	int rc = 0;

	if (s->state == CONNECTING)
		rc = finish_connect(s, err);
	if (rc == 0 && s->state == HANDSHAKE)
		rc = handshake(s, err);
	if (rc == 0 && s->state == READY)
		rc = send_rest(s, err);
	return rc;
}

int client_socket_read(struct client_socket *s, void *to, size_t max, size_t *ret_len,
	bool *ret_end, struct err *err)
{
	ssize_t n;

	*ret_len = 0;
	*ret_end = false;
	if (s->state != READY)
		return 0;
	n = s->tls ? gnutls_record_recv(s->tls, to, max) : recv(s->fd, to, max, 0);
	if (n > 0) {
		*ret_len = (size_t)n;
		s->empty = 0;
	} else if (n == 0 || (s->tls && n == GNUTLS_E_PREMATURE_TERMINATION && !s->whole)) {
		*ret_end = true;
	} else if (s->tls ? gnutls_error_is_fatal((int)n) != 0
			  : errno != EAGAIN && errno != EINTR) {
		return err_set(err, ERR_IO, "%s: %s", s->host,
			s->tls ? gnutls_strerror((int)n) : strerrordesc_np(errno));
	} else if (!client_socket_dry(s) && ++s->empty > EMPTY_MAX) {
		/* Callers go on until nothing is there, and would have no end. */
		return err_set(
			err, ERR_IO, "%s: more than %d records without a byte", s->host, EMPTY_MAX);
	}
	return 0;
}
