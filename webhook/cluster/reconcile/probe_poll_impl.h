/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what the files of the duties that ask probes and gates share: whom to ask and when
 * (probe_targets.c), what becomes of an answer (probe_verdict.c; probe_kind.c, gate_kind.c), the
 * threads (probe_poll.c). */
#ifndef WEBHOOK_CLUSTER_RECONCILE_PROBE_POLL_IMPL_H
#define WEBHOOK_CLUSTER_RECONCILE_PROBE_POLL_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "webhook/cluster/duty/duty.h"
#include "webhook/cluster/reconcile/probe_ask.h"
#include "webhook/cluster/reconcile/probe_moment.h"
#include "webhook/cluster/reconcile/probe_poll.h"
#include "webhook/edge/metrics/metrics.h"

/* No longer than this until somebody looks for servers that are new. */
#define LOOK_MS 1000

struct probe_poll;
struct target;

/* What becomes of an answer. */
struct verdict {
	const struct probe_poll *poll;
	struct target *target;
	const void *answer; /* NULL: none that counts */
	const char *reason, *message;
	enum metric_probe result;
	struct arena arena; /* of what is to be told */
	struct word *words; /* gate_kind.c: pods that are to be told something */
	size_t n_words;
	bool known;      /* what is used */
	int64_t aged_ms; /* it counts if no good answer has come since then; 0: it counts */
	char now[32];
};

#define VERDICT_MESSAGE 768

/* What is asked: probes, or gates. */
struct poll_kind {
	const char *who;       /* "probe", for messages */
	const char *ask, *age; /* names of threads */
	unsigned at_once;
	const char *path;
	size_t answer_size;
	int (*read)(const struct json *j, struct arena *a, void *ret, struct err *err);
	struct server_end (*end)(const struct server_object *o);
	bool of_spec; /* what it says counts for the spec of then: another is asked about at once */
	enum metric_id polls;
	/* The condition that tells of it, and its status where nothing good was heard. */
	const char *condition, *bad;
	const char *heard; /* its reason where something was heard, in that status; NULL: none */
	const char *aged;  /* why, of an answer that is too old */
	const char *lost, *back; /* the log's lines */
	/* Sets reason and message (into the buffer), result, and answer to NULL if it does not
	 * count. */
	void (*judge)(struct verdict *v, char message[static VERDICT_MESSAGE]);
	/* Into the status; true when that changed. */
	bool (*write)(struct verdict *v, struct server_object *o, struct arena *a);
	/* Once that is written, by the thread that asked, without the lock; NULL: nothing more is
	 * done. v->answer NULL: nothing was heard. */
	void (*tell)(struct probe_poll *p, const struct verdict *v);
};
extern const struct poll_kind poll_probes, poll_gates;

/* What was found on a server, for the metrics; and of whom it was told, as hashes of the pods' uids
 * and of the GPUs' ids: of all but the last finding. */
#define TARGET_TOLD_MAX 512
struct target_use {
	unsigned found[METRIC_FINDINGS];
	uint64_t told[FINDING_UNKNOWN][TARGET_TOLD_MAX];
	size_t n_told[FINDING_UNKNOWN];
};

/* A server that is asked. Under the lock but for what is said. */
struct target {
	struct target *next;
	char *name, *uid, *url, *ca_secret, *token_secret, *client_secret;
	int64_t generation;      /* of the spec that was there when it became due */
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
	struct target_use *use;  /* of gates; NULL: nothing was found yet. Its counts under the
				    lock, the rest is that thread's that asks */
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
/* One whose last good answer is older than it may be, and whose status was not made stale for that;
 * NULL: none. *ret_ms: when the next is. */
struct target *probe_targets_old(struct probe_poll *p, int64_t now_ms, int64_t *ret_ms);
void probe_targets_free(struct probe_poll *p);
/* Is it this server's, as its spec says now? Without the lock. */
bool probe_target_is(
	const struct poll_kind *kind, const struct target *t, const struct server_object *o);

/* ---- probe_verdict.c; without the lock, by the thread that asked, or that looks how old answers
 * are ---- */

/* Write what follows from it into the server's status. */
void probe_failed(struct probe_poll *p, struct target *t, const struct err *why);
void probe_answered(struct probe_poll *p, struct target *t, const void *answer);
/* Rule R17: nothing good was heard since then, which is longer than it counts. False: not written.
 */
bool probe_aged(struct probe_poll *p, struct target *t, int64_t good_ms);

#endif
