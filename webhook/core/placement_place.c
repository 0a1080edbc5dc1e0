/* SPDX-License-Identifier: Apache-2.0 */
/* core: where one container is placed: the server and the GPUs that fit best, looked for in the room of the pool. */
#include "webhook/core/placement_search.h"

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

/* The best choices of a bin for the container, at most want, best first; at equality the earlier GPU. */
static uint32_t choose(struct search *s, const struct demand_container *c, const struct bin *bin,
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

/* Is this a better place? At equality the one that was found first stays. */
static bool wins(
	const struct search *s, const struct best *best, bool own, const struct choice *score)
{
	if (!best->any || score->growth != best->score.growth)
		return !best->any || score->growth < best->score.growth;
	if (s->together && own != best->own)
		return own;
	return score->left < best->score.left;
}

static bool rate_bin(struct search *s, const struct demand_container *c, const struct bin *bin,
	struct choice *ret)
{
	if (bin->n < c->amount || choose(s, c, bin, c->amount, s->other) < c->amount)
		return false;
	*ret = sum(s, bin, s->other, c->amount);
	return true;
}

/* GPUs of a server without a bin that have room, as far as can be told without its filters. */
struct glance {
	uint64_t need;        /* of each; 0: they are not of one size */
	uint64_t least, most; /* that would be left of one */
	uint32_t fit;         /* so many have room */
};

/* False: none has. The servers of a pool are mostly alike: what the last one needed is kept in ret. */
static bool glance(struct search *s, const struct demand_container *c, size_t server,
	uint64_t *bytes, struct glance *ret)
{
	uint32_t first = s->room.first[server], n = s->room.first[server + 1] - first;
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
	if (g->need && !wins(s, best, false, ret))
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

/* How many GPUs of the server can hold the container. */
static uint32_t count_room(
	struct search *s, const struct demand_container *c, size_t server, const struct glance *g)
{
	enum selected selected = search_selected(s, server);
	const struct bin *bin;
	uint32_t n;

	if (selected == SELECTED_NONE || (selected == SELECTED_ALL && g->need))
		return selected == SELECTED_NONE ? 0 : g->fit;
	bin = search_add_bin(s, server);
	n = choose(s, c, bin, bin->n, s->other);
	search_drop_bin(s);
	return n;
}

/* Give the container so many GPUs of that server, the best. */
static void give_best(
	struct search *s, size_t container, size_t server, uint32_t want, uint32_t given)
{
	struct bin *bin = search_bin(s, server);

	if (!bin)
		bin = search_add_bin(s, server);
	want = choose(s, &s->d->containers[container], bin, want, s->best);
	give(s, container, bin, s->best, want, given);
}

/* ---- all servers ---- */

/* Find one server that holds the whole container. */
static bool place_on_one(struct search *s, size_t container)
{
	const struct demand_container *c = &s->d->containers[container];
	struct best best = {0};
	struct glance g = {0};
	uint64_t bytes = 0;
	bool done = false;

	s->work += s->span;
	for (size_t i = 0; i < s->span && !done && s->work < SEARCH_WORK_MAX; i++) {
		size_t server = search_server(s, i);
		const struct bin *bin = search_bin(s, server);
		bool own = bin && bin->own;
		struct choice score;

		if (bin ? !rate_bin(s, c, bin, &score)
			: s->listed || !glance(s, c, server, &bytes, &g) ||
					!rate_room(s, c, server, &g, &best, &score))
			continue;
		if (!wins(s, &best, own, &score))
			continue;
		best = (struct best){true, own, score, server};
		/* Nothing fits better. */
		done = score.growth == 0 && score.left == 0 &&
		       (own || !s->together || s->n_owns == 0);
	}
	if (!best.any || s->work >= SEARCH_WORK_MAX)
		return false;
	give_best(s, container, best.server, c->amount, 0);
	return true;
}

/* The server that spread() takes next: one that this pod uses already, where it is kept together; then the one that holds most;
 * of equals the first. SIZE_MAX: there is none. */
static size_t widest(struct search *s)
{
	size_t found = SIZE_MAX;
	bool found_own = false;

	s->work += s->span;
	for (size_t i = 0; i < s->span; i++) {
		size_t server = search_server(s, i);
		const struct bin *bin = search_bin(s, server);
		bool own = s->together && bin && bin->own;

		if (s->rooms[server] == 0)
			continue;
		if (found != SIZE_MAX &&
			(own != found_own ? !own : s->rooms[server] <= s->rooms[found]))
			continue;
		found = server;
		found_own = own;
	}
	return found;
}

/* Over several servers, as few as can be: each part of a claim is a commit of its own in a cluster. */
static bool spread(struct search *s, size_t container)
{
	const struct demand_container *c = &s->d->containers[container];
	struct glance g = {0};
	uint32_t given = 0;
	uint64_t room = 0, bytes = 0;

	s->work += s->span;
	for (size_t i = 0; i < s->span && s->work < SEARCH_WORK_MAX; i++) {
		size_t server = search_server(s, i);
		const struct bin *bin = search_bin(s, server);

		s->rooms[server] = 0;
		if (bin)
			s->rooms[server] = choose(s, c, bin, bin->n, s->other);
		else if (!s->listed && glance(s, c, server, &bytes, &g))
			s->rooms[server] = count_room(s, c, server, &g);
		room += s->rooms[server];
	}
	/* Give nothing unless all can be given: a refusal speaks of what is free. */
	if (room < c->amount)
		return false;
	while (given < c->amount) {
		size_t server = s->work < SEARCH_WORK_MAX ? widest(s) : SIZE_MAX;
		uint32_t n;

		if (server == SIZE_MAX)
			return false; /* the budget is used up: the slots were counted */
		n = s->rooms[server];
		n = n < c->amount - given ? n : c->amount - given;
		give_best(s, container, server, n, given);
		s->rooms[server] = 0;
		given += n;
	}
	return true;
}

bool search_place(struct search *s, size_t container)
{
	uint32_t amount = s->d->containers[container].amount;

	if (amount == 0)
		return true;
	if (amount <= s->inv->n_gpus &&
		(place_on_one(s, container) || (amount > 1 && s->span > 1 && spread(s, container))))
		return true;
	s->failed = container;
	return false;
}
