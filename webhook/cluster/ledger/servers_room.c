// SPDX-License-Identifier: Apache-2.0
// cluster: each server's place in the picture, and what is taken and free of its GPUs there.
#include <stdlib.h>

#include "webhook/cluster/ledger/servers_impl.h"

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

void servers_count(struct servers *s, struct server_entry *e, bool known)
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
	servers_count(s, e, true);
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

bool servers_rebuild(struct servers *s)
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
		servers_count(s, e, false);
	}
	s->room_claimed = (struct pool_room){s->first, s->gpu_bytes, s->most_claimed,
		s->left_claimed, s->usable, widest, &s->index};
	s->room_committed = (struct pool_room){s->first, s->gpu_bytes, s->most_committed,
		s->left_committed, s->usable, widest, NULL};
	s->shape_due = false;
	return true;
}
