/* SPDX-License-Identifier: Apache-2.0 */
/* net: starts, drains, stops and counts the server on libmicrohttpd. */
#include "net/http_server.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <microhttpd.h>

#include "base/clock.h"
#include "net/http_server_impl.h"
#include "net/listener.h"

/* Clients beyond the connection limit wait here. */
#define BACKLOG 1024
/* One connection's buffers; headers that do not fit are answered 431 (an API server's have under 1
 * KB). About half of it takes what is received: with TLS, which reviews come by, one of up to 12 KB
 * is read, decided and answered between two polls; with 8 KB one of 6 KB took four. libmicrohttpd
 * zeroes it twice a request, and it is most of what a connection costs. */
#define CONNECTION_MEMORY ((size_t)8 * 1024)
#define CONNECTION_MEMORY_TLS ((size_t)24 * 1024)
#define LOG_PER_SECOND 10
#define POLL_STOP_MS 10
/* For a 500 to reach a client before its connection is closed. */
#define STOP_MOMENT_MS 500

int64_t http_now_ms(void)
{
	return clock_ms();
}

int64_t http_now_us(void)
{
	return clock_us();
}

/* ---- what the transport says ---- */

/* A new second: say how many sentences the last busy one left out. */
static void log_window_open(struct http_server *s)
{
	char msg[96];
	unsigned left_out = atomic_exchange(&s->left_out, 0);
	atomic_store(&s->log_count, 0);
	if (left_out == 0)
		return;
	(void)snprintf(
		msg, sizeof(msg), "%u more sentences of the transport were not logged", left_out);
	s->app.log(s->app.ctx, msg);
}

__attribute__((format(printf, 2, 0))) static void say(
	struct http_server *s, const char *format, va_list ap)
{
	int64_t second = clock_ms() / 1000;
	if (!s->app.log)
		return;
	if (atomic_exchange(&s->log_window, second) != second)
		log_window_open(s);
	if (atomic_fetch_add(&s->log_count, 1) >= LOG_PER_SECOND) {
		atomic_fetch_add(&s->suppressed, 1);
		atomic_fetch_add(&s->left_out, 1);
		return;
	}
	char msg[256];
	(void)vsnprintf(msg, sizeof(msg), format, ap);
	msg[strcspn(msg, "\r\n")] = '\0';
	s->app.log(s->app.ctx, msg);
}

/* What libmicrohttpd says of a connection that ended early names neither peer nor reason: with TLS
 * this server says it itself, see http_server_on_connection and http_server_on_completed. */
static bool said_better(const struct http_server *s, const char *format)
{
	static const char *const begins[] = {"Error: received handshake message out of context",
		"Connection was closed by remote side with incomplete request",
		"Socket has been disconnected when reading request",
		"Connection socket is closed when reading request", "Failed to send the response"};
	for (size_t i = 0; s->cfg.identity && i < sizeof(begins) / sizeof(begins[0]); i++)
		if (strncmp(format, begins[i], strlen(begins[i])) == 0)
			return true;
	return false;
}

__attribute__((format(printf, 2, 0))) static void on_log(void *cls, const char *format, va_list ap)
{
	struct http_server *s = cls;
	if (!said_better(s, format))
		say(s, format, ap);
}

void http_server_say(struct http_server *s, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	say(s, format, ap);
	va_end(ap);
}

/* ---- what runs on workers ---- */

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

/* ---- start and stop ---- */

static unsigned or_default(unsigned value, unsigned fallback)
{
	return value ? value : fallback;
}

static void fill_defaults(struct http_config *cfg)
{
	cfg->connections = or_default(cfg->connections, 512);
	cfg->body_max = cfg->body_max ? cfg->body_max : (size_t)8 * 1024 * 1024;
	cfg->body_total = cfg->body_total ? cfg->body_total : (size_t)48 * 1024 * 1024;
	cfg->body_small = cfg->body_small ? cfg->body_small : (size_t)64 * 1024;
	cfg->header_ms = or_default(cfg->header_ms, 10000);
	cfg->body_ms = or_default(cfg->body_ms, 10000);
	cfg->send_ms = or_default(cfg->send_ms, 30000);
	cfg->idle_ms = or_default(cfg->idle_ms, 120000);
	cfg->deadline_ms = or_default(cfg->deadline_ms, 10000);
	cfg->deadline_max_ms = or_default(cfg->deadline_max_ms, 30000);
}

static struct MHD_Daemon *start_daemon(struct http_server *s, int fd)
{
	/* Not epoll, nor auto, which may choose it: with TLS one silent half-handshake would burn a
	 * core. */
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
	return MHD_start_daemon(flags, 0, NULL, NULL, http_server_on_access, s,      /**/
		MHD_OPTION_EXTERNAL_LOGGER, on_log, s, MHD_OPTION_LISTEN_SOCKET, fd, /**/
		MHD_OPTION_URI_LOG_CALLBACK, http_server_on_line, NULL,              /**/
		MHD_OPTION_NOTIFY_COMPLETED, http_server_on_completed, NULL,         /**/
		MHD_OPTION_NOTIFY_CONNECTION, http_server_on_connection, s,          /**/
		MHD_OPTION_CONNECTION_LIMIT, s->cfg.connections,                     /**/
		MHD_OPTION_CONNECTION_MEMORY_LIMIT,                                  /**/
		s->cfg.identity ? CONNECTION_MEMORY_TLS : CONNECTION_MEMORY,         /**/
		MHD_OPTION_CONNECTION_TIMEOUT, (s->cfg.idle_ms + 999) / 1000,        /**/
		MHD_OPTION_ARRAY, s->cfg.identity ? tls : none, MHD_OPTION_END);
}

/* Guard and daemon, with every signal blocked in the threads they make. */
static int start_threads(struct http_server *s, int fd, struct err *err)
{
	struct http_guard_hooks hooks = {s, on_run, http_server_resume, on_orphan};
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
	if (cfg->clients && !cfg->identity)
		return err_set(err, ERR_INVALID,
			"client certificates are asked for on %s, which has no TLS", cfg->listen);
	struct http_server *s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, ERR_NOMEM, "out of memory while starting the server");
	s->cfg = *cfg;
	s->app = *app;
	fill_defaults(&s->cfg);
	s->bodies.max = s->cfg.body_max;
	s->bodies.total = s->cfg.body_total;
	s->small_bodies = (struct http_bodies){.max = s->cfg.body_max, .total = SIZE_MAX};
	http_places_init(&s->places, s->cfg.connections, (uint64_t)clock_us());
	int fd = -1;
	int rc = listener_open(s->cfg.listen, BACKLOG, LISTENER_ROOM, &fd, &s->port, err);
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
		if (clock_ms() >= until_ms)
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
	/* Nobody accepts any more: who comes now is refused at once, and asks elsewhere, instead of
	 * waiting for our end. Closed later: the I/O thread may still look at this number. */
	if (fd >= 0)
		(void)shutdown(fd, SHUT_RDWR);
	int64_t until_ms = clock_ms() + timeout_ms;
	bool clean = wait_zero(&s->in_flight, until_ms);
	/* From here nothing is suspended any more. What came in since the last look gets the time
	 * that is left, and at least a moment; then what still waits for a worker is answered 500.
	 */
	atomic_store(&s->stopping, true);
	int64_t moment_ms = clock_ms() + STOP_MOMENT_MS;
	(void)wait_zero(&s->in_flight, clean && until_ms > moment_ms ? until_ms : moment_ms);
	/* A worker counts down after it has let its connection go, by when the reply may have been
	 * sent. */
	if (atomic_load(&s->in_flight) == 0)
		(void)wait_zero(&s->guard.deferred, clock_ms() + STOP_MOMENT_MS);
	while (atomic_load(&s->guard.deferred) > 0) {
		clean = false;
		http_guard_lapse_all(&s->guard);
		(void)wait_zero(&s->guard.deferred, clock_ms() + POLL_STOP_MS);
	}
	(void)wait_zero(&s->in_flight, clock_ms() + STOP_MOMENT_MS);
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
		.displaced = atomic_load(&s->displaced),
		.deadlines = atomic_load(&s->guard.lapsed) + atomic_load(&s->late),
		.log_suppressed = atomic_load(&s->suppressed),
	};
	for (size_t i = 0; i < 6; i++)
		ret->replies[i] = atomic_load(&s->replies[i]);
}
