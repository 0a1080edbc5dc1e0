/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what the files of the shared ledger share. A review goes from ledger_kube.c through what its uid holds already (_held) and the
 * decision (_decide) to the commits; _undo takes back, _view shows. */
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

/* One review's way to its claim. */
struct take {
	struct ledger_kube *l;
	const struct claim_ask *ask;
	struct arena *arena;
	struct arena scratch; /* for one decision: a review that waits makes many */
	const char *uid, *namespace, *name;
	uint64_t ticket;
	bool fresh; /* the picture holds a list that was begun after the review came */
	/* Rule R6: a bound claim of the pod that had this name before; its pod is gone. NULL: none known. */
	const char *replaces;
	bool asked_for_old;
	bool half;                    /* this uid holds a half claim: what the next one replaces */
	struct claim_record *records; /* one for each server, in name order */
	struct reservation *reserved;
	size_t n;
};

static inline int ledger_no_memory(struct err *err)
{
	return err_set(err, ERR_NOMEM, "out of memory in the ledger");
}

/* ---- ledger_kube.c ---- */

extern const struct ledger_ops ledger_kube_ops;
/* The ledger cannot be reached in time: err becomes a refusal that says so. ERR_REFUSED. */
int ledger_away(struct err *err);

/* ---- ledger_kube_held.c ---- */

/* The claim that uid holds, gathered from all servers. */
struct found {
	struct claim_part *parts;
	size_t n;
	size_t servers; /* on which it was found */
	size_t expected;
};

/* Lock held. False: none, or a half one (rule R1). */
bool take_find_claim(const struct take *t, struct found *ret);
/* The claim stands already: answer from it, as the one that it rests on now. Lock held, and let go meanwhile. ERR_CONFLICT, ERR_NOTFOUND: it
 * ended meanwhile; else as servers_edit says. */
int take_answer_from(struct take *t, const struct found *f, int64_t deadline_ms,
	struct claim_answer *ret, struct err *err);

/* ---- ledger_kube_decide.c ---- */

enum next { NEXT_COMMIT, NEXT_DECIDE, NEXT_DONE };

/* Find GPUs and reserve them. Lock held, and let go meanwhile. NEXT_COMMIT: t->records are what to commit. NEXT_DECIDE: look again.
 * NEXT_DONE: *rc and err say why not. */
enum next take_decide(struct take *t, int64_t deadline_ms, int *rc, struct err *err);
/* They do not count any more. Lock held. */
void take_unreserve(struct take *t);

/* ---- ledger_kube_undo.c ---- */

/* Take back what the take with this ticket may have written for uid on this server, soon and as well as it can (rule R3). base: the
 * number of the version that the last write followed: as long as the server still has it, the write may land yet. 0: it has landed.
 * Texts are copied. Any thread, also with the lock of servers held. */
void take_back_later(
	struct ledger_kube *l, const char *uid, uint64_t ticket, const char *server, uint64_t base);
void kube_undo(struct ledger *base, uint64_t ticket);

/* ---- ledger_kube_view.c ---- */

int kube_view(struct ledger *base, bool with_claims, struct arena *a, struct pool_view *ret,
	struct err *err);

#endif
