/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the namespaces that hold claims, or copies of the client's Secrets. */
#include "webhook/cluster/secrets/secret_places.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/text.h"
#include "webhook/cluster/secrets/secret_sync.h"

void places_release(struct places *p)
{
	free(p->at);
	*p = (struct places){0};
}

/* Where it stands, or would stand. */
static size_t find(const struct places *p, struct slice name, bool *ret_there)
{
	size_t from = 0, to = p->n;

	while (from < to) {
		size_t mid = from + (to - from) / 2;
		int order = slice_order(name, slice_of(p->at[mid].name));

		if (order == 0) {
			*ret_there = true;
			return mid;
		}
		if (order < 0)
			to = mid;
		else
			from = mid + 1;
	}
	*ret_there = false;
	return from;
}

struct secret_place *places_add(struct places *p, struct slice name)
{
	bool there;
	size_t i = find(p, name, &there);

	if (there)
		return &p->at[i];
	if (name.len >= sizeof(p->at->name) || p->n >= SECRET_NAMESPACES_MAX ||
		!LIST_ROOM(p->at, p->n, p->cap)) {
		p->failed = true;
		return NULL;
	}
	memmove(&p->at[i + 1], &p->at[i], (p->n - i) * sizeof(*p->at));
	p->n++;
	p->at[i] = (struct secret_place){.state = PLACE_NEW};
	memcpy(p->at[i].name, name.at, name.len);
	return &p->at[i];
}

struct look {
	struct places *p;
	const char *const *except;
};

static bool is_excepted(const struct look *l, const char *namespace)
{
	for (size_t i = 0; l->except[i]; i++)
		if (strcmp(l->except[i], namespace) == 0)
			return true;
	return false;
}

static void copy(char *to, size_t size, const char *from)
{
	size_t len = strnlen(from, size - 1);

	memcpy(to, from, len);
	to[len] = '\0';
}

static void note_claim(const struct look *l, const struct claim *c)
{
	struct slice name = slice_of(c->namespace);
	struct secret_place *place;
	bool there;
	size_t i;

	/* somebody may have edited the status */
	if (!text_dns_label(name) || is_excepted(l, c->namespace))
		return;
	i = find(l->p, name, &there);
	if (!there && c->state == CLAIM_PENDING)
		return;
	place = there ? &l->p->at[i] : places_add(l->p, name);
	if (!place)
		return;
	place->keeps = true;
	if (place->wants || c->state == CLAIM_PENDING)
		return;
	place->wants = true;
	copy(place->pod, sizeof(place->pod), c->name);
	copy(place->uid, sizeof(place->uid), c->key);
}

static bool note_server(void *ctx, const struct server_object *o)
{
	const struct look *l = ctx;

	for (size_t i = 0; i < o->status.n_claims; i++)
		note_claim(l, &o->status.claims[i].claim);
	return true;
}

void places_look(
	struct places *p, struct servers *servers, const char *const *except, int64_t now_ms)
{
	struct look l = {p, except};

	p->failed = false;
	for (size_t i = 0; i < p->n; i++)
		p->at[i].wants = p->at[i].keeps = false;
	servers_each(servers, note_server, &l);
	for (size_t i = 0; i < p->n; i++) {
		struct secret_place *one = &p->at[i];

		if (one->keeps && one->stuck_ms)
			one->next_ms = 0;
		if (one->keeps)
			one->idle_ms = one->stuck_ms = 0;
		else if (one->idle_ms == 0)
			one->idle_ms = now_ms;
	}
}

void places_prune(struct places *p)
{
	size_t left = 0;

	for (size_t i = 0; i < p->n; i++)
		if (p->at[i].keeps || p->at[i].recorded)
			p->at[left++] = p->at[i];
	p->n = left;
}
