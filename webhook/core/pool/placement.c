/* SPDX-License-Identifier: Apache-2.0 */
/* core: the greedy search for GPUs that can hold a pod. */
#include <stdlib.h>

#include "webhook/core/pool/placement_search.h"

/* Greedy passes before a pod of several containers is refused. Of 7560 pods over random small pools
 * that an exact search places, one pass misses 215, three 75, four 57, twenty 56. */
#define ATTEMPTS_MAX 4
/* Servers on which nearly every pod fits that fits at all. */
#define FEW 32

/* One greedy pass over all containers. */
static bool attempt(struct search *s)
{
	for (size_t i = 0; i < s->n_order; i++)
		if (!search_place(s, s->order[i]))
			return false;
	for (size_t c = 0; c < s->d->n_containers; c++) {
		const struct demand_container *d = &s->d->containers[c];

		if (d->kind == CONTAINER_INIT && !search_place(s, c))
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

/* Are the named servers, if they are to be taken whole, all there? */
static bool named_whole(struct search *s)
{
	s->taken_server = s->d->n_servers;
	if (!s->d->whole_servers)
		return true;
	for (size_t i = 0; i < s->d->n_servers; i++) {
		const struct gpu_server *server = inventory_server(s->inv, s->d->servers[i]);

		if (!server || !s->bin_of[server - s->inv->servers]) {
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
	s->concluded = s->concluded || s->work < s->budget;
	/* Keeping a pod together may have spent what a later container needs, and so may the order.
	 */
	for (int i = 1; i < ATTEMPTS_MAX && s->d->n_containers > 1 && s->work < s->budget; i++) {
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
	size_t from = s->from, span = s->span;
	bool found = false;

	search_forget(s);
	for (size_t i = 0; i < span && !found && s->work < s->budget; i++) {
		size_t at = from + i < span ? from + i : from + i - span;

		if (s->room.most[inventory_nth(s->inv, at)] == 0)
			continue;
		s->from = at;
		s->span = 1;
		found = try_hard(s);
		if (!found)
			search_forget(s);
	}
	s->from = from;
	s->span = span;
	s->split = !found && s->work < s->budget;
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

/* Is the bin part of the outcome? Servers that are named and whole are visible to the pod, used or
 * not. */
static bool bin_used(const struct search *s, const struct bin *bin)
{
	return bin->own || (s->d->whole_servers && s->d->n_servers);
}

static int by_turn(const void *a, const void *b)
{
	const struct bin *x = a, *y = b;

	return (x->turn > y->turn) - (x->turn < y->turn);
}

static int search_result(const struct search *s, struct arena *a, struct placement *ret)
{
	struct placement p = {0};
	size_t n_holds = 0, n_servers = 0;

	if (s->n_bins > 1)
		qsort(s->bins, s->n_bins, sizeof(*s->bins), by_turn);
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

/* How many GPUs of the server the container could have if nobody else used it. */
static size_t count_alone(const struct search *s, const struct demand_container *c, size_t server)
{
	const struct gpu_server *at = &s->inv->servers[server];
	struct memo memo = {0};
	size_t n = 0;

	if (search_kind(s, server) == SELECTED_NONE)
		return 0;
	if (search_alike(s, server)) {
		uint64_t bytes = s->room.bytes[server], need = search_need(c, bytes);

		return need && need <= bytes ? s->room.usable[server] : 0;
	}
	for (size_t i = 0; i < at->n_gpus; i++) {
		uint64_t need = search_need(c, at->gpus[i].bytes);

		n += need && need <= at->gpus[i].bytes && inventory_usable(at, &at->gpus[i]) &&
		     search_selects(s, at, &at->gpus[i], &memo);
	}
	return n;
}

/* For a pod of one container that may use any server there is nothing to search. */
static void look_beyond_one(struct search *s)
{
	const struct demand_container *c = &s->d->containers[0];
	size_t sum = 0, most = 0;

	for (size_t i = 0; i < s->inv->n_servers; i++) {
		size_t n = count_alone(s, c, inventory_nth(s->inv, i));

		sum += n;
		most = n > most ? n : most;
		if ((s->d->one_server ? most : sum) >= c->amount)
			return;
	}
	s->never = true;
	s->split = sum >= c->amount;
}

/* Would it fit on the first few servers that take claims, if nobody else used these? Then there is
 * no need to lay out the whole pool. */
static bool fits_on_few(const struct search *s, struct arena *a)
{
	struct inventory few = {.servers = arena_array(a, FEW, sizeof(*few.servers))};
	struct usage none = {0};
	struct search alone;

	for (size_t i = 0; few.servers && i < s->inv->n_servers && few.n_servers < FEW; i++) {
		size_t server = inventory_nth(s->inv, i);
		struct gpu_server *to = &few.servers[few.n_servers];

		if (s->room.usable[server] == 0 || search_kind(s, server) != SELECTED_ALL)
			continue;
		*to = s->inv->servers[server];
		to->first_gpu = few.n_gpus;
		few.n_gpus += to->n_gpus;
		few.n_servers++;
	}
	none.claimed = none.pending = arena_array(a, few.n_gpus, sizeof(uint64_t));
	none.n_claims = arena_array(a, FEW, sizeof(uint32_t));
	if (!none.claimed || !none.n_claims || search_init(&alone, &few, &none, s->d, 1, a) != 0)
		return false;
	if (s->hurried)
		alone.budget = s->budget - s->work;
	return search_run(&alone);
}

/* Would it fit if nobody else used the pool? Only then does it help to wait. */
static void look_beyond(struct search *s, struct arena *a)
{
	uint64_t *bytes;
	uint32_t *claims;
	struct usage none;
	struct search alone;

	if (!search_by_server(s) && fits_on_few(s, a))
		return;
	if (s->hurried) {
		s->late = true;
		return;
	}
	bytes = arena_array(a, inventory_gpu_places(s->inv), sizeof(*bytes));
	claims = arena_array(a, inventory_places(s->inv), sizeof(*claims));
	none = (struct usage){.claimed = bytes, .pending = bytes, .n_claims = claims};
	if (!bytes || !claims || search_init(&alone, s->inv, &none, s->d, 1, a) != 0)
		return;
	/* both searches have one budget */
	alone.work = s->work;
	if (search_run(&alone) || (alone.work >= alone.budget && !alone.concluded))
		return;
	s->never = true;
	s->split = alone.split;
}

int placement_find(const struct inventory *inv, const struct usage *use, const struct demand *d,
	struct arena *a, struct placement *ret, struct err *err)
{
	struct search s;

	if (search_init(&s, inv, use, d, 1, a) != 0)
		return err_set(err, ERR_NOMEM, "out of memory while looking for GPUs");
	if (!search_run(&s)) {
		if (s.hurried && s.work >= s.budget)
			return ERR_TIMEOUT;
		if (!err)
			return ERR_REFUSED;
		if (d->n_containers == 1 && !search_by_server(&s))
			look_beyond_one(&s);
		else
			look_beyond(&s, a);
		if (s.late)
			return ERR_TIMEOUT;
		(void)search_add_roomy(&s, &d->containers[s.failed], a);
		return placement_refuse(&s, err);
	}
	if (search_result(&s, a, ret) != 0)
		return err_set(err, ERR_NOMEM, "out of memory while looking for GPUs");
	return 0;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Where the slot is among all GPUs of the inventory. */
static uint32_t gpu_of(const struct search *s, uint32_t slot)
{
	size_t b = 0;

	while (slot < s->bins[b].first || slot - s->bins[b].first >= s->bins[b].n)
		b++;
	return (uint32_t)s->inv->servers[s->bins[b].server].first_gpu + s->slots[slot].gpu;
}

int placement_containers(const struct inventory *inv, const struct usage *use,
	const struct demand *d, struct arena *a, uint32_t ***ret)
{
	struct search s;
	uint32_t **all;

	if (search_init(&s, inv, use, d, 1, a) != 0)
		return ERR_NOMEM;
	if (!search_run(&s))
		return ERR_REFUSED;
	all = arena_array(a, d->n_containers, sizeof(*all));
	for (size_t c = 0; all && c < d->n_containers; c++) {
		uint32_t n = d->containers[c].amount;

		all[c] = arena_array(a, n, sizeof(**all));
		for (uint32_t i = 0; all[c] && i < n; i++)
			all[c][i] = gpu_of(&s, s.picks[c][i]);
		if (all[c] && n > 1)
			qsort(all[c], n, sizeof(**all), by_number);
	}
	*ret = all;
	return a->failed ? ERR_NOMEM : 0;
}

/* Take what the last pass found away for good: the next copy sees what is left. */
static void search_settle(struct search *s, uint32_t *n_claims)
{
	s->work += s->n_bins;
	for (size_t b = 0; b < s->n_bins; b++) {
		struct bin *bin = &s->bins[b];
		struct slot *slots = &s->slots[bin->first];
		bool full;

		if (!bin_used(s, bin))
			continue;
		for (uint32_t i = 0; i < bin->n; i++)
			slots[i].free -= s->owns[slots[i].own].peak;
		full = s->d->whole_servers ||
		       !search_claims_left(s, bin->server, ++n_claims[bin->server]);
		for (uint32_t i = 0; i < bin->n && full; i++)
			slots[i].free = 0;
		bin->settled = true;
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
	if (search_init(&s, inv, use, d, limit, a) != 0)
		return 0;
	n_claims = arena_copy(a, use->n_claims, inventory_places(inv), sizeof(*n_claims));
	if (!n_claims)
		return 0;
	while (n < limit && search_run(&s)) {
		n++;
		search_settle(&s, n_claims);
	}
	*ret_more = n < limit && s.work >= s.budget;
	return n;
}
