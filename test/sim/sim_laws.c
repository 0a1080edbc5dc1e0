/* SPDX-License-Identifier: Apache-2.0 */
/* sim: the laws that each write must keep, and what the world owes when nothing fails. What they
 * know comes from the store and from the world outside the replicas alone. */
#include "test/sim/sim_view.h"

#include <stdio.h>
#include <string.h>

/* Where nothing fails: a leader is there by then; a claim has ended so long after its pod, after a
 * create that came to nothing. */
#define LED_FROM (40 * SECOND)
#define ENDED_US (15 * SECOND)
#define EXPIRED_US (60 * SECOND)
/* Rule R13: behind the grace period of a pod that vanished. */
#define MARGIN_US (15 * SECOND)
/* Rule R7: a leader is there by then, and has taken what is too much. */
#define TRIMMED_US (40 * SECOND)
/* Rule R16: a watch from a version that a restore of etcd has taken back is silent for so long
 * before it is begun anew. */
#define SILENT_US (90 * SECOND)
/* Rule R12: for so long the replicas know that a namespace's pods never came; what has stood for so
 * long they all have seen. */
#define PHANTOM_US (595 * SECOND)
#define SEEN_US (5 * SECOND)

static struct view before;
static uint64_t pool_most; /* bytes that the pool ever had */
unsigned pending_share;
bool pods_never_came;
size_t at_once;
int64_t pool_shaped_at;

/* ---- after each write ---- */

static void check_promises(const char *who, const char *what)
{
	for (int i = 0; i < n_attempts; i++)
		if (must_hold(&attempts[i]) && !holds_whole(i))
			sim_fail(attempts[i].vanished_at ? "linger" : "held",
				"%s %s, and u%d (%s), which was told yes and %s, has no whole "
				"claim any more",
				who, what, i, attempts[i].name,
				attempts[i].vanished_at ? "still runs, deleted by force"
				: attempts[i].stored_at ? "lives"
							: "may still be stored");
}

void laws_before_write(const struct object *o)
{
	before = *view_of(o);
	usage_before_write(o);
}

const struct view *before_view(const struct object *o)
{
	(void)o;
	return &before;
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

/* What this write has brought to this GPU for pods that were adopted: behind its promises, whose
 * room it need not leave (R7). */
static uint64_t adopted_now(const struct view *v, int gpu)
{
	uint64_t sum = 0;

	for (int k = 0; k < v->n_claims; k++) {
		const struct seen_claim *c = &v->claims[k];

		if (c->state != 'a' || !grew(c, gpu, v->gpus[gpu].id))
			continue;
		for (unsigned p = 0; p < c->n_parts; p++)
			sum += c->parts[p].gpu == gpu ? c->parts[p].bytes : 0;
	}
	return sum;
}

static void check_sums(const struct object *o, const char *who)
{
	const struct view *v = view_of(o);

	for (int i = 0; i < v->n_gpus; i++) {
		uint64_t sum = sum_of(v, i) - adopted_now(v, i), room = v->gpus[i].bytes;
		int old = gpu_of(&before, v->gpus[i].id);

		/* One write may hold a claim and, behind it, what makes the GPU smaller or an
		 * adoption: as if there had been two (R10). */
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

/* Rule R7: only a pod to which something has happened is adopted, and on a GPU without room only if
 * no other will do. */
static void check_adoption(const struct object *o, const struct seen_claim *c, const char *who)
{
	const struct attempt *a = &attempts[c->who];
	const struct seen_claim *was = claim_of(&before, c->who);
	const struct view *v = view_of(o);

	if (!was && a->gated)
		sim_fail("adoption", "%s adopted u%d (%s) on %s, which waits behind its gate", who,
			c->who, a->name, o->name);
	if ((!was || was->state != 'a') && !a->late)
		sim_fail("adoption", "%s adopted u%d (%s) on %s, and nothing had happened to it",
			who, c->who, a->name, o->name);
	/* A restore of etcd brings back pods that have ended, which nobody has looked for a place
	 * for. */
	for (int i = 0; !a->no_place && !a->ended_at && i < v->n_gpus; i++)
		if (sum_of(v, i) > v->gpus[i].bytes && grew(c, i, v->gpus[i].id))
			sim_fail("adoption",
				"%s adopted u%d (%s) on %s of %s beyond its bytes, and at every "
				"moment there was room for it",
				who, c->who, a->name, v->gpus[i].id, o->name);
}

/* Rule R12, where nothing fails: a namespace whose pods never came holds no more pending than its
 * part, as far as everybody knows. */
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
	/* The whole pool is no bound: claims may be more than it where an administrator has shrunk
	 * a GPU. */
	if (told && pending_share < 100 && held > 0 &&
		held + want > pool_most / 100 * pending_share)
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

		if (before.claims[i].state != 'p' || !a->yes_at || a->stored_at ||
			claim_of(view_of(o), before.claims[i].who))
			continue;
		((struct view *)o->view)->phantom_at = sim_now();
		pods_never_came = true;
	}
}

/* Nobody who comes in takes what is kept for another. A GPU that the same write makes smaller had
 * room beside that when this one was added, perhaps. */
static void check_kept(const struct object *o, const struct seen_claim *c, const char *who)
{
	const struct view *v = view_of(o);

	for (int i = 0; c->state != 'a' && i < v->n_gpus; i++) {
		int old = gpu_of(&before, v->gpus[i].id);

		if (old >= 0 && before.gpus[old].bytes <= v->gpus[i].bytes &&
			grew(c, i, v->gpus[i].id))
			laws_kept(
				o, c->who, i, kept_of(&before, old, c->who), c->state == 'p', who);
	}
}

static void check_claims(struct object *o, const char *who)
{
	struct view *v = o->view;

	for (int i = 0; i < v->n_claims; i++) {
		const struct seen_claim *c = &v->claims[i];
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
		if (attempts[c->who].gang && holds_whole(c->who))
			attempts[c->who].had_whole = true;
		if (strcmp(who, "admin") == 0)
			continue;
		if (attempts[c->who].gang)
			gang_seat(c, who);
		if (!was)
			caps_after_write(&attempts[c->who], c->state == 'a', who);
		if (!was && (c->state == 'p' || attempts[c->who].gated))
			laws_fresh(o, who);
		if (!was && attempts[c->who].gated && attempts[c->who].foreign &&
			!attempts[c->who].late)
			sim_fail("turn", "%s put u%d on %s, which waits for another's gate, too",
				who, c->who, o->name);
		if (c->state == 'a')
			check_adoption(o, c, who);
		check_kept(o, c, who);
		/* One write may bring a claim and then close the server. */
		if (!was && c->state != 'a' && !v->takes && !before.takes && before.n_gpus > 0)
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

static bool same_shape(const struct view *x, const struct view *y)
{
	return x->takes == y->takes && x->n_gpus == y->n_gpus &&
	       memcmp(x->gpus, y->gpus, sizeof(x->gpus)) == 0;
}

void laws_after_write(struct object *o, const char *who)
{
	bool by_hand = strcmp(who, "admin") == 0;

	if (before.future && !view_of(o)->future)
		sim_fail("skew", "%s wrote the status of %s without a member that it does not know",
			who, o->name);
	if (!by_hand)
		check_sums(o, who);
	if (by_hand || !same_shape(&before, view_of(o)))
		pool_shaped_at = sim_now();
	if (before.n_kept != view_of(o)->n_kept ||
		memcmp(before.kept, view_of(o)->kept, sizeof(before.kept)) != 0)
		((struct view *)o->view)->kept_since = sim_now();
	check_claims(o, who);
	note_phantoms(o);
	usage_after_write(o, who);
	check_promises(who, "wrote");
	note_room();
}

void laws_after_removal(const struct object *o)
{
	const struct view *v = view_of(o);
	int n = 0;

	pool_shaped_at = sim_now();
	/* Pods that lived before it was opened are adopted there all the same (R7), and elsewhere
	 * when it goes. */
	for (int i = 0; i < v->n_claims; i++)
		n += v->opened || v->claims[i].state != 'a';
	if (n > 0)
		sim_fail("finalizer", "the server %s is gone, and %d claims with it", o->name, n);
	usage_after_removal(o);
	note_room();
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

			int64_t most = a->stored_at ? ENDED_US : EXPIRED_US;

			if (a->dead_at &&
				sim_now() - dead > most + (a->vanished_at ? MARGIN_US : 0))
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
		if (v->n_kept > 0)
			(void)snprintf(out, sizeof(out),
				"the server %s keeps room for u%d, and nobody waits", o->name,
				v->kept[0].who);
		if (!o->deleting && (v->n_gpus == 0 || cJSON_GetArraySize(store_at(o->doc,
							       "metadata", "finalizers")) == 0))
			(void)snprintf(out, sizeof(out), "the server %s should be ready and is not",
				o->name);
		if (usage_owed(o))
			(void)snprintf(out, sizeof(out),
				"what is used of the server %s is not counted, or not stored",
				o->name);
		if (o->deleting && v->n_claims == 0)
			(void)snprintf(out, sizeof(out),
				"the server %s is deleted, has no claims, and is still there",
				o->name);
	}
	caps_owed(out, sizeof(out));
	for (int i = 0; i < n_attempts; i++) {
		const struct attempt *a = &attempts[i];

		if (a->stored_at && !a->ended_at && (a->more_since || !holds_whole(i)))
			(void)snprintf(out, sizeof(out), "u%d (%s) lives and has %s", i, a->name,
				a->more_since ? "more than it asks for" : "no whole claim");
	}
	return out;
}

void laws_calm(int64_t since)
{
	int64_t most = TRIMMED_US + (store.epoch > 0 ? SILENT_US : 0);

	for (int i = 0; i < n_attempts; i++) {
		const struct attempt *a = &attempts[i];
		int64_t from = a->more_since > since ? a->more_since : since;

		if (since && a->more_since && !a->ended_at && sim_now() - from > most)
			sim_fail("trimmed",
				"u%d (%s) asks for %u GPUs and holds parts of %u for %.1f s", i,
				a->name, a->shape->amount, parts_of(i),
				(double)(sim_now() - from) / 1e6);
	}
}
