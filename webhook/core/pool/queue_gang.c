/* SPDX-License-Identifier: Apache-2.0 */
/* core: which gangs run, and who of those that wait is missing in one. */
#include <stdlib.h>

#include "webhook/core/pool/queue_impl.h"

int queue_compare_gang(const struct queue_pod *a, const struct queue_pod *b)
{
	int c = queue_order(a->gang, b->gang);

	if (c == 0)
		c = a->gang_job - b->gang_job;
	return c || !a->gang_job ? c : queue_order(a->owner, b->owner);
}

/* What a Job says of the size changes with the Job. */
static int compare_gangs(const struct queue_pod *a, const struct queue_pod *b)
{
	int c = queue_order(a->namespace, b->namespace);

	if (c == 0)
		c = queue_compare_gang(a, b);
	return c || a->gang_job ? c : (a->gang_size > b->gang_size) - (a->gang_size < b->gang_size);
}

static int by_gang(const void *a, const void *b)
{
	const struct queue_member *x = a, *y = b;

	return compare_gangs(x->pod, y->pod);
}

/* The first of the members that is not before this pod's gang. */
static size_t first_of(
	const struct queue_member *members, size_t n_members, const struct queue_pod *p)
{
	size_t low = 0, high = n_members;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (compare_gangs(members[mid].pod, p) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Does this one show that the gang has run to somebody who comes later? */
static bool shows(const struct queue_member *m, const struct queue_pod *p)
{
	return !m->ended || (p->owner.at && m->pod->owner.at && slice_eq(m->pod->owner, p->owner));
}

static void count_one(const struct gpu *like, struct queue_pod *p,
	const struct queue_member *members, size_t n_members)
{
	uint64_t least = UINT64_MAX, size;
	uint32_t live = 0, ended = 0, leaving = 0, began = 0;

	for (size_t i = first_of(members, n_members, p);
		i < n_members && compare_gangs(members[i].pod, p) == 0; i++) {
		if (!shows(&members[i], p))
			continue;
		size = queue_size_of(members[i].pod->demand, like);
		least = size < least ? size : least;
		began = members[i].began > began ? members[i].began : began;
		leaving += members[i].leaving;
		ended += members[i].ended;
		live += !members[i].leaving && !members[i].ended;
	}
	p->gang_let_go = live ? live : ended > 0;
	p->gang_leaving = leaving;
	p->gang_began = began;
	p->gang_more = p->gang_let_go > 0 && queue_size_of(p->demand, like) > least;
}

void queue_count_gangs(const struct inventory *inv, struct queue_pod *pods, size_t n,
	struct queue_member *members, size_t n_members)
{
	struct gpu like = queue_largest(inv);

	if (n_members)
		qsort(members, n_members, sizeof(*members), by_gang);
	for (size_t i = 0; i < n; i++)
		if (pods[i].gang.at)
			count_one(&like, &pods[i], members, n_members);
}
