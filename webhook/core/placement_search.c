/* SPDX-License-Identifier: Apache-2.0 */
/* core: what a search for GPUs starts from: the GPUs that may be used, and the order of the containers. */
#include "webhook/core/placement_search.h"

uint64_t demand_bytes(const struct demand_container *d, const struct gpu *g)
{
	return search_need(d, g->bytes);
}

bool search_reaches(const struct demand *d, const struct gpu_server *server)
{
	const char *p = server->address;

	if (p[0] == '[')
		return !d->no_ipv6;
	while ((*p >= '0' && *p <= '9') || *p == '.')
		p++;
	return !d->no_ipv4 || (*p && *p != ':'); /* a name may stand for either */
}

bool search_selects(const struct search *s, const struct gpu_server *server, const struct gpu *gpu,
	struct memo *m)
{
	if (!search_reaches(s->d, server))
		return false;
	if (s->n_known == 0)
		return true;
	if (m->server == server && strcmp(m->model, gpu->model) == 0)
		return m->selected;
	*m = (struct memo){.server = server, .model = gpu->model, .selected = true};
	for (size_t i = 0; m->selected && i < s->n_known; i++)
		m->selected = inventory_server_matches(server, s->known[i]) &&
			      inventory_gpu_matches(gpu, s->known[i]);
	return m->selected;
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

/* Add the server's bin and slots. */
static void add_server(struct search *s, size_t index)
{
	const struct gpu_server *server = &s->inv->servers[index];
	struct bin *bin = &s->bins[s->n_bins];
	struct memo memo = {0};

	if (s->use->n_claims[index] >= CLAIMS_PER_SERVER_MAX || server->drain ||
		(s->d->whole_servers && !server_blank(s, server)))
		return;
	*bin = (struct bin){.server = (uint32_t)index, .first = (uint32_t)s->n_slots};
	for (size_t i = 0; i < server->n_gpus; i++) {
		const struct gpu *g = &server->gpus[i];
		uint64_t claimed = s->use->claimed[server->first_gpu + i];

		if (claimed >= g->bytes || !inventory_usable(server, g) ||
			(s->n_known > 0 && !search_selects(s, server, g, &memo)))
			continue;
		s->slots[s->n_slots++] = (struct slot){
			.bytes = g->bytes, .free = g->bytes - claimed, .gpu = (uint32_t)i};
	}
	bin->n = (uint32_t)s->n_slots - bin->first;
	/* A server that is named and taken whole counts although no GPU of it may match. */
	if (bin->n || (s->d->whole_servers && s->d->n_servers))
		s->n_bins++;
}

/* Bins and slots for the servers that the demand may use. */
static int add_servers(struct search *s, struct arena *a)
{
	bool *named = NULL;

	if (s->d->n_servers) {
		named = arena_array(a, s->inv->n_servers, sizeof(*named));
		if (!named)
			return ERR_NOMEM;
	}
	for (size_t i = 0; i < s->d->n_servers; i++) {
		const struct gpu_server *server = inventory_server(s->inv, s->d->servers[i]);

		if (server)
			named[server - s->inv->servers] = true;
	}
	for (size_t i = 0; i < s->inv->n_servers; i++)
		if ((!named || named[i]) && search_reaches(s->d, &s->inv->servers[i]))
			add_server(s, i);
	return 0;
}

/* How hard a container is to place: bytes of one GPU, then how many. Where whole servers are taken, what counts is that
 * the first container chooses a server that is large enough for the others, so all its bytes together. */
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

/* App and restartable containers, the hardest first; equals as in the pod. */
static void order_containers(struct search *s)
{
	uint64_t largest = 0;

	for (size_t i = 0; i < s->n_slots; i++)
		if (s->slots[i].bytes > largest)
			largest = s->slots[i].bytes;
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

int search_init(struct search *s, const struct inventory *inv, const struct usage *use,
	const struct demand *d, struct arena *a)
{
	size_t widest = 0;
	uint64_t picks = 0;

	*s = (struct search){.inv = inv, .use = use, .d = d, .together = true};
	s->known = arena_array(a, d->n_filters, sizeof(const struct filter *));
	s->slots = arena_space(a, inv->n_gpus, sizeof(*s->slots));
	s->bins = arena_array(a, inv->n_servers, sizeof(*s->bins));
	s->order = arena_array(a, d->n_containers, sizeof(*s->order));
	s->picks = arena_array(a, d->n_containers, sizeof(uint32_t *));
	if (a->failed)
		return ERR_NOMEM;
	for (size_t i = 0; i < d->n_filters; i++)
		if (inventory_knows_filter(inv, &d->filters[i]))
			s->known[s->n_known++] = &d->filters[i];
	if (add_servers(s, a) != 0)
		return ERR_NOMEM;
	for (size_t i = 0; i < s->n_bins; i++) {
		if (s->bins[i].n > widest)
			widest = s->bins[i].n;
		if (s->bins[i].server < use->first && i + 1 < s->n_bins)
			s->first_bin = i + 1;
	}
	for (size_t c = 0; c < d->n_containers; c++) {
		uint32_t amount = d->containers[c].amount;

		picks += amount;
		/* More GPUs than there are: the search fails before it picks. */
		s->picks[c] = arena_array(a, amount <= s->n_slots ? amount : 0, sizeof(uint32_t));
	}
	s->max_owns = (uint32_t)(picks < s->n_slots ? picks : s->n_slots);
	s->owns = arena_array(a, (size_t)s->max_owns + 1, sizeof(*s->owns));
	s->best = arena_array(a, widest, sizeof(*s->best));
	s->other = arena_array(a, widest, sizeof(*s->other));
	if (a->failed)
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
