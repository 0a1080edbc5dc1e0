/* SPDX-License-Identifier: Apache-2.0 */
/* core: the ledger's interface: who holds what of the pool. Deciding and taking are one step,
 * whoever implements it. */
#ifndef WEBHOOK_CORE_POOL_LEDGER_H
#define WEBHOOK_CORE_POOL_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "webhook/core/pool/inventory.h"
#include "webhook/core/pool/placement.h"

struct policy;
struct policy_source;

/* A claim's life (ledger rules R5 to R7). */
enum claim_state {
	CLAIM_PENDING, /* admitted; the pod has not been seen yet */
	CLAIM_BOUND,   /* the pod has been seen */
	CLAIM_ADOPTED  /* given to a live pod that had none */
};
#define CLAIM_STATES 3

/* "pending", "bound", "adopted" */
const char *claim_state_name(enum claim_state s);

/* One GPU's part of a claim, by name so that it survives changes of the inventory. */
struct claim_part {
	const char *server;
	const char *gpu;
	uint64_t bytes;
};

/* What the claims of a gang's members say of it, for who comes when it runs (law W11). */
struct gang_began {
	uint32_t key;   /* which gang of its namespace, as queue_gang_key() has it; 0: not said */
	uint32_t size;  /* so many began together; 0: not said */
	uint64_t bytes; /* that they asked, as of the largest GPU that the pool had, which was */
	uint64_t like;  /* so large; 0: not said */
	uint64_t asks;  /* what this member asks of them, counted so; 0: not said */
};

/* What one pod holds. */
struct claim {
	/* Identity by rule R1: the pod's uid, else "namespace/name", else unique to its review. */
	const char *key;
	const char *namespace;
	const char *name;
	enum claim_state state;
	uint64_t plan_hash;
	int64_t since_ms; /* wall clock, milliseconds since 1970, for people */
	struct claim_part *parts;
	size_t n_parts;
};

/* By namespace, name and key. */
int claim_order(const struct claim *x, const struct claim *y);

/* Copies in the arena. NULL, or with parts that are NULL, when it has failed. */
struct claim_part *claim_parts_copy(const struct claim *c, struct arena *a);
void claim_copy(struct claim *to, const struct claim *from, struct arena *a);

/* What a validating review asks of the ledger. Slices are borrowed for the call. */
struct claim_ask {
	struct slice uid; /* absent or empty when the review shows none */
	struct slice namespace;
	struct slice name; /* absent for a generateName that is not resolved */
	const struct demand *demand;
	/* That its namespace picks now: its caps hold (law P6); NULL: none. And who knows those of
	 * other namespaces, where the ledger does not keep accounts. */
	const struct policy *policy;
	const struct policy_source *policies;
	uint64_t plan_hash;
	uint32_t grace_s;    /* the pod's grace period (pod_grace); 0: not known */
	bool dry_run;        /* decide, take nothing */
	int64_t deadline_ms; /* CLOCK_MONOTONIC; the answer must be there by then; 0: no deadline */
};

/* Is what the claim would keep of these names short, and the uid printable? No API server sends
 * others; a claim holds them for as long as it lives. */
bool claim_ask_bounded(const struct claim_ask *ask);

/* A yes. Parts live in the arena of the call. */
struct claim_answer {
	struct claim_part *parts;
	size_t n_parts;
	uint64_t ticket; /* for undo: nonzero when this call took a new claim, and no other reply
			    can rest on it */
};

/* A picture of the pool at one moment; what is kept for pods that wait is not in the usage;
 * everything in it lives in the arena (or the snapshot that the arena outlives). */
struct pool_view {
	struct inventory inventory;
	struct usage usage;
	const struct claim *claims; /* sorted by namespace, name, key */
	size_t n_claims;
};

struct ledger;

struct ledger_ops {
	/* Decide and take in one step. A key that already holds a complete claim is answered from
	 * it (ticket 0). 0, or ERR_REFUSED as placement_find or account_refuse (policy_account.h)
	 * says it, ERR_TIMEOUT, ERR_NOMEM, ERR_INTERNAL. */
	int (*take)(struct ledger *l, const struct claim_ask *ask, struct arena *a,
		struct claim_answer *ret, struct err *err);
	/* Law W2 of waiting: could the pool ever hold what is asked? Takes nothing, whatever ask
	 * says. 0, or ERR_REFUSED as queue_could_ever says it, of a pool that was looked at after
	 * the call (rule R4); else as take(). NULL: nobody here gives claims to pods that wait. */
	int (*could_ever)(
		struct ledger *l, const struct claim_ask *ask, struct arena *a, struct err *err);
	/* Take back what the take() with this ticket took: called for every outcome but a queued
	 * "allowed" reply (rule R3). Unknown tickets and 0 are ignored. */
	void (*undo)(struct ledger *l, uint64_t ticket);
	/* End the claim of that key; or, when uid is absent, every claim of that namespace/name.
	 * *ret_n: how many ended. ERR_NOTFOUND when there was none. */
	int (*release)(struct ledger *l, struct slice uid, struct slice namespace,
		struct slice name, size_t *ret_n, struct err *err);
	/* A consistent picture, claims included when with_claims. */
	int (*view)(struct ledger *l, bool with_claims, struct arena *a, struct pool_view *ret,
		struct err *err);
	/* How many claims are in each state; of one that spans several GPUServer objects each
	 * counts. NULL: nobody counts. */
	void (*count)(struct ledger *l, size_t ret[CLAIM_STATES]);
};

/* Implementations embed it as their first member. */
struct ledger {
	const struct ledger_ops *ops;
	bool may_wait; /* take() and release() may wait for somebody else: call them on a worker */
	bool ends_by_review; /* nobody tells when pods end: a final DELETE review ends a claim */
};

#endif
