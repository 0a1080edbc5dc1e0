/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what the files of the shared ledger share. A review goes from ledger_kube.c through what
 * its uid holds already (_held), its name (_name) and the decision (_decide, _phantom) to the
 * commits; _undo takes back, _view shows. */
#ifndef WEBHOOK_CLUSTER_LEDGER_LEDGER_KUBE_IMPL_H
#define WEBHOOK_CLUSTER_LEDGER_LEDGER_KUBE_IMPL_H

#include <stdatomic.h>

#include "webhook/cluster/duty/duty.h"
#include "webhook/cluster/ledger/ledger_kube.h"
#include "webhook/cluster/ledger/servers_picture.h"

/* A review without a deadline. */
#define TAKE_MS 5000

/* What is to be taken back. */
struct undo;

struct ledger_kube {
	struct ledger base;
	struct servers *servers;
	struct kube *kube;
	struct accounts *accounts;
	unsigned pending_share;
	const struct log *log;
	struct metrics *metrics;
	uint64_t replica;      /* the upper half of every ticket of this process: random */
	_Atomic uint32_t last; /* the lower half */
	pthread_mutex_t lock;  /* guards undos; taken before nothing, after servers' */
	struct undo *undos;
	struct duty *janitor;
};

/* A part of a half claim, as it was seen. */
struct old_part {
	const char *server;
	uint64_t take;
	bool head; /* it stands on the first of several servers */
	bool open;
};

/* One review's way to its claim. */
struct take {
	struct ledger_kube *l;
	const struct claim_ask *ask;
	struct arena *arena;
	struct arena scratch; /* for one decision: a review that waits makes many */
	struct arena copy;    /* of the picture, and what was decided on it; not to be freed with
				 the lock held: it is large */
	const char *uid, *namespace, *name;
	uint64_t ticket;
	/* A "no" rests on this list, which was begun after the review came and after the last that
	 * it waited for: of what it waited for, the picture would be newer than of the rest, and
	 * show as full a pool that never was (rule R4). 0: none was wanted. */
	uint64_t list;
	bool asked_for_name, name_is_free; /* who has this name? nobody */
	int64_t end_until_ms; /* until when it waits for the end of the pod that had its name; 0: it
				 has not waited */
	unsigned copies;      /* of the picture, that it has decided on */
	bool half;            /* this uid holds a half claim, which the next one replaces */
	struct old_part *old; /* its parts */
	size_t n_old;
	bool half_fresh; /* a list that was begun after the wait for it shows it as half, too */
	int64_t half_ms, half_until_ms; /* somebody else's half claim: since when, and how long it
					   is waited for */
	uint64_t *mine;                 /* tickets that this review has written with */
	size_t n_mine, cap_mine;
	bool over;        /* it has replaced a part of somebody else's: a reply may rest on it */
	uint64_t instead; /* the take that was raised last in the account of its policy, and of
			     which nothing was written; 0: there is none */
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

/* What uid holds in the picture, valid while its lock is held, in the order of the servers' names.
 */
struct take_held {
	/* In the take's scratch: until the next decision. Left is what a try of this review wrote
	 * that came to nothing, and goes: with what another review put in the place of its other
	 * parts it makes no claim, even where both list the same servers. */
	struct claim_on *parts;
	size_t n;
	/* One of the claim that is whole (rule R1); of several, of that with the first server by
	 * name. NULL: there is none. */
	const struct claim_record *whole;
};

/* All with the lock held. */

/* False: out of memory. */
bool take_find(struct take *t, struct take_held *ret);
/* Before anything is written with t->ticket. False: out of memory. */
bool take_wrote(struct take *t);
/* Did this review write it? */
bool take_is_mine(const struct take *t, uint64_t ticket);
/* Only parts are there: note their takes. *ret_wait: they are somebody else's who may be at work,
 * and something has happened, a while has passed or a fresh list has come: look again. The lock is
 * let go meanwhile. ERR_NOMEM, ERR_REFUSED (no list can be had). */
int take_half(struct take *t, const struct take_held *f, int64_t deadline_ms, bool *ret_wait,
	struct err *err);
/* Was it such a part? */
bool take_may_replace(const struct take *t, uint64_t ticket);
/* May what stands on that server now be replaced? Rule R19: not where its owner has made the claim
 * whole since it was seen. */
bool take_may_replace_on(const struct take *t, const char *server, const struct claim_record *r);
/* The claim stands already: answer from it, as the one that it rests on now. The lock is let go
 * meanwhile. ERR_CONFLICT, ERR_NOTFOUND: it ended meanwhile; else as servers_edit says. */
int take_answer_from(struct take *t, const struct take_held *f, int64_t deadline_ms,
	struct claim_answer *ret, struct err *err);

/* All parts of this take are committed: is the claim this uid's? Then what the uid holds elsewhere
 * is taken back soon; *ret_shared: another review's reply may rest on this claim, so it is not to
 * be undone. False: another review of the same uid was first, or has replaced a part. */
bool take_settle(struct take *t, bool *ret_shared);

/* ---- ledger_kube_decide.c ---- */

enum take_next { NEXT_COMMIT, NEXT_DECIDE, NEXT_DONE };

/* Find GPUs and reserve them. Lock held, and let go meanwhile. NEXT_COMMIT: t->records are what to
 * commit. NEXT_DECIDE: look again. NEXT_DONE: *rc and err say why not. */
enum take_next take_decide(struct take *t, int64_t deadline_ms, int *rc, struct err *err);
/* Law W2: could the pool ever hold it? Lock held, and let go meanwhile. ERR_REFUSED, ERR_TIMEOUT,
 * ERR_NOMEM. */
int take_could_ever(struct take *t, int64_t deadline_ms, struct err *err);
/* They do not count any more. Lock held. */
void take_unreserve(struct take *t);

/* ---- ledger_kube_copy.c ---- */

/* A "no" that was decided on a copy stands if nothing has made room while the copy was made. Where
 * something always does, one is decided under the lock after so many. */
#define COPIES_MAX 4

/* A copy of the picture. */
struct copy {
	struct pool_view view;
	/* Nothing has made room while it was made, so a "no" by what was seen at several moments is
	 * one by the last of them. */
	bool still;
	/* It may have what this replica's reviews are about to commit: no "no" rests on that. What
	 * they have given up meanwhile has made room. */
	bool reserved;
};

/* Others make theirs while this review waits: of several at once each would be as large as the
 * picture. Lock held, and let go meanwhile. */
void take_drop_copy(struct take *t);
/* As decided on the copy, whether or not what this replica is about to commit counts. Lock held,
 * and let go meanwhile. As placement_find(), and ERR_TIMEOUT. */
int take_decide_on_copy(struct take *t, bool with_reserved, int64_t deadline_ms, struct copy *c,
	struct placement *p, struct err *err);
/* Law W2 by all servers. Where something always makes room, by the picture itself in the end: of
 * what was read at several moments a server may be missing that has got another name meanwhile.
 * *ret_still: as in a copy. Lock held, and let go meanwhile. ERR_REFUSED,
 * ERR_TIMEOUT, ERR_NOMEM. */
int take_could_by_all(struct take *t, int64_t deadline_ms, bool *ret_still, struct err *err);

/* ---- ledger_kube_name.c; lock held, and let go meanwhile ---- */

/* Rule R12: another pod's claim holds this pod's name, and a GET past every cache shows a pod that
 * has it: err says so (ERR_REFUSED, reason "AlreadyExists"), as the API server would after us.
 * Asked once; *ret_asked: just now. */
bool take_name_is_taken(struct take *t, int64_t deadline_ms, bool *ret_asked, struct err *err);
/* Rule R6: a claim stands of a pod that had this name and is gone, and the leader has not said yet
 * whether it was seen to end (R13): wait for that for a moment. True: there may be room now, decide
 * again. */
bool take_waits_for_end(struct take *t, int64_t deadline_ms);

/* ---- ledger_kube_phantom.c ---- */

/* Rule R12: claims of this namespace ended whose pods never came, and with these bytes it would
 * hold more pending than it may; err says so (ERR_REFUSED, reason "TooManyPending"). One pod may
 * always wait. Lock held. */
bool take_is_phantom(const struct take *t, uint64_t bytes, struct err *err);

/* ---- ledger_kube_undo.c ---- */

/* Take back what the take with this ticket may have written for uid on this server, soon and as
 * well as it can (rule R3). base: the number of the version that the last write followed: as long
 * as the server still has it, the write may land yet. 0: it has landed. Texts are copied. Any
 * thread, also with the lock of servers held. */
void take_back_later(
	struct ledger_kube *l, const char *uid, uint64_t ticket, const char *server, uint64_t base);
void kube_undo(struct ledger *base, uint64_t ticket);

/* ---- ledger_kube_view.c ---- */

void kube_count(struct ledger *base, size_t ret[CLAIM_STATES]);
int kube_view(struct ledger *base, bool with_claims, struct arena *a, struct pool_view *ret,
	struct err *err);

#endif
