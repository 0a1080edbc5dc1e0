// SPDX-License-Identifier: Apache-2.0
// cluster: the table of probes: whom to ask, and when.
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "webhook/cluster/probe_poll_impl.h"

static void target_free(struct target *t)
{
	free(t->name);
	free(t->uid);
	free(t->url);
	free(t->ca_secret);
	free(t->token_secret);
	free(t->client_secret);
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

bool probe_target_is(const struct target *t, const struct server_object *o)
{
	return same(t->uid, o->uid) && same(t->url, o->probe_url) &&
	       same(t->ca_secret, o->probe_ca_secret) &&
	       same(t->token_secret, o->probe_token_secret) &&
	       same(t->client_secret, o->probe_client_secret);
}

/* A server that is new, or whose probe is another now, is asked at once. Without memory the next look tries again. */
static bool note(void *ctx, const struct server_object *o)
{
	struct probe_poll *p = ctx;
	struct target *t = p->first;
	bool ok = true;

	if (!o->probe_url)
		return true;
	while (t && !probe_target_is(t, o))
		t = t->next;
	if (t) {
		t->there = true;
		return true;
	}
	t = calloc(1, sizeof(*t));
	if (!t)
		return true;
	t->name = copy(o->name, &ok);
	t->uid = copy(o->uid, &ok);
	t->url = copy(o->probe_url, &ok);
	t->ca_secret = copy(o->probe_ca_secret, &ok);
	t->token_secret = copy(o->probe_token_secret, &ok);
	t->client_secret = copy(o->probe_client_secret, &ok);
	if (!ok) {
		target_free(t);
		return true;
	}
	t->due_ms = t->good_ms = clock_ms();
	t->there = true;
	t->next = p->first;
	p->first = t;
	return true;
}

void probe_targets_look(struct probe_poll *p)
{
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
	servers_each(p->cfg.servers, note, p);
	for (struct target **at = &p->first, *t; (t = *at);) {
		if (t->there || t->busy) {
			at = &t->next;
		} else {
			*at = t->next;
			target_free(t);
		}
	}
}

struct target *probe_targets_next(struct probe_poll *p)
{
	struct target *best = NULL;

	for (struct target *t = p->first; t; t = t->next)
		if (t->there && !t->busy && (!best || t->due_ms < best->due_ms))
			best = t;
	return best;
}

int64_t probe_targets_moment(const struct target *t, int64_t every_ms, int64_t asked_ms)
{
	int64_t phase = (int64_t)(text_hash64(slice_of(t->name)) % (uint64_t)every_ms);
	int64_t at = asked_ms - asked_ms % every_ms + phase;

	while (at < asked_ms + (every_ms + 1) / 2)
		at += every_ms;
	return at;
}

void probe_targets_free(struct probe_poll *p)
{
	for (struct target *t = p->first, *next; t; t = next) {
		next = t->next;
		target_free(t);
	}
	p->first = NULL;
}
