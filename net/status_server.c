/* SPDX-License-Identifier: Apache-2.0 */
/* net: health and metrics over HTTP, one answer for each connection. */
#define _GNU_SOURCE
#include "net/status_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/metric.h"
#include "base/text.h"
#include "net/address.h"
#include "net/http_head.h"
#include "net/peers.h"

#define REQUEST_MAX 4096
#define ANSWER_MAX (512u * 1024)
/* From the connection's first byte to the answer's last. */
#define CONNECTION_MS 5000
/* No descriptor is free: look again. */
#define ACCEPT_AGAIN_MS 1000
/* Newcomers in one turn. */
#define ACCEPTS 16

struct connection {
	int fd;                    /* -1: none */
	struct client_socket *tls; /* whose fd it is; NULL: without TLS */
	uint64_t peer;
	bool allowed; /* it has shown that it may ask */
	int64_t end_ms;
	struct buf in, out;
	size_t sent;
};

struct status_server {
	struct status_app app;
	int fd;
	int64_t accept_ms; /* not before */
	struct peers peers;
	struct connection connection[STATUS_CONNECTIONS_MAX];
};

/* ---- answers ---- */

static void answer(struct connection *c, const char *status, const char *type, struct slice body)
{
	buf_fmt(&c->out,
		"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: "
		"close\r\n\r\n",
		status, type, body.len);
	buf_slice(&c->out, body);
}

static void say(struct connection *c, const char *status, const char *sentence)
{
	struct buf line;

	buf_init(&line, 1024);
	buf_fmt(&line, "%s\n", sentence);
	answer(c, status, "text/plain; charset=utf-8", buf_as_slice(&line));
	buf_release(&line);
}

static void written(struct status_server *s, struct connection *c, const char *type,
	void (*write)(void *ctx, struct buf *out))
{
	struct buf out;

	buf_init(&out, ANSWER_MAX / 2);
	write(s->app.ctx, &out);
	if (out.failed)
		say(c, "500 Internal Server Error", "out of memory");
	else
		answer(c, "200 OK", type, buf_as_slice(&out));
	buf_release(&out);
}

/* The head's lines behind the first say who asks. */
static bool is_allowed(const struct status_server *s, struct connection *c)
{
	struct slice word, token, value;

	if (!s->app.may)
		return true;
	value = http_head_value(buf_as_slice(&c->in), "Authorization", 0);
	if (!value.at || !text_word(&value, &word) || !text_ieq(word, SLICE("Bearer")) ||
		!text_word(&value, &token))
		token = (struct slice){0};
	c->allowed = s->app.may(s->app.ctx, token);
	return c->allowed;
}

/* The request is here whole: "GET /livez HTTP/1.1" and headers that concern nobody. */
static void respond(struct status_server *s, struct connection *c)
{
	struct slice rest = {c->in.data, strcspn(c->in.data, "\r\n")}, method, path, version;
	const char *why;

	if (!text_word(&rest, &method) || !text_word(&rest, &path) || !text_word(&rest, &version) ||
		!slice_starts(version, SLICE("HTTP/1."))) {
		say(c, "400 Bad Request", "expected GET /livez, /readyz or /metrics");
		return;
	}
	path.len = memchr(path.at, '?', path.len)
			   ? (size_t)((const char *)memchr(path.at, '?', path.len) - path.at)
			   : path.len;
	if (!slice_is(method, "GET")) {
		say(c, "405 Method Not Allowed", "only GET is answered here");
	} else if (slice_is(path, "/livez")) {
		say(c, "200 OK", "ok");
	} else if (!is_allowed(s, c)) {
		say(c, "401 Unauthorized", "a bearer token is asked for");
	} else if (slice_is(path, "/readyz")) {
		why = s->app.unready(s->app.ctx);
		say(c, why ? "503 Service Unavailable" : "200 OK", why ? why : "ok");
	} else if (slice_is(path, "/metrics")) {
		written(s, c, METRIC_CONTENT_TYPE, s->app.metrics);
	} else if (s->app.page && slice_is(path, s->app.page)) {
		written(s, c, "application/json", s->app.write_page);
	} else {
		say(c, "404 Not Found", "here are /livez, /readyz and /metrics");
	}
}

/* ---- connections ---- */

static void hang_up(struct status_server *s, struct connection *c)
{
	if (!c->allowed)
		peers_failed(&s->peers, c->peer, clock_ms());
	if (c->tls)
		client_socket_free(c->tls);
	else
		(void)close(c->fd);
	c->tls = NULL;
	c->fd = -1;
	buf_release(&c->in);
	buf_release(&c->out);
	c->sent = 0;
}

/* As recv() does it. */
static ssize_t take(struct connection *c, char *to, size_t max)
{
	size_t n = 0;
	bool end = false;

	if (!c->tls)
		return recv(c->fd, to, max, 0);
	if (client_socket_turn(c->tls, NULL) != 0)
		return 0;
	if (client_socket_ready(c->tls) && client_socket_read(c->tls, to, max, &n, &end, NULL) != 0)
		return 0;
	errno = EAGAIN;
	return n > 0 || end ? (ssize_t)n : -1;
}

/* As send() does it. */
static ssize_t give(struct connection *c, const char *from, size_t len)
{
	size_t n = 0;

	if (!c->tls)
		return send(c->fd, from, len, MSG_NOSIGNAL);
	errno = EIO;
	if (client_socket_turn(c->tls, NULL) != 0)
		return -1;
	if (!client_socket_sending(c->tls) &&
		client_socket_write(c->tls, (struct slice){from, len}, &n, NULL) != 0)
		return -1;
	errno = EAGAIN;
	return n > 0 ? (ssize_t)n : -1;
}

/* False: it has ended. */
static bool receive(struct status_server *s, struct connection *c)
{
	ssize_t n;

	while (c->out.len == 0) {
		if (!buf_reserve(&c->in, 512)) {
			say(c, "431 Request Header Fields Too Large", "the request is too long");
			return true;
		}
		n = take(c, c->in.data + c->in.len, c->in.cap - c->in.len - 1);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		if (n == 0)
			return false;
		c->in.len += (size_t)n;
		c->in.data[c->in.len] = '\0';
		if (memchr(c->in.data, '\0', c->in.len))
			say(c, "400 Bad Request", "expected text");
		else if (strstr(c->in.data, "\r\n\r\n") || strstr(c->in.data, "\n\n"))
			respond(s, c);
	}
	return true;
}

/* False: all is sent, or nothing can be. */
static bool reply(struct connection *c)
{
	while (c->sent < c->out.len) {
		ssize_t n = give(c, c->out.data + c->sent, c->out.len - c->sent);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		c->sent += (size_t)n;
	}
	/* So that what the client may still send does not take the answer from it. */
	if (!c->tls)
		(void)shutdown(c->fd, SHUT_WR);
	else if (client_socket_shut(c->tls, NULL) == 0)
		return client_socket_sending(c->tls);
	return false;
}

static void go_on(struct status_server *s, struct connection *c)
{
	bool lives = c->out.len > 0 || receive(s, c);

	if (lives && c->out.failed)
		lives = false;
	if (lives && c->out.len > 0)
		lives = reply(c);
	if (!lives || clock_ms() >= c->end_ms)
		hang_up(s, c);
}

static size_t places_of(const struct status_server *s, uint64_t peer)
{
	size_t n = 0;

	for (size_t i = 0; i < STATUS_CONNECTIONS_MAX; i++)
		n += s->connection[i].fd >= 0 && s->connection[i].peer == peer;
	return n;
}

/* A place for a newcomer: a free one, or of the peer that has most of them that of who has been
 * here longest. Who says nothing, or reads nothing, does not keep the kubelet's probes out. */
static struct connection *make_place(struct status_server *s)
{
	struct connection *oldest = &s->connection[0];
	size_t most = 0;

	for (size_t i = 0; i < STATUS_CONNECTIONS_MAX; i++) {
		struct connection *c = &s->connection[i];
		size_t n;

		if (c->fd < 0)
			return c;
		n = places_of(s, c->peer);
		if (n > most || (n == most && c->end_ms < oldest->end_ms)) {
			most = n;
			oldest = c;
		}
	}
	hang_up(s, oldest);
	return oldest;
}

/* False: nobody waits, or nobody can be taken now. */
static bool accept_one(struct status_server *s)
{
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);
	int fd = accept4(s->fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct connection *c;
	uint64_t key;

	if (fd < 0) {
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			s->accept_ms = clock_ms() + ACCEPT_AGAIN_MS;
		return false;
	}
	key = address_peer(&peer);
	/* Before the handshake, which costs most. */
	if (!peers_may(&s->peers, key, clock_ms())) {
		(void)close(fd);
		return true;
	}
	c = make_place(s);
	if (s->app.tls) {
		if (client_socket_accept(fd, "status", s->app.tls, &c->tls, NULL) != 0)
			return true;
		fd = client_socket_fd(c->tls);
	}
	c->fd = fd;
	c->peer = key;
	c->allowed = false;
	c->end_ms = clock_ms() + CONNECTION_MS;
	buf_init(&c->in, REQUEST_MAX);
	buf_init(&c->out, ANSWER_MAX);
	go_on(s, c); /* most have asked already, and need no place then */
	return true;
}

static void accept_all(struct status_server *s)
{
	for (int i = 0; i < ACCEPTS; i++)
		if (!accept_one(s))
			return;
}

void status_server_turn(struct status_server *s)
{
	if (s->accept_ms <= clock_ms())
		accept_all(s);
	for (size_t i = 0; i < STATUS_CONNECTIONS_MAX; i++)
		if (s->connection[i].fd >= 0)
			go_on(s, &s->connection[i]);
}

size_t status_server_poll(
	const struct status_server *s, struct pollfd to[static STATUS_POLL_MAX], int64_t *ret_ms)
{
	int64_t now = clock_ms(), left;
	size_t n = 0;

	*ret_ms = -1;
	for (size_t i = 0; i < STATUS_CONNECTIONS_MAX; i++) {
		const struct connection *c = &s->connection[i];

		if (c->fd < 0)
			continue;
		to[n++] = (struct pollfd){.fd = c->fd,
			.events = c->tls       ? client_socket_events(c->tls)
				  : c->out.len ? POLLOUT
					       : POLLIN};
		left = c->end_ms > now ? c->end_ms - now : 0;
		*ret_ms = *ret_ms < 0 || left < *ret_ms ? left : *ret_ms;
	}
	if (s->accept_ms <= now)
		to[n++] = (struct pollfd){.fd = s->fd, .events = POLLIN};
	else if (*ret_ms < 0 || s->accept_ms - now < *ret_ms)
		*ret_ms = s->accept_ms - now;
	return n;
}

/* ---- start and end ---- */

/* An address of either family; "" is all addresses, of both families where there are two. */
static int open_socket(
	const char *host, uint16_t port, struct sockaddr_storage *ret_address, socklen_t *ret_len)
{
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret_address;
	struct sockaddr_in *v4 = (struct sockaddr_in *)ret_address;
	const int off = 0;
	int fd = -1;

	*ret_address = (struct sockaddr_storage){0};
	if (!host[0] || inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
		*ret_len = sizeof(*v6);
		fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (fd >= 0)
			(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	}
	if (fd >= 0 || (host[0] && inet_pton(AF_INET, host, &v4->sin_addr) != 1))
		return fd;
	v4->sin_family = AF_INET;
	v4->sin_port = htons(port);
	*ret_len = sizeof(*v4);
	return socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static int listen_at(const char *at, int *ret_fd, struct err *err)
{
	struct sockaddr_storage address;
	const int on = 1;
	socklen_t len = 0;
	char host[64];
	uint16_t port;
	int fd, rc = text_host_port(slice_of(at), host, &port, err);

	if (rc != 0)
		return rc;
	errno = EINVAL;
	fd = open_socket(host, port, &address, &len);
	if (fd < 0)
		return err_set(err, ERR_IO, "cannot listen at %s: %s", at, strerrordesc_np(errno));
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (const struct sockaddr *)&address, len) != 0 || listen(fd, 16) != 0) {
		rc = err_set(err, ERR_IO, "cannot listen at %s: %s", at, strerrordesc_np(errno));
		(void)close(fd);
		return rc;
	}
	*ret_fd = fd;
	return 0;
}

int status_server_new(const char *listen, const struct status_app *app, struct status_server **ret,
	struct err *err)
{
	struct status_server *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return err_set(err, ERR_NOMEM, "out of memory");
	s->app = *app;
	s->peers.per_minute = app->may ? STATUS_TRIES : 0;
	for (size_t i = 0; i < STATUS_CONNECTIONS_MAX; i++)
		s->connection[i].fd = -1;
	rc = listen_at(listen, &s->fd, err);
	if (rc != 0) {
		free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

void status_server_free(struct status_server *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < STATUS_CONNECTIONS_MAX; i++)
		if (s->connection[i].fd >= 0)
			hang_up(s, &s->connection[i]);
	(void)close(s->fd);
	free(s);
}

uint16_t status_server_port(const struct status_server *s)
{
	struct sockaddr_in6 a = {0};
	socklen_t len = sizeof(a);

	/* Both families have it in the same place. */
	if (getsockname(s->fd, (struct sockaddr *)&a, &len) != 0)
		return 0;
	return ntohs(a.sin6_port);
}
