/* SPDX-License-Identifier: Apache-2.0 */
/* test: the index of what is free, against a list of all GPUs that is looked through. */
#include "webhook/core/pool/room_index.h"

#include "test/unit/test.h"

#define SERVERS 120
#define GPUS 8
#define MIB 1048576u

struct pool {
	struct room_index index;
	uint32_t random;
	unsigned n;
	struct {
		uint64_t bytes, most, left[GPUS];
	} server[SERVERS];
};

static unsigned pick(struct pool *p, unsigned n)
{
	p->random = p->random * 1664525 + 1013904223;
	return (p->random >> 8) % n;
}

static void draw(struct pool *p, unsigned server)
{
	p->server[server].bytes = pick(p, 10) ? (1 + pick(p, 2)) * 20ull * MIB : 0;
	p->server[server].most = 0;
	for (unsigned g = 0; g < GPUS; g++) {
		p->server[server].left[g] = pick(p, 21) * MIB;
		if (p->server[server].left[g] > p->server[server].most)
			p->server[server].most = p->server[server].left[g];
	}
}

static void put(struct pool *p, unsigned server, bool there)
{
	(there ? room_index_add : room_index_remove)(&p->index, server, p->server[server].bytes,
		p->server[server].most, p->server[server].left, GPUS);
}

/* The next entry behind (bytes, free, server), by a look at all. */
static bool next(const struct pool *p, struct room_entry *e)
{
	struct room_entry best = {.bytes = UINT64_MAX};

	for (uint32_t i = 0; i < p->n; i++)
		for (unsigned g = 0; g < (p->server[i].bytes ? GPUS : 1); g++) {
			uint64_t bytes = p->server[i].bytes;
			uint64_t left = bytes ? p->server[i].left[g] : 0;

			if ((bytes ? left : p->server[i].most) == 0 || bytes < e->bytes ||
				(bytes == e->bytes &&
					(left < e->free || (left == e->free && i <= e->server))) ||
				bytes > best.bytes ||
				(bytes == best.bytes &&
					(left > best.free ||
						(left == best.free && i > best.server))))
				continue;
			if (bytes != best.bytes || left != best.free || i != best.server)
				best = (struct room_entry){bytes, left, i, 0};
			best.n++;
		}
	*e = best;
	return best.n > 0;
}

static void check(struct pool *p)
{
	struct room_entry want = {.server = UINT32_MAX};
	struct room_place at;
	const struct room_entry *e;
	bool any;

	/* server 0 of the class of mixed servers is behind nothing */
	e = room_index_find(&p->index, 0, 0, 0, &at);
	if (p->n && p->server[0].bytes == 0 && p->server[0].most) {
		assert_int_equal(e->server, 0);
		want = *e;
		e = room_index_next(&p->index, &at);
	} else {
		want = (struct room_entry){.server = 0};
	}
	for (; (any = next(p, &want)); e = room_index_next(&p->index, &at)) {
		struct room_place found;

		assert_non_null(e);
		assert_memory_equal(e, &want, sizeof(want));
		assert_ptr_equal(
			room_index_find(&p->index, want.bytes, want.free, want.server, &found), e);
	}
	assert_null(e);
}

TEST(test_against_a_list)
{
	struct pool p = {.random = 5, .n = SERVERS};

	for (unsigned i = 0; i < SERVERS; i++) {
		draw(&p, i);
		put(&p, i, true);
	}
	check(&p);
	for (unsigned step = 0; step < 3000; step++) {
		unsigned i = pick(&p, SERVERS);

		put(&p, i, false);
		draw(&p, i);
		put(&p, i, true);
		if (step % 100 == 0)
			check(&p);
	}
	for (unsigned i = 0; i < SERVERS; i++)
		put(&p, i, false);
	assert_int_equal(p.index.n, 0);
	assert_false(p.index.broken);
	room_index_release(&p.index);
}

/* Of servers with the same room the one whose turn is first comes first; turns may change as long
 * as that stays. */
TEST(test_turns)
{
	struct pool p = {.random = 9, .n = SERVERS};
	uint32_t turn[SERVERS];
	struct room_place at;
	const struct room_entry *e, *last = NULL;

	p.index.turn = turn;
	for (uint32_t i = 0; i < SERVERS; i++)
		turn[i] = SERVERS - 1 - i;
	for (unsigned i = 0; i < SERVERS; i++) {
		draw(&p, i);
		put(&p, i, true);
	}
	for (uint32_t i = 0; i < SERVERS; i++)
		turn[i] = 2 * (SERVERS - 1 - i) + 1;
	for (unsigned step = 0; step < 3000; step++) {
		unsigned i = pick(&p, SERVERS);

		put(&p, i, false);
		draw(&p, i);
		put(&p, i, true);
	}
	for (e = room_index_find(&p.index, 0, 0, 0, &at); e; e = room_index_next(&p.index, &at)) {
		struct room_place found;

		assert_ptr_equal(
			room_index_find(&p.index, e->bytes, e->free, turn[e->server], &found), e);
		if (last && last->bytes == e->bytes && last->free == e->free)
			assert_true(turn[last->server] < turn[e->server]);
		last = e;
	}
	for (unsigned i = 0; i < SERVERS; i++)
		put(&p, i, false);
	assert_int_equal(p.index.n, 0);
	room_index_release(&p.index);
	assert_ptr_equal(p.index.turn, turn);
}

/* A copy is changed by itself. */
TEST(a_copy)
{
	struct pool p = {.random = 3, .n = SERVERS}, was;

	for (unsigned i = 0; i < SERVERS; i++) {
		draw(&p, i);
		put(&p, i, true);
	}
	was = p;
	room_index_copy(&p.index, &was.index);
	check(&p);
	for (unsigned i = 0; i < SERVERS; i++) {
		put(&p, i, false);
		draw(&p, i);
		put(&p, i, true);
	}
	check(&p);
	check(&was);
	room_index_release(&p.index);
	room_index_release(&was.index);
	room_index_copy(&p.index, &was.index);
	assert_true(p.index.n == 0 && !p.index.broken);
}

TESTS(test_against_a_list, test_turns, a_copy)
