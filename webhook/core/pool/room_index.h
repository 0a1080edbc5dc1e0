/* SPDX-License-Identifier: Apache-2.0 */
/* core: what is free in a pool, in order: a search for the best fit looks at where it is, whatever
 * the pool's size. */
#ifndef WEBHOOK_CORE_POOL_ROOM_INDEX_H
#define WEBHOOK_CORE_POOL_ROOM_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* So many GPUs of one server have just so much free. */
struct room_entry {
	uint64_t bytes; /* the memory of each of the server's GPUs; 0: they differ, and this stands
			   for the server: free is 0, n is 1 */
	uint64_t free;
	uint32_t server;
	uint32_t n;
};

struct room_chunk;

/* Entries in the order of bytes, free and the server's turn. Zero is an empty index. A change costs
 * some comparisons and the move of some kilobytes. Not thread-safe. */
struct room_index {
	struct room_chunk **chunks; /* none is empty */
	size_t n, cap;
	bool broken; /* memory ran out: it says too little */
	/* The turn of each server (inventory.turn). It may change, but not whose comes first of two
	 * that have entries. NULL: the server itself. */
	const uint32_t *turn;
};

/* Where an entry is, until the next change. */
struct room_place {
	size_t chunk;
	uint32_t at;
};

/* Add a server with n GPUs, as room_note() has found them, or take it out again. */
void room_index_add(struct room_index *r, uint32_t server, uint64_t bytes, uint64_t most,
	const uint64_t *left, size_t n);
void room_index_remove(struct room_index *r, uint32_t server, uint64_t bytes, uint64_t most,
	const uint64_t *left, size_t n);
/* A copy, to be changed by itself and released. Out of memory it is broken. */
void room_index_copy(struct room_index *to, const struct room_index *from);
/* Frees; the index is empty afterwards, and not broken. */
void room_index_release(struct room_index *r);

/* The first entry from these values on; NULL: there is none. */
const struct room_entry *room_index_find(const struct room_index *r, uint64_t bytes, uint64_t free,
	uint32_t turn, struct room_place *ret);
/* The one behind it, before it; NULL: it was the last, the first. In front of what
 * room_index_find() has not found is the last one of all. */
const struct room_entry *room_index_next(const struct room_index *r, struct room_place *at);
const struct room_entry *room_index_previous(const struct room_index *r, struct room_place *at);

#endif
