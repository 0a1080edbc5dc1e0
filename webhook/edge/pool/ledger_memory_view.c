/* SPDX-License-Identifier: Apache-2.0 */
/* edge: what the ledger of a single process tells of its claims. */
#include <string.h>

#include "webhook/edge/pool/ledger_memory_impl.h"

void memory_count(struct ledger *l, size_t ret[CLAIM_STATES])
{
	struct ledger_memory *m = (struct ledger_memory *)l;

	memset(ret, 0, CLAIM_STATES * sizeof(*ret));
	pthread_mutex_lock(&m->lock);
	memory_expire(m);
	memory_presume_started(m);
	for (const struct claim_entry *e = m->claims.oldest; e; e = e->newer)
		ret[e->claim.state]++;
	pthread_mutex_unlock(&m->lock);
}

int memory_view(
	struct ledger *l, bool with_claims, struct arena *a, struct pool_view *ret, struct err *err)
{
	struct ledger_memory *m = (struct ledger_memory *)l;
	struct pool_view v = {0};
	const struct snapshot *s;
	int rc;

	pthread_mutex_lock(&m->lock);
	memory_expire(m);
	memory_presume_started(m);
	s = m->now;
	rc = inventory_copy(&s->inv, a, &v.inventory, err);
	v.usage.claimed = arena_copy(a, s->claimed, s->inv.n_gpus, sizeof(*s->claimed));
	v.usage.pending = arena_copy(a, s->pending, s->inv.n_gpus, sizeof(*s->pending));
	v.usage.n_claims =
		arena_copy(a, s->server_claims, s->inv.n_servers, sizeof(*s->server_claims));
	if (with_claims) {
		v.claims = claim_table_list(&m->claims, a);
		v.n_claims = m->claims.n;
	}
	pthread_mutex_unlock(&m->lock);
	if (rc != 0 || a->failed)
		return memory_lacks_room(err);
	*ret = v;
	return 0;
}
