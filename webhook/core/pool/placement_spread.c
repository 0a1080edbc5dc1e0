/* SPDX-License-Identifier: Apache-2.0 */
/* core: where a container is placed that no server holds alone. */
#include "webhook/core/pool/placement_search.h"

/* How many GPUs of each server can hold the container, into s->rooms; and of all together. */
static uint64_t count_rooms(struct search *s, const struct demand_container *c)
{
	struct glance g = {0};
	uint64_t sum = 0, bytes = 0;

	s->work += s->span;
	for (size_t i = 0; i < s->span && s->work < s->budget; i++) {
		size_t server = search_server(s, i);
		const struct bin *bin = search_bin(s, server);

		s->rooms[server] = 0;
		if (bin)
			s->rooms[server] = search_choose(s, c, bin, bin->n, s->other);
		else if (!s->listed && search_glance(s, c, server, &bytes, &g))
			s->rooms[server] = search_count(s, c, server, &g);
		sum += s->rooms[server];
	}
	return sum;
}

/* How many GPUs of an entry of the index, which has room, can hold the container. Where a filter
 * may take some of a server's GPUs alone its first entry stands for all. */
static uint32_t count_entry(
	struct search *s, const struct demand_container *c, const struct room_entry *e)
{
	enum selected selected = search_kind(s, e->server);
	uint64_t bytes = 0;
	struct glance g;

	if (selected == SELECTED_NONE || (selected == SELECTED_SOME && s->rooms[e->server]) ||
		!search_open(s, e->server))
		return 0;
	if (selected == SELECTED_ALL)
		return e->n;
	return search_glance(s, c, e->server, &bytes, &g) ? search_count(s, c, e->server, &g) : 0;
}

/* The same, where an index is kept, and kinds where filters ask what a GPU is. */
static uint64_t count_rooms_by_index(struct search *s, const struct demand_container *c)
{
	const struct room_index *r = s->room.index;
	const struct room_entry *e;
	struct room_place at;
	struct glance g = {0};
	uint64_t sum = 0, bytes = 0;

	memset(s->rooms, 0, inventory_places(s->inv) * sizeof(*s->rooms));
	for (size_t b = 0; b < s->n_bins; b++) {
		const struct bin *bin = &s->bins[b];

		sum += s->rooms[bin->server] = search_choose(s, c, bin, bin->n, s->other);
	}
	e = room_index_find(r, 0, 0, 0, &at);
	while (e && s->work < s->budget) {
		uint64_t need = search_need(c, e->bytes);

		s->work++;
		if (e->bytes == 0) {
			if (!search_bin(s, e->server) && search_glance(s, c, e->server, &bytes, &g))
				sum += s->rooms[e->server] = search_count(s, c, e->server, &g);
		} else if (need == 0 || need > e->bytes) {
			e = room_index_find(r, e->bytes + 1, 0, 0, &at);
			continue;
		} else if (e->free < need) {
			e = room_index_find(r, e->bytes, need, 0, &at);
			continue;
		} else if (!search_bin(s, e->server)) {
			uint32_t n = count_entry(s, c, e);

			sum += n;
			s->rooms[e->server] += n;
		}
		e = room_index_next(r, &at);
	}
	return sum;
}

/* How far the choice of the next server has come: those with so many rooms are taken, up to here.
 */
struct widest {
	uint32_t rooms, next;
	size_t at;
};

/* The server that search_spread() takes next: one that this pod uses already, where it is kept
 * together; then the one that holds most; of equals the first. SIZE_MAX: there is none. */
static size_t widest(struct search *s, struct widest *w)
{
	size_t found = SIZE_MAX;

	s->work += s->n_bins + 1;
	for (size_t b = 0; b < s->n_bins && s->together; b++) {
		size_t server = s->bins[b].server;
		uint32_t more = found == SIZE_MAX ? 0 : s->rooms[found];

		if (s->bins[b].own &&
			(s->rooms[server] > more ||
				(more && s->rooms[server] == more &&
					search_turn(s, server) < search_turn(s, found))))
			found = server;
	}
	if (found != SIZE_MAX)
		return found;
	while (w->rooms > 0) {
		for (; w->at < s->span; w->at++) {
			uint32_t rooms = s->rooms[search_server(s, w->at)];

			if (rooms == w->rooms)
				return search_server(s, w->at);
			if (rooms < w->rooms && rooms > w->next)
				w->next = rooms;
		}
		*w = (struct widest){.rooms = w->next};
		s->work += s->span;
	}
	return SIZE_MAX;
}

bool search_spread(struct search *s, size_t container)
{
	const struct demand_container *c = &s->d->containers[container];
	struct widest w = {.rooms = UINT32_MAX};
	uint32_t given = 0;
	uint64_t room =
		(search_by_index(s) && (!search_filters(s) || s->inv->kind) ? count_rooms_by_index
									    : count_rooms)(s, c);

	/* Give nothing unless all can be given: a refusal speaks of what is free. */
	if (room < c->amount || s->work >= s->budget)
		return false;
	while (given < c->amount) {
		size_t server = s->work < s->budget ? widest(s, &w) : SIZE_MAX;
		uint32_t n;

		if (server == SIZE_MAX)
			return false; /* the budget is used up: the slots were counted */
		n = s->rooms[server];
		n = n < c->amount - given ? n : c->amount - given;
		search_give(s, container, server, n, given);
		s->rooms[server] = 0;
		given += n;
	}
	return true;
}
