/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the queue of pods that wait, as numbers for everybody: of whom, nobody is told. */
#include "webhook/cluster/claims/claims_impl.h"
#include "webhook/edge/metrics/metrics.h"

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
