/* SPDX-License-Identifier: Apache-2.0 */
/* sim/scale: edits of a server's status as webhook/cluster/ledger/servers_commit.c makes them:
 * those of a replica that wait for the same server share one PUT with the version that they were
 * made from; after a conflict a GET, and the edits are tried on what it brought. */
#include <stdlib.h>
#include <string.h>

#include "test/sim/scale/scale.h"

/* Median PUT of a status with 10 claims 2.4 to 3.4 ms, with 100 of them 9.8 ms, seen on a real API
 * server. */
#define PUT_US 2000
#define PUT_CLAIM_US 80
#define GET_US 1000
#define JITTER_US 500
/* webhook/cluster/ledger/servers_picture.c */
#define CONTENDED_US (500 * MS)
#define SPREAD_US (10 * SECOND)

struct commit {
	struct replica *r;
	uint32_t server;
	uint32_t base; /* the version that it was made from */
	bool conflict, leads;
	struct edit *batch;
	struct news after; /* what the API server answered */
};

void edit_queue(struct replica *r, uint32_t server, struct edit *e)
{
	struct entry *at = &r->entries[server];

	e->next = NULL;
	*at->end = e;
	at->end = &e->next;
}

void edit_submit(struct replica *r, uint32_t server, struct edit *e)
{
	edit_queue(r, server, e);
	commit_kick(r, server);
}

/* What the edit makes of a state; false: nothing, it gives up. */
static bool apply(struct edit *e, uint32_t server, struct news *n)
{
	const struct pod *pod = e->kind == EDIT_ADD      ? &e->take->plan
				: e->kind == EDIT_REMOVE ? &e->was
							 : e->pod;
	uint64_t bytes = pod ? pod_bytes(world.pool, pod) : 0;

	if (e->kind == EDIT_ADD && !state_fits(world.pool, n->claimed, n->n_claims, server, pod))
		return false;
	/* Rule R6: somebody else wrote meanwhile, so whether the pod is gone is asked anew. */
	if (e->kind == EDIT_END && e->again)
		return false;
	if (e->kind == EDIT_BIND || e->kind == EDIT_WHOLE)
		return true;
	for (size_t i = 0; i < pod->n_parts; i++)
		if (pod->parts[i] / GPUS == server)
			n->claimed[pod->parts[i] % GPUS] += e->kind == EDIT_ADD ? bytes : 0 - bytes;
	n->n_claims += e->kind == EDIT_ADD ? 1u : UINT32_MAX;
	return true;
}

static void done(struct edit *e, uint32_t server, bool written)
{
	if (e->kind == EDIT_ADD || e->kind == EDIT_WHOLE)
		take_done(e->take, written);
	else if (e->kind == EDIT_END && !written)
		leader_again(e->pod, server);
	free(e);
}

/* Those that give up are told after the others are on their way. */
static struct edit *give_up(struct commit *c, struct news *n)
{
	struct edit **at = &c->batch, *gone = NULL;

	while (*at) {
		struct edit *e = *at;

		if (apply(e, c->server, n)) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		e->next = gone;
		gone = e;
	}
	return gone;
}

static void later(struct commit *c, enum event_kind kind, int64_t us)
{
	event_push(
		(struct event){.at_us = world.now_us + us + chance_wait(&world.chance, JITTER_US),
			.kind = kind,
			.what = c});
}

void commit_kick(struct replica *r, uint32_t server)
{
	struct entry *at = &r->entries[server];
	struct news n = news_of(&r->committed, server);
	struct commit *c;
	struct edit *gone;

	if (at->busy || !at->queue)
		return;
	c = calloc(1, sizeof(*c));
	if (!c)
		abort();
	*c = (struct commit){
		.r = r, .server = server, .base = n.version, .leads = true, .batch = at->queue};
	at->queue = NULL;
	at->end = &at->queue;
	gone = give_up(c, &n);
	for (const struct edit *e = c->batch; e; e = e->next)
		c->leads = c->leads && (e->kind == EDIT_BIND || e->kind == EDIT_END);
	at->busy = c->batch != NULL;
	if (at->busy)
		later(c, EVENT_PUT, (PUT_US + PUT_CLAIM_US * (int64_t)n.n_claims) / 2);
	else
		free(c);
	while (gone) {
		struct edit *e = gone;

		gone = e->next;
		done(e, server, false);
	}
}

/* At the API server. */
static void put(struct commit *c)
{
	struct state *s = &world.truth;
	struct news n = news_of(s, c->server);

	*(c->leads ? &world.tally.leads : &world.tally.puts) += 1;
	c->conflict = n.version != c->base;
	if (c->conflict) {
		*(c->leads ? &world.tally.lead_conflicts : &world.tally.conflicts) += 1;
	} else {
		for (struct edit *e = c->batch; e; e = e->next) {
			if (!apply(e, c->server, &n))
				world_law("a claim is written that does not fit");
			if (e->kind == EDIT_ADD)
				e->take->reserved[e->take->step].landed = n.version + 1;
		}
		world_room(c->server, -1);
		memcpy(s->claimed + (size_t)c->server * GPUS, n.claimed, sizeof(n.claimed));
		world_room(c->server, 1);
		s->n_claims[c->server] = n.n_claims;
		s->version[c->server]++;
		world_note(c->server, s->version[c->server]);
		world_tell(c->server);
		take_truth();
		c->after = news_of(s, c->server);
	}
	later(c, EVENT_ANSWER, (PUT_US + PUT_CLAIM_US * (int64_t)n.n_claims) / 2);
}

static void contended(struct replica *r, uint32_t server)
{
	r->contended_until_us = world.now_us + CONTENDED_US;
	r->entries[server].contended_until_us = r->contended_until_us;
	r->spread_until_us = world.now_us + SPREAD_US;
	r->first = chance_next(&world.chance) % world.pool->inv.n_servers;
}

/* With what the API server said: all is written, or all is tried again. */
static void answer(struct commit *c)
{
	struct replica *r = c->r;
	struct entry *at = &r->entries[c->server];

	if (c->conflict && c->after.version == 0) {
		contended(r, c->server);
		later(c, EVENT_GET, GET_US / 2);
		return;
	}
	picture_put(r, &c->after);
	at->busy = false;
	if (c->conflict) {
		struct edit **end = &c->batch;

		for (; *end; end = &(*end)->next)
			(*end)->again = true;
		*end = at->queue;
		if (!at->queue)
			at->end = end;
		at->queue = c->batch;
	}
	while (!c->conflict && c->batch) {
		struct edit *e = c->batch;

		c->batch = e->next;
		done(e, c->server, true);
	}
	commit_kick(r, c->server);
	take_news(r);
	free(c);
}

void commit_event(const struct event *e)
{
	struct commit *c = e->what;

	if (e->kind == EVENT_PUT) {
		put(c);
	} else if (e->kind == EVENT_GET) {
		c->after = news_of(&world.truth, c->server);
		later(c, EVENT_ANSWER, GET_US / 2);
	} else {
		answer(c);
	}
}
