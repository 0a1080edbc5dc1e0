/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: claims of gangs, whole or not at all (law W3 of waiting, rule R19). The claim of one member decides for all: it is on the first server by
 * name, stays open until all others are written, and is taken back before them. Who leads next sees by it alone whether they count. */
#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"
#include "webhook/cluster/claims/claims_impl.h"

/* ---- what stands ---- */

/* One that waits, and whose deciding claim is not there. */
struct headless {
	struct claims *c;
	size_t n;
};

static bool see_pod(void *ctx, const struct pod_shown *pod)
{
	struct headless *l = ctx;
	struct holder *h = claims_find(l->c, slice_of(pod->uid));

	if (!h || h->n_records == 0 || !h->gang || pod->seen != POD_LIVE)
		return true;
	h->runs = !pod->waits;
	l->n += pod->waits && h->undecided;
	return true;
}

/* Has somebody of its gang been let go, who was decided about then? */
static bool gang_runs(const struct claims *c, const struct holder *h)
{
	for (size_t i = 0; i < c->n_buckets; i++)
		for (const struct holder *o = c->bucket[i]; o; o = o->next)
			if (o->runs && strcmp(o->gang, h->gang) == 0)
				return true;
	return false;
}

void gang_look(struct claims *c)
{
	struct headless l = {.c = c};
	bool any = false;

	for (size_t i = 0; i < c->n_buckets; i++)
		for (struct holder *h = c->bucket[i]; h; h = h->next) {
			const struct holder *first =
				h->gang ? claims_find(c, slice_of(h->gang)) : NULL;

			if (!h->gang)
				continue;
			h->undecided = !first || first->n_records == 0 || first->open;
			any = any || h->undecided;
		}
	if (!any)
		return;
	pods_each(c->pods, see_pod, &l);
	for (size_t i = 0; l.n > 0 && i < c->n_buckets; i++)
		for (struct holder *h = c->bucket[i]; h; h = h->next)
			if (h->undecided && !h->runs && gang_runs(c, h))
				h->undecided = false;
}

bool gang_count(struct pod_waiting *const *others, size_t n_others, const struct inventory *inv,
	struct queue_pod *pods, size_t n, struct arena *a)
{
	struct queue_member *members = arena_array(a, n_others, sizeof(*members));
	size_t m = 0;

	/* who is being deleted leaves his place */
	for (size_t i = 0; members && i < n_others; i++)
		if (others[i]->pod.gang.at && !others[i]->leaving)
			members[m++] = (struct queue_member){&others[i]->pod, others[i]->ended};
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

/* No two decisions are alike: a leader that stood still must not close what another has opened since. */
static uint64_t new_take(void)
{
	uint64_t take = 0;

	if (getrandom(&take, sizeof(take), 0) != (ssize_t)sizeof(take))
		take = (uint64_t)clock_wall_ms();
	return take ? take : 1;
}

int gang_write(struct adoption **members, size_t n, struct err *err)
{
	uint64_t take = new_take();
	int rc = 0;

	qsort(members, n, sizeof(struct adoption *), by_first_server);
	for (size_t i = 0; i < n && rc >= 0; i++) {
		members[i]->gang = members[0]->who->uid;
		members[i]->take = take;
		members[i]->stays_open = i == 0;
		rc = adopt_write(members[i], err);
	}
	return rc < 0 ? rc : adopt_close(members[0], err);
}

/* ---- take back ---- */

struct taking {
	const struct holder *who;
	const struct record *seen;
};

/* What has been closed since it was seen stays: whoever closed it lets pods go. */
static enum edit_result edit_take_back(
	void *ctx, struct server_object *o, bool again, struct arena *a, struct err *err)
{
	const struct taking *t = ctx;
	ptrdiff_t at = server_status_claim(&o->status, slice_of(t->who->uid));

	(void)a;
	if (at < 0)
		return EDIT_SAME;
	if (again || o->status.claims[at].take != t->seen->take ||
		o->status.claims[at].open != t->seen->open) {
		(void)err_set(err, ERR_CONFLICT, "the status of %s has changed meanwhile", o->name);
		return EDIT_GIVE_UP;
	}
	server_status_remove_claim(&o->status, (size_t)at);
	return EDIT_CHANGED;
}

/* All that it holds, from the first server on. */
static int take_back_one(struct claims *c, const struct holder *h, struct err *err)
{
	const struct picture *p = &c->now;

	for (size_t i = 0; i < p->n_parts; i++)
		for (size_t k = p->parts[i].first; k < p->parts[i].first + p->parts[i].n; k++) {
			struct taking t = {h, &p->records[k]};
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
	int rc = first && first->n_records > 0 && first->gang ? take_back_one(c, first, err) : 0;

	if (rc == 0 && h != first)
		rc = take_back_one(c, h, err);
	if (rc == 0)
		log_line(c->cfg->log, LOG_LEVEL_WARN, "a part of a gang's claims is taken back",
			log_str("uid", h->uid), log_str("namespace", h->namespace),
			log_str("name", h->name));
	return rc;
}
