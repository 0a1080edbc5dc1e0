/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the two halves of the shared ledger: taking (ledger_kube.c) and taking back (ledger_kube_undo.c). */
#ifndef WEBHOOK_CLUSTER_LEDGER_KUBE_IMPL_H
#define WEBHOOK_CLUSTER_LEDGER_KUBE_IMPL_H

#include <stdatomic.h>

#include "webhook/cluster/duty.h"
#include "webhook/cluster/ledger_kube.h"
#include "webhook/cluster/servers_impl.h"

/* A review without a deadline. */
#define TAKE_MS 5000

/* What is to be taken back. */
struct undo;

struct ledger_kube {
	struct ledger base;
	struct servers *servers;
	struct kube *kube;
	const struct log *log;
	uint64_t replica;      /* the upper half of every ticket of this process: random */
	_Atomic uint32_t last; /* the lower half */
	pthread_mutex_t lock;  /* guards undos; taken before nothing, after servers' */
	struct undo *undos;
	struct duty *janitor;
};

extern const struct ledger_ops ledger_kube_ops;

/* Take back what the take with this ticket may have written for uid on this server, soon and as well as it can (rule R3). base: the
 * number of the version that the last write followed: as long as the server still has it, the write may land yet. 0: it has landed.
 * Texts are copied. Any thread, also with the lock of servers held. */
void take_back_later(
	struct ledger_kube *l, const char *uid, uint64_t ticket, const char *server, uint64_t base);
void kube_undo(struct ledger *base, uint64_t ticket);

#endif
