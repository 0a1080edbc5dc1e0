/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the table of probes or gates: whom to ask, and when. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "webhook/cluster/reconcile/probe_poll_impl.h"

static void target_free(struct target *t)
{
	free(t->name);
	free(t->uid);
	free(t->url);
	free(t->ca_secret);
	free(t->token_secret);
	free(t->client_secret);
	free(t->use);
	free(t);
}

static char *copy(const char *s, bool *ok)
{
	char *c = s ? strdup(s) : NULL;

	*ok = *ok && (c || !s);
	return c;
}

static bool same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

bool probe_target_is(
	const struct poll_kind *kind, const struct target *t, const struct server_object *o)
{
	struct server_end end = kind->end(o);

	return same(t->uid, o->uid) && same(t->url, end.url) && same(t->ca_secret, end.ca_secret) &&
	       same(t->token_secret, end.token_secret) && same(t->client_secret, end.client_secret);
}

/* The list is in the order of names, as the picture is. */
struct targets_look {
	const struct poll_kind *kind;
	struct target **at; /* behind the last server */
};

/* Another spec is asked about at once, if the kind's answer is of a spec; while somebody asks,
 * after that: he may have begun before it came. */
static void see_spec(const struct poll_kind *kind, struct target *t, int64_t generation)
{
	t->there = true;
	if (!kind->of_spec || t->busy || t->generation == generation)
		return;
	t->generation = generation;
	t->due_ms = clock_ms();
}

/* A server that is new, or whose end is another now, is asked at once. Without memory the next
 * look tries again. */
static bool note(void *ctx, const struct server_object *o)
{
	struct targets_look *l = ctx;
	struct server_end end = l->kind->end(o);
	struct target *t;
	bool ok = true;

	if (!end.url)
		return true;
	while (*l->at && strcmp((*l->at)->name, o->name) < 0)
		l->at = &(*l->at)->next;
	for (t = *l->at; t && strcmp(t->name, o->name) == 0; t = t->next)
		if (probe_target_is(l->kind, t, o)) {
			see_spec(l->kind, t, o->generation);
			return true;
		}
	t = calloc(1, sizeof(*t));
	if (!t)
		return true;
	t->name = copy(o->name, &ok);
	t->uid = copy(o->uid, &ok);
	t->url = copy(end.url, &ok);
	t->ca_secret = copy(end.ca_secret, &ok);
	t->token_secret = copy(end.token_secret, &ok);
	t->client_secret = copy(end.client_secret, &ok);
	if (!ok) {
		target_free(t);
		return true;
	}
	t->generation = o->generation;
	t->due_ms = clock_ms();
	atomic_store(&t->good_ms, t->due_ms);
	t->there = true;
	t->next = *l->at;
	*l->at = t;
	return true;
}

void probe_targets_look(struct probe_poll *p)
{
	struct targets_look l = {p->cfg.kind, &p->first};
	int64_t now = clock_ms();

	if (!servers_synced(p->cfg.servers) || (!p->changed && now - p->looked_ms < LOOK_MS))
		return;
	/* each claim changes the picture */
	if (p->changed && now - p->looked_ms < LOOK_MS / 4)
		return;
	p->changed = false;
	p->looked_ms = now;
	for (struct target *t = p->first; t; t = t->next)
		t->there = false;
	servers_each(p->cfg.servers, note, &l);
	for (struct target **at = &p->first, *t; (t = *at);) {
		if (t->there || t->busy || t->ageing) {
			at = &t->next;
		} else {
			*at = t->next;
			target_free(t);
		}
	}
}

struct target *probe_targets_next(struct probe_poll *p)
{
	bool doubtful = p->n_doubtful < (p->cfg.at_once + 1) / 2;
	struct target *best = NULL;

	for (struct target *t = p->first; t; t = t->next)
		if (t->there && !t->busy && (doubtful || !t->doubtful) &&
			(!best || t->due_ms < best->due_ms))
			best = t;
	return best;
}

struct target *probe_targets_old(struct probe_poll *p, int64_t now_ms, int64_t *ret_ms)
{
	*ret_ms = INT64_MAX;
	for (struct target *t = p->first; t; t = t->next) {
		int64_t good = atomic_load(&t->good_ms), old = good + p->cfg.stale_after_ms;

		old = old > t->age_ms ? old : t->age_ms;
		if (!t->there || t->aged_ms == good)
			continue;
		if (old <= now_ms)
			return t;
		if (old < *ret_ms)
			*ret_ms = old;
	}
	return NULL;
}

void probe_targets_free(struct probe_poll *p)
{
	for (struct target *t = p->first, *next; t; t = next) {
		next = t->next;
		target_free(t);
	}
	p->first = NULL;
}
