/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: where a live pod without a claim gets one: a picture of the pool in which every server
 * takes claims (rule R7). */
#ifndef WEBHOOK_CLUSTER_CLAIMS_ADOPT_PLACE_H
#define WEBHOOK_CLUSTER_CLAIMS_ADOPT_PLACE_H

#include "webhook/cluster/ledger/servers.h"
#include "webhook/core/pool/placement.h"

/* What the pool has, as adoption sees it: every server takes claims, those of one uid count as
 * gone. In an arena. */
struct adopt_pool {
	struct inventory inventory;
	const uint64_t *claimed;
	const uint32_t *n_claims;
	uint64_t own_bytes; /* held by that uid */
	struct gpu biggest; /* of the GPUs that it holds */
};

/* Read it, as that pod would find it. ERR_NOMEM. */
int adopt_pool_read(struct servers *s, struct slice uid, struct arena *a, struct adopt_pool *ret,
	struct err *err);
/* Find GPUs: fit ones with room, any with room (then all count as fit from now on), any at all.
 * ret_full: sums may exceed what a GPU has. Errors of placement_find: ERR_REFUSED where the pool
 * has no such GPUs, ERR_NOMEM. */
int adopt_place(struct adopt_pool *pool, const struct demand *d, struct arena *a,
	struct placement *ret, bool *ret_full, struct err *err);
/* Does the uid hold more than this demand could ever need on the GPUs that it has? */
bool adopt_exceeds(const struct adopt_pool *pool, const struct demand *d);

#endif
