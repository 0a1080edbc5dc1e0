/* SPDX-License-Identifier: Apache-2.0 */
/* net: the watchdog and the workers behind the server. One lock; hooks are called without it. */
#include "net/http_guard.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/thread.h"

/* How often limits are looked at while there are connections. */
#define TICK_MS 100

/* Counted down only afterwards: at zero no connection is suspended. The watch is not touched: once
 * resumed, the connection may end. */
static void resume(struct http_guard *g, void *handle)
{
	g->hooks.resume(g->hooks.ctx, handle);
	atomic_fetch_sub(&g->deferred, 1);
}

/* Under the lock: take the job of a watch away. Returns the handle to resume. */
static void *give_up(struct http_guard *g, struct http_watch *w)
{
	w->job->watch = NULL;
	w->job = NULL;
	w->gave_up = true;
	http_guard_due(w, 0);
	atomic_fetch_add(&g->lapsed, 1);
	return w->handle;
}

/* Under the lock: cut what is past its limit, up to the first that must be resumed without the
 * lock; its handle, or NULL when all has been looked at. */
static void *scan(struct http_guard *g, int64_t now_ms)
{
	for (struct http_watch *w = g->watches; w; w = w->next) {
		int64_t due = atomic_load_explicit(&w->due_ms, memory_order_relaxed);
		if (due == 0 || due > now_ms)
			continue;
		if (w->job)
			return give_up(g, w);
		/* Wakes the I/O thread's poll; it sees the end of the stream and closes. A limit
		 * set by it in this very moment survives the exchange. */
		if (!atomic_compare_exchange_strong(&w->due_ms, &due, 0))
			continue;
		atomic_store(&w->cut, true);
		(void)shutdown(w->fd, SHUT_RDWR);
		atomic_fetch_add(&g->cut, 1);
	}
	return NULL;
}

static void wait_tick(struct http_guard *g)
{
	if (!g->watches) {
		pthread_cond_wait(&g->tick, &g->lock);
		return;
	}
	(void)thread_wait_until(&g->tick, &g->lock, clock_ms() + TICK_MS);
}

static void *watchdog_main(void *arg)
{
	struct http_guard *g = arg;
	pthread_mutex_lock(&g->lock);
	while (!g->stopping) {
		void *handle = scan(g, clock_ms());
		if (handle) {
			pthread_mutex_unlock(&g->lock);
			resume(g, handle);
			pthread_mutex_lock(&g->lock);
		} else {
			wait_tick(g);
		}
	}
	pthread_mutex_unlock(&g->lock);
	return NULL;
}

static struct http_job *pop(struct http_guard *g)
{
	struct http_job *job = g->head;
	if (!job)
		return NULL;
	g->head = job->next;
	if (!g->head)
		g->tail = NULL;
	g->queued--;
	return job;
}

/* Under the lock on entry and return; runs one job without it. */
static void work(struct http_guard *g, struct http_job *job)
{
	if (job->watch) {
		pthread_mutex_unlock(&g->lock);
		g->hooks.run(g->hooks.ctx, job);
		pthread_mutex_lock(&g->lock);
	}
	struct http_watch *w = job->watch;
	void *handle = NULL;
	if (w) {
		handle = w->handle;
		w->job = NULL;
		w->gave_up = false;
		http_guard_due(w, 0);
	}
	pthread_mutex_unlock(&g->lock);
	if (handle)
		resume(g, handle);
	else
		g->hooks.orphan(g->hooks.ctx, job);
	pthread_mutex_lock(&g->lock);
}

static void *worker_main(void *arg)
{
	struct http_guard *g = arg;
	pthread_mutex_lock(&g->lock);
	for (;;) {
		struct http_job *job = pop(g);
		if (job)
			work(g, job);
		else if (g->stopping)
			break;
		else
			pthread_cond_wait(&g->work, &g->lock);
	}
	pthread_mutex_unlock(&g->lock);
	return NULL;
}

static int init_sync(struct http_guard *g)
{
	int rc = pthread_mutex_init(&g->lock, NULL);
	if (rc == 0)
		rc = thread_cond_init(&g->tick);
	return rc == 0 ? pthread_cond_init(&g->work, NULL) : rc;
}

static void join_all(struct http_guard *g, bool watchdog)
{
	pthread_mutex_lock(&g->lock);
	g->stopping = true;
	pthread_cond_broadcast(&g->work);
	pthread_cond_broadcast(&g->tick);
	pthread_mutex_unlock(&g->lock);
	for (unsigned i = 0; i < g->nworkers; i++)
		(void)pthread_join(g->worker[i], NULL);
	if (watchdog)
		(void)pthread_join(g->watchdog, NULL);
	free(g->worker);
	pthread_cond_destroy(&g->work);
	pthread_cond_destroy(&g->tick);
	pthread_mutex_destroy(&g->lock);
}

int http_guard_start(struct http_guard *g, const struct http_guard_hooks *hooks, unsigned workers,
	size_t queue_max, struct err *err)
{
	memset(g, 0, sizeof(*g));
	g->hooks = *hooks;
	g->queue_max = queue_max;
	g->worker = calloc(workers ? workers : 1, sizeof(*g->worker));
	if (!g->worker || init_sync(g) != 0) {
		free(g->worker);
		return err_set(err, ERR_NOMEM, "out of memory while starting the server");
	}
	int rc = 0;
	while (g->nworkers < workers && rc == 0) {
		rc = pthread_create(&g->worker[g->nworkers], NULL, worker_main, g);
		g->nworkers += rc == 0;
	}
	if (rc == 0)
		rc = pthread_create(&g->watchdog, NULL, watchdog_main, g);
	if (rc == 0)
		return 0;
	join_all(g, false);
	return err_set(err, ERR_IO, "cannot start the server's threads: %s", strerror(rc));
}

void http_guard_stop(struct http_guard *g)
{
	join_all(g, true);
}

void http_guard_add(struct http_guard *g, struct http_watch *w, int fd, void *handle)
{
	w->fd = fd;
	w->handle = handle;
	w->prev = NULL;
	pthread_mutex_lock(&g->lock);
	w->next = g->watches;
	if (w->next)
		w->next->prev = w;
	else
		pthread_cond_signal(&g->tick);
	g->watches = w;
	pthread_mutex_unlock(&g->lock);
}

void http_guard_remove(struct http_guard *g, struct http_watch *w)
{
	pthread_mutex_lock(&g->lock);
	if (w->prev)
		w->prev->next = w->next;
	else
		g->watches = w->next;
	if (w->next)
		w->next->prev = w->prev;
	pthread_mutex_unlock(&g->lock);
}

bool http_guard_defer(
	struct http_guard *g, struct http_watch *w, struct http_job *job, int64_t due_ms)
{
	pthread_mutex_lock(&g->lock);
	bool room = g->queued < g->queue_max;
	if (room) {
		job->next = NULL;
		job->watch = w;
		w->job = job;
		w->gave_up = false;
		http_guard_due(w, due_ms);
		if (g->tail)
			g->tail->next = job;
		else
			g->head = job;
		g->tail = job;
		g->queued++;
		atomic_fetch_add(&g->deferred, 1);
		pthread_cond_signal(&g->work);
	}
	pthread_mutex_unlock(&g->lock);
	return room;
}

bool http_guard_gave_up(struct http_guard *g, struct http_watch *w)
{
	pthread_mutex_lock(&g->lock);
	bool gave_up = w->gave_up;
	w->gave_up = false;
	pthread_mutex_unlock(&g->lock);
	return gave_up;
}

void http_guard_lapse_all(struct http_guard *g)
{
	void *handle;
	do {
		handle = NULL;
		pthread_mutex_lock(&g->lock);
		for (struct http_watch *w = g->watches; w && !handle; w = w->next)
			handle = w->job ? give_up(g, w) : NULL;
		pthread_mutex_unlock(&g->lock);
		if (handle)
			resume(g, handle);
	} while (handle);
}
