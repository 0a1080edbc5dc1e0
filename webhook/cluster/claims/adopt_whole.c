/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: see adopt_whole.h. */
#include "webhook/cluster/claims/adopt_whole.h"

#include "webhook/cluster/claims/claims_impl.h"

/* The lists of servers in the pod's records, and where each stands. */
struct lists {
	struct slice uid;
	struct arena *a;
	struct claim_on *on;
	size_t n, cap;
};

static bool copy_list(void *ctx, const struct server_object *o)
{
	struct lists *l = ctx;
	struct arena *a = l->a;
	ptrdiff_t at = server_status_claim(&o->status, l->uid);
	const struct claim_record *r;
	struct claim_record *copy;

	if (at < 0 || l->n == l->cap)
		return true;
	r = &o->status.claims[at];
	copy = arena_alloc(a, sizeof(*copy));
	if (!copy)
		return false;
	copy->claim.state = r->claim.state;
	copy->open = r->open;
	copy->gang = r->gang ? arena_strdup(a, slice_of(r->gang)) : NULL;
	copy->n_servers = r->n_servers;
	copy->servers = arena_array(a, r->n_servers, sizeof(char *));
	for (size_t i = 0; copy->servers && i < r->n_servers; i++)
		copy->servers[i] = arena_strdup(a, slice_of(r->servers[i]));
	l->on[l->n++] = (struct claim_on){arena_strdup(a, slice_of(o->name)), copy, false};
	return !a->failed;
}

/* Is it on just those servers that its pod was told (carrier.h)? */
static bool was_told(const struct demand *d, const struct claim_record *r)
{
	if (r->n_servers != d->n_servers)
		return false;
	for (size_t i = 0; i < r->n_servers; i++)
		if (!slice_is(d->servers[i], r->servers[i]))
			return false;
	return true;
}

/* By its own word it needs nobody else: it is settled, or decides, and then others may follow it.
 */
static bool is_own(const struct claim_record *r, struct slice uid)
{
	return !r->gang || slice_is(uid, r->gang);
}

/* What a review promised goes before what another leader gave, and what the pod was seen to live
 * with before what nobody has: that may be the write of a review that has given it up, which lands
 * late and is about to be taken back. */
static int stands(enum claim_state state)
{
	return state == CLAIM_BOUND ? 2 : state == CLAIM_PENDING;
}

/* What the pod was told goes before all else, then what counts, of that what others may follow
 * before what follows another. */
static int worth(const struct claims *c, const struct lists *l, const struct demand *d,
	const struct claim_record *r)
{
	return was_told(d, r) * 16 + gang_is_decided(c, r->gang) * 8 + is_own(r, l->uid) * 4 +
	       stands(r->claim.state);
}

bool adopt_whole(struct servers *s, const struct claims *c, struct slice uid, size_t n_records,
	const struct demand *d, struct arena *a, const char ***ret_servers, size_t *ret_n)
{
	struct lists l = {.uid = uid,
		.a = a,
		.on = arena_array(a, n_records, sizeof(struct claim_on)),
		.cap = n_records};
	const struct claim_record *best = NULL;

	if (!l.on)
		return false;
	servers_each(s, copy_list, &l);
	for (size_t i = 0; i < l.n && !a->failed; i++)
		if (claim_is_whole(l.on, l.n, l.on[i].record) &&
			(!best || worth(c, &l, d, l.on[i].record) > worth(c, &l, d, best)))
			best = l.on[i].record;
	if (!best)
		return false;
	*ret_servers = best->servers;
	*ret_n = best->n_servers;
	return true;
}
