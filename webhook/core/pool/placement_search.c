/* SPDX-License-Identifier: Apache-2.0 */
/* core: what a search for GPUs starts from: the GPUs that may be used, and the order of the
 * containers. */
#include "webhook/core/pool/placement_search.h"

/* Few servers are such a share of all, or so many. */
#define FEW_SHARE 32
#define FEW_LEAST 4

uint64_t demand_bytes(const struct demand_container *d, const struct gpu *g)
{
	return search_need(d, g->bytes);
}

/* May a pod that takes whole servers have this one? What is not fit would be visible to it, too. */
static bool server_blank(const struct search *s, const struct gpu_server *server)
{
	for (size_t i = 0; i < server->n_gpus; i++) {
		if (s->use->claimed[server->first_gpu + i])
			return false;
		if (!server->gpus[i].missing && !inventory_usable(server, &server->gpus[i]))
			return false;
	}
	return true;
}

/* What the pod's largest container needs of a GPU of that size. */
static uint64_t largest_need(const struct demand *d, uint64_t bytes)
{
	uint64_t most = 0;

	for (size_t c = 0; c < d->n_containers; c++) {
		uint64_t need = search_need(&d->containers[c], bytes);

		most = need > most ? need : most;
	}
	return most;
}

bool search_claims_left(const struct search *s, size_t server, uint32_t n_claims)
{
	uint32_t left = n_claims < CLAIMS_PER_SERVER_MAX ? CLAIMS_PER_SERVER_MAX - n_claims : 0;
	const struct gpu_server *at = &s->inv->servers[server];
	const struct bin *bin = search_bin(s, server);
	size_t roomy = 0;

	if (left == 0 || left > s->room.widest || s->d->whole_servers)
		return left > 0;
	for (size_t i = 0, n = bin ? bin->n : at->n_gpus; i < n; i++) {
		const struct slot *slot = bin ? &s->slots[bin->first + i] : NULL;
		uint64_t bytes = slot ? slot->bytes : at->gpus[i].bytes;

		if ((slot ? slot->free : s->room.free[s->room.first[server] + i]) <= bytes / 2)
			continue;
		if (largest_need(s->d, bytes) > bytes / 2)
			return true;
		roomy++;
	}
	return left > roomy;
}

bool search_open(const struct search *s, size_t server)
{
	return search_claims_left(s, server, s->use->n_claims[server]) &&
	       (!s->picky || (search_usable(s->d, inventory_seen(s->inv, server)) &&
				     search_within(s, server)));
}

struct bin *search_add_bin(struct search *s, size_t server)
{
	const struct gpu_server *at = &s->inv->servers[server];
	const uint64_t *left = s->room.free + s->room.first[server];
	struct bin *bin = &s->bins[s->n_bins++];
	enum selected selected = search_selected(s, server);
	struct memo memo = {0};

	s->work += at->n_gpus;
	*bin = (struct bin){.server = (uint32_t)server,
		.turn = (uint32_t)inventory_turn(s->inv, server),
		.first = (uint32_t)s->n_slots};
	for (size_t i = 0; i < at->n_gpus; i++) {
		const struct gpu *g = &at->gpus[i];

		if (left[i] && selected != SELECTED_NONE &&
			(selected == SELECTED_ALL || search_selects(s, at, g, &memo)))
			s->slots[s->n_slots++] = (struct slot){
				.bytes = g->bytes, .free = left[i], .gpu = (uint32_t)i};
	}
	bin->n = (uint32_t)s->n_slots - bin->first;
	s->bin_of[server] = (uint32_t)s->n_bins;
	return bin;
}

void search_drop_bin(struct search *s)
{
	const struct bin *bin = &s->bins[--s->n_bins];

	s->bin_of[bin->server] = 0;
	s->n_slots = bin->first;
}

/* Bins for all servers that the demand may use. */
static void list_servers(struct search *s, const bool *named)
{
	for (size_t at = 0; at < s->inv->n_servers; at++) {
		size_t i = inventory_nth(s->inv, at);
		const struct gpu_server *server = &s->inv->servers[i];

		if ((named && !named[i]) || server->drain || !search_open(s, i) ||
			(s->d->whole_servers && !server_blank(s, server)))
			continue;
		/* A server that is named and taken whole counts although no GPU of it may match. */
		if (search_add_bin(s, i)->n == 0 && !(s->d->whole_servers && s->d->n_servers))
			search_drop_bin(s);
	}
	s->listed = true;
}

static int list_named(struct search *s, struct arena *a)
{
	bool *named =
		s->d->n_servers ? arena_array(a, inventory_places(s->inv), sizeof(*named)) : NULL;

	if (s->d->n_servers && !named)
		return ERR_NOMEM;
	for (size_t i = 0; i < s->d->n_servers; i++) {
		const struct gpu_server *server = inventory_server(s->inv, s->d->servers[i]);

		if (server)
			named[server - s->inv->servers] = true;
	}
	list_servers(s, named);
	return 0;
}

/* Where filters, or the policy, leave few servers, as can be told without asking each one, these
 * get a bin: to pass over all others in the index would take longer. */
static int list_few(struct search *s, struct arena *a)
{
	size_t most = FEW_LEAST + s->inv->n_servers / FEW_SHARE, n = 0;
	uint32_t *few = arena_space(a, most, sizeof(*few));

	if (!few)
		return ERR_NOMEM;
	for (size_t at = 0; at < s->inv->n_servers; at++) {
		size_t i = inventory_nth(s->inv, at);

		if (search_kind(s, i) == SELECTED_NONE)
			continue;
		if (n == most)
			return 0;
		few[n++] = (uint32_t)i;
	}
	for (size_t i = 0; i < n; i++)
		if (s->room.most[few[i]] && search_open(s, few[i]) &&
			search_add_bin(s, few[i])->n == 0)
			search_drop_bin(s);
	s->listed = s->few = true;
	return 0;
}

static void add_all(struct search *s)
{
	for (size_t at = 0; at < s->inv->n_servers; at++) {
		size_t i = inventory_nth(s->inv, at);

		if (!s->bin_of[i] && s->room.most[i] && search_kind(s, i) != SELECTED_NONE &&
			search_open(s, i) && search_add_bin(s, i)->n == 0)
			search_drop_bin(s);
	}
}

/* GPUs of this size, the one first that has most; of servers without a bin. Where a filter may take
 * some of a server's GPUs alone it is given one. */
static void add_roomy_of(struct search *s, const struct demand_container *c, uint64_t bytes)
{
	const struct room_index *r = s->room.index;
	uint64_t need = search_need(c, bytes);
	const struct room_entry *e;
	struct room_place at;
	size_t n = 0;

	(void)room_index_find(r, bytes + 1, 0, 0, &at);
	while ((e = room_index_previous(r, &at)) && e->bytes == bytes &&
		((need && e->free >= need) || n < c->amount)) {
		enum selected selected = search_kind(s, e->server);

		if (selected == SELECTED_NONE || search_bin(s, e->server) ||
			!search_open(s, e->server))
			continue;
		if (selected == SELECTED_SOME) {
			const struct bin *bin = search_add_bin(s, e->server);

			/* its others may have less than what comes later, or be of another size */
			for (uint32_t i = bin->first; i < bin->first + bin->n; i++)
				n += s->slots[i].bytes == bytes && s->slots[i].free >= e->free;
			continue;
		}
		for (uint32_t i = 0; i < e->n; i++)
			s->slots[s->n_slots++] = (struct slot){.bytes = bytes, .free = e->free};
		n += e->n;
	}
}

static void add_by_index(struct search *s, const struct demand_container *c)
{
	const struct room_index *r = s->room.index;
	const struct room_entry *e;
	struct room_place at;

	e = room_index_find(r, 0, 0, 0, &at);
	for (; e && e->bytes == 0; e = room_index_next(r, &at))
		if (!search_bin(s, e->server) && search_open(s, e->server))
			(void)search_add_bin(s, e->server);
	while (e) {
		uint64_t bytes = e->bytes;

		add_roomy_of(s, c, bytes);
		e = room_index_find(r, bytes + 1, 0, 0, &at);
	}
}

bool search_add_roomy(struct search *s, const struct demand_container *c, struct arena *a)
{
	struct bin *bins = arena_space(a, s->inv->n_servers, sizeof(*bins));
	struct slot *slots = arena_space(a, s->inv->n_gpus, sizeof(*slots));

	if (s->listed)
		return true;
	if (!bins || !slots)
		return false;
	if (s->n_bins) {
		memcpy(bins, s->bins, s->n_bins * sizeof(*bins));
		memcpy(slots, s->slots, s->n_slots * sizeof(*slots));
	}
	s->bins = bins;
	s->slots = slots;
	if (s->room.index && (!search_filters(s) || s->inv->kind))
		add_by_index(s, c);
	else
		add_all(s);
	s->listed = true;
	return true;
}

/* The room of the pool: as the caller keeps it, or read here. */
static int find_room(struct search *s, struct arena *a)
{
	size_t places = inventory_places(s->inv), widest = 0;
	uint32_t *first, *gpus, *usable;
	uint64_t *bytes, *most, *left;

	if (s->use->room) {
		s->room = *s->use->room;
		if (s->room.index && s->room.index->broken)
			s->room.index = NULL;
		return 0;
	}
	first = arena_space(a, places, sizeof(*first));
	gpus = arena_space(a, places, sizeof(*gpus));
	bytes = arena_space(a, places, sizeof(*bytes));
	most = arena_space(a, places, sizeof(*most));
	left = arena_space(a, inventory_gpu_places(s->inv), sizeof(*left));
	usable = arena_space(a, places, sizeof(*usable));
	if (a->failed)
		return ERR_NOMEM;
	for (size_t i = 0; i < s->inv->n_servers; i++) {
		size_t server = inventory_nth(s->inv, i);
		const struct gpu_server *at = &s->inv->servers[server];

		first[server] = (uint32_t)at->first_gpu;
		gpus[server] = (uint32_t)at->n_gpus;
		room_note(at, s->use->claimed + at->first_gpu, &bytes[server], &most[server],
			&usable[server], left + at->first_gpu);
		widest = at->n_gpus > widest ? at->n_gpus : widest;
	}
	s->room = (struct pool_room){first, gpus, bytes, most, left, usable, widest, NULL};
	return 0;
}

/* How hard a container is to place: bytes of one GPU, then how many. Where whole servers are taken,
 * what counts is that the first container chooses a server that is large enough for the others, so
 * all its bytes together. */
static bool harder(const struct search *s, size_t a, size_t b, uint64_t largest)
{
	const struct demand_container *x = &s->d->containers[a], *y = &s->d->containers[b];
	uint64_t nx = search_need(x, largest), ny = search_need(y, largest);

	if (s->d->whole_servers) {
		nx = nx > UINT64_MAX / (x->amount + 1ull) ? UINT64_MAX : nx * x->amount;
		ny = ny > UINT64_MAX / (y->amount + 1ull) ? UINT64_MAX : ny * y->amount;
	}
	return nx != ny ? nx > ny : x->amount > y->amount;
}

/* The largest GPU of a server without a bin that has room. */
static uint64_t largest_of(struct search *s, size_t server)
{
	const struct gpu_server *at = &s->inv->servers[server];
	struct memo memo = {0};
	uint64_t largest = 0;

	if (s->room.most[server] == 0 || !search_open(s, server))
		return 0;
	if (search_alike(s, server))
		return s->room.bytes[server];
	for (size_t k = 0; k < at->n_gpus; k++)
		if (at->gpus[k].bytes > largest && s->room.free[s->room.first[server] + k] &&
			search_selects(s, at, &at->gpus[k], &memo))
			largest = at->gpus[k].bytes;
	return largest;
}

/* The largest GPU that has room. It says which of two containers is harder where one asks by
 * percent and the other by megabytes. */
static uint64_t largest_gpu(struct search *s)
{
	const struct room_index *r = s->listed ? NULL : s->room.index;
	const struct room_entry *e;
	struct room_place at;
	uint64_t largest = 0, one;

	for (size_t i = 0; i < s->n_slots; i++)
		if (s->slots[i].bytes > largest)
			largest = s->slots[i].bytes;
	for (size_t i = 0; i < s->inv->n_servers && !s->listed && !r; i++) {
		one = largest_of(s, inventory_nth(s->inv, i));
		largest = one > largest ? one : largest;
	}
	e = r ? room_index_find(r, 0, 0, 0, &at) : NULL;
	while (e) {
		one = largest_of(s, e->server);
		largest = one > largest ? one : largest;
		/* of those that are alike one is enough */
		e = one && e->bytes ? room_index_find(r, e->bytes + 1, 0, 0, &at)
				    : room_index_next(r, &at);
	}
	return largest;
}

/* App and restartable containers, the hardest first; equals as in the pod. */
static void order_containers(struct search *s)
{
	uint64_t largest = s->d->n_containers > 1 ? largest_gpu(s) : 0;

	for (size_t c = 0; c < s->d->n_containers; c++) {
		size_t at = s->n_order;

		if (s->d->containers[c].kind == CONTAINER_INIT)
			continue;
		for (; at > 0 && harder(s, c, s->order[at - 1], largest); at--)
			s->order[at] = s->order[at - 1];
		s->order[at] = c;
		s->n_order++;
	}
}

/* Memory for what so many copies of a pod may be given, of so many GPUs each; list: all servers get
 * a bin. */
static int make_places(struct search *s, uint64_t picks, size_t copies, bool list, struct arena *a)
{
	bool few = !list && picks < s->inv->n_servers / (copies + 1);
	size_t widest = s->room.widest, bins, slots;

	/* and one that is tried */
	bins = few ? (size_t)picks * copies + 1 : s->inv->n_servers;
	slots = few && bins * widest < s->inv->n_gpus ? bins * widest : s->inv->n_gpus;
	s->bins = arena_space(a, bins, sizeof(*s->bins));
	s->slots = arena_space(a, slots, sizeof(*s->slots));
	s->best = arena_array(a, widest, sizeof(*s->best));
	s->other = arena_array(a, widest, sizeof(*s->other));
	s->max_owns = (uint32_t)(picks < s->inv->n_gpus ? picks : s->inv->n_gpus);
	s->owns = arena_array(a, (size_t)s->max_owns + 1, sizeof(*s->owns));
	return a->failed ? ERR_NOMEM : 0;
}

int search_init(struct search *s, const struct inventory *inv, const struct usage *use,
	const struct demand *d, size_t copies, struct arena *a)
{
	bool list = d->n_servers > 0 || d->whole_servers;
	size_t places = inventory_places(inv);
	uint64_t picks = 0;

	*s = (struct search){.inv = inv,
		.use = use,
		.d = d,
		.together = true,
		.budget = use->budget ? use->budget : SEARCH_WORK_MAX,
		.hurried = use->budget != 0,
		.from = use->first < inv->n_servers ? use->first : 0,
		.span = inv->n_servers};
	s->known = arena_array(a, d->n_filters, sizeof(const struct filter *));
	s->bin_of = arena_array(a, places, sizeof(*s->bin_of));
	s->rooms = arena_space(a, places, sizeof(*s->rooms));
	s->order = arena_array(a, d->n_containers, sizeof(*s->order));
	s->picks = arena_array(a, d->n_containers, sizeof(uint32_t *));
	if (a->failed || search_know(s, a) != 0)
		return ERR_NOMEM;
	s->selected = s->asks ? arena_array(a, places, sizeof(*s->selected)) : NULL;
	s->kinds = s->asks ? arena_array(a, inv->n_kinds, sizeof(*s->kinds)) : NULL;
	s->told = s->asks ? arena_array(a, inv->n_kinds, sizeof(*s->told)) : NULL;
	s->within = s->asks ? arena_array(a, inv->n_kinds, sizeof(*s->within)) : NULL;
	for (size_t c = 0; c < d->n_containers; c++) {
		uint32_t amount = d->containers[c].amount;

		picks += amount;
		/* More GPUs than there are: the search fails before it picks. */
		s->picks[c] = arena_array(a, amount <= inv->n_gpus ? amount : 0, sizeof(uint32_t));
	}
	if (find_room(s, a) != 0 || make_places(s, picks, copies, list || s->asks, a) != 0 ||
		(list && list_named(s, a) != 0) ||
		(!list && s->asks && inv->kind && list_few(s, a) != 0))
		return ERR_NOMEM;
	order_containers(s);
	return 0;
}

void search_forget(struct search *s)
{
	for (size_t b = 0; b < s->n_bins; b++) {
		if (!s->bins[b].own)
			continue;
		s->bins[b].own = false;
		for (uint32_t i = 0; i < s->bins[b].n; i++)
			s->slots[s->bins[b].first + i].own = 0;
	}
	while (!s->listed && s->n_bins && !s->bins[s->n_bins - 1].settled)
		search_drop_bin(s);
	memset(s->owns, 0, ((size_t)s->n_owns + 1) * sizeof(*s->owns));
	s->n_owns = 0;
}

size_t search_count_room(const struct search *s, const struct demand_container *c)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_slots; i++) {
		uint64_t need = search_need(c, s->slots[i].bytes);

		n += need > 0 && search_room(s, c, &s->slots[i]) >= need;
	}
	return n;
}
