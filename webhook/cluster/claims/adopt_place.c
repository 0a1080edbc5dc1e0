/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: see adopt_place.h. */
#include "webhook/cluster/claims/adopt_place.h"

struct reading {
	const struct servers *servers;
	struct slice uid;
	struct arena *a;
	struct adopt_pool *ret;
	size_t cap_servers, cap_gpus;
	bool failed;
};

/* A longer copy; the old one stays in the arena. */
static void *longer(struct arena *a, const void *old, size_t n, size_t cap, size_t size)
{
	void *grown = arena_array(a, cap, size);

	if (grown && old && n > 0)
		memcpy(grown, old, n * size);
	return grown;
}

static bool make_room(struct reading *r, size_t gpus)
{
	struct adopt_pool *p = r->ret;
	size_t n = p->inventory.n_servers;

	if (n == r->cap_servers) {
		r->cap_servers = n ? 2 * n : 64;
		p->inventory.servers = longer(
			r->a, p->inventory.servers, n, r->cap_servers, sizeof(struct gpu_server));
		p->n_claims = longer(r->a, p->n_claims, n, r->cap_servers, sizeof(uint32_t));
	}
	n = p->inventory.n_gpus;
	if (n + gpus > r->cap_gpus || !p->claimed) {
		r->cap_gpus = 2 * (n + gpus) + 64;
		p->claimed = longer(r->a, p->claimed, n, r->cap_gpus, sizeof(uint64_t));
	}
	return !r->a->failed;
}

/* What that uid holds here does not count as taken. */
static void count(struct reading *r, const struct server_object *o, const struct gpu_server *s)
{
	struct adopt_pool *p = r->ret;
	uint64_t *claimed = p->claimed + s->first_gpu;
	ptrdiff_t own = server_status_claim(&o->status, r->uid);

	for (size_t i = 0; i < s->n_gpus; i++)
		claimed[i] = server_status_claimed(&o->status, i);
	p->n_claims[p->inventory.n_servers] = (uint32_t)o->status.n_claims - (own >= 0);
	for (size_t i = 0; own >= 0 && i < o->status.claims[own].claim.n_parts; i++) {
		const struct claim_part *part = &o->status.claims[own].claim.parts[i];
		ptrdiff_t gpu = server_status_gpu(&o->status, slice_of(part->gpu));

		p->own_bytes += part->bytes;
		if (gpu < 0 || (size_t)gpu >= s->n_gpus)
			continue;
		claimed[gpu] -= part->bytes < claimed[gpu] ? part->bytes : claimed[gpu];
		if (s->gpus[gpu].bytes > p->biggest.bytes)
			p->biggest = s->gpus[gpu];
	}
}

static bool read_server(void *ctx, const struct server_object *o)
{
	struct reading *r = ctx;
	struct adopt_pool *p = r->ret;
	struct gpu_server shown;
	struct inventory one = {.servers = &shown, .n_servers = 1}, copy;

	if (server_object_inventory(o, r->a, &shown, NULL) < 0 || !make_room(r, shown.n_gpus) ||
		inventory_copy(&one, r->a, &copy, NULL) < 0) {
		r->failed = true;
		return false;
	}
	shown = copy.servers[0];
	shown.first_gpu = p->inventory.n_gpus;
	/* Claims must be there before the server is opened, and a drain is for new pods, as are
	 * launchers and gates; but nobody writes over what he cannot read. */
	shown.n_launchers = 0;
	shown.guarded = true;
	shown.drain = servers_unreadable(r->servers, o->name);
	count(r, o, &shown);
	p->inventory.servers[p->inventory.n_servers++] = shown;
	p->inventory.n_gpus += shown.n_gpus;
	return true;
}

int adopt_pool_read(struct servers *s, struct slice uid, struct arena *a, struct adopt_pool *ret,
	struct err *err)
{
	struct reading r = {.servers = s, .uid = uid, .a = a, .ret = ret};

	*ret = (struct adopt_pool){0};
	servers_each(s, read_server, &r);
	return r.failed ? err_set(err, ERR_NOMEM, "out of memory for a picture of the pool") : 0;
}

/* The pod runs already, so a verdict on its GPU changes nothing. */
static void call_all_fit(struct adopt_pool *p)
{
	for (size_t i = 0; i < p->inventory.n_servers; i++)
		for (size_t g = 0; g < p->inventory.servers[i].n_gpus; g++) {
			struct gpu *gpu = &p->inventory.servers[i].gpus[g];

			gpu->fit = gpu->fresh = true;
		}
}

int adopt_place(struct adopt_pool *pool, const struct demand *d, struct arena *a,
	struct placement *ret, bool *ret_full, struct err *err)
{
	uint64_t *none = arena_array(a, pool->inventory.n_gpus, sizeof(*none));
	uint32_t *nobody = arena_array(a, pool->inventory.n_servers, sizeof(*nobody));
	struct usage real = {.claimed = pool->claimed, .pending = none, .n_claims = pool->n_claims};
	struct usage zero = {.claimed = none, .pending = none, .n_claims = nobody};
	int rc;

	*ret_full = false;
	if (!none || !nobody)
		return err_set(err, ERR_NOMEM, "out of memory for a placement");
	rc = placement_find(&pool->inventory, &real, d, a, ret, err);
	if (rc != ERR_REFUSED)
		return rc;
	call_all_fit(pool);
	rc = placement_find(&pool->inventory, &real, d, a, ret, err);
	if (rc != ERR_REFUSED)
		return rc;
	*ret_full = true;
	return placement_find(&pool->inventory, &zero, d, a, ret, err);
}

bool adopt_exceeds(const struct adopt_pool *pool, const struct demand *d)
{
	uint64_t most = 0;

	if (d->whole_servers)
		return false;
	/* As if nothing were shared between containers, each on the biggest GPU: no placement needs
	 * more. */
	for (size_t i = 0; i < d->n_containers; i++) {
		uint64_t each = demand_bytes(&d->containers[i], &pool->biggest);

		if (each > 0 && d->containers[i].amount > (UINT64_MAX - most) / each)
			return false;
		most += each * d->containers[i].amount;
	}
	return pool->own_bytes > most;
}
