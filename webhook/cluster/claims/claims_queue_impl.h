/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: one round of the queue of pods that wait for their turn, as those who take part in it
 * see it: what is decided (claims_queue.c), who is let go by it, and who is told why it waits
 * (claims_start.c). */
#ifndef WEBHOOK_CLUSTER_CLAIMS_CLAIMS_QUEUE_IMPL_H
#define WEBHOOK_CLUSTER_CLAIMS_CLAIMS_QUEUE_IMPL_H

#include "webhook/cluster/claims/claims_impl.h"

/* Pods are told so often why they wait: words take a search more. */
#define WHY_EVERY_MS 1000

struct starting; /* a pod that is let go: claims_start.c's own */

struct queueing {
	struct claims *c;
	struct pod_waiting *
		*list; /* who waits; from n on those who have a claim, or leave, or wait no more */
	size_t n, n_list;
	struct arena arena;
	struct holder **who;
	size_t n_halves; /* of who, that have a part of a claim: it counts as taken */
	struct pool_view pool;
	struct queue_pod *pods;
	struct demand *demands;
	bool *capped;               /* whose policy has caps; NULL: nobody's */
	struct queue_share *shares; /* of the namespaces of those who wait, by name */
	struct account_sum *held;   /* what each of these holds */
	size_t n_shares;
	struct queue_world world;
	struct keep_list kept; /* the same as world.kept, as the servers said it */
	struct queue_round round;
	struct starting *starts; /* who is let go, since start_all */
	size_t n_starts;
	struct starting **units; /* of each gang one */
	size_t n_units;
	bool *started;
	size_t n_started;
	bool refused; /* a cap is full, of which the round knew nothing */
	bool words;   /* it says why who waits does */
	bool written; /* something has changed in the picture since it was looked at */
};

/* ---- claims_start.c ---- */

/* Give each pod whose turn the round says it is its claim: all members of a gang, or none. Whose
 * was written stands in q->started; for the others a round comes soon. */
void start_all(struct queueing *q);

/* Tell those who have it now, if they were told that they wait, and where the round has words some
 * of those who do. */
void why_tell(struct queueing *q);

#endif
