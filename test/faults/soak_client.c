/* SPDX-License-Identifier: Apache-2.0 */
/* soak: a client over TLS that can be cut off at any byte. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gnutls/gnutls.h>

#include "base/text.h"
#include "test/faults/soak.h"

#define PATIENCE_S 30

static ssize_t push(gnutls_transport_ptr_t ptr, const void *data, size_t len)
{
	struct client *c = ptr;
	ssize_t sent;

	if (c->budget == 0) {
		gnutls_transport_set_errno(c->tls, EPIPE);
		return -1;
	}
	if (c->budget > 0 && (uint64_t)c->budget < len)
		len = (size_t)c->budget;
	sent = send(c->fd, data, len, MSG_NOSIGNAL);
	if (sent < 0)
		gnutls_transport_set_errno(c->tls, errno);
	else if (c->budget > 0)
		c->budget -= sent;
	return sent;
}

static ssize_t pull(gnutls_transport_ptr_t ptr, void *data, size_t len)
{
	struct client *c = ptr;
	ssize_t got = recv(c->fd, data, len, 0);

	if (got < 0)
		gnutls_transport_set_errno(c->tls, errno == EAGAIN ? ETIMEDOUT : errno);
	return got;
}

static void forget(struct client *c)
{
	if (c->tls)
		gnutls_deinit(c->tls);
	c->tls = NULL;
	if (c->fd >= 0)
		(void)close(c->fd);
	c->fd = -1;
}

void client_kill(struct client *c)
{
	struct linger at_once = {.l_onoff = 1};

	if (c->fd >= 0)
		(void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	forget(c);
}

void client_close(struct client *c)
{
	c->budget = -1;
	if (c->tls)
		(void)gnutls_bye(c->tls, GNUTLS_SHUT_WR);
	forget(c);
}

static enum answer broken(struct client *c, struct reply *reply, const char *why)
{
	if (c->budget == 0) {
		client_kill(c);
		return CUT;
	}
	reply->why = why;
	client_kill(c);
	return BROKEN;
}

static bool dial(struct client *c)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
		.sin_port = htons(c->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct timeval patience = {.tv_sec = PATIENCE_S};

	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return c->fd >= 0 &&
	       setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0 &&
	       setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) == 0 &&
	       connect(c->fd, (const struct sockaddr *)&to, sizeof(to)) == 0;
}

enum answer client_open(struct client *c, struct reply *reply)
{
	unsigned bad = 0;
	int rc;

	if (c->tls)
		return ANSWERED;
	if (!dial(c))
		return broken(c, reply, strerror(errno));
	if (gnutls_init(&c->tls, GNUTLS_CLIENT) != 0 || gnutls_set_default_priority(c->tls) != 0 ||
		gnutls_credentials_set(c->tls, GNUTLS_CRD_CERTIFICATE, c->trust) != 0)
		return broken(c, reply, "no session");
	gnutls_session_set_verify_cert(c->tls, "localhost", 0);
	(void)gnutls_server_name_set(c->tls, GNUTLS_NAME_DNS, "localhost", 9);
	gnutls_transport_set_ptr(c->tls, c);
	gnutls_transport_set_push_function(c->tls, push);
	gnutls_transport_set_pull_function(c->tls, pull);
	do
		rc = gnutls_handshake(c->tls);
	while (rc == GNUTLS_E_INTERRUPTED || rc == GNUTLS_E_AGAIN);
	if (rc != 0)
		return broken(c, reply, gnutls_strerror(rc));
	bad = gnutls_session_get_verify_cert_status(c->tls);
	return bad ? broken(c, reply, "a certificate that is not trusted") : ANSWERED;
}

static enum answer send_all(struct client *c, const char *text, size_t len, struct reply *reply)
{
	while (len > 0) {
		ssize_t n = gnutls_record_send(c->tls, text, len);

		if (n == GNUTLS_E_INTERRUPTED)
			continue;
		if (n < 0)
			return broken(c, reply, gnutls_strerror((int)n));
		text += n;
		len -= (size_t)n;
	}
	return ANSWERED;
}

/* What a head says: its status, and how long the body is. */
static bool read_head(const char *head, unsigned *status, size_t *length)
{
	const char *at = strstr(head, "\r\nContent-Length: "), *end;
	uint64_t n = 0, code = 0;

	if (strncmp(head, "HTTP/1.1 ", 9) != 0 || !at)
		return false;
	at += 18;
	end = strstr(at, "\r\n");
	if (!end || !text_u64((struct slice){at, (size_t)(end - at)}, REPLY_MAX / 2, &n) ||
		!text_u64((struct slice){head + 9, 3}, 999, &code))
		return false;
	*length = n;
	*status = (unsigned)code;
	return true;
}

static enum answer read_reply(struct client *c, struct reply *reply)
{
	char *body = NULL;
	size_t have = 0, want = 0;

	for (;;) {
		ssize_t n;

		if (body && have - (size_t)(body - reply->body) >= want)
			break;
		if (have + 1 >= REPLY_MAX)
			return broken(c, reply, "a reply that is too long");
		n = gnutls_record_recv(c->tls, reply->body + have, REPLY_MAX - 1 - have);
		if (n == GNUTLS_E_INTERRUPTED || n == GNUTLS_E_AGAIN)
			continue;
		if (n == 0)
			return broken(c, reply, "closed before the reply was whole");
		if (n < 0)
			return broken(c, reply, gnutls_strerror((int)n));
		have += (size_t)n;
		reply->body[have] = '\0';
		if (!body && (body = strstr(reply->body, "\r\n\r\n")) != NULL) {
			body[2] = '\0';
			body += 4;
			if (!read_head(reply->body, &reply->status, &want))
				return broken(c, reply, "no head that can be read");
		}
	}
	reply->len = have - (size_t)(body - reply->body);
	memmove(reply->body, body, reply->len + 1);
	return reply->len == want ? ANSWERED : broken(c, reply, "bytes behind the reply");
}

enum answer client_ask(
	struct client *c, const char *text, size_t len, bool read, struct reply *reply)
{
	enum answer a = client_open(c, reply);

	reply->status = 0;
	reply->len = 0;
	if (a == ANSWERED)
		a = send_all(c, text, len, reply);
	if (a == ANSWERED && read)
		a = read_reply(c, reply);
	return a;
}
