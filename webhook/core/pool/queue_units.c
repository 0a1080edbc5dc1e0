/* SPDX-License-Identifier: Apache-2.0 */
/* core: who is served together, and in which order within a namespace. */
#include <stdlib.h>

#include "webhook/core/pool/queue_impl.h"

int queue_compare(const struct queue_rank *a, const struct queue_rank *b)
{
	if (a->completes != b->completes)
		return a->completes ? -1 : 1;
	if (a->priority != b->priority)
		return a->priority > b->priority ? -1 : 1;
	if (a->share != b->share)
		return a->share < b->share ? -1 : 1;
	if (a->since_ms != b->since_ms)
		return a->since_ms < b->since_ms ? -1 : 1;
	return slice_order(a->uid, b->uid);
}

/* ---- namespaces ---- */

/* Up to eight bytes from the end. */
static uint64_t end_of(struct slice name)
{
	size_t n = name.len < sizeof(uint64_t) ? name.len : sizeof(uint64_t);
	uint64_t end = 0;

	if (n)
		memcpy(&end, name.at + name.len - n, n);
	return end;
}

/* The namespace of that name, or where it belongs. */
static size_t find_namespace(
	const struct queue_run *q, const uint32_t *sorted, struct slice name, bool *ret_found)
{
	uint64_t end = end_of(name);
	size_t low = 0, high = q->n_namespaces;

	while (low < high) {
		size_t mid = (low + high) / 2;
		const struct queue_namespace *ns = &q->namespaces[sorted[mid]];

		if (ns->end != end ? ns->end < end : slice_order(ns->name, name) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	*ret_found = low < q->n_namespaces && slice_eq(q->namespaces[sorted[low]].name, name);
	return low;
}

/* All namespaces of those who wait; of each pod its own into ret. */
static int find_namespaces(struct queue_run *q, uint32_t *ret)
{
	uint32_t *sorted = arena_space(q->a, q->n_pods, sizeof(*sorted)), seen[251] = {0};
	bool found;

	q->namespaces = arena_space(q->a, q->n_pods, sizeof(*q->namespaces));
	if (!q->namespaces || !sorted)
		return ERR_NOMEM;
	for (size_t i = 0; i < q->n_pods; i++) {
		struct slice name = q->pods[i].namespace;
		uint32_t *last = &seen[end_of(name) % 251];
		size_t at;

		/* mostly it is the one that has come up there before */
		if (*last < q->n_namespaces && slice_eq(q->namespaces[*last].name, name)) {
			ret[i] = *last;
			continue;
		}
		at = find_namespace(q, sorted, name, &found);
		if (!found) {
			memmove(sorted + at + 1, sorted + at,
				(q->n_namespaces - at) * sizeof(*sorted));
			sorted[at] = (uint32_t)q->n_namespaces;
			q->namespaces[q->n_namespaces++] =
				(struct queue_namespace){.name = name, .end = end_of(name)};
		}
		ret[i] = *last = sorted[at];
	}
	for (size_t i = 0; i < q->w->n_shares; i++) {
		size_t at = find_namespace(q, sorted, q->w->shares[i].namespace, &found);

		if (found)
			q->namespaces[sorted[at]].share = q->w->shares[i].bytes;
	}
	return 0;
}

/* ---- units ---- */

/* qsort() of what is mostly in order as it comes. */
static void sort_mostly_sorted(
	void *list, size_t n, size_t size, int (*compare)(const void *, const void *))
{
	const char *at = list;
	size_t i = 1;

	while (i < n && compare(at + (i - 1) * size, at + i * size) <= 0)
		i++;
	if (i < n)
		qsort(list, n, size, compare);
}

/* A pod of a gang. */
struct member {
	const struct queue_pod *pod;
	uint64_t end; /* of its gang's name: most gangs of a namespace differ there */
	uint32_t namespace, index;
	uint64_t size; /* what it asks, as if of one GPU; all of a gang that ask the same: 0 */
};

static int by_age(const struct member *x, const struct member *y)
{
	if (x->pod->since_ms != y->pod->since_ms)
		return x->pod->since_ms < y->pod->since_ms ? -1 : 1;
	return slice_order(x->pod->uid, y->pod->uid);
}

static int by_gang(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	return queue_compare_gang(x->pod, y->pod);
}

/* Those with claims first, then the older. */
static int by_claim(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	if (x->pod->claimed != y->pod->claimed)
		return x->pod->claimed ? -1 : 1;
	return by_age(x, y);
}

/* Those without claims first, and of these the largest, which is the hardest to place. */
static int by_size(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	if (x->pod->claimed != y->pod->claimed)
		return x->pod->claimed ? 1 : -1;
	if (x->size != y->size)
		return x->size > y->size ? -1 : 1;
	return by_age(x, y);
}

static void add_unit(struct queue_run *q, const struct member *m, size_t n, uint32_t *pods)
{
	struct queue_unit *u = &q->units[q->n_units++];

	*u = (struct queue_unit){.pods = pods,
		.n = (uint32_t)n,
		.namespace = m[0].namespace,
		.first = m[0].index,
		.rank = {.priority = INT64_MAX, .uid = m[0].pod->uid},
		.verdict = QUEUE_LATER};
	for (size_t i = 0; i < n; i++) {
		const struct queue_pod *p = m[i].pod;

		pods[i] = m[i].index;
		u->n_open += !p->claimed;
		u->rank.completes = u->rank.completes || p->claimed;
		/* nobody comes forward by one member alone */
		u->rank.priority = p->priority < u->rank.priority ? p->priority : u->rank.priority;
		u->rank.since_ms = p->since_ms > u->rank.since_ms ? p->since_ms : u->rank.since_ms;
		if (i > 0 && slice_order(p->uid, u->rank.uid) < 0) {
			u->rank.uid = p->uid;
			u->first = m[i].index;
		}
	}
	u->asks = u->n_open ? q->pods[u->pods[0]].asks : 0;
	q->namespaces[u->namespace].n++;
}

/* One by one; some of them may be missing in their gang, which runs. */
static void add_singles(struct queue_run *q, const struct member *m, size_t n,
	const struct gpu *like, uint32_t *pods)
{
	uint32_t missing = m[0].pod->gang_missing;
	uint64_t left = m[0].pod->gang_left, asks;

	for (size_t i = 0; i < n; i++) {
		add_unit(q, &m[i], 1, pods + i);
		asks = missing ? queue_size_in(m[i].pod->demand, &m[i].pod->gang_began, like) : 0;
		if (missing == 0 || asks > left)
			continue;
		q->units[q->n_units - 1].joins = true;
		q->units[q->n_units - 1].rank.completes = true;
		missing--;
		left -= asks;
	}
}

static bool ask_the_same(const struct member *m, size_t n)
{
	size_t i = 0;

	while (i < n && m[i].pod->asks && m[i].pod->asks == m[0].pod->asks)
		i++;
	return i == n;
}

/* All that wait of one gang. */
static void add_gang(
	struct queue_run *q, struct member *m, size_t n, const struct gpu *like, uint32_t *pods)
{
	uint32_t size = m[0].pod->gang_size, let_go = 0;
	bool uneven = size == 0 && !m[0].pod->gang_job, alike;

	for (size_t i = 0; i < n; i++) {
		uneven = uneven || m[i].pod->gang_size != size;
		let_go = m[i].pod->gang_let_go > let_go ? m[i].pod->gang_let_go : let_go;
	}
	if (uneven || (let_go == 0 && (n < size || size == 0))) {
		for (size_t i = 0; i < n; i++)
			q->ret.entries[m[i].index].verdict =
				uneven ? QUEUE_UNEVEN : QUEUE_INCOMPLETE;
		return;
	}
	/* who is one too many, who is missing */
	if (let_go > 0 || n > size)
		sort_mostly_sorted(m, n, sizeof(*m), by_claim);
	if (let_go > 0) {
		add_singles(q, m, n, like, pods);
		return;
	}
	for (size_t i = size; i < n; i++)
		q->ret.entries[m[i].index].verdict = QUEUE_LATER;
	alike = ask_the_same(m, size);
	for (size_t i = 0; i < size && !alike; i++)
		m[i].size = queue_size_of(m[i].pod->demand, like);
	sort_mostly_sorted(m, size, sizeof(*m), by_size);
	add_unit(q, m, size, pods);
}

static int by_rank(const void *a, const void *b)
{
	const struct queue_unit *x = a, *y = b;

	return queue_compare(&x->rank, &y->rank);
}

/* Who has the higher priority, and of these who is older: a number that says so of nearly all. */
static uint64_t rough_rank(const struct queue_run *q, const struct queue_unit *u)
{
	int64_t priority = u->rank.priority, age;

	priority = priority < INT32_MIN ? INT32_MIN : priority > INT32_MAX ? INT32_MAX : priority;
	if (__builtin_sub_overflow(q->w->now_ms, u->rank.since_ms, &age) || age > UINT32_MAX)
		age = UINT32_MAX;
	age = age > 0 ? age : 0;
	return (uint64_t)(INT32_MAX - priority) << 32 | (uint64_t)(UINT32_MAX - age);
}

/* Put the units of a namespace, which are so roughly, in order. */
static void sort_roughly_sorted(struct queue_unit *its, size_t n)
{
	size_t end;

	/* what was created in one second has one age */
	for (size_t i = 0; i < n; i = end) {
		end = i + 1;
		while (end < n && its[end].rank.priority == its[i].rank.priority &&
			its[end].rank.since_ms == its[i].rank.since_ms)
			end++;
		if (end - i > 1)
			qsort(its + i, end - i, sizeof(*its), by_rank);
	}
	sort_mostly_sorted(its, n, sizeof(*its), by_rank);
}

/* The units of each namespace side by side and in their order. */
static int sort_units(struct queue_run *q)
{
	struct queue_keyed *keys = arena_space(&q->scratch, q->n_units, 2 * sizeof(*keys));
	struct queue_unit *sorted = arena_space(q->a, q->n_units, sizeof(*sorted));
	uint32_t at = 0;

	if (!keys || !sorted)
		return ERR_NOMEM;
	for (uint32_t i = 0; i < q->n_units; i++)
		keys[i] = (struct queue_keyed){rough_rank(q, &q->units[i]), i, 0};
	queue_sort_keyed(keys, keys + q->n_units, q->n_units);
	for (size_t i = 0; i < q->n_namespaces; i++) {
		q->namespaces[i].first = at;
		at += q->namespaces[i].n;
		q->namespaces[i].n = 0;
	}
	for (size_t i = 0; i < q->n_units; i++) {
		const struct queue_unit *u = &q->units[keys[i].at];
		struct queue_namespace *ns = &q->namespaces[u->namespace];

		sorted[ns->first + ns->n++] = *u;
	}
	q->units = sorted;
	for (size_t i = 0; i < q->n_namespaces; i++)
		sort_roughly_sorted(sorted + q->namespaces[i].first, q->namespaces[i].n);
	return 0;
}

struct queue_unit *queue_next(const struct queue_run *q, struct queue_unit *u)
{
	struct queue_unit *next = u + 1;

	return next < q->units + q->n_units && next->namespace == u->namespace ? next : NULL;
}

/* Members of a namespace whose gangs' names end alike side by side. */
static int sort_members(struct queue_run *q, struct member *all, size_t n)
{
	struct queue_keyed *keys = arena_space(&q->scratch, n, 2 * sizeof(*keys));
	struct member *given = arena_copy(&q->scratch, all, n, sizeof(*all));

	if (!keys || !given)
		return ERR_NOMEM;
	for (uint32_t i = 0; i < n; i++)
		keys[i] = (struct queue_keyed){given[i].end, i, 0};
	queue_sort_keyed(keys, keys + n, n);
	for (size_t i = 0; i < n; i++)
		keys[i].key = given[keys[i].at].namespace;
	queue_sort_keyed(keys, keys + n, n);
	for (size_t i = 0; i < n; i++)
		all[i] = given[keys[i].at];
	return 0;
}

/* How many from the first on are of its gang. */
static size_t count_gang(const struct member *m, size_t n)
{
	size_t i = 1;

	while (i < n && queue_compare_gang(m[i].pod, m[0].pod) == 0)
		i++;
	return i;
}

/* All gangs of these members: mostly it is one. */
static void add_alike(
	struct queue_run *q, struct member *m, size_t n, const struct gpu *like, uint32_t *pods)
{
	size_t its = count_gang(m, n);

	if (its < n) {
		qsort(m, n, sizeof(*m), by_gang);
		its = count_gang(m, n);
	}
	for (; n > 0; its = count_gang(m, n)) {
		add_gang(q, m, its, like, pods);
		m += its;
		pods += its;
		n -= its;
	}
}

/* The same of members whose gangs' names end in any way. */
static int add_gangs(struct queue_run *q, struct member *all, size_t n, uint32_t *pods)
{
	struct gpu like = queue_largest(q->w->inventory);
	size_t end;

	if (sort_members(q, all, n) != 0)
		return ERR_NOMEM;
	for (size_t i = 0; i < n; i = end) {
		end = i + 1;
		while (end < n && all[end].namespace == all[i].namespace &&
			all[end].end == all[i].end)
			end++;
		add_alike(q, &all[i], end - i, &like, pods + i);
	}
	return 0;
}

int queue_find_units(struct queue_run *q)
{
	struct member *gangs = arena_space(&q->scratch, q->n_pods, sizeof(*gangs));
	uint32_t *namespaces = arena_space(&q->scratch, q->n_pods, sizeof(*namespaces));
	uint32_t *pods = arena_space(q->a, q->n_pods, sizeof(*pods));
	size_t n = 0;
	int rc;

	q->units = arena_space(&q->scratch, q->n_pods, sizeof(*q->units));
	if (!gangs || !pods || !q->units || !namespaces || find_namespaces(q, namespaces) != 0)
		return ERR_NOMEM;
	for (size_t i = 0; i < q->n_pods; i++) {
		const struct queue_pod *p = &q->pods[i];
		struct member m = {.pod = p, .namespace = namespaces[i], .index = (uint32_t)i};

		if (p->foreign) {
			q->ret.entries[i].verdict = QUEUE_FOREIGN;
		} else if (p->barred.at) {
			q->ret.entries[i].verdict = QUEUE_BARRED;
		} else if (p->gang.at) {
			m.end = end_of(p->gang);
			gangs[n++] = m;
		} else {
			add_singles(q, &m, 1, NULL, pods + q->n_units);
		}
	}
	rc = n ? add_gangs(q, gangs, n, pods + q->n_units) : 0;
	if (rc == 0)
		rc = sort_units(q);
	arena_reset(&q->scratch);
	return rc;
}
