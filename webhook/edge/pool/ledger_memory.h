/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the ledger of a single process: one mutex, claims end by release, a final DELETE or their
 * time to live. */
#ifndef WEBHOOK_EDGE_POOL_LEDGER_MEMORY_H
#define WEBHOOK_EDGE_POOL_LEDGER_MEMORY_H

#include <stdint.h>

#include "base/metric.h"
#include "webhook/core/pool/ledger.h"

/* A claim is pending for 45 s and bound from then on: nobody tells this process when its pod
 * starts. An empty ledger over an empty inventory. claim_ttl_ms 0: claims end by release alone.
 * NULL when out of memory. The result is freed by ledger_memory_free. All its operations may be
 * called from any thread. */
struct ledger *ledger_memory_new(int64_t claim_ttl_ms);
void ledger_memory_free(struct ledger *l);

/* Count in m, over metric_table, why claims end. Before any other thread knows the ledger. m is
 * borrowed. */
void ledger_memory_tell(struct ledger *l, struct metrics *m);

/* Put another inventory in force; it is copied. Claims stay; GPUs that vanished while claims are on
 * them stay as `missing`, with their bytes, and take nothing new (rule R10); a GPU that comes back
 * under its id stops being missing. 0 or ERR_NOMEM, which changes nothing. */
int ledger_memory_set_inventory(struct ledger *l, const struct inventory *inv, struct err *err);

/* Another time to live, for claims taken before as well. */
void ledger_memory_set_ttl(struct ledger *l, int64_t claim_ttl_ms);

#endif
