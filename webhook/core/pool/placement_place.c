/* SPDX-License-Identifier: Apache-2.0 */
/* core: where one container is placed: the server and the GPUs that fit best, looked for in the
 * room of the pool. */
#include "webhook/core/pool/placement_search.h"

/* Can the slot hold one GPU's part of the container, and how gladly? */
static bool consider(
	const struct search *s, const struct demand_container *c, uint32_t slot, struct choice *ret)
{
	const struct slot *at = &s->slots[slot];
	uint64_t need = search_need(c, at->bytes), room = search_room(s, c, at);

	if (need == 0 || room < need)
		return false;
	*ret = (struct choice){.left = room - need, .slot = slot};
	if (c->kind == CONTAINER_INIT) {
		const struct own *own = &s->owns[at->own];
		uint64_t now = own->early + need;

		ret->growth = at->own == 0 ? need : now > own->peak ? now - own->peak : 0;
	}
	return true;
}

static bool better(const struct choice *a, const struct choice *b)
{
	return a->growth != b->growth ? a->growth < b->growth : a->left < b->left;
}

uint32_t search_choose(struct search *s, const struct demand_container *c, const struct bin *bin,
	uint32_t want, struct choice *out)
{
	uint32_t n = 0;
	uint64_t moves = 0;

	for (uint32_t i = 0; i < bin->n; i++) {
		struct choice ch;
		uint32_t at;

		if (!consider(s, c, bin->first + i, &ch))
			continue;
		if (n == want && !better(&ch, &out[n - 1]))
			continue;
		if (n < want)
			n++;
		for (at = n - 1; at > 0 && better(&ch, &out[at - 1]); at--)
			out[at] = out[at - 1];
		out[at] = ch;
		moves += n - at;
	}
	s->work += bin->n + moves;
	return n;
}

/* How gladly a whole bin is used: the sum over its choices. */
static struct choice sum(
	const struct search *s, const struct bin *bin, const struct choice *ch, uint32_t n)
{
	struct choice total = {0};

	for (uint32_t i = 0; i < n; i++) {
		total.growth += ch[i].growth;
		total.left += ch[i].left;
	}
	if (s->d->whole_servers) {
		/* The rest of the server is gone for others, too: the smallest server fits best. */
		for (uint32_t i = 0; i < bin->n; i++)
			total.left += s->slots[bin->first + i].bytes;
		for (uint32_t i = 0; i < n; i++)
			total.left -= s->slots[ch[i].slot].bytes;
	}
	return total;
}

/* Give the container these slots of the bin. */
static void give(struct search *s, size_t container, struct bin *bin, const struct choice *ch,
	uint32_t n, uint32_t given)
{
	const struct demand_container *c = &s->d->containers[container];

	bin->own = true;
	for (uint32_t i = 0; i < n; i++) {
		struct slot *slot = &s->slots[ch[i].slot];
		uint64_t need = search_need(c, slot->bytes), now;
		struct own *own;

		if (slot->own == 0)
			slot->own = ++s->n_owns;
		own = &s->owns[slot->own];
		if (c->kind == CONTAINER_INIT)
			now = own->early + need;
		else
			now = own->held += need;
		if (now > own->peak)
			own->peak = now;
		s->picks[container][given + i] = ch[i].slot;
	}
}

/* ---- one server, with or without a bin ---- */

/* Where a container is placed best so far. */
struct best {
	bool any, own;
	struct choice score;
	size_t server;
};

/* Is this a better place? At equality the one whose turn comes first is. */
static bool wins(const struct search *s, const struct best *best, bool own,
	const struct choice *score, size_t server)
{
	if (!best->any || score->growth != best->score.growth)
		return !best->any || score->growth < best->score.growth;
	if (s->together && own != best->own)
		return own;
	if (score->left != best->score.left)
		return score->left < best->score.left;
	return search_turn(s, server) < search_turn(s, best->server);
}

static bool rate_bin(struct search *s, const struct demand_container *c, const struct bin *bin,
	struct choice *ret)
{
	if (bin->n < c->amount || search_choose(s, c, bin, c->amount, s->other) < c->amount)
		return false;
	*ret = sum(s, bin, s->other, c->amount);
	return true;
}

/* The servers of a pool are mostly alike: what the last one needed is kept in ret. */
bool search_glance(struct search *s, const struct demand_container *c, size_t server,
	uint64_t *bytes, struct glance *ret)
{
	uint32_t first = s->room.first[server], n = s->room.gpus[server];
	const uint64_t *left = s->room.free + first;

	if (s->room.bytes[server] != *bytes) {
		*bytes = s->room.bytes[server];
		ret->need = *bytes ? search_need(c, *bytes) : 0;
	}
	if (*bytes == 0 ? s->room.most[server] == 0
			: ret->need == 0 || s->room.most[server] < ret->need)
		return false;
	if (!search_open(s, server))
		return false;
	s->work += n;
	ret->fit = *bytes ? 0 : n;
	ret->least = UINT64_MAX;
	ret->most = 0;
	for (uint32_t i = 0; i < n && *bytes; i++) {
		uint64_t rest = left[i] - ret->need;
		bool fits = left[i] >= ret->need;

		ret->fit += fits;
		ret->least = fits && rest < ret->least ? rest : ret->least;
		ret->most = fits && rest > ret->most ? rest : ret->most;
	}
	return ret->fit > 0;
}

/* The same as rate_bin() for a server without one, unless it would not win. */
static bool rate_room(struct search *s, const struct demand_container *c, size_t server,
	const struct glance *g, const struct best *best, struct choice *ret)
{
	enum selected selected;
	bool fits;

	if (g->fit < c->amount)
		return false;
	/* No worse than this, and just this where what is left is equal. */
	*ret = (struct choice){.growth = c->kind == CONTAINER_INIT ? g->need * c->amount : 0,
		.left = g->least * c->amount};
	if (g->need && !wins(s, best, false, ret, server))
		return false;
	selected = search_selected(s, server);
	if (selected == SELECTED_NONE)
		return false;
	if (g->need && selected == SELECTED_ALL && (c->amount == 1 || g->least == g->most))
		return true;
	fits = rate_bin(s, c, search_add_bin(s, server), ret);
	search_drop_bin(s);
	return fits;
}

uint32_t search_count(
	struct search *s, const struct demand_container *c, size_t server, const struct glance *g)
{
	enum selected selected = search_selected(s, server);
	const struct bin *bin;
	uint32_t n;

	if (selected == SELECTED_NONE || (selected == SELECTED_ALL && g->need))
		return selected == SELECTED_NONE ? 0 : g->fit;
	bin = search_add_bin(s, server);
	n = search_choose(s, c, bin, bin->n, s->other);
	search_drop_bin(s);
	return n;
}

void search_give(struct search *s, size_t container, size_t server, uint32_t want, uint32_t given)
{
	struct bin *bin = search_bin(s, server);

	if (!bin)
		bin = search_add_bin(s, server);
	want = search_choose(s, &s->d->containers[container], bin, want, s->best);
	give(s, container, bin, s->best, want, given);
}

/* ---- all servers ---- */

/* What a look at servers knows. */
struct look {
	struct best best;
	struct glance g; /* of the last one */
	uint64_t bytes;
};

/* Is this the best server up to now? It is kept in l->best then. */
static bool keep(
	struct search *s, struct look *l, bool own, const struct choice *score, size_t server)
{
	if (!wins(s, &l->best, own, score, server))
		return false;
	l->best = (struct best){true, own, *score, server};
	return true;
}

/* False: it cannot hold the container, or is no better than l->best. */
static bool look_at(
	struct search *s, const struct demand_container *c, size_t server, struct look *l)
{
	const struct bin *bin = search_bin(s, server);
	struct choice score;

	if (bin ? !rate_bin(s, c, bin, &score)
		: s->listed || !search_glance(s, c, server, &l->bytes, &l->g) ||
				!rate_room(s, c, server, &l->g, &l->best, &score))
		return false;
	return keep(s, l, bin && bin->own, &score, server);
}

/* From this entry on the first of a server with so many bytes that filters may select. NULL: there
 * is none, or the budget is used up. */
static const struct room_entry *selectable(
	struct search *s, const struct room_entry *e, uint64_t bytes, struct room_place *at)
{
	while (e && e->bytes == bytes && search_kind(s, e->server) == SELECTED_NONE)
		e = ++s->work < s->budget ? room_index_next(s->room.index, at) : NULL;
	return e && e->bytes == bytes ? e : NULL;
}

/* Servers without a bin whose GPUs all have so many bytes, the one first that may fit best. */
static void look_at_alike(
	struct search *s, const struct demand_container *c, uint64_t bytes, struct look *l)
{
	const struct room_index *r = s->room.index;
	uint64_t need = search_need(c, bytes), left = need;
	struct choice bound = {.growth = c->kind == CONTAINER_INIT ? need * c->amount : 0}, score;
	const struct room_entry *e;
	struct room_place at;

	if (need == 0 || need > bytes)
		return;
	e = room_index_find(r, bytes, left, 0, &at);
	while ((e = selectable(s, e, bytes, &at))) {
		left = e->free;
		bound.left = (left - need) * c->amount;
		/* those that have just this of a GPU, beginning with the server whose turn is first
		 */
		for (int round = 0; round < 2; round++) {
			e = room_index_find(r, bytes, left, round ? 0 : (uint32_t)s->from, &at);
			for (; e && e->bytes == bytes && e->free == left &&
				(round == 0 || inventory_turn(s->inv, e->server) < s->from);
				e = room_index_next(r, &at)) {
				/* nor does any that comes later */
				if (!wins(s, &l->best, false, &bound, e->server) ||
					++s->work >= s->budget)
					return;
				if ((left == bytes && e->n < c->amount) ||
					search_kind(s, e->server) == SELECTED_NONE ||
					search_bin(s, e->server) ||
					!search_glance(s, c, e->server, &l->bytes, &l->g) ||
					/* it was looked at before */
					l->g.least != left - need ||
					!rate_room(s, c, e->server, &l->g, &l->best, &score) ||
					!keep(s, l, false, &score, e->server))
					continue;
				if (score.left == bound.left)
					return;
			}
		}
		e = room_index_find(r, bytes, ++left, 0, &at);
	}
}

/* The same as a look at every server: where they are few all have a bin. */
static void look_by_index(struct search *s, const struct demand_container *c, struct look *l)
{
	const struct room_index *r = s->room.index;
	const struct room_entry *e;
	struct room_place at;

	for (size_t b = 0; b < s->n_bins; b++)
		(void)look_at(s, c, s->bins[b].server, l);
	if (s->few || c->amount > s->room.widest)
		return;
	e = room_index_find(r, 0, 0, 0, &at);
	for (; e && e->bytes == 0 && s->work < s->budget; e = room_index_next(r, &at))
		if (!search_bin(s, e->server))
			(void)look_at(s, c, e->server, l);
	for (uint64_t bytes = 1; s->work < s->budget; bytes++) {
		s->work++;
		e = room_index_find(r, bytes, 0, 0, &at);
		if (!e)
			break;
		bytes = e->bytes;
		look_at_alike(s, c, bytes, l);
	}
}

static void look_at_all(struct search *s, const struct demand_container *c, struct look *l)
{
	bool done = false;

	s->work += s->span;
	for (size_t i = 0; i < s->span && !done && s->work < s->budget; i++)
		/* nothing fits better */
		done = look_at(s, c, search_server(s, i), l) && l->best.score.growth == 0 &&
		       l->best.score.left == 0 && (l->best.own || !s->together || s->n_owns == 0);
}

/* Find one server that holds the whole container. */
static bool place_on_one(struct search *s, size_t container)
{
	const struct demand_container *c = &s->d->containers[container];
	struct look l = {0};

	(search_by_index(s) || (s->few && s->span == s->inv->n_servers) ? look_by_index
									: look_at_all)(s, c, &l);
	if (!l.best.any || s->work >= s->budget)
		return false;
	search_give(s, container, l.best.server, c->amount, 0);
	return true;
}

bool search_place(struct search *s, size_t container)
{
	uint32_t amount = s->d->containers[container].amount;

	if (amount == 0)
		return true;
	if (amount <= s->inv->n_gpus &&
		(place_on_one(s, container) ||
			(amount > 1 && s->span > 1 && search_spread(s, container))))
		return true;
	s->failed = container;
	return false;
}
