/* SPDX-License-Identifier: Apache-2.0 */
/* sim: a smaller run that breaks the same law: without faults, then with fewer pods. What is left
 * out changes all that comes after it, so each is tried with chances that go several ways. */
#include <stdio.h>
#include <string.h>

#include "test/sim/sim_world.h"

/* Ways that are tried for each thing that is left out, and for the shortest in the end. */
#define WAYS 30

struct search {
	uint64_t seed, salts;
	struct sim_cut cut;
	struct sim_result best;
};

bool sim_cut_read(const char *names, uint64_t *ret)
{
	for (*ret = 0; *names; names += *names == ',') {
		size_t len = strcspn(names, ","), i = 0;
		const char *name;

		while ((name = chaos_fault(i)) &&
			(strlen(name) != len || strncmp(name, names, len) != 0))
			i++;
		if (!name)
			return false;
		*ret |= UINT64_C(1) << i;
		names += len;
	}
	return true;
}

static bool still_fails(struct search *s, struct sim_cut cut)
{
	for (int i = 0; i < WAYS; i++) {
		struct sim_result r;

		cut.salt = i == 0 ? s->cut.salt : ++s->salts;
		r = sim_once(s->seed, &cut, false);
		if (!r.failed || strcmp(r.law, s->best.law) != 0)
			continue;
		s->cut = cut;
		s->best = r;
		return true;
	}
	return false;
}

static void drop_faults(struct search *s)
{
	for (size_t i = 0; chaos_fault(i); i++) {
		struct sim_cut cut = s->cut;

		if (!(s->best.faults & UINT64_C(1) << i))
			continue;
		cut.without |= UINT64_C(1) << i;
		(void)still_fails(s, cut);
	}
}

static void drop_pods(struct search *s)
{
	struct sim_cut no_more = s->cut;
	uint64_t step;

	/* That no pod comes behind the last one is another run, too. */
	no_more.pods = s->best.pods;
	if (!s->cut.pods && !still_fails(s, no_more))
		return;
	step = s->cut.pods / 2;
	while (step > 0) {
		struct sim_cut cut = s->cut;

		cut.pods -= step;
		if (cut.pods == 0 || !still_fails(s, cut))
			step /= 2;
		else if (step >= s->cut.pods)
			step = s->cut.pods / 2;
	}
}

static void find_shortest(struct search *s)
{
	for (int i = 0; i < WAYS; i++) {
		struct sim_cut cut = s->cut;
		struct sim_result r;

		cut.salt = ++s->salts;
		r = sim_once(s->seed, &cut, false);
		if (r.failed && strcmp(r.law, s->best.law) == 0 && r.events < s->best.events) {
			s->cut = cut;
			s->best = r;
		}
	}
}

static void say_faults(const char *head, uint64_t set, const char *between)
{
	for (size_t i = 0; chaos_fault(i); i++)
		if (set & UINT64_C(1) << i) {
			(void)printf("%s%s", head, chaos_fault(i));
			head = between;
		}
}

void sim_shrink(const struct sim_result *failed, const struct sim_cut *cut)
{
	struct search s = {.seed = failed->seed, .cut = *cut, .best = *failed};

	drop_faults(&s);
	drop_pods(&s);
	find_shortest(&s);
	(void)printf(
		"shrunk from %llu to %llu events, from %llu to %llu pods: %s: %s\n  faults left",
		(unsigned long long)failed->events, (unsigned long long)s.best.events,
		(unsigned long long)failed->pods, (unsigned long long)s.best.pods, s.best.law,
		s.best.why);
	say_faults(": ", s.best.faults, ", ");
	(void)printf("\n  again, with its trace: make sim SEED=%llu", (unsigned long long)s.seed);
	if (s.cut.pods)
		(void)printf(" PODS=%llu", (unsigned long long)s.cut.pods);
	if (s.cut.salt)
		(void)printf(" SALT=%llu", (unsigned long long)s.cut.salt);
	if (slips_on)
		(void)printf(" SLIPS=1");
	if (lean_on)
		(void)printf(" LEAN=1");
	say_faults(" WITHOUT=", s.cut.without, ",");
	(void)printf("\n");
}
