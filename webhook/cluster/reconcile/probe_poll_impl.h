/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what the files of the duty that asks probes share: whom to ask and when
 * (probe_targets.c), what becomes of an answer (probe_verdict.c), the threads (probe_poll.c). */
#ifndef WEBHOOK_CLUSTER_RECONCILE_PROBE_POLL_IMPL_H
#define WEBHOOK_CLUSTER_RECONCILE_PROBE_POLL_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "webhook/cluster/duty/duty.h"
#include "webhook/cluster/reconcile/probe_ask.h"
#include "webhook/cluster/reconcile/probe_poll.h"

/* No longer than this until somebody looks for servers that are new. */
#define LOOK_MS 1000

/* So many in a row, and its server is not fresh; from then on it is asked less often. */
#define PROBE_FAILURES_MAX 3u

/* A server with a probe. Under the lock but for what is said. */
struct target {
	struct target *next;
	char *name, *uid, *url, *ca_secret, *token_secret, *client_secret;
	int64_t due_ms;          /* CLOCK_MONOTONIC: next question */
	_Atomic int64_t good_ms; /* last good answer, or when we began; without the lock */
	atomic_bool told;        /* that it is not fresh; without the lock */
	bool busy;               /* somebody asks it: these four are that thread's alone */
	unsigned failures;       /* in a row */
	bool doubtful;           /* the last question had no answer */
	bool slow;               /* haste was not enough for it */
	bool ageing;             /* its status is being made stale */
	int64_t aged_ms;         /* the good_ms for which it was */
	int64_t age_ms;          /* that could not be written: not again before then */
	bool there;              /* in the picture */
};

struct probe_poll {
	struct probe_poll_config cfg; /* defaults filled in */
	struct probe_secrets *secrets;
	struct duty **workers;
	unsigned n_workers;
	struct duty *age; /* it waits for no probe */
	atomic_bool stopping;
	pthread_mutex_t lock;
	/* Guarded by lock: */
	struct target *first; /* by name */
	bool changed;         /* the picture, since it was looked at */
	int64_t looked_ms;
	unsigned n_doubtful; /* questions on their way to those */
};

/* ---- probe_targets.c; all with the lock held ---- */

/* Look at the picture, unless that was a moment ago: who is new is due at once, who is gone is
 * forgotten. */
void probe_targets_look(struct probe_poll *p);
/* The one that is due first and that nobody asks just now, or NULL; none that is doubtful while
 * half of the threads wait for such. */
struct target *probe_targets_next(struct probe_poll *p);
/* When it is due again, asked at that time. Each server has its own moment of the round, by its
 * name, so that what began at once does not stay so. Whoever does not answer is asked half as often
 * each time, up to a sixth. */
int64_t probe_targets_moment(const struct target *t, int64_t every_ms, int64_t asked_ms);
/* One whose last good answer is older than it may be, and whose status was not made stale for that;
 * NULL: none. *ret_ms: when the next is. */
struct target *probe_targets_old(struct probe_poll *p, int64_t now_ms, int64_t *ret_ms);
void probe_targets_free(struct probe_poll *p);
/* Is it this server's probe, as its spec says now? Without the lock. */
bool probe_target_is(const struct target *t, const struct server_object *o);

/* ---- probe_verdict.c; without the lock, by the thread that asked, or that looks how old answers
 * are ---- */

/* Write what follows from it into the server's status. */
void probe_failed(const struct probe_poll *p, struct target *t, const struct err *why);
void probe_answered(
	const struct probe_poll *p, struct target *t, const struct probe_inventory *inv);
/* Rule R17: nothing good was heard since then, which is longer than it counts. False: not written.
 */
bool probe_aged(const struct probe_poll *p, struct target *t, int64_t good_ms);

#endif
