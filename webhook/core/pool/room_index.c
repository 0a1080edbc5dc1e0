/* SPDX-License-Identifier: Apache-2.0 */
/* core: a sorted list in chunks of a few kilobytes, so that a change moves little and a search
 * reads on in memory. */
#include "webhook/core/pool/room_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"

#define CHUNK 128

struct room_chunk {
	uint32_t n;
	struct room_entry entries[CHUNK];
};

/* What entries are sorted by. */
struct key {
	uint64_t bytes, free;
	uint32_t turn;
};

static struct key key_of(const struct room_index *r, const struct room_entry *e)
{
	return (struct key){e->bytes, e->free, r->turn ? r->turn[e->server] : e->server};
}

/* Is the entry before the key? */
static bool before(const struct room_index *r, const struct room_entry *e, const struct key *k)
{
	if (e->bytes != k->bytes)
		return e->bytes < k->bytes;
	if (e->free != k->free)
		return e->free < k->free;
	return (r->turn ? r->turn[e->server] : e->server) < k->turn;
}

static const struct room_entry *entry(const struct room_index *r, const struct room_place *at)
{
	return at->chunk < r->n ? &r->chunks[at->chunk]->entries[at->at] : NULL;
}

/* The place of the first that is not before it; in a chunk, behind its last. */
static struct room_place place_of(const struct room_index *r, const struct key *k)
{
	size_t low = 0, high = r->n;
	struct room_place ret;
	uint32_t from = 0, to;

	/* the first chunk whose last one is not before it */
	while (low < high) {
		size_t mid = (low + high) / 2;
		const struct room_chunk *c = r->chunks[mid];

		if (before(r, &c->entries[c->n - 1], k))
			low = mid + 1;
		else
			high = mid;
	}
	ret.chunk = low;
	to = low < r->n ? r->chunks[low]->n : 0;
	while (from < to) {
		uint32_t mid = (from + to) / 2;

		if (before(r, &r->chunks[low]->entries[mid], k))
			from = mid + 1;
		else
			to = mid;
	}
	ret.at = from;
	return ret;
}

const struct room_entry *room_index_find(const struct room_index *r, uint64_t bytes, uint64_t free,
	uint32_t turn, struct room_place *ret)
{
	*ret = place_of(r, &(struct key){bytes, free, turn});
	return entry(r, ret);
}

const struct room_entry *room_index_next(const struct room_index *r, struct room_place *at)
{
	if (++at->at == r->chunks[at->chunk]->n)
		*at = (struct room_place){.chunk = at->chunk + 1};
	return entry(r, at);
}

const struct room_entry *room_index_previous(const struct room_index *r, struct room_place *at)
{
	if (at->at == 0 && at->chunk == 0)
		return NULL;
	if (at->at == 0)
		*at = (struct room_place){at->chunk - 1, r->chunks[at->chunk - 1]->n};
	at->at--;
	return entry(r, at);
}

/* A new chunk at that place. NULL: out of memory. */
static struct room_chunk *add_chunk(struct room_index *r, size_t at)
{
	struct room_chunk *c;

	if (!LIST_ROOM(r->chunks, r->n, r->cap))
		return NULL;
	c = malloc(sizeof(*c));
	if (!c)
		return NULL;
	c->n = 0;
	memmove(r->chunks + at + 1, r->chunks + at, (r->n - at) * sizeof(struct room_chunk *));
	r->chunks[at] = c;
	r->n++;
	return c;
}

static bool insert(struct room_index *r, struct room_place at, const struct room_entry *e)
{
	struct room_chunk *c, *more;

	/* behind the last of all */
	if (at.chunk == r->n && r->n > 0) {
		at.chunk--;
		at.at = r->chunks[at.chunk]->n;
	}
	if (r->n == 0 && !add_chunk(r, 0))
		return false;
	c = r->chunks[at.chunk];
	if (c->n == CHUNK) {
		more = add_chunk(r, at.chunk + 1);
		if (!more)
			return false;
		more->n = CHUNK / 2;
		c->n = CHUNK - more->n;
		memcpy(more->entries, c->entries + c->n, more->n * sizeof(*e));
		if (at.at > c->n) {
			at.at -= c->n;
			c = more;
		}
	}
	memmove(c->entries + at.at + 1, c->entries + at.at, (c->n - at.at) * sizeof(*e));
	c->entries[at.at] = *e;
	c->n++;
	return true;
}

static void drop(struct room_index *r, struct room_place at)
{
	struct room_chunk *c = r->chunks[at.chunk];

	c->n--;
	memmove(c->entries + at.at, c->entries + at.at + 1, (c->n - at.at) * sizeof(c->entries[0]));
	if (c->n > 0)
		return;
	free(c);
	r->n--;
	memmove(r->chunks + at.chunk, r->chunks + at.chunk + 1,
		(r->n - at.chunk) * sizeof(struct room_chunk *));
}

/* So many GPUs more, or less. */
static void change(struct room_index *r, const struct room_entry *e, bool more)
{
	struct key k = key_of(r, e);
	struct room_place at = place_of(r, &k);
	struct room_entry *is = at.chunk < r->n ? &r->chunks[at.chunk]->entries[at.at] : NULL;

	if (is && (is->bytes != e->bytes || is->free != e->free || is->server != e->server))
		is = NULL;
	if (more && is)
		is->n += e->n;
	else if (more && !insert(r, at, e))
		r->broken = true;
	else if (!more && is && (is->n -= e->n) == 0)
		drop(r, at);
}

static void change_all(struct room_index *r, uint32_t server, uint64_t bytes, uint64_t most,
	const uint64_t *left, size_t n, bool more)
{
	struct room_entry e = {.bytes = bytes, .server = server, .n = 1};

	if (r->broken)
		return;
	if (bytes == 0 && most > 0)
		change(r, &e, more);
	for (size_t i = 0; bytes > 0 && i < n; i += e.n) {
		e.free = left[i];
		/* mostly its neighbours have as much */
		for (e.n = 1; i + e.n < n && left[i + e.n] == e.free;)
			e.n++;
		if (e.free > 0)
			change(r, &e, more);
	}
}

void room_index_add(struct room_index *r, uint32_t server, uint64_t bytes, uint64_t most,
	const uint64_t *left, size_t n)
{
	change_all(r, server, bytes, most, left, n, true);
}

void room_index_remove(struct room_index *r, uint32_t server, uint64_t bytes, uint64_t most,
	const uint64_t *left, size_t n)
{
	change_all(r, server, bytes, most, left, n, false);
}

void room_index_copy(struct room_index *to, const struct room_index *from)
{
	*to = (struct room_index){.broken = from->broken, .turn = from->turn};
	for (size_t i = 0; i < from->n && !to->broken; i++) {
		struct room_chunk *c = add_chunk(to, i);

		if (c)
			*c = *from->chunks[i];
		else
			to->broken = true;
	}
}

void room_index_release(struct room_index *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->chunks[i]);
	free(r->chunks);
	*r = (struct room_index){.turn = r->turn};
}
