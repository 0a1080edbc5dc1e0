/* SPDX-License-Identifier: Apache-2.0 */
/* core: which servers and GPUs a pod may use, by its filters and by the addresses that its launcher
 * can use: asked of each kind of server once, and of the words of each. */
#include "webhook/core/pool/placement_search.h"
#include "webhook/core/pool/server_words.h"

/* A word that servers must have. An absent key: the address. */
static struct word_test test_of(const struct inventory *inv, struct slice key, struct slice word)
{
	const struct word_column *c = server_words_column(inv->words, key);

	return (struct word_test){c ? c->of : NULL, c ? server_words_find(c, word) : 0};
}

struct word_test search_test(const struct inventory *inv, const struct filter *f)
{
	bool label = inventory_filter_sort(f) == FILTER_LABEL;

	return test_of(inv, label ? f->key : (struct slice){0}, f->value);
}

/* The words that the policy and filters ask for. */
static int know_words(struct search *s, struct arena *a)
{
	const struct pool_bound *bound = s->d->bound;

	s->n_bound = bound ? bound->n_servers : 0;
	s->tests = arena_array(a, s->n_bound + s->n_known, sizeof(*s->tests));
	if (!s->tests)
		return ERR_NOMEM;
	for (size_t i = 0; i < s->n_bound; i++)
		s->tests[s->n_tests++] = test_of(
			s->inv, slice_of(bound->servers[i].key), slice_of(bound->servers[i].value));
	for (size_t i = 0; i < s->n_known; i++) {
		enum filter_sort sort = inventory_filter_sort(s->known[i]);

		if (sort == FILTER_ADDRESS || sort == FILTER_LABEL)
			s->tests[s->n_tests++] = search_test(s->inv, s->known[i]);
	}
	return 0;
}

int search_know(struct search *s, struct arena *a)
{
	bool closed;

	for (size_t i = 0; i < s->d->n_filters; i++) {
		const struct filter *f = &s->d->filters[i];
		const struct gpu_server *of;
		size_t server;

		if (!inventory_knows_filter(s->inv, f))
			continue;
		s->known[s->n_known++] = f;
		if (inventory_filter_sort(f) != FILTER_NAME)
			continue;
		of = inventory_server(s->inv, f->value);
		server = of ? (size_t)(of - s->inv->servers) : SIZE_MAX;
		s->only = s->named && server != s->only ? SIZE_MAX : server;
		s->named = true;
	}
	closed = s->d->guarded || s->d->gate_by ||
		 (s->d->launcher.at && inventory_is_closed(s->inv));
	s->asks = s->n_known > 0 || s->d->no_ipv4 || s->d->no_ipv6 || closed || s->d->bound;
	/* a server that has no kind is asked itself */
	s->picky = s->d->no_ipv4 || s->d->no_ipv6 || closed || s->d->bound ||
		   (s->d->launcher.at && s->inv->kind);
	return s->inv->words ? know_words(s, a) : 0;
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
	bool usable = search_usable(s->d, one);
	enum selected found;
	size_t n = 0;

	s->within[kind] = 0;
	for (size_t i = 0; i < one->n_gpus; i++) {
		bool selected = inventory_gpu_within(&one->gpus[i], s->d->bound);

		s->within[kind] += selected;
		for (size_t k = 0; selected && k < s->n_known; k++)
			selected = inventory_gpu_matches(&one->gpus[i], s->known[k]);
		n += usable && selected;
	}
	found = n == 0 ? SELECTED_NONE : n < one->n_gpus ? SELECTED_SOME : SELECTED_ALL;
	s->kinds[kind] = (uint8_t)(found + 1);
	return found;
}

uint32_t search_gpus_within(const struct search *s, size_t server)
{
	const struct gpu_server *at = &s->inv->servers[server];
	uint32_t kind = inventory_kind(s->inv, server), n = 0;

	if (kind) {
		if (!s->kinds[kind])
			(void)search_ask_kind(s, kind);
		return s->within[kind];
	}
	for (size_t i = 0; i < at->n_gpus; i++)
		n += inventory_gpu_within(&at->gpus[i], s->d->bound);
	return n;
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
