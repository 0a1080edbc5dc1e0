// SPDX-License-Identifier: Apache-2.0
// cluster: the picture of all GPUServers: states in, an inventory and what is taken of it out.
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"
#include "webhook/cluster/servers_impl.h"
#include "webhook/edge/metrics.h"

/* Several commits of another replica; and what a burst of creates takes. */
#define CONTENDED_MS 500
#define SPREAD_MS 10000
#define STALE_WITHOUT_LEADER "nobody leads: its probe is not asked"

/* ---- counting ---- */

static void count_parts(const struct held *h, const struct claim *c, uint64_t *sums)
{
	for (size_t i = 0; i < c->n_parts; i++) {
		ptrdiff_t gpu = server_status_gpu(&h->object.status, slice_of(c->parts[i].gpu));

		if (gpu >= 0 && c->parts[i].bytes <= UINT64_MAX - sums[gpu])
			sums[gpu] += c->parts[i].bytes;
	}
}

/* Does the state hold this claim, from this very take? */
static bool holds(const struct held *h, const struct claim_record *r)
{
	ptrdiff_t i = server_status_claim(&h->object.status, slice_of(r->claim.key));

	return i >= 0 && h->object.status.claims[i].take == r->take;
}

static void index_room(struct servers *s, const struct server_entry *e, bool there)
{
	const struct gpu_server *at = &s->inv.servers[e->index];

	(there ? room_index_add : room_index_remove)(&s->index, (uint32_t)e->index,
		s->gpu_bytes[e->index], s->most_claimed[e->index], s->left_claimed + at->first_gpu,
		at->n_gpus);
}

/* What is free of a server, for searches. known: the index has what was free before. */
static void note_room(struct servers *s, const struct server_entry *e, bool known)
{
	const struct gpu_server *shown = &s->inv.servers[e->index];
	size_t first = shown->first_gpu, n = shown->n_gpus;
	/* up to the second look */
	uint64_t bytes, most, *left = s->left_committed + first;

	room_note(shown, s->claimed + first, &bytes, &most, &s->usable[e->index], left);
	if (!known || bytes != s->gpu_bytes[e->index] ||
		(n && memcmp(left, s->left_claimed + first, n * sizeof(*left)) != 0)) {
		if (known)
			index_room(s, e, false);
		s->gpu_bytes[e->index] = bytes;
		s->most_claimed[e->index] = most;
		if (n)
			memcpy(s->left_claimed + first, left, n * sizeof(*left));
		index_room(s, e, true);
	}
	room_note(shown, s->committed + first, &bytes, &s->most_committed[e->index],
		&s->usable[e->index], left);
}

/* Count what is taken of its GPUs anew. It has its place; known: and had it before. */
static void count(struct servers *s, struct server_entry *e, bool known)
{
	const struct held *h = e->held;
	struct gpu_server *shown;
	size_t first, n;

	shown = &s->inv.servers[e->index];
	first = shown->first_gpu;
	n = h->shown.n_gpus;
	*shown = h->shown;
	shown->first_gpu = first;
	if (e->unreadable || h->object.hearsay)
		shown->drain = true;
	if (n) {
		memset(s->committed + first, 0, n * sizeof(*s->committed));
		memset(s->pending + first, 0, n * sizeof(*s->pending));
	}
	for (size_t i = 0; i < h->object.status.n_claims; i++) {
		const struct claim *c = &h->object.status.claims[i].claim;

		count_parts(h, c, s->committed + first);
		if (c->state == CLAIM_PENDING)
			count_parts(h, c, s->pending + first);
	}
	if (n)
		memcpy(s->claimed + first, s->committed + first, n * sizeof(*s->claimed));
	s->n_claims[e->index] = (uint32_t)h->object.status.n_claims;
	for (const struct reservation *r = e->reserved; r; r = r->next) {
		if (holds(h, r->claim))
			continue;
		count_parts(h, &r->claim->claim, s->claimed + first);
		s->n_claims[e->index]++;
	}
	note_room(s, e, known);
}

/* Does this state take claims on more of its GPUs than that one, which has as many? */
static bool opens(const struct gpu_server *from, const struct gpu_server *to)
{
	for (size_t i = 0; i < to->n_gpus; i++)
		if (inventory_usable(to, &to->gpus[i]) &&
			(!inventory_usable(from, &from->gpus[i]) ||
				to->gpus[i].bytes > from->gpus[i].bytes))
			return true;
	return false;
}

static bool any_less(const uint64_t *now, const uint64_t *before, size_t n)
{
	while (n > 0 && now[n - 1] >= before[n - 1])
		n--;
	return n > 0;
}

void servers_recount(struct servers *s, struct server_entry *e)
{
	uint64_t before[SERVER_GPUS_MAX];
	struct gpu_server was;
	uint32_t n_claims;
	size_t n;

	/* Who has no place is counted when it is given one. */
	if (!e->placed)
		return;
	was = s->inv.servers[e->index];
	n = was.n_gpus < SERVER_GPUS_MAX ? was.n_gpus : SERVER_GPUS_MAX;
	n_claims = s->n_claims[e->index];
	if (n)
		memcpy(before, s->claimed + was.first_gpu, n * sizeof(*before));
	count(s, e, true);
	s->room += s->n_claims[e->index] < n_claims || opens(&was, &s->inv.servers[e->index]) ||
		   any_less(s->claimed + was.first_gpu, before, n);
}

/* Lists of the picture, by server and by GPU. */
#define LISTS 5

static void list_of_servers(struct servers *s, uint64_t **ret[static LISTS])
{
	ret[0] = &s->gpu_bytes;
	ret[1] = &s->most_claimed;
	ret[2] = &s->most_committed;
	ret[3] = ret[4] = NULL;
}

static void list_of_gpus(struct servers *s, uint64_t **ret[static LISTS])
{
	ret[0] = &s->claimed;
	ret[1] = &s->committed;
	ret[2] = &s->pending;
	ret[3] = &s->left_claimed;
	ret[4] = &s->left_committed;
}

/* The list with room for n; out of memory it is what it was, and not ok. */
static void *grown(void *list, size_t n, size_t size, bool *ok)
{
	void *more = reallocarray(list, n, size);

	if (more)
		return more;
	*ok = false;
	return list;
}

/* Room for so many servers and GPUs. */
static bool grow_picture(struct servers *s, size_t servers, size_t gpus)
{
	uint64_t **lists[LISTS];
	bool ok = true;

	/* also the first time that there is none */
	if (servers >= s->cap_servers) {
		size_t cap = servers + servers / 2 + 8;

		s->inv.servers = grown(s->inv.servers, cap, sizeof(*s->inv.servers), &ok);
		s->n_claims = grown(s->n_claims, cap, sizeof(*s->n_claims), &ok);
		s->usable = grown(s->usable, cap, sizeof(*s->usable), &ok);
		s->first = grown(s->first, cap + 1, sizeof(*s->first), &ok);
		list_of_servers(s, lists);
		for (size_t i = 0; i < LISTS && lists[i]; i++)
			*lists[i] = grown(*lists[i], cap, sizeof(**lists[i]), &ok);
		s->cap_servers = ok ? cap : s->cap_servers;
	}
	if (gpus > s->cap_gpus) {
		size_t cap = gpus + gpus / 2 + 64;

		list_of_gpus(s, lists);
		for (size_t i = 0; i < LISTS; i++)
			*lists[i] = grown(*lists[i], cap, sizeof(**lists[i]), &ok);
		s->cap_gpus = ok ? cap : s->cap_gpus;
	}
	return ok;
}

/* A server's place in all lists: its index, and that of its first GPU. */
static void move_to(struct servers *s, struct server_entry *e, size_t index, size_t first)
{
	struct gpu_server *to = &s->inv.servers[index], *from = &s->inv.servers[e->index];
	size_t n = e->held->shown.n_gpus, before = from->first_gpu;
	uint64_t **lists[LISTS];

	if (index != e->index) {
		*to = *from;
		s->n_claims[index] = s->n_claims[e->index];
		s->usable[index] = s->usable[e->index];
		list_of_servers(s, lists);
		for (size_t i = 0; i < LISTS && lists[i]; i++)
			(*lists[i])[index] = (*lists[i])[e->index];
		e->index = index;
	}
	to->first_gpu = first;
	list_of_gpus(s, lists);
	for (size_t i = 0; i < LISTS && n && first != before; i++)
		memmove(*lists[i] + first, *lists[i] + before, n * sizeof(**lists[i]));
}

/* The index as it is after the servers have moved. False: it is empty, and everything is to be added anew. */
static bool renumber(struct servers *s)
{
	uint32_t *to = s->inv.n_servers ? malloc(s->inv.n_servers * sizeof(*to)) : NULL;
	uint32_t at = 0;

	if (!to || s->index.broken) {
		free(to);
		room_index_release(&s->index);
		return false;
	}
	memset(to, 0xff, s->inv.n_servers * sizeof(*to));
	for (size_t i = 0; i < s->n; i++) {
		const struct server_entry *e = s->entries[i];

		if (!e->held)
			continue;
		if (e->placed)
			to[e->index] = at;
		at++;
	}
	room_index_renumber(&s->index, to);
	free(to);
	return true;
}

/* The set of servers or their numbers of GPUs have changed: those that stay close up, then all take their places from the last on, and those
 * that had none are counted. Nothing is counted twice: there may be thousands. */
static bool rebuild(struct servers *s)
{
	size_t servers = 0, gpus = 0, kept = 0, kept_gpus = 0, widest = 0;
	bool indexed;

	for (size_t i = 0; i < s->n; i++)
		if (s->entries[i]->held) {
			size_t n = s->entries[i]->held->shown.n_gpus;

			servers++;
			gpus += n;
			widest = n > widest ? n : widest;
		}
	if (!grow_picture(s, servers, gpus))
		return false;
	indexed = renumber(s);
	for (size_t i = 0; i < s->n; i++) {
		struct server_entry *e = s->entries[i];

		if (!e->placed || !e->held)
			continue;
		move_to(s, e, kept++, kept_gpus);
		kept_gpus += e->held->shown.n_gpus;
	}
	s->inv.n_servers = servers;
	s->inv.n_gpus = gpus;
	s->first[servers] = (uint32_t)gpus;
	for (size_t i = s->n; i-- > 0;) {
		struct server_entry *e = s->entries[i];

		if (!e->held)
			continue;
		gpus -= e->held->shown.n_gpus;
		s->first[--servers] = (uint32_t)gpus;
		if (e->placed) {
			move_to(s, e, servers, gpus);
			if (!indexed)
				index_room(s, e, true);
			continue;
		}
		e->index = servers;
		e->placed = true;
		s->inv.servers[servers].first_gpu = gpus;
		count(s, e, false);
	}
	s->room_claimed = (struct pool_room){s->first, s->gpu_bytes, s->most_claimed,
		s->left_claimed, s->usable, widest, &s->index};
	s->room_committed = (struct pool_room){s->first, s->gpu_bytes, s->most_committed,
		s->left_committed, s->usable, widest, NULL};
	s->shape_due = false;
	return true;
}

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

bool servers_judge(struct servers *s)
{
	bool any, done;

	if (s->shape_due && !rebuild(s))
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
		count(s, s->entries[i], true);
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

bool servers_put(struct servers *s, struct held *h)
{
	struct server_entry *e = servers_find(s, h->object.name);
	struct held *old;
	bool went_back;

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
		if (h->told && old->object.hearsay && same_machine(old, h)) {
			old->object.hearsay = false;
			servers_recount(s, e);
			(void)pthread_cond_broadcast(&s->cond);
		}
		held_free(h);
		return true;
	}
	/* A state from before a restore: what was deleted may be there again, too. */
	h->object.hearsay =
		!h->told && (went_back || !old || old->object.hearsay || !same_machine(old, h));
	mark_leaderless(s, h);
	e->held = h;
	/* The same one: there was no memory for it. */
	if (h->number >= e->unreadable || went_back)
		e->unreadable = 0;
	if (!old || !same_machine(old, h)) {
		change_marks(s, h, true);
		if (old)
			change_marks(s, old, false);
	}
	/* Its sentences are those of the state before. */
	s->twins_due = s->twins_due || (old && old->object.twin);
	if (old && old->shown.n_gpus == h->shown.n_gpus) {
		servers_recount(s, e);
	} else {
		e->placed = false;
		s->shape_due = true;
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
	e->held = NULL;
	e->placed = false;
	s->shape_due = true;
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
	n_claims = arena_copy(a, s->n_claims, s->inv.n_servers, sizeof(*n_claims));
	for (const struct server_entry *e = s->contended; n_claims && e; e = e->next_contended)
		if (e->placed)
			n_claims[e->index] = CLAIMS_PER_SERVER_MAX;
	return n_claims;
}

void servers_set_leaderless(struct servers *s, bool yes)
{
	(void)pthread_mutex_lock(&s->lock);
	if (s->leaderless != yes) {
		s->leaderless = yes;
		s->room++;
		for (size_t i = 0; i < s->n; i++) {
			struct held *h = s->entries[i]->held;

			if (!h || !h->shown.probe_url)
				continue;
			if (yes)
				mark_leaderless(s, h);
			else
				server_object_verdicts(&h->object, &h->shown);
			servers_recount(s, s->entries[i]);
		}
		(void)pthread_cond_broadcast(&s->cond);
	}
	(void)pthread_mutex_unlock(&s->lock);
}
