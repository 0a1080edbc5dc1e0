/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: a reflector of the GPUServers, in poll() over one connection. */
#include "deviceplugin/pool_watch.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "deviceplugin/gpu_count.h"
#include "deviceplugin/pool_request.h"
#include "kube/reflector.h"
#include "net/http_answer.h"

#define POOL_PATH "/apis/poolgate.io/v1alpha1/gpuservers?includeObject=None"
/* One page of the list, or a refusal; a row has about 100 bytes. */
#define PAGE_MAX (4u << 20)
#define PAGE_ADVICE                                                                                \
	"500 GPUServers as a table are a tenth of that, so limit or the table was not "            \
	"understood: let the plugin ask the API server itself, or a proxy that passes its query "  \
	"and Accept on"
#define REQUEST_MAX (256u << 10)
/* A record of TLS. */
#define READ_MAX 16384
/* Reads in one turn: the kubelet shall not wait for a long list. */
#define READS_MAX 16
#define CONNECT_MS 10000

struct pool_watch {
	const struct log *log;
	int64_t away_ms;
	struct pool_server server;
	struct reflector *reflector;
	/* What was asked: until its answer is over, the reflector's. NULL: nothing. */
	const char *path;
	/* The connection, and the answer on it. */
	struct client_socket *socket;
	int64_t opened_ms;
	bool sent; /* path was */
	bool more; /* there may be bytes to read that poll() does not know of */
	struct http_answer answer;
	char in[READ_MAX];
	/* What is known. */
	struct gpu_count count, next; /* next: of the list on its way */
	bool listing, listed, connected;
	int64_t broken_ms;
	uint64_t breaks;
};

/* ---- what the reflector tells ---- */

static void on_listing(void *ctx)
{
	struct pool_watch *w = ctx;

	gpu_count_release(&w->next);
	w->listing = true;
}

static int on_change(void *ctx, enum kube_change what, const struct json *j,
	const struct json_node *table, struct err *err)
{
	struct pool_watch *w = ctx;
	uint64_t before = w->count.fit;
	int rc;

	if (w->listing)
		return gpu_count_table(&w->next, j, table, false, err);
	/* A bookmark's row is nobody's, but the first event of a watch alone has the columns. */
	rc = what == KUBE_BOOKMARK ? gpu_count_columns(&w->count, j, table, err)
				   : gpu_count_table(&w->count, j, table, what == KUBE_GONE, err);
	if (w->count.fit != before)
		log_line(w->log, LOG_LEVEL_DEBUG, "the pool changed",
			log_int("servers", (int64_t)w->count.n),
			log_int("gpus", (int64_t)w->count.fit));
	return rc;
}

static void on_listed(void *ctx, const char *version)
{
	struct pool_watch *w = ctx;

	(void)version;
	gpu_count_release(&w->count);
	w->count = w->next;
	w->next = (struct gpu_count){0};
	w->listing = false;
	w->listed = true;
	/* The pages of a large pool were a peak. */
	(void)malloc_trim(0);
}

static void on_connected(void *ctx, bool yes, const struct err *why)
{
	struct pool_watch *w = ctx;
	const char *server = w->server.config->server;

	w->connected = yes;
	if (yes) {
		log_line(w->log, LOG_LEVEL_INFO, "the pool is watched", log_str("server", server),
			log_int("servers", (int64_t)w->count.n),
			log_int("gpus", (int64_t)w->count.fit));
		return;
	}
	w->broken_ms = clock_ms();
	w->breaks++;
	log_line(w->log, LOG_LEVEL_WARN, "the pool is not watched", log_str("server", server),
		log_str("error", why->msg));
}

/* ---- the answer ---- */

static void hang_up(struct pool_watch *w)
{
	client_socket_free(w->socket);
	w->socket = NULL;
}

/* The answer came whole, was cut (why), or is of no more use. Where the reflector waits something was wrong: the next try is on another
 * connection, and of two addresses one may be dead. */
static void end_answer(struct pool_watch *w, bool whole, const struct err *why)
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
	struct pool_watch *w = ctx;
	int64_t now = clock_ms();

	return reflector_head(w->reflector, w->answer.status, now) &&
	       reflector_body(w->reflector, piece, now);
}

/* Bytes that came. */
static int take(struct pool_watch *w, struct slice bytes, struct err *err)
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

static int receive(struct pool_watch *w, struct err *err)
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

static int send_request(struct pool_watch *w, struct err *err)
{
	struct buf out;
	int rc;

	buf_init(&out, REQUEST_MAX);
	rc = pool_request(&w->server, w->path, &out, err);
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

static bool connecting(const struct pool_watch *w)
{
	return w->socket && !client_socket_ready(w->socket);
}

static int go_on(struct pool_watch *w, struct err *err)
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

void pool_watch_turn(struct pool_watch *w)
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

int64_t pool_watch_poll(const struct pool_watch *w, struct pollfd *ret)
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
	if (!w->connected && w->listed && now - w->broken_ms < w->away_ms)
		at = sooner(at, w->broken_ms + w->away_ms);
	return at > now ? at - now : 0;
}

struct pool_now pool_watch_now(const struct pool_watch *w)
{
	return (struct pool_now){
		.known = w->listed && (w->connected || clock_ms() - w->broken_ms < w->away_ms),
		.connected = w->connected,
		.units = w->count.fit * POOL_UNITS_PER_GPU,
		.servers = w->count.n,
		.breaks = w->breaks,
	};
}

/* ---- start and end ---- */

int pool_watch_new(const struct kube_config *config, int64_t away_ms, const struct log *log,
	struct pool_watch **ret, struct err *err)
{
	struct pool_watch *w = calloc(1, sizeof(*w));
	struct reflector_config cfg = {.path = POOL_PATH,
		.tables = true,
		.answer_max = PAGE_MAX,
		.advice = PAGE_ADVICE,
		.app = {w, on_listing, on_change, on_listed, on_connected, NULL}};
	int rc;

	if (!w)
		return err_set(err, ERR_NOMEM, "out of memory for watching the pool");
	w->away_ms = away_ms;
	w->log = log;
	/* Without randomness all come at one time, which is no reason to stop. */
	(void)!getrandom(&cfg.seed, sizeof(cfg.seed), GRND_NONBLOCK);
	rc = pool_server_init(&w->server, config, err);
	if (rc == 0)
		rc = reflector_new(&cfg, &w->reflector, err);
	if (rc != 0) {
		pool_watch_free(w);
		return rc;
	}
	*ret = w;
	return 0;
}

void pool_watch_free(struct pool_watch *w)
{
	if (!w)
		return;
	client_socket_free(w->socket);
	reflector_free(w->reflector);
	gpu_count_release(&w->count);
	gpu_count_release(&w->next);
	free(w);
}
