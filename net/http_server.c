/* SPDX-License-Identifier: Apache-2.0 */
/* net: ties libmicrohttpd, the only user of which this is, to routes, limits and workers. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* POLLRDHUP */
#endif
#include "net/http_server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <microhttpd.h>

#include "net/http_call.h"
#include "net/http_guard.h"
#include "net/http_rules.h"
#include "net/listener.h"

/* Clients beyond the connection limit wait here. */
#define BACKLOG 1024
/* One connection's buffers; headers that do not fit are answered 431. No effect on speed. */
#define CONNECTION_MEMORY ((size_t)16 * 1024)
#define LOG_PER_SECOND 10
#define POLL_STOP_MS 10
/* For a 500 to reach a client before its connection is closed. */
#define STOP_MOMENT_MS 500

struct conn {
	struct http_watch watch;
	struct tls_session tls;
	struct MHD_Connection *mhd;
	struct http_server *server;
	struct http_call *call; /* kept for the next request of the connection */
	struct http_match match;
	uint64_t discarded; /* body bytes that were read for a refusal's sake */
	unsigned refuse;    /* the status this server answers by itself, or 0 */
	bool in_flight;
	bool suspended;
	char peer[56];
};

struct http_server {
	struct http_config cfg;
	struct http_app app;
	struct MHD_Daemon *daemon;
	struct http_guard guard;
	uint16_t port;
	atomic_bool draining, stopping;
	atomic_uint connections, in_flight;
	atomic_uint_fast64_t accepted, replies[6], suppressed;
	struct http_bodies bodies;
	atomic_int_fast64_t log_window; /* second, and sentences in it */
	atomic_uint log_count;
};

int64_t http_now_ms(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- what the transport says ------------------------------------------------------------------------------------ */

__attribute__((format(printf, 2, 0))) static void on_log(void *cls, const char *format, va_list ap)
{
	struct http_server *s = cls;
	int64_t second = http_now_ms() / 1000;
	if (!s->app.log)
		return;
	if (atomic_exchange(&s->log_window, second) != second)
		atomic_store(&s->log_count, 0);
	if (atomic_fetch_add(&s->log_count, 1) >= LOG_PER_SECOND) {
		atomic_fetch_add(&s->suppressed, 1);
		return;
	}
	char msg[256];
	(void)vsnprintf(msg, sizeof(msg), format, ap);
	msg[strcspn(msg, "\r\n")] = '\0';
	s->app.log(s->app.ctx, msg);
}

/* ---- what runs on workers --------------------------------------------------------------------------------------- */

static void on_run(void *ctx, struct http_job *job)
{
	(void)ctx;
	http_call_slow(http_call_of(job));
}

static void on_orphan(void *ctx, struct http_job *job)
{
	(void)ctx;
	http_call_free(http_call_of(job));
}

static void on_resume(void *ctx, struct http_watch *watch)
{
	(void)ctx;
	struct conn *c = (struct conn *)(void *)((char *)watch - offsetof(struct conn, watch));
	MHD_resume_connection(c->mhd);
}

/* ---- replies ---------------------------------------------------------------------------------------------------- */

static bool add_headers(
	struct MHD_Response *r, const struct http_server *s, const struct http_reply *reply)
{
	const char *type = reply->content_type ? reply->content_type : "text/plain; charset=utf-8";
	bool ok = MHD_add_response_header(r, "Content-Type", type) == MHD_YES;
	for (size_t i = 0; i < HTTP_REPLY_HEADERS && reply->header[i].name; i++)
		ok = ok && MHD_add_response_header(
				   r, reply->header[i].name, reply->header[i].value) == MHD_YES;
	if (reply->close || atomic_load_explicit(&s->draining, memory_order_relaxed))
		ok = ok && MHD_add_response_header(r, "Connection", "close") == MHD_YES;
	return ok;
}

/* Give the reply to the transport; its body is gone afterwards, whatever happens. */
static enum MHD_Result send_reply(struct conn *c, struct http_reply *reply)
{
	struct http_server *s = c->server;
	static char nothing[1];
	struct MHD_Response *r =
		reply->body ? MHD_create_response_from_buffer(
				      reply->body_len, reply->body, MHD_RESPMEM_MUST_FREE)
			    : MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT);
	if (!r) {
		free(reply->body);
		reply->body = NULL;
		return MHD_NO;
	}
	reply->body = NULL;
	enum MHD_Result rc = MHD_NO;
	if (add_headers(r, s, reply))
		rc = MHD_queue_response(c->mhd, reply->status, r);
	MHD_destroy_response(r);
	if (rc == MHD_YES) {
		unsigned class = reply->status / 100;
		atomic_fetch_add_explicit(
			&s->replies[class < 6 ? class : 5], 1, memory_order_relaxed);
		http_guard_due(&c->watch, http_now_ms() + s->cfg.send_ms);
	}
	return rc;
}

/* The answer of a handler. */
static enum MHD_Result send_call(struct conn *c)
{
	struct http_call *call = c->call;
	if (call->reply.status < 200 || call->reply.status > 599)
		http_reply_text(&call->reply, 500, http_sentence(500));
	call->req.status = call->reply.status;
	enum MHD_Result rc = send_reply(c, &call->reply);
	http_call_tell(call, rc == MHD_YES);
	return rc;
}

/* The answer of this server itself. */
static enum MHD_Result send_refusal(struct conn *c, unsigned status, bool close)
{
	struct http_reply reply = {0};
	http_reply_text(&reply, status, http_sentence(status));
	reply.close = close;
	if (status == 405)
		reply.header[0] = (struct http_header){"Allow", c->match.allow};
	return send_reply(c, &reply);
}

/* ---- one request, step by step ---------------------------------------------------------------------------------- */

static const char *header(struct conn *c, const char *name)
{
	return MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND, name);
}

/* The headers are there: decide what can be decided without the body. */
static enum MHD_Result on_headers(struct conn *c, const char *url, const char *method)
{
	struct http_server *s = c->server;
	if (!c->call)
		c->call = http_call_new(&s->app, &s->bodies, c->peer);
	if (!c->call)
		return MHD_NO;
	struct http_request *req = &c->call->req;
	req->received_ms = http_now_ms();
	http_guard_due(&c->watch, req->received_ms + s->cfg.body_ms);
	http_match(s->app.routes, s->app.nroutes, method, url, &c->match);
	req->route = c->match.route;
	req->path = url;
	req->transport = c->mhd;
	req->content_type = header(c, "Content-Type");
	req->deadline_ms = http_deadline(req->received_ms,
		MHD_lookup_connection_value(c->mhd, MHD_GET_ARGUMENT_KIND, "timeout"),
		s->cfg.deadline_ms, s->cfg.deadline_max_ms);
	c->refuse = c->match.status;
	c->discarded = 0;
	if (!c->refuse && req->route->method == HTTP_POST && req->route->content_type &&
		!http_media_type_is(req->content_type, req->route->content_type))
		c->refuse = 415;
	c->call->promised = header(c, "Transfer-Encoding")
				    ? 0
				    : http_content_length(header(c, "Content-Length"));
	if (!c->refuse && c->call->promised > s->cfg.body_max)
		c->refuse = 413;
	/* A client that sends regardless reads our answer only after its last byte: take that much, but not any amount. One
	 * that waits for "100 Continue" is told at once. */
	if (c->refuse && c->call->promised > 0 &&
		(c->call->promised > 2 * (uint64_t)s->cfg.body_max || header(c, "Expect")))
		return send_refusal(c, c->refuse, true);
	return MHD_YES;
}

static enum MHD_Result on_body(struct conn *c, const char *bytes, size_t *len)
{
	if (!c->refuse)
		c->refuse = http_call_body_add(c->call, bytes, *len);
	if (c->refuse)
		c->discarded += *len;
	if (c->discarded > 2 * (uint64_t)c->server->cfg.body_max)
		return MHD_NO;
	*len = 0;
	return MHD_YES;
}

/* Nobody noticed while the connection was suspended: has the client hung up (or closed its sending side, which no client
 * of an admission hook does)? Its reply would be lost, so what the handler took must be given back. */
static bool client_gone(const struct conn *c)
{
	struct pollfd p = {.fd = c->watch.fd, .events = POLLRDHUP};
	return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/* The connection goes on. False when its job was given up: the call is its worker's then. */
static bool settle(struct conn *c)
{
	c->suspended = false;
	if (!http_guard_gave_up(&c->server->guard, &c->watch))
		return true;
	c->call = NULL;
	return false;
}

static enum MHD_Result on_resumed(struct conn *c)
{
	if (!settle(c))
		return send_refusal(c, 500, false);
	if (client_gone(c)) {
		http_call_tell(c->call, false);
		return MHD_NO;
	}
	return send_call(c);
}

static enum MHD_Result defer(struct conn *c)
{
	struct http_server *s = c->server;
	struct http_call *call = c->call;
	if (s->cfg.workers == 0) {
		http_call_slow(call);
		return send_call(c);
	}
	/* in_flight was raised before this look at stopping, and http_server_stop raises stopping before it looks at
	 * in_flight: it can never close under a suspended connection, which would end the process. */
	if (atomic_load(&s->stopping)) {
		http_call_tell(call, false);
		return send_refusal(c, 500, true);
	}
	call->req.path = call->req.route->path;
	call->req.content_type = NULL;
	call->req.transport = NULL;
	c->suspended = true;
	MHD_suspend_connection(c->mhd);
	if (http_guard_defer(&s->guard, &c->watch, &call->job, call->req.deadline_ms))
		return MHD_YES;
	http_reply_text(&call->reply, 500, http_sentence(500));
	MHD_resume_connection(c->mhd);
	return MHD_YES;
}

/* The body is whole. */
static enum MHD_Result on_request(struct conn *c)
{
	struct http_call *call = c->call;
	const struct http_route *route = c->match.route;
	http_guard_due(&c->watch, 0);
	if (c->refuse)
		return send_refusal(c, c->refuse, false);
	if (route->method == HTTP_POST && route->content_type && call->req.body_len == 0)
		return send_refusal(c, 400, false);
	return http_call_handle(call) == HTTP_LATER ? defer(c) : send_call(c);
}

static enum MHD_Result on_access(void *cls, struct MHD_Connection *mhd, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_len,
	void **req_cls)
{
	(void)cls, (void)version;
	struct conn *c = *req_cls;
	if (!c) {
		const union MHD_ConnectionInfo *info =
			MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
		c = info ? info->socket_context : NULL;
		if (!c)
			return MHD_NO;
		*req_cls = c;
		c->in_flight = true;
		atomic_fetch_add(&c->server->in_flight, 1);
		return on_headers(c, url, method);
	}
	if (*upload_len > 0)
		return on_body(c, upload, upload_len);
	return c->suspended ? on_resumed(c) : on_request(c);
}

static void on_completed(
	void *cls, struct MHD_Connection *mhd, void **req_cls, enum MHD_RequestTerminationCode code)
{
	(void)cls, (void)mhd, (void)code;
	struct conn *c = *req_cls;
	if (!c)
		return;
	*req_cls = NULL;
	/* Resumed by http_server_stop and closed before it could answer. */
	if (c->suspended)
		(void)settle(c);
	if (c->call)
		http_call_reset(c->call);
	/* Silence ends a connection after idle_ms (the transport's timeout), a trickle of header bytes a little later. */
	const struct http_config *cfg = &c->server->cfg;
	http_guard_due(&c->watch, http_now_ms() + cfg->idle_ms + cfg->header_ms);
	if (c->in_flight) {
		c->in_flight = false;
		atomic_fetch_sub(&c->server->in_flight, 1);
	}
}

/* ---- connections ------------------------------------------------------------------------------------------------ */

static void conn_open(struct http_server *s, struct MHD_Connection *mhd, void **socket_context)
{
	const union MHD_ConnectionInfo *fd =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct conn *c = calloc(1, sizeof(*c));
	if (!c || !fd) {
		/* Without it the first request is refused by on_access; close the socket even before that. */
		if (fd)
			(void)shutdown(fd->connect_fd, SHUT_RDWR);
		free(c);
		return;
	}
	c->mhd = mhd;
	c->server = s;
	http_guard_due(&c->watch, http_now_ms() + s->cfg.header_ms);
	int number = fd->connect_fd;
	const union MHD_ConnectionInfo *addr =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	listener_peer_text(addr ? addr->client_addr : NULL, c->peer);
	if (s->cfg.identity) {
		const union MHD_ConnectionInfo *tls =
			MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
		if (tls && tls->tls_session)
			tls_session_attach(&c->tls, s->cfg.identity, tls->tls_session);
	}
	http_guard_add(&s->guard, &c->watch, number);
	atomic_fetch_add(&s->connections, 1);
	atomic_fetch_add(&s->accepted, 1);
	*socket_context = c;
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **socket_context,
	enum MHD_ConnectionNotificationCode code)
{
	struct http_server *s = cls;
	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		conn_open(s, mhd, socket_context);
		return;
	}
	struct conn *c = *socket_context;
	if (!c)
		return;
	*socket_context = NULL;
	http_guard_remove(&s->guard, &c->watch);
	tls_session_detach(&c->tls);
	http_call_free(c->call);
	free(c);
	atomic_fetch_sub(&s->connections, 1);
}

/* ---- start and stop --------------------------------------------------------------------------------------------- */

static unsigned or_default(unsigned value, unsigned fallback)
{
	return value ? value : fallback;
}

static void fill_defaults(struct http_config *cfg)
{
	cfg->connections = or_default(cfg->connections, 512);
	cfg->body_max = cfg->body_max ? cfg->body_max : (size_t)8 * 1024 * 1024;
	cfg->body_total = cfg->body_total ? cfg->body_total : (size_t)256 * 1024 * 1024;
	cfg->header_ms = or_default(cfg->header_ms, 10000);
	cfg->body_ms = or_default(cfg->body_ms, 10000);
	cfg->send_ms = or_default(cfg->send_ms, 30000);
	cfg->idle_ms = or_default(cfg->idle_ms, 120000);
	cfg->deadline_ms = or_default(cfg->deadline_ms, 10000);
	cfg->deadline_max_ms = or_default(cfg->deadline_max_ms, 30000);
}

static struct MHD_Daemon *start_daemon(struct http_server *s, int fd)
{
	/* Not epoll, nor auto, which may choose it: with TLS one silent half-handshake would burn a core. */
	unsigned flags =
		MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME;
	struct MHD_OptionItem tls[] = {
		{MHD_OPTION_HTTPS_PRIORITIES, 0, NULL},
		{MHD_OPTION_HTTPS_CERT_CALLBACK, 0, tls_retrieve_callback()},
		{MHD_OPTION_END, 0, NULL},
	};
	struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
	union {
		const char *in;
		void *out;
	} priorities = {tls_priorities};
	tls[0].ptr_value = priorities.out;
	if (s->cfg.identity)
		flags |= MHD_USE_TLS;
	return MHD_start_daemon(flags, 0, NULL, NULL, on_access, s,                  /**/
		MHD_OPTION_EXTERNAL_LOGGER, on_log, s, MHD_OPTION_LISTEN_SOCKET, fd, /**/
		MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,                     /**/
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,                      /**/
		MHD_OPTION_CONNECTION_LIMIT, s->cfg.connections,                     /**/
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY,               /**/
		MHD_OPTION_CONNECTION_TIMEOUT, (s->cfg.idle_ms + 999) / 1000,        /**/
		MHD_OPTION_ARRAY, s->cfg.identity ? tls : none, MHD_OPTION_END);
}

/* Guard and daemon, with every signal blocked in the threads they make. */
static int start_threads(struct http_server *s, int fd, struct err *err)
{
	struct http_guard_hooks hooks = {s, on_run, on_resume, on_orphan};
	sigset_t all, old;
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	int rc = http_guard_start(
		&s->guard, &hooks, s->cfg.workers, (size_t)2 * s->cfg.connections, err);
	if (rc == 0) {
		s->daemon = start_daemon(s, fd);
		if (!s->daemon) {
			http_guard_stop(&s->guard);
			rc = err_set(err, ERR_INTERNAL, "cannot start the server on %s: %s",
				s->cfg.listen, strerror(errno));
		}
	}
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}

int http_server_start(const struct http_config *cfg, const struct http_app *app,
	struct http_server **ret_server, struct err *err)
{
	struct http_server *s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, ERR_NOMEM, "out of memory while starting the server");
	s->cfg = *cfg;
	s->app = *app;
	fill_defaults(&s->cfg);
	s->bodies.max = s->cfg.body_max;
	s->bodies.total = s->cfg.body_total;
	int fd = -1;
	int rc = listener_open(s->cfg.listen, BACKLOG, &fd, &s->port, err);
	if (rc == 0) {
		rc = start_threads(s, fd, err);
		if (rc != 0)
			(void)close(fd);
	}
	if (rc != 0) {
		free(s);
		return rc;
	}
	s->cfg.listen = NULL; /* borrowed for the start only */
	*ret_server = s;
	return 0;
}

uint16_t http_server_port(const struct http_server *s)
{
	return s->port;
}

void http_server_drain_begin(struct http_server *s)
{
	atomic_store(&s->draining, true);
}

static bool wait_zero(const atomic_uint *count, int64_t until_ms)
{
	const struct timespec nap = {0, POLL_STOP_MS * 1000000L};
	while (atomic_load(count) > 0) {
		if (http_now_ms() >= until_ms)
			return false;
		(void)nanosleep(&nap, NULL);
	}
	return true;
}

bool http_server_stop(struct http_server *s, unsigned timeout_ms)
{
	if (!s)
		return true;
	http_server_drain_begin(s);
	int fd = MHD_quiesce_daemon(s->daemon);
	int64_t until_ms = http_now_ms() + timeout_ms;
	bool clean = wait_zero(&s->in_flight, until_ms);
	/* From here nothing is suspended any more. What came in since the last look gets the time that is left, and at
	 * least a moment; then what still waits for a worker is answered 500. */
	atomic_store(&s->stopping, true);
	int64_t moment_ms = http_now_ms() + STOP_MOMENT_MS;
	(void)wait_zero(&s->in_flight, clean && until_ms > moment_ms ? until_ms : moment_ms);
	while (atomic_load(&s->guard.deferred) > 0) {
		clean = false;
		http_guard_lapse_all(&s->guard);
		(void)wait_zero(&s->guard.deferred, http_now_ms() + POLL_STOP_MS);
	}
	(void)wait_zero(&s->in_flight, http_now_ms() + STOP_MOMENT_MS);
	MHD_stop_daemon(s->daemon);
	if (fd >= 0)
		(void)close(fd);
	http_guard_stop(&s->guard);
	free(s);
	return clean;
}

void http_server_stats(const struct http_server *s, struct http_stats *ret)
{
	*ret = (struct http_stats){
		.connections = atomic_load(&s->connections),
		.in_flight = atomic_load(&s->in_flight),
		.deferred = atomic_load(&s->guard.deferred),
		.accepted = atomic_load(&s->accepted),
		.timed_out = atomic_load(&s->guard.cut),
		.deadlines = atomic_load(&s->guard.lapsed),
		.log_suppressed = atomic_load(&s->suppressed),
	};
	for (size_t i = 0; i < 6; i++)
		ret->replies[i] = atomic_load(&s->replies[i]);
}

const char *http_request_arg(const struct http_request *req, const char *name)
{
	return req->transport
		       ? MHD_lookup_connection_value(req->transport, MHD_GET_ARGUMENT_KIND, name)
		       : NULL;
}
