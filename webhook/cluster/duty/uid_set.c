// SPDX-License-Identifier: Apache-2.0
// cluster: a counting set of uids: open addressing, and removal that leaves no gaps.
#include "webhook/cluster/duty/uid_set.h"

#include <stdlib.h>

#include "base/text.h"

#define CAP_FIRST 64

static uint64_t hash_of(struct slice uid)
{
	uint64_t hash = text_hash64(uid);

	return hash ? hash : 1;
}

/* Where the hash is, or belongs. There is always a free slot. */
static size_t place_of(const struct uid_set *s, uint64_t hash)
{
	size_t at = hash & (s->cap - 1);

	while (s->slots[at].hash && s->slots[at].hash != hash)
		at = (at + 1) & (s->cap - 1);
	return at;
}

static bool grow(struct uid_set *s)
{
	struct uid_set more = {.cap = s->cap ? 2 * s->cap : CAP_FIRST, .n = s->n};

	more.slots = calloc(more.cap, sizeof(*more.slots));
	if (!more.slots)
		return false;
	for (size_t i = 0; i < s->cap; i++)
		if (s->slots[i].hash)
			more.slots[place_of(&more, s->slots[i].hash)] = s->slots[i];
	free(s->slots);
	*s = more;
	return true;
}

void uid_set_add(struct uid_set *s, struct slice uid)
{
	uint64_t hash = hash_of(uid);
	struct uid_slot *slot;

	if (s->blind)
		return;
	if (s->cap < 2 * (s->n + 1) && !grow(s)) {
		uid_set_release(s);
		s->blind = true;
		return;
	}
	slot = &s->slots[place_of(s, hash)];
	if (!slot->hash) {
		slot->hash = hash;
		s->n++;
	}
	slot->count++;
}

void uid_set_remove(struct uid_set *s, struct slice uid)
{
	size_t mask = s->cap - 1, gap;

	if (!s->cap)
		return;
	gap = place_of(s, hash_of(uid));
	if (!s->slots[gap].hash || --s->slots[gap].count)
		return;
	s->n--;
	/* Those behind it that are not where they belong move up, so that they are still found. */
	for (size_t at = (gap + 1) & mask; s->slots[at].hash; at = (at + 1) & mask) {
		size_t home = s->slots[at].hash & mask;

		if (((at - home) & mask) < ((at - gap) & mask))
			continue;
		s->slots[gap] = s->slots[at];
		gap = at;
	}
	s->slots[gap] = (struct uid_slot){0};
}

uint32_t uid_set_count(const struct uid_set *s, struct slice uid)
{
	if (s->blind)
		return UINT32_MAX;
	/* A free slot's count is 0. */
	return s->n ? s->slots[place_of(s, hash_of(uid))].count : 0;
}

void uid_set_release(struct uid_set *s)
{
	free(s->slots);
	*s = (struct uid_set){0};
}
