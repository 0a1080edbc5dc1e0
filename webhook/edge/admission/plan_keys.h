/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the keys of the proofs in plans (ledger rule R18): those that all replicas share, and one
 * of this process alone, made at the start, that signs while there are none. All times are by the
 * process's own clock (clock_ms()): no two replicas compare theirs. */
#ifndef WEBHOOK_EDGE_ADMISSION_PLAN_KEYS_H
#define WEBHOOK_EDGE_ADMISSION_PLAN_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/mac.h"
#include "webhook/core/pod/plan_proof.h"

/* A new key signs from so long after this replica has seen it on: by then every replica has. */
#define PLAN_KEY_WAIT_MS 60000
/* What the key before it has signed is believed for so long after that: no create lives longer. */
#define PLAN_KEY_KEEP_MS 300000
/* More than a rotation needs. */
#define PLAN_KEYS_MAX 8

/* A key that replicas share. Each new one has a higher number. */
struct plan_key {
	uint64_t number;
	unsigned char bytes[MAC_BYTES];
	int64_t seen_ms; /* since when this process knows it; filled by plan_keys_share */
};

/* Which of the keys, oldest first, signs now: the youngest that has been known for long enough,
 * else the oldest (a replica that has just started knows no better, and the others have it). n:
 * there is none. */
size_t plan_keys_signing(const struct plan_key *keys, size_t n, int64_t now_ms);

/* What the shared keys are to be from now on: the youngest alone once the others need not be
 * believed any more, and one with the fresh bytes behind it when it has been known for rotate_ms,
 * or there is none. keys, oldest first, has room for PLAN_KEYS_MAX. Returns how many there are
 * then; *ret_changed: others than before. */
size_t plan_keys_next(struct plan_key *keys, size_t n, int64_t now_ms, int64_t rotate_ms,
	const unsigned char fresh[MAC_BYTES], bool *ret_changed);

struct plan_keys;

/* The process's own key alone. NULL: ERR_NOMEM, ERR_INTERNAL. */
struct plan_keys *plan_keys_new(struct err *err);
/* Overwrites the keys. NULL-safe. */
void plan_keys_free(struct plan_keys *k);
/* From now on these, oldest first, are shared; of more than PLAN_KEYS_MAX the youngest. Copies
 * them, and fills in since when each is known. Any thread. */
void plan_keys_share(struct plan_keys *k, struct plan_key *keys, size_t n, int64_t now_ms);

/* The signer that lends its keys; valid as long as k. */
const struct plan_signer *plan_keys_signer(const struct plan_keys *k);

#endif
