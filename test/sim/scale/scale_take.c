/* SPDX-License-Identifier: Apache-2.0 */
/* sim/scale: a review's way to its claim as webhook/cluster/ledger/ledger_kube*.c goes it: decide
 * on the picture, reserve, commit server by server, after a conflict decide again; a "no" rests on
 * a list that was begun after the review came (R4), and waits as R14 has it. */
#include <stdlib.h>
#include <string.h>

#include "test/sim/scale/scale.h"

/* The webhook's five seconds less what an answer needs. */
#define DEADLINE_US (4500 * MS)
#define LOOK_AGAIN_US (50 * MS)
#define LIST_EVERY_US (250 * MS)
/* A list carries every server: so long for each of them. */
#define LIST_SERVER_US 50
/* From the review's answer to the pod in the API server. */
#define CREATE_US (10 * MS)

static void decide(struct take *t);

static void look_at(struct take *t, int64_t at_us)
{
	event_push(
		(struct event){.at_us = at_us, .kind = EVENT_LOOK, .stamp = t->stamp, .what = t});
}

static void unreserve(struct take *t)
{
	for (uint32_t i = 0; i < t->n; i++) {
		struct reservation **at = &t->r->entries[t->servers[i]].reserved;

		while (*at != &t->reserved[i])
			at = &(*at)->next;
		*at = t->reserved[i].next;
		t->r->n_reserved--;
		picture_count(t->r, t->servers[i]);
	}
	t->n = 0;
}

static void reserve(struct take *t)
{
	t->n = t->step = 0;
	for (size_t i = 0; i < t->plan.n_parts; i++) {
		uint32_t server = t->plan.parts[i] / GPUS;

		if (t->n > 0 && t->servers[t->n - 1] == server)
			continue;
		t->reserved[t->n] = (struct reservation){
			.next = t->r->entries[server].reserved, .pod = &t->plan};
		t->r->entries[server].reserved = &t->reserved[t->n];
		t->servers[t->n++] = server;
		t->r->n_reserved++;
		picture_count(t->r, server);
	}
}

static void submit(struct take *t, enum edit_kind kind, uint32_t server)
{
	struct edit *e = calloc(1, sizeof(*e));

	if (!e)
		abort();
	*e = (struct edit){.kind = kind, .take = t, .pod = t->pod};
	if (kind == EDIT_REMOVE)
		e->was = t->plan;
	edit_submit(t->r, server, e);
}

/* Is this a moment without room for it? */
static void look_whether_full(struct take *t)
{
	uint32_t n = 0;

	for (unsigned free = t->pod->percent; free <= 100; free++)
		n += world.room[free];
	t->was_full = t->was_full || n < t->pod->amount;
}

void take_truth(void)
{
	for (uint32_t i = 0; i < world.set.replicas; i++)
		for (struct take *t = world.replicas[i].waiting; t; t = t->next)
			look_whether_full(t);
}

/* ---- the end ---- */

static void answered(struct take *t)
{
	world.tally.answer_ms[world.tally.n_answers++] =
		(uint32_t)((world.now_us - t->came_us + MS / 2) / MS);
	world_note(t->pod->state, (uint64_t)(t->pod - world.day->pods));
	free(t);
}

static void admitted(struct take *t)
{
	struct pod *pod = t->pod;

	unreserve(t);
	pod->state = POD_LIVES;
	pod->n_parts = t->plan.n_parts;
	memcpy(pod->parts, t->plan.parts, sizeof(pod->parts));
	crowd_add(&world.crowd, pod, 1);
	world.tally.admitted++;
	event_push((struct event){
		.at_us = world.now_us + CREATE_US + chance_wait(&world.chance, world.set.watch_us),
		.kind = EVENT_SEEN,
		.what = pod});
	event_push((struct event){
		.at_us = world.now_us + CREATE_US + pod->life_us, .kind = EVENT_END, .what = pod});
	answered(t);
}

/* Would all who live, and this pod, fit if they were moved? */
static bool fits_if_moved(const struct pod *pod)
{
	size_t gpus = world.pool->inv.n_gpus;
	struct crowd with = world.crowd;

	world.tally.refused_free += 1 - (double)with.percent / ((double)gpus * 100);
	world.tally.refused_spare += (double)gpus - (double)crowd_gpus(&with);
	crowd_add(&with, pod, 1);
	return crowd_gpus(&with) <= gpus;
}

/* Refused by a list, or too late. A refusal is untrue when there was room at every moment at which
 * the review waited. */
static void refused(struct take *t, bool late)
{
	struct tally *y = &world.tally;
	struct minute *m = &y->minutes[world.now_us < DAY ? world.now_us / MINUTE : MINUTES - 1];
	bool movable = fits_if_moved(t->pod);
	struct pod other = *t->pod;

	t->pod->state = POD_REFUSED;
	t->pod->n_parts = 0;
	y->refused++;
	y->late += late;
	y->movable += movable;
	y->refused_by[t->pod->percent < 100 ? t->pod->percent : 100 + t->pod->amount]++;
	m->refused++;
	m->movable += movable;
	if (!late && pool_find(world.pool, t->r->claimed, t->r->n_claims, 0, &other))
		world_law("a pod is refused that the placement finds GPUs for");
	y->untrue += !late && !t->was_full;
	answered(t);
}

/* ---- waiting ---- */

static void wait_for(struct take *t, int64_t until_us, bool anything)
{
	t->waits = true;
	t->for_anything = anything;
	t->room = t->r->room;
	t->stamp = ++world.stamps;
	t->looks = false;
	t->next = t->r->waiting;
	t->r->waiting = t;
	look_at(t, until_us);
}

static void go_on(struct take *t)
{
	struct take **at = &t->r->waiting;

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	t->waits = false;
	t->stamp = 0;
	if (t->for_anything)
		t->list = 0;
	decide(t);
}

/* May it decide again? Else when to look. */
static bool may_go_on(struct take *t)
{
	if (t->for_anything || t->r->list_good >= t->list)
		return true;
	if (world.now_us >= t->came_us + DEADLINE_US)
		return true;
	return t->r->room != t->room && world.now_us >= t->soon_us;
}

void take_news(struct replica *r)
{
	struct take *list[64];
	size_t n = 0;

	for (struct take *t = r->waiting; t; t = t->next) {
		if (may_go_on(t) && n < sizeof(list) / sizeof(*list))
			list[n++] = t;
		else if (r->room != t->room && !t->looks) {
			t->looks = true;
			look_at(t, t->soon_us);
		}
	}
	while (n > 0)
		go_on(list[--n]);
}

void take_look(const struct event *e)
{
	struct take *t = e->what;

	/* It may have gone on, and even be gone: those that wait are in the list. */
	for (uint32_t i = 0; i < world.set.replicas; i++)
		for (struct take *w = world.replicas[i].waiting; w; w = w->next)
			if (w == t && w->stamp == e->stamp && may_go_on(w)) {
				go_on(w);
				return;
			}
}

/* ---- lists ---- */

static void list_plan(struct replica *r)
{
	int64_t at = r->list_began_us + LIST_EVERY_US;

	if (r->listing || r->list_due || r->list_wanted <= r->list_good)
		return;
	r->list_due = true;
	event_push((struct event){.at_us = at > world.now_us ? at : world.now_us,
		.kind = EVENT_LIST_BEGIN,
		.replica = r->number});
}

void list_event(const struct event *e)
{
	struct replica *r = &world.replicas[e->replica];
	int64_t half = LIST_SERVER_US * (int64_t)world.pool->inv.n_servers / 2;
	struct event next = {.at_us = world.now_us + half, .replica = e->replica};

	if (e->kind == EVENT_LIST_BEGIN) {
		r->list_due = false;
		r->listing = true;
		r->lists_begun++;
		r->list_began_us = world.now_us;
		world.tally.lists++;
		next.kind = EVENT_LIST;
		event_push(next);
	} else if (e->kind == EVENT_LIST) {
		state_copy(world.pool, &r->list, &world.truth);
		next.kind = EVENT_LISTED;
		event_push(next);
	} else {
		for (uint32_t i = 0; i < world.pool->inv.n_servers; i++) {
			struct news n = news_of(&r->list, i);

			picture_put(r, &n);
		}
		r->listing = false;
		r->list_good = r->lists_begun;
		list_plan(r);
		take_news(r);
	}
}

/* ---- the decision ---- */

/* By the picture as it is there is no room. */
static void no_room(struct take *t)
{
	struct replica *r = t->r;

	if (!t->list) {
		t->list = r->list_wanted = r->lists_begun + 1;
		list_plan(r);
	}
	if (r->list_good < t->list) {
		t->soon_us = world.now_us + LOOK_AGAIN_US;
		wait_for(t, t->came_us + DEADLINE_US, false);
		return;
	}
	if (r->n_reserved > 0 &&
		pool_has_room(world.pool, r->committed.claimed, r->committed.n_claims, t->pod)) {
		wait_for(t, world.now_us + LOOK_AGAIN_US, true);
		return;
	}
	refused(t, false);
}

/* Away from servers that another replica writes to, where that costs nothing. */
static bool find(struct take *t)
{
	struct replica *r = t->r;
	size_t n = world.pool->inv.n_servers;
	size_t first = world.now_us < r->spread_until_us ? r->first : 0;

	/* Who waits for room asks often. When it is refused in the end, the placement itself has
	 * said so. */
	if (!pool_has_room(world.pool, r->claimed, r->n_claims, t->pod))
		return false;

	if (world.now_us < r->contended_until_us) {
		memcpy(r->elsewhere, r->n_claims, n * sizeof(*r->elsewhere));
		for (size_t i = 0; i < n; i++)
			if (world.now_us < r->entries[i].contended_until_us)
				r->elsewhere[i] = CLAIMS_PER_SERVER_MAX;
		if (pool_find(world.pool, r->claimed, r->elsewhere, first, &t->plan) &&
			t->plan.parts[0] / GPUS == t->plan.parts[t->plan.n_parts - 1] / GPUS)
			return true;
	}
	if (!pool_find(world.pool, r->claimed, r->n_claims, first, &t->plan))
		world_law("the placement finds no GPUs for a pod that fits");
	return true;
}

static void decide(struct take *t)
{
	if (world.now_us >= t->came_us + DEADLINE_US) {
		refused(t, true);
		return;
	}
	look_whether_full(t);
	t->plan = *t->pod;
	if (!find(t)) {
		no_room(t);
		return;
	}
	world.tally.tries++;
	reserve(t);
	submit(t, EDIT_ADD, t->servers[0]);
}

void take_begin(struct replica *r, struct pod *pod)
{
	struct take *t = calloc(1, sizeof(*t));

	if (!t)
		abort();
	*t = (struct take){.r = r, .pod = pod, .came_us = world.now_us};
	decide(t);
}

void take_done(struct take *t, bool written)
{
	if (written && t->step + 1 < t->n) {
		submit(t, EDIT_ADD, t->servers[++t->step]);
	} else if (written && t->n > 1 && t->step < t->n) {
		/* Rule R19: the first says that the claim is whole. */
		t->step = t->n;
		submit(t, EDIT_WHOLE, t->servers[0]);
	} else if (written) {
		admitted(t);
	} else {
		for (uint32_t i = 0; i < t->step; i++)
			submit(t, EDIT_REMOVE, t->servers[i]);
		unreserve(t);
		t->list = 0;
		decide(t);
	}
}
