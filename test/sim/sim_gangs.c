/* SPDX-License-Identifier: Apache-2.0 */
/* sim: gangs of pods that wait for one another, and the law that none of them is torn (W3;
 * rule R19). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/sim/sim_view.h"

#define GANGS_MAX 400
#define SIZE_MOST 3

static struct gang {
	unsigned size;
	uint64_t key;       /* by which claims call it; 0: none has yet */
	bool let_go;        /* one of it was */
	int64_t torn_since; /* some hold something and some do not, and nobody was let go; 0: it is
			       not so */
} gangs[GANGS_MAX];
static unsigned n_gangs; /* their numbers begin with 1 */

/* ---- its owner ---- */

unsigned gang_new(void)
{
	if (n_gangs + 1 == GANGS_MAX)
		return 0;
	gangs[++n_gangs].size = 2 + (unsigned)sim_below(SIZE_MOST - 1);
	return n_gangs;
}

unsigned gang_size(unsigned gang)
{
	return gangs[gang].size;
}

struct attempt *gang_member(unsigned gang, const char *namespace, const char *name)
{
	/* Half a GPU, or one to two of them: all of them alike. */
	struct attempt *a = laws_attempt(&shapes[1 + 2 * (gang % 2)], name);

	a->namespace = namespace;
	a->waits = true;
	a->gang = gang;
	return a;
}

/* As the mutator would have written it: nobody proves these. */
void gang_name(const struct attempt *a, cJSON *pod)
{
	static const char behind[] = "\"waits\":true";
	cJSON *notes = store_at(pod, "metadata", "annotations");
	cJSON *plan = cJSON_GetObjectItemCaseSensitive(notes, "poolgate.io/plan");
	const char *text = cJSON_GetStringValue(plan), *at = strstr(text, behind);
	char name[32], size[16], *more = malloc(strlen(text) + 100);
	int n;

	if (!at)
		sim_fail("simulator", "a plan that does not wait");
	(void)snprintf(name, sizeof(name), "gang-%u", a->gang);
	(void)snprintf(size, sizeof(size), "%u", gangs[a->gang].size);
	n = sprintf(more, "%.*s,\"gang\":\"%s\",\"gangSize\":%s",
		(int)(at - text) + (int)strlen(behind), text, name, size);
	(void)sprintf(more + n, "%s", at + strlen(behind));
	(void)cJSON_SetValuestring(plan, more);
	cJSON_AddStringToObject(notes, "poolgate.io/gang", name);
	cJSON_AddStringToObject(notes, "poolgate.io/gang-size", size);
	free(more);
}

/* ---- laws ---- */

static bool is_leaving(const struct attempt *a)
{
	const struct object *o = store_find(PODS, a->namespace, a->name);

	return !o || strcmp(o->uid, a->uid) != 0 || o->deleting;
}

/* How many of it have their whole claims, or had them when they left; how many that stay hold
 * something. */
static unsigned count(unsigned gang, unsigned *ret_hold)
{
	unsigned whole = 0;

	*ret_hold = 0;
	for (int i = 0; i < n_attempts; i++) {
		const struct attempt *a = &attempts[i];
		bool leaves;

		if (a->gang != gang || !a->stored_at)
			continue;
		leaves = is_leaving(a);
		/* who has left just before is given his claim all the same, for as long as nobody
		 * asks for him */
		whole += holds_whole(i) || (leaves && a->had_whole);
		*ret_hold += !leaves && parts_of(i) > 0;
	}
	return whole;
}

void gang_let_go(const struct attempt *a, const char *who)
{
	struct gang *g = &gangs[a->gang];
	unsigned hold, whole = count(a->gang, &hold);

	if (!g->let_go && whole < g->size)
		sim_fail("torn", "%s let u%d go, and %u of the %u of gang-%u hold whole claims",
			who, (int)(a - attempts), whole, g->size, a->gang);
	g->let_go = true;
}

void gang_laws(int64_t from, int64_t most)
{
	for (unsigned i = 1; i <= n_gangs; i++) {
		struct gang *g = &gangs[i];
		unsigned hold, whole = count(i, &hold);

		if (g->let_go || hold == 0 || whole >= g->size)
			g->torn_since = 0;
		else if (!g->torn_since)
			g->torn_since = sim_now();
		if (g->torn_since > 0 &&
			sim_now() - (g->torn_since > from ? g->torn_since : from) > most)
			sim_fail("torn", "%u of the %u of gang-%u hold something for %.1f s", hold,
				g->size, i, (double)(sim_now() - g->torn_since) / 1e6);
	}
}

void gang_seat(const struct seen_claim *c, const char *who)
{
	const struct attempt *a = &attempts[c->who];
	struct gang *g = &gangs[a->gang];
	const struct seat *s = &c->seat;
	uint64_t asks = s->like * a->shape->percent / 100 * a->shape->amount;

	if (!g->key)
		g->key = s->key;
	/* Who is adopted has it from his plan, which says no more than the name. */
	if (s->key && s->key == g->key &&
		((c->state == 'a' && !s->size) ||
			(s->size == g->size && s->like && s->asks == asks &&
				s->bytes == asks * g->size)))
		return;
	sim_fail("seat",
		"%s wrote a claim of u%d, of gang-%u, in which %u began of %llu bytes each: it "
		"says "
		"%llu of gang %llu, of %llu bytes, of which %llu are its own",
		who, c->who, a->gang, g->size, (unsigned long long)asks,
		(unsigned long long)s->size, (unsigned long long)s->key,
		(unsigned long long)s->bytes, (unsigned long long)s->asks);
}
