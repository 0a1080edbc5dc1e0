/* SPDX-License-Identifier: Apache-2.0 */
/* sim: the laws of pods that wait for their turn (W1 to W7 of waiting). What they know comes from
 * the store and from the world outside the replicas alone. */
#include "test/sim/sim_view.h"

#include <stdio.h>
#include <string.h>

/* Where nothing fails, a leader is there by then. */
#define LED_FROM (40 * SECOND)
/* What has been so for so long every replica has seen, and a round that was begun before it is
 * over. */
#define SEEN_US (10 * SECOND)
/* Room is found, and what is kept is let go, within so long: where nothing fails, and after faults,
 * when a watch may be silent for 90 s (R16). */
#define FAIR_US (20 * SECOND)
#define CALM_US (122 * SECOND)
/* From the end of a pod's life to that of its claim, and a turn. */
#define TURN_US (100 * SECOND)

bool orderly;
int64_t reserve_us;

/* Bytes that a namespace holds, since when it is so many, and the same of what it held before. */
static struct share {
	const char *namespace;
	uint64_t bytes, were;
	int64_t since, were_since;
} shares[8];

static int index_of(const struct attempt *a)
{
	return (int)(a - attempts);
}

/* ---- our gate ---- */

void laws_may_go(const struct object *o, const char *who, bool unaware)
{
	int i = number_of(o->uid);
	struct attempt *a = i >= 0 ? &attempts[i] : NULL;

	if (!a || !a->waits)
		sim_fail("gate", "%s took a gate from %s, which has not waited", who, o->name);
	if (!a->lost && !unaware && !holds_whole(i))
		sim_fail("gate", "%s let u%d (%s) go, which holds no whole claim", who, i, a->name);
	if (a->gang)
		gang_let_go(a, who);
}

void laws_let_go(const struct object *o)
{
	struct attempt *a = &attempts[number_of(o->uid)];

	a->gated = false;
	a->passed_at = 0;
	a->let_go_at = sim_now();
	/* What it was told is where it has room from now on, or has not. */
	note_room();
}

/* ---- order ---- */

static struct share *share_of(const char *namespace)
{
	size_t i = 0;

	while (shares[i].namespace && strcmp(shares[i].namespace, namespace) != 0)
		i++;
	shares[i].namespace = namespace;
	return &shares[i];
}

void laws_shares(void)
{
	uint64_t now[8] = {0};

	for (struct object *o = store_first(SERVERS); o; o = store_next(o))
		for (int i = 0; i < view_of(o)->n_claims; i++) {
			const struct seen_claim *c = &view_of(o)->claims[i];
			size_t at = (size_t)(share_of(attempts[c->who].namespace) - shares);

			for (unsigned k = 0; k < c->n_parts; k++)
				now[at] += c->parts[k].bytes;
		}
	for (size_t i = 0; shares[i].namespace; i++) {
		if (shares[i].bytes == now[i])
			continue;
		shares[i].were = shares[i].bytes;
		shares[i].were_since = shares[i].since;
		shares[i].bytes = now[i];
		shares[i].since = sim_now();
	}
}

static bool anything_kept(void)
{
	bool any = false;

	for (struct object *o = store_first(SERVERS); o; o = store_next(o))
		any = any || view_of(o)->n_kept > 0;
	return any;
}

/* Has q less than p, whichever of what they have held lately was counted? */
static bool has_less(const struct share *q, const struct share *p, int64_t since)
{
	uint64_t most = q->bytes, least = p->bytes;

	if (q->were_since >= since || p->were_since >= since)
		return false;
	if (q->since >= since && q->were > most)
		most = q->were;
	if (p->since >= since && p->were < least)
		least = p->were;
	return most < least;
}

/* Does q go before p, whatever a round that nobody here has seen may have counted? Shares count
 * where nothing is kept for one who would pass by his age (W6). */
static bool goes_before(const struct attempt *q, const struct attempt *p)
{
	const struct share *of_q = share_of(q->namespace), *of_p = share_of(p->namespace);
	int64_t since = sim_now() - SEEN_US;

	if (q->priority != p->priority)
		return q->priority > p->priority;
	if (of_q == of_p)
		return q->stored_at < p->stored_at;
	return has_less(of_q, of_p, since) && !anything_kept();
}

static bool is_leaving(const struct attempt *a)
{
	const struct object *o = store_find(PODS, a->namespace, a->name);

	return !o || strcmp(o->uid, a->uid) != 0 || o->deleting;
}

/* It waits for us alone, and everybody has seen that. */
static bool has_waited(const struct attempt *a, int64_t since)
{
	return a->gated && !a->foreign && !a->late && a->stored_at < since && a->free_at < since &&
	       !is_leaving(a);
}

void laws_turn(struct attempt *a)
{
	if (a->turn_at)
		return;
	a->turn_at = sim_now();
	if (!orderly || sim_now() < LED_FROM + SEEN_US)
		return;
	for (int i = 0; i < n_attempts; i++) {
		struct attempt *q = &attempts[i];

		if (q == a || q->passed_at || q->shape != a->shape || parts_of(i) > 0 ||
			!has_waited(q, sim_now() - SEEN_US) || !goes_before(q, a))
			continue;
		q->passed_at = sim_now();
		q->passed_by = index_of(a);
	}
}

/* The round in which the other was served has served it, too, or its namespace has been given more
 * meanwhile. */
static void check_order(int i)
{
	struct attempt *q = &attempts[i];
	const struct attempt *p = &attempts[q->passed_by];

	if (!q->passed_at)
		return;
	if (parts_of(i) > 0 || is_leaving(q) ||
		(q->priority == p->priority && strcmp(q->namespace, p->namespace) != 0 &&
			share_of(q->namespace)->since >= q->passed_at))
		q->passed_at = 0;
	else if (sim_now() - q->passed_at > SEEN_US)
		sim_fail("order",
			"u%d (%s/%s, priority %d) asks what u%d (%s/%s, priority %d) asks, goes "
			"before it and was passed %.1f s ago",
			i, q->namespace, q->name, q->priority, q->passed_by, p->namespace, p->name,
			p->priority, (double)(sim_now() - q->passed_at) / 1e6);
}

/* A gang is as old as its youngest. */
static int64_t came_at(const struct attempt *head)
{
	int64_t at = head->stored_at;

	for (int i = 0; head->gang && i < n_attempts; i++)
		if (attempts[i].gang == head->gang && attempts[i].gated &&
			attempts[i].stored_at > at)
			at = attempts[i].stored_at;
	return at;
}

/* Is it ahead of the one for whom something is kept, whatever shares are? */
static bool is_ahead(const struct attempt *a, const struct attempt *head)
{
	return a->priority != head->priority ? a->priority > head->priority
					     : a->stored_at <= came_at(head);
}

/* A higher one than the head may be the head by now. */
static bool has_higher(const struct attempt *head)
{
	bool any = false;

	for (int i = 0; i < n_attempts; i++)
		any = any || (attempts[i].gated && attempts[i].priority > head->priority);
	return any;
}

/* Who is added later stands further down: what that GPU had to hold when this one was. */
static uint64_t sum_until(const struct view *v, int gpu, int who)
{
	uint64_t sum = 0;

	for (int i = 0; i < v->n_claims; i++) {
		for (unsigned k = 0; k < v->claims[i].n_parts; k++)
			sum += v->claims[i].parts[k].gpu == gpu ? v->claims[i].parts[k].bytes : 0;
		if (v->claims[i].who == who)
			break;
	}
	return sum;
}

/* All of it, if it is a gang, has waited for so long and holds nothing. */
static bool still_waits(const struct attempt *head, int64_t since)
{
	unsigned n = 0;

	for (int i = 0; i < n_attempts; i++)
		n += (&attempts[i] == head || (head->gang && attempts[i].gang == head->gang)) &&
		     has_waited(&attempts[i], since) && parts_of(i) == 0;
	return n >= (head->gang ? gang_size(head->gang) : 1);
}

/* Is what is kept for it, and nothing for another, there, and of use? A leader that died or stands
 * still may have written a part of it, and GPUs may have gone while nobody led: whoever leads next
 * decides anew, however long that takes. */
static bool is_kept_whole(const struct attempt *head)
{
	unsigned n = 0;

	for (struct object *o = store_first(SERVERS); o; o = store_next(o)) {
		const struct view *v = view_of(o);

		for (int i = 0; i < v->n_kept; i++) {
			int gpu = v->kept[i].gpu;

			if (v->kept[i].who != index_of(head) || !v->takes || gpu < 0 ||
				!v->gpus[gpu].fit || v->kept[i].bytes > v->gpus[gpu].bytes)
				return false;
			n++;
		}
	}
	return head->gang || n >= head->shape->amount;
}

void laws_kept(
	const struct object *o, int who, int gpu, uint64_t kept, bool by_review, const char *writer)
{
	const struct view *v = view_of(o);
	int64_t since = sim_now() - SEEN_US;
	const struct attempt *head;

	/* What the same write keeps anew was not kept when this one was added, perhaps. */
	if (kept > kept_of(v, gpu, who))
		kept = kept_of(v, gpu, who);
	if (kept == 0 || v->kept[0].who < 0 || sum_until(v, gpu, who) + kept <= v->gpus[gpu].bytes)
		return;
	head = &attempts[v->kept[0].who];
	/* While its cap is full it is barred, and nothing is kept for it. */
	if (caps_bind(head))
		return;
	/* A review's write brings with it what it has read. The queue has decided before it writes:
	 * for the head, for one who goes before it or completes a gang, or for another head, where
	 * a gang has lost members, the pool has got too small or a part of it alone is kept. */
	if (by_review ||
		(v->kept_since < since && pool_shaped_at < since && is_kept_whole(head) &&
			laws_could_ever(head) && still_waits(head, since) && !attempts[who].gang &&
			!is_ahead(&attempts[who], head) && !has_higher(head)))
		sim_fail("kept", "%s gave u%d a part of %s of %s that is kept for u%d", writer, who,
			v->gpus[gpu].id, o->name, v->kept[0].who);
}

/* ---- time ---- */

static void check_idle(const struct attempt *a, int64_t from, int64_t most)
{
	if (a->fits_since > from)
		from = a->fits_since;
	if (a->free_at > from)
		from = a->free_at;
	if (a->stored_at > from)
		from = a->stored_at;
	if (a->fits_since && sim_now() - from > most && !is_leaving(a))
		sim_fail("idle", "u%d (%s) waits, and there has been room for it for %.1f s",
			index_of(a), a->name, (double)(sim_now() - from) / 1e6);
}

/* Who has its claim is let go. */
static void check_held(const struct attempt *a, int64_t from, int64_t most)
{
	if (a->turn_at > from)
		from = a->turn_at;
	if (a->turn_at && sim_now() - from > most && holds_whole(index_of(a)) && !is_leaving(a))
		sim_fail("idle", "u%d (%s) has its claim, and its gate stands for %.1f s more",
			index_of(a), a->name, (double)(sim_now() - from) / 1e6);
}

unsigned laws_waiting(int64_t before)
{
	unsigned n = 0;

	for (int i = 0; i < n_attempts; i++)
		n += attempts[i].gated && attempts[i].stored_at < before;
	return n;
}

/* Everybody in his turn: one after the other, each as if he needed the whole pool. */
static void check_served(const struct attempt *a, int64_t calm)
{
	static int64_t from;
	static unsigned n;
	int64_t most = reserve_us + (n + 1) * (habits.life_us + TURN_US);

	if (!from) {
		from = calm;
		n = laws_waiting(calm);
	}
	if (sim_now() - from > most && laws_could_ever(a))
		sim_fail("starve", "u%d (%s) waits for %.0f s, and the pool would hold it",
			index_of(a), a->name, (double)(sim_now() - a->stored_at) / 1e6);
}

static void check_kept(struct object *o, int64_t from, int64_t most)
{
	struct view *v = o->view;
	const struct attempt *a =
		v->n_kept > 0 && v->kept[0].who >= 0 ? &attempts[v->kept[0].who] : NULL;

	if (v->n_kept == 0 || (a && a->gated && !a->turn_at && !is_leaving(a)))
		v->idle_since = 0;
	else if (!v->idle_since)
		v->idle_since = sim_now();
	if (v->idle_since > from)
		from = v->idle_since;
	if (v->idle_since && sim_now() - from > most)
		sim_fail("kept",
			"the server %s keeps room for u%d, which has not waited for it for %.1f s",
			o->name, v->kept[0].who, (double)(sim_now() - from) / 1e6);
}

void laws_queue(int64_t calm)
{
	bool fair = sky == FAIR && sim_now() > LED_FROM;
	int64_t from = fair ? LED_FROM : calm, most = fair ? FAIR_US : CALM_US;

	if (!habits.waits || !from)
		return;
	for (struct object *o = store_first(SERVERS); o; o = store_next(o))
		check_kept(o, from, most);
	gang_laws(from, most);
	for (int i = 0; i < n_attempts; i++) {
		const struct attempt *a = &attempts[i];

		if (!a->gated)
			continue;
		check_held(a, from, most);
		/* A cap may be what it waits for. */
		if (caps_bind(a))
			continue;
		check_order(i);
		if (!a->foreign && !a->gang)
			check_idle(a, from, most);
		if (!a->foreign && !a->gang && calm && a->stored_at < calm)
			check_served(a, calm);
	}
}
