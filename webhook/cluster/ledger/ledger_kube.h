/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the ledger whose claims live in the status of GPUServer objects, shared by any number of
 * replicas. docs/design.md has its rules, R1 to R19. */
#ifndef WEBHOOK_CLUSTER_LEDGER_LEDGER_KUBE_H
#define WEBHOOK_CLUSTER_LEDGER_LEDGER_KUBE_H

#include "webhook/cluster/ledger/policy_accounts.h"
#include "webhook/cluster/ledger/servers.h"
#include "webhook/core/pool/ledger.h"

/* may_wait is set. pending_share: percent of the pool that a namespace of rule R12 may hold
 * pending; 100: as much as there is. All borrowed. Its thread takes back what was taken in vain.
 * ERR_NOMEM, ERR_INTERNAL. take() answers ERR_REFUSED with reason "ApiServerAway" when the ledger
 * cannot be reached in time, else as struct ledger_ops says; release() is ERR_INVALID: in a cluster
 * claims end with their pods. */
struct ledger *ledger_kube_new(struct servers *s, struct kube *k, unsigned pending_share,
	const struct log *log, struct metrics *metrics, struct err *err);
/* The accounts of policies with caps, for the leader. They live as long as the ledger. */
struct accounts *ledger_kube_accounts(struct ledger *base);
/* Give back what is still to be taken back, within wait_ms, and end. NULL-safe. */
void ledger_kube_free(struct ledger *base, int64_t wait_ms);

#endif
