/* SPDX-License-Identifier: Apache-2.0 */
/* core: which servers and GPUs a pod may use, by its filters and by the addresses that its launcher
 * can use: asked of each kind of server once. */
#include "webhook/core/pool/placement_search.h"

void search_know(struct search *s)
{
	bool closed;

	for (size_t i = 0; i < s->d->n_filters; i++) {
		const struct filter *f = &s->d->filters[i];
		const struct gpu_server *of;
		size_t server;

		if (!inventory_knows_filter(s->inv, f))
			continue;
		s->known[s->n_known++] = f;
		if (!inventory_is_name(f))
			continue;
		of = inventory_server(s->inv, f->value);
		server = of ? (size_t)(of - s->inv->servers) : SIZE_MAX;
		s->only = s->named && server != s->only ? SIZE_MAX : server;
		s->named = true;
	}
	closed = s->d->guarded || (s->d->launcher.at && inventory_is_closed(s->inv));
	s->asks = s->n_known > 0 || s->d->no_ipv4 || s->d->no_ipv6 || closed || s->d->bound;
	/* a server that has no kind is asked itself */
	s->picky = s->d->no_ipv4 || s->d->no_ipv6 || closed || s->d->bound ||
		   (s->d->launcher.at && s->inv->kind);
}

bool search_reaches(const struct demand *d, const struct gpu_server *server)
{
	enum address_family family = inventory_family(server->address);

	return family == FAMILY_V4 ? !d->no_ipv4 : family == FAMILY_V6 ? !d->no_ipv6 : true;
}

bool search_selects(const struct search *s, const struct gpu_server *server, const struct gpu *gpu,
	struct memo *m)
{
	if (s->picky && !search_suits(s->d, server))
		return false;
	if (!search_filters(s))
		return true;
	if (m->server == server && strcmp(m->model, gpu->model) == 0)
		return m->selected;
	*m = (struct memo){.server = server,
		.model = gpu->model,
		.selected = inventory_gpu_within(gpu, s->d->bound)};
	for (size_t i = 0; m->selected && i < s->n_known; i++)
		m->selected = inventory_server_matches(server, s->known[i]) &&
			      inventory_gpu_matches(gpu, s->known[i]);
	return m->selected;
}

enum selected search_ask_kind(const struct search *s, uint32_t kind)
{
	const struct gpu_server *one = &s->inv->kinds[kind];
	bool reached = search_suits(s->d, one), named = false;
	enum selected found;
	size_t n = 0;

	for (size_t i = 0; reached && i < one->n_gpus; i++) {
		bool selected = inventory_gpu_within(&one->gpus[i], s->d->bound);

		for (size_t k = 0; selected && k < s->n_known; k++) {
			if (inventory_names_server(s->known[k]))
				named = true;
			else
				selected = inventory_server_matches(one, s->known[k]) &&
					   inventory_gpu_matches(&one->gpus[i], s->known[k]);
		}
		n += selected;
	}
	found = n == 0 ? SELECTED_NONE : named || n < one->n_gpus ? SELECTED_SOME : SELECTED_ALL;
	s->kinds[kind] = (uint8_t)(found + 1);
	return found;
}

/* Each server is asked once in a search, whatever containers there are. */
enum selected search_selected(struct search *s, size_t server)
{
	const struct gpu_server *at = &s->inv->servers[server];
	const uint64_t *left = s->room.free + s->room.first[server];
	struct memo memo = {0};
	enum selected found = search_kind(s, server);
	size_t n = 0, all = 0;

	if (found != SELECTED_SOME)
		return found;
	if (s->selected[server])
		return (enum selected)(s->selected[server] - 1);
	for (size_t i = 0; i < at->n_gpus; i++) {
		if (left[i] == 0)
			continue;
		all++;
		n += search_selects(s, at, &at->gpus[i], &memo);
	}
	found = n == 0 ? SELECTED_NONE : n < all ? SELECTED_SOME : SELECTED_ALL;
	s->selected[server] = (uint8_t)(found + 1);
	return found;
}
