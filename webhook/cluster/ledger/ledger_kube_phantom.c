/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what a namespace may hold whose pods were let in and never came (rule R12): a
 * ResourceQuota, another hook or a name that exists refuses them behind us. */
#include "webhook/cluster/ledger/ledger_kube_impl.h"

#define BYTES_PER_MB 1000000u

/* What a namespace holds for pods that nobody has seen. Sums saturate. */
struct pending {
	uint64_t bytes;
	size_t parts;
};

static uint64_t plus(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static void add_claim(const struct take *t, const struct claim *c, struct pending *to)
{
	if (c->state != CLAIM_PENDING || strcmp(c->namespace, t->namespace) != 0 ||
		strcmp(c->key, t->uid) == 0)
		return;
	to->parts++;
	for (size_t i = 0; i < c->n_parts; i++)
		to->bytes = plus(to->bytes, c->parts[i].bytes);
}

/* Those that this replica is about to commit count, too. */
static struct pending count_pending(const struct take *t)
{
	const struct servers *s = t->l->servers;
	struct pending sum = {0};

	for (size_t i = 0; i < s->n; i++) {
		const struct server_entry *e = s->entries[i];
		const struct server_status *status = e->held ? &e->held->object.status : NULL;

		for (size_t k = 0; status && k < status->n_claims; k++)
			add_claim(t, &status->claims[k].claim, &sum);
		for (const struct reservation *r = e->reserved; r; r = r->next)
			if (!status ||
				server_status_claim(status, slice_of(r->claim->claim.key)) < 0)
				add_claim(t, &r->claim->claim, &sum);
	}
	return sum;
}

static uint64_t pool_bytes(const struct inventory *inv)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < inv->n_servers; i++) {
		const struct gpu_server *at = &inv->servers[inventory_nth(inv, i)];

		for (size_t k = 0; k < at->n_gpus; k++)
			if (inventory_usable(at, &at->gpus[k]))
				sum = plus(sum, at->gpus[k].bytes);
	}
	return sum;
}

bool take_is_phantom(const struct take *t, uint64_t bytes, struct err *err)
{
	const struct servers *s = t->l->servers;
	struct pending held;
	uint64_t most;

	if (t->l->pending_share >= 100 || !servers_phantom(s, slice_of(t->namespace)))
		return false;
	held = count_pending(t);
	most = pool_bytes(&s->inv) / 100 * t->l->pending_share;
	if (held.parts == 0 || plus(held.bytes, bytes) <= most)
		return false;
	(void)err_reason(err, ERR_REFUSED, "TooManyPending",
		"pods of namespace %s that were let in never came, so for ten minutes it may hold "
		"at most %llu MB (%u %% of the pool) for pods that are not stored yet: it holds "
		"%llu MB, and this pod asks for %llu MB; find what refuses its pods (a "
		"ResourceQuota, another webhook, a name that exists), and create the pod again in "
		"a minute",
		t->namespace, (unsigned long long)(most / BYTES_PER_MB), t->l->pending_share,
		(unsigned long long)(held.bytes / BYTES_PER_MB),
		(unsigned long long)(bytes / BYTES_PER_MB));
	return true;
}
