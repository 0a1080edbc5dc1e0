/* SPDX-License-Identifier: Apache-2.0 */
/* sim/scale: what happens next: a heap by time, and by the order in which it was planned. */
#include <stdlib.h>

#include "test/sim/scale/scale.h"

static struct event *heap;
static size_t n, cap;
static uint64_t planned;

static bool before(const struct event *a, const struct event *b)
{
	return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

void event_push(struct event e)
{
	size_t i = n++;

	if (n > cap) {
		cap = cap ? 2 * cap : 1024;
		heap = realloc(heap, cap * sizeof(*heap));
		if (!heap)
			abort();
	}
	e.order = ++planned;
	for (; i > 0 && before(&e, &heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = e;
}

int64_t event_next_us(void)
{
	return n > 0 ? heap[0].at_us : INT64_MAX;
}

bool event_pop(struct event *ret)
{
	struct event last;
	size_t i = 0, child;

	if (n == 0)
		return false;
	*ret = heap[0];
	last = heap[--n];
	while ((child = 2 * i + 1) < n) {
		child += child + 1 < n && before(&heap[child + 1], &heap[child]);
		if (!before(&heap[child], &last))
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = last;
	return true;
}

void event_clear(void)
{
	free(heap);
	heap = NULL;
	n = cap = 0;
	planned = 0;
}
