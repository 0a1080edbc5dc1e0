/* SPDX-License-Identifier: Apache-2.0 */
/* sim: the laws. What they know comes from the store and from the world outside the replicas alone. */
#include "test/sim/sim_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPUS_MAX 16
#define CLAIMS_MAX 128
#define SPAN_MAX 6
/* A create lives at most so long in an API server. */
#define CREATE_US (34 * SECOND)
/* Every replica has read the pool by then. */
#define READ_FROM (10 * SECOND)
/* Where only lists fail, whoever has had room for so long is admitted. */
#define ROOM_US (5 * SECOND / 2)
/* And nobody is sent away before his time is over: of five seconds some remain for the answer. */
#define AWAY_US (3 * SECOND)
/* Where nothing fails: a leader is there by then; a claim has ended so long after its pod, after a create that came to nothing. */
#define LED_FROM (40 * SECOND)
#define ENDED_US (15 * SECOND)
#define EXPIRED_US (60 * SECOND)
/* Rule R12: for so long the replicas know that a namespace's pods never came; what has stood for so long they all have seen. */
#define PHANTOM_US (595 * SECOND)
#define SEEN_US (5 * SECOND)

struct part {
	int gpu;
	uint64_t bytes;
};

struct seen_claim {
	int who; /* number of the attempt */
	char state;
	bool open; /* not all of it is written yet (R19) */
	unsigned n_servers, n_parts;
	char servers[SPAN_MAX][24];
	struct part parts[GPUS_MAX];
	uint64_t since; /* the version that brought it */
	int64_t at;     /* when that was */
};

struct view {
	bool takes;  /* it carries the finalizer, and is not being deleted or drained */
	bool opened; /* it has carried the finalizer */
	char address[24];
	char created[24]; /* what is earlier comes first */
	bool future;      /* it has a member of a later version's (R11) */
	int64_t phantom_at; /* a claim ended here last whose pod was let in and never came; 0: none did */
	int n_gpus, n_claims;
	struct {
		char id[16];
		uint64_t bytes;
		bool fit;
	} gpus[GPUS_MAX];
	struct seen_claim claims[CLAIMS_MAX];
};

static struct attempt attempts[ATTEMPTS_MAX];
static int n_attempts;
static struct view before;
static uint64_t pool_most; /* bytes that the pool ever had */
enum sky sky;
unsigned pending_share;

/* ---- what a status says ---- */

static int number_of(const char *uid)
{
	return uid && strlen(uid) == 36 && uid[0] == '2' ? (int)strtol(uid + 24, NULL, 16) : -1;
}

static uint64_t number(cJSON *o, const char *name)
{
	return (uint64_t)cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(o, name));
}

static const char *text(cJSON *o, const char *name)
{
	const char *t = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, name));

	return t ? t : "";
}

static int gpu_of(const struct view *v, const char *id)
{
	for (int i = 0; i < v->n_gpus; i++)
		if (strcmp(v->gpus[i].id, id) == 0)
			return i;
	return -1;
}

static void read_claim(struct view *v, cJSON *from)
{
	struct seen_claim *c = &v->claims[v->n_claims];
	cJSON *one;

	if (v->n_claims == CLAIMS_MAX)
		sim_fail("simulator", "more than %d claims on one server", CLAIMS_MAX);
	*c = (struct seen_claim){
		.who = number_of(text(from, "uid")), .state = text(from, "state")[0]};
	if (c->who < 0 || c->who >= n_attempts)
		sim_fail("identity", "a claim is of uid %s, which no pod ever had",
			text(from, "uid"));
	c->open = cJSON_IsTrue(store_at(from, "open", NULL));
	cJSON_ArrayForEach(one, store_at(from, "servers", NULL)) if (c->n_servers < SPAN_MAX)(void)
		snprintf(c->servers[c->n_servers++], sizeof(c->servers[0]), "%s", one->valuestring);
	cJSON_ArrayForEach(one, store_at(from, "gpus", NULL)) if (c->n_parts < GPUS_MAX)
		c->parts[c->n_parts++] =
		(struct part){gpu_of(v, text(one, "id")), number(one, "bytes")};
	v->n_claims++;
}

void laws_read(struct object *o)
{
	struct view *v = o->view;
	cJSON *status = store_at(o->doc, "status", NULL), *one;
	bool finalized;

	if (o->kind != SERVERS)
		return;
	if (!v)
		o->view = v = calloc(1, sizeof(*v));
	v->n_gpus = v->n_claims = 0;
	(void)snprintf(v->address, sizeof(v->address), "%s",
		text(store_at(o->doc, "spec", NULL), "address"));
	(void)snprintf(v->created, sizeof(v->created), "%s",
		text(store_at(o->doc, "metadata", NULL), "creationTimestamp"));
	v->future = store_at(status, "future", NULL) != NULL;
	finalized = cJSON_GetArraySize(store_at(o->doc, "metadata", "finalizers")) > 0;
	v->opened = v->opened || finalized;
	v->takes = finalized && !o->deleting && !cJSON_IsTrue(store_at(o->doc, "spec", "drain"));
	cJSON_ArrayForEach(one, store_at(status, "gpus", NULL))
	{
		if (v->n_gpus == GPUS_MAX)
			sim_fail("simulator", "more than %d GPUs on one server", GPUS_MAX);
		(void)snprintf(v->gpus[v->n_gpus].id, sizeof(v->gpus[0].id), "%s", text(one, "id"));
		v->gpus[v->n_gpus].fit =
			cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(one, "fit")) &&
			!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(one, "missing"));
		v->gpus[v->n_gpus++].bytes = number(one, "memory");
	}
	cJSON_ArrayForEach(one, store_at(status, "claims", NULL)) read_claim(v, one);
}

static const struct view *view_of(const struct object *o)
{
	return o->view;
}

/* Is there an older server with its address, that is to say, the same machine? */
static bool has_older(const struct object *o)
{
	for (struct object *p = store_first(SERVERS); p; p = store_next(p))
		if (p != o && strcmp(view_of(p)->address, view_of(o)->address) == 0 &&
			strcmp(view_of(p)->created, view_of(o)->created) < 0)
			return true;
	return false;
}

static uint64_t sum_of(const struct view *v, int gpu, bool *ret_adopted)
{
	uint64_t sum = 0;

	*ret_adopted = false;
	for (int i = 0; i < v->n_claims; i++)
		for (unsigned k = 0; k < v->claims[i].n_parts; k++)
			if (v->claims[i].parts[k].gpu == gpu) {
				sum += v->claims[i].parts[k].bytes;
				*ret_adopted = *ret_adopted || v->claims[i].state == 'a';
			}
	return sum;
}

static const struct seen_claim *claim_of(const struct view *v, int who)
{
	for (int i = 0; i < v->n_claims; i++)
		if (v->claims[i].who == who)
			return &v->claims[i];
	return NULL;
}

const char *laws_say(const struct object *o)
{
	static char out[1500];
	const struct view *v = view_of(o);
	size_t n = (size_t)snprintf(out, sizeof(out), "%s", v->takes ? "" : "(closed)");

	for (int i = 0; i < v->n_gpus && n < sizeof(out) - 200; i++)
		n += (size_t)snprintf(out + n, sizeof(out) - n, " %s:%lluM", v->gpus[i].id,
			(unsigned long long)(v->gpus[i].bytes / 1000000));
	for (int i = 0; i < v->n_claims && n < sizeof(out) - 200; i++) {
		n += (size_t)snprintf(
			out + n, sizeof(out) - n, " u%d%c{", v->claims[i].who, v->claims[i].state);
		for (unsigned k = 0; k < v->claims[i].n_parts && n < sizeof(out) - 100; k++)
			n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%d:%lluM", k ? "," : "",
				v->claims[i].parts[k].gpu,
				(unsigned long long)(v->claims[i].parts[k].bytes / 1000000));
		n += (size_t)snprintf(
			out + n, sizeof(out) - n, "}%s", v->claims[i].n_servers > 1 ? "+" : "");
	}
	return out;
}

/* ---- attempts ---- */

struct attempt *laws_attempt(const struct shape *shape, const char *name)
{
	struct attempt *a = &attempts[n_attempts];

	if (n_attempts == ATTEMPTS_MAX)
		sim_fail("simulator", "more than %d pods", ATTEMPTS_MAX);
	*a = (struct attempt){.shape = shape};
	(void)snprintf(a->uid, sizeof(a->uid), "20000000-0000-4000-8000-%012x", n_attempts++);
	(void)snprintf(a->name, sizeof(a->name), "%s", name);
	sim_result->pods++;
	return a;
}

static int index_of(const struct attempt *a)
{
	return (int)(a - attempts);
}

/* Does it hold a claim that is whole: on each server that the claim names, and said to be so? */
static bool holds_whole(int who)
{
	for (struct object *o = store_first(SERVERS); o; o = store_next(o)) {
		const struct seen_claim *c = claim_of(view_of(o), who);
		bool whole = c && c->n_servers > 0;

		for (unsigned i = 0; whole && i < c->n_servers; i++) {
			const struct object *other = store_find(SERVERS, "", c->servers[i]);
			const struct seen_claim *there =
				other ? claim_of(view_of(other), who) : NULL;

			whole = there && !there->open && there->n_servers == c->n_servers &&
				memcmp(there->servers, c->servers, sizeof(c->servers)) == 0;
		}
		if (whole)
			return true;
	}
	return false;
}

/* Has it a right to a claim that was promised? */
static bool must_hold(const struct attempt *a)
{
	if (!a->yes_at || a->ended_at || a->late)
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
			bool adopted;
			uint64_t sum = sum_of(v, i, &adopted),
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

static void note_full(void)
{
	for (int i = 0; i < n_attempts; i++)
		if (attempts[i].reviews > 0)
			note_fit(&attempts[i]);
}

/* ---- names ---- */

/* The claim of the pod that has this name, if this replica knows of it. */
static void note_namesake(struct attempt *a, int owner)
{
	const struct object *pod = store_find(PODS, "ml", a->name);

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
	const struct object *pod = store_find(PODS, "ml", a->name);
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
	for (int i = 0; i < n_attempts; i++)
		if (attempts[i].reviews > 0 && strcmp(attempts[i].name, a->name) == 0)
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

/* Rule R14: there was room for long enough, and the API server did what it was asked but for lists. */
static void check_room(const struct attempt *a, const char *what)
{
	int64_t since = a->fits_since > a->review_at ? a->fits_since : a->review_at;

	if (sky == BAD_LISTS && a->reviews_ever == 1 && a->fits_since && since > READ_FROM &&
		sim_now() - since >= ROOM_US)
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
	if (a->restored)
		return;
	if (!holds_whole(index_of(a)))
		sim_fail("yes", "u%d (%s) was told yes, and holds no whole claim", index_of(a),
			a->name);
	if (a->reviews_ever == 1 && (a->heard == 0 || a->heard == 200) && namesake_stands(a))
		sim_fail("name",
			"u%d was told yes, and its name %s is u%d's, whose claim its replica "
			"knew; the "
			"question for that pod was answered with %ld",
			index_of(a), a->name, a->namesake, a->heard);
}

void laws_no(struct attempt *a, const char *reply)
{
	bool told = false;

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
		for (struct object *o = store_first(SERVERS); o; o = store_next(o))
			told = told || view_of(o)->phantom_at;
		if (!told && sky == FAIR)
			sim_fail("phantoms", "u%d (%s) was refused, and every pod came: %s",
				index_of(a), a->name, reply);
		return;
	}
	check_room(a, reply);
	if (sky == BAD_LISTS && a->review_at > READ_FROM && strstr(reply, "\"ApiServerAway\"") &&
		sim_now() - a->review_at < AWAY_US)
		sim_fail("room", "u%d (%s) was sent away after %.1f s: %s", index_of(a), a->name,
			(double)(sim_now() - a->review_at) / 1e6, reply);
}

void laws_claim_lost(const char *uid)
{
	struct attempt *a = &attempts[number_of(uid)];

	a->late = true;
	a->restored = a->restored || a->reviews > 0;
}

void laws_dead(struct attempt *a)
{
	if (!a->dead_at)
		a->dead_at = sim_now();
}

/* Whoever was told yes behind the backup has lost his claim, or one that he has given up is back (R7 names the event). */
void laws_restored(void)
{
	memset(knows, 0, sizeof(knows));
	for (int i = 0; i < n_attempts; i++) {
		struct attempt *a = &attempts[i];

		a->restored = a->restored || a->reviews > 0;
		a->late = true;
		if (a->ended_at || a->dropped_at)
			continue;
		if (a->stored_at && !pods_has(a)) {
			a->ended_at = sim_now();
			laws_dead(a);
		}
	}
	for (struct object *o = store_first(PODS); o; o = store_next(o))
		pods_is_back(&attempts[number_of(o->uid)]);
}

/* ---- after each write ---- */

static void check_promises(const char *who, const char *what)
{
	for (int i = 0; i < n_attempts; i++)
		if (must_hold(&attempts[i]) && !holds_whole(i))
			sim_fail("held",
				"%s %s, and u%d (%s), which was told yes and %s, has no whole "
				"claim any more",
				who, what, i, attempts[i].name,
				attempts[i].stored_at ? "lives" : "may still be stored");
}

void laws_before_write(const struct object *o)
{
	before = *view_of(o);
}

/* Is this claim, or more of it, on this GPU than before? */
static bool grew(const struct seen_claim *c, int gpu, const char *id)
{
	const struct seen_claim *was = claim_of(&before, c->who);
	int old = gpu_of(&before, id);
	uint64_t now_bytes = 0, was_bytes = 0;

	for (unsigned k = 0; k < c->n_parts; k++)
		now_bytes += c->parts[k].gpu == gpu ? c->parts[k].bytes : 0;
	for (unsigned k = 0; was && k < was->n_parts; k++)
		was_bytes += was->parts[k].gpu == old ? was->parts[k].bytes : 0;
	return now_bytes > was_bytes;
}

static void check_sums(const struct object *o, const char *who)
{
	const struct view *v = view_of(o);

	for (int i = 0; i < v->n_gpus; i++) {
		bool adopted;
		uint64_t sum = sum_of(v, i, &adopted), room = v->gpus[i].bytes;
		int old = gpu_of(&before, v->gpus[i].id);

		/* One write may hold a claim and, behind it, what makes the GPU smaller: as if there had been two (R10). */
		if (old >= 0 && before.gpus[old].bytes > room)
			room = before.gpus[old].bytes;
		for (int k = 0; sum > room && k < v->n_claims; k++)
			if (v->claims[k].state != 'a' && grew(&v->claims[k], i, v->gpus[i].id))
				sim_fail("sum",
					"%s promised u%d a part of %s of %s, of whose %llu bytes "
					"%llu are promised",
					who, v->claims[k].who, v->gpus[i].id, o->name,
					(unsigned long long)v->gpus[i].bytes,
					(unsigned long long)sum);
	}
}

/* Rule R12, where nothing fails: a namespace whose pods never came holds no more pending than its part, as far as everybody knows. */
static void check_phantoms(const struct object *o, const struct seen_claim *c, const char *who)
{
	int64_t known = attempts[c->who].review_at - SEEN_US;
	uint64_t held = 0, want = 0, pool = 0;
	bool told = false;

	for (struct object *p = store_first(SERVERS); p; p = store_next(p)) {
		const struct view *v = view_of(p);

		told = told || (v->phantom_at && v->phantom_at < known &&
				       sim_now() < v->phantom_at + PHANTOM_US);
		for (int i = 0; i < v->n_gpus; i++)
			pool += v->gpus[i].bytes;
		for (int i = 0; i < v->n_claims; i++)
			for (unsigned k = 0; k < v->claims[i].n_parts; k++)
				if (v->claims[i].who != c->who && v->claims[i].state == 'p' &&
					v->claims[i].at < known)
					held += v->claims[i].parts[k].bytes;
	}
	for (unsigned k = 0; k < c->n_parts; k++)
		want += c->parts[k].bytes;
	if (pool > pool_most)
		pool_most = pool;
	if (told && held > 0 && held + want > pool_most / 100 * pending_share)
		sim_fail("phantoms",
			"%s put u%d on %s, whose namespace holds %llu bytes for pods that never "
			"came",
			who, c->who, o->name, (unsigned long long)held);
}

/* A claim that was to be waited for has ended. */
static void note_phantoms(struct object *o)
{
	for (int i = 0; i < before.n_claims; i++) {
		const struct attempt *a = &attempts[before.claims[i].who];

		if (before.claims[i].state == 'p' && a->yes_at && !a->stored_at &&
			!claim_of(view_of(o), before.claims[i].who))
			((struct view *)o->view)->phantom_at = sim_now();
	}
}

static void check_claims(struct object *o, const char *who)
{
	struct view *v = o->view;

	for (int i = 0; i < v->n_claims; i++) {
		const struct seen_claim *c = &v->claims[i];
		const struct attempt *a = &attempts[c->who];
		const struct seen_claim *was = claim_of(&before, c->who);

		for (unsigned k = 0; k < c->n_parts; k++)
			if (c->parts[k].gpu < 0)
				sim_fail("shrunk",
					"u%d holds a part of a GPU of %s that its status does not "
					"list",
					c->who, o->name);
		v->claims[i].since = was ? was->since : o->version;
		v->claims[i].at = was ? was->at : sim_now();
		if (claim_of(v, c->who) != c)
			sim_fail("identity", "u%d holds two claims on %s", c->who, o->name);
		if (strcmp(who, "admin") == 0)
			continue;
		if (c->state == 'a' && (!was || was->state != 'a') && !a->late)
			sim_fail("adoption",
				"%s adopted u%d (%s) on %s, and nothing had happened to it", who,
				c->who, a->name, o->name);
		if (!was && c->state != 'a' && !v->takes && before.n_gpus > 0)
			sim_fail("closed", "%s put u%d on %s, which takes no claims", who, c->who,
				o->name);
		if (!was && c->state == 'p' && sky == FAIR)
			check_phantoms(o, c, who);
		if (!was && c->state != 'a' && has_older(o))
			sim_fail("machine",
				"%s put u%d on %s, and an older server has its address, %s", who,
				c->who, o->name, v->address);
	}
}

void laws_after_write(struct object *o, const char *who)
{
	bool by_hand = strcmp(who, "admin") == 0;

	if (before.future && !view_of(o)->future)
		sim_fail("skew", "%s wrote the status of %s without a member that it does not know",
			who, o->name);
	if (!by_hand)
		check_sums(o, who);
	check_claims(o, who);
	note_phantoms(o);
	check_promises(who, "wrote");
	note_full();
}

void laws_after_removal(const struct object *o)
{
	const struct view *v = view_of(o);
	int n = 0;

	/* Pods that lived before it was opened are adopted there all the same (R7), and elsewhere when it goes. */
	for (int i = 0; i < v->n_claims; i++)
		n += v->opened || v->claims[i].state != 'a';
	if (n > 0)
		sim_fail("finalizer", "the server %s is gone, and %d claims with it", o->name, n);
	note_full();
}

uint64_t laws_state(void)
{
	uint64_t state = 0;

	for (int i = 0; i < n_attempts; i++) {
		const struct attempt *a = &attempts[i];
		const int64_t all[] = {a->yes_at, a->stored_at, a->ended_at, a->dropped_at,
			a->dead_at, a->late, a->reviewed_twice, a->reviews, a->reviews_ever,
			a->review_at, a->was_full, a->fits_since, a->name_was_taken, a->namesake,
			(int64_t)a->namesake_since, a->heard};

		for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++)
			state = (state ^ (uint64_t)all[k]) * UINT64_C(0x9E3779B97F4A7C15);
	}
	return state;
}

/* ---- liveness ---- */

void laws_fair(void)
{
	if (sky != FAIR || sim_now() < LED_FROM)
		return;
	for (struct object *o = store_first(SERVERS); o; o = store_next(o))
		for (int i = 0; i < view_of(o)->n_claims; i++) {
			int who = view_of(o)->claims[i].who;
			const struct attempt *a = &attempts[who];
			int64_t dead = a->dead_at > LED_FROM ? a->dead_at : LED_FROM;

			if (a->dead_at && sim_now() - dead > (a->stored_at ? ENDED_US : EXPIRED_US))
				sim_fail("prompt",
					"u%d is dead for %.1f s and still holds a claim on %s, "
					"though nothing went wrong",
					who, (double)(sim_now() - a->dead_at) / 1e6, o->name);
		}
}

const char *laws_owed(void)
{
	static char out[300];

	out[0] = '\0';
	for (struct object *o = store_first(SERVERS); o; o = store_next(o)) {
		const struct view *v = view_of(o);

		for (int i = 0; i < v->n_claims; i++)
			if (attempts[v->claims[i].who].dead_at)
				(void)snprintf(out, sizeof(out),
					"u%d, dead for %.1f s, still holds a claim on %s",
					v->claims[i].who,
					(double)(sim_now() - attempts[v->claims[i].who].dead_at) /
						1e6,
					o->name);
		if (!o->deleting && (v->n_gpus == 0 || cJSON_GetArraySize(store_at(o->doc,
							       "metadata", "finalizers")) == 0))
			(void)snprintf(out, sizeof(out), "the server %s should be ready and is not",
				o->name);
		if (o->deleting && v->n_claims == 0)
			(void)snprintf(out, sizeof(out),
				"the server %s is deleted, has no claims, and is still there",
				o->name);
	}
	for (int i = 0; i < n_attempts; i++)
		if (attempts[i].stored_at && !attempts[i].ended_at && !holds_whole(i))
			(void)snprintf(out, sizeof(out), "u%d (%s) lives and has no whole claim", i,
				attempts[i].name);
	return out;
}
