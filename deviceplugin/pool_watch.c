/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: list the GPUServers, then watch from there, again and again. What is sent is in pool_request.c. */
#include "deviceplugin/pool_watch.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "deviceplugin/pool_watch_impl.h"

#define CONNECT_MS 10000
#define LIST_MS 60000
#define SILENCE_MS 90000
#define BACKOFF_FIRST_MS 200
#define BACKOFF_MAX_MS 5000
/* A stream that lived this long was no failure when it ends, and is taken for good when nothing has come yet. */
#define GOOD_MS 1000
/* So many refusals in a row: perhaps the version is the problem. */
#define REFUSALS_MAX 5
/* Reads in one turn: the kubelet shall not wait for a long list. */
#define READS_MAX 16

uint32_t pool_dice(uint32_t n)
{
	uint32_t x = 0;

	/* Without randomness all come at one time, which is no reason to stop. */
	(void)!getrandom(&x, sizeof(x), GRND_NONBLOCK);
	return x % n;
}

/* ---- whether it runs ---- */

static void up(struct pool_watch *w)
{
	w->failures = 0;
	if (w->connection == CONNECTION_UP)
		return;
	if (w->connection == CONNECTION_DOWN || !w->said)
		log_line(w->log, LOG_LEVEL_INFO, "the pool is watched",
			log_str("server", w->config->server),
			log_int("servers", (int64_t)w->count.n),
			log_int("gpus", (int64_t)w->count.fit));
	w->said = true;
	w->connection = CONNECTION_UP;
}

static void down(struct pool_watch *w, const struct err *why)
{
	if (w->connection == CONNECTION_DOWN)
		return;
	w->connection = CONNECTION_DOWN;
	w->broken_ms = clock_ms();
	w->breaks++;
	log_line(w->log, LOG_LEVEL_WARN, "the pool is not watched",
		log_str("server", w->config->server), log_str("error", why->msg));
}

static void hang_up(struct pool_watch *w)
{
	client_socket_free(w->socket);
	w->socket = NULL;
	w->asked = false;
}

/* Nothing to do for a while: the n-th failure in a row waits 200 ms, doubled up to 5 s, of which a half is left to chance. */
static void back_off(struct pool_watch *w)
{
	int64_t ms = BACKOFF_FIRST_MS;

	for (unsigned i = 0; i < w->failures && ms < BACKOFF_MAX_MS; i++)
		ms *= 2;
	w->failures++;
	ms = ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS;
	w->due_ms = clock_ms() + ms / 2 + pool_dice((uint32_t)(ms / 2) + 1);
}

static void fail(struct pool_watch *w, const struct err *why)
{
	down(w, why);
	hang_up(w);
	w->target.first++; /* of two addresses, one may be dead */
	/* A list that was cut is begun anew. */
	buf_clear(&w->page);
	gpu_count_release(&w->next);
	back_off(w);
}

/* ---- what comes ---- */

/* A piece of a body. */
static bool on_body(void *ctx, struct slice piece)
{
	struct pool_watch *w = ctx;

	if (w->watching && w->answer.status == 200)
		return watch_reader_read(&w->reader, piece);
	buf_slice(&w->body, piece);
	return !w->body.failed;
}

/* An event of the watch. */
static int on_event(void *ctx, const struct watch_event *event, struct err *err)
{
	struct pool_watch *w = ctx;
	uint64_t before = w->count.fit;

	memcpy(w->version, event->version, sizeof(w->version));
	up(w);
	/* A bookmark's row is nobody's, but the first event of a watch alone has the columns. */
	int rc = event->what == KUBE_BOOKMARK
			 ? gpu_count_columns(&w->count, event->json, event->object, err)
			 : gpu_count_table(&w->count, event->json, event->object,
				   event->what == KUBE_GONE, err);
	if (rc != 0) {
		w->version[0] = '\0';
		return rc;
	}
	if (w->count.fit != before)
		log_line(w->log, LOG_LEVEL_DEBUG, "the pool changed",
			log_int("servers", (int64_t)w->count.n),
			log_int("gpus", (int64_t)w->count.fit));
	return 0;
}

static void use_list(struct pool_watch *w)
{
	gpu_count_release(&w->count);
	w->count = w->next;
	w->next = (struct gpu_count){0};
	w->listed = true;
	w->watching = true;
	up(w);
	/* The pages of a large pool were a peak. */
	json_release(&w->json);
	buf_release(&w->body);
	(void)malloc_trim(0);
}

/* A page of the list is complete. */
static int on_page(struct pool_watch *w, struct err *err)
{
	const struct json_node *root, *meta;
	struct slice version;
	int rc = kube_read(&w->body, &w->json, err);

	if (rc != 0)
		return rc;
	root = json_root(&w->json);
	meta = json_get(&w->json, root, SLICE("metadata"));
	version = json_inside(&w->json, json_get(&w->json, meta, SLICE("resourceVersion")));
	if (version.len == 0 || version.len >= sizeof(w->version))
		return err_set(err, ERR_SYNTAX, "a list without a resourceVersion");
	rc = gpu_count_table(&w->next, &w->json, root, false, err);
	if (rc != 0)
		return rc;
	buf_clear(&w->page);
	json_decode(&w->json, json_get(&w->json, meta, SLICE("continue")), &w->page);
	if (w->page.failed)
		return err_set(err, ERR_NOMEM, "out of memory");
	memcpy(w->version, version.at, version.len);
	w->version[version.len] = '\0';
	if (w->page.len == 0)
		use_list(w);
	return 0;
}

/* Answered, but not with what was asked for. */
static int on_refusal(struct pool_watch *w, struct err *err)
{
	long status = w->answer.status;
	struct json j = {0};
	int rc;

	(void)kube_read(&w->body, &j, NULL);
	rc = kube_failure("GET", POOL_PATH, status, &j, buf_as_slice(&w->body), err);
	json_release(&j);
	/* Who we are and whether there is time for us says nothing about the version; whatever else is wrong may. */
	if (status >= 400 && status < 500
			? status != 401 && status != 403 && status != 408 && status != 429
			: w->failures >= REFUSALS_MAX)
		w->watching = false;
	return rc;
}

/* The answer is complete, or its stream is of no more use. */
static void on_answer(struct pool_watch *w)
{
	bool good = w->watching && w->answer.status == 200;
	struct err err = {0};
	int rc = 0;

	if (good && w->reader.err.code != ERR_NONE) {
		err = w->reader.err;
		w->watching = !w->reader.expired && w->version[0];
		/* Too old is the course of things. */
		if (w->reader.expired) {
			hang_up(w);
			back_off(w);
		} else {
			fail(w, &err);
		}
		return;
	}
	if (!good)
		rc = w->answer.status == 200 ? on_page(w, &err) : on_refusal(w, &err);
	if (rc != 0) {
		fail(w, &err);
		return;
	}
	w->asked = false;
	if (!w->answer.keep)
		hang_up(w);
	if (good && clock_ms() - w->asked_ms < GOOD_MS)
		back_off(w);
}

/* ---- one turn ---- */

/* Bytes that came. */
static int take(struct pool_watch *w, struct slice bytes, struct err *err)
{
	int rc = 0;

	while (rc == 0 && bytes.len > 0 && w->socket) {
		if (!w->asked)
			return err_set(
				err, ERR_SYNTAX, "the API server sent what nobody asked for");
		rc = http_answer_read(&w->answer, &bytes, err);
		if (w->answer.done || (rc == ERR_REFUSED && w->watching)) {
			on_answer(w);
			rc = 0;
		}
	}
	return rc == ERR_REFUSED ? pool_too_long(w, err) : rc;
}

static int receive(struct pool_watch *w, struct err *err)
{
	bool end = false;
	size_t n = 1;
	int rc = 0;

	for (int i = 0; i < READS_MAX && rc == 0 && w->socket && n > 0; i++) {
		rc = client_socket_read(w->socket, w->in, sizeof(w->in), &n, &end, err);
		if (rc == 0 && n > 0) {
			w->heard_ms = clock_ms();
			rc = take(w, (struct slice){w->in, n}, err);
		}
	}
	w->more = rc == 0 && n > 0;
	if (rc != 0 || !end)
		return rc;
	if (!w->asked) { /* between two answers: the other side was tired of waiting */
		hang_up(w);
		return 0;
	}
	rc = http_answer_end(&w->answer, err);
	if (rc == 0)
		on_answer(w);
	return rc;
}

static int64_t limit_ms(const struct pool_watch *w)
{
	if (!client_socket_ready(w->socket))
		return w->opened_ms + CONNECT_MS;
	return w->watching ? w->heard_ms + SILENCE_MS : w->asked_ms + LIST_MS;
}

static int go_on(struct pool_watch *w, struct err *err)
{
	int64_t now = clock_ms();
	int rc = 0;

	if (!w->socket) {
		w->opened_ms = w->heard_ms = now;
		rc = client_socket_open(&w->target, &w->socket, err);
	}
	if (rc == 0)
		rc = client_socket_turn(w->socket, err);
	if (rc == 0 && client_socket_ready(w->socket) && !w->asked) {
		rc = pool_ask(w, on_body, err);
		if (rc == 0)
			rc = client_socket_turn(w->socket, err);
	}
	if (rc == 0)
		rc = receive(w, err);
	if (rc == 0 && w->socket && clock_ms() >= limit_ms(w))
		rc = err_set(err, ERR_TIMEOUT, "%s: nothing came in time", w->config->server);
	return rc;
}

/* A watch that was taken and is quiet is a good one: an old version is told at once. */
static bool quiet(const struct pool_watch *w)
{
	return w->connection == CONNECTION_DOWN && w->socket && w->asked && w->watching &&
	       w->answer.headed && w->answer.status == 200;
}

void pool_watch_turn(struct pool_watch *w)
{
	struct err err = {0};

	if (w->due_ms > clock_ms())
		return;
	if (go_on(w, &err) != 0)
		fail(w, &err);
	if (quiet(w) && clock_ms() - w->asked_ms >= GOOD_MS)
		up(w);
}

static int64_t sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t pool_watch_poll(const struct pool_watch *w, struct pollfd *ret)
{
	int64_t now = clock_ms(), at;

	*ret = (struct pollfd){.fd = -1};
	if (w->due_ms > now) {
		at = w->due_ms;
	} else if (!w->socket || !w->asked || w->more) {
		at = now;
		if (w->socket && !client_socket_ready(w->socket))
			at = limit_ms(w);
	} else {
		at = limit_ms(w);
	}
	if (w->socket && w->due_ms <= now) {
		ret->fd = client_socket_fd(w->socket);
		ret->events = client_socket_events(w->socket);
	}
	if (quiet(w))
		at = sooner(at, w->asked_ms + GOOD_MS);
	if (w->connection == CONNECTION_DOWN && w->listed && now - w->broken_ms < w->away_ms)
		at = sooner(at, w->broken_ms + w->away_ms);
	return at > now ? at - now : 0;
}

struct pool_now pool_watch_now(const struct pool_watch *w)
{
	bool connected = w->connection == CONNECTION_UP;

	return (struct pool_now){
		.known = w->listed && (connected || clock_ms() - w->broken_ms < w->away_ms),
		.connected = connected,
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
	int rc;

	if (!w)
		return err_set(err, ERR_NOMEM, "out of memory for watching the pool");
	w->config = config;
	w->away_ms = away_ms;
	w->log = log;
	buf_init(&w->body, POOL_PAGE_MAX);
	buf_init(&w->page, POOL_TOKEN_MAX);
	watch_reader_init(&w->reader, on_event, w);
	rc = pool_target(w, err);
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
	watch_reader_release(&w->reader);
	gpu_count_release(&w->count);
	gpu_count_release(&w->next);
	json_release(&w->json);
	buf_release(&w->body);
	buf_release(&w->page);
	free(w);
}
