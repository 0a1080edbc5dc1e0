// SPDX-License-Identifier: Apache-2.0
// cluster: the shared ledger's picture, for people and metrics.
#include <stdlib.h>

#include "webhook/cluster/ledger_kube_impl.h"

static int by_pod(const void *a, const void *b)
{
	const struct claim *x = a, *y = b;
	int c = strcmp(x->namespace, y->namespace);

	if (c == 0)
		c = strcmp(x->name, y->name);
	return c ? c : strcmp(x->key, y->key);
}

/* A copy of a server's part of a claim. */
static void copy_claim(
	const struct held *h, const struct claim *c, struct arena *a, struct claim *to)
{
	*to = *c;
	to->key = arena_strdup(a, slice_of(c->key));
	to->namespace = arena_strdup(a, slice_of(c->namespace));
	to->name = arena_strdup(a, slice_of(c->name));
	to->parts = arena_array(a, c->n_parts, sizeof(*to->parts));
	for (size_t i = 0; to->parts && i < c->n_parts; i++)
		to->parts[i] =
			(struct claim_part){.server = arena_strdup(a, slice_of(h->object.name)),
				.gpu = arena_strdup(a, slice_of(c->parts[i].gpu)),
				.bytes = c->parts[i].bytes};
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

static struct claim *list_claims(const struct servers *s, struct arena *a, size_t *ret_n)
{
	struct claim *list;
	size_t n = 0, cap = 0;

	for (size_t i = 0; i < s->n; i++)
		cap += s->entries[i]->held ? s->entries[i]->held->object.status.n_claims : 0;
	list = arena_array(a, cap, sizeof(*list));
	for (size_t i = 0; list && i < s->n; i++) {
		const struct held *h = s->entries[i]->held;

		for (size_t k = 0; h && k < h->object.status.n_claims; k++)
			copy_claim(h, &h->object.status.claims[k].claim, a, &list[n++]);
	}
	if (!list || a->failed)
		return NULL;
	if (n > 1)
		qsort(list, n, sizeof(*list), by_pod);
	*ret_n = merge(list, n, a);
	return list;
}

void kube_count(struct ledger *base, size_t ret[CLAIM_STATES])
{
	struct servers *s = ((struct ledger_kube *)base)->servers;

	memset(ret, 0, CLAIM_STATES * sizeof(*ret));
	(void)pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < s->n; i++) {
		const struct held *h = s->entries[i]->held;

		for (size_t k = 0; h && k < h->object.status.n_claims; k++)
			ret[h->object.status.claims[k].claim.state]++;
	}
	(void)pthread_mutex_unlock(&s->lock);
}

int kube_view(struct ledger *base, bool with_claims, struct arena *a, struct pool_view *ret,
	struct err *err)
{
	struct servers *s = ((struct ledger_kube *)base)->servers;
	struct pool_view v = {0};
	bool judged;
	int rc;

	(void)pthread_mutex_lock(&s->lock);
	judged = servers_judge(s);
	rc = inventory_copy(&s->inv, a, &v.inventory, err);
	v.usage.claimed = arena_copy(a, s->claimed, s->inv.n_gpus, sizeof(*s->claimed));
	v.usage.pending = arena_copy(a, s->pending, s->inv.n_gpus, sizeof(*s->pending));
	v.usage.n_claims = arena_copy(a, s->n_claims, s->inv.n_servers, sizeof(*s->n_claims));
	if (with_claims)
		v.claims = list_claims(s, a, &v.n_claims);
	(void)pthread_mutex_unlock(&s->lock);
	if (rc != 0 || !judged || a->failed)
		return ledger_no_memory(err);
	*ret = v;
	return 0;
}
