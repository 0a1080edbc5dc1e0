/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the ledger of a single process, for ledger_memory*.c alone. */
#ifndef WEBHOOK_EDGE_POOL_LEDGER_MEMORY_IMPL_H
#define WEBHOOK_EDGE_POOL_LEDGER_MEMORY_IMPL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "webhook/edge/pool/claim_table.h"
#include "webhook/edge/pool/ledger_memory.h"

struct ledger_memory {
	struct ledger base;
	struct metrics *metrics; /* or NULL */
	pthread_mutex_t lock;
	/* Guarded by lock: */
	struct snapshot *now;
	struct claim_table claims;
	uint64_t last_ticket;
	int64_t ttl_ms;
};

/* ERR_NOMEM. */
int memory_lacks_room(struct err *err);

/* End what has outlived its time. Called first by every operation that looks at the claims, with
 * the lock held. */
void memory_expire(struct ledger_memory *m);

/* A create lives at most 34 s in the API server (ledger rule R5), and no watch tells this process
 * more: what is older counts as started. Looked at where somebody is told about it, not at every
 * take. True when something changed. Lock held. */
bool memory_presume_started(struct ledger_memory *m);

/* Do the caps of the policy that the ask names leave what the claim holds? Lock held. ERR_REFUSED
 * as account_refuse says it, ERR_NOMEM. */
int memory_within_caps(struct ledger_memory *m, const struct claim_ask *ask, const struct claim *c,
	struct arena *a, struct err *err);

/* Operations of struct ledger_ops. */
void memory_count(struct ledger *l, size_t ret[CLAIM_STATES]);
int memory_view(struct ledger *l, bool with_claims, struct arena *a, struct pool_view *ret,
	struct err *err);

#endif
