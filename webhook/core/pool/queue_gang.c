/* SPDX-License-Identifier: Apache-2.0 */
/* core: which gangs run, and who of those that wait is missing in one; what a pod asks. */
#include <stdlib.h>

#include "base/text.h"
#include "webhook/core/pool/queue_impl.h"

/* The sum, or as much as there is. */
static uint64_t add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t size_of_container(const struct demand_container *d, const struct gpu *gpu)
{
	uint64_t one = demand_bytes(d, gpu);

	return d->amount && one > UINT64_MAX / d->amount ? UINT64_MAX : one * d->amount;
}

uint64_t queue_size_of(const struct demand *d, const struct gpu *gpu)
{
	uint64_t most = 0, beside = 0, apps = 0;

	for (size_t i = 0; i < d->n_containers; i++) {
		uint64_t size = size_of_container(&d->containers[i], gpu);

		if (d->containers[i].kind == CONTAINER_APP)
			apps = add(apps, size);
		else if (d->containers[i].kind == CONTAINER_RESTARTABLE)
			beside = add(beside, size);
		else if (add(beside, size) > most)
			most = add(beside, size);
	}
	apps = add(apps, beside);
	return apps > most ? apps : most;
}

struct gpu queue_largest(const struct inventory *inv)
{
	struct gpu ret = {.bytes = 0};

	for (size_t s = 0; s < inv->n_servers; s++)
		for (size_t i = 0; i < inv->servers[s].n_gpus; i++)
			if (inv->servers[s].gpus[i].bytes > ret.bytes)
				ret.bytes = inv->servers[s].gpus[i].bytes;
	return ret;
}

uint64_t queue_size_in(
	const struct demand *d, const struct gang_began *gang, const struct gpu *largest)
{
	const struct gpu like = {.bytes = gang->like ? gang->like : largest->bytes};

	return queue_size_of(d, &like);
}

int queue_compare_gang(const struct queue_pod *a, const struct queue_pod *b)
{
	int c = slice_order(a->gang, b->gang);

	if (c == 0)
		c = a->gang_job - b->gang_job;
	return c || !a->gang_job ? c : slice_order(a->owner, b->owner);
}

uint32_t queue_gang_key(const struct queue_pod *pod)
{
	uint64_t hash = text_hash64(pod->namespace) * 31 + text_hash64(pod->gang);

	/* what a Job says of the size changes with the Job */
	hash = hash * 31 + (pod->gang_job ? text_hash64(pod->owner) : pod->gang_size);
	hash ^= hash >> 32;
	return (uint32_t)hash ? (uint32_t)hash : 1;
}

static uint32_t key_of(const struct queue_member *m)
{
	return m->pod ? m->pod->gang_began.key : m->began.key;
}

static int by_key(const void *a, const void *b)
{
	uint32_t x = key_of(a), y = key_of(b);

	return (x > y) - (x < y);
}

/* The first of the members whose key is not less. */
static size_t first_of(const struct queue_member *members, size_t n_members, uint32_t key)
{
	size_t low = 0, high = n_members;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (key_of(&members[mid]) < key)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Of members with this pod's key. Of one that is gone nothing else is known. */
static bool is_of(const struct queue_member *m, const struct queue_pod *p)
{
	if (!slice_eq(m->pod ? m->pod->namespace : m->namespace, p->namespace))
		return false;
	return !m->pod || (queue_compare_gang(m->pod, p) == 0 &&
				  (p->gang_job || m->pod->gang_size == p->gang_size));
}

/* By the GPU by which its gang is counted, whatever its own claim says. Of one that is gone, where
 * its claim does not say what it asked, no less than of one of those who began. */
static uint64_t counts_as(
	const struct queue_member *m, const struct gang_began *began, const struct gpu *largest)
{
	const struct gang_began *of = m->began.size ? &m->began : began;
	uint64_t each = of->size ? of->bytes / of->size : 0;

	if (m->pod)
		return queue_size_in(m->pod->demand, m->began.like ? &m->began : began, largest);
	if (m->began.asks)
		return m->began.asks;
	return m->bytes > each ? m->bytes : each;
}

static void count_one(const struct gpu *largest, struct queue_pod *p,
	const struct queue_member *members, size_t n_members)
{
	uint32_t key = p->gang_began.key, live = 0, taken = 0;
	size_t from = first_of(members, n_members, key), to = from;
	struct gang_began began = {0};
	uint64_t held = 0;
	bool ended = false;

	for (; to < n_members && key_of(&members[to]) == key; to++) {
		const struct queue_member *m = &members[to];

		if (!is_of(m, p) || !m->pod)
			continue;
		ended = ended || (m->ended && p->owner.at && m->pod->owner.at &&
					 slice_eq(m->pod->owner, p->owner));
		if (m->ended || m->leaving)
			continue;
		live++;
		if (m->began.size > began.size)
			began = m->began;
	}
	for (size_t i = from; i < to; i++)
		if (is_of(&members[i], p) && !members[i].ended) {
			taken++;
			held = add(held, counts_as(&members[i], &began, largest));
		}
	p->gang_let_go = live ? live : ended;
	p->gang_missing = taken < began.size ? began.size - taken : 0;
	p->gang_left = held < began.bytes ? began.bytes - held : 0;
	began.key = key;
	began.asks = 0;
	if (!p->gang_let_go)
		began.size = p->gang_size;
	p->gang_began = began;
}

void queue_count_gangs(const struct inventory *inv, struct queue_pod *pods, size_t n,
	struct queue_member *members, size_t n_members)
{
	struct gpu largest = queue_largest(inv);

	if (n_members)
		qsort(members, n_members, sizeof(*members), by_key);
	for (size_t i = 0; i < n; i++)
		if (pods[i].gang.at)
			count_one(&largest, &pods[i], members, n_members);
}
