/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the picture of all GPUServers: states in, an inventory and what is taken of it out. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"
#include "webhook/cluster/ledger/servers_impl.h"
#include "webhook/edge/metrics/metrics.h"

/* Several commits of another replica; and what a burst of creates takes. */
#define CONTENDED_MS 500
#define SPREAD_MS 10000
#define STALE_WITHOUT_LEADER "nobody leads: its probe is not asked"

/* Without a leader nobody asks the probes: what they said last is no longer known. */
static void mark_leaderless(const struct servers *s, struct held *h)
{
	if (!s->leaderless || !h->shown.probe_url)
		return;
	for (size_t i = 0; i < h->shown.n_gpus; i++) {
		h->shown.gpus[i].fresh = false;
		h->shown.gpus[i].why = STALE_WITHOUT_LEADER;
	}
}

/* ---- rule R15 ---- */

static bool same(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

/* Do both states have what tells machines from each other, and the same age? */
static bool same_machine(const struct held *from, const struct held *to)
{
	bool yes = same(from->object.uid, to->object.uid) &&
		   same(from->shown.address, to->shown.address) &&
		   from->shown.created_ms == to->shown.created_ms &&
		   from->shown.n_gpus == to->shown.n_gpus;

	for (size_t i = 0; yes && i < to->shown.n_gpus; i++)
		yes = same(from->shown.gpus[i].id, to->shown.gpus[i].id) &&
		      same(from->shown.gpus[i].parent, to->shown.gpus[i].parent);
	return yes;
}

static void add_mark(void *set, struct slice key)
{
	uid_set_add(set, key);
}

static void remove_mark(void *set, struct slice key)
{
	uid_set_remove(set, key);
}

struct shared {
	const struct uid_set *marks;
	bool any;
};

static void look_mark(void *ctx, struct slice key)
{
	struct shared *sh = ctx;

	sh->any = sh->any || uid_set_count(sh->marks, key) > 1;
}

/* The marks of a state come or go. As long as none is there twice, no server can have a twin. */
static void change_marks(struct servers *s, const struct held *h, bool there)
{
	struct shared sh = {.marks = &s->marks};
	bool all;

	all = !there || inventory_each_mark(&h->shown, add_mark, &s->marks);
	all = all && inventory_each_mark(&h->shown, look_mark, &sh);
	all = all && (there || inventory_each_mark(&h->shown, remove_mark, &s->marks));
	if (!all) {
		/* from now on it says that all are shared */
		uid_set_release(&s->marks);
		s->marks.blind = true;
	}
	s->twins_due = s->twins_due || sh.any || s->marks.blind;
}

/* Those that were not given a place for want of memory. */
static bool place_all(struct servers *s)
{
	bool all = true;

	for (size_t i = 0; i < s->n; i++) {
		struct server_entry *e = s->entries[i];

		all = (!e->held || e->placed || servers_place(s, e)) && all;
	}
	s->place_due = !all;
	return all;
}

bool servers_judge(struct servers *s)
{
	bool any, done;

	if (s->place_due && !place_all(s))
		return false;
	if (!s->twins_due)
		return true;
	arena_reset(&s->twins);
	done = inventory_find_twins(&s->inv, &s->twins, &any, NULL) == 0;
	for (size_t i = 0; i < s->n; i++) {
		struct held *h = s->entries[i]->held;
		const char *twin = h ? s->inv.servers[s->entries[i]->index].twin : NULL;

		if (!h || (!twin && !h->object.twin))
			continue;
		s->room += !twin;
		h->shown.twin = twin;
		server_object_set_twins(&h->object, &h->shown);
		mark_leaderless(s, h);
		servers_count(s, s->entries[i], true);
	}
	s->twins_due = !done;
	return done;
}

/* "namespace/name"; names of pods are short, and what is cut counts more often than it should. */
static struct slice full_name(const char *namespace, const char *name, char to[static 512])
{
	int n = snprintf(to, 512, "%s/%s", namespace ? namespace : "", name ? name : "");

	return (struct slice){to, n < 512 ? (size_t)n : 511};
}

uint32_t servers_name_holds(const struct servers *s, const char *namespace, const char *name)
{
	char text[512];

	return uid_set_count(&s->names, full_name(namespace, name, text));
}

bool servers_phantom(const struct servers *s, struct slice namespace)
{
	if (uid_set_count(&s->phantoms, namespace) == 0)
		return false;
	for (size_t i = 0; i < s->n; i++) {
		const struct held *h = s->entries[i]->held;

		for (size_t k = 0; h && k < h->object.status.n_phantoms; k++)
			if (slice_is(namespace, h->object.status.phantoms[k].namespace))
				return true;
	}
	return false;
}

/* The claims of one state are not there any more, those of another are. Either may be NULL. */
static void count_uids(struct servers *s, const struct held *from, const struct held *to)
{
	char text[512];

	for (size_t i = 0; to && i < to->object.status.n_claims; i++) {
		const struct claim *c = &to->object.status.claims[i].claim;

		uid_set_add(&s->uids, slice_of(c->key));
		uid_set_add(&s->names, full_name(c->namespace, c->name, text));
	}
	for (size_t i = 0; from && i < from->object.status.n_claims; i++) {
		const struct claim *c = &from->object.status.claims[i].claim;

		uid_set_remove(&s->uids, slice_of(c->key));
		uid_set_remove(&s->names, full_name(c->namespace, c->name, text));
	}
	for (size_t i = 0; to && i < to->object.status.n_phantoms; i++)
		uid_set_add(&s->phantoms, slice_of(to->object.status.phantoms[i].namespace));
	for (size_t i = 0; from && i < from->object.status.n_phantoms; i++)
		uid_set_remove(&s->phantoms, slice_of(from->object.status.phantoms[i].namespace));
	metric_set(s->metrics, M_PHANTOMS, 0, 0, (int64_t)s->phantoms.n);
}

/* What is known of it is about to change. */
static void note_known(const struct servers *s, struct server_entry *e)
{
	for (size_t i = 0; i < SERVER_LISTS; i++)
		if (e->known[i].list != s->lists[i])
			e->known[i] = (struct known_before){s->lists[i], entry_number(e)};
}

bool servers_put(struct servers *s, struct held *h)
{
	struct server_entry *e = servers_find(s, h->object.name);
	/* by the watch as things happened, or by a list that has come in */
	bool shown = h->told || h->listed, went_back;
	struct held *old;

	if (!e)
		e = servers_add(s, h->object.name);
	if (!e) {
		held_free(h);
		return false;
	}
	old = e->held;
	/* Rule R16. */
	went_back = old && h->number < old->number && h->known == old->number;
	if (old && h->number <= old->number && !went_back) {
		bool same_one = old->object.hearsay && same_machine(old, h);

		if (same_one && h->listed)
			old->listed = h->listed;
		if (same_one && h->told) {
			old->object.hearsay = false;
			servers_recount(s, e);
			(void)pthread_cond_broadcast(&s->cond);
		}
		if (shown && e->ahead) {
			servers_show(s, e, h);
			(void)pthread_cond_broadcast(&s->cond);
		}
		held_free(h);
		return true;
	}
	/* A state from before a restore: what was deleted may be there again, too. */
	h->object.hearsay =
		!h->told && (went_back || !old || old->object.hearsay || !same_machine(old, h));
	if (h->object.hearsay && h->listed != s->lists[LIST_REVIEWS])
		s->list_owed = s->lists[LIST_REVIEWS] + 1;
	if (old && !h->listed && same_machine(old, h))
		h->listed = old->listed;
	mark_leaderless(s, h);
	note_known(s, e);
	e->held = h;
	/* The same one: there was no memory for it. */
	if (h->number >= e->unreadable || went_back)
		e->unreadable = 0;
	/* What is shown from now on counts from lower versions. */
	if (went_back)
		e->base = 0;
	if (!old || !same_machine(old, h)) {
		change_marks(s, h, true);
		if (old)
			change_marks(s, old, false);
	}
	/* Its sentences are those of the state before. */
	s->twins_due = s->twins_due || (old && old->object.twin);
	if (old && e->placed && old->shown.n_gpus == h->shown.n_gpus) {
		servers_set_ahead(s, e, !shown);
		servers_recount(s, e);
	} else {
		servers_unplace(s, e);
		s->place_due = !servers_place(s, e) || s->place_due;
		s->room++;
	}
	count_uids(s, old, h);
	held_free(old);
	(void)pthread_cond_broadcast(&s->cond);
	return true;
}

void servers_put_unreadable(struct servers *s, const char *name, uint64_t number)
{
	struct server_entry *e = servers_find(s, name);

	if (!e || number <= e->unreadable || (e->held && number <= e->held->number))
		return;
	e->unreadable = number;
	servers_recount(s, e);
	(void)pthread_cond_broadcast(&s->cond);
}

void servers_drop(struct servers *s, struct server_entry *e)
{
	struct held *old = e->held;

	if (!old)
		return;
	note_known(s, e);
	servers_unplace(s, e);
	e->held = NULL;
	s->room++;
	change_marks(s, old, false);
	count_uids(s, old, NULL);
	held_free(old);
	(void)pthread_cond_broadcast(&s->cond);
}

struct usage servers_usage(const struct servers *s, bool with_reserved)
{
	bool spread = s->spread_until_ms && clock_ms() < s->spread_until_ms;

	return (struct usage){.claimed = with_reserved ? s->claimed : s->committed,
		.pending = s->pending,
		.n_claims = s->n_claims,
		.room = with_reserved ? &s->room_claimed : &s->room_committed,
		.first = spread && s->inv.n_servers ? s->random % s->inv.n_servers : 0};
}

void servers_contended(struct servers *s, struct server_entry *e)
{
	int64_t now = clock_ms();

	if (e->contended_until_ms == 0) {
		e->next_contended = s->contended;
		s->contended = e;
	}
	e->contended_until_ms = now + CONTENDED_MS;
	s->spread_until_ms = now + SPREAD_MS;
	if (getrandom(&s->random, sizeof(s->random), 0) != (ssize_t)sizeof(s->random))
		s->random++;
}

uint32_t *servers_elsewhere(struct servers *s, struct arena *a)
{
	int64_t now = s->contended ? clock_ms() : 0;
	uint32_t *n_claims;

	for (struct server_entry **at = &s->contended, *e; (e = *at);)
		if (now < e->contended_until_ms) {
			at = &e->next_contended;
		} else {
			e->contended_until_ms = 0;
			*at = e->next_contended;
		}
	if (!s->contended || s->inv.n_servers == 0)
		return NULL;
	n_claims = arena_copy(a, s->n_claims, s->inv.places, sizeof(*n_claims));
	for (const struct server_entry *e = s->contended; n_claims && e; e = e->next_contended)
		if (e->placed)
			n_claims[e->index] = CLAIMS_PER_SERVER_MAX;
	return n_claims;
}

void servers_set_leaderless(struct servers *s, bool yes)
{
	size_t work = 0;

	(void)pthread_mutex_lock(&s->lock);
	if (s->leaderless != yes) {
		s->leaderless = yes;
		for (size_t i = 0; i < s->n; i++) {
			struct held *h = s->entries[i]->held;

			if (!h || !h->shown.probe_url)
				continue;
			if (yes)
				mark_leaderless(s, h);
			else
				server_object_verdicts(&h->object, &h->shown);
			servers_recount(s, s->entries[i]);
			i = servers_breathe(s, i, &work);
		}
		s->room++;
		(void)pthread_cond_broadcast(&s->cond);
	}
	(void)pthread_mutex_unlock(&s->lock);
}

bool servers_unreadable(const struct servers *s, const char *name)
{
	const struct server_entry *e = servers_find(s, name);

	return e && e->unreadable;
}

uint64_t servers_version(struct servers *s, const char *name)
{
	const struct server_entry *e;
	uint64_t number;

	(void)pthread_mutex_lock(&s->lock);
	e = servers_find(s, name);
	number = e ? entry_number(e) : 0;
	(void)pthread_mutex_unlock(&s->lock);
	return number;
}
