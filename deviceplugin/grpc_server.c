/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: the gRPC server: who may connect, for how long, and what is done when. */
#define _GNU_SOURCE

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "deviceplugin/grpc_impl.h"

/* Lines about clients that broke the rules, in so long. */
#define TOLD_MAX 10
#define TOLD_MS 60000

/* Of the socket's two: the events name the one that is meant by its address. */
static bool look_at(struct grpc_server *s, int *fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	event.data.ptr = fd;
	return epoll_ctl(s->epoll, EPOLL_CTL_ADD, *fd, &event) == 0;
}

/* ---- clients ---- */

static void tell(struct grpc_server *s, const char *what)
{
	int64_t now = clock_ms();

	if (now - s->told_since_ms >= TOLD_MS) {
		s->told_since_ms = now;
		s->told = 0;
	}
	if (s->told >= TOLD_MAX) {
		s->untold++;
		return;
	}
	s->told++;
	log_line(s->log, LOG_LEVEL_WARN, "a client was dropped", log_str("reason", what),
		log_int("more_before", s->untold));
	s->untold = 0;
}

/* Free those that are broken. Not while events of this turn may still name them. */
static void bury(struct grpc_server *s)
{
	struct grpc_connection **at = &s->connections, *c;

	while ((c = *at)) {
		if (!c->broken) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		if (c->broken[0] != '\0')
			tell(s, c->broken);
		grpc_connection_free(c);
	}
}

/* Room for a new client: that of one who asks nothing, the oldest first. */
static bool make_room(struct grpc_server *s)
{
	struct grpc_connection *oldest = NULL;
	unsigned alive = 0;

	for (struct grpc_connection *c = s->connections; c; c = c->next) {
		if (c->broken)
			continue;
		alive++;
		/* the list begins with the newest */
		if (!c->streams)
			oldest = c;
	}
	if (alive < GRPC_CONNECTIONS_MAX)
		return true;
	if (oldest)
		grpc_connection_break(oldest, "others want to connect, and it asks nothing");
	return oldest != NULL;
}

static void add(struct grpc_server *s, int fd)
{
	struct grpc_connection *c;

	if (!make_room(s)) {
		tell(s, "too many clients");
		(void)close(fd);
		return;
	}
	c = grpc_connection_new(s, fd);
	if (!c) {
		tell(s, "out of memory");
		return;
	}
	c->next = s->connections;
	s->connections = c;
}

static void accept_clients(struct grpc_server *s)
{
	/* -1: the socket was taken away in this turn */
	for (int i = 0; i < GRPC_CONNECTIONS_MAX && s->socket.fd >= 0; i++) {
		struct sockaddr_un from;
		socklen_t len = sizeof(from);
		int fd = accept4(
			s->socket.fd, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			add(s, fd);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno != EAGAIN) {
			/* no descriptors: the socket stays readable, so it is left alone for a
			 * while */
			tell(s, strerror(errno));
			(void)epoll_ctl(s->epoll, EPOLL_CTL_DEL, s->socket.fd, NULL);
			s->accept_at_ms = clock_ms() + GRPC_RETRY_MS;
		}
		return;
	}
}

static void serve(struct grpc_connection *c, uint32_t events)
{
	if (c->broken)
		return;
	if (events & EPOLLOUT)
		grpc_connection_write(c);
	if (!c->broken && (events & EPOLLIN))
		grpc_connection_read(c);
	if (!c->broken && (events & (EPOLLHUP | EPOLLERR)) && !(events & EPOLLIN))
		grpc_connection_break(c, "");
}

/* ---- the socket ---- */

static void listen_anew(struct grpc_server *s)
{
	struct err err = {0};

	s->accept_at_ms = 0;
	s->listen_at_ms = 0;
	if (grpc_socket_listen(&s->socket, &err) == 0 && look_at(s, &s->socket.fd)) {
		log_line(s->log, LOG_LEVEL_INFO, "listening anew",
			log_str("socket", s->socket.path));
		s->lost = false;
		return;
	}
	if (!s->lost)
		log_line(s->log, LOG_LEVEL_ERROR, "cannot listen anew",
			log_str("socket", s->socket.path), log_str("error", err.msg));
	s->lost = true;
	s->listen_at_ms = clock_ms() + GRPC_RETRY_MS;
}

static void folder_changed(struct grpc_server *s)
{
	grpc_socket_events(&s->socket);
	if (s->ending || grpc_socket_ours(&s->socket))
		return;
	if (!s->lost)
		log_line(s->log, LOG_LEVEL_WARN, "the socket was taken away",
			log_str("socket", s->socket.path));
	listen_anew(s);
}

void grpc_server_patience(struct grpc_server *s, int request_ms)
{
	s->request_ms = request_ms;
}

struct grpc_load grpc_server_load(const struct grpc_server *s)
{
	struct grpc_load load = {.kept = s->kept};

	for (const struct grpc_connection *c = s->connections; c; c = c->next)
		load.connections++;
	return load;
}

bool grpc_server_listens(const struct grpc_server *s)
{
	return s->socket.fd >= 0;
}

/* ---- time ---- */

/* When c must have come further, 0: it need not. */
static int64_t limit_of(const struct grpc_connection *c)
{
	int64_t limit = c->greeted ? 0 : c->since_ms + c->server->request_ms;

	for (const struct grpc_stream *st = c->streams; st; st = st->next)
		if (st->since_ms != 0 &&
			(limit == 0 || st->since_ms + c->server->request_ms < limit))
			limit = st->since_ms + c->server->request_ms;
	return limit;
}

static void earlier(int64_t *at, int64_t candidate)
{
	if (candidate != 0 && (*at == 0 || candidate < *at))
		*at = candidate;
}

/* Do what is due; when something will be next, 0: never. */
static int64_t do_due(struct grpc_server *s)
{
	int64_t now = clock_ms(), next = 0;

	if (s->listen_at_ms != 0 && s->listen_at_ms <= now)
		listen_anew(s);
	if (s->accept_at_ms != 0 && s->accept_at_ms <= now) {
		s->accept_at_ms = 0;
		(void)look_at(s, &s->socket.fd);
	}
	earlier(&next, s->listen_at_ms);
	earlier(&next, s->accept_at_ms);
	for (struct grpc_connection *c = s->connections; c; c = c->next) {
		int64_t limit = limit_of(c);

		if (limit != 0 && limit <= now)
			grpc_connection_break(c, "a request that took too long");
		else
			earlier(&next, limit);
	}
	return next;
}

int grpc_server_turn(struct grpc_server *s)
{
	struct epoll_event events[GRPC_CONNECTIONS_MAX + 2];
	int n = epoll_wait(s->epoll, events, sizeof(events) / sizeof(events[0]), 0);
	int64_t next, now;

	for (int i = 0; i < n; i++) {
		void *who = events[i].data.ptr;

		if (who == &s->socket.fd)
			accept_clients(s);
		else if (who == &s->socket.inotify)
			folder_changed(s);
		else
			serve(who, events[i].events);
	}
	next = do_due(s);
	bury(s);
	now = clock_ms();
	return next == 0 ? -1 : next <= now ? 0 : (int)(next - now);
}

int grpc_server_fd(const struct grpc_server *s)
{
	return s->epoll;
}

/* ---- start and end ---- */

static int start(struct grpc_server *s, const char *path, struct err *err)
{
	int rc = grpc_socket_init(&s->socket, path, err);

	if (rc == 0)
		rc = grpc_connection_prepare(s, err);
	if (rc == 0)
		rc = grpc_socket_listen(&s->socket, err);
	if (rc != 0)
		return rc;
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll < 0 || !look_at(s, &s->socket.fd) || !look_at(s, &s->socket.inotify))
		return err_set(err, ERR_IO, "cannot wait for clients: %s", strerror(errno));
	return 0;
}

int grpc_server_new(const char *path, const struct grpc_method *methods, void *ctx,
	const struct log *log, struct grpc_server **ret, struct err *err)
{
	struct grpc_server *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return err_set(err, ERR_NOMEM, "out of memory");
	s->epoll = -1;
	s->methods = methods;
	s->ctx = ctx;
	s->log = log;
	s->request_ms = GRPC_REQUEST_MS;
	rc = start(s, path, err);
	if (rc != 0) {
		grpc_server_free(s, 0);
		return rc;
	}
	*ret = s;
	return 0;
}

/* Tell everybody that it is over. */
static void say_goodbye(struct grpc_server *s)
{
	for (struct grpc_connection *c = s->connections; c; c = c->next) {
		for (struct grpc_stream *st = c->streams; st; st = st->next)
			if (st->open)
				grpc_reply_end(st, GRPC_UNAVAILABLE, "the device plugin ends");
		(void)nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE,
			nghttp2_session_get_last_proc_stream_id(c->session), NGHTTP2_NO_ERROR, NULL,
			0);
		grpc_connection_wake(c);
	}
}

static bool has_left(const struct grpc_server *s)
{
	for (const struct grpc_connection *c = s->connections; c; c = c->next)
		if (c->streams || c->out_len > 0 || nghttp2_session_want_write(c->session))
			return true;
	return false;
}

static void finish(struct grpc_server *s, int wait_ms)
{
	int64_t until = clock_ms() + wait_ms;

	s->ending = true;
	s->listen_at_ms = 0;
	s->accept_at_ms = 0;
	grpc_socket_shut(&s->socket);
	say_goodbye(s);
	do {
		int64_t left = until - clock_ms();
		struct pollfd p = {.fd = s->epoll, .events = POLLIN};

		if (left > 0)
			(void)poll(&p, 1, (int)left);
		(void)grpc_server_turn(s);
	} while (has_left(s) && clock_ms() < until);
}

void grpc_server_free(struct grpc_server *s, int wait_ms)
{
	if (!s)
		return;
	if (s->epoll >= 0)
		finish(s, wait_ms);
	while (s->connections) {
		struct grpc_connection *c = s->connections;

		s->connections = c->next;
		grpc_connection_free(c);
	}
	grpc_socket_release(&s->socket);
	if (s->epoll >= 0)
		(void)close(s->epoll);
	nghttp2_session_callbacks_del(s->callbacks);
	nghttp2_option_del(s->option);
	free(s);
}
