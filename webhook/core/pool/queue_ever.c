/* SPDX-License-Identifier: Apache-2.0 */
/* core: could the pool ever hold what a pod asks (law W2)? Asked by every review of a pod that
 * waits: mostly a few servers say it already. */
#include "webhook/core/pool/queue.h"
#include "webhook/core/pool/queue_impl.h"

/* Nearly every pod fits on so many, or on no number of them. */
#define FEW 32

/* Some servers from all over the pool, as its servers of one kind have names that begin alike.
 * Nothing of them is copied. */
static struct inventory some_servers(const struct inventory *inv, struct arena *a)
{
	struct inventory few = {.servers = arena_array(a, FEW, sizeof(*few.servers))};

	for (size_t i = 0; few.servers && i < FEW; i++) {
		const struct gpu_server *s =
			&inv->servers[inventory_nth(inv, i * inv->n_servers / FEW)];

		few.servers[few.n_servers] = *s;
		few.servers[few.n_servers++].first_gpu = few.n_gpus;
		few.n_gpus += s->n_gpus;
	}
	return few;
}

bool queue_few_hold(const struct inventory *inv, const struct demand *d, struct arena *a)
{
	struct inventory few, empty;
	struct placement where;
	struct usage use;

	/* What a filter means is a matter of the whole pool. */
	if (inv->n_servers <= FEW || d->n_filters > 0)
		return false;
	few = some_servers(inv, a);
	return few.servers && queue_empty_pool(&few, a, &empty, &use) == 0 &&
	       placement_find(&empty, &use, d, a, &where, NULL) == 0;
}

int queue_could_ever(
	const struct inventory *inv, const struct demand *d, struct arena *a, struct err *err)
{
	struct inventory empty;
	struct placement where;
	struct usage use;

	if (queue_few_hold(inv, d, a))
		return 0;
	if (queue_empty_pool(inv, a, &empty, &use) != 0)
		return err_set(err, ERR_NOMEM, "out of memory while looking for GPUs");
	return placement_find(&empty, &use, d, a, &where, err);
}
