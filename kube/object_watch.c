/* SPDX-License-Identifier: Apache-2.0 */
/* kube: a reflector in poll() over one connection. */
#include "kube/object_watch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "kube/api_ask.h"
#include "net/http_answer.h"

#define REQUEST_MAX (256u << 10)
/* A record of TLS. */
#define READ_MAX 16384
/* Reads in one turn: whoever else is served shall not wait for a long list. */
#define READS_MAX 16
#define CONNECT_MS 10000

struct object_watch {
	struct api_server server;
	struct reflector *reflector;
	struct api_ask ask; /* what is asked for is in it */
	/* What was asked: until its answer is over, the reflector's. NULL: nothing. */
	const char *path;
	/* The connection, and the answer on it. */
	struct client_socket *socket;
	int64_t opened_ms;
	bool sent; /* path was */
	bool more; /* there may be bytes to read that poll() does not know of */
	struct http_answer answer;
	char in[READ_MAX];
};

/* ---- the answer ---- */

static void hang_up(struct object_watch *w)
{
	client_socket_free(w->socket);
	w->socket = NULL;
}

/* The answer came whole, was cut (why), or is of no more use. Where the reflector waits something
 * was wrong: the next try is on another connection, and of two addresses one may be dead. */
static void end_answer(struct object_watch *w, bool whole, const struct err *why)
{
	bool waits;

	w->path = NULL;
	w->sent = false;
	reflector_end(w->reflector, why, clock_ms());
	waits = reflector_when(w->reflector) > clock_ms();
	if (!whole || !w->answer.keep || waits)
		hang_up(w);
	w->server.target.first += waits;
}

/* A piece of a body. */
static bool on_body(void *ctx, struct slice piece)
{
	struct object_watch *w = ctx;
	int64_t now = clock_ms();

	return reflector_head(w->reflector, w->answer.status, now) &&
	       reflector_body(w->reflector, piece, now);
}

/* Bytes that came. */
static int take(struct object_watch *w, struct slice bytes, struct err *err)
{
	while (bytes.len > 0 && w->socket) {
		int rc;

		if (!w->sent)
			return err_set(
				err, ERR_SYNTAX, "the API server sent what nobody asked for");
		rc = http_answer_read(&w->answer, &bytes, err);
		if (rc != 0 && rc != ERR_REFUSED)
			return rc;
		if (w->answer.headed)
			(void)reflector_head(w->reflector, w->answer.status, clock_ms());
		if (w->answer.done || rc == ERR_REFUSED)
			end_answer(w, w->answer.done, NULL);
	}
	return 0;
}

static int receive(struct object_watch *w, struct err *err)
{
	bool end = false;
	size_t n = 1;
	int rc = 0;

	for (int i = 0; i < READS_MAX && rc == 0 && w->socket && n > 0; i++) {
		rc = client_socket_read(w->socket, w->in, sizeof(w->in), &n, &end, err);
		if (rc == 0 && n > 0)
			rc = take(w, (struct slice){w->in, n}, err);
	}
	w->more = rc == 0 && n > 0;
	if (rc != 0 || !end)
		return rc;
	if (!w->sent) { /* between two answers: the other side was tired of waiting */
		hang_up(w);
		return 0;
	}
	rc = http_answer_end(&w->answer, err);
	if (rc == 0)
		end_answer(w, true, NULL);
	return rc;
}

/* ---- one turn ---- */

static int send_request(struct object_watch *w, struct err *err)
{
	struct buf out;
	int rc;

	buf_init(&out, REQUEST_MAX);
	w->ask.path = w->path;
	rc = api_ask_write(&w->server, &w->ask, &out, err);
	if (rc == 0)
		rc = client_socket_send(w->socket, buf_as_slice(&out), err);
	if (out.data)
		explicit_bzero(out.data, out.len);
	buf_release(&out);
	if (rc != 0)
		return rc;
	http_answer_init(&w->answer, on_body, w);
	w->sent = true;
	return client_socket_turn(w->socket, err);
}

static bool connecting(const struct object_watch *w)
{
	return w->socket && !client_socket_ready(w->socket);
}

static int go_on(struct object_watch *w, struct err *err)
{
	int rc = 0;

	if (!w->socket) {
		w->opened_ms = clock_ms();
		rc = client_socket_open(&w->server.target, &w->socket, err);
	}
	if (rc == 0)
		rc = client_socket_turn(w->socket, err);
	if (rc == 0 && !connecting(w) && !w->sent)
		rc = send_request(w, err);
	if (rc == 0)
		rc = receive(w, err);
	if (rc == 0 && connecting(w) && clock_ms() >= w->opened_ms + CONNECT_MS)
		rc = err_set(
			err, ERR_TIMEOUT, "%s: no connection in time", w->server.config->server);
	return rc;
}

void object_watch_turn(struct object_watch *w)
{
	struct err err = {0};

	if (!w->path)
		w->path = reflector_ask(w->reflector, clock_ms());
	if (w->path && go_on(w, &err) != 0)
		end_answer(w, false, &err);
	if (w->path && !reflector_tick(w->reflector, clock_ms()))
		end_answer(w, false, NULL);
}

static int64_t sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t object_watch_poll(const struct object_watch *w, struct pollfd *ret)
{
	int64_t now = clock_ms(), at = reflector_when(w->reflector);

	*ret = (struct pollfd){.fd = -1};
	if (w->path && w->socket) {
		ret->fd = client_socket_fd(w->socket);
		ret->events = client_socket_events(w->socket);
	}
	if (w->path && (!w->socket || w->more))
		at = now;
	if (connecting(w))
		at = sooner(at, w->opened_ms + CONNECT_MS);
	return at > now ? at - now : 0;
}

/* ---- start and end ---- */

int object_watch_new(const struct kube_config *config, const struct reflector_config *reflector,
	const char *agent, struct object_watch **ret, struct err *err)
{
	struct object_watch *w = calloc(1, sizeof(*w));
	struct reflector_config cfg = *reflector;
	int rc;

	if (!w)
		return err_set(err, ERR_NOMEM, "out of memory for a watch");
	/* Without randomness all come at one time, which is no reason to stop. */
	(void)!getrandom(&cfg.seed, sizeof(cfg.seed), GRND_NONBLOCK);
	w->ask.accept = cfg.tables ? API_TABLES : API_JSON;
	rc = api_server_init(&w->server, config, agent, err);
	if (rc == 0)
		rc = reflector_new(&cfg, &w->reflector, err);
	if (rc != 0) {
		object_watch_free(w);
		return rc;
	}
	*ret = w;
	return 0;
}

void object_watch_free(struct object_watch *w)
{
	if (!w)
		return;
	client_socket_free(w->socket);
	reflector_free(w->reflector);
	free(w);
}
