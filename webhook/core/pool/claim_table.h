/* SPDX-License-Identifier: Apache-2.0 */
/* core: the claims of the in-memory ledger, found by key, by pod and by their take's ticket, and
 * listed by age. Balanced trees (the C library's tsearch), so that keys which strangers choose
 * cannot make it slow. Not thread-safe. */
#ifndef WEBHOOK_CORE_POOL_CLAIM_TABLE_H
#define WEBHOOK_CORE_POOL_CLAIM_TABLE_H

#include "webhook/core/pool/ledger.h"

/* Rule R1: the key is a uid, namespace/name, or unique to a review. Keys of different kinds are
 * never the same. */
enum key_kind { KEY_UID, KEY_NAME, KEY_REVIEW };

/* Where a claim's part is in the inventory in force. */
struct claim_place {
	size_t server;
	size_t gpu; /* among all GPUs of the inventory */
};

struct claim_entry {
	struct claim claim; /* strings and parts live in the entry's own block of memory */
	struct claim_entry *older, *newer; /* in the order of taken_ms */
	struct claim_place *places;        /* of the parts */
	int64_t taken_ms;                  /* monotonic: when the last reply was given from it */
	uint64_t ticket; /* of the take that made it; 0: can no longer be undone */
	enum key_kind kind;
};

struct claim_table {
	void *by_key;    /* kind, key */
	void *by_pod;    /* namespace, name, key */
	void *by_ticket; /* entries with a ticket */
	struct claim_entry *oldest, *newest;
	size_t n;
};

/* A copy of the claim as an entry outside the table, places zero. NULL when out of memory; free()
 * frees it. */
struct claim_entry *claim_entry_new(const struct claim *c, enum key_kind kind);

/* Take the entry over as the newest. False when out of memory: then it is still the caller's. Its
 * key must be new. */
bool claim_table_insert(struct claim_table *t, struct claim_entry *e);
/* Take it out and free it. */
void claim_table_remove(struct claim_table *t, struct claim_entry *e);
/* Free every entry. */
void claim_table_release(struct claim_table *t);

/* Make it the newest. */
void claim_table_renew(struct claim_table *t, struct claim_entry *e, int64_t taken_ms);
/* From now on no undo finds it. */
void claim_table_forget_ticket(struct claim_table *t, struct claim_entry *e);

/* Each returns NULL when there is none; by_pod returns any one of several. */
struct claim_entry *claim_table_by_key(
	const struct claim_table *t, enum key_kind kind, const char *key);
struct claim_entry *claim_table_by_pod(
	const struct claim_table *t, const char *namespace, const char *name);
struct claim_entry *claim_table_by_ticket(const struct claim_table *t, uint64_t ticket);

/* Call fn with each claim, in the order of namespaces. */
void claim_table_each(
	const struct claim_table *t, void (*fn)(void *ctx, const struct claim *c), void *ctx);

/* All claims, copied into the arena, sorted by namespace, name, key. NULL when the arena has
 * failed. */
struct claim *claim_table_list(const struct claim_table *t, struct arena *a);

#endif
