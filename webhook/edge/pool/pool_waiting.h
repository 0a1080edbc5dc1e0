/* SPDX-License-Identifier: Apache-2.0 */
/* edge: who waits for GPUs, as the JSON of /v1/pool tells it. */
#ifndef WEBHOOK_EDGE_POOL_POOL_WAITING_H
#define WEBHOOK_EDGE_POOL_POOL_WAITING_H

#include "base/arena.h"
#include "base/buf.h"
#include "webhook/core/pool/placement.h"

/* So many pods are told of, and so much of a sentence, in bytes. */
#define POOL_WAITING_MAX 100
#define POOL_WAITING_WHY 900
/* All of it, whatever the names are: each byte may be six in JSON. */
#define POOL_WAITING_BYTES (1u << 20)

/* One that waits. Borrowed for the call. */
struct pool_waiting {
	struct slice namespace, name;
	struct slice gang; /* absent: it goes alone */
	struct slice asks; /* in words; absent: nobody knows */
	struct slice why;  /* the same; absent: nobody has said it yet */
	int64_t since_ms;  /* since 1970 */
	size_t place;      /* from 1, in the queue; 0: it has none, or nobody here knows */
};

/* What is asked, in words, in the arena; absent, and the arena has failed, when memory is out. */
struct slice pool_waiting_asks(const struct demand *d, struct arena *a);
/* As much of a sentence as is told, and no half a character. */
struct slice pool_waiting_why(struct slice why);

/* Append the list as compact JSON:
 *
 *   {ordered, pods [{namespace, name, gang ("" for none), asks, since (RFC 3339, UTC), place,
 * why}], total, more}
 *
 * ordered: in the order of the queue, as the leader has it; else by age, each with what it was told
 * last, and without its place. more: there are more than that total. Errors are the buffer's. */
void pool_waiting_begin(struct buf *out, bool ordered);
void pool_waiting_add(struct buf *out, const struct pool_waiting *pod);
void pool_waiting_end(struct buf *out, size_t total, bool more);

/* Who can tell: the list in the arena, or "null" where nobody knows it now; absent when memory is
 * out. tell NULL: nobody waits here, ever. For threads that may wait. */
struct pool_waiting_source {
	void *ctx;
	struct slice (*tell)(void *ctx, struct arena *a);
};

#endif
