/* SPDX-License-Identifier: Apache-2.0 */
/* edge: what the memory of GPUs is at the moment, in parts that add up to all of it: for metrics
 * and the page. */
#ifndef WEBHOOK_EDGE_POOL_POOL_STATES_H
#define WEBHOOK_EDGE_POOL_POOL_STATES_H

#include <stdint.h>

#include "webhook/core/pool/ledger.h"

enum pool_part {
	POOL_BOUND,   /* held by pods that have been seen */
	POOL_PENDING, /* held by pods that have not been seen yet */
	POOL_FREE,    /* not held, can be claimed */
	POOL_DRAINED, /* not held, its server takes no new claims */
	POOL_STALE,   /* not held, nothing recent is known of it */
	POOL_UNFIT,   /* not held, the probe says no */
	POOL_MISSING, /* not held, gone from spec or probe */
	POOL_STATES
};

/* "bound", "pending", "free", "drained", "stale", "unfit", "missing" */
const char *pool_part_name(enum pool_part s);

/* What the rest of a GPU that nobody holds counts as. */
enum pool_part pool_part_of(const struct gpu_server *s, const struct gpu *g);

struct pool_split {
	uint64_t bytes[POOL_STATES]; /* their sum is the GPUs' memory */
	uint64_t over;               /* promised beyond it */
};

/* Add server i's GPU g of the view, or all GPUs of server i. */
void pool_split_gpu(const struct pool_view *v, size_t i, size_t g, struct pool_split *add);
void pool_split_server(const struct pool_view *v, size_t i, struct pool_split *add);

#endif
