// SPDX-License-Identifier: Apache-2.0
// cluster: what a pod's uid holds already, and reviews that are answered from it (rule R1).
#include "webhook/cluster/ledger_kube_impl.h"

/* Lock held. False: none, or a half one (rule R1). */
bool take_find_claim(const struct take *t, struct found *ret)
{
	const struct servers *s = t->l->servers;

	*ret = (struct found){0};
	for (size_t i = 0; i < s->n; i++) {
		const struct held *h = s->entries[i]->held;
		ptrdiff_t at = h ? server_status_claim(&h->object.status, slice_of(t->uid)) : -1;
		const struct claim_record *r;
		struct claim_part *parts;

		if (at < 0)
			continue;
		r = &h->object.status.claims[at];
		parts = arena_array(t->arena, ret->n + r->claim.n_parts, sizeof(*parts));
		if (!parts)
			return false;
		if (ret->n)
			memcpy(parts, ret->parts, ret->n * sizeof(*parts));
		for (size_t k = 0; k < r->claim.n_parts; k++)
			parts[ret->n + k] = (struct claim_part){
				.server = arena_strdup(t->arena, slice_of(h->object.name)),
				.gpu = arena_strdup(t->arena, slice_of(r->claim.parts[k].gpu)),
				.bytes = r->claim.parts[k].bytes};
		ret->parts = parts;
		ret->n += r->claim.n_parts;
		ret->servers++;
		ret->expected = r->n_servers;
	}
	return ret->servers > 0 && ret->servers == ret->expected && !t->arena->failed;
}

/* Servers of the parts, each once: parts of one server stand together. */
static size_t server_names(struct take *t, const struct found *f, const char ***ret)
{
	size_t n = 0;

	*ret = arena_array(t->arena, f->servers, sizeof(**ret));
	for (size_t i = 0; *ret && i < f->n; i++)
		if (n == 0 || strcmp((*ret)[n - 1], f->parts[i].server) != 0)
			(*ret)[n++] = f->parts[i].server;
	return n;
}

/* A second reply is about to rest on the claim: from now on the first review's undo must not end it. */
static enum edit_result retake(
	void *ctx, struct server_object *o, bool again, struct arena *a, struct err *err)
{
	const struct take *t = ctx;
	ptrdiff_t i = server_status_claim(&o->status, slice_of(t->uid));

	(void)again;
	(void)a;
	if (i < 0) {
		err_set(err, ERR_CONFLICT, "the claim of %s ended meanwhile", t->uid);
		return EDIT_GIVE_UP;
	}
	if (o->status.claims[i].take == t->ticket)
		return EDIT_SAME;
	o->status.claims[i].take = t->ticket;
	return EDIT_CHANGED;
}

/* The claim stands already: answer from it, as the one that it rests on now. Lock held, and let go meanwhile. */
int take_answer_from(struct take *t, const struct found *f, int64_t deadline_ms,
	struct claim_answer *ret, struct err *err)
{
	struct servers *s = t->l->servers;
	const char **names;
	size_t n = server_names(t, f, &names);
	int rc = 0;

	if (!names)
		return ledger_no_memory(err);
	*ret = (struct claim_answer){.parts = f->parts, .n_parts = f->n};
	if (t->ask->dry_run)
		return 0;
	(void)pthread_mutex_unlock(&s->lock);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = servers_edit(s, names[i], retake, t, deadline_ms, err);
	(void)pthread_mutex_lock(&s->lock);
	return rc;
}
