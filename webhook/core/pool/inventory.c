/* SPDX-License-Identifier: Apache-2.0 */
/* core: looking up and selecting GPU servers and GPUs of an inventory, and copying one. */
#include "webhook/core/pool/inventory.h"

#include "base/text.h"
#include "webhook/core/pool/server_words.h"

/* The server's label of that key, or NULL. */
static const struct label *label_of(const struct gpu_server *s, struct slice key)
{
	for (size_t i = 0; i < s->n_labels; i++)
		if (slice_is(key, s->labels[i].key))
			return &s->labels[i];
	return NULL;
}

enum address_family inventory_family(const char *address)
{
	const char *p = address;

	if (p[0] == '[')
		return FAMILY_V6;
	while (text_is_digit(*p) || *p == '.')
		p++;
	return *p && *p != ':' ? FAMILY_EITHER : FAMILY_V4;
}

bool inventory_knows_filter(const struct inventory *inv, const struct filter *f)
{
	if (!f->key.at)
		return false;
	if (inventory_filter_sort(f) != FILTER_LABEL ||
		(inv->words && server_words_column(inv->words, f->key)))
		return true;
	for (size_t i = 0; i < inv->n_servers; i++) {
		size_t server = inventory_nth(inv, i);

		if (!inventory_kind(inv, server) && label_of(&inv->servers[server], f->key))
			return true;
	}
	return false;
}

bool inventory_is_closed(const struct inventory *inv)
{
	/* where there are kinds, nearly every server has one */
	const struct gpu_server *of = inv->kind ? inv->kinds : inv->servers;

	for (size_t i = inv->kind ? 1 : 0; i < (inv->kind ? inv->n_kinds : inv->n_servers); i++)
		if (of[inv->kind ? i : inventory_nth(inv, i)].n_launchers > 0)
			return true;
	return false;
}

enum filter_sort inventory_filter_sort(const struct filter *f)
{
	return slice_is(f->key, "server.name")   ? FILTER_NAME
	       : slice_is(f->key, "server.addr") ? FILTER_ADDRESS
	       : slice_is(f->key, "gpu.model")   ? FILTER_MODEL
						 : FILTER_LABEL;
}

bool inventory_server_matches(const struct gpu_server *s, const struct filter *f)
{
	enum filter_sort sort = inventory_filter_sort(f);
	const struct label *l;

	if (sort == FILTER_MODEL)
		return true;
	if (sort == FILTER_NAME || sort == FILTER_ADDRESS)
		return slice_is(f->value, sort == FILTER_NAME ? s->name : s->address);
	l = label_of(s, f->key);
	return l && slice_is(f->value, l->value);
}

bool inventory_gpu_matches(const struct gpu *g, const struct filter *f)
{
	size_t len = strlen(g->model), n = f->value.len;

	if (inventory_filter_sort(f) != FILTER_MODEL)
		return true;
	for (size_t at = 0; n > 0 && at + n <= len; at++) {
		const char *p = g->model + at;

		/* "V100" is what people call a "Tesla V100-PCIE-16GB" */
		if ((at == 0 || p[-1] == ' ') && (!p[n] || p[n] == ' ' || p[n] == '-') &&
			text_ieq((struct slice){p, n}, f->value))
			return true;
	}
	return false;
}

/* strcmp between a slice and a string, over bytes. */
static int compare(struct slice a, const char *b)
{
	size_t len = strlen(b);
	size_t n = a.len < len ? a.len : len;
	int c = n ? memcmp(a.at, b, n) : 0;

	return c ? c : (a.len > len) - (a.len < len);
}

const struct gpu_server *inventory_server(const struct inventory *inv, struct slice name)
{
	size_t lo = 0, hi = inv->n_servers;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct gpu_server *at = &inv->servers[inventory_nth(inv, mid)];
		int c = compare(name, at->name);

		if (c == 0)
			return at;
		if (c < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return NULL;
}

const struct gpu *inventory_gpu(const struct gpu_server *s, struct slice id)
{
	for (size_t i = 0; i < s->n_gpus; i++)
		if (slice_is(id, s->gpus[i].id))
			return &s->gpus[i];
	return NULL;
}

static const char *copy_str(struct arena *a, const char *s)
{
	return s ? arena_strdup(a, slice_of(s)) : NULL;
}

void inventory_copy_server(struct gpu_server *to, const struct gpu_server *from, struct arena *a)
{
	*to = *from;
	to->name = copy_str(a, from->name);
	to->address = copy_str(a, from->address);
	to->probe_url = copy_str(a, from->probe_url);
	to->twin = copy_str(a, from->twin);
	to->labels = arena_array(a, from->n_labels, sizeof(*to->labels));
	for (size_t i = 0; to->labels && i < from->n_labels; i++) {
		to->labels[i].key = copy_str(a, from->labels[i].key);
		to->labels[i].value = copy_str(a, from->labels[i].value);
	}
	to->launchers = arena_array(a, from->n_launchers, sizeof(*to->launchers));
	for (size_t i = 0; to->launchers && i < from->n_launchers; i++)
		to->launchers[i] = copy_str(a, from->launchers[i]);
	to->gpus = arena_array(a, from->n_gpus, sizeof(*to->gpus));
	for (size_t i = 0; to->gpus && i < from->n_gpus; i++) {
		const struct gpu *g = &from->gpus[i];

		to->gpus[i] = *g;
		to->gpus[i].id = copy_str(a, g->id);
		to->gpus[i].model = copy_str(a, g->model);
		to->gpus[i].parent = copy_str(a, g->parent);
		to->gpus[i].why = copy_str(a, g->why ? g->why : "");
		to->gpus[i].twin = copy_str(a, g->twin);
	}
}

int inventory_copy(
	const struct inventory *inv, struct arena *a, struct inventory *ret, struct err *err)
{
	struct gpu_server *servers = arena_array(a, inv->n_servers, sizeof(*servers));
	size_t n_gpus = 0;

	for (size_t i = 0; servers && i < inv->n_servers; i++) {
		inventory_copy_server(&servers[i], &inv->servers[inventory_nth(inv, i)], a);
		servers[i].first_gpu = n_gpus;
		n_gpus += servers[i].n_gpus;
	}
	if (a->failed)
		return err_set(err, ERR_NOMEM, "out of memory while the pool was copied");
	*ret = (struct inventory){
		.servers = servers, .n_servers = inv->n_servers, .n_gpus = n_gpus};
	return 0;
}

bool inventory_server_within(const struct gpu_server *s, const struct pool_bound *b)
{
	for (size_t i = 0; b && i < b->n_servers; i++) {
		size_t k = 0;

		while (k < s->n_labels &&
			(strcmp(s->labels[k].key, b->servers[i].key) != 0 ||
				strcmp(s->labels[k].value, b->servers[i].value) != 0))
			k++;
		if (k == s->n_labels)
			return false;
	}
	return true;
}

bool inventory_gpu_within(const struct gpu *g, const struct pool_bound *b)
{
	for (size_t i = 0; b && i < b->n_models; i++) {
		struct filter f = {.key = SLICE("gpu.model"), .value = slice_of(b->models[i])};

		if (inventory_gpu_matches(g, &f))
			return true;
	}
	return !b || b->n_models == 0;
}
