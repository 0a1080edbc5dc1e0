/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: a counting set of uids: open addressing, and removal that leaves no gaps. */
#include "webhook/cluster/duty/uid_set.h"

#include <stdlib.h>

#include "base/text.h"

#define CAP_FIRST 4

static uint64_t hash_of(struct slice uid)
{
	uint64_t hash = text_hash64(uid);

	return hash ? hash : 1;
}

/* The part says what the lower bits do not. */
static struct uid_part *part_of(struct uid_set *s, uint64_t hash)
{
	return &s->part[hash >> 56];
}

/* Where the hash is, or belongs. There is always a free slot. */
static size_t place_of(const struct uid_part *p, uint64_t hash)
{
	size_t at = hash & (p->cap - 1);

	while (p->slots[at].hash && p->slots[at].hash != hash)
		at = (at + 1) & (p->cap - 1);
	return at;
}

static bool grow(struct uid_part *p)
{
	struct uid_part more = {.cap = p->cap ? 2 * p->cap : CAP_FIRST, .n = p->n};

	more.slots = calloc(more.cap, sizeof(*more.slots));
	if (!more.slots)
		return false;
	for (size_t i = 0; i < p->cap; i++)
		if (p->slots[i].hash)
			more.slots[place_of(&more, p->slots[i].hash)] = p->slots[i];
	free(p->slots);
	*p = more;
	return true;
}

void uid_set_add(struct uid_set *s, struct slice uid)
{
	uint64_t hash = hash_of(uid);
	struct uid_part *p = part_of(s, hash);
	struct uid_slot *slot;

	if (s->blind)
		return;
	if (p->cap < 2 * (p->n + 1) && !grow(p)) {
		uid_set_release(s);
		s->blind = true;
		return;
	}
	slot = &p->slots[place_of(p, hash)];
	if (!slot->hash) {
		slot->hash = hash;
		p->n++;
		s->n++;
	}
	slot->count++;
}

void uid_set_remove(struct uid_set *s, struct slice uid)
{
	uint64_t hash = hash_of(uid);
	struct uid_part *p = part_of(s, hash);
	size_t mask = (size_t)p->cap - 1, gap;

	if (!p->cap)
		return;
	gap = place_of(p, hash);
	if (!p->slots[gap].hash || --p->slots[gap].count)
		return;
	p->n--;
	s->n--;
	/* Those behind it that are not where they belong move up, so that they are still found. */
	for (size_t at = (gap + 1) & mask; p->slots[at].hash; at = (at + 1) & mask) {
		size_t home = p->slots[at].hash & mask;

		if (((at - home) & mask) < ((at - gap) & mask))
			continue;
		p->slots[gap] = p->slots[at];
		gap = at;
	}
	p->slots[gap] = (struct uid_slot){0};
}

uint32_t uid_set_count(const struct uid_set *s, struct slice uid)
{
	uint64_t hash = hash_of(uid);
	const struct uid_part *p = &s->part[hash >> 56];

	if (s->blind)
		return UINT32_MAX;
	/* A free slot's count is 0. */
	return p->n ? p->slots[place_of(p, hash)].count : 0;
}

void uid_set_release(struct uid_set *s)
{
	for (size_t i = 0; i < UID_SET_PARTS; i++)
		free(s->part[i].slots);
	*s = (struct uid_set){0};
}
