/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: see adopt_place.h. */
#include "webhook/cluster/claims/adopt_place.h"

int adopt_pool_read(struct servers *s, struct slice uid, struct arena *a, struct adopt_pool *ret,
	struct err *err)
{
	struct pool_view v;
	int rc = servers_view_for(s, uid, a, &v, err);

	if (rc != 0)
		return rc;
	*ret = (struct adopt_pool){
		.inventory = v.inventory, .claimed = v.usage.claimed, .n_claims = v.usage.n_claims};
	/* Claims must be there before the server is opened, and launchers and gates, as a drain,
	 * are for new pods. */
	for (size_t i = 0; i < v.inventory.n_servers; i++) {
		v.inventory.servers[i].n_launchers = 0;
		v.inventory.servers[i].guarded = true;
		v.inventory.servers[i].gate_by = GATE_BY_ANY;
	}
	for (size_t i = 0; i < v.n_claims; i++)
		for (size_t k = 0; k < v.claims[i].n_parts; k++) {
			const struct claim_part *part = &v.claims[i].parts[k];
			const struct gpu_server *on =
				inventory_server(&v.inventory, slice_of(part->server));
			const struct gpu *g = on ? inventory_gpu(on, slice_of(part->gpu)) : NULL;

			ret->own_bytes += part->bytes;
			if (g && g->bytes > ret->biggest.bytes)
				ret->biggest = *g;
		}
	return 0;
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
