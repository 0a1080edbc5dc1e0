/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: claims of gangs, whole or not at all (law W3 of waiting, rule R19). The claim of one
 * member decides for all: it is on the first server by name, stays open until all others are
 * written, and is taken back before them. Who leads next sees by it alone whether they count. Once
 * it is decided each claim is settled, to stand by itself, and that one last: only then its pod may
 * be let go, and nothing of it is taken back. */
#include <stdlib.h>

#include "base/clock.h"
#include "webhook/cluster/claims/claims_impl.h"

/* ---- what stands ---- */

static bool decides(const struct holder *h)
{
	return h->gang && strcmp(h->gang, h->uid) == 0;
}

/* Who follows another now decides nothing any more: a leader that stood still has written one more
 * of what the next one has taken back, and decided anew. But a part of that, beside the claim that
 * decides, takes nothing from it; nor makes another part of it, whose first is taken back, a
 * decision. Of a claim that is settled on one of its servers the decision is past, whatever names
 * a gang beside it. */
bool gang_is_decided(const struct claims *c, const char *gang)
{
	const struct holder *first = gang ? claims_find(c, slice_of(gang)) : NULL;

	if (!first || first->n_records == 0)
		return !gang;
	return first->begun ? first->closed || first->settled : !first->gang && !first->open;
}

/* Of a claim that is settled on one of its servers somebody has seen the decision, whatever has
 * become of who made it. */
void gang_look(struct claims *c)
{
	for (size_t i = 0; i < c->now.n_records; i++) {
		const struct record *r = &c->now.records[i];
		struct holder *first = r->gang ? claims_find(c, slice_of(r->gang)) : NULL;

		if (first && first != r->who)
			first->n_follow++;
		if (gang_is_decided(c, r->gang) || (r->who->settled && holder_complete(r->who)))
			continue;
		r->who->undecided = true;
		r->who->gang = r->gang;
	}
}

/* What somebody who waits no more is to his gang. False: nothing. */
static bool find_member(
	const struct claims *c, const struct pod_waiting *w, struct queue_member *ret)
{
	struct holder *h = claims_find(c, w->pod.uid);
	bool holds = h && h->n_records > 0;

	*ret = (struct queue_member){.pod = &w->pod, .ended = w->ended, .leaving = w->leaving};
	if (!w->pod.gang.at)
		return false;
	if (holds && !w->ended) {
		ret->began = h->began;
		h->seated = true;
	}
	/* who is being deleted leaves his place with his claim, not when he is told to go (R6) */
	return !w->leaving || (holds && !w->ended);
}

/* Whose pods have ended or are gone, as by force, while their claims stand (R13); not what this
 * round has ended, which is free for others already. */
static size_t find_gone(const struct claims *c, struct queue_member *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_buckets; i++)
		for (const struct holder *h = c->bucket[i]; h; h = h->next)
			if (h->n_records > 0 && h->began.key && !h->seated && h->act != CLAIM_END)
				ret[n++] = (struct queue_member){.began = h->began,
					.namespace = slice_of(h->namespace),
					.bytes = h->bytes};
	return n;
}

bool gang_count(struct claims *c, struct pod_waiting *const *others, size_t n_others,
	const struct inventory *inv, struct queue_pod *pods, size_t n, struct arena *a)
{
	size_t most = n_others + c->now.n_seats, m = 0;
	struct queue_member *members = arena_array(a, most, sizeof(*members));

	for (size_t i = 0; members && i < n_others; i++)
		m += find_member(c, others[i], &members[m]);
	if (members && c->now.n_seats)
		m += find_gone(c, members + m);
	if (members)
		queue_count_gangs(inv, pods, n, members, m);
	return members != NULL;
}

/* ---- write ---- */

/* By the first server of each, whose names are sorted in the inventory; of these by uid. */
static int by_first_server(const void *a, const void *b)
{
	const struct adoption *const *x = a, *const *y = b;
	size_t first = (*x)->where.servers[0], second = (*y)->where.servers[0];

	return first != second ? (first > second) - (first < second)
			       : strcmp((*x)->who->uid, (*y)->who->uid);
}

int gang_write(struct adoption **members, size_t n, struct err *err)
{
	uint64_t raised;
	int rc = claims_raise(members, n, &raised, err);
	uint64_t take = raised ? raised : accounts_new_take();

	qsort(members, n, sizeof(struct adoption *), by_first_server);
	for (size_t i = 0; i < n && rc >= 0; i++) {
		members[i]->gang = members[0]->who->uid;
		members[i]->take = take;
		members[i]->stays_open = i == 0;
		rc = adopt_write(members[i], err);
	}
	if (rc >= 0)
		rc = adopt_close(members[0], err);
	claims_raised(members, n, raised);
	return rc;
}

/* ---- take back ---- */

struct taking {
	const struct holder *who;
	const struct record *seen;
	const char *gang;
};

/* What has been closed or settled since it was seen stays: whoever did that lets pods go. A record
 * that names no gang, or another one, is none of this decision's: it is left as well. */
static enum edit_result edit_take_back(
	void *ctx, struct server_object *o, bool again, struct arena *a, struct err *err)
{
	const struct taking *t = ctx;
	struct slice uid = slice_of(t->who->uid);
	ptrdiff_t at = server_status_claim(&o->status, uid);
	const struct claim_record *r = at < 0 ? NULL : &o->status.claims[at];

	(void)a;
	if (!r)
		return EDIT_SAME;
	if (again || r->take != t->seen->take || r->open != t->seen->open ||
		(!r->gang && (t->seen->gang || slice_is(uid, t->gang)))) {
		(void)err_set(err, ERR_CONFLICT, "the status of %s has changed meanwhile", o->name);
		return EDIT_GIVE_UP;
	}
	if (!r->gang || strcmp(r->gang, t->gang) != 0)
		return EDIT_SAME;
	server_status_remove_claim(&o->status, (size_t)at);
	return EDIT_CHANGED;
}

/* All that it holds of this gang's claims, from the first server on. */
static int take_back_one(
	struct claims *c, const struct holder *h, const char *gang, struct err *err)
{
	const struct picture *p = &c->now;

	for (size_t i = 0; i < p->n_parts; i++)
		for (size_t k = p->parts[i].first; k < p->parts[i].first + p->parts[i].n; k++) {
			struct taking t = {h, &p->records[k], gang};
			int rc;

			if (p->records[k].who != h)
				continue;
			rc = servers_edit(c->cfg->servers, p->parts[i].name, edit_take_back, &t,
				clock_ms() + CLAIMS_CALL_MS, err);
			if (rc < 0 && rc != ERR_NOTFOUND)
				return rc;
		}
	return 0;
}

int gang_take_back(struct claims *c, const struct holder *h, struct err *err)
{
	const struct holder *first = claims_find(c, slice_of(h->gang));
	int rc = first && first->n_records > 0 && first->begun
			 ? take_back_one(c, first, h->gang, err)
			 : 0;

	if (rc == 0 && h != first)
		rc = take_back_one(c, h, h->gang, err);
	if (rc == 0)
		log_line(c->cfg->log, LOG_LEVEL_WARN, "a part of a gang's claims is taken back",
			log_str("uid", h->uid), log_str("namespace", h->namespace),
			log_str("name", h->name));
	return rc;
}

/* ---- settle ---- */

struct settling {
	struct claims *c;
	struct holder **who;
	size_t n;
};

/* What another leader has begun in its place since it was seen is not decided. */
static enum edit_result edit_settle(
	void *ctx, struct server_object *o, bool again, struct arena *a, struct err *err)
{
	const struct record *seen = ctx;
	ptrdiff_t at = server_status_claim(&o->status, slice_of(seen->who->uid));
	struct claim_record *r = at < 0 ? NULL : &o->status.claims[at];

	(void)again;
	(void)a;
	(void)err;
	if (!r || !r->gang || !seen->gang || r->take != seen->take ||
		strcmp(r->gang, seen->gang) != 0)
		return EDIT_SAME;
	r->gang = NULL;
	return EDIT_CHANGED;
}

static void settle_one(void *ctx, size_t i)
{
	struct settling *s = ctx;
	const struct picture *p = &s->c->now;
	struct err err = {0};

	for (size_t k = 0; k < p->n_parts && !duty_stopping(s->c->self); k++)
		for (size_t r = p->parts[k].first; r < p->parts[k].first + p->parts[k].n; r++)
			if (p->records[r].who == s->who[i])
				(void)servers_edit(s->c->cfg->servers, p->parts[k].name,
					edit_settle, &p->records[r], clock_ms() + CLAIMS_CALL_MS,
					&err);
}

/* Those that decide, once nobody follows them any more; or the others. True: there were some. */
static bool settle(struct claims *c, bool those_that_decide)
{
	struct settling s = {.c = c};
	struct arena a;

	arena_init(&a, c->n_holders * sizeof(struct holder *) + 4096);
	s.who = arena_array(&a, c->n_holders, sizeof(struct holder *));
	for (size_t i = 0; s.who && i < c->n_buckets; i++)
		for (struct holder *h = c->bucket[i]; h; h = h->next)
			if (h->gang && !h->undecided && holder_complete(h) &&
				decides(h) == those_that_decide &&
				(!those_that_decide || h->n_follow == 0))
				s.who[s.n++] = h;
	run_side_by_side(s.n, settle_one, &s);
	arena_release(&a);
	return s.n > 0;
}

bool gang_settle(struct claims *c)
{
	return (!settle(c, false) || claims_look(c)) && (!settle(c, true) || claims_look(c));
}
