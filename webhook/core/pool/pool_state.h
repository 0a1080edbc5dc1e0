/* SPDX-License-Identifier: Apache-2.0 */
/* core: the pool of a ledger that keeps its claims itself: the inventory in force, what vanished
 * but is still claimed, the claims, and what is taken of each GPU. Pure, and not thread-safe: its
 * ledger's lock guards it. */
#ifndef WEBHOOK_CORE_POOL_POOL_STATE_H
#define WEBHOOK_CORE_POOL_POOL_STATE_H

#include "webhook/core/pool/claim_table.h"

/* Zero before the first inventory is put in force. */
struct pool_state {
	struct snapshot *now;
	struct claim_table claims; /* to be looked at, and renewed */
};

void pool_state_release(struct pool_state *p);

/* Put another inventory in force; it is copied. Claims stay; GPUs that vanished while claims are on
 * them stay as missing (rule R10). False: out of memory, nothing has changed. */
bool pool_state_set(struct pool_state *p, const struct inventory *inv);
/* In force, with what is missing, until the next call that changes something. */
const struct inventory *pool_state_inventory(const struct pool_state *p);
struct usage pool_state_usage(const struct pool_state *p);

/* Take a claim in, which is copied; its key must be new, and its parts in the order of the
 * inventory, so that parts on one server stand together. ERR_NOMEM; ERR_INTERNAL: a part is
 * nowhere. */
int pool_state_add(struct pool_state *p, const struct claim *c, enum key_kind kind, uint64_t ticket,
	int64_t taken_ms, struct err *err);
/* It is not pending any more. */
void pool_state_start(struct pool_state *p, struct claim_entry *e);
/* It ends: the entry is freed. */
void pool_state_end(struct pool_state *p, struct claim_entry *e);
/* Drop missing GPUs that nobody claims any more. Without memory they stay
 * a little longer, which harms nobody. */
void pool_state_prune(struct pool_state *p);

/* As struct ledger_ops says of view. a->failed: out of memory. */
void pool_state_view(
	const struct pool_state *p, bool with_claims, struct arena *a, struct pool_view *ret);

#endif
