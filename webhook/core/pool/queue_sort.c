/* SPDX-License-Identifier: Apache-2.0 */
/* core: ways to put thousands in order that a round cannot do without. */
#include "webhook/core/pool/queue_impl.h"

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
