/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what a pod's uid holds already: reviews that are answered from it (rule R1), and what
 * two reviews of one uid leave behind. */
#include "base/clock.h"
#include "base/list.h"
#include "webhook/cluster/ledger/ledger_kube_impl.h"

/* A half claim of somebody else is most likely about to become whole: so long a review waits for
 * that, at most half of its time. */
#define HALF_WAIT_MS 2000

/* ---- looking ---- */

bool take_find(struct take *t, struct take_held *ret)
{
	const struct servers *s = t->l->servers;
	size_t n = 0;

	*ret = (struct take_held){0};
	/* As with almost every review. */
	if (uid_set_count(&s->uids, slice_of(t->uid)) == 0)
		return true;
	*ret = (struct take_held){.parts = arena_array(&t->scratch, s->n, sizeof(*ret->parts))};
	if (!ret->parts)
		return false;
	for (size_t i = 0; i < s->n; i++) {
		const struct held *h = s->entries[i]->held;
		ptrdiff_t at = h ? server_status_claim(&h->object.status, slice_of(t->uid)) : -1;

		if (at < 0)
			continue;
		ret->parts[n] = (struct claim_on){
			.server = arena_strdup(t->arena, slice_of(h->object.name)),
			.record = &h->object.status.claims[at]};
		ret->parts[n].left = ret->parts[n].record->take != t->ticket &&
				     take_is_mine(t, ret->parts[n].record->take);
		n++;
	}
	ret->n = n;
	if (t->arena->failed)
		return false;
	/* Servers are in the order of their names, so of two whole claims everybody finds the same
	 * one first. */
	for (size_t i = 0; i < n && !ret->whole; i++)
		if (claim_is_whole(ret->parts, n, ret->parts[i].record))
			ret->whole = ret->parts[i].record;
	return true;
}

/* Is it one of the claim that is whole? */
static bool is_of_whole(const struct take_held *f, const struct claim_on *p)
{
	return f->whole && !p->left && claim_record_same_servers(f->whole, p->record);
}

static bool among(const uint64_t *list, size_t n, uint64_t ticket)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == ticket)
			return true;
	return false;
}

bool take_wrote(struct take *t)
{
	if (!LIST_ROOM_IN(t->arena, t->mine, t->n_mine, t->cap_mine))
		return false;
	t->mine[t->n_mine++] = t->ticket;
	return true;
}

/* ---- half claims ---- */

bool take_is_mine(const struct take *t, uint64_t ticket)
{
	return among(t->mine, t->n_mine, ticket);
}

bool take_may_replace(const struct take *t, uint64_t ticket)
{
	for (size_t i = 0; i < t->n_old; i++)
		if (t->old[i].take == ticket)
			return true;
	return false;
}

/* Was this part, or one of the same take, there at the last look? Not where its owner has made the
 * claim whole since: a picture whose first server is newer than another shows as broken what is
 * whole, so that a list that begins now has to say it. */
static bool seen_before(const struct old_part *old, size_t n, const struct old_part *now)
{
	bool found = false;

	for (size_t i = 0; i < n; i++) {
		if (old[i].take != now->take)
			continue;
		if (old[i].open != now->open && strcmp(old[i].server, now->server) == 0)
			return false;
		found = true;
	}
	return found;
}

static bool is_head(const struct claim_record *r, const char *server)
{
	return r->n_servers > 1 && strcmp(r->servers[0], server) == 0;
}

bool take_may_replace_on(const struct take *t, const char *server, const struct claim_record *r)
{
	if (!is_head(r, server))
		return take_may_replace(t, r->take);
	for (size_t i = 0; i < t->n_old; i++)
		if (t->old[i].take == r->take && strcmp(t->old[i].server, server) == 0)
			return r->open || !t->old[i].open;
	return false;
}

/* A picture that lags shows as half what is whole by now, and somebody's "allowed" rests on that.
 */
static int look_afresh(struct take *t, int64_t deadline_ms, struct err *err)
{
	struct servers *s = t->l->servers;
	int rc;

	t->half_fresh = true;
	(void)pthread_mutex_unlock(&s->lock);
	rc = servers_refresh(s, deadline_ms, err);
	(void)pthread_mutex_lock(&s->lock);
	return rc == 0 || rc == ERR_NOMEM ? rc : ledger_away(err);
}

int take_half(struct take *t, const struct take_held *f, int64_t deadline_ms, bool *ret_wait,
	struct err *err)
{
	int64_t now = clock_ms(), wait = HALF_WAIT_MS;
	const struct old_part *before = t->old;
	size_t n_before = t->n_old;
	bool foreign = false, anew = false;

	*ret_wait = false;
	t->half = f->n > 0;
	t->n_old = 0;
	t->old = arena_array(t->arena, f->n, sizeof(*t->old));
	if (!t->old)
		return ledger_no_memory(err);
	for (size_t i = 0; i < f->n; i++) {
		const struct claim_on *p = &f->parts[i];
		uint64_t take = p->record->take;

		t->old[t->n_old] = (struct old_part){.server = p->server,
			.take = take,
			.head = is_head(p->record, p->server),
			.open = p->record->open};
		foreign = foreign || !take_is_mine(t, take);
		anew = anew ||
		       !(take_is_mine(t, take) || seen_before(before, n_before, &t->old[t->n_old]));
		t->n_old++;
	}
	if (!foreign || t->ask->dry_run)
		return 0;
	/* Its owner is at work, or somebody else is. */
	if (anew) {
		t->half_ms = 0;
		t->half_fresh = false;
	}
	if (t->half_ms == 0) {
		t->half_ms = now;
		t->half_until_ms =
			now + (deadline_ms - now < 2 * wait ? (deadline_ms - now) / 2 : wait);
	}
	*ret_wait = true;
	if (now < t->half_until_ms) {
		t->list = 0;
		(void)servers_wait(t->l->servers, t->half_until_ms);
	} else if (!t->half_fresh) {
		return look_afresh(t, deadline_ms, err);
	} else {
		*ret_wait = false;
	}
	return 0;
}

/* ---- answers ---- */

struct retake {
	const struct take *t;
	const struct claim_record *like;
	uint64_t seen; /* the take of this part, when the claim was found to be whole */
	bool ended;    /* the claim is not whole any more */
};

/* A second reply is about to rest on the claim: from now on the first review's undo must not end
 * it. Rule R19: another take since then may be of a claim in its place, over the same servers,
 * whose first part is open still. */
static enum edit_result retake(
	void *ctx, struct server_object *o, bool again, struct arena *a, struct err *err)
{
	struct retake *r = ctx;
	ptrdiff_t i = server_status_claim(&o->status, slice_of(r->t->uid));

	(void)again;
	(void)a;
	r->ended = i < 0 || o->status.claims[i].open ||
		   !claim_record_same_servers(&o->status.claims[i], r->like);
	if (r->ended) {
		err_set(err, ERR_CONFLICT, "the claim of %s ended meanwhile", r->t->uid);
		return EDIT_GIVE_UP;
	}
	if (o->status.claims[i].take == r->t->ticket)
		return EDIT_SAME;
	if (o->status.claims[i].take != r->seen) {
		err_set(err, ERR_CONFLICT, "another review of the pod was in between");
		return EDIT_GIVE_UP;
	}
	o->status.claims[i].take = r->t->ticket;
	return EDIT_CHANGED;
}

/* What the claim holds, copied. */
static bool copy_parts(const struct take *t, const struct take_held *f, struct claim_answer *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++)
		n += is_of_whole(f, &f->parts[i]) ? f->parts[i].record->claim.n_parts : 0;
	*ret = (struct claim_answer){.parts = arena_array(t->arena, n, sizeof(*ret->parts))};
	if (!ret->parts)
		return false;
	for (size_t i = 0; i < f->n; i++) {
		const struct claim *c = &f->parts[i].record->claim;
		bool whole = is_of_whole(f, &f->parts[i]);

		for (size_t k = 0; whole && k < c->n_parts; k++)
			ret->parts[ret->n_parts++] =
				(struct claim_part){.server = f->parts[i].server,
					.gpu = arena_strdup(t->arena, slice_of(c->parts[k].gpu)),
					.bytes = c->parts[k].bytes};
	}
	return !t->arena->failed;
}

/* The list of servers of the whole claim, copied. */
static bool copy_list(const struct take *t, const struct take_held *f, struct claim_record *ret)
{
	const struct claim_record *from = f->whole;

	*ret = (struct claim_record){.n_servers = from->n_servers,
		.servers = arena_array(t->arena, from->n_servers, sizeof(char *))};
	for (size_t i = 0; ret->servers && i < from->n_servers; i++)
		ret->servers[i] = arena_strdup(t->arena, slice_of(from->servers[i]));
	return ret->servers && !t->arena->failed;
}

/* The takes of its parts, in the order of that list. NULL: out of memory. */
static const uint64_t *copy_takes(
	const struct take *t, const struct take_held *f, const struct claim_record *list)
{
	uint64_t *takes = arena_array(t->arena, list->n_servers, sizeof(*takes));

	for (size_t i = 0; takes && i < list->n_servers; i++)
		for (size_t k = 0; k < f->n; k++)
			if (is_of_whole(f, &f->parts[k]) &&
				strcmp(f->parts[k].server, list->servers[i]) == 0)
				takes[i] = f->parts[k].record->take;
	return takes;
}

int take_answer_from(struct take *t, const struct take_held *f, int64_t deadline_ms,
	struct claim_answer *ret, struct err *err)
{
	struct servers *s = t->l->servers;
	struct claim_record like;
	struct retake r = {.t = t, .like = &like};
	const uint64_t *takes;
	size_t n = 0;
	int rc = 0;

	if (!copy_parts(t, f, ret) || !copy_list(t, f, &like))
		return ledger_no_memory(err);
	if (t->ask->dry_run)
		return 0;
	takes = copy_takes(t, f, &like);
	if (!takes || !take_wrote(t))
		return ledger_no_memory(err);
	t->list = 0;
	(void)pthread_mutex_unlock(&s->lock);
	for (; rc == 0 && n < like.n_servers; n++) {
		r.seen = takes[n];
		rc = servers_edit(s, like.servers[n], retake, &r, deadline_ms, err);
	}
	(void)pthread_mutex_lock(&s->lock);
	/* No reply rests on what is left of it, which bears our take now. */
	if (rc == ERR_NOTFOUND || (rc == ERR_CONFLICT && r.ended))
		while (n-- > 1)
			take_back_later(t->l, t->uid, t->ticket, like.servers[n - 1], 0);
	/* It stands, and none of it is this review's. */
	else if (rc == ERR_CONFLICT)
		t->n_mine--;
	return rc;
}

/* ---- what a take leaves behind ---- */

/* Is what the picture shows first as whole just what this take has written? */
static bool is_this_take(const struct take *t, const struct take_held *f)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++)
		if (is_of_whole(f, &f->parts[i])) {
			if (f->parts[i].record->take != t->ticket)
				return false;
			n++;
		}
	return n == t->n;
}

/* The same, without looking everywhere: it stands, and uid holds nothing else. */
static bool stands_alone(const struct take *t)
{
	const struct servers *s = t->l->servers;

	if (uid_set_count(&s->uids, slice_of(t->uid)) != t->n)
		return false;
	for (size_t i = 0; i < t->n; i++) {
		const struct server_entry *e = servers_find(s, t->records[i].servers[i]);
		const struct server_status *status = e && e->held ? &e->held->object.status : NULL;
		ptrdiff_t at = status ? server_status_claim(status, slice_of(t->uid)) : -1;

		if (at < 0 || status->claims[at].take != t->ticket)
			return false;
	}
	return true;
}

bool take_settle(struct take *t, bool *ret_shared)
{
	struct take_held f;

	*ret_shared = false;
	if (stands_alone(t))
		return true;
	if (!take_find(t, &f))
		return true;
	if (!is_this_take(t, &f))
		return false;
	for (size_t i = 0; i < f.n; i++) {
		const struct claim_on *p = &f.parts[i];

		if (is_of_whole(&f, p))
			continue;
		/* Another whole claim comes after ours, for its owner too; what was half for long
		 * has no owner any more. What is half since a moment ago is on its way: its owner
		 * will find ours. */
		if (claim_is_whole(f.parts, f.n, p->record) || take_may_replace(t, p->record->take))
			take_back_later(t->l, t->uid, p->record->take, p->server, 0);
		*ret_shared = *ret_shared || !take_is_mine(t, p->record->take);
	}
	return true;
}
