/* SPDX-License-Identifier: Apache-2.0 */
/* core: what is free while those who wait are served, one after the other. */
#include "webhook/core/pool/queue_impl.h"

static void count_open(struct queue_view *v)
{
	v->open = 0;
	for (size_t i = 0; i < v->inv->n_servers; i++)
		v->open += v->room.most[i] > 0;
}

static int make_room(struct queue_view *v)
{
	size_t servers = v->inv->n_servers, widest = 0;
	uint32_t *first = arena_space(v->a, servers, sizeof(*first));
	uint32_t *gpus = arena_space(v->a, servers, sizeof(*gpus));

	v->bytes = arena_space(v->a, servers, sizeof(*v->bytes));
	v->most = arena_space(v->a, servers, sizeof(*v->most));
	v->usable = arena_space(v->a, servers, sizeof(*v->usable));
	v->left = arena_space(v->a, v->inv->n_gpus, sizeof(*v->left));
	if (v->a->failed)
		return ERR_NOMEM;
	for (size_t i = 0; i < servers; i++) {
		const struct gpu_server *s = &v->inv->servers[i];

		first[i] = (uint32_t)s->first_gpu;
		gpus[i] = (uint32_t)s->n_gpus;
		room_note(s, v->use.claimed + s->first_gpu, &v->bytes[i], &v->most[i],
			&v->usable[i], v->left + s->first_gpu);
		widest = s->n_gpus > widest ? s->n_gpus : widest;
	}
	v->room = (struct pool_room){.first = first,
		.gpus = gpus,
		.bytes = v->bytes,
		.most = v->most,
		.free = v->left,
		.usable = v->usable,
		.widest = widest};
	return 0;
}

int queue_view_init(
	struct queue_view *v, const struct inventory *inv, const struct usage *use, struct arena *a)
{
	*v = (struct queue_view){.inv = inv, .use = *use, .a = a};
	if (use->room)
		v->room = *use->room;
	else if (make_room(v) != 0)
		return ERR_NOMEM;
	v->use.room = &v->room;
	count_open(v);
	return 0;
}

void queue_view_index(struct queue_view *v)
{
	for (size_t i = 0; i < v->inv->n_servers; i++) {
		const struct gpu_server *s = &v->inv->servers[i];

		room_index_add(&v->index, (uint32_t)i, v->room.bytes[i], v->room.most[i],
			v->room.free + s->first_gpu, s->n_gpus);
	}
	v->room.index = &v->index;
}

void queue_view_release(struct queue_view *v)
{
	room_index_release(&v->index);
}

/* From now on the view is a copy. */
static int own(struct queue_view *v)
{
	size_t servers = v->inv->n_servers, gpus = v->inv->n_gpus;

	if (v->claimed)
		return 0;
	v->bytes = arena_copy(v->a, v->room.bytes, servers, sizeof(*v->bytes));
	v->most = arena_copy(v->a, v->room.most, servers, sizeof(*v->most));
	v->usable = arena_copy(v->a, v->room.usable, servers, sizeof(*v->usable));
	v->left = arena_copy(v->a, v->room.free, gpus, sizeof(*v->left));
	v->n_claims = arena_copy(v->a, v->use.n_claims, servers, sizeof(*v->n_claims));
	v->claimed = arena_copy(v->a, v->use.claimed, gpus, sizeof(*v->claimed));
	if (v->a->failed)
		return ERR_NOMEM;
	v->room.bytes = v->bytes;
	v->room.most = v->most;
	v->room.usable = v->usable;
	v->room.free = v->left;
	v->use.n_claims = v->n_claims;
	v->use.claimed = v->claimed;
	if (v->room.index && v->room.index != &v->index) {
		/* a broken one is not used: the search looks at every server then */
		room_index_copy(&v->index, v->room.index);
		v->room.index = &v->index;
	}
	return 0;
}

/* What the server's GPUs have free, after a change of what is claimed. */
static void note(struct queue_view *v, size_t server)
{
	const struct gpu_server *s = &v->inv->servers[server];
	size_t first = s->first_gpu;

	v->open -= v->most[server] > 0;
	if (v->room.index)
		room_index_remove(&v->index, (uint32_t)server, v->bytes[server], v->most[server],
			v->left + first, s->n_gpus);
	room_note(s, v->claimed + first, &v->bytes[server], &v->most[server], &v->usable[server],
		v->left + first);
	if (v->room.index)
		room_index_add(&v->index, (uint32_t)server, v->bytes[server], v->most[server],
			v->left + first, s->n_gpus);
	v->open += v->most[server] > 0;
}

int queue_view_take(struct queue_view *v, const struct hold *holds, size_t n, bool there)
{
	if (own(v) != 0)
		return ERR_NOMEM;
	for (size_t i = 0; i < n;) {
		size_t server = holds[i].server, first = v->inv->servers[server].first_gpu;

		for (; i < n && holds[i].server == server; i++) {
			uint64_t *claimed = &v->claimed[first + holds[i].gpu];

			*claimed = there ? *claimed + holds[i].bytes : *claimed - holds[i].bytes;
		}
		v->n_claims[server] += there ? 1 : (uint32_t)-1;
		note(v, server);
	}
	return 0;
}

int queue_view_clear(struct queue_view *v, const struct queue_keyed *which, size_t n)
{
	if (own(v) != 0)
		return ERR_NOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct gpu_server *s = &v->inv->servers[which[i].at];

		v->claimed[s->first_gpu + which[i].gpu] = 0;
		v->n_claims[which[i].at] = 0;
	}
	for (size_t i = 0; i < n; i++)
		if (i == 0 || which[i].at != which[i - 1].at)
			note(v, which[i].at);
	return 0;
}

/* One pod's place, in the arena of the round. */
static int place_one(struct queue_run *q, struct queue_view *v, const struct demand *d,
	struct placement *ret, struct err *err)
{
	struct placement found;
	int rc;

	/* Nobody reads why, and nothing is free. */
	if (!err && v->open == 0)
		return ERR_REFUSED;
	arena_reset(&q->scratch);
	rc = placement_find(v->inv, &v->use, d, &q->scratch, &found, err);
	if (rc != 0)
		return rc;
	*ret = (struct placement){
		.holds = arena_copy(q->a, found.holds, found.n_holds, sizeof(*found.holds)),
		.n_holds = found.n_holds,
		.servers = arena_copy(q->a, found.servers, found.n_servers, sizeof(*found.servers)),
		.n_servers = found.n_servers};
	return q->a->failed ? ERR_NOMEM : 0;
}

int queue_place(struct queue_run *q, struct queue_view *v, const struct queue_unit *u, bool take,
	struct placement **ret, struct err *err)
{
	struct placement *found = arena_array(q->a, u->n_open, sizeof(*found));
	size_t n = 0, taken = 0;
	int rc = found ? 0 : ERR_NOMEM;

	for (; n < u->n_open && rc == 0; n++) {
		rc = place_one(q, v, q->pods[u->pods[n]].demand, &found[n], err);
		if (rc == 0 && (take || n + 1 < u->n_open)) {
			rc = queue_view_take(v, found[n].holds, found[n].n_holds, true);
			taken += rc == 0;
		}
	}
	/* all or none; what was copied once is given back without memory */
	while (taken > 0 && (rc != 0 || !take)) {
		taken--;
		(void)queue_view_take(v, found[taken].holds, found[taken].n_holds, false);
	}
	if (rc == 0)
		*ret = found;
	return rc;
}

int queue_empty_pool(
	const struct inventory *inv, struct arena *a, struct inventory *ret, struct usage *ret_use)
{
	size_t places = inventory_places(inv);
	uint64_t *none = arena_array(a, inventory_gpu_places(inv), sizeof(*none));
	uint32_t *nobody = arena_array(a, places, sizeof(*nobody));

	*ret = *inv;
	ret->servers = arena_copy(a, inv->servers, places, sizeof(*ret->servers));
	for (size_t s = 0; ret->servers && s < inv->n_servers; s++) {
		struct gpu_server *at = &ret->servers[inventory_nth(inv, s)];

		at->gpus = arena_copy(a, at->gpus, at->n_gpus, sizeof(*at->gpus));
		for (size_t i = 0; at->gpus && i < at->n_gpus; i++)
			at->gpus[i].fit = at->gpus[i].fresh = true;
	}
	*ret_use = (struct usage){.claimed = none, .pending = none, .n_claims = nobody};
	return a->failed ? ERR_NOMEM : 0;
}
