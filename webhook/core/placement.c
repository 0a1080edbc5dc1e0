/* SPDX-License-Identifier: Apache-2.0 */
/* core: the greedy search for GPUs that can hold a pod. */
#include "webhook/core/placement_search.h"

/* Greedy passes before a pod of several containers is refused. Of 7560 pods over random small pools that an exact search
 * places, one pass misses 215, three 75, four 57, twenty 56. */
#define ATTEMPTS_MAX 4

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

/* Find one server that holds the whole container. */
static bool place_on_one(struct search *s, size_t container)
{
	const struct demand_container *c = &s->d->containers[container];
	struct choice score = {0};
	struct bin *found = NULL;

	s->work += s->n_bins;
	for (size_t b = 0; b < s->n_bins && s->work < SEARCH_WORK_MAX; b++) {
		struct bin *bin = search_bin(s, b);
		struct choice total, *swap;
		bool wins;

		if (bin->n < c->amount || choose(s, c, bin, c->amount, s->other) < c->amount)
			continue;
		total = sum(s, bin, s->other, c->amount);
		if (!found || total.growth != score.growth)
			wins = !found || total.growth < score.growth;
		else if (s->together && bin->own != found->own)
			wins = bin->own;
		else
			wins = total.left < score.left;
		if (!wins)
			continue;
		found = bin;
		score = total;
		swap = s->best;
		s->best = s->other;
		s->other = swap;
	}
	if (!found || s->work >= SEARCH_WORK_MAX)
		return false;
	give(s, container, found, s->best, c->amount, 0);
	return true;
}

/* The bin that spread() takes next: one that this pod uses already, where it is kept together; then the one that holds most;
 * of equals the first. */
static struct bin *widest(struct search *s)
{
	struct bin *found = NULL;

	s->work += s->n_bins;
	for (size_t b = 0; b < s->n_bins; b++) {
		struct bin *bin = search_bin(s, b);

		if (bin->room == 0)
			continue;
		if (!found || (s->together && bin->own && !found->own) ||
			(bin->room > found->room && (!s->together || bin->own == found->own)))
			found = bin;
	}
	return found;
}

/* Over several servers, as few as can be: each part of a claim is a commit of its own in a cluster. */
static bool spread(struct search *s, size_t container)
{
	const struct demand_container *c = &s->d->containers[container];
	uint32_t given = 0;
	uint64_t room = 0;

	for (size_t b = 0; b < s->n_bins && s->work < SEARCH_WORK_MAX; b++) {
		s->bins[b].room = choose(s, c, &s->bins[b], s->bins[b].n, s->other);
		room += s->bins[b].room;
	}
	/* Give nothing unless all can be given: a refusal speaks of what is free. */
	if (room < c->amount)
		return false;
	while (given < c->amount) {
		struct bin *bin = s->work < SEARCH_WORK_MAX ? widest(s) : NULL;
		uint32_t n;

		if (!bin)
			return false; /* the budget is used up: the slots were counted */
		n = choose(s, c, bin, c->amount - given < bin->n ? c->amount - given : bin->n,
			s->best);
		give(s, container, bin, s->best, n, given);
		bin->room = 0;
		given += n;
	}
	return true;
}

static bool place(struct search *s, size_t container)
{
	uint32_t amount = s->d->containers[container].amount;

	if (amount == 0)
		return true;
	if (amount <= s->n_slots &&
		(place_on_one(s, container) || (s->n_bins > 1 && spread(s, container))))
		return true;
	s->failed = container;
	return false;
}

/* One greedy pass over all containers. */
static bool attempt(struct search *s)
{
	for (size_t i = 0; i < s->n_order; i++)
		if (!place(s, s->order[i]))
			return false;
	for (size_t c = 0; c < s->d->n_containers; c++) {
		const struct demand_container *d = &s->d->containers[c];

		if (d->kind == CONTAINER_INIT && !place(s, c))
			return false;
		if (d->kind != CONTAINER_RESTARTABLE)
			continue;
		/* From here on it runs beside every later init container. */
		for (uint32_t i = 0; i < d->amount; i++) {
			const struct slot *slot = &s->slots[s->picks[c][i]];

			s->owns[slot->own].early += search_need(d, slot->bytes);
		}
	}
	return true;
}

/* Has the server of this index in the inventory, which orders the bins, a bin? */
static bool has_bin(const struct search *s, size_t server)
{
	size_t lo = 0, hi = s->n_bins;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->bins[mid].server < server)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < s->n_bins && s->bins[lo].server == server;
}

/* Are the named servers, if they are to be taken whole, all there? */
static bool named_whole(struct search *s)
{
	s->taken_server = s->d->n_servers;
	if (!s->d->whole_servers)
		return true;
	for (size_t i = 0; i < s->d->n_servers; i++) {
		const struct gpu_server *server = inventory_server(s->inv, s->d->servers[i]);

		if (!server || !has_bin(s, (size_t)(server - s->inv->servers))) {
			s->taken_server = i;
			return false;
		}
	}
	return true;
}

/* The container that found no place is placed first the next time. False when it was. */
static bool failed_first(struct search *s)
{
	size_t at = 0;

	while (at < s->n_order && s->order[at] != s->failed)
		at++;
	if (at == 0 || at == s->n_order)
		return false;
	for (; at > 0; at--)
		s->order[at] = s->order[at - 1];
	s->order[0] = s->failed;
	return true;
}

/* Some passes, each learning from the one before. */
static bool try_hard(struct search *s)
{
	s->together = true;
	if (attempt(s))
		return true;
	s->concluded = s->concluded || s->work < SEARCH_WORK_MAX;
	/* Keeping a pod together may have spent what a later container needs, and so may the order. */
	for (int i = 1; i < ATTEMPTS_MAX && s->d->n_containers > 1 && s->work < SEARCH_WORK_MAX;
		i++) {
		s->together = false;
		search_forget(s);
		if (attempt(s))
			return true;
		if (!failed_first(s))
			return false;
	}
	return false;
}

/* Is the pod spread although it must not be? */
static bool is_split(const struct search *s)
{
	size_t n = 0;

	for (size_t b = 0; s->d->one_server && b < s->n_bins; b++)
		n += s->bins[b].own;
	return n > 1;
}

/* The first server that holds the whole pod. */
static bool all_on_one(struct search *s)
{
	struct bin *bins = s->bins;
	size_t n_bins = s->n_bins, first = s->first_bin;
	bool found = false;

	search_forget(s);
	s->n_bins = 1;
	s->first_bin = 0;
	for (size_t b = 0; b < n_bins && !found && s->work < SEARCH_WORK_MAX; b++) {
		s->bins = &bins[(first + b) % n_bins];
		found = try_hard(s);
		if (!found)
			search_forget(s);
	}
	s->bins = bins;
	s->n_bins = n_bins;
	s->first_bin = first;
	s->split = !found && s->work < SEARCH_WORK_MAX;
	return found;
}

static bool search_run(struct search *s)
{
	if (!named_whole(s) || !try_hard(s))
		return false;
	return !is_split(s) || all_on_one(s);
}

/* The holds of a bin into the placement. */
static void hold_bin(const struct search *s, const struct bin *bin, struct placement *ret)
{
	const struct gpu_server *server = &s->inv->servers[bin->server];

	for (size_t i = 0; s->d->whole_servers && i < server->n_gpus; i++)
		if (!server->gpus[i].missing)
			ret->holds[ret->n_holds++] = (struct hold){
				.server = bin->server, .gpu = i, .bytes = server->gpus[i].bytes};
	for (uint32_t i = 0; !s->d->whole_servers && i < bin->n; i++) {
		const struct slot *slot = &s->slots[bin->first + i];

		if (slot->own)
			ret->holds[ret->n_holds++] = (struct hold){.server = bin->server,
				.gpu = slot->gpu,
				.bytes = s->owns[slot->own].peak};
	}
}

/* Is the bin part of the outcome? Servers that are named and whole are visible to the pod, used or not. */
static bool bin_used(const struct search *s, const struct bin *bin)
{
	return bin->own || (s->d->whole_servers && s->d->n_servers);
}

static int search_result(const struct search *s, struct arena *a, struct placement *ret)
{
	struct placement p = {0};
	size_t n_holds = 0, n_servers = 0;

	for (size_t b = 0; b < s->n_bins; b++) {
		if (!bin_used(s, &s->bins[b]))
			continue;
		n_servers++;
		n_holds += s->d->whole_servers ? s->inv->servers[s->bins[b].server].n_gpus
					       : s->bins[b].n;
	}
	p.holds = arena_array(a, n_holds, sizeof(*p.holds));
	p.servers = arena_array(a, n_servers, sizeof(*p.servers));
	if (!p.holds || !p.servers)
		return ERR_NOMEM;
	for (size_t b = 0; b < s->n_bins; b++) {
		if (!bin_used(s, &s->bins[b]))
			continue;
		p.servers[p.n_servers++] = s->bins[b].server;
		hold_bin(s, &s->bins[b], &p);
	}
	*ret = p;
	return 0;
}

/* Would it fit if nobody else used the pool? Only then does it help to wait. */
static void look_beyond(struct search *s, struct arena *a)
{
	uint64_t *bytes = arena_array(a, s->inv->n_gpus, sizeof(*bytes));
	uint32_t *claims = arena_array(a, s->inv->n_servers, sizeof(*claims));
	struct usage none = {.claimed = bytes, .pending = bytes, .n_claims = claims};
	struct search alone;

	if (!bytes || !claims || search_init(&alone, s->inv, &none, s->d, a) != 0)
		return;
	/* both searches have one budget */
	alone.work = s->work;
	if (search_run(&alone) || (alone.work >= SEARCH_WORK_MAX && !alone.concluded))
		return;
	s->never = true;
	s->split = alone.split;
}

int placement_find(const struct inventory *inv, const struct usage *use, const struct demand *d,
	struct arena *a, struct placement *ret, struct err *err)
{
	struct search s;

	if (search_init(&s, inv, use, d, a) != 0)
		return err_set(err, ERR_NOMEM, "out of memory while looking for GPUs");
	if (!search_run(&s)) {
		look_beyond(&s, a);
		return placement_refuse(&s, err);
	}
	if (search_result(&s, a, ret) != 0)
		return err_set(err, ERR_NOMEM, "out of memory while looking for GPUs");
	return 0;
}

/* Take what the last pass found away for good: the next copy sees what is left. n_claims: per bin. */
static void search_settle(struct search *s, uint32_t *n_claims)
{
	s->work += s->n_bins;
	for (size_t b = 0; b < s->n_bins; b++) {
		struct bin *bin = &s->bins[b];
		bool full;

		if (!bin_used(s, bin))
			continue;
		full = s->d->whole_servers || ++n_claims[b] >= CLAIMS_PER_SERVER_MAX;
		for (uint32_t i = 0; i < bin->n; i++) {
			struct slot *slot = &s->slots[bin->first + i];

			slot->free = full ? 0 : slot->free - s->owns[slot->own].peak;
		}
	}
	search_forget(s);
}

size_t placement_copies(const struct inventory *inv, const struct usage *use,
	const struct demand *d, size_t limit, struct arena *a, bool *ret_more)
{
	struct search s;
	uint32_t *n_claims;
	size_t n = 0;

	*ret_more = false;
	if (search_init(&s, inv, use, d, a) != 0)
		return 0;
	n_claims = arena_array(a, s.n_bins, sizeof(*n_claims));
	if (!n_claims)
		return 0;
	for (size_t b = 0; b < s.n_bins; b++)
		n_claims[b] = use->n_claims[s.bins[b].server];
	while (n < limit && search_run(&s)) {
		n++;
		search_settle(&s, n_claims);
	}
	*ret_more = n < limit && s.work >= SEARCH_WORK_MAX;
	return n;
}
