/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: each server's place in the picture, and what is taken and free of its GPUs there. */
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

/* What a state says is taken of its GPUs: pending claims, all claims and what is kept beside them,
 * that alone. */
static void sum_up(const struct held *h, uint64_t *taken, uint64_t *pending, uint64_t *kept)
{
	const struct server_status *status = &h->object.status;
	size_t n = h->shown.n_gpus;

	if (n) {
		memset(taken, 0, n * sizeof(*taken));
		memset(pending, 0, n * sizeof(*pending));
	}
	for (size_t i = 0; i < status->n_claims; i++) {
		const struct claim *c = &status->claims[i].claim;

		count_parts(h, c, taken);
		if (c->state == CLAIM_PENDING)
			count_parts(h, c, pending);
	}
	for (size_t i = 0; i < n; i++) {
		uint64_t most = UINT64_MAX - taken[i];

		kept[i] = server_status_kept(status, i);
		kept[i] = kept[i] < most ? kept[i] : most;
		taken[i] += kept[i];
	}
}

/* Does the state hold this claim, from this very take? */
static bool holds(const struct held *h, const struct claim_record *r)
{
	ptrdiff_t i = server_status_claim(&h->object.status, slice_of(r->claim.key));

	return i >= 0 && h->object.status.claims[i].take == r->take;
}

/* Its words and its kind: what it is of now, or none where it leaves. */
static void note_kind(struct servers *s, const struct server_entry *e, bool there)
{
	const struct gpu_server *shown = &s->inv.servers[e->index];
	uint32_t *kind = &s->kind[e->index];

	if (there && server_words_take(&s->words, e->index, shown)) {
		*kind = server_kinds_take(&s->kinds, *kind, shown);
	} else {
		server_words_drop(&s->words, e->index);
		server_kinds_drop(&s->kinds, *kind);
		*kind = 0;
	}
	s->inv.kinds = s->kinds.servers;
	s->inv.n_kinds = s->kinds.n;
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

static bool any_less(const uint64_t *now, const uint64_t *before, size_t n)
{
	while (n > 0 && now[n - 1] >= before[n - 1])
		n--;
	return n > 0;
}

/* Of what is ahead no refusal counts anything before it is shown (rule R4). */
void servers_set_ahead(struct servers *s, struct server_entry *e, bool yes)
{
	s->n_ahead += yes;
	s->n_ahead -= e->ahead;
	e->ahead = yes;
}

/* A state that nobody has shown yet is ahead where it takes more than the one that was shown. Where
 * it gives room it counts at once, which refuses nobody. */
static void hold_back(struct servers *s, struct server_entry *e)
{
	size_t first = s->inv.servers[e->index].first_gpu;

	if (e->ahead)
		servers_set_ahead(s, e,
			any_less(s->committed + first, s->claimed + first, e->held->shown.n_gpus));
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
	note_kind(s, e, true);
	sum_up(h, s->claimed + first, s->pending + first, s->kept + first);
	if (known)
		hold_back(s, e);
	else
		servers_set_ahead(s, e, false);
	if (!e->ahead)
		e->base = h->number;
	if (n && !e->ahead)
		memcpy(s->committed + first, s->claimed + first, n * sizeof(*s->committed));
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

void servers_show(struct servers *s, struct server_entry *e, const struct held *h)
{
	uint64_t taken[SERVER_GPUS_MAX], pending[SERVER_GPUS_MAX], kept[SERVER_GPUS_MAX];
	size_t first, n = h->shown.n_gpus;
	bool newest = h->number == e->held->number;
	bool fits = n == e->held->shown.n_gpus && n <= SERVER_GPUS_MAX;

	if (!e->ahead || (!newest && (h->number <= e->base || !fits)))
		return;
	if (fits) {
		first = s->inv.servers[e->index].first_gpu;
		sum_up(h, taken, pending, kept);
		s->room += any_less(taken, s->committed + first, n);
		if (n)
			memcpy(s->committed + first, taken, n * sizeof(*taken));
	}
	e->base = h->number;
	if (newest)
		servers_set_ahead(s, e, false);
	servers_recount(s, e);
}

/* Lists of the picture, by server and by GPU. */
#define LISTS PICTURE_LISTS
#define NUMBERS 8

static void list_of_servers(struct servers *s, uint64_t **ret[static LISTS])
{
	ret[0] = &s->gpu_bytes;
	ret[1] = &s->most_claimed;
	ret[2] = &s->most_committed;
	ret[3] = ret[4] = ret[5] = NULL;
}

static void list_of_numbers(struct servers *s, uint32_t **ret[static NUMBERS])
{
	ret[0] = &s->n_claims;
	ret[1] = &s->usable;
	ret[2] = &s->first;
	ret[3] = &s->gpus;
	ret[4] = &s->order;
	ret[5] = &s->turn;
	ret[6] = &s->width;
	ret[7] = &s->kind;
}

static void list_of_gpus(struct servers *s, uint64_t **ret[static LISTS])
{
	ret[0] = &s->claimed;
	ret[1] = &s->committed;
	ret[2] = &s->pending;
	ret[3] = &s->left_claimed;
	ret[4] = &s->left_committed;
	ret[5] = &s->kept;
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

/* The lists have moved. */
static void point_to_lists(struct servers *s)
{
	s->inv.order = s->order;
	s->inv.kind = s->kind;
	s->inv.words = &s->words;
	s->inv.turn = s->index.turn = s->turn;
	s->room_claimed = (struct pool_room){s->first, s->gpus, s->gpu_bytes, s->most_claimed,
		s->left_claimed, s->usable, s->widest, &s->index};
	s->room_committed = (struct pool_room){s->first, s->gpus, s->gpu_bytes, s->most_committed,
		s->left_committed, s->usable, s->widest, NULL};
}

/* Places for so many servers and GPUs. */
static bool grow_picture(struct servers *s, size_t servers, size_t gpus)
{
	uint64_t **lists[LISTS];
	uint32_t **numbers[NUMBERS];
	bool ok = true;

	if (servers > s->cap_servers) {
		size_t cap = servers + servers / 2 + 8;

		s->inv.servers = grown(s->inv.servers, cap, sizeof(*s->inv.servers), &ok);
		list_of_numbers(s, numbers);
		for (size_t i = 0; i < NUMBERS; i++)
			*numbers[i] = grown(*numbers[i], cap, sizeof(**numbers[i]), &ok);
		list_of_servers(s, lists);
		for (size_t i = 0; i < LISTS && lists[i]; i++)
			*lists[i] = grown(*lists[i], cap, sizeof(**lists[i]), &ok);
		s->spare = grown(s->spare, cap, sizeof(*s->spare), &ok);
		s->cap_servers = ok ? cap : s->cap_servers;
	}
	list_of_gpus(s, lists);
	for (size_t i = 0; i < LISTS; i++) {
		/* by other shares, so that they do not all move at once */
		size_t cap = gpus + gpus / 2 + gpus / 8 * i + 64;
		bool here = true;

		if (gpus <= s->cap_gpus[i])
			continue;
		*lists[i] = grown(*lists[i], cap, sizeof(**lists[i]), &here);
		s->cap_gpus[i] = here ? cap : s->cap_gpus[i];
		ok = ok && here;
	}
	point_to_lists(s);
	return ok;
}

/* A place that is free, with so many GPUs: one that a server had is used again where it had at
 * least as many, the smallest. False: out of memory. */
static bool find_place(struct servers *s, size_t n_gpus, uint32_t *ret)
{
	size_t best = s->n_spare;

	for (size_t i = 0; i < s->n_spare; i++)
		if (s->spare[i].gpus >= n_gpus &&
			(best == s->n_spare || s->spare[i].gpus < s->spare[best].gpus)) {
			best = i;
			if (s->spare[i].gpus == n_gpus)
				break;
		}
	if (best < s->n_spare) {
		*ret = s->spare[best].index;
		s->spare[best] = s->spare[--s->n_spare];
		return true;
	}
	if (!grow_picture(s, s->inv.places + 1, s->inv.gpu_places + n_gpus))
		return false;
	*ret = (uint32_t)s->inv.places++;
	s->inv.servers[*ret] = (struct gpu_server){.first_gpu = s->inv.gpu_places};
	s->first[*ret] = (uint32_t)s->inv.gpu_places;
	s->width[*ret] = (uint32_t)n_gpus;
	s->kind[*ret] = 0;
	s->inv.gpu_places += n_gpus;
	return true;
}

/* Where the name belongs in the order. */
static size_t turn_of(const struct servers *s, const char *name)
{
	size_t low = 0, high = s->inv.n_servers;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (strcmp(s->inv.servers[s->order[mid]].name, name) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void number_from(struct servers *s, size_t turn)
{
	for (; turn < s->inv.n_servers; turn++)
		s->turn[s->order[turn]] = (uint32_t)turn;
}

/* Memory was short when the index was changed: again, from all servers. */
static void index_anew(struct servers *s)
{
	room_index_release(&s->index);
	for (size_t i = 0; i < s->n; i++)
		if (s->entries[i]->placed)
			index_room(s, s->entries[i], true);
}

bool servers_place(struct servers *s, struct server_entry *e)
{
	size_t n = e->held->shown.n_gpus, at = turn_of(s, e->name), behind;
	uint32_t index;

	if (!find_place(s, n, &index))
		return false;
	behind = s->inv.n_servers++ - at;
	memmove(s->order + at + 1, s->order + at, behind * sizeof(*s->order));
	s->order[at] = index;
	number_from(s, at);
	s->inv.n_gpus += n;
	s->gpus[index] = (uint32_t)n;
	e->index = index;
	e->placed = true;
	if (n > s->widest) {
		s->widest = n;
		point_to_lists(s);
	}
	servers_count(s, e, false);
	if (s->index.broken)
		index_anew(s);
	return true;
}

void servers_unplace(struct servers *s, struct server_entry *e)
{
	size_t index = e->index, at;

	if (!e->placed)
		return;
	servers_set_ahead(s, e, false);
	index_room(s, e, false);
	note_kind(s, e, false);
	at = s->turn[index];
	s->inv.n_servers--;
	memmove(s->order + at, s->order + at + 1, (s->inv.n_servers - at) * sizeof(*s->order));
	number_from(s, at);
	s->inv.n_gpus -= s->gpus[index];
	s->inv.servers[index] = (struct gpu_server){.first_gpu = s->first[index]};
	s->spare[s->n_spare++] = (struct spare){(uint32_t)index, s->width[index]};
	e->placed = false;
}
