/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what the files of the duty that asks probes share: whom to ask and when (probe_targets.c), what becomes of an answer
 * (probe_verdict.c), the threads (probe_poll.c). */
#ifndef WEBHOOK_CLUSTER_PROBE_POLL_IMPL_H
#define WEBHOOK_CLUSTER_PROBE_POLL_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "webhook/cluster/duty.h"
#include "webhook/cluster/probe_ask.h"
#include "webhook/cluster/probe_poll.h"

/* No longer than this until somebody looks for servers that are new. */
#define LOOK_MS 1000

/* A server with a probe. */
struct target {
	struct target *next;
	char *name, *uid, *url, *ca_secret, *token_secret, *client_secret;
	int64_t due_ms,
		good_ms;   /* CLOCK_MONOTONIC: next question; last good answer, or when we began */
	unsigned failures; /* in a row */
	bool busy;         /* somebody asks it: that thread's alone but for `there` */
	bool there;        /* in the picture */
	bool told;         /* that it is not fresh */
};

struct probe_poll {
	struct probe_poll_config cfg; /* defaults filled in */
	struct probe_secrets *secrets;
	struct duty **workers;
	unsigned n_workers;
	atomic_bool stopping;
	pthread_mutex_t lock;
	/* Guarded by lock: */
	struct target *first;
	bool changed; /* the picture, since it was looked at */
	int64_t looked_ms;
};

/* ---- probe_targets.c; all with the lock held ---- */

/* Look at the picture, unless that was a moment ago: who is new is due at once, who is gone is forgotten. */
void probe_targets_look(struct probe_poll *p);
/* The one that is due first and that nobody asks just now, or NULL. */
struct target *probe_targets_next(struct probe_poll *p);
/* When it is due again, asked at that time. Each server has its own moment of the round, by its name, so that what began at once does not
 * stay so. */
int64_t probe_targets_moment(const struct target *t, int64_t every_ms, int64_t asked_ms);
void probe_targets_free(struct probe_poll *p);
/* Is it this server's probe, as its spec says now? Without the lock. */
bool probe_target_is(const struct target *t, const struct server_object *o);

/* ---- probe_verdict.c; by the thread that asked, without the lock ---- */

/* Write what follows from it into the server's status. */
void probe_failed(const struct probe_poll *p, struct target *t, const struct err *why);
void probe_answered(
	const struct probe_poll *p, struct target *t, const struct probe_inventory *inv);

#endif
