/* SPDX-License-Identifier: Apache-2.0 */
/* sim: the laws that must hold after every event, and what must be known of each attempt to create
 * a pod for judging them. */
#ifndef TEST_SIM_SIM_LAWS_H
#define TEST_SIM_SIM_LAWS_H

#include "test/sim/sim_api.h"

#define ATTEMPTS_MAX 4000
/* Of the versions of the configuration the first so many inject pods. */
#define CONFIGS_INJECT 2

/* What a pod asks of the pool: so many GPUs, of each so many percent. */
/* Who proves a pod's plan (R18): nobody, one who has the replicas' key, one who has another, and
 * one who has theirs, but the pod was changed behind him. */
enum writer { WRITER_NOBODY, WRITER_OURS, WRITER_STRANGER, WRITER_CHANGED, WRITERS };

struct shape {
	const char *name;
	unsigned amount, percent;
	/* The pod as JSON, injected under each of these configurations, by whom. */
	char *pods[WRITERS][CONFIGS_INJECT];
	char *waiting[CONFIGS_INJECT]; /* it waits for its turn; nobody proves it */
};

/* One attempt to create a pod: a uid. */
struct attempt {
	const struct shape *shape;
	int config; /* that it was injected under */
	enum writer writer;
	char uid[40], name[32];
	const char *namespace;
	int64_t yes_at; /* when "allowed" was final; 0: it was not */
	int64_t stored_at, ended_at,
		dropped_at;  /* 0: it is not. dropped: the API server has given up its create */
	int64_t dead_at;     /* when nobody had a right to its claim any more */
	int64_t vanished_at; /* it was deleted by force, and its processes run on until it has
				ended; 0: it was not */
	bool late; /* it was stored after the time that any create may take: adopted, if it must be
		    */
	bool lost; /* somebody has edited its claim by hand, and what stands there is his word */
	bool reviewed_twice;
	bool restored; /* etcd was, or a status was edited by hand, while it was reviewed: nothing
			  is judged */
	/* The review that runs. */
	unsigned reviews, reviews_ever;
	int64_t review_at;
	bool was_full;      /* since it began there was a moment at which it did not fit */
	int64_t fits_since; /* 0: it does not fit */
	bool name_was_taken;
	/* Since it held a whole claim last there was a moment at which no GPUs had room for it
	 * (R7). */
	bool no_place;
	int64_t more_since; /* it holds parts of more GPUs than it asks for; 0: no */
	/* The attempt whose pod had its name when the review came, -1: none; the version that
	 * brought its claim, if its replica knew that. */
	int namesake;
	uint64_t namesake_since;
	uint64_t asks; /* the task that reviews it */
	/* It waits for its turn, with this priority; `foreign`: somebody else's gate
	 * stands before it, too. */
	bool waits, foreign;
	int priority;
	unsigned gang;              /* that it is of; 0: of none */
	bool had_whole;             /* it has held a whole claim */
	bool gated;                 /* stored, and our gate stands */
	int64_t let_go_at, free_at; /* by our patch; the foreign gate has fallen. 0: not */
	int64_t turn_at;            /* it had a whole claim behind its gate; 0: it had not */
	int64_t passed_at;          /* one that ranks behind it was served, and it was not; 0: no */
	int passed_by;
	long heard; /* what its question for the pod of that name was answered with; 0: none was
		       sent, -1: no answer came */
};

/* A new one; its number stands in its uid. */
struct attempt *laws_attempt(const struct shape *shape, const char *name);
/* A review of it begins, ends with a final "allowed", or with a refusal for want of room. */
void laws_review(struct attempt *a, int owner);
void laws_yes(struct attempt *a);
void laws_no(struct attempt *a, const char *reply);
/* Neither was said. */
void laws_silent(struct attempt *a);
/* That task reviews it, 0: none any more; a task has heard this. */
void laws_asks(struct attempt *a, uint64_t task);
void laws_heard(uint64_t task, const char *path, long status);
/* A claim was put on this server: what its probe has said must be fresh (sim_probe.c). */
void laws_fresh(struct object *o, const char *who);
/* It is deleted by force, and runs on. False: no leader has said that it has seen it, so that the
 * next one cannot know. */
bool laws_vanish(struct attempt *a);
/* It is stored now. */
void laws_stored(struct attempt *a);
/* Somebody has taken a claim out of a status by hand: its pod is adopted, if it lives (R7). */
void laws_claim_lost(const char *uid);
/* That writer says that our gate is to go: may it? unaware: he could not know of a restore of etcd.
 * It has gone. */
void laws_may_go(const struct object *o, const char *who, bool unaware);
void laws_let_go(const struct object *o);
/* It has grown on that GPU, of which so much was kept for another before (W6). */
void laws_kept(const struct object *o, int who, int gpu, uint64_t kept, bool by_review,
	const char *writer);
/* It has a whole claim, and our gate stands. */
void laws_turn(struct attempt *a);
/* What the queue owes at every moment; calm: nothing has failed since then, 0: things do. */
void laws_queue(int64_t calm);
/* After each write: what each namespace holds. */
void laws_shares(void);
/* Could it be served if nobody held anything? */
bool laws_could_ever(const struct attempt *a);
/* So many that were stored before then wait for their turn. */
unsigned laws_waiting(int64_t before);
/* Nobody has a right to its claim from now on. */
void laws_dead(struct attempt *a);

/* For the store, in this order: keep what a GPUServer's status said, read what it says now, judge
 * the change; and that one is gone. */
void laws_before_write(const struct object *o);
void laws_read(struct object *o);
void laws_after_write(struct object *o, const char *who);
void laws_after_removal(const struct object *o);
/* etcd was restored. What has become of each attempt is told by pods_restored(). */
void laws_restored(void);
/* "gpu-0 8000/16000 u12p" for the trace. */
const char *laws_say(const struct object *o);

/* Faults have stopped: how long ago does the world owe what it promises? Empty when it owes
 * nothing, else what is wrong. */
const char *laws_owed(void);
/* Nothing has failed since then (0: faults go on): who holds more than he asks for does not do so
 * for long. */
void laws_calm(int64_t since);

/* Of what the laws remember besides the store. */
uint64_t laws_state(void);

/* What is owed at every moment where nothing goes wrong but what people do. */
void laws_fair(void);

/* What may go wrong in a run: everything; only what people do; that, and lists of the GPUServers.
 */
enum sky { STORM, FAIR, BAD_LISTS };
extern enum sky sky;
/* Percent of the pool that a namespace may hold whose pods never come (R12); 100: no bound. */
extern unsigned pending_share;
extern bool pods_never_came; /* a claim has ended in this run whose pod was let in and never came */
/* So many servers a loop of the product looks at before others have the lock; 0: as many as it
 * holds right, which is more than there are. */
extern size_t at_once;
/* When GPUs or servers came, went, or began or ceased to take claims last. */
extern int64_t pool_shaped_at;
/* What is used is counted (P7). */
extern bool usage_on;
/* Nothing happens but that pods that wait come, have their turn and end; what frees up is kept for
 * one after so long. */
extern bool orderly;
extern int64_t reserve_us;

#endif
