/* SPDX-License-Identifier: Apache-2.0 */
/* test: pools and demands out of short texts. */
#include "test/unit/pool_fixture.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"

#define MOST 64 /* of one server */
#define SERVERS_MOST 512

static uint64_t number(struct slice s)
{
	uint64_t n;

	if (!text_u64(s, UINT64_MAX, &n)) {
		fprintf(stderr, "fixture: bad number \"%.*s\"\n", (int)s.len, s.at);
		abort();
	}
	return n;
}

/* The part of s before c; *rest gets what is behind it. Without c: all of s, and nothing. */
static struct slice cut(struct slice s, char c, struct slice *rest)
{
	const char *at = s.len ? memchr(s.at, c, s.len) : NULL;
	struct slice head = {s.at, at ? (size_t)(at - s.at) : s.len};

	*rest = at ? (struct slice){at + 1, s.len - head.len - 1} : (struct slice){s.at + s.len, 0};
	return head;
}

/* How many of the trailing letters are flags; they are cut off. */
static bool flag(struct slice *s, char c)
{
	if (!s->len || s->at[s->len - 1] != c)
		return false;
	s->len--;
	return true;
}

static void add_gpu(struct pool *p, struct gpu_server *s, struct slice w)
{
	struct slice rest, claimed;
	struct gpu *g = &s->gpus[s->n_gpus];
	size_t at = s->first_gpu + s->n_gpus;
	bool pending = flag(&w, 'p');
	char *model;

	g->missing = flag(&w, 'm');
	g->fresh = !flag(&w, 's');
	g->fit = !flag(&w, 'u');
	g->why = flag(&w, 'w') ? NULL : !g->fit ? "ECC errors" : !g->fresh ? "no report" : "";
	g->id = arena_fmt(&p->arena, "gpu-%zu", s->n_gpus);
	model = arena_strdup(&p->arena, cut(w, ':', &rest));
	for (char *c = model; *c; c++)
		*c = *c == '_' ? ' ' : *c;
	g->model = model;
	g->bytes = number(cut(rest, '/', &claimed)) * MB;
	p->claimed[at] = claimed.len ? number(claimed) * MB : 0;
	p->pending[at] = pending ? p->claimed[at] : 0;
	s->n_gpus++;
}

static void add_server(struct pool *p, struct slice text)
{
	struct gpu_server *s = &p->inv.servers[p->inv.n_servers];
	struct slice w, value;

	if (!text_word(&text, &w))
		return;
	s->name = arena_strdup(&p->arena, w);
	s->address = arena_fmt(&p->arena, "%s:56001", s->name);
	s->labels = arena_array(&p->arena, MOST, sizeof(*s->labels));
	s->gpus = arena_array(&p->arena, MOST, sizeof(*s->gpus));
	s->first_gpu = p->inv.n_gpus;
	while (text_word(&text, &w)) {
		struct slice key = cut(w, '=', &value);

		if (slice_is(w, "drain")) {
			s->drain = true;
		} else if (slice_is(w, "guarded")) {
			s->guarded = true;
		} else if (slice_is(w, "by-address")) {
			s->gate_by = GATE_BY_ADDRESS;
		} else if (slice_is(w, "by-token")) {
			s->gate_by = GATE_BY_TOKEN;
		} else if (slice_is(key, "at") && value.len) {
			s->address = arena_strdup(&p->arena, value);
		} else if (slice_is(key, "for") && value.len) {
			if (!s->launchers)
				s->launchers = arena_array(&p->arena, MOST, sizeof(*s->launchers));
			s->launchers[s->n_launchers++] = arena_strdup(&p->arena, value);
		} else if (slice_is(key, "claims") && value.len) {
			p->n_claims[p->inv.n_servers] = (uint32_t)number(value);
		} else if (key.len < w.len) {
			s->labels[s->n_labels].key = arena_strdup(&p->arena, key);
			s->labels[s->n_labels++].value = arena_strdup(&p->arena, value);
		} else {
			add_gpu(p, s, w);
		}
	}
	p->inv.n_gpus += s->n_gpus;
	p->inv.n_servers++;
}

void pool_init(struct pool *p, const char *text)
{
	struct slice rest = slice_of(text);

	*p = (struct pool){0};
	arena_init(&p->arena, 1u << 24);
	p->inv.servers = arena_array(&p->arena, SERVERS_MOST, sizeof(*p->inv.servers));
	p->claimed = arena_array(&p->arena, (size_t)SERVERS_MOST * MOST, sizeof(*p->claimed));
	p->pending = arena_array(&p->arena, (size_t)SERVERS_MOST * MOST, sizeof(*p->pending));
	p->n_claims = arena_array(&p->arena, SERVERS_MOST, sizeof(*p->n_claims));
	while (rest.len) {
		struct slice one = cut(rest, ';', &rest);

		add_server(p, one);
	}
	p->use = (struct usage){
		.claimed = p->claimed, .pending = p->pending, .n_claims = p->n_claims};
}

void pool_release(struct pool *p)
{
	arena_release(&p->arena);
}

int pool_place(struct pool *p, const struct demand *d, struct placement *ret, struct err *err)
{
	return placement_find(&p->inv, &p->use, d, &p->arena, ret, err);
}

static void add_container(struct demand *d, struct slice text)
{
	struct demand_container *c = &d->containers[d->n_containers];
	struct slice kind, amount, size;

	if (!text_word(&text, &kind))
		return;
	c->kind = slice_is(kind, "init")   ? CONTAINER_INIT
		  : slice_is(kind, "side") ? CONTAINER_RESTARTABLE
					   : CONTAINER_APP;
	if (!text_word(&text, &c->name) || !text_word(&text, &amount) || !text_word(&text, &size))
		abort();
	c->amount = (uint32_t)number(amount);
	if (size.at[size.len - 1] == '%')
		c->percent = (uint32_t)number((struct slice){size.at, size.len - 1});
	else
		c->memory_mb = number(size);
	d->n_containers++;
}

void demand_init(struct demand *d, struct arena *a, const char *text, const char *filters,
	const char *servers, bool whole)
{
	struct slice rest = arena_slice(a, slice_of(text)), w;

	*d = (struct demand){.whole_servers = whole};
	d->containers = arena_array(a, MOST, sizeof(*d->containers));
	d->filters = arena_array(a, MOST, sizeof(*d->filters));
	d->servers = arena_array(a, MOST, sizeof(*d->servers));
	while (rest.len) {
		struct slice one = cut(rest, ';', &rest);

		add_container(d, one);
	}
	rest = arena_slice(a, slice_of(filters ? filters : ""));
	while (text_word(&rest, &w)) {
		struct filter *f = &d->filters[d->n_filters++];

		f->token = w;
		f->key = cut(w, '=', &f->value);
		if (f->key.len == w.len)
			f->key = f->value = (struct slice){0};
	}
	rest = arena_slice(a, slice_of(servers ? servers : ""));
	while (text_word(&rest, &w))
		d->servers[d->n_servers++] = w;
}
