/* SPDX-License-Identifier: Apache-2.0 */
/* kube: list, then watch from there, again and again: the thread and its decisions. Events are read in watch_reader.c. */
#include "kube/kube_watch.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/thread.h"
#include "kube/kube_answer.h"
#include "kube/kube_request.h"
#include "kube/watch_reader.h"

#define LIST_MS 60000
#define SILENCE_MS 90000
#define BACKOFF_FIRST_MS 200
#define BACKOFF_MAX_MS 5000
/* A watch is asked to end after 4 to 6 minutes, so that not all watches of all replicas come back at one time. */
#define WATCH_S 240
#define WATCH_SPREAD_S 120
/* A stream that lived this long was no failure when it ends, and is taken for good when nothing has come yet. */
#define GOOD_MS 1000
/* Of an answer other than a stream. */
#define REFUSAL_MAX 65536
/* So many refusals in a row: perhaps the version is the problem. */
#define REFUSALS_MAX 5

enum connection { CONNECTION_NEW, CONNECTION_UP, CONNECTION_DOWN };

struct kube_watch {
	struct kube *kube;
	struct http_client *client;
	char *path;
	struct kube_watch_app app;
	const struct log *log;
	pthread_t thread;
	pthread_mutex_t lock; /* for wake */
	pthread_cond_t wake;
	atomic_bool stop;
	/* The thread's own. */
	enum connection connection;
	char version[32];  /* "": list first */
	unsigned failures; /* in a row */
	/* Of the stream that runs. */
	struct kube_watch_reader reader;
	struct buf refusal; /* what came with another status than 200 */
	long status;
	int64_t head_ms;
};

static uint32_t dice(uint32_t n)
{
	uint32_t x = 0;

	/* Without randomness all come at one time, which is no reason to stop. */
	(void)!getrandom(&x, sizeof(x), GRND_NONBLOCK);
	return x % n;
}

static bool wanted(void *ctx)
{
	struct kube_watch *w = ctx;

	return !atomic_load(&w->stop);
}

/* ---- what the application is told ---- */

static void up(struct kube_watch *w)
{
	if (w->connection == CONNECTION_UP)
		return;
	if (w->connection == CONNECTION_DOWN)
		log_line(w->log, LOG_LEVEL_INFO, "the watch is back", log_str("path", w->path));
	w->connection = CONNECTION_UP;
	if (w->app.connected)
		w->app.connected(w->app.ctx, true);
}

static void down(struct kube_watch *w, const struct err *why)
{
	if (w->connection == CONNECTION_DOWN)
		return;
	w->connection = CONNECTION_DOWN;
	log_line(w->log, LOG_LEVEL_WARN, "the watch is broken", log_str("path", w->path),
		log_str("error", why->msg));
	if (w->app.connected)
		w->app.connected(w->app.ctx, false);
}

/* ---- waiting ---- */

/* The n-th failure in a row: 200 ms, doubled up to 5 s, of which a half is left to chance. */
static void back_off(struct kube_watch *w)
{
	int64_t ms = BACKOFF_FIRST_MS, until;
	int rc = 0;

	for (unsigned i = 0; i < w->failures && ms < BACKOFF_MAX_MS; i++)
		ms *= 2;
	w->failures++;
	ms = ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS;
	ms = ms / 2 + dice((uint32_t)(ms / 2) + 1);
	until = clock_ms() + ms;
	pthread_mutex_lock(&w->lock);
	while (wanted(w) && rc != ETIMEDOUT)
		rc = thread_wait_until(&w->wake, &w->lock, until);
	pthread_mutex_unlock(&w->lock);
}

/* ---- the list ---- */

static void begin_list(void *ctx)
{
	struct kube_watch *w = ctx;

	w->app.listing(w->app.ctx);
}

static bool put_listed(void *ctx, const struct json *j, const struct json_node *object)
{
	struct kube_watch *w = ctx;

	if (!wanted(w))
		return false;
	w->app.change(w->app.ctx, KUBE_PUT, j, object);
	return true;
}

static void list(struct kube_watch *w)
{
	struct err err = {0};
	char version[32];
	int rc = kube_list_while(w->kube, w->path, LIST_MS, (struct kube_wanted){wanted, w},
		begin_list, put_listed, w, version, &err);

	if (!wanted(w))
		return;
	if (rc != 0) {
		down(w, &err);
		back_off(w);
		return;
	}
	memcpy(w->version, version, sizeof(w->version));
	w->app.listed(w->app.ctx, w->version);
	up(w);
}

/* ---- the stream ---- */

static bool on_head(void *ctx, long status)
{
	struct kube_watch *w = ctx;

	w->status = status;
	w->head_ms = clock_ms();
	return wanted(w);
}

/* An event that makes sense: what it says goes on to the application. */
static bool on_event(void *ctx, const struct kube_watch_event *event)
{
	struct kube_watch *w = ctx;

	w->failures = 0;
	up(w);
	memcpy(w->version, event->version, sizeof(w->version));
	if (event->type == KUBE_WATCH_PUT || event->type == KUBE_WATCH_GONE)
		w->app.change(w->app.ctx, event->type == KUBE_WATCH_PUT ? KUBE_PUT : KUBE_GONE,
			event->json, event->object);
	return wanted(w);
}

static bool on_data(void *ctx, struct slice bytes)
{
	struct kube_watch *w = ctx;

	if (w->status == 200)
		return wanted(w) && kube_watch_read(&w->reader, bytes);
	buf_slice(&w->refusal, bytes);
	return wanted(w) && !w->refusal.failed;
}

/* An old version is told at once, in the stream; after a quiet second it was taken. */
static bool on_silence(void *ctx)
{
	struct kube_watch *w = ctx;

	if (w->status == 200 && wanted(w) && w->reader.code == 0 &&
		clock_ms() - w->head_ms >= GOOD_MS) {
		w->failures = 0;
		up(w);
	}
	return wanted(w);
}

static int stream(struct kube_watch *w, struct err *err)
{
	const struct http_stream to = {on_head, on_data, on_silence, w};
	struct kube_request r;
	struct buf path;
	int rc;

	w->status = 0;
	w->head_ms = clock_ms();
	buf_clear(&w->refusal);
	kube_watch_reader_reset(&w->reader);
	buf_init(&path, 16384);
	buf_fmt(&path,
		"%s%cwatch=true&allowWatchBookmarks=true&timeoutSeconds=%u&resourceVersion=%s",
		w->path, kube_separator(w->path), WATCH_S + (unsigned)dice(WATCH_SPREAD_S),
		w->version);
	if (path.failed) {
		buf_release(&path);
		return err_set(err, ERR_NOMEM, "GET %s: no room for the path", w->path);
	}
	rc = kube_request_init(&r, w->kube, "GET", path.data, NULL, err);
	if (rc == 0) {
		r.headers[1] = NULL;
		r.http.timeout_ms = SILENCE_MS;
		rc = http_client_stream(w->client, &r.http, &to, err);
	}
	kube_request_release(&r);
	buf_release(&path);
	return rc;
}

/* Answered, but not with a stream. Does the list have to be made anew? */
static bool refused(struct kube_watch *w, struct err *err)
{
	struct json j = {0};
	long status = w->status;

	(void)kube_read(&w->refusal, &j, NULL);
	(void)kube_failure("GET", w->path, status, &j, buf_as_slice(&w->refusal), err);
	json_release(&j);
	w->refusal.max = REFUSAL_MAX;
	/* Who we are and whether there is time for us says nothing about the version; whatever else is wrong may. */
	if (status >= 400 && status < 500)
		return status != 401 && status != 403 && status != 408 && status != 429;
	return w->failures >= REFUSALS_MAX;
}

static void watch(struct kube_watch *w)
{
	struct err err = {0};
	int rc = stream(w, &err);
	bool relist = false, broken = true;

	if (!wanted(w))
		return;
	if (rc == 0 && w->status == 200) {
		rc = w->reader.code;
		relist = rc != 0;
		err = w->reader.err;
		broken = rc != 0;
	} else if (rc == 0) {
		relist = refused(w, &err);
	}
	if (relist)
		w->version[0] = '\0';
	/* Too old is the course of things, and so is the end of a stream. */
	if (broken && !w->reader.expired && w->status != 410)
		down(w, &err);
	if (broken || clock_ms() - w->head_ms < GOOD_MS)
		back_off(w);
}

static void *run(void *arg)
{
	struct kube_watch *w = arg;

	while (wanted(w)) {
		if (!w->version[0])
			list(w);
		else
			watch(w);
	}
	return NULL;
}

/* ---- from outside ---- */

static void watch_free(struct kube_watch *w)
{
	http_client_free(w->client);
	kube_watch_reader_release(&w->reader);
	buf_release(&w->refusal);
	(void)pthread_cond_destroy(&w->wake);
	(void)pthread_mutex_destroy(&w->lock);
	free(w->path);
	free(w);
}

static struct kube_watch *watch_new(
	struct kube *k, const char *path, const struct kube_watch_app *app, const struct log *log)
{
	struct kube_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->kube = k;
	w->app = *app;
	w->log = log;
	w->path = strdup(path);
	buf_init(&w->refusal, REFUSAL_MAX);
	kube_watch_reader_init(&w->reader, on_event, w);
	(void)pthread_mutex_init(&w->lock, NULL);
	(void)thread_cond_init(&w->wake);
	if (!w->path) {
		watch_free(w);
		return NULL;
	}
	return w;
}

struct kube_watch *kube_watch_start(struct kube *k, const char *path,
	const struct kube_watch_app *app, const struct log *log, struct err *err)
{
	struct kube_watch *w = watch_new(k, path, app, log);
	int rc;

	if (!w) {
		err_set(err, ERR_NOMEM, "out of memory for watching %s", path);
		return NULL;
	}
	w->client = http_client_new(err);
	if (!w->client) {
		watch_free(w);
		return NULL;
	}
	rc = thread_start(&w->thread, NULL, run, w);
	if (rc != 0) {
		err_set(err, ERR_INTERNAL, "cannot start a thread for watching %s: %s", path,
			strerror(rc));
		watch_free(w);
		return NULL;
	}
	return w;
}

void kube_watch_stop(struct kube_watch *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	atomic_store(&w->stop, true);
	pthread_cond_broadcast(&w->wake);
	pthread_mutex_unlock(&w->lock);
	(void)pthread_join(w->thread, NULL);
	watch_free(w);
}
