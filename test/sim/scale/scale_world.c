/* SPDX-License-Identifier: Apache-2.0 */
/* sim/scale: the API server's truth, what replicas believe of it, and time. */
#include <stdlib.h>
#include <string.h>

#include "test/sim/scale/scale.h"

struct world world;

void world_note(uint64_t what, uint64_t of)
{
	struct tally *t = &world.tally;

	for (int i = 0; i < 3; i++) {
		t->hash ^= i == 0 ? what : i == 1 ? of : (uint64_t)world.now_us;
		t->hash *= 0x100000001b3u;
	}
}

struct news news_of(const struct state *s, uint32_t server)
{
	struct news n = {
		.server = server, .version = s->version[server], .n_claims = s->n_claims[server]};

	memcpy(n.claimed, s->claimed + (size_t)server * GPUS, sizeof(n.claimed));
	return n;
}

/* ---- a replica's picture ---- */

void picture_count(struct replica *r, uint32_t server)
{
	size_t first = (size_t)server * GPUS;
	uint64_t before[GPUS];
	uint32_t n = r->n_claims[server];
	bool less;

	memcpy(before, r->claimed + first, sizeof(before));
	memcpy(r->claimed + first, r->committed.claimed + first, sizeof(before));
	r->n_claims[server] = r->committed.n_claims[server];
	for (const struct reservation *s = r->entries[server].reserved; s; s = s->next) {
		if (s->landed && s->landed <= r->committed.version[server])
			continue;
		for (size_t i = 0; i < s->pod->n_parts; i++)
			if (s->pod->parts[i] / GPUS == server)
				r->claimed[s->pod->parts[i]] += pod_bytes(world.pool, s->pod);
		r->n_claims[server]++;
	}
	less = r->n_claims[server] < n;
	for (size_t g = 0; g < GPUS; g++)
		less = less || r->claimed[first + g] < before[g];
	r->room += less;
}

void picture_put(struct replica *r, const struct news *n)
{
	if (n->version <= r->committed.version[n->server])
		return;
	r->committed.version[n->server] = n->version;
	r->committed.n_claims[n->server] = n->n_claims;
	memcpy(r->committed.claimed + (size_t)n->server * GPUS, n->claimed, sizeof(n->claimed));
	picture_count(r, n->server);
}

void picture_watch(struct replica *r)
{
	struct news *n = r->watch;

	r->watch = n->next;
	if (r->watch)
		event_push((struct event){
			.at_us = r->watch->at_us, .kind = EVENT_WATCH, .replica = r->number});
	picture_put(r, n);
	free(n);
	take_news(r);
}

void world_room(uint32_t server, int sign)
{
	uint64_t bytes = world.pool->gpu_bytes;

	for (size_t g = 0; g < GPUS; g++) {
		uint64_t claimed = world.truth.claimed[(size_t)server * GPUS + g];
		uint64_t free_bytes = bytes - claimed;

		if (claimed > bytes)
			world_law("a GPU is promised beyond its bytes");
		/* Parts are whole percents, each less than a byte short. */
		world.room[(free_bytes * 100 + bytes / 2) / bytes] += sign > 0 ? 1u : UINT32_MAX;
	}
}

/* A watch tells everything in its order. */
void world_tell(uint32_t server)
{
	for (uint32_t i = 0; i < world.set.replicas; i++) {
		struct replica *r = &world.replicas[i];
		struct news *n = malloc(sizeof(*n)), *last = r->watch ? r->watch_last : NULL;
		int64_t at = world.now_us + MS + chance_wait(&world.chance, world.set.watch_us);

		if (!n)
			abort();
		*n = news_of(&world.truth, server);
		n->at_us = last && last->at_us > at ? last->at_us : at;
		*(last ? &last->next : &r->watch) = n;
		r->watch_last = n;
		if (!last)
			event_push((struct event){
				.at_us = n->at_us, .kind = EVENT_WATCH, .replica = i});
	}
}

/* ---- the run ---- */

static void replica_begin(struct replica *r, uint32_t number)
{
	const struct pool *p = world.pool;

	*r = (struct replica){.number = number, .committed = state_new(p), .list = state_new(p)};
	state_copy(p, &r->committed, &world.truth);
	r->claimed = calloc(p->inv.n_gpus, sizeof(*r->claimed));
	r->n_claims = calloc(p->inv.n_servers, sizeof(*r->n_claims));
	r->elsewhere = calloc(p->inv.n_servers, sizeof(*r->elsewhere));
	r->entries = calloc(p->inv.n_servers, sizeof(*r->entries));
	if (!r->claimed || !r->n_claims || !r->elsewhere || !r->entries)
		abort();
	r->list_began_us = -DAY;
	for (uint32_t i = 0; i < p->inv.n_servers; i++) {
		r->entries[i].end = &r->entries[i].queue;
		picture_count(r, i);
	}
}

static void replica_end(struct replica *r)
{
	while (r->watch) {
		struct news *n = r->watch;

		r->watch = n->next;
		free(n);
	}
	free(r->committed.claimed);
	free(r->committed.n_claims);
	free(r->committed.version);
	free(r->list.claimed);
	free(r->list.n_claims);
	free(r->list.version);
	free(r->claimed);
	free(r->n_claims);
	free(r->elsewhere);
	free(r->entries);
}

void world_begin(
	const struct settings *set, struct pool *p, struct day *d, const struct state *truth)
{
	world = (struct world){.set = *set, .pool = p, .day = d, .truth = state_new(p)};
	world.chance.state = set->seed ^ 0x5ca1e;
	world.tally.hash = 0xcbf29ce484222325u;
	world.tally.answer_ms = calloc(d->n + 1, sizeof(*world.tally.answer_ms));
	world.binds = calloc(p->inv.n_servers, sizeof(*world.binds));
	if (!world.tally.answer_ms || !world.binds)
		abort();
	state_copy(p, &world.truth, truth);
	for (uint32_t i = 0; i < p->inv.n_servers; i++)
		world_room(i, 1);
	for (uint32_t i = 0; i < set->replicas; i++)
		replica_begin(&world.replicas[i], i);
	for (size_t i = 0; i < d->n; i++) {
		struct pod *pod = &d->pods[i];

		if (i >= d->n_standing) {
			pod->state = POD_TO_COME;
			pod->n_parts = 0;
		} else if (pod->n_parts > 0) {
			pod->state = POD_LIVES;
			crowd_add(&world.crowd, pod, 1);
			event_push((struct event){
				.at_us = pod->life_us, .kind = EVENT_END, .what = pod});
		}
	}
	event_push((struct event){.at_us = 0, .kind = EVENT_MINUTE});
	event_push((struct event){.at_us = 0, .kind = EVENT_ROUND});
}

void world_end(void)
{
	for (uint32_t i = 0; i < world.set.replicas; i++)
		replica_end(&world.replicas[i]);
	free(world.truth.claimed);
	free(world.truth.n_claims);
	free(world.truth.version);
	free(world.ends);
	free(world.tally.answer_ms);
	free(world.binds);
	event_clear();
}

void world_law(const char *broken)
{
	(void)fprintf(stderr, "sim-scale: %s, %lld s after midnight, %u replicas, seed %llu\n",
		broken, (long long)(world.now_us / SECOND), world.set.replicas,
		(unsigned long long)world.set.seed);
	exit(1);
}

/* Who lives holds what he was promised. */
static void minute(void)
{
	struct minute *m = &world.tally.minutes[world.now_us / MINUTE];
	size_t n = world.pool->inv.n_gpus, idle = 0;
	uint64_t total = 0;

	for (size_t i = 0; i < n; i++) {
		idle += world.truth.claimed[i] == 0;
		total += world.truth.claimed[i];
	}
	/* A part of a GPU is a whole number of bytes, so that 20 of them may lack 20. */
	if (total + 20 * n < world.crowd.percent * (world.pool->gpu_bytes / 100))
		world_law("pods live that hold no claim");
	m->idle = (double)idle / (double)n;
	m->load = (double)world.crowd.percent / ((double)n * 100);
	if (world.now_us + MINUTE < DAY)
		event_push((struct event){.at_us = world.now_us + MINUTE, .kind = EVENT_MINUTE});
}

static void happens(const struct event *e)
{
	switch (e->kind) {
	case EVENT_PUT:
	case EVENT_ANSWER:
	case EVENT_GET:
		commit_event(e);
		break;
	case EVENT_WATCH:
		picture_watch(&world.replicas[e->replica]);
		break;
	case EVENT_LIST_BEGIN:
	case EVENT_LIST:
	case EVENT_LISTED:
		list_event(e);
		break;
	case EVENT_LOOK:
		take_look(e);
		break;
	case EVENT_SEEN:
		leader_seen(e->what);
		break;
	case EVENT_END:
		leader_ended(e->what);
		break;
	case EVENT_ROUND:
		leader_round();
		break;
	case EVENT_MINUTE:
		minute();
		break;
	}
}

void world_run(void)
{
	size_t i = world.day->n_standing;
	struct event e;

	for (;;) {
		int64_t next = event_next_us();
		struct pod *pod = i < world.day->n ? &world.day->pods[i] : NULL;

		if (pod && pod->comes_us <= next) {
			world.now_us = pod->comes_us;
			pod->state = POD_WAITS;
			i++;
			take_begin(&world.replicas[chance_next(&world.chance) % world.set.replicas],
				pod);
			continue;
		}
		/* The day is over once its last reviews are. */
		if (next > DAY + MINUTE || !event_pop(&e))
			return;
		world.now_us = e.at_us;
		happens(&e);
	}
}
