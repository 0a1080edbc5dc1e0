/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: shows who waits to people who look at the pool: the first of the queue in its order,
 * then those who have no place in it; and as numbers to everybody: of whom, nobody is told. */
#include <stdlib.h>

#include "webhook/cluster/claims/claims_impl.h"
#include "webhook/edge/metrics/metrics.h"

/* ---- who waits ---- */

struct shown {
	size_t pod, place; /* SIZE_MAX: it has none */
	int64_t since_ms;
};

static int by_place(const void *a, const void *b)
{
	const struct shown *x = a, *y = b;

	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	return (x->since_ms > y->since_ms) - (x->since_ms < y->since_ms);
}

/* Who is before another's gate does not wait for us (W7), and whose turn it is waits no more. */
static size_t find_shown(
	const struct queue_pod *pods, size_t n, const struct queue_round *round, struct shown *list)
{
	size_t found = 0;

	for (size_t i = 0; i < n; i++) {
		const struct queue_entry *e = &round->entries[i];

		if (e->verdict == QUEUE_START || e->verdict == QUEUE_FOREIGN)
			continue;
		list[found++] = (struct shown){i, e->place ? e->place : SIZE_MAX, pods[i].since_ms};
	}
	if (found > 1)
		qsort(list, found, sizeof(*list), by_place);
	return found;
}

static void add(const struct queue_world *w, const struct queue_pod *pods, size_t n,
	const struct queue_round *round, size_t i, struct arena *a, struct buf *out)
{
	struct buf why;

	buf_init(&why, 1u << 16);
	queue_say(w, pods, n, round, i, &why);
	pool_waiting_add(out, &(struct pool_waiting){.namespace = pods[i].namespace,
				      .name = pods[i].name,
				      .gang = pods[i].gang,
				      .asks = pool_waiting_asks(pods[i].demand, a),
				      .why = buf_as_slice(&why),
				      .since_ms = pods[i].since_ms,
				      .place = round->entries[i].place});
	buf_release(&why);
}

void queue_show(struct claims *c, const struct queue_world *w, const struct queue_pod *pods,
	size_t n, const struct queue_round *round, struct arena *a)
{
	struct shown *list = c->cfg->waiting ? arena_array(a, n, sizeof(*list)) : NULL;
	size_t found;
	struct buf out;

	if (!list)
		return;
	found = find_shown(pods, n, round, list);
	buf_init(&out, POOL_WAITING_BYTES);
	pool_waiting_begin(&out, true);
	for (size_t i = 0; i < found && i < POOL_WAITING_MAX; i++)
		add(w, pods, n, round, list[i].pod, a, &out);
	pool_waiting_end(&out, found, false);
	waiting_look_post(c->cfg->waiting, &out);
}

void queue_show_none(struct claims *c, bool leads)
{
	struct buf out;

	if (!c->cfg->waiting)
		return;
	buf_init(&out, POOL_WAITING_BYTES);
	if (leads) {
		pool_waiting_begin(&out, true);
		pool_waiting_end(&out, 0, false);
	}
	waiting_look_post(c->cfg->waiting, &out);
}

/* ---- numbers for everybody ---- */

/* The oldest of the highest priority among those who stand in the order and do not start: for it
 * would be kept what frees up. */
static const struct queue_pod *head_of(
	const struct queue_pod *pods, size_t n, const struct queue_round *r)
{
	const struct queue_pod *head = NULL;

	for (size_t i = 0; i < n; i++) {
		const struct queue_pod *p = &pods[i];

		if (r->entries[i].verdict == QUEUE_START || r->entries[i].place == 0)
			continue;
		if (!head || p->priority > head->priority ||
			(p->priority == head->priority && p->since_ms < head->since_ms))
			head = p;
	}
	return head;
}

void queue_meter(struct metrics *m, const struct queue_pod *pods, size_t n,
	const struct queue_round *round, int64_t now_ms)
{
	const struct queue_pod *head = round ? head_of(pods, n, round) : NULL;
	uint64_t kept = 0;

	for (size_t i = 0; round && i < round->n_keep; i++)
		kept += round->keep[i].bytes;
	metric_set(m, M_QUEUE_DEPTH, 0, 0, round ? (int64_t)round->depth : 0);
	metric_set(m, M_QUEUE_HEAD, 0, 0,
		head && now_ms > head->since_ms ? (now_ms - head->since_ms) / 1000 : 0);
	metric_set(m, M_QUEUE_KEPT, 0, 0, (int64_t)kept);
}
