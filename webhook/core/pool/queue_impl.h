/* SPDX-License-Identifier: Apache-2.0 */
/* core: the state of one round of the queue. Shared by queue.c, which serves, queue_units.c, which
 * finds who is served together, queue_shape.c, who asks the same and in which order, queue_gang.c,
 * which counts members, queue_view.c, which looks for GPUs, queue_keep.c, which keeps them for a
 * head, and queue_say.c; nobody else includes it. */
#ifndef WEBHOOK_CORE_POOL_QUEUE_IMPL_H
#define WEBHOOK_CORE_POOL_QUEUE_IMPL_H

#include "webhook/core/pool/queue.h"

/* What a round believes to be taken: as the caller has it, until something is added; from then on a
 * copy. */
struct queue_view {
	const struct inventory *inv;
	struct usage use; /* what searches read */
	struct pool_room room;
	struct arena *a;
	uint64_t *claimed, *bytes, *most, *left; /* the copy; NULL: there is none */
	uint32_t *n_claims, *usable;
	struct room_index index;
	size_t open; /* servers that have something free */
};

/* What those ask who are served together. All that ask the same are answered by one search. */
struct queue_shape {
	const uint32_t *pods; /* of one that asks it, in the order in which they are placed */
	uint32_t n;
	bool no_room;     /* what is free does not hold it: nor does it later in this round */
	bool no_unkept;   /* nor what is free and kept for nobody */
	uint32_t free_at; /* queue_run.takes when it was found free; 0: never */
	bool unkept;      /* nothing can be kept for it */
	bool never;       /* it could not fit if nobody else used the pool */
	struct slice why;
	uint64_t asks; /* as its units have it */
};

/* A pod that goes alone, or a gang: served together or not at all. */
struct queue_unit {
	struct queue_rank rank; /* share: of its namespace, while it is the next of it */
	uint32_t *pods; /* who is to be placed, in that order, then those that have claims */
	uint32_t n, n_open;
	uint32_t namespace;
	uint32_t first; /* the pod whose uid is the rank's */
	bool joins;     /* its gang runs, and lacks it */
	bool started;
	enum queue_verdict verdict;
	uint64_t asks;             /* of the first who is to be placed; 0: nobody is */
	struct queue_shape *shape; /* NULL: nobody has asked yet */
};

struct queue_namespace {
	struct slice name;
	uint64_t end; /* the name's last bytes: most names differ there */
	uint64_t share;
	uint32_t first, n; /* its part of the units */
	uint32_t looked;   /* pods that were looked at in this turn */
};

/* One of a list that is put in order by a number. Of a GPU that could be kept: its server, and the
 * bytes that have to end before all of it is free. */
struct queue_keyed {
	uint64_t key;
	uint32_t at, gpu;
};

struct queue_run {
	const struct queue_world *w;
	const struct queue_pod *pods;
	size_t n_pods;
	bool words;
	struct arena *a;
	struct arena scratch;     /* of one search */
	struct arena rough;       /* of one try to keep */
	struct queue_unit *units; /* of each namespace side by side and in their order */
	size_t n_units;
	struct queue_namespace *namespaces;
	size_t n_namespaces;
	struct queue_shape **shapes; /* in order */
	size_t n_shapes, cap_shapes;
	struct queue_view real, unkept,
		empty; /* what is free; without what is kept; a pool that nobody uses */
	bool has_unkept, has_empty;
	uint32_t takes; /* from 1: grows with everybody who is given something of what is free */
	struct queue_unit *head;       /* for whom is kept */
	struct queue_unit *first_head; /* for whom was kept when the round began, by what statuses
					  say until the round is over */
	/* GPUs that could be, one by one or (true) by whole servers; NULL: not listed yet. */
	struct queue_keyed *candidates[2];
	size_t n_candidates[2];
	struct queue_unit **order;
	size_t n_order;
	struct queue_round ret;
};

/* ---- queue_units.c ---- */

/* Who is served together, by namespace and in order; verdicts of those who are not served at all go
 * into q->ret. ERR_NOMEM. */
int queue_find_units(struct queue_run *q);
/* The next one of its namespace; NULL: it is the last. */
struct queue_unit *queue_next(const struct queue_run *q, struct queue_unit *u);

/* ---- queue_shape.c ---- */

/* What the unit asks. NULL: out of memory. */
struct queue_shape *queue_shape_of(struct queue_run *q, struct queue_unit *u);

/* A heap of units: the first of all by `before` is at the front. */
typedef bool queue_before(const struct queue_unit *a, const struct queue_unit *b);
void queue_heap_sink(struct queue_unit **heap, size_t n, size_t at, queue_before *before);
void queue_heap_make(struct queue_unit **heap, size_t n, queue_before *before);

/* By key, the least first; those that have the same stay as they stand. A pass for each byte in
 * which keys differ, which are few mostly. spare: as much room again. */
void queue_sort_keyed(struct queue_keyed *list, struct queue_keyed *spare, size_t n);

/* ---- queue_view.c ---- */

/* A view of what is taken. ERR_NOMEM. */
int queue_view_init(struct queue_view *v, const struct inventory *inv, const struct usage *use,
	struct arena *a);
/* One that was made without an index gets one: for many searches. */
void queue_view_index(struct queue_view *v);
void queue_view_release(struct queue_view *v);
/* Take these, one claim on each of their servers, or give them back; from then on the view is a
 * copy. They are in the order of a placement. ERR_NOMEM. */
int queue_view_take(struct queue_view *v, const struct hold *holds, size_t n, bool there);
/* As if nobody had claims on these GPUs, nor others on their servers; from then on the view is a
 * copy. Quickest where those of a server stand side by side. ERR_NOMEM. */
int queue_view_clear(struct queue_view *v, const struct queue_keyed *which, size_t n);
/* Place all of the unit that is to be placed, one after the other. took: it is taken from the view
 * then. ret: a placement for each, in the arena; not for gangs alone. 0; ERR_REFUSED, in words
 * where err is given, and nothing is taken; ERR_NOMEM. */
int queue_place(struct queue_run *q, struct queue_view *v, const struct queue_unit *u, bool take,
	struct placement **ret, struct err *err);
/* The pool as if nobody used it and every GPU that is there were fit. ERR_NOMEM. */
int queue_empty_pool(
	const struct inventory *inv, struct arena *a, struct inventory *ret, struct usage *ret_use);

/* ---- queue_keep.c ---- */

/* Find for whom is kept, from what is free now, and what. q->head NULL: for nobody. ERR_NOMEM. */
int queue_find_head(struct queue_run *q);
/* Has it the higher priority, or, of one priority, waited for longer? */
bool queue_is_ahead(const struct queue_unit *a, const struct queue_unit *b);
/* Has the unit waited for so long that something may be kept for it? */
bool queue_is_old(const struct queue_run *q, const struct queue_unit *u);

#endif
