/* SPDX-License-Identifier: Apache-2.0 */
/* sim: what is asked of a review, and what must be known of each attempt for that. */
#include "test/sim/sim_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "webhook/core/pod/late.h"

/* A create lives at most so long in an API server. */
#define CREATE_US (34 * SECOND)
/* Every replica has read the pool by then. */
#define READ_FROM (10 * SECOND)
/* Where only lists fail, whoever has had room for so long is admitted. */
#define ROOM_US (5 * SECOND / 2)
/* And nobody is sent away before his time is over: of five seconds some remain for the answer. */
#define AWAY_US (3 * SECOND)

struct attempt attempts[ATTEMPTS_MAX];
int n_attempts;
enum sky sky;

/* ---- attempts ---- */

struct attempt *laws_attempt(const struct shape *shape, const char *name)
{
	struct attempt *a = &attempts[n_attempts];

	if (n_attempts == ATTEMPTS_MAX)
		sim_fail("simulator", "more than %d pods", ATTEMPTS_MAX);
	*a = (struct attempt){.shape = shape, .namespace = "ml"};
	(void)snprintf(a->uid, sizeof(a->uid), "20000000-0000-4000-8000-%012x", n_attempts++);
	(void)snprintf(a->name, sizeof(a->name), "%s", name);
	sim_result->pods++;
	return a;
}

static int index_of(const struct attempt *a)
{
	return (int)(a - attempts);
}

bool must_hold(const struct attempt *a)
{
	if (!(a->waits ? a->let_go_at : a->yes_at) || a->ended_at || a->late)
		return false;
	return a->stored_at || (!a->dropped_at && sim_now() <= a->yes_at + CREATE_US);
}

/* Would it fit now, by what really is there? A pod of one container may be spread over servers. */
static bool fits(const struct attempt *a)
{
	unsigned n = 0;

	for (struct object *o = store_first(SERVERS); o; o = store_next(o)) {
		const struct view *v = view_of(o);

		for (int i = 0; v->takes && !has_older(o) && i < v->n_gpus; i++) {
			uint64_t sum = sum_of(v, i) + kept_of(v, i, index_of(a)),
				 want = v->gpus[i].bytes * a->shape->percent / 100;

			n += v->gpus[i].fit && sum <= v->gpus[i].bytes &&
			     v->gpus[i].bytes - sum >= want;
		}
	}
	return n >= a->shape->amount;
}

static void note_fit(struct attempt *a)
{
	if (!fits(a)) {
		a->was_full = true;
		a->fits_since = 0;
	} else if (!a->fits_since) {
		a->fits_since = sim_now();
	}
}

bool laws_could_ever(const struct attempt *a)
{
	unsigned n = 0;

	for (struct object *o = store_first(SERVERS); o; o = store_next(o))
		for (int i = 0; view_of(o)->takes && !has_older(o) && i < view_of(o)->n_gpus; i++)
			n += view_of(o)->gpus[i].fit;
	return n >= a->shape->amount;
}

/* Is that server in "gpu-00/gpu-0,gpu-01/gpu-1"? All are where the pod was told no place. */
static bool may_use(const char *place, const char *server)
{
	size_t n = strlen(server);
	const char *at = place;

	while (at && (strncmp(at, server, n) != 0 || at[n] != '/')) {
		at = strchr(at, ',');
		at = at ? at + 1 : NULL;
	}
	return at || !place;
}

/* Would it, without what it holds, have room on GPUs of whatever kind? It runs already: what is
 * closed or unfit serves as well, but only where it was told to be (R7). */
static bool has_place(const struct attempt *a)
{
	const struct object *pod = a->waits ? pod_of(a) : NULL;
	const char *place = pod ? cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(
					  store_at(pod->doc, "metadata", "annotations"), ANN_PLACE))
				: NULL;
	unsigned n = 0;

	for (struct object *o = store_first(SERVERS); o; o = store_next(o)) {
		const struct view *v = view_of(o);
		const struct seen_claim *own = claim_of(v, (int)(a - attempts));

		if (!may_use(place, o->name))
			continue;
		for (int i = 0; !o->deleting && i < v->n_gpus; i++) {
			uint64_t bytes = v->gpus[i].bytes, sum = sum_of(v, i);

			for (unsigned k = 0; own && k < own->n_parts; k++)
				sum -= own->parts[k].gpu == i ? own->parts[k].bytes : 0;
			n += !v->gpus[i].missing && sum <= bytes &&
			     bytes - sum >= bytes * a->shape->percent / 100;
		}
	}
	return n >= a->shape->amount;
}

static void note_place(struct attempt *a)
{
	int who = index_of(a);
	unsigned parts = parts_of(who);
	bool whole = holds_whole(who);
	const struct object *o = a->turn_at ? pod_of(a) : NULL;

	if (whole && parts < a->shape->amount && !a->lost)
		sim_fail("half", "the claim of u%d (%s) looks whole and has %u GPUs of %u", who,
			a->name, parts, a->shape->amount);
	a->more_since = parts <= a->shape->amount ? 0 : a->more_since ? a->more_since : sim_now();
	if (whole && a->gated)
		laws_turn(a);
	/* of a gang it may be taken back, and a restore of etcd takes any */
	else if (a->gated && parts == 0 && o && !o->deleting)
		a->turn_at = 0;
	if (whole)
		a->no_place = false;
	else
		a->no_place = a->no_place || !has_place(a);
}

void note_room(void)
{
	for (int i = 0; i < n_attempts; i++) {
		if (attempts[i].reviews > 0 || attempts[i].gated)
			note_fit(&attempts[i]);
		if (attempts[i].stored_at && !attempts[i].ended_at)
			note_place(&attempts[i]);
	}
	laws_shares();
}

/* ---- names ---- */

/* The claim of the pod that has this name, if this replica knows of it. */
static void note_namesake(struct attempt *a, int owner)
{
	const struct object *pod = store_find(PODS, a->namespace, a->name);

	a->namesake = pod && strcmp(pod->uid, a->uid) != 0 ? number_of(pod->uid) : -1;
	a->name_was_taken = a->namesake >= 0;
	a->namesake_since = 0;
	for (struct object *o = store_first(SERVERS); o && a->namesake >= 0; o = store_next(o)) {
		const struct seen_claim *c = claim_of(view_of(o), a->namesake);

		if (c && c->since <= knows[owner] && !a->namesake_since)
			a->namesake_since = c->since;
	}
}

static bool namesake_stands(const struct attempt *a)
{
	const struct object *pod = store_find(PODS, a->namespace, a->name);
	bool held = false;

	for (struct object *o = store_first(SERVERS); o && a->namesake_since; o = store_next(o)) {
		const struct seen_claim *c = claim_of(view_of(o), a->namesake);

		held = held || (c && c->since == a->namesake_since);
	}
	return held && pod && number_of(pod->uid) == a->namesake;
}

void laws_asks(struct attempt *a, uint64_t task)
{
	a->asks = task;
	if (task)
		a->heard = 0;
}

void laws_heard(uint64_t task, const char *path, long status)
{
	const char *at = strstr(path, "/pods/");

	for (int i = n_attempts; at && i-- > 0;)
		if (attempts[i].asks == task && strcmp(at + 6, attempts[i].name) == 0)
			attempts[i].heard = status;
}

void laws_stored(struct attempt *a)
{
	a->stored_at = sim_now();
	a->gated = a->waits;
	if (a->gated)
		note_fit(a);
	note_place(a);
	for (int i = 0; i < n_attempts; i++)
		if (attempts[i].reviews > 0 && strcmp(attempts[i].name, a->name) == 0 &&
			strcmp(attempts[i].namespace, a->namespace) == 0)
			attempts[i].name_was_taken = true;
}

/* ---- reviews ---- */

void laws_review(struct attempt *a, int owner)
{
	a->reviews_ever++;
	if (a->reviews++ > 0) {
		a->reviewed_twice = true;
		return;
	}
	a->was_full = false;
	a->fits_since = 0;
	a->review_at = sim_now();
	note_fit(a);
	note_namesake(a, owner);
}

/* Rule R14: there was room for long enough, and the API server did what it was asked but for lists.
 */
static void check_room(const struct attempt *a, const char *what)
{
	int64_t since = a->fits_since > a->review_at ? a->fits_since : a->review_at;

	/* A cap's count is by such a list, too. */
	if (sky == BAD_LISTS && !caps_bind(a) && a->reviews_ever == 1 && a->fits_since &&
		since > READ_FROM && sim_now() - since >= ROOM_US)
		sim_fail("room", "u%d (%s) had room for %.1f s, and %s", index_of(a), a->name,
			(double)(sim_now() - since) / 1e6, what);
}

void laws_silent(struct attempt *a)
{
	a->reviews--;
	sim_trace(5, "no answer for u%d", index_of(a));
	check_room(a, "was not answered");
}

void laws_yes(struct attempt *a)
{
	a->reviews--;
	sim_result->yes++;
	sim_trace(3, "yes to u%d (%s, %u x %u %%)", index_of(a), a->name, a->shape->amount,
		a->shape->percent);
	if (!a->yes_at)
		a->yes_at = sim_now();
	/* Who waits is promised nothing yet (W1). */
	if (a->restored || a->waits)
		return;
	if (!holds_whole(index_of(a)))
		sim_fail("yes", "u%d (%s) was told yes, and holds no whole claim", index_of(a),
			a->name);
	/* Who has no memory for an answer has heard none. */
	if (!lean_on && a->reviews_ever == 1 && (a->heard == 0 || a->heard == 200) &&
		namesake_stands(a))
		sim_fail("name",
			"u%d was told yes, and its name %s is u%d's, whose claim its replica "
			"knew; the "
			"question for that pod was answered with %ld",
			index_of(a), a->name, a->namesake, a->heard);
}

void laws_no(struct attempt *a, const char *reply)
{
	a->reviews--;
	sim_result->no++;
	sim_trace(4, "no to u%d (%s): %s", index_of(a), a->name, sim_tracing() ? reply : "");
	if (a->restored)
		return;
	if ((strstr(reply, "\"NoCapacity\"") || strstr(reply, "\"NoServer\"")) && !a->was_full &&
		!a->reviewed_twice)
		sim_fail("refusal",
			"u%d (%s) was refused, and at every moment since its review came it would "
			"have fitted: %s",
			index_of(a), a->name, reply);
	if (strstr(reply, "\"AlreadyExists\"")) {
		if (!a->name_was_taken && !a->reviewed_twice)
			sim_fail("name", "u%d was refused, and at no moment its name %s was taken",
				index_of(a), a->name);
		return;
	}
	if (strstr(reply, "\"TooManyPending\"")) {
		/* Who said so may have been deleted a moment ago. */
		if (!pods_never_came && sky == FAIR)
			sim_fail("phantoms", "u%d (%s) was refused, and every pod came: %s",
				index_of(a), a->name, reply);
		return;
	}
	check_room(a, reply);
	if (sky == BAD_LISTS && !caps_bind(a) && a->review_at > READ_FROM &&
		strstr(reply, "\"ApiServerAway\"") && sim_now() - a->review_at < AWAY_US)
		sim_fail("room", "u%d (%s) was sent away after %.1f s: %s", index_of(a), a->name,
			(double)(sim_now() - a->review_at) / 1e6, reply);
}

void laws_claim_lost(const char *uid)
{
	struct attempt *a = &attempts[number_of(uid)];

	a->late = a->lost = true;
	a->restored = a->restored || a->reviews > 0;
}

bool laws_vanish(struct attempt *a)
{
	bool seen = false;

	for (struct object *o = store_first(SERVERS); o; o = store_next(o)) {
		const struct seen_claim *c = claim_of(view_of(o), index_of(a));

		seen = seen || (c && c->state != 'p');
	}
	a->vanished_at = sim_now();
	return seen;
}

void laws_dead(struct attempt *a)
{
	a->gated = false;
	if (!a->dead_at)
		a->dead_at = sim_now();
}

/* Whoever was told yes behind the backup has lost his claim, or one that he has given up is back
 * (R7 names the event). */
void laws_restored(void)
{
	memset(knows, 0, sizeof(knows));
	for (int i = 0; i < n_attempts; i++) {
		struct attempt *a = &attempts[i];

		a->restored = a->restored || a->reviews > 0;
		a->late = true;
		a->gated = false;
		if (a->ended_at || a->dropped_at)
			continue;
		if (a->stored_at && !pods_has(a)) {
			a->ended_at = sim_now();
			laws_dead(a);
		}
	}
	for (struct object *o = store_first(PODS); o; o = store_next(o)) {
		struct attempt *a = &attempts[number_of(o->uid)];

		a->gated = a->waits && !a->ended_at && pod_is_held(o->doc);
		a->foreign = a->waits && pod_has_foreign(o->doc);
		pods_is_back(a);
	}
}

uint64_t laws_state(void)
{
	uint64_t state = 0;

	for (int i = 0; i < n_attempts; i++) {
		const struct attempt *a = &attempts[i];
		const int64_t all[] = {a->yes_at, a->stored_at, a->ended_at, a->dropped_at,
			a->dead_at, a->vanished_at, a->late, a->reviewed_twice, a->reviews,
			a->reviews_ever, a->review_at, a->was_full, a->fits_since,
			a->name_was_taken, a->no_place, a->more_since, a->gated, a->namesake,
			(int64_t)a->namesake_since, a->heard};

		for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++)
			state = (state ^ (uint64_t)all[k]) * UINT64_C(0x9E3779B97F4A7C15);
	}
	return state;
}
