/* SPDX-License-Identifier: Apache-2.0 */
/* test: the n-th allocation fails, for each n, while the queue decides: the same round, or an error
 * that says so and keeps nothing. Linked with --wrap for malloc, calloc and realloc. */
#include "test/unit/oom_wrap.h"
#include "test/unit/pool_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/pool/queue.h"

#define NOW 1000000000000ll

/* A pool with an index, as a leader has it, and a crowd of which some start, some are kept back,
 * and a gang does not fit. */
struct world {
	struct pool pool;
	struct room_index index;
	uint32_t first[2], gpus[2], usable[2];
	uint64_t bytes[2], most[2], left[5];
	struct pool_room room;
	struct demand one, three, half, much;
};

static void world_init(struct world *x)
{
	*x = (struct world){0};
	pool_init(&x->pool, "a t4:8000 t4:8000/8000 t4:8000; b t4:8000/1000 t4:8000/8000");
	x->first[1] = 3;
	x->gpus[0] = 3;
	x->gpus[1] = 2;
	for (uint32_t s = 0; s < 2; s++) {
		const struct gpu_server *at = &x->pool.inv.servers[s];

		room_note(at, x->pool.claimed + at->first_gpu, &x->bytes[s], &x->most[s],
			&x->usable[s], x->left + at->first_gpu);
		room_index_add(
			&x->index, s, x->bytes[s], x->most[s], x->left + at->first_gpu, at->n_gpus);
	}
	x->room = (struct pool_room){
		x->first, x->gpus, x->bytes, x->most, x->left, x->usable, 3, &x->index};
	x->pool.use.room = &x->room;
	demand_init(&x->one, &x->pool.arena, "app a 1 100%", NULL, NULL, false);
	demand_init(&x->three, &x->pool.arena, "app a 3 100%", NULL, NULL, false);
	demand_init(&x->half, &x->pool.arena, "app a 1 50%", NULL, NULL, false);
	demand_init(&x->much, &x->pool.arena, "app a 9 100%", NULL, NULL, false);
}

static void world_release(struct world *x)
{
	room_index_release(&x->index);
	pool_release(&x->pool);
}

static int decide(struct world *x, struct arena *a, struct queue_round *ret, struct err *err)
{
	const struct queue_pod pods[] = {
		{.uid = SLICE("a"), .namespace = SLICE("x"), .demand = &x->half, .priority = 1},
		{.uid = SLICE("b"),
			.namespace = SLICE("x"),
			.demand = &x->three,
			.since_ms = NOW - 60000},
		{.uid = SLICE("c"),
			.namespace = SLICE("x"),
			.demand = &x->one,
			.gang = SLICE("g"),
			.gang_size = 2,
			.since_ms = NOW},
		{.uid = SLICE("d"),
			.namespace = SLICE("x"),
			.demand = &x->three,
			.gang = SLICE("g"),
			.gang_size = 2,
			.since_ms = NOW},
		{.uid = SLICE("e"), .namespace = SLICE("y"), .demand = &x->one, .since_ms = NOW},
		{.uid = SLICE("f"), .namespace = SLICE("y"), .demand = &x->much, .since_ms = NOW},
		{.uid = SLICE("g"),
			.namespace = SLICE("y"),
			.demand = &x->half,
			.since_ms = NOW,
			.foreign = true},
	};
	const struct queue_world w = {.inventory = &x->pool.inv,
		.usage = &x->pool.use,
		.now_ms = NOW,
		.reserve_ms = 60000};

	return queue_decide(&w, pods, COUNT(pods), true, a, ret, err);
}

/* The round in figures. */
static void check(const struct queue_round *r)
{
	static const enum queue_verdict want[] = {QUEUE_START, QUEUE_NO_ROOM, QUEUE_NO_ROOM,
		QUEUE_NO_ROOM, QUEUE_KEPT, QUEUE_NEVER, QUEUE_FOREIGN};

	for (size_t i = 0; i < COUNT(want); i++)
		assert_int_equal(r->entries[i].verdict, want[i]);
	assert_int_equal(r->entries[0].where.holds[0].bytes, 4000 * MB);
	assert_int_equal(r->head, 1);
	assert_int_equal(r->n_keep, 3);
	assert_int_equal(r->entries[4].before, 1);
	assert_true(r->entries[2].why.len > 20);
}

TEST(each_allocation_fails_once)
{
	size_t broken = 0;
	bool failed = true;

	for (long n = -1; failed; n++) {
		struct queue_round r = {.n_start = 77};
		struct err err = {0};
		struct world x;
		struct arena a;
		int rc;

		world_init(&x);
		arena_init(&a, 1u << 24);
		oom_begin(n, OOM_ONE);
		rc = decide(&x, &a, &r, &err);
		failed = oom_end() || n < 0;
		if (rc == 0) {
			check(&r);
		} else {
			assert_int_equal(rc, ERR_NOMEM);
			assert_true(err.msg[0] != '\0');
			assert_int_equal(r.n_start, 77);
			broken++;
		}
		arena_release(&a);
		world_release(&x);
	}
	assert_true(broken > 40);
}

TESTS(each_allocation_fails_once)
