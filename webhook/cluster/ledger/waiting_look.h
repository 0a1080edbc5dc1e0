/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: who waits for GPUs: how many, for who applies a workload whose pods would wait behind
 * them, and with their reasons for people who look at the pool. For reviews and the page. */
#ifndef WEBHOOK_CLUSTER_LEDGER_WAITING_LOOK_H
#define WEBHOOK_CLUSTER_LEDGER_WAITING_LOOK_H

#include <pthread.h>

#include "kube/kube.h"
#include "webhook/core/inject/mutate.h"
#include "webhook/edge/pool/pool_waiting.h"

/* So many are counted: who applies something learns no more of the others. */
#define WAITING_LOOK_MAX 256
/* So long an answer is good for everybody, or that there was none. */
#define WAITING_LOOK_AGAIN_MS 5000
/* What the leader has said counts for so long: it says it anew every second or two. */
#define WAITING_LOOK_POSTED_MS 10000

/* What one list said. */
struct waiting_seen {
	size_t n;
	bool more;
	uint64_t namespaces[WAITING_LOOK_MAX]; /* hashes */
};

struct waiting_look {
	struct kube *kube; /* borrowed */
	pthread_mutex_t lock;
	/* Guarded by lock: */
	int64_t due_ms;
	bool looking, known;
	struct waiting_seen seen;
	int64_t tell_due_ms; /* of what follows: a review waits for no words */
	struct buf told;     /* the same as JSON, by age; empty: nobody can tell */
	struct buf posted;   /* what the leader says */
	int64_t until_ms;    /* that counts until then; 0: it says nothing */
};

/* Without kube, which is to be set before it is asked. */
void waiting_look_init(struct waiting_look *w);
void waiting_look_release(struct waiting_look *w);

/* The `count` of struct waiters: pods behind our gate that nobody else holds, by a list that was
 * made within five seconds, or is being made anew for another, in 700 ms. ctx is the struct
 * waiting_look. Any thread that may wait. */
bool waiting_look_count(void *ctx, struct slice namespace, struct waiters_count *ret);

/* The `tell` of struct pool_waiting_source: what the leader has posted, where that is this replica;
 * else by such a list, of the first WAITING_LOOK_MAX pods by name, the oldest of these. Any thread
 * that may wait. */
struct slice waiting_look_tell(void *ctx, struct arena *a);
/* From the leader: the list as the queue has it now, as pool_waiting.h writes it; takes the bytes
 * over. Empty: this replica leads no more. Any thread. */
void waiting_look_post(struct waiting_look *w, struct buf *list);

#endif
