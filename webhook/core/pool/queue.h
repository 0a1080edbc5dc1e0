/* SPDX-License-Identifier: Apache-2.0 */
/* core: who of those that wait is served next (laws W2, W5 to W7 of waiting; gangs). Pure: who
 * waits, what is free and the time go in; who is to be given which GPUs, for whom what frees up is
 * kept, and why everybody else waits come out. It knows no annotation, no gate and no API object,
 * so that the same decision serves the leader, `explain`, `plan` and the simulator. */
#ifndef WEBHOOK_CORE_POOL_QUEUE_H
#define WEBHOOK_CORE_POOL_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "webhook/core/pool/inventory.h"
#include "webhook/core/pool/ledger.h"
#include "webhook/core/pool/placement.h"

/* One round looks at so many pods of a namespace that wait for us alone (W5). */
#define QUEUE_LOOK_MAX 256

/* A pod that waits, or a member of a gang that waits. Borrowed for the call. */
struct queue_pod {
	struct slice uid, namespace, name;
	const struct demand *demand;
	/* Not 0: two with the same number ask the same, as queue_asks() has it; 0: the demands are
	 * compared, which is slower. */
	uint64_t asks;
	int64_t priority; /* the higher goes first */
	bool classed;     /* its PriorityClass says so: nobody else has a say */
	int64_t since_ms; /* its age: since 1970, when it came, or when the last gate of another
			     fell (W7) */
	bool foreign; /* a gate that is not ours stands: it keeps its age and takes no place from
			 others */
	/* It may not have its turn now, by the policy of its namespace: why, in a sentence; absent:
	 * it may. It keeps its age and takes no place from others, as behind a foreign gate. */
	struct slice barred;
	bool claimed; /* its claim stands already: it counts for its gang, and is asked for nothing
			 more */
	/* Absent: it goes alone. Gangs are of one namespace; all members say the same. */
	struct slice gang;
	uint32_t gang_size; /* as many members must be there before one is served */
	/* That is for the Job to say that made it, so gangs of two Jobs are two, whatever their
	 * names; 0: nobody has read it. */
	bool gang_job;
	/* Other members that were let go and live: the gang runs, and who is missing joins it
	 * first. */
	uint32_t gang_let_go;
	/* So many are missing of those who began together, whatever a Job says by now, and so many
	 * bytes of what they asked: who asks more than is left does not join first. */
	uint32_t gang_missing;
	uint64_t gang_left;
	/* What its claim is to say; bytes 0: it begins, and they are to be summed. Its key is as
	 * the pod was read. */
	struct gang_began gang_began;
	struct slice owner; /* uid of the controller that made it; absent: nobody did */
};

/* A member of a gang that waits no more. Borrowed for the call. */
struct queue_member {
	const struct queue_pod *pod; /* NULL: it is gone, and its claim stands yet */
	bool ended;   /* with success; else it was let go or holds its claim, and lives, or */
	bool leaving; /* is being deleted, and holds its claim until it is gone */
	struct gang_began began; /* by its claim */
	struct slice namespace;  /* of one that is gone, and the bytes that it holds */
	uint64_t bytes;
};

/* Bytes that a namespace holds now. */
struct queue_share {
	struct slice namespace;
	uint64_t bytes;
};

/* What is kept for a head that has waited for long, as the statuses of GPUServers say it: so many
 * bytes of one GPU. */
struct queue_kept {
	struct slice uid;   /* of the pod; of a gang the first of its members by uid */
	size_t server, gpu; /* as in struct hold */
	uint64_t bytes;
};

/* As a round wants them, however the servers' statuses gave them. */
void queue_kept_order(struct queue_kept *list, size_t n);

struct queue_world {
	const struct inventory
		*inventory;        /* its servers sorted themselves, without an order beside them */
	const struct usage *usage; /* claims alone: what is kept is not counted in it */
	const struct queue_share *shares;
	size_t n_shares;
	const struct queue_kept *kept; /* ordered by server and GPU */
	size_t n_kept;
	int64_t now_ms;     /* since 1970 */
	int64_t reserve_ms; /* a head that has waited for so long has what frees up kept for it */
};

enum queue_verdict {
	QUEUE_START,   /* it is to be given `where` now; all members of its gang say so, or none */
	QUEUE_NO_ROOM, /* nothing that is free holds it */
	QUEUE_KEPT,    /* what is free would hold it, and is kept for another */
	QUEUE_FOREIGN, /* somebody else's gate stands */
	QUEUE_INCOMPLETE, /* its gang has fewer members than it says */
	QUEUE_UNEVEN,     /* members of its gang disagree about its size */
	/* The pool would not hold it if nobody used it, unfit and stale GPUs counted, draining ones
	 * not. Told where words are asked for, else it is NO_ROOM. */
	QUEUE_NEVER,
	/* QUEUE_LOOK_MAX of its namespace are before it, or as many of its gang as that takes. */
	QUEUE_LATER,
	QUEUE_BARRED /* its namespace's policy does not let it now */
};

/* What was decided about one pod. */
struct queue_entry {
	enum queue_verdict verdict;
	/* From 1, among those who start, or among those who wait; 0: it has none (FOREIGN, BARRED,
	 * INCOMPLETE, UNEVEN, and who is one too many for a gang that does not run). */
	size_t place;
	struct placement where; /* of QUEUE_START, for one that has no claim yet */
	/* QUEUE_KEPT: the pod for which it is kept. QUEUE_START: the one from which it may take
	 * nothing that is kept, until that one holds its claim. Else SIZE_MAX. */
	size_t before;
	struct slice
		why; /* NO_ROOM, NEVER: placement's own sentence; absent: nobody asked for words */
};

struct queue_round {
	struct queue_entry *entries; /* one for each pod, in the order in which they were given */
	/* What is to be kept from now on: for one head at most. */
	struct queue_kept *keep;
	size_t n_keep;
	size_t head;           /* the pod for which it is; SIZE_MAX: nothing is kept */
	size_t n_start, depth; /* pods that start; pods that are in the order and do not */
	int64_t next_ms; /* when a reservation would begin, if nothing else happens; INT64_MAX: none
			    would */
};

/* The order of two that could be served: who completes a gang that runs or has claims; priority;
 * the smaller share of bytes of its namespace, with what this round has given; age; uid. Below 0: a
 * goes first. */
struct queue_rank {
	bool completes;
	int64_t priority;
	uint64_t share;
	int64_t since_ms;
	struct slice uid;
};
int queue_compare(const struct queue_rank *a, const struct queue_rank *b);

/* Are two of a namespace that name a gang of one gang? 0: they are; else one goes before the other
 * in some order. */
int queue_compare_gang(const struct queue_pod *a, const struct queue_pod *b);

/* As a number for gang_began.key. Two gangs of a namespace may have one: then nobody is missing in
 * either for whom is gone of the other. */
uint32_t queue_gang_key(const struct queue_pod *pod);

/* Find gang_let_go, gang_missing, gang_left and gang_began of those who wait. Members are those of
 * its namespace that say the same gang of the same size, for whoever forges a size is in no gang
 * that runs. Where none lives, one that has ended with success shows to the pods of its controller
 * that the gang has run: who comes later goes singly (W11). Who is being deleted does not show that
 * it runs. A seat is a claim: until it ends nobody is missing, whatever has become of its pod, and
 * by joining first a gang has never more pods, nor bytes, than it began with. Sorts members. */
void queue_count_gangs(const struct inventory *inv, struct queue_pod *pods, size_t n,
	struct queue_member *members, size_t n_members);

/* Decide about everybody who waits, as if one after the other, each on what those before him leave.
 * Who does not fit is passed by those behind him, until he has waited for reserve_ms: then bytes
 * are kept for the oldest of the highest priority among those that nothing free holds, on the GPUs
 * that have to free least for him (W6), and nobody else is given these, whatever his share, but who
 * is older or of a higher priority, and who is missing in a gang that runs: the head may wait for
 * its end. It stays with him until he starts, goes away, its GPUs can be used no more, or one of a
 * higher priority has waited for so long. A gang has the lowest priority of its members and the age
 * of its youngest. Where several ask the same, one is searched for. After a start the next round
 * can find more: the search is greedy, and what it misses now it may find among less. words:
 * entries say why. All of ret lives in the arena. The work is bounded by pods looked at times a
 * search's budget. ERR_NOMEM. */
int queue_decide(const struct queue_world *w, const struct queue_pod *pods, size_t n, bool words,
	struct arena *a, struct queue_round *ret, struct err *err);

/* What it asks at most at a time, as a placement holds it, of GPUs like this one; the pool's
 * largest says which of two pods asks more where one asks by percent and the other by megabytes. */
uint64_t queue_size_of(const struct demand *d, const struct gpu *gpu);
struct gpu queue_largest(const struct inventory *inv);
/* The same of GPUs as large as those by which the gang's bytes were counted, whatever has come to
 * the pool since; where nobody says it, of these. */
uint64_t queue_size_in(
	const struct demand *d, const struct gang_began *gang, const struct gpu *largest);

/* Do a few servers say of queue_could_ever() that it is so? False: the whole pool has to be looked
 * at. */
bool queue_few_hold(const struct inventory *inv, const struct demand *d, struct arena *a);

/* Law W2: could the pool ever hold this: all GPUs that are listed or were last reported, fit and
 * fresh or not, but those of servers that drain, with nobody on them? 0, or ERR_REFUSED as
 * placement_find says it; ERR_NOMEM. */
int queue_could_ever(
	const struct inventory *inv, const struct demand *d, struct arena *a, struct err *err);

/* Append why this pod waits, in a sentence for its owner: what was asked, what is missing, its
 * place among how many, who stands before it. Foreign names are made safe, those of other
 * namespaces not told. */
void queue_say(const struct queue_world *w, const struct queue_pod *pods, size_t n,
	const struct queue_round *r, size_t pod, struct buf *out);

#endif
