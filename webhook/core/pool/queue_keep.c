/* SPDX-License-Identifier: Apache-2.0 */
/* core: for whom is kept what frees up, and on which GPUs. */
#include <stdlib.h>

#include "webhook/core/pool/queue_impl.h"

static int by_gpu(const void *a, const void *b)
{
	const struct queue_kept *x = a, *y = b;

	if (x->server != y->server)
		return x->server < y->server ? -1 : 1;
	return (x->gpu > y->gpu) - (x->gpu < y->gpu);
}

void queue_kept_order(struct queue_kept *list, size_t n)
{
	if (n > 1)
		qsort(list, n, sizeof(*list), by_gpu);
}

bool queue_is_old(const struct queue_run *q, const struct queue_unit *u)
{
	int64_t since = u->rank.since_ms > 0 ? u->rank.since_ms : 0;

	return q->w->now_ms >= since && q->w->now_ms - since >= q->w->reserve_ms;
}

static bool wants_whole_servers(const struct queue_run *q, const struct queue_unit *u)
{
	for (uint32_t i = 0; i < u->n_open; i++)
		if (q->pods[u->pods[i]].demand->whole_servers)
			return true;
	return false;
}

/* All GPUs that take claims, that of which least is taken first; of servers that are taken whole,
 * all GPUs together. Listed once for all for whom something may be kept: those for whom nothing can
 * may be many. */
static struct queue_keyed *list_candidates(struct queue_run *q, bool whole, size_t *ret_n)
{
	const struct inventory *inv = q->w->inventory;
	struct queue_keyed *all = q->candidates[whole];
	size_t n = 0;

	*ret_n = q->n_candidates[whole];
	if (all)
		return all;
	all = arena_space(q->a, inv->n_gpus, 2 * sizeof(*all));
	for (size_t s = 0; all && s < inv->n_servers; s++) {
		const struct gpu_server *at = &inv->servers[s];
		const uint64_t *claimed = q->real.use.claimed + at->first_gpu;
		uint64_t sum = 0;

		for (size_t i = 0; i < at->n_gpus; i++)
			sum = claimed[i] > UINT64_MAX - sum ? UINT64_MAX : sum + claimed[i];
		for (size_t i = 0; i < at->n_gpus; i++)
			if (inventory_usable(at, &at->gpus[i]))
				all[n++] = (struct queue_keyed){
					whole ? sum : claimed[i], (uint32_t)s, (uint32_t)i};
	}
	if (all)
		queue_sort_keyed(all, all + n, n);
	q->candidates[whole] = all;
	q->n_candidates[whole] = *ret_n = n;
	return all;
}

/* Place the unit as if the first n of these were empty. */
static int place_on(struct queue_run *q, const struct queue_unit *u, const struct queue_keyed *all,
	size_t n, struct placement **ret)
{
	const struct usage *real = &q->real.use;
	struct pool_room room = q->real.room;
	struct usage use = {.claimed = real->claimed,
		.pending = real->pending,
		.n_claims = real->n_claims,
		.first = real->first,
		.room = &room};
	struct queue_view v;
	int rc;

	/* one search does not pay for it */
	room.index = NULL;
	arena_reset(&q->rough);
	rc = queue_view_init(&v, q->w->inventory, &use, &q->rough);
	if (rc == 0)
		rc = queue_view_clear(&v, all, n);
	if (rc == 0)
		rc = queue_place(q, &v, u, false, ret, NULL);
	queue_view_release(&v);
	return rc;
}

/* Of all members together, GPU by GPU. */
static int write_keep(
	struct queue_run *q, const struct queue_unit *u, const struct placement *where)
{
	const struct inventory *inv = q->w->inventory;
	uint64_t *bytes = arena_array(q->a, inv->n_gpus, sizeof(*bytes));
	size_t n = 0;

	for (uint32_t i = 0; i < u->n_open; i++)
		n += where[i].n_holds;
	q->ret.keep = arena_space(q->a, n, sizeof(*q->ret.keep));
	q->ret.n_keep = 0;
	if (!bytes || !q->ret.keep)
		return ERR_NOMEM;
	for (uint32_t i = 0; i < u->n_open; i++)
		for (size_t k = 0; k < where[i].n_holds; k++) {
			const struct hold *h = &where[i].holds[k];

			bytes[inv->servers[h->server].first_gpu + h->gpu] += h->bytes;
		}
	for (size_t s = 0; s < inv->n_servers; s++)
		for (size_t i = 0; i < inv->servers[s].n_gpus; i++)
			if (bytes[inv->servers[s].first_gpu + i])
				q->ret.keep[q->ret.n_keep++] = (struct queue_kept){
					u->rank.uid, s, i, bytes[inv->servers[s].first_gpu + i]};
	return 0;
}

/* Keep for the unit the GPUs that have to free least for it. ERR_REFUSED: no GPUs that take claims
 * would hold it. */
static int keep_for(struct queue_run *q, struct queue_unit *u)
{
	struct placement *found = NULL, *fewer;
	struct queue_keyed *all;
	size_t low = 0, high;
	int rc;

	all = list_candidates(q, wants_whole_servers(q, u), &high);
	if (!all)
		return ERR_NOMEM;
	rc = place_on(q, u, all, high, &found);
	/* low are too few, high are enough */
	while (rc == 0 && high - low > 1) {
		size_t mid = low + (high - low) / 2;
		int one = place_on(q, u, all, mid, &fewer);

		if (one == ERR_NOMEM)
			return one;
		if (one == 0)
			found = fewer;
		*(one == 0 ? &high : &low) = mid;
	}
	if (rc != 0)
		return rc;
	q->head = u;
	return write_keep(q, u, found);
}

/* The unit for which is kept already, if all that is kept for it can still be used. */
static struct queue_unit *kept_for(const struct queue_run *q)
{
	const struct inventory *inv = q->w->inventory;
	const struct queue_world *w = q->w;

	for (size_t i = 0; i < w->n_kept; i++) {
		const struct queue_kept *k = &w->kept[i];
		const struct gpu_server *s =
			k->server < inv->n_servers ? &inv->servers[k->server] : NULL;

		if (!s || k->gpu >= s->n_gpus || !inventory_usable(s, &s->gpus[k->gpu]) ||
			k->bytes > s->gpus[k->gpu].bytes || !slice_eq(k->uid, w->kept[0].uid))
			return NULL;
	}
	for (size_t i = 0; w->n_kept && i < q->n_units; i++)
		if (!q->units[i].started && slice_eq(q->units[i].rank.uid, w->kept[0].uid))
			return &q->units[i];
	return NULL;
}

/* The servers of what is kept, as if all else of them were taken. */
static int view_kept(
	struct queue_run *q, struct inventory *inv, struct usage *use, struct queue_view *ret)
{
	const struct queue_world *w = q->w;
	uint64_t *claimed;

	inv->servers = arena_array(&q->rough, w->n_kept, sizeof(*inv->servers));
	for (size_t i = 0; inv->servers && i < w->n_kept; i++) {
		if (i > 0 && w->kept[i].server == w->kept[i - 1].server)
			continue;
		inv->servers[inv->n_servers] = w->inventory->servers[w->kept[i].server];
		inv->servers[inv->n_servers++].first_gpu = inv->n_gpus;
		inv->n_gpus += w->inventory->servers[w->kept[i].server].n_gpus;
	}
	claimed = arena_array(&q->rough, inv->n_gpus, sizeof(*claimed));
	use->claimed = claimed;
	use->pending = arena_array(&q->rough, inv->n_gpus, sizeof(*claimed));
	use->n_claims = arena_array(&q->rough, inv->n_servers, sizeof(*use->n_claims));
	if (q->rough.failed)
		return ERR_NOMEM;
	for (size_t s = 0, k = 0; s < inv->n_servers; s++)
		for (size_t i = 0; i < inv->servers[s].n_gpus; i++) {
			uint64_t *to = &claimed[inv->servers[s].first_gpu + i];

			*to = inv->servers[s].gpus[i].bytes;
			for (; k < w->n_kept && w->kept[k].gpu == i &&
				w->inventory->servers[w->kept[k].server].gpus ==
					inv->servers[s].gpus;
				k++)
				*to -= w->kept[k].bytes < *to ? w->kept[k].bytes : *to;
		}
	return queue_view_init(ret, inv, use, &q->rough);
}

/* Does what is kept hold the unit? Its gang may have grown since, and a part of it may have gone
 * with a GPU or a server. */
static int is_enough(struct queue_run *q, const struct queue_unit *u, bool *ret)
{
	struct inventory inv = {0};
	struct usage use = {0};
	struct placement *where;
	struct queue_view v;
	int rc;

	arena_reset(&q->rough);
	if (view_kept(q, &inv, &use, &v) != 0)
		return ERR_NOMEM;
	rc = queue_place(q, &v, u, false, &where, NULL);
	queue_view_release(&v);
	*ret = rc == 0;
	return rc == ERR_NOMEM ? rc : 0;
}

bool queue_is_ahead(const struct queue_unit *a, const struct queue_unit *b)
{
	struct queue_rank x = a->rank, y = b->rank;

	x.share = y.share = 0;
	x.completes = y.completes = false;
	return queue_compare(&x, &y) < 0;
}

/* Does what is free hold it? Asked once for all that ask the same. */
static int is_held(struct queue_run *q, struct queue_unit *u, bool *ret)
{
	struct queue_shape *s = queue_shape_of(q, u);
	struct placement *where;
	int rc;

	if (!s)
		return ERR_NOMEM;
	if (!s->no_room && s->free_at != q->takes) {
		rc = queue_place(q, &q->real, u, false, &where, NULL);
		if (rc == ERR_NOMEM)
			return rc;
		if (rc == 0)
			s->free_at = q->takes;
		else
			s->no_room = true;
	}
	*ret = !s->no_room;
	return 0;
}

/* Of a namespace the first, from this one on, that has waited for long and has a higher priority
 * than the head that there is. NULL: there is none. */
static struct queue_unit *next_old(const struct queue_run *q, struct queue_unit *u)
{
	while (u && (u->started || u->rank.completes || !queue_is_old(q, u) ||
			    (q->head && u->rank.priority <= q->head->rank.priority)))
		u = queue_next(q, u);
	return u;
}

/* The first of them of each namespace, as a heap: that a namespace has its own in the same order is
 * what spares a list of all. */
static struct queue_unit **list_old(const struct queue_run *q, size_t *ret_n)
{
	struct queue_unit **all = arena_space(q->a, q->n_namespaces, sizeof(struct queue_unit *));
	size_t n = 0;

	for (size_t i = 0; all && i < q->n_namespaces; i++) {
		const struct queue_namespace *ns = &q->namespaces[i];

		all[n] = next_old(q, ns->n ? &q->units[ns->first] : NULL);
		n += all[n] != NULL;
	}
	*ret_n = n;
	if (all)
		queue_heap_make(all, n, queue_is_ahead);
	return all;
}

/* What was kept in the round before is kept on. */
static int keep_on(struct queue_run *q, struct queue_unit *u)
{
	bool enough;

	if (!u)
		return 0;
	if (is_enough(q, u, &enough) != 0)
		return ERR_NOMEM;
	if (!enough)
		return 0;
	q->head = u;
	q->ret.keep = arena_copy(q->a, q->w->kept, q->w->n_kept, sizeof(*q->ret.keep));
	q->ret.n_keep = q->w->n_kept;
	for (size_t i = 0; q->ret.keep && i < q->ret.n_keep; i++)
		q->ret.keep[i].uid = u->rank.uid;
	return q->ret.keep ? 0 : ERR_NOMEM;
}

int queue_find_head(struct queue_run *q)
{
	struct queue_unit **old;
	size_t n;

	/* others have been given GPUs since */
	q->candidates[false] = q->candidates[true] = NULL;
	q->head = NULL;
	q->ret.n_keep = 0;
	if (keep_on(q, kept_for(q)) != 0)
		return ERR_NOMEM;
	old = list_old(q, &n);
	if (!old)
		return ERR_NOMEM;
	while (n > 0) {
		struct queue_unit *u = old[0];
		bool held;
		int rc;

		if (is_held(q, u, &held) != 0)
			return ERR_NOMEM;
		if (!held && !u->shape->unkept) {
			rc = keep_for(q, u);
			if (rc != ERR_REFUSED)
				return rc;
			u->shape->unkept = true;
		}
		u = next_old(q, queue_next(q, u));
		old[0] = u ? u : old[--n];
		queue_heap_sink(old, n, 0, queue_is_ahead);
	}
	return 0;
}
