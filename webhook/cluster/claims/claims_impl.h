/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what the files of the duty that keeps claims true share. One thread, the duty's, but for
 * what run_side_by_side calls. Lock order: nothing of servers is called while the pods' lock is
 * held, nor the other way round. */
#ifndef WEBHOOK_CLUSTER_CLAIMS_CLAIMS_IMPL_H
#define WEBHOOK_CLUSTER_CLAIMS_CLAIMS_IMPL_H

#include "base/arena.h"
#include "webhook/cluster/claims/adopt_place.h"
#include "webhook/cluster/claims/claims.h"
#include "webhook/cluster/claims/job_sizes.h"
#include "webhook/cluster/claims/pods.h"
#include "webhook/cluster/claims/policy_caps.h"
#include "webhook/cluster/duty/duty.h"
#include "webhook/cluster/duty/side_by_side.h"
#include "webhook/core/pod/plan.h"
#include "webhook/core/pool/claim_life.h"

/* A round at the latest: for those who wait to hear that everybody has been looked at, and for all
 * that could not be done in the one before. */
#define CLAIMS_IDLE_MS 1000
/* Between two writes for binding alone. */
#define BIND_EVERY_MS 1000
/* Between two rounds, however often somebody wakes us. */
#define CLAIMS_ROUND_MS 100
/* After the API server did not answer. */
#define CLAIMS_AWAY_MS 1000
/* One GET, one edit. */
#define CLAIMS_CALL_MS 5000
/* An answer that is older when it is to be written is asked for anew: we stood still. */
#define CLAIMS_ANSWER_MS 10000

/* What is remembered of those alone whose pods wait, are without a claim, or do not run: few of
 * many. */
struct holder_rest {
	char why[POD_WHY_SIZE];      /* its pod has waited for long, for this; "": it has not */
	char why_told[POD_WHY_SIZE]; /* that an Event has said */
	/* Adoption: */
	int64_t adopt_ms; /* not before then, unless the pool changes */
	uint64_t adopt_pool;
	int64_t adopt_away_ms; /* not before then either: nobody answered */
	/* Its place: */
	int64_t place_ms; /* not written before then */
	int64_t lost_ms;  /* its pod waits without it, and is not asked about before then */
	int64_t since_ms; /* since when it waits is not written before then */
	/* A node for it: */
	int64_t unplaced_ms; /* since when the scheduler has found none, as far as this leader has
				seen; 0: it has not looked, or has found one */
	int64_t look_ms;     /* it is not looked at again before then */
	/* Why it waits for its turn: */
	int64_t why_ms;
	int64_t why_again_ms;   /* it could not be told, and is not before then; 0: it could */
	const char *why_reason; /* as it was told last by this leader; NULL: it was not */
	uint8_t why_class;      /* of its place among those who wait */
	bool tried;             /* adopt_ms and adopt_pool count */
	bool told;              /* an Event says that it cannot be given a claim */
	bool place_told;        /* an Event says that it cannot be told its place */
	bool unplaced_tell;     /* an Event is to say that no node takes it, with the scheduler's
				   words */
};

/* One uid that holds something, or is a pod that should: what this leader remembers of it from
 * round to round. There are as many as claims, so members stand by their size. */
struct holder {
	struct holder *next;
	struct holder_rest *rest; /* NULL: nothing of it is remembered */
	const char *namespace, *name;
	struct claim_sight sight;
	/* As the round that runs sees its claim: */
	uint64_t list_hash; /* of the servers that its first record lists */
	uint64_t plan_hash; /* of its first record */
	/* Of a gang, until it is settled: uid of the member whose claim decides for all, in the
	 * picture's arena; of several that its records name, one that does not yet, or is gone
	 * (R19). So many records of others are not settled that it decides for. */
	const char *gang;
	uint64_t takes; /* sum over its records */
	uint64_t bytes; /* the same, of those of gangs */
	struct gang_began began;
	uint32_t n_records, n_listed, n_follow;
	uint32_t grace_s; /* the longest that its records say; 0: none does */
	uint32_t round;   /* the last in which it was in view */
	uint32_t hash;    /* of the uid, as much as finds a bucket */
	/* From round to round: */
	uint32_t told_s; /* the longest grace period that a delete of its pod has named, bounded; 0:
			    none */
	enum claim_act act;
	uint64_t takes_before;
	int64_t until_ms;  /* of CLAIM_LINGER */
	int64_t live_ms;   /* when the last GET was begun that showed its pod as live */
	bool waiting;      /* its pod waits, and not for long as far as this leader knows */
	bool write_failed; /* its end was not written */
	bool write_away;   /* and not because somebody else wrote */
	/* As the round that runs sees it: */
	bool agree; /* all records list the same servers, their own among them, and none is open
		       (R19) */
	bool open;  /* one is */
	bool pending, unbound;
	bool settled; /* one names no gang, or none any more */
	bool begun;   /* one says that it decides for its gang */
	bool closed;  /* and it does: that on the first of its servers is not open */
	bool undecided;
	bool seated; /* its pod is there, and has a seat in its gang */
	char uid[];
};

/* One claim on one server. */
struct record {
	struct holder *who;
	uint64_t take;
	/* As it is, or should be (rule R13): */
	int64_t lingers_ms;
	const char *waits; /* in the picture's arena, or the holder's; NULL: it does not */
	const char *ips;   /* its pod's addresses, with a comma; NULL: it says none */
	const char *gang;  /* in the picture's arena; NULL: it names none, or none any more */
	uint32_t grace_s;
	enum claim_state state;
	bool word; /* of lingers_ms, waits, ips and grace_s one is to be written */
	bool open;
	bool skipped; /* its removal was not written: to be asked anew */
};

/* One server of a round and its records. */
struct part {
	const char *name;
	size_t first, n;
	bool by_address;   /* its gate knows pods by their addresses */
	bool phantoms_due; /* one of its namespaces has been there for ten minutes (rule R12) */
};

/* The picture of one round. */
struct picture {
	struct arena arena;
	struct part *parts; /* in the order of their names */
	size_t n_parts, cap_parts;
	struct record *records;
	size_t n_records, cap_records;
	size_t n_seats; /* of them, that say which gang they are of */
	uint64_t pool;  /* changes when servers, their GPUs or their specs do */
	bool keeps;     /* something is kept for pods that wait (W6) */
	bool gangs;     /* some are of gangs that are not settled */
	bool failed;    /* out of memory: not to be used */
};

struct claims {
	struct claims_config *cfg;
	const struct carrier *carrier;
	struct claim_pace pace;
	int64_t grace_ms, max_grace_ms, unstarted_ms, unplaced_ms;
	struct duty *duty; /* for those who wake it */
	struct duty *self; /* the same, for its own thread */
	struct pods *pods;
	struct holder **bucket;
	size_t n_buckets, n_holders;
	unsigned breaks;   /* kube_breaks() before the last list of the GPUServers that was waited
			      for: with the same now, what it showed stands */
	size_t n_unplaced; /* of them, whom no node takes, in this round */
	uint32_t round;
	size_t ask_from;   /* the bucket with which a round's questions begin: behind the last that
			      was asked */
	int64_t began_ms;  /* the round that runs */
	int64_t pause_ms;  /* from it to the next, at least */
	int64_t until_ms;  /* when to look again */
	int64_t bind_ms;   /* binding alone is written from then on */
	int64_t why_ms;    /* nobody is told why it waits before then */
	int64_t halves_ms; /* of pods that wait: they are not taken back before then */
	struct policy_caps caps;
	struct job_sizes *jobs; /* of gangs that wait */
	bool queue_begun;       /* the queue has begun on a fresh list */
	struct picture now;
};

/* ---- claims.c ---- */

/* Look again at that time at the latest. */
void claims_until(struct claims *c, int64_t ms);
/* Read the picture anew, into c->now and the holders. False: out of memory. */
bool claims_look(struct claims *c);
/* The same on a list of the GPUServers that is begun after this call. False also where none came in
 * time: a round comes soon. */
bool claims_look_anew(struct claims *c);

/* ---- claims_holder.c ---- */

/* Nobody is known yet. False: out of memory. */
bool claims_remember(struct claims *c);
/* So many holders will be there: they are found as quickly. Without memory it takes longer. */
void claims_expect(struct claims *c, size_t holders);
/* Who was not in this round's view is forgotten, or all are: clocks start again when it comes back.
 */
void claims_forget(struct claims *c, bool all);
/* The holder of that uid, or NULL. */
struct holder *claims_find(const struct claims *c, struct slice uid);
/* The same, made if need be, and in this round's view; NULL when out of memory. */
struct holder *claims_holder(
	struct claims *c, const char *uid, const char *namespace, const char *name);
/* Its rest, made if need be; NULL when out of memory. */
struct holder_rest *holder_rest(struct holder *h);
/* Its pod runs, and has its claim: what is remembered of the time before goes. */
void holder_tidy(struct holder *h);
/* Why its pod has waited for long; "": it has not. */
const char *holder_why(const struct holder *h);
/* Has it a claim, whole on all its servers? */
bool holder_complete(const struct holder *h);

/* ---- claims_end.c ---- */

/* GET the pod past the cache. ret (may be NULL) is released by the caller in every case, and holds
 * the pod for ANSWER_LIVE. */
enum pod_answer claims_ask(struct kube *k, const struct holder *h, struct kube_answer *ret);
/* Decide on each holder, ask what must be asked, write what follows. */
void claims_judge(struct claims *c);

/* ---- claims_unstarted.c ---- */

/* Keep why its pod has not run for long, and since when no node takes it. */
void unstarted_see(struct claims *c, struct holder *h, const struct pod_shown *pod);
/* A claim on this server says so since now: that is told once for each reason. */
void unstarted_tell(struct claims *c, struct holder *h, const char *server);
/* Tell those whom no node has taken for long what the scheduler says, and evict who may be, where
 * the setting says so. */
void claims_unplaced(struct claims *c);

/* ---- claims_address.c ---- */

/* What a claim says of its pod's addresses, with a comma, in the arena; NULL: none. */
const char *address_said(const struct claim_record *r, struct arena *a);
/* The same as it should be, where the server's gate knows pods by their addresses or does not. */
const char *address_due(struct claims *c, const struct record *r, bool by_address);
/* Let the claim say this, in the arena. */
void address_write(const char *ips, struct claim_record *r, struct arena *a);

/* ---- claims_place.c ---- */

/* Tell pods whose claims stand, and that wait for it, which GPUs they have. */
void claims_place(struct claims *c);

/* ---- claims_queue.c ---- */

/* Give claims to those pods that wait for their turn and have it. True: some were written, so the
 * picture is another one. */
bool claims_queue(struct claims *c);

/* ---- claims_gang.c ---- */

struct adoption;

/* After a look that showed claims of gangs: which are undecided. */
void gang_look(struct claims *c);
/* Do records count that name this gang? NULL: they name none, so they do. */
bool gang_is_decided(const struct claims *c, const char *gang);
/* What has been decided stands by itself from now on, and the picture says so. False: out of
 * memory. */
bool gang_settle(struct claims *c);
/* Count for those who wait which members of their gangs do not. False: out of memory. */
bool gang_count(struct claims *c, struct pod_waiting *const *others, size_t n_others,
	const struct inventory *inv, struct queue_pod *pods, size_t n, struct arena *a);
/* Write the claims of all members (R19); sorts them. After an error what has been written is
 * another leader's that died: it is taken back by gang_take_back. Errors of adopt_write. */
int gang_write(struct adoption **members, size_t n, struct err *err);
/* Take back what the holder has of an undecided gang's claims: the claim that would decide goes
 * first. ERR_CONFLICT: it has changed; else as servers_edit says. */
int gang_take_back(struct claims *c, const struct holder *h, struct err *err);

/* ---- claims_keep.c ---- */

/* What one GPUServer kept when the queue read it. */
struct keep_seen {
	const char *server;
	struct kept_for kept;
};
struct keep_list {
	struct keep_seen *seen;
	size_t n, cap;
};

/* What is kept for pods that wait, as the GPUServers say it, with the places that their GPUs have
 * in the inventory, and each server's own words; in the arena. ERR_NOMEM. */
int keep_read(struct claims *c, const struct inventory *inv, struct arena *a,
	struct keep_list *seen, struct queue_kept **ret, size_t *ret_n, struct err *err);
/* Did the queue know, when it decided, that so much is kept on that server? */
bool keep_known(const struct keep_list *seen, const char *server, const struct kept_for *k);
/* Let the GPUServers say this and nothing else: kept for the head, NULL for nobody. One that keeps
 * what the queue has not seen is another leader's by now, and is left to the next round; seen NULL:
 * all go. True: one was written. */
bool keep_write(struct claims *c, const struct keep_list *seen, const struct inventory *inv,
	const struct queue_pod *head, const struct queue_kept *keep, size_t n);

/* ---- claims_since.c ---- */

/* Write on those pods that Kueue has let go, and that do not start now, since when they wait for
 * us: the next leader reads it there. who and started belong to list. */
void since_write(struct claims *c, struct holder *const *who, struct pod_waiting *const *list,
	const bool *started, size_t n);

/* ---- claims_show.c ---- */

/* Show a round of the queue in the metrics; round NULL: nobody waits, or this replica leads no
 * more. */
void queue_meter(struct metrics *m, const struct queue_pod *pods, size_t n,
	const struct queue_round *round, int64_t now_ms);

/* Show people who waits, as a round with words has decided; nothing of it is kept but text. */
void queue_show(struct claims *c, const struct queue_world *w, const struct queue_pod *pods,
	size_t n, const struct queue_round *round, struct arena *a);
/* Nobody waits; or this replica leads no more, and does not say. */
void queue_show_none(struct claims *c, bool leads);

/* ---- adopt.c ---- */

/* A warning among the pod's Events; what becomes of it is no concern of the claim's. */
void warn_pod(struct claims *c, const struct holder *h, const char *reason, const char *note);
/* Give claims to live pods without one; keeps cfg->settled_ms. */
void claims_adopt(struct claims *c);

/* What one adoption is about. */
struct adoption {
	struct claims *c;
	struct holder *who;
	struct arena arena;
	struct kube_answer pod;
	struct plan plan;
	uint64_t plan_hash;
	struct demand demand;
	struct adopt_pool pool;
	struct placement where;
	bool full; /* sums may exceed what a GPU has */
	bool turn; /* it has waited for its turn: it takes what is free, and is bound; else it is
		      adopted */
	struct slice behind; /* its turn: the pod for which is kept what it may not take; absent:
				there is none */
	const struct keep_list *kept; /* its turn: what was kept then, as the queue knew it */
	uint32_t grace_s;             /* of its pod, when it is written */
	/* Of a gang: what its record says, and for the member that decides: it stays open until
	 * adopt_close. */
	const char *gang;
	struct gang_began began;
	uint64_t take;
	bool stays_open;
	/* Of a write that was not confirmed: where it may land yet, as long as there is this
	 * version; 0: there is none. */
	uint64_t unsure_base;
	const char *unsure_on;
	const char **servers; /* that its claim spans */
	size_t n_servers;
};

/* ---- adopt_write.c ---- */

/* Write a->where as the pod's claim, server after server, then take away what it held elsewhere.
 * ERR_CONFLICT: something else is there than was seen; else as servers_edit says. */
int adopt_write(struct adoption *a, struct err *err);
/* The claim that has stayed open is whole from now on. ERR_CONFLICT: it is not there any more, or
 * is another's; else as above. */
int adopt_close(struct adoption *a, struct err *err);
/* Take away what the pod holds on other servers than a->servers. Errors as above. */
int adopt_drop_elsewhere(struct adoption *a, struct err *err);
/* Is there a whole claim among what the pod holds? Then a->servers are its servers. */
bool adopt_has_whole(struct adoption *a);

/* ---- claims_policy.c ---- */

/* Count what these, one pod or all of a gang, are about to be given, as policy_caps_raise does,
 * with its errors. *ret_take: for claims_raised(). */
int claims_raise(struct adoption *const *members, size_t n, uint64_t *ret_take, struct err *err);
/* What came of writing it is known, or will be (unsure_base). */
void claims_raised(struct adoption *const *members, size_t n, uint64_t take);
/* The cap of this namespace's policy is full: its pods are barred for a second. */
void claims_bar(struct claims *c, const char *namespace, const char *why);

/* What the policy of a namespace says to its pods that wait. */
struct policy_law {
	const struct policy *policy; /* NULL: it picks none, or nobody knows */
	const struct pool_bound *bound;
	struct slice barred; /* why none of them may have its turn; absent: they may */
	/* Of a policy with caps: what those of its namespaces hold whose pods wait. NULL: it has
	 * none. */
	struct account *account;
};
/* In the arena, or as long as the claims. False: out of memory. */
bool policy_law_of(
	const struct claims *c, struct slice namespace, struct arena *a, struct policy_law *ret);
bool policy_law_apply(
	const struct policy_law *law, struct demand *d, struct queue_pod *pod, struct arena *a);
/* Of all namespaces whose pods wait, each with what it holds. Out of memory: a->failed. */
void policy_laws_count(struct policy_law *laws, const struct queue_share *shares,
	const struct account_sum *held, size_t n, struct arena *a);
/* After policy_law_apply: a pod that without a doubt takes more than the caps leave may not have
 * its turn, so that nothing is kept for it. Who passes is refused by the account itself, where
 * other namespaces of the policy hold too much, or the GPUs that it is given are too large. */
void policy_law_cap(const struct policy_law *law, struct queue_pod *pod, struct arena *a);

#endif
