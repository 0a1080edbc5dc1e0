/* SPDX-License-Identifier: Apache-2.0 */
/* cli: which GPUs would have to give something back before a pod fits. */
#include "webhook/cli/pool_missing.h"

#include <stdlib.h>

static bool selects(const struct inventory *inv, const struct demand *d, const struct gpu_server *s,
	const struct gpu *g)
{
	for (size_t i = 0; i < d->n_filters; i++) {
		const struct filter *f = &d->filters[i];

		if (inventory_knows_filter(inv, f) &&
			!(inventory_server_matches(s, f) && inventory_gpu_matches(g, f)))
			return false;
	}
	return true;
}

/* The container that asks most of one GPU, by the memory of this one. */
static const struct demand_container *largest(const struct demand *d, const struct gpu *g)
{
	const struct demand_container *most = NULL;

	for (size_t i = 0; i < d->n_containers; i++)
		if (!most || demand_bytes(&d->containers[i], g) > demand_bytes(most, g))
			most = &d->containers[i];
	return most;
}

static int by_bytes(const void *a, const void *b)
{
	const struct pool_missing *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	if (x->server != y->server)
		return x->server < y->server ? -1 : 1;
	return (x->gpu > y->gpu) - (x->gpu < y->gpu);
}

struct pool_missing *pool_missing_find(
	const struct inventory *inv, const struct usage *use, const struct demand *d, size_t *ret_n)
{
	struct pool_missing *all = calloc(inv->n_gpus + 1, sizeof(*all));
	const struct demand_container *c = NULL;
	size_t n = 0, lacks = 0;

	*ret_n = 0;
	for (size_t s = 0; all && s < inv->n_servers; s++) {
		const struct gpu_server *at = &inv->servers[s];

		for (size_t i = 0; i < at->n_gpus; i++) {
			const struct gpu *g = &at->gpus[i];
			uint64_t claimed = use->claimed[at->first_gpu + i], need, left;

			c = c ? c : largest(d, g);
			need = c ? demand_bytes(c, g) : 0;
			left = gpu_left(g, claimed);
			if (need && need <= g->bytes && inventory_usable(at, g) &&
				selects(inv, d, at, g))
				all[n++] =
					(struct pool_missing){need > left ? need - left : 0, s, i};
		}
	}
	if (!all || !c || n < c->amount) {
		free(all);
		return NULL;
	}
	qsort(all, n, sizeof(*all), by_bytes);
	/* those that lack nothing stand before those that do */
	for (size_t i = 0; i < c->amount; i++)
		if (all[i].bytes)
			all[lacks++] = all[i];
	*ret_n = lacks;
	return all;
}
