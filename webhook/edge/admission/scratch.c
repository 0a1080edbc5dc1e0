/* SPDX-License-Identifier: Apache-2.0 */
/* edge: a list of scratch memories behind a mutex. */
#include "webhook/edge/admission/scratch.h"

#include <pthread.h>
#include <stdlib.h>

/* Kept from review to review; above it the memory goes back to the system. */
#define KEEP_NODES 16384U
#define KEEP_PATCH (256U * 1024)

struct scratch_pool {
	pthread_mutex_t lock;
	struct scratch *idle;
};

struct scratch_pool *scratch_pool_new(void)
{
	struct scratch_pool *p = calloc(1, sizeof(*p));

	if (p && pthread_mutex_init(&p->lock, NULL) != 0) {
		free(p);
		p = NULL;
	}
	return p;
}

static void scratch_free(struct scratch *s)
{
	json_release(&s->json);
	arena_release(&s->arena);
	buf_release(&s->patch);
	free(s);
}

void scratch_pool_free(struct scratch_pool *p)
{
	if (!p)
		return;
	while (p->idle) {
		struct scratch *s = p->idle;

		p->idle = s->next;
		scratch_free(s);
	}
	pthread_mutex_destroy(&p->lock);
	free(p);
}

struct scratch *scratch_take(struct scratch_pool *p)
{
	struct scratch *s;

	pthread_mutex_lock(&p->lock);
	s = p->idle;
	if (s)
		p->idle = s->next;
	pthread_mutex_unlock(&p->lock);
	if (s)
		return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	json_init(&s->json);
	arena_init(&s->arena, SCRATCH_ARENA_MAX);
	buf_init(&s->patch, SCRATCH_PATCH_MAX);
	return s;
}

void scratch_give(struct scratch_pool *p, struct scratch *s)
{
	arena_reset(&s->arena);
	buf_clear(&s->patch);
	if (s->json.cap > KEEP_NODES)
		json_release(&s->json);
	if (s->patch.cap > KEEP_PATCH)
		buf_release(&s->patch);
	pthread_mutex_lock(&p->lock);
	s->next = p->idle;
	p->idle = s;
	pthread_mutex_unlock(&p->lock);
}
