/* SPDX-License-Identifier: Apache-2.0 */
/* sim/scale: what a pool could hold whose pods may be moved at every moment: packed anew, largest
 * first, each where it leaves least. */
#include <stdlib.h>

#include "test/sim/scale/scale.h"

void crowd_add(struct crowd *c, const struct pod *pod, int sign)
{
	uint32_t one = sign > 0 ? 1u : UINT32_MAX;

	if (pod->percent == 100)
		c->whole += one * pod->amount;
	else
		c->share[pod->percent] += one * pod->amount;
	c->percent += (uint64_t)(int64_t)(sign * pod->percent * pod->amount);
}

/* GPUs that best fit, largest first, needs for those on a part of one. Who asks for parts of
 * several asks for none of which two fit on one GPU: the trace has no such pod. */
static uint32_t pack(const uint32_t share[101])
{
	uint32_t left[101] = {0}; /* GPUs by the percent that is free on them */
	uint32_t used = 0;

	for (unsigned size = 99; size > 0; size--) {
		uint32_t n = share[size];

		/* The fullest GPU that can hold it keeps being that for the next of its size, until
		 * it cannot. */
		for (unsigned room = size; n > 0 && room <= 100; room++) {
			uint32_t each = room / size, full = n / each;

			if (full > left[room])
				full = left[room];
			n -= full * each;
			left[room] -= full;
			left[room - each * size] += full;
			if (n > 0 && n < each && left[room] > 0) {
				left[room]--;
				left[room - n * size]++;
				n = 0;
			}
		}
		if (n > 0) {
			uint32_t each = 100 / size;

			used += n / each;
			left[100 - each * size] += n / each;
			if (n % each) {
				used++;
				left[100 - n % each * size]++;
			}
		}
	}
	return used;
}

size_t crowd_gpus(const struct crowd *c)
{
	return c->whole + pack(c->share);
}

/* ---- the day of the pool whose pods may be moved ---- */

struct ends {
	struct pod **heap; /* by its end */
	size_t n;
};

static int64_t end_of(const struct pod *p)
{
	return p->comes_us + p->life_us;
}

static void push(struct ends *e, struct pod *p)
{
	size_t i = e->n++;

	for (; i > 0 && end_of(e->heap[(i - 1) / 2]) > end_of(p); i = (i - 1) / 2)
		e->heap[i] = e->heap[(i - 1) / 2];
	e->heap[i] = p;
}

static struct pod *pop(struct ends *e)
{
	struct pod *top = e->heap[0], *last = e->heap[--e->n];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < e->n) {
		child += child + 1 < e->n && end_of(e->heap[child + 1]) < end_of(e->heap[child]);
		if (end_of(e->heap[child]) >= end_of(last))
			break;
		e->heap[i] = e->heap[child];
		i = child;
	}
	e->heap[i] = last;
	return top;
}

/* Everything up to this minute's beginning: who has ended by then goes. */
static void leave_until(struct ends *e, struct crowd *c, int64_t us)
{
	while (e->n > 0 && end_of(e->heap[0]) <= us)
		crowd_add(c, pop(e), -1);
}

static void run(const struct day *d, size_t gpus, bool room_for_all, double load[MINUTES],
	uint32_t *refused)
{
	struct ends e = {.heap = calloc(d->n + 1, sizeof(*e.heap))};
	struct crowd c = {0};
	size_t minute = 0;

	if (!e.heap)
		abort();
	for (size_t i = 0; i <= d->n; i++) {
		struct pod *p = i < d->n ? &d->pods[i] : NULL;
		int64_t now = p ? p->comes_us : DAY;

		for (; minute < MINUTES && (int64_t)minute * MINUTE < now; minute++) {
			leave_until(&e, &c, (int64_t)minute * MINUTE);
			load[minute] = (double)c.percent / ((double)gpus * 100);
		}
		if (!p)
			break;
		leave_until(&e, &c, now);
		crowd_add(&c, p, 1);
		if (room_for_all || (c.percent <= gpus * 100 && crowd_gpus(&c) <= gpus)) {
			push(&e, p);
			continue;
		}
		crowd_add(&c, p, -1);
		refused[now / MINUTE] += p->comes_us > 0;
	}
	free(e.heap);
}

void offline_run(const struct day *d, size_t gpus, struct offline *ret)
{
	*ret = (struct offline){0};
	run(d, gpus, true, ret->demand, NULL);
	run(d, gpus, false, ret->load, ret->refused);
}
