/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the memory that one review is decided in, kept from review to review. */
#ifndef WEBHOOK_EDGE_ADMISSION_SCRATCH_H
#define WEBHOOK_EDGE_ADMISSION_SCRATCH_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/json/json_read.h"

/* Decisions on the largest body stay far below; a stranger cannot make one review cost more. */
#define SCRATCH_ARENA_MAX (64U * 1024 * 1024)
#define SCRATCH_PATCH_MAX (16U * 1024 * 1024)

/* One review's memory. One thread at a time. */
struct scratch {
	struct scratch *next;
	struct json json;
	struct arena arena;
	struct buf patch;
};

/* Scratches that are free; as many come to exist as reviews are decided at one time. */
struct scratch_pool;

struct scratch_pool *scratch_pool_new(void);
/* All scratches must have been given back. NULL-safe. */
void scratch_pool_free(struct scratch_pool *p);

/* A clean one, or NULL when out of memory. Any thread. */
struct scratch *scratch_take(struct scratch_pool *p);
/* Give it back: what was allocated for an unusually large review is freed. */
void scratch_give(struct scratch_pool *p, struct scratch *s);

#endif
