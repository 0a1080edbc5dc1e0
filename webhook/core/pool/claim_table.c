/* SPDX-License-Identifier: Apache-2.0 */
/* core: the claims of the in-memory ledger in three trees and a list. */
#define _GNU_SOURCE 1 /* twalk_r, tdestroy */
#include "webhook/core/pool/claim_table.h"

#include <search.h>
#include <stdlib.h>

static int order(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int compare_key(const void *a, const void *b)
{
	const struct claim_entry *x = a, *y = b;

	return x->kind != y->kind ? order(x->kind, y->kind) : strcmp(x->claim.key, y->claim.key);
}

/* A pod's name alone: coarser than the order of by_pod, so that a search finds any claim of the
 * pod. */
static int compare_name(const void *a, const void *b)
{
	const struct claim_entry *x = a, *y = b;
	int c = strcmp(x->claim.namespace, y->claim.namespace);

	return c ? c : strcmp(x->claim.name, y->claim.name);
}

static int compare_pod(const void *a, const void *b)
{
	const struct claim_entry *x = a, *y = b;
	int c = claim_order(&x->claim, &y->claim);

	return c ? c : order(x->kind, y->kind);
}

static int compare_ticket(const void *a, const void *b)
{
	const struct claim_entry *x = a, *y = b;

	return order(x->ticket, y->ticket);
}

static struct claim_entry *find(void *const *tree, const struct claim_entry *probe,
	int (*compare)(const void *, const void *))
{
	struct claim_entry **node = tfind(probe, tree, compare);

	return node ? *node : NULL;
}

struct claim_entry *claim_table_by_key(
	const struct claim_table *t, enum key_kind kind, const char *key)
{
	struct claim_entry probe = {.kind = kind, .claim.key = key};

	return find(&t->by_key, &probe, compare_key);
}

struct claim_entry *claim_table_by_pod(
	const struct claim_table *t, const char *namespace, const char *name)
{
	struct claim_entry probe = {.claim.namespace = namespace, .claim.name = name};

	return find(&t->by_pod, &probe, compare_name);
}

struct claim_entry *claim_table_by_ticket(const struct claim_table *t, uint64_t ticket)
{
	struct claim_entry probe = {.ticket = ticket};

	return find(&t->by_ticket, &probe, compare_ticket);
}

static void list_remove(struct claim_table *t, struct claim_entry *e)
{
	if (e->older)
		e->older->newer = e->newer;
	else
		t->oldest = e->newer;
	if (e->newer)
		e->newer->older = e->older;
	else
		t->newest = e->older;
	e->older = e->newer = NULL;
}

static void list_append(struct claim_table *t, struct claim_entry *e)
{
	e->older = t->newest;
	e->newer = NULL;
	if (t->newest)
		t->newest->newer = e;
	else
		t->oldest = e;
	t->newest = e;
}

void claim_table_renew(struct claim_table *t, struct claim_entry *e, int64_t taken_ms)
{
	list_remove(t, e);
	e->taken_ms = taken_ms;
	list_append(t, e);
}

void claim_table_forget_ticket(struct claim_table *t, struct claim_entry *e)
{
	if (e->ticket)
		tdelete(e, &t->by_ticket, compare_ticket);
	e->ticket = 0;
}

bool claim_table_insert(struct claim_table *t, struct claim_entry *e)
{
	if (!tsearch(e, &t->by_key, compare_key))
		return false;
	if (tsearch(e, &t->by_pod, compare_pod)) {
		if (tsearch(e, &t->by_ticket, compare_ticket)) {
			list_append(t, e);
			t->n++;
			return true;
		}
		tdelete(e, &t->by_pod, compare_pod);
	}
	tdelete(e, &t->by_key, compare_key);
	return false;
}

void claim_table_remove(struct claim_table *t, struct claim_entry *e)
{
	claim_table_forget_ticket(t, e);
	tdelete(e, &t->by_pod, compare_pod);
	tdelete(e, &t->by_key, compare_key);
	list_remove(t, e);
	t->n--;
	free(e);
}

static void free_nothing(void *entry)
{
	(void)entry;
}

void claim_table_release(struct claim_table *t)
{
	struct claim_entry *next;

	tdestroy(t->by_ticket, free_nothing);
	tdestroy(t->by_pod, free_nothing);
	tdestroy(t->by_key, free_nothing);
	for (struct claim_entry *e = t->oldest; e; e = next) {
		next = e->newer;
		free(e);
	}
	*t = (struct claim_table){0};
}

/* Copy a string to *at and move *at behind it. */
static const char *put_str(char **at, const char *s)
{
	size_t size = strlen(s) + 1;
	const char *copy = memcpy(*at, s, size);

	*at += size;
	return copy;
}

struct claim_entry *claim_entry_new(const struct claim *c, enum key_kind kind)
{
	size_t size = sizeof(struct claim_entry) +
		      c->n_parts * (sizeof(struct claim_part) + sizeof(struct claim_place)) +
		      strlen(c->key) + strlen(c->namespace) + strlen(c->name) + 3;
	struct claim_entry *e;
	char *at;

	for (size_t i = 0; i < c->n_parts; i++)
		size += strlen(c->parts[i].server) + strlen(c->parts[i].gpu) + 2;
	e = calloc(1, size);
	if (!e)
		return NULL;
	e->kind = kind;
	e->claim = *c;
	e->claim.parts = (struct claim_part *)(e + 1);
	e->places = (struct claim_place *)(e->claim.parts + c->n_parts);
	at = (char *)(e->places + c->n_parts);
	e->claim.key = put_str(&at, c->key);
	e->claim.namespace = put_str(&at, c->namespace);
	e->claim.name = put_str(&at, c->name);
	for (size_t i = 0; i < c->n_parts; i++) {
		e->claim.parts[i].server = put_str(&at, c->parts[i].server);
		e->claim.parts[i].gpu = put_str(&at, c->parts[i].gpu);
		e->claim.parts[i].bytes = c->parts[i].bytes;
	}
	return e;
}

struct walk {
	void (*fn)(void *ctx, const struct claim *c);
	void *ctx;
};

static void walk_one(const void *node, VISIT visit, void *closure)
{
	const struct claim_entry *e = *(struct claim_entry *const *)node;
	const struct walk *w = closure;

	/* `postorder` is what tsearch calls the visit between a node's two children. */
	if (visit == postorder || visit == leaf)
		w->fn(w->ctx, &e->claim);
}

void claim_table_each(
	const struct claim_table *t, void (*fn)(void *ctx, const struct claim *c), void *ctx)
{
	struct walk w = {fn, ctx};

	twalk_r(t->by_pod, walk_one, &w);
}

struct listing {
	struct claim *claims;
	size_t n;
	struct arena *arena;
};

static void list_one(void *ctx, const struct claim *from)
{
	struct listing *l = ctx;

	claim_copy(&l->claims[l->n++], from, l->arena);
}

struct claim *claim_table_list(const struct claim_table *t, struct arena *a)
{
	struct listing l = {.arena = a};

	l.claims = arena_array(a, t->n, sizeof(*l.claims));
	if (!l.claims)
		return NULL;
	claim_table_each(t, list_one, &l);
	return a->failed ? NULL : l.claims;
}
