/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: see side_by_side.h. */
#include "webhook/cluster/duty/side_by_side.h"

#include <pthread.h>
#include <stdatomic.h>

#define SIDE_BY_SIDE 16

struct crew {
	atomic_size_t next;
	size_t n;
	void (*fn)(void *ctx, size_t i);
	void *ctx;
};

static void *work(void *arg)
{
	struct crew *crew = arg;

	for (size_t i; (i = atomic_fetch_add(&crew->next, 1)) < crew->n;)
		crew->fn(crew->ctx, i);
	return NULL;
}

void run_side_by_side(size_t n, void (*fn)(void *ctx, size_t i), void *ctx)
{
	struct crew crew = {.n = n, .fn = fn, .ctx = ctx};
	pthread_t threads[SIDE_BY_SIDE - 1];
	size_t started = 0;

	/* Threads inherit the mask of the duty's thread: no signals. */
	while (started + 1 < n && started < SIDE_BY_SIDE - 1 &&
		pthread_create(&threads[started], NULL, work, &crew) == 0)
		started++;
	(void)work(&crew);
	for (size_t i = 0; i < started; i++)
		(void)pthread_join(threads[i], NULL);
}
