/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the pool as the in-memory ledger sees it: the inventory in force, what vanished but is
 * still claimed, and what is taken of each GPU. Not thread-safe: its ledger's lock guards it. */
#ifndef WEBHOOK_EDGE_POOL_LEDGER_SNAPSHOT_H
#define WEBHOOK_EDGE_POOL_LEDGER_SNAPSHOT_H

#include "webhook/core/pool/ledger.h"

struct snapshot {
	struct arena arena;
	struct inventory declared; /* as it was given */
	struct inventory inv; /* declared, and what is missing (rule R10); shares its strings */
	/* Indexed as in struct usage. */
	uint64_t *claimed, *pending;
	uint32_t *server_claims;
	uint32_t *gpu_claims; /* per GPU: parts of claims on it */
	bool any_missing;
};

/* Where a claim's part is in snapshot.inv. */
struct place {
	size_t server;
	size_t gpu; /* among all GPUs of the inventory */
};

/* A picture over a copy of `declared`. GPUs of `old` (may be NULL) with claims on them that
 * declared does not have stay as missing. Nothing is counted yet: the caller counts each claim with
 * snapshot_count. NULL when out of memory; the result is freed by snapshot_free. declared may be
 * old's own. */
struct snapshot *snapshot_new(const struct inventory *declared, const struct snapshot *old);
void snapshot_free(struct snapshot *s);

/* Note where the parts of a claim are. False when one is nowhere: an error of our own. */
bool snapshot_locate(const struct snapshot *s, const struct claim *c, struct place *places);

/* Add the claim's bytes, or take them away again. Its parts must be in the order of the inventory,
 * so that parts on one server stand together. */
void snapshot_count(
	struct snapshot *s, const struct claim *c, const struct place *places, bool add);

/* Is there a missing GPU that nobody claims any more? */
bool snapshot_stale(const struct snapshot *s);

struct usage snapshot_usage(const struct snapshot *s);

#endif
