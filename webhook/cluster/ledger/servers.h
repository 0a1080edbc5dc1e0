/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: every GPUServer as this replica knows it, and the one way to change a status: edits that
 * wait for the same server share one compare-and-swap commit (ledger rules R2, R4). */
#ifndef WEBHOOK_CLUSTER_LEDGER_SERVERS_H
#define WEBHOOK_CLUSTER_LEDGER_SERVERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "base/metric.h"
#include "kube/kube.h"
#include "kube/kube_watch.h"
#include "webhook/core/server/server_object.h"

#define SERVERS_PATH "/apis/poolgate.io/v1alpha1/gpuservers"

struct servers;

/* Everything is borrowed. metrics: over metric_table. ERR_NOMEM. */
struct servers *servers_new(
	struct kube *k, const struct log *log, struct metrics *metrics, struct err *err);
/* Before servers_start: in loops over all servers others are given the lock after so many, and a
 * search for GPUs that looks at more is made without it, instead of as many as the program holds
 * right. */
void servers_at_once(struct servers *s, size_t n);
/* Start to watch. changed (may be NULL) is called after each change of the picture, from any
 * thread, without locks held; it must return at once. ERR_NOMEM, ERR_INTERNAL. */
int servers_start(struct servers *s, void (*changed)(void *ctx), void *ctx, struct err *err);
/* What the watch calls, over the servers: servers_start hands it over; tests feed it. */
extern const struct kube_watch_app servers_watch_app;
/* Stop watching; edits that wait end with ERR_TIMEOUT. */
void servers_stop(struct servers *s);
/* After servers_stop, when no call runs any more. NULL-safe. */
void servers_free(struct servers *s);

/* Has a whole list come? */
bool servers_synced(struct servers *s);
/* How many pods hold claims, more or less. */
size_t servers_holders(struct servers *s);

/* What to do with a server's status. */
enum edit_result {
	EDIT_CHANGED, /* write it */
	EDIT_SAME,    /* it is already as wanted: nothing to write for this edit */
	EDIT_GIVE_UP  /* err says why */
};

/* Change `status` (o->status, arrays may be changed in place and grow in a). `again`: this edit was
 * tried before and somebody else wrote in between, or the outcome was unknown: what was asked
 * outside must be asked anew, and what the first try wrote may already be there. Called with the
 * picture's lock held: no I/O, no call back into servers. */
typedef enum edit_result server_edit_fn(
	void *ctx, struct server_object *o, bool again, struct arena *a, struct err *err);

/* Make one edit of that server's status and wait until it is committed. deadline_ms:
 * CLOCK_MONOTONIC. 0: committed, or EDIT_SAME. ERR_NOTFOUND: no such server. ERR_TIMEOUT: not
 * confirmed by then, the edit may still have been written. ERR_INVALID: the API server refuses such
 * a status, ERR_IO: it refuses us (no right). Or what the function gave up with. ERR_NOMEM. Any
 * thread that may wait. */
int servers_edit(struct servers *s, const char *name, server_edit_fn *fn, void *ctx,
	int64_t deadline_ms, struct err *err);

/* Look at all servers, in the order of their names, with the lock held: copy what is needed, no
 * call back. False ends it. Of many servers the later ones are seen as they are a moment later. */
typedef bool server_each_fn(void *ctx, const struct server_object *o);
void servers_each(struct servers *s, server_each_fn *fn, void *ctx);
/* For such a function, of the server that it is shown: is this an older state, since the newest
 * cannot be read? Then nobody writes. */
bool servers_unreadable(const struct servers *s, const char *name);

/* The number of its state in the picture; 0: there is none. */
uint64_t servers_version(struct servers *s, const char *name);

/* The picture of the pool, copied: as struct ledger_ops says of view. ERR_NOMEM. */
int servers_view(struct servers *s, bool with_claims, struct arena *a, struct pool_view *ret,
	struct err *err);

/* The same as a pod finds it that is given a claim after all (rule R7): what its uid holds does not
 * count, nor does what is kept, and what reviews are about to commit; only a server whose newest
 * state cannot be read drains. The claims are what the uid holds, server by server. ERR_NOMEM. */
int servers_view_for(struct servers *s, struct slice uid, struct arena *a, struct pool_view *ret,
	struct err *err);

/* Wait for a list that was begun after this call, past every cache; callers share one, at most four
 * a second are made, and one that fails is made again. Afterwards the picture holds what it said.
 * ERR_TIMEOUT, or why the API server cannot be asked (ERR_IO, ERR_REFUSED). */
int servers_refresh(struct servers *s, int64_t deadline_ms, struct err *err);
/* Was there one in the last such list that could not be read? The picture may not have it at all.
 */
bool servers_partly(struct servers *s);

/* By rule "without a leader": probe-backed servers count as stale from now on (or no longer),
 * whatever their condition says. */
void servers_set_leaderless(struct servers *s, bool yes);

#endif
