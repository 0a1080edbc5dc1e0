/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the shared ledger's picture, for people and metrics. */
#include <stdlib.h>

#include "webhook/cluster/ledger/ledger_kube_impl.h"

static int by_pod(const void *a, const void *b)
{
	return claim_order(a, b);
}

/* Parts of one claim on several servers become one. */
static size_t merge(struct claim *list, size_t n, struct arena *a)
{
	size_t out = 0;

	for (size_t i = 0; i < n && !a->failed; i++) {
		struct claim *last = out ? &list[out - 1] : NULL;
		struct claim_part *parts;

		if (!last || strcmp(last->key, list[i].key) != 0) {
			list[out++] = list[i];
			continue;
		}
		parts = arena_array(a, last->n_parts + list[i].n_parts, sizeof(*parts));
		if (!parts)
			break;
		if (last->n_parts)
			memcpy(parts, last->parts, last->n_parts * sizeof(*parts));
		if (list[i].n_parts)
			memcpy(parts + last->n_parts, list[i].parts,
				list[i].n_parts * sizeof(*parts));
		last->parts = parts;
		last->n_parts += list[i].n_parts;
	}
	return out;
}

/* What a view shows of one server. */
struct viewed {
	struct gpu_server server;
	uint64_t *claimed, *pending;
	uint32_t n_claims;
};

struct viewing {
	const struct servers *s;
	struct arena *a;
	struct viewed *list;
	struct claim *claims;
	size_t n, cap, n_claims, cap_claims, n_gpus;
	bool with_claims, with_kept;
	struct slice without;  /* what this uid holds does not count, and it alone is listed */
	uint64_t *const *sums; /* what is taken of each GPU: a list of the picture, which may move
				*/
};

/* A longer list with room for so many more, twice as long as it must be; what it has been stays in
 * the arena. */
static void *longer(struct arena *a, void *list, size_t n, size_t more, size_t *cap, size_t size)
{
	void *grown;

	if (n + more <= *cap)
		return list;
	grown = arena_array(a, 2 * (n + more) + 16, size);
	if (grown && n)
		memcpy(grown, list, n * size);
	*cap = grown ? 2 * (n + more) + 16 : *cap;
	return grown;
}

/* As the pod sees it that has none of its claims: by the newest state, whoever has shown it. */
static void leave_out(const struct viewing *v, const struct server_entry *e, struct viewed *to)
{
	const struct server_status *status = &e->held->object.status;
	ptrdiff_t own = server_status_claim(status, v->without);

	/* nobody writes over what he cannot read */
	to->server.drain = e->unreadable;
	to->n_claims = (uint32_t)status->n_claims - (own >= 0);
	for (size_t i = 0; i < to->server.n_gpus; i++)
		to->claimed[i] = server_status_claimed(status, i);
	for (size_t i = 0; own >= 0 && i < status->claims[own].claim.n_parts; i++) {
		const struct claim_part *part = &status->claims[own].claim.parts[i];
		ptrdiff_t gpu = server_status_gpu(status, slice_of(part->gpu));

		if (gpu >= 0)
			to->claimed[gpu] -=
				part->bytes < to->claimed[gpu] ? part->bytes : to->claimed[gpu];
	}
}

static bool view_server(void *ctx, const struct server_entry *e)
{
	struct viewing *v = ctx;
	const struct gpu_server *shown = &v->s->inv.servers[e->index];
	const struct server_status *status = &e->held->object.status;
	struct viewed *to;

	if (!e->placed)
		return false;
	v->list = longer(v->a, v->list, v->n, 1, &v->cap, sizeof(*v->list));
	if (v->with_claims)
		v->claims = longer(v->a, v->claims, v->n_claims, status->n_claims, &v->cap_claims,
			sizeof(*v->claims));
	if (v->a->failed)
		return false;
	to = &v->list[v->n++];
	inventory_copy_server(&to->server, shown, v->a);
	to->claimed =
		arena_copy(v->a, *v->sums + shown->first_gpu, shown->n_gpus, sizeof(uint64_t));
	to->pending =
		arena_copy(v->a, v->s->pending + shown->first_gpu, shown->n_gpus, sizeof(uint64_t));
	for (size_t i = 0; to->claimed && i < shown->n_gpus && !v->with_kept; i++)
		to->claimed[i] -= v->s->kept[shown->first_gpu + i];
	to->n_claims = v->s->n_claims[e->index];
	if (v->without.at && to->claimed)
		leave_out(v, e, to);
	v->n_gpus += shown->n_gpus;
	for (size_t i = 0; v->with_claims && i < status->n_claims; i++)
		if (!v->without.at || slice_is(v->without, status->claims[i].claim.key))
			claim_copy(&v->claims[v->n_claims++], &status->claims[i].claim, v->a);
	return !v->a->failed;
}

static bool count_states(void *ctx, const struct server_entry *e)
{
	size_t *ret = ctx;

	for (size_t i = 0; i < e->held->object.status.n_claims; i++)
		ret[e->held->object.status.claims[i].claim.state]++;
	return true;
}

void kube_count(struct ledger *base, size_t ret[CLAIM_STATES])
{
	memset(ret, 0, CLAIM_STATES * sizeof(*ret));
	(void)servers_walk(((struct ledger_kube *)base)->servers, count_states, ret);
}

/* There is room for as much as there is now before any server is looked at: a list that grows is
 * copied whole, under the lock. */
static void make_room(struct viewing *v, struct servers *s)
{
	size_t claims = servers_holders(s), servers;

	(void)pthread_mutex_lock(&s->lock);
	servers = s->n;
	(void)pthread_mutex_unlock(&s->lock);
	v->list = longer(v->a, NULL, 0, servers, &v->cap, sizeof(*v->list));
	if (v->with_claims)
		v->claims = longer(v->a, NULL, 0, claims, &v->cap_claims, sizeof(*v->claims));
}

int kube_view(struct ledger *base, bool with_claims, struct arena *a, struct pool_view *ret,
	struct err *err)
{
	return servers_view(((struct ledger_kube *)base)->servers, with_claims, a, ret, err);
}

/* Everything but the claims. False: out of memory. */
static bool view_pool(struct viewing *v, struct servers *s, struct pool_view *ret)
{
	bool good = servers_walk(s, view_server, v);
	struct gpu_server *servers = arena_array(v->a, v->n, sizeof(*servers));
	uint64_t *claimed = arena_array(v->a, v->n_gpus, sizeof(*claimed));
	uint64_t *pending = arena_array(v->a, v->n_gpus, sizeof(*pending));
	uint32_t *n_claims = arena_array(v->a, v->n, sizeof(*n_claims));
	size_t first = 0;

	if (!good || v->a->failed)
		return false;
	for (size_t i = 0; i < v->n; i++) {
		size_t n = v->list[i].server.n_gpus;

		servers[i] = v->list[i].server;
		servers[i].first_gpu = first;
		n_claims[i] = v->list[i].n_claims;
		if (n) {
			memcpy(claimed + first, v->list[i].claimed, n * sizeof(*claimed));
			memcpy(pending + first, v->list[i].pending, n * sizeof(*pending));
		}
		first += n;
	}
	*ret = (struct pool_view){
		.inventory = {.servers = servers, .n_servers = v->n, .n_gpus = v->n_gpus},
		.usage = {.claimed = claimed, .pending = pending, .n_claims = n_claims}};
	return true;
}

int servers_copy(struct servers *s, bool with_reserved, struct arena *a, struct pool_view *ret,
	struct err *err)
{
	struct viewing v = {.s = s,
		.a = a,
		.with_kept = true,
		.sums = with_reserved ? &s->claimed : &s->committed};

	make_room(&v, s);
	return view_pool(&v, s, ret) ? 0 : ledger_no_memory(err);
}

int servers_view(struct servers *s, bool with_claims, struct arena *a, struct pool_view *ret,
	struct err *err)
{
	struct viewing v = {.s = s, .a = a, .with_claims = with_claims, .sums = &s->claimed};

	make_room(&v, s);
	if (!view_pool(&v, s, ret))
		return ledger_no_memory(err);
	if (!with_claims)
		return 0;
	if (v.n_claims > 1)
		qsort(v.claims, v.n_claims, sizeof(*v.claims), by_pod);
	ret->n_claims = merge(v.claims, v.n_claims, a);
	ret->claims = v.claims;
	return a->failed ? ledger_no_memory(err) : 0;
}

int servers_view_for(struct servers *s, struct slice uid, struct arena *a, struct pool_view *ret,
	struct err *err)
{
	struct viewing v = {
		.s = s, .a = a, .with_claims = true, .without = uid, .sums = &s->claimed};

	if (!view_pool(&v, s, ret))
		return ledger_no_memory(err);
	ret->claims = v.claims;
	ret->n_claims = v.n_claims;
	return 0;
}
