/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what the files of the accounts share: policy_accounts.c has who waits,
 * policy_accounts_round.c what is done for them, policy_accounts_object.c the object,
 * policy_accounts_count.c what is counted, policy_accounts_ahead.c what a replica has counted
 * ahead. */
#ifndef WEBHOOK_CLUSTER_LEDGER_POLICY_ACCOUNTS_IMPL_H
#define WEBHOOK_CLUSTER_LEDGER_POLICY_ACCOUNTS_IMPL_H

#include <pthread.h>

#include "webhook/cluster/duty/duty.h"
#include "webhook/cluster/ledger/policy_accounts.h"

/* Somebody who waits. */
struct raise {
	struct raise *next;
	const struct account_ask *ask;
	int64_t deadline_ms;
	enum account_said said;
	bool passed; /* others were written before it: the next round counts for it */
	int64_t since_ms;
	int rc;
	struct err *err;
	bool finished; /* what came of it stands here: to be said when the round has ended */
	/* Guarded by the lock: */
	bool listed; /* a round works on this, and he who waits stays until it has ended */
	bool done;
};

/* What this replica has counted ahead: so much more it may give in that namespace without another
 * write. In the account it is one in flight, whose name stays until it is known what came of all
 * who were given a part of it. */
struct ahead {
	struct ahead *next;
	uint64_t take; /* of its name */
	struct account_sum left;
	int64_t until_ms;
	unsigned users; /* of whose writes it is not known what came */
	bool lost;      /* of some it never will be */
	char namespace[];
};

/* A take of this process that was raised, until its name is out of the account. */
struct own_take {
	struct own_take *next;
	uint64_t take;
	struct ahead *by; /* what it was given a part of: its own name is not there. NULL: it is */
	uint64_t after;   /* or comes with the write that closes this take. 0: it is there */
	bool unsure;      /* a write of it was not confirmed */
	bool closed;
	struct account_sum wants;
	const char *namespace; /* behind uid */
	char uid[];
};

/* A take of which a write may land yet, as long as that server has this version. */
struct unsure {
	struct unsure *next;
	uint64_t take, base;
	char server[];
};

/* One policy's account, as it was read last. */
struct account_entry {
	struct account_entry *next;
	/* Guarded by the lock: */
	struct raise *queue, **queue_end;
	struct own_take *takes;
	struct ahead *aheads;
	int64_t none_ahead_ms;  /* until when nothing is counted ahead: it was full */
	int64_t vain_ms;        /* the last answer was one that no waiting mends; 0: it was not */
	uint32_t noted, noting; /* so many wait, as this leader sees it; of a round that runs */
	bool busy;              /* somebody works for all that wait */
	/* His, who is busy: */
	bool known;
	struct policy caps;
	int64_t generation;
	char uid[64], version[32];
	/* Another object or spec has been read since, or none: what was counted ahead under the
	 * caps before is not given any more. */
	bool another;
	uint32_t waiting, let_in; /* as it was read; whom it may not count yet, since let_ms */
	int64_t read_ms, let_ms;
	int64_t ahead_ms;  /* something was counted ahead the last time */
	int64_t others_ms; /* another replica was first the last time */
	struct buf text;
	char name[];
};

struct accounts {
	struct kube *kube;
	struct servers *servers;
	const struct log *log;
	const struct policy_source *policies;
	struct duty *janitor; /* writes out what nobody comes for; NULL: nobody does */
	pthread_mutex_t lock; /* taken after nothing, before the janitor's alone */
	pthread_cond_t cond;  /* somebody is not busy any more */
	struct account_entry *entries;
	struct unsure *unsure;
	bool noted; /* this leader has counted who waits */
};

/* Somebody works for all. */
struct round {
	struct accounts *x;
	struct account_entry *e;
	struct raise **list; /* who waited when it began */
	size_t n;
	struct own_take **closed;
	size_t n_closed;
	struct account_ask *named; /* who gets his own name when `instead` is closed */
	size_t n_named;
	struct arena arena;
	struct account account;
	int64_t deadline_ms;
	bool counted, changed;
	bool full; /* the caps did not leave so much to somebody */
	bool rest; /* somebody waits for what others have counted ahead */
	bool may_ahead;
	struct ahead *ahead; /* to be counted ahead with this write */
	struct own_take *ahead_take;
	bool written;
	bool gone; /* there is no such policy */
	bool vain; /* there is no use in asking again soon */
	struct err err;
};

/* One piece of work for everybody who waits: what fits is written at once, else the claims are
 * counted. Lock held, e->busy set, and let go meanwhile. False: nothing came of it, rest. */
bool account_round(struct accounts *x, struct account_entry *e);
/* Read it, past every cache. Without the lock, e->busy set. */
int account_fetch(
	struct accounts *x, struct account_entry *e, int64_t deadline_ms, struct err *err);
/* A leader's count; waiting NULL: nobody has counted those yet. Without the lock, e->busy set. As
 * accounts_repair. */
int account_care_for(struct accounts *x, struct account_entry *e, const struct account_care *care,
	const uint32_t *waiting, int64_t deadline_ms, struct err *err);

/* ---- policy_accounts_object.c ---- */

/* GET it past every cache, or write what the account of the round says and that so many wait, by
 * compare-and-swap: the state that comes back is known from then on. Without the lock. Errors of
 * kube_do; ERR_INVALID: it cannot be read. */
int account_get(struct round *r);
int account_put(struct round *r, uint32_t waiting);

/* ---- policy_accounts_ahead.c ---- */

/* Lock held, all but ahead_open and ahead_hides. */

/* A part of what was counted ahead, for this take. False: there is not so much. */
bool ahead_use(struct account_entry *e, struct own_take *t, const struct account_ask *ask);
/* It is known what came of a take that had a part of it, or (lost) it never will be. */
void ahead_let_go(struct own_take *t, bool lost);
/* Is there something that is given still? */
bool ahead_runs(const struct account_entry *e);
/* No more is given of any. */
void ahead_stop(struct account_entry *e);
/* The same, if what was read by him who is busy is another than before. */
void ahead_stop_another(struct account_entry *e);
/* Does the account that was read name all that is given ahead? One that a restore of etcd has
 * brought back does not. By him who is busy. */
bool ahead_is_named(const struct account_entry *e);
/* Names of those go of which no more is given, and nothing is on its way: or only what was not
 * confirmed, which gets names of its own with the same write. */
void ahead_end(struct account_entry *e);
/* Those who were raised in this round had company: count more of their kind ahead with the same
 * write, where the caps leave much more than that. */
void ahead_open(struct round *r);
/* The round has ended: what was written may be used. */
void ahead_opened(struct round *r);
/* Would it fit, but for what replicas have counted ahead? */
bool ahead_hides(const struct round *r, const struct account_ask *ask);

/* ---- policy_accounts_count.c ---- */

int account_no_memory(struct err *err);
/* Namespaces that surely pick the policy and hold something have a row. ERR_NOMEM. */
int account_know_all(struct round *r);
/* Count the claims of the picture. ERR_NOMEM. */
int account_count_claims(struct round *r);
/* Drop the rows of those who have left. True: there was one. */
bool account_drop_left(struct round *r);

#endif
