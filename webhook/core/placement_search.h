/* SPDX-License-Identifier: Apache-2.0 */
/* core: the state of one search for GPUs. Shared by placement.c, which searches, and placement_refusal.c, which explains
 * why nothing was found; nobody else includes it. */
#ifndef WEBHOOK_CORE_PLACEMENT_SEARCH_H
#define WEBHOOK_CORE_PLACEMENT_SEARCH_H

#include "webhook/core/placement.h"

/* Bytes of the megabyte that launchers and messages count in. */
#define PLACEMENT_MB 1000000u

/* What one decision may look at: GPUs and servers, and moves while they are ordered, of which each takes some seventy
 * instructions. One container looks at each GPU of the pool twice at most. Work and not time, so that the same question has the
 * same answer everywhere. */
#define SEARCH_WORK_MAX 500000u

/* A GPU that may be used: usable, selected, not full, its server open for claims. 24 bytes, since there may be
 * thousands. */
struct slot {
	uint64_t bytes; /* its memory */
	uint64_t free;  /* not held by other pods */
	uint32_t gpu;   /* index on its server */
	uint32_t own;   /* index in search.owns; 0 when this pod holds nothing of it */
};

/* The slots of one server. */
struct bin {
	uint32_t server; /* index in the inventory */
	uint32_t first;  /* index of its first slot */
	uint32_t n;
	bool own; /* this pod uses it already */
	uint32_t
		room; /* of these, how many can hold the container that spread() has at hand; 0 once it was there */
};

/* What this pod holds of one slot. */
struct own {
	uint64_t held;  /* by app and restartable containers together */
	uint64_t early; /* by the restartable ones that run when the init container at hand does */
	uint64_t peak;  /* the most at any moment: what is claimed in the end */
};

/* A slot that can hold one GPU's part of the container at hand, and how gladly. */
struct choice {
	uint64_t growth; /* by how much the pod's claim on it would grow (init containers alone) */
	uint64_t left;   /* bytes that would stay free */
	uint32_t slot;
};

struct search {
	const struct inventory *inv;
	const struct usage *use;
	const struct demand *d;
	const struct filter **known; /* the filters that the pool understands */
	size_t n_known;
	struct slot *slots;
	size_t n_slots;
	struct bin *bins; /* in the order of the inventory */
	size_t n_bins;
	size_t first_bin; /* where the search begins: usage.first */
	struct own *owns; /* from 1 */
	uint32_t n_owns, max_owns;
	uint32_t **picks; /* per container its slots */
	size_t *order;    /* app and restartable containers in falling order of bytes */
	size_t n_order;
	struct choice *best, *other; /* room for one server's choices, twice */
	bool together;               /* prefer servers that this pod uses already */
	bool split;    /* there is room, but not on one server, as the demand wants it */
	bool never;    /* the pool would not hold it if nobody else used it */
	size_t failed; /* the container that found no place */
	uint64_t
		work; /* what was looked at: from SEARCH_WORK_MAX on the search finds nothing more */
	bool concluded; /* one pass ended within the budget: a refusal can say what is free */
	size_t taken_server; /* index in d->servers of a server that cannot be used whole, or n_servers */
};

/* Ready to search: everything is taken from the arena. 0 or ERR_NOMEM. */
int search_init(struct search *s, const struct inventory *inv, const struct usage *use,
	const struct demand *d, struct arena *a);

/* Forget what this pod was given. */
void search_forget(struct search *s);

/* The bins in the order in which they are looked at: i from 0. */
static inline struct bin *search_bin(const struct search *s, size_t i)
{
	size_t at = s->first_bin + i;

	return &s->bins[at < s->n_bins ? at : at - s->n_bins];
}

/* Bytes of a GPU of that size that the container needs; 0 when it cannot use such a GPU. Inline, as is the next: they are
 * asked for every GPU of the pool. */
static inline uint64_t search_need(const struct demand_container *c, uint64_t bytes)
{
	if (c->percent)
		/* floor(bytes * percent / 100) without overflow */
		return bytes / 100 * c->percent + bytes % 100 * c->percent / 100;
	return c->memory_mb > UINT64_MAX / PLACEMENT_MB ? UINT64_MAX : c->memory_mb * PLACEMENT_MB;
}

/* Bytes of the slot that the container could have beside what its pod holds at the same time. */
static inline uint64_t search_room(
	const struct search *s, const struct demand_container *c, const struct slot *slot)
{
	if (slot->own == 0)
		return slot->free;
	return slot->free -
	       (c->kind == CONTAINER_INIT ? s->owns[slot->own].early : s->owns[slot->own].held);
}

/* How many slots could hold one GPU's part of the container now. */
size_t search_count_room(const struct search *s, const struct demand_container *c);

/* The last answer of search_selects: neighbours are mostly alike, and a GPU's model is all that filters see of it. */
struct memo {
	const struct gpu_server *server; /* NULL: nothing remembered */
	const char *model;
	bool selected;
};

/* Can the launcher use the server's address? A name counts as one of either family. */
bool search_reaches(const struct demand *d, const struct gpu_server *server);

/* Can the server be reached, and do the filters select this GPU? m starts zeroed. */
bool search_selects(const struct search *s, const struct gpu_server *server, const struct gpu *gpu,
	struct memo *m);

/* Explain a search that failed: sets err to ERR_REFUSED with reason and sentence and returns it. */
int placement_refuse(const struct search *s, struct err *err);

#endif
