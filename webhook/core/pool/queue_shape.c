/* SPDX-License-Identifier: Apache-2.0 */
/* core: who asks the same, and ways to put thousands in order that a round cannot do without. */
#include "base/list.h"
#include "webhook/core/pool/queue_impl.h"

/* ---- shapes ---- */

#define COMPARE(a, b)                                                                              \
	do {                                                                                       \
		if ((a) != (b))                                                                    \
			return (a) < (b) ? -1 : 1;                                                 \
	} while (0)

static int compare_demands(const struct demand *a, const struct demand *b)
{
	int c = 0;

	if (a == b)
		return 0;
	COMPARE(a->n_containers, b->n_containers);
	COMPARE(a->n_filters, b->n_filters);
	COMPARE(a->n_servers, b->n_servers);
	COMPARE(a->whole_servers, b->whole_servers);
	COMPARE(a->no_ipv4, b->no_ipv4);
	COMPARE(a->no_ipv6, b->no_ipv6);
	COMPARE(a->one_server, b->one_server);
	COMPARE(a->guarded, b->guarded);
	COMPARE(a->gate_by, b->gate_by);
	COMPARE((uintptr_t)a->bound, (uintptr_t)b->bound);
	c = slice_order(a->launcher, b->launcher);
	if (c)
		return c;
	for (size_t i = 0; i < a->n_containers; i++) {
		const struct demand_container *x = &a->containers[i], *y = &b->containers[i];

		COMPARE(x->kind, y->kind);
		COMPARE(x->amount, y->amount);
		COMPARE(x->percent, y->percent);
		COMPARE(x->memory_mb, y->memory_mb);
		/* refusals name it */
		c = a->n_containers > 1 ? slice_order(x->name, y->name) : 0;
		if (c)
			return c;
	}
	for (size_t i = 0; i < a->n_filters && c == 0; i++)
		c = slice_order(a->filters[i].token, b->filters[i].token);
	for (size_t i = 0; i < a->n_servers && c == 0; i++)
		c = slice_order(a->servers[i], b->servers[i]);
	return c;
}

/* What the unit asks against what a shape asks. */
static int compare_shape(
	const struct queue_run *q, const struct queue_shape *s, const struct queue_unit *u)
{
	int c = 0;

	COMPARE(s->n, u->n_open);
	COMPARE(s->asks, u->asks);
	for (size_t i = u->asks != 0; i < s->n && c == 0; i++) {
		const struct queue_pod *x = &q->pods[s->pods[i]], *y = &q->pods[u->pods[i]];

		COMPARE(x->asks, y->asks);
		c = x->asks ? 0 : compare_demands(x->demand, y->demand);
	}
	return c;
}

static struct queue_shape *add_shape(struct queue_run *q, size_t at, const struct queue_unit *u)
{
	struct queue_shape *s = arena_alloc(q->a, sizeof(*s));

	if (!s || !LIST_ROOM_IN(q->a, q->shapes, q->n_shapes, q->cap_shapes))
		return NULL;
	s->n = u->n_open;
	s->asks = u->asks;
	s->pods = u->pods;
	memmove(q->shapes + at + 1, q->shapes + at,
		(q->n_shapes - at) * sizeof(struct queue_shape *));
	q->shapes[at] = s;
	q->n_shapes++;
	return s;
}

struct queue_shape *queue_shape_of(struct queue_run *q, struct queue_unit *u)
{
	size_t low = 0, high = q->n_shapes;

	while (!u->shape && low < high) {
		size_t mid = (low + high) / 2;
		int c = compare_shape(q, q->shapes[mid], u);

		if (c == 0)
			u->shape = q->shapes[mid];
		else if (c < 0)
			low = mid + 1;
		else
			high = mid;
	}
	if (!u->shape)
		u->shape = add_shape(q, low, u);
	return u->shape;
}

/* ---- the order ---- */

void queue_heap_sink(struct queue_unit **heap, size_t n, size_t at, queue_before *before)
{
	struct queue_unit *u = heap[at];
	size_t child;

	while ((child = 2 * at + 1) < n) {
		if (child + 1 < n && before(heap[child + 1], heap[child]))
			child++;
		if (!before(heap[child], u))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = u;
}

void queue_heap_make(struct queue_unit **heap, size_t n, queue_before *before)
{
	for (size_t at = n / 2; at > 0; at--)
		queue_heap_sink(heap, n, at - 1, before);
}

/* From one list into the other, by one byte of the keys. */
static void sort_by_byte(
	const struct queue_keyed *from, struct queue_keyed *to, size_t n, unsigned shift)
{
	size_t next[257] = {0};

	for (size_t i = 0; i < n; i++)
		next[((from[i].key >> shift) & 255) + 1]++;
	for (size_t byte = 1; byte < 256; byte++)
		next[byte] += next[byte - 1];
	for (size_t i = 0; i < n; i++)
		to[next[(from[i].key >> shift) & 255]++] = from[i];
}

void queue_sort_keyed(struct queue_keyed *list, struct queue_keyed *spare, size_t n)
{
	struct queue_keyed *from = list, *to = spare;
	uint64_t differ = 0;

	for (size_t i = 1; i < n; i++)
		differ |= list[i].key ^ list[0].key;
	for (unsigned shift = 0; shift < 64; shift += 8) {
		if (!((differ >> shift) & 255))
			continue;
		sort_by_byte(from, to, n, shift);
		from = to;
		to = from == list ? spare : list;
	}
	if (from != list)
		memcpy(list, from, n * sizeof(*list));
}
