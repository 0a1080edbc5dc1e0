/* SPDX-License-Identifier: Apache-2.0 */
/* core: a round of the queue: everybody in his turn is given what is free, or is told why not. */
#include "webhook/core/pool/queue_impl.h"

/* What one round may take of memory for itself, beside the caller's arena: a search of the largest
 * pools takes a few megabytes. */
#define SCRATCH_MAX (256u << 20)

static bool goes_first(const struct queue_unit *a, const struct queue_unit *b)
{
	return queue_compare(&a->rank, &b->rank) < 0;
}

/* ---- what is free ---- */

/* What nobody but the head may have is taken, for the others. */
static int hide_kept(struct queue_run *q)
{
	struct hold *holds = arena_space(q->a, q->ret.n_keep, sizeof(*holds));
	size_t n = 0;

	if (q->has_unkept)
		queue_view_release(&q->unkept);
	q->has_unkept = false;
	for (size_t i = 0; i < q->n_shapes; i++)
		q->shapes[i]->no_unkept = false;
	if (!q->head)
		return 0;
	if (!holds || queue_view_init(&q->unkept, q->w->inventory, &q->real.use, q->a) != 0)
		return ERR_NOMEM;
	q->has_unkept = true;
	for (size_t i = 0; i < q->ret.n_keep; i++) {
		const struct queue_kept *k = &q->ret.keep[i];
		const struct gpu_server *s = &q->w->inventory->servers[k->server];

		/* a full one is hidden as it is */
		if (q->real.use.claimed[s->first_gpu + k->gpu] < s->gpus[k->gpu].bytes)
			holds[n++] = (struct hold){k->server, k->gpu, k->bytes};
	}
	/* it is a copy from now on, also where there is nothing to hide: what it was made from
	 * changes */
	return queue_view_take(&q->unkept, holds, n, true);
}

/* May the unit have what is kept for that head (NULL: nothing is)? */
static bool may_have_kept(const struct queue_unit *u, const struct queue_unit *head)
{
	return !head || u == head || u->joins || queue_is_ahead(u, head);
}

static int take_all(struct queue_view *v, const struct queue_unit *u, const struct placement *where)
{
	for (uint32_t i = 0; i < u->n_open; i++)
		if (queue_view_take(v, where[i].holds, where[i].n_holds, true) != 0)
			return ERR_NOMEM;
	return 0;
}

/* ---- one unit ---- */

/* It starts. in: the view from which its place is taken already. */
static int start(struct queue_run *q, struct queue_unit *u, const struct queue_view *in,
	const struct placement *where)
{
	struct queue_namespace *ns = &q->namespaces[u->namespace];

	for (uint32_t i = 0; i < u->n_open; i++) {
		struct queue_entry *e = &q->ret.entries[u->pods[i]];

		e->where = where[i];
		if (!may_have_kept(u, q->first_head))
			e->before = q->first_head->first;
		for (size_t k = 0; k < where[i].n_holds; k++)
			ns->share = where[i].holds[k].bytes > UINT64_MAX - ns->share
					    ? UINT64_MAX
					    : ns->share + where[i].holds[k].bytes;
	}
	u->started = true;
	u->verdict = QUEUE_START;
	q->takes++;
	q->ret.n_start += u->n;
	if (in != &q->real && take_all(&q->real, u, where) != 0)
		return ERR_NOMEM;
	if (q->has_unkept && in != &q->unkept && take_all(&q->unkept, u, where) != 0)
		return ERR_NOMEM;
	return 0;
}

/* Would the pool hold what the shape asks if nobody used it? */
static int ask_never(struct queue_run *q, const struct queue_unit *u)
{
	struct queue_shape *s = u->shape;
	struct inventory *inv;
	struct placement *where;
	struct usage use;
	int rc;

	if (!q->has_empty) {
		inv = arena_alloc(q->a, sizeof(*inv));
		if (!inv || queue_empty_pool(q->w->inventory, q->a, inv, &use) != 0 ||
			queue_view_init(&q->empty, inv, &use, q->a) != 0)
			return ERR_NOMEM;
		queue_view_index(&q->empty);
		q->has_empty = true;
	}
	rc = queue_place(q, &q->empty, u, false, &where, NULL);
	if (rc == ERR_NOMEM)
		return rc;
	s->never = rc != 0;
	return 0;
}

/* Nothing free holds it. why: of the search that said so; NULL: it was another one. */
static int note_no_room(struct queue_run *q, struct queue_unit *u, const char *why)
{
	struct queue_shape *s = u->shape;

	s->no_room = true;
	if (q->words && !s->why.at && why) {
		s->why = arena_slice(q->a, slice_of(why));
		if (!s->why.at || ask_never(q, u) != 0)
			return ERR_NOMEM;
	}
	u->verdict = s->never ? QUEUE_NEVER : QUEUE_NO_ROOM;
	return 0;
}

/* It is not among what is kept for nobody. Is it free at all? */
static int look_behind(struct queue_run *q, struct queue_unit *u)
{
	struct queue_shape *s = u->shape;

	s->no_unkept = true;
	if (s->no_room ? q->words && !s->why.at : s->free_at != q->takes) {
		struct placement *where;
		struct err err = {0};
		int rc = queue_place(q, &q->real, u, false, &where, q->words ? &err : NULL);

		if (rc == ERR_REFUSED)
			return note_no_room(q, u, err.msg);
		if (rc != 0)
			return rc;
		s->free_at = q->takes;
	}
	if (s->no_room)
		return note_no_room(q, u, NULL);
	u->verdict = QUEUE_KEPT;
	return 0;
}

/* all: what is kept may be its place, too. */
static int search(struct queue_run *q, struct queue_unit *u, bool all)
{
	struct queue_view *v = all ? &q->real : &q->unkept;
	struct placement *where = NULL;
	struct err err = {0};
	int rc = queue_place(q, v, u, true, &where, all && q->words ? &err : NULL);

	if (rc == 0)
		return start(q, u, v, where);
	if (rc != ERR_REFUSED)
		return rc;
	return all ? note_no_room(q, u, err.msg) : look_behind(q, u);
}

static int serve(struct queue_run *q, struct queue_unit *u)
{
	struct queue_shape *s;
	bool all;

	if (q->real.open == 0 && !q->words && u->n_open) {
		u->verdict = QUEUE_NO_ROOM;
		return 0;
	}
	s = queue_shape_of(q, u);
	if (!s)
		return ERR_NOMEM;
	all = may_have_kept(u, q->head);
	if (!(all ? s->no_room : s->no_unkept) || (all && q->words && !s->why.at))
		return search(q, u, all);
	return all ? note_no_room(q, u, NULL) : look_behind(q, u);
}

/* ---- all of them ---- */

/* Serve everybody in order. */
static int serve_all(struct queue_run *q)
{
	struct queue_unit **heads = arena_space(q->a, q->n_namespaces, sizeof(struct queue_unit *));
	size_t n = 0;

	if (!heads)
		return ERR_NOMEM;
	for (size_t i = 0; i < q->n_namespaces; i++) {
		struct queue_namespace *ns = &q->namespaces[i];

		ns->looked = 0;
		if (ns->n == 0)
			continue;
		heads[n] = &q->units[ns->first];
		heads[n++]->rank.share = ns->share;
	}
	queue_heap_make(heads, n, goes_first);
	q->n_order = 0;
	while (n > 0) {
		struct queue_unit *u = heads[0], *next = queue_next(q, u);
		struct queue_namespace *ns = &q->namespaces[u->namespace];

		q->order[q->n_order++] = u;
		if (!u->started) {
			u->verdict = QUEUE_LATER;
			if (ns->looked < QUEUE_LOOK_MAX && serve(q, u) != 0)
				return ERR_NOMEM;
			ns->looked += u->n;
		}
		/* while it is the next of its namespace it has what that has by now */
		if (next)
			next->rank.share = ns->share;
		heads[0] = next ? next : heads[--n];
		queue_heap_sink(heads, n, 0, goes_first);
	}
	return 0;
}

/* What was decided about units, for each of their pods. */
static void tell(struct queue_run *q)
{
	size_t waits = 0, starts = 0, place;

	for (size_t i = 0; i < q->n_order; i++) {
		const struct queue_unit *u = q->order[i];

		for (uint32_t k = 0; k < u->n; k++) {
			struct queue_entry *e = &q->ret.entries[u->pods[k]];

			place = u->started ? ++starts : ++waits;
			e->place = place;
			e->verdict = u->verdict;
			if (u->verdict == QUEUE_KEPT)
				e->before = q->head->first;
			else if (u->verdict == QUEUE_NO_ROOM || u->verdict == QUEUE_NEVER)
				e->why = u->shape ? u->shape->why : (struct slice){0};
		}
	}
	q->ret.depth = waits;
}

/* When somebody has waited for long, for whom something would be kept then. */
static int64_t next_reservation(const struct queue_run *q)
{
	int64_t next = INT64_MAX, at;

	for (size_t i = 0; i < q->n_units; i++) {
		const struct queue_unit *u = &q->units[i];
		int64_t since = u->rank.since_ms > 0 ? u->rank.since_ms : 0;

		if (u->started || u->rank.completes || u->verdict == QUEUE_NEVER ||
			queue_is_old(q, u) ||
			(q->head && u->rank.priority <= q->head->rank.priority) ||
			__builtin_add_overflow(since, q->w->reserve_ms, &at))
			continue;
		next = at < next ? at : next;
	}
	return next;
}

static int run(struct queue_run *q)
{
	struct queue_unit *head;

	if (queue_view_init(&q->real, q->w->inventory, q->w->usage, q->a) != 0 ||
		queue_find_units(q) != 0)
		return ERR_NOMEM;
	q->order = arena_space(q->a, q->n_units, sizeof(struct queue_unit *));
	if (!q->order || queue_find_head(q) != 0)
		return ERR_NOMEM;
	head = q->first_head = q->head;
	if (hide_kept(q) != 0 || serve_all(q) != 0)
		return ERR_NOMEM;
	if (q->ret.n_start && (!head || head->started)) {
		if (queue_find_head(q) != 0)
			return ERR_NOMEM;
		/* who was passed for the head's sake has another turn, and the next head what he
		 * needs */
		if (head) {
			if (hide_kept(q) != 0 || serve_all(q) != 0)
				return ERR_NOMEM;
		}
	}
	tell(q);
	q->ret.head = q->head ? q->head->first : SIZE_MAX;
	q->ret.next_ms = next_reservation(q);
	return 0;
}

int queue_decide(const struct queue_world *w, const struct queue_pod *pods, size_t n, bool words,
	struct arena *a, struct queue_round *ret, struct err *err)
{
	struct queue_run q = {
		.w = w, .pods = pods, .n_pods = n, .words = words, .a = a, .takes = 1};
	int rc = ERR_NOMEM;

	arena_init(&q.scratch, SCRATCH_MAX);
	arena_init(&q.rough, SCRATCH_MAX);
	q.ret.entries = arena_space(a, n, sizeof(*q.ret.entries));
	for (size_t i = 0; q.ret.entries && i < n; i++)
		q.ret.entries[i] = (struct queue_entry){.before = SIZE_MAX};
	if (q.ret.entries)
		rc = run(&q);
	queue_view_release(&q.real);
	if (q.has_unkept)
		queue_view_release(&q.unkept);
	if (q.has_empty)
		queue_view_release(&q.empty);
	arena_release(&q.scratch);
	arena_release(&q.rough);
	if (rc != 0)
		return err_set(err, ERR_NOMEM, "out of memory while looking at who waits");
	*ret = q.ret;
	return 0;
}
