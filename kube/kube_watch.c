/* SPDX-License-Identifier: Apache-2.0 */
/* kube: a reflector on a thread of its own, through libcurl. */
#include "kube/kube_watch.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/thread.h"
#include "kube/kube_request.h"
#include "kube/reflector.h"

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
	struct reflector *reflector;
	bool broken;
	unsigned restores; /* of which it knows */
	bool anew;         /* its next list is made because somebody else has seen one */
};

static bool wanted(const struct kube_watch *w)
{
	return !atomic_load(&w->stop);
}

/* ---- what the application is told ---- */

static void on_listing(void *ctx)
{
	struct kube_watch *w = ctx;

	w->app.listing(w->app.ctx);
}

static int on_change(void *ctx, enum kube_change what, const struct json *j,
	const struct json_node *object, struct err *err)
{
	struct kube_watch *w = ctx;

	if (!wanted(w))
		return err_set(err, ERR_REFUSED, "the watch is ended");
	if (what != KUBE_BOOKMARK && !w->app.change(w->app.ctx, what, j, object))
		return err_set(err, ERR_NOMEM, "out of memory for an object");
	return 0;
}

static void on_listed(void *ctx, const char *version)
{
	struct kube_watch *w = ctx;

	w->anew = false;
	w->app.listed(w->app.ctx, version);
	/* What pages of thousands of objects were read with would be kept for the next list, which
	 * may never come. */
	(void)malloc_trim(0);
}

static void on_restored(void *ctx)
{
	struct kube_watch *w = ctx;

	/* What it lists because another one has said so is no news to the others. */
	if (!w->anew)
		w->restores = kube_restored(w->kube);
	log_line(w->log, LOG_LEVEL_WARN,
		"versions have gone back, as after a restore of etcd; all is read anew",
		log_str("path", w->path));
}

static void on_connected(void *ctx, bool yes, const struct err *why)
{
	struct kube_watch *w = ctx;

	if (!yes)
		log_line(w->log, LOG_LEVEL_WARN, "the watch is broken", log_str("path", w->path),
			log_str("error", why->msg));
	else if (w->broken)
		log_line(w->log, LOG_LEVEL_INFO, "the watch is back", log_str("path", w->path));
	w->broken = !yes;
	if (w->app.connected)
		w->app.connected(w->app.ctx, yes);
}

/* ---- one answer ---- */

static void on_line(void *ctx, struct slice line)
{
	struct kube_watch *w = ctx;

	kube_note_date(w->kube, line);
}

static bool on_head(void *ctx, long status)
{
	struct kube_watch *w = ctx;

	kube_broken(w->kube);
	return wanted(w) && reflector_head(w->reflector, status, clock_ms());
}

static bool on_data(void *ctx, struct slice bytes)
{
	struct kube_watch *w = ctx;

	return wanted(w) && reflector_body(w->reflector, bytes, clock_ms());
}

/* Has a restore of etcd been seen by somebody else (rule R16)? */
static void hear(struct kube_watch *w)
{
	unsigned restores = kube_restores(w->kube);

	if (restores == w->restores)
		return;
	w->restores = restores;
	w->anew = true;
	reflector_anew(w->reflector);
}

static bool on_tick(void *ctx)
{
	struct kube_watch *w = ctx;

	hear(w);
	return wanted(w) && reflector_tick(w->reflector, clock_ms());
}

static void get(struct kube_watch *w, const char *path)
{
	const struct http_stream to = {on_head, on_data, on_tick, w, on_line};
	struct kube_request r;
	struct err err = {0};
	int rc = kube_request_init(&r, w->kube, "GET", path, NULL, &err);

	if (rc == 0) {
		r.headers[1] = NULL;
		rc = http_client_stream(w->client, &r.http, &to, &err);
		kube_broken(w->kube);
	}
	kube_request_release(&r);
	if (wanted(w))
		reflector_end(w->reflector, rc != 0 ? &err : NULL, clock_ms());
}

static void pause_until(struct kube_watch *w, int64_t until_ms)
{
	int rc = 0;

	pthread_mutex_lock(&w->lock);
	while (wanted(w) && rc != ETIMEDOUT)
		rc = thread_wait_until(&w->wake, &w->lock, until_ms);
	pthread_mutex_unlock(&w->lock);
}

static void *run(void *arg)
{
	struct kube_watch *w = arg;

	while (wanted(w)) {
		const char *path;

		hear(w);
		path = reflector_ask(w->reflector, clock_ms());
		if (path)
			get(w, path);
		else
			pause_until(w, reflector_when(w->reflector));
	}
	return NULL;
}

/* ---- from outside ---- */

static void watch_free(struct kube_watch *w)
{
	http_client_free(w->client);
	reflector_free(w->reflector);
	(void)pthread_cond_destroy(&w->wake);
	(void)pthread_mutex_destroy(&w->lock);
	free(w->path);
	free(w);
}

static struct kube_watch *watch_new(struct kube *k, const char *path,
	const struct kube_watch_app *app, const struct log *log, struct err *err)
{
	struct kube_watch *w = calloc(1, sizeof(*w));
	struct reflector_config cfg = {.path = path,
		.answer_max = KUBE_ANSWER_MAX,
		.app = {w, on_listing, on_change, on_listed, on_connected, on_restored}};

	if (!w) {
		(void)err_set(err, ERR_NOMEM, "out of memory for watching %s", path);
		return NULL;
	}
	w->kube = k;
	w->app = *app;
	w->log = log;
	w->restores = kube_restores(k);
	w->path = strdup(path);
	(void)pthread_mutex_init(&w->lock, NULL);
	(void)thread_cond_init(&w->wake);
	/* Without randomness all come at one time, which is no reason to stop. */
	(void)!getrandom(&cfg.seed, sizeof(cfg.seed), GRND_NONBLOCK);
	w->client = http_client_new(err);
	if (w->client && reflector_new(&cfg, &w->reflector, err) == 0 && w->path)
		return w;
	if (!w->path)
		(void)err_set(err, ERR_NOMEM, "out of memory for watching %s", path);
	watch_free(w);
	return NULL;
}

struct kube_watch *kube_watch_start(struct kube *k, const char *path,
	const struct kube_watch_app *app, const struct log *log, struct err *err)
{
	struct kube_watch *w = watch_new(k, path, app, log, err);
	int rc = w ? thread_start(&w->thread, NULL, run, w) : 0;

	if (rc == 0)
		return w;
	(void)err_set(
		err, ERR_INTERNAL, "cannot start a thread for watching %s: %s", path, strerror(rc));
	watch_free(w);
	return NULL;
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
