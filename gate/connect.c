/* SPDX-License-Identifier: Apache-2.0 */
/* gate: `gpugate connect`: connections from the pod's loopback, each carried to its gate. One
 * thread. */
#define _GNU_SOURCE
#include "gate/connect.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/signals.h"
#include "gate/carry.h"
#include "gate/frame.h"
#include "gate/loop.h"
#include "net/listener.h"

/* The way to the gate; then it waits for a claim, a review and a server that starts. */
#define DIAL_MS 10000
#define REPLY_MS 660000
#define LOOK_MS 100
/* On their way in at the same time; others wait in the kernel's queue, so that a burst is no attack
 * on the gate. */
#define WAYS_MAX 16
/* After a connection that could not be taken, for want of a descriptor or of memory. */
#define AGAIN_MS 1000
#define EXIT_USAGE 2

enum stage { DIALS, WAITS, CARRIES };

struct call {
	struct pod_end *end;
	struct call *next, **at, *next_busy;
	bool busy, dead;
	enum stage stage;
	int64_t until_ms;
	const struct gate_address *to;
	int plain;
	struct client_socket *tls;
	struct loop_watch tls_watch, plain_watch;
	struct frame *reply; /* owned; until it was read */
	struct carry carry;
};

struct pod_end {
	struct gate_connect_options o;
	struct log log;
	struct log_pipe pipe;
	int loop, signals;
	struct gate_address server[GATE_SERVERS_MAX];
	int listener[GATE_SERVERS_MAX];
	size_t n;
	struct call *calls, *graves, *busy;
	size_t n_calls, n_ways; /* ways: that are not carried yet */
	int64_t accept_ms;      /* nobody is taken before then; 0: everybody */
	char scratch[CLIENT_SOCKET_BURST];
};

/* ---- ends ---- */

static void hang_up(struct call *c, bool broken)
{
	const struct linger now = {.l_onoff = 1};
	struct pod_end *e = c->end;

	if (c->dead)
		return;
	c->dead = true;
	*c->at = c->next;
	if (c->next)
		c->next->at = c->at;
	e->n_calls--;
	e->n_ways -= c->stage != CARRIES;
	if (broken) {
		/* Not an end that could be taken for one of the stream. */
		(void)setsockopt(c->plain, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		if (c->tls)
			client_socket_break(c->tls);
	}
	client_socket_free(c->tls);
	(void)close(c->plain);
	carry_release(&c->carry);
	free(c->reply);
	c->next = e->graves;
	e->graves = c;
}

static void give_up(struct call *c, const char *why)
{
	log_line(&c->end->log, LOG_LEVEL_WARN, "a connection is not carried",
		log_str("gate", c->to->host), log_int("port", c->to->port), log_str("error", why));
	hang_up(c, true);
}

/* ---- the way in ---- */

/* The token of now, which the kubelet renews, in a hello. */
static int say_hello(struct call *c, struct err *err)
{
	struct buf token, out;
	int rc;

	buf_init(&token, FRAME_BODY_MAX);
	buf_init(&out, FRAME_HEAD + FRAME_BODY_MAX);
	rc = files_read(c->end->o.token, &token, err);
	while (rc == 0 && token.len > 0 && token.data[token.len - 1] == '\n')
		token.data[--token.len] = '\0';
	frame_write(FRAME_HELLO, buf_as_slice(&token), &out);
	if (rc == 0)
		rc = out.failed ? err_set(err, ERR_NOMEM, "out of memory")
				: client_socket_send(c->tls, buf_as_slice(&out), err);
	if (token.data)
		explicit_bzero(token.data, token.cap);
	if (out.data)
		explicit_bzero(out.data, out.cap);
	buf_release(&token);
	buf_release(&out);
	return rc;
}

static int read_reply(struct call *c, struct err *err)
{
	bool end = false;
	size_t n = 1, wants;
	int rc = client_socket_turn(c->tls, err);

	while (rc == 0 && !end && (wants = frame_wants(c->reply)) > 0) {
		rc = client_socket_read(
			c->tls, c->reply->bytes + c->reply->have, wants, &n, &end, err);
		if (rc == 0 && n > 0)
			rc = frame_got(c->reply, n, err);
		if (rc == 0 && n == 0 && (end || client_socket_dry(c->tls)))
			break;
	}
	if (rc == 0 && end)
		rc = err_set(err, ERR_IO, "the gate has hung up");
	if (rc != 0 || frame_wants(c->reply) > 0)
		return rc;
	if (frame_word(c->reply) != FRAME_IN)
		return err_set(err, ERR_REFUSED, "the gate says: %.*s",
			(int)frame_body(c->reply).len, frame_body(c->reply).at);
	free(c->reply);
	c->reply = NULL;
	c->stage = CARRIES;
	c->end->n_ways--;
	carry_begin(&c->carry, c->tls, c->plain);
	return 0;
}

static int go(struct call *c, bool *ret_over, struct err *err)
{
	bool more = false;
	int rc = 0;

	if (c->stage == DIALS) {
		rc = client_socket_turn(c->tls, err);
		if (rc != 0 || !client_socket_ready(c->tls))
			return rc;
		c->stage = WAITS;
		c->until_ms = clock_ms() + REPLY_MS;
		c->reply = calloc(1, sizeof(*c->reply));
		rc = c->reply ? say_hello(c, err) : err_set(err, ERR_NOMEM, "out of memory");
	}
	if (rc == 0 && c->stage == WAITS)
		rc = read_reply(c, err);
	if (rc == 0 && c->stage == CARRIES)
		rc = carry_turn(&c->carry, c->end->scratch, &more, ret_over, err);
	if (rc == 0 && more && !c->busy) {
		c->busy = true;
		c->next_busy = c->end->busy;
		c->end->busy = c;
	}
	return rc;
}

static void turn(struct call *c)
{
	struct err err = {0};
	bool over = false;

	if (c->dead)
		return;
	if (go(c, &over, &err) != 0)
		give_up(c, err.msg);
	else if (over)
		hang_up(c, false);
	else if (c->stage != CARRIES && clock_ms() >= c->until_ms)
		give_up(c, "the gate did not answer in time");
}

static void on_tls(void *ctx, uint32_t events)
{
	struct call *c = ctx;

	if (!c->dead && c->stage == CARRIES)
		carry_told_tls(&c->carry, events);
	turn(c);
}

static void on_plain(void *ctx, uint32_t events)
{
	struct call *c = ctx;

	if (c->dead)
		return;
	if (c->stage == CARRIES)
		carry_told_plain(&c->carry, events);
	else if (events & (EPOLLHUP | EPOLLERR))
		hang_up(c, true); /* the program does not wait any more */
	else
		return;
	turn(c);
}

/* ---- those who come ---- */

static void welcome(struct pod_end *e, int fd, const struct gate_address *to)
{
	const struct client_target target = {.host = to->host,
		.port = to->port,
		.tls = true,
		.ca_file = e->o.ca,
		.name = e->o.name,
		.whole = true};
	struct call *c = calloc(1, sizeof(*c));
	struct err err = {0};

	if (!c) {
		(void)close(fd);
		return;
	}
	c->end = e;
	c->to = to;
	c->plain = fd;
	c->until_ms = clock_ms() + DIAL_MS;
	c->tls_watch = (struct loop_watch){.ready = on_tls, .ctx = c};
	c->plain_watch = (struct loop_watch){.ready = on_plain, .ctx = c};
	c->next = e->calls;
	c->at = &e->calls;
	if (c->next)
		c->next->at = &c->next;
	e->calls = c;
	e->n_calls++;
	e->n_ways++;
	client_socket_keepalive(fd);
	if (client_socket_open(&target, &c->tls, &err) != 0 ||
		loop_add(e->loop, client_socket_fd(c->tls), &c->tls_watch, &err) != 0 ||
		loop_add(e->loop, fd, &c->plain_watch, &err) != 0)
		give_up(c, err.msg);
}

static bool has_room(const struct pod_end *e)
{
	return e->n_ways < WAYS_MAX && e->n_calls < e->o.connections && e->accept_ms == 0;
}

static void take_calls(struct pod_end *e, size_t i)
{
	while (has_room(e)) {
		struct sockaddr_storage from;
		socklen_t len = sizeof(from);
		int fd = accept4(e->listener[i], (struct sockaddr *)&from, &len,
			SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0) {
			if (errno == EAGAIN)
				return;
			e->accept_ms = clock_ms() + AGAIN_MS;
			log_line(&e->log, LOG_LEVEL_ERROR, "no connection can be taken now",
				log_str("error", strerrordesc_np(errno)));
			return;
		}
		welcome(e, fd, &e->server[i]);
	}
}

/* ---- the loop ---- */

static void go_on(struct pod_end *e)
{
	struct call *busy = e->busy, *next;

	e->busy = NULL;
	for (; busy; busy = next) {
		next = busy->next_busy;
		busy->busy = false;
		turn(busy);
	}
	for (struct call *c = e->calls; c; c = next) {
		next = c->next;
		if (c->stage != CARRIES && clock_ms() >= c->until_ms)
			turn(c);
	}
	while (e->graves) {
		struct call *c = e->graves;

		e->graves = c->next;
		free(c);
	}
}

static bool has_signal(struct pod_end *e)
{
	const char *signal = signals_came(e->signals);

	if (signal)
		log_line(&e->log, LOG_LEVEL_INFO, "ends", log_str("signal", signal));
	return signal != NULL;
}

static void run(struct pod_end *e)
{
	struct pollfd fd[2 + GATE_SERVERS_MAX] = {
		{.fd = e->signals, .events = POLLIN}, {.fd = e->loop, .events = POLLIN}};

	while (!fd[0].revents || !has_signal(e)) {
		if (e->accept_ms && clock_ms() >= e->accept_ms)
			e->accept_ms = 0;
		/* At the limit nobody is taken in; the kernel's queue holds some. */
		for (size_t i = 0; i < e->n; i++)
			fd[2 + i] = (struct pollfd){
				.fd = has_room(e) ? e->listener[i] : -1, .events = POLLIN};
		(void)poll(fd, 2 + e->n,
			e->busy                    ? 0
			: e->calls || e->accept_ms ? LOOK_MS * 10
						   : -1);
		for (size_t i = 0; i < e->n; i++)
			if (fd[2 + i].revents)
				take_calls(e, i);
		(void)loop_turn(e->loop, 0);
		go_on(e);
	}
}

/* ---- start and end ---- */

static int open_all(struct pod_end *e, struct err *err)
{
	struct rlimit files;
	char address[32];
	uint16_t port;
	int rc = loop_open(&e->loop, err);

	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	if (rc == 0)
		rc = signals_open(&e->signals, err);
	for (size_t i = 0; rc == 0 && i < e->n; i++) {
		(void)snprintf(address, sizeof(address), "127.0.0.1:%u", (unsigned)(e->o.port + i));
		rc = listener_open(address, 1024, LISTENER_ROOM, &e->listener[i], &port, err);
		if (rc == 0)
			log_line(&e->log, LOG_LEVEL_INFO, "carrying", log_str("listen", address),
				log_str("gate", e->server[i].host),
				log_int("port", e->server[i].port));
	}
	return rc;
}

static int carry_all(struct pod_end *e)
{
	struct err err = {0};
	int status = EXIT_SUCCESS;

	e->loop = e->signals = -1;
	for (size_t i = 0; i < GATE_SERVERS_MAX; i++)
		e->listener[i] = -1;
	if (open_all(e, &err) == 0) {
		run(e);
	} else {
		log_line(&e->log, LOG_LEVEL_ERROR, "cannot listen", log_str("error", err.msg));
		status = EXIT_FAILURE;
	}
	while (e->calls)
		hang_up(e->calls, true);
	e->busy = NULL;
	go_on(e);
	for (size_t i = 0; i < e->n; i++)
		if (e->listener[i] >= 0)
			(void)close(e->listener[i]);
	if (e->loop >= 0)
		(void)close(e->loop);
	if (e->signals >= 0)
		(void)close(e->signals);
	return status;
}

int connect_main(int argc, char **argv)
{
	struct pod_end *e = calloc(1, sizeof(*e));
	struct err err = {0};
	int status = EXIT_SUCCESS;

	if (!e)
		return EXIT_FAILURE;
	memory_begin(CARRY_SPARE);
	log_init(&e->log, STDERR_FILENO);
	log_never_wait(&e->log, &e->pipe);
	if (gate_connect_options_read(argc, argv, &e->o, &e->log, &err) != 0 ||
		(e->o.answer == GATE_RUN &&
			connect_addresses(e->o.servers, e->server, &e->n, &err) != 0)) {
		(void)fprintf(stderr, "gpugate: %s; `gpugate --help` tells more\n", err.msg);
		status = EXIT_USAGE;
	} else if (e->o.answer == GATE_HELP) {
		gate_help(stdout);
	} else {
		status = carry_all(e);
	}
	free(e);
	return status;
}
