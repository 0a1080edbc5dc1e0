/* SPDX-License-Identifier: Apache-2.0 */
/* net: time limits and worker threads of the server. Knows sockets by number only, and nothing of
 * HTTP. */
#ifndef NET_HTTP_GUARD_H
#define NET_HTTP_GUARD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct http_job;

/* A watched connection; embedded, zero before http_guard_add. */
struct http_watch {
	struct http_watch *prev, *next;
	void *handle; /* what the resume hook is given */
	int fd;
	_Atomic int64_t
		due_ms; /* on http_now_ms' clock; 0: no limit. Past it the socket is shut down, or,
			 * while a job holds the connection, the job is given up */
	struct http_job *job; /* under the lock: runs or waits, the connection is suspended */
	bool gave_up;         /* under the lock: the last job's time was over */
	atomic_bool cut;      /* its socket was shut down for its limit */
};

/* Work that holds a suspended connection; embedded in its owner. */
struct http_job {
	struct http_job *next;
	struct http_watch *watch; /* under the lock; NULL: given up, nobody waits for the result */
};

struct http_guard_hooks {
	void *ctx;
	/* A worker: do the work. It may last longer than the connection waits. */
	void (*run)(void *ctx, struct http_job *job);
	/* Let the connection go on, its job done or given up. Worker or watchdog; no lock is held.
	 */
	void (*resume)(void *ctx, void *handle);
	/* A worker: the job was given up before or while it ran; it is the callee's to free. */
	void (*orphan)(void *ctx, struct http_job *job);
};

struct http_guard {
	struct http_guard_hooks hooks;
	pthread_mutex_t lock; /* watches, queue, stopping */
	pthread_cond_t work, tick;
	struct http_watch *watches;
	struct http_job *head, *tail;
	size_t queued, queue_max;
	bool stopping;
	pthread_t watchdog;
	pthread_t *worker;
	unsigned nworkers;
	atomic_uint deferred;        /* connections that a job holds */
	atomic_uint_fast64_t cut;    /* sockets shut down */
	atomic_uint_fast64_t lapsed; /* jobs given up */
};

/* Start the watchdog and the workers. ERR_NOMEM, ERR_IO (no threads); nothing runs then. */
int http_guard_start(struct http_guard *g, const struct http_guard_hooks *hooks, unsigned workers,
	size_t queue_max, struct err *err);

/* Give up what is still queued, wait for what runs, join all threads. No watch may be left
 * suspended. */
void http_guard_stop(struct http_guard *g);

void http_guard_add(struct http_guard *g, struct http_watch *w, int fd, void *handle);
/* Before the socket is closed; w is not touched afterwards. */
void http_guard_remove(struct http_guard *g, struct http_watch *w);

/* Set or clear (0) the limit. Lock-free; the watchdog looks ten times a second. */
static inline void http_guard_due(struct http_watch *w, int64_t due_ms)
{
	atomic_store_explicit(&w->due_ms, due_ms, memory_order_relaxed);
}

/* Hand the job to a worker; the connection is suspended already. False when the queue is full: the
 * caller resumes. */
bool http_guard_defer(
	struct http_guard *g, struct http_watch *w, struct http_job *job, int64_t due_ms);

/* After resume: was the job given up (then it belongs to its worker)? Forgets the answer. */
bool http_guard_gave_up(struct http_guard *g, struct http_watch *w);

/* Give up every job that holds a connection. */
void http_guard_lapse_all(struct http_guard *g);

#endif
