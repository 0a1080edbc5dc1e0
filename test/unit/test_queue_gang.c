/* SPDX-License-Identifier: Apache-2.0 */
/* test: what a gang that runs can have before others, in the hands of somebody who wants more. */
#include "webhook/core/pool/queue.h"

#include "test/unit/pool_fixture.h"
#include "test/unit/test.h"

#define NOW 1000000000000ll
#define SEATS 12

static unsigned pick(uint32_t *x, unsigned n)
{
	*x = *x * 1664525 + 1013904223;
	return (*x >> 8) % n;
}

/* A member, as its pod or claim is. */
struct seat {
	enum { AWAY, WAITS, LIVES, LEAVES, GONE } is;
	struct demand demand;
	struct demand_container container;
	char name[4];
};

/* Made anew, of any size; deleted, also by force; ended. */
static void change_seat(uint32_t *x, struct seat *s)
{
	switch (s->is) {
	case AWAY:
		s->container = (struct demand_container){
			.name = SLICE("c"), .amount = 1 + pick(x, 2), .percent = 1 + pick(x, 100)};
		s->demand = (struct demand){.containers = &s->container, .n_containers = 1};
		s->is = WAITS;
		break;
	case WAITS:
		s->is = pick(x, 4) ? WAITS : AWAY;
		break;
	case LIVES:
		s->is = pick(x, 3) ? pick(x, 2) ? LEAVES : GONE : AWAY;
		break;
	case LEAVES:
		s->is = pick(x, 2) ? GONE : AWAY;
		break;
	case GONE:
		s->is = AWAY;
		break;
	}
}

/* One round of a pool in which all fits: who goes before the other namespace's pod, which has the
 * highest priority, lives then. How many did. */
static unsigned join_first(
	struct pool *p, struct seat *seats, const struct gang_began *began, const struct gpu *like)
{
	struct demand_container one = {.name = SLICE("c"), .amount = 1, .percent = 1};
	struct demand other = {.containers = &one, .n_containers = 1};
	struct queue_pod pods[SEATS + 1] = {{.uid = SLICE("o"),
		.namespace = SLICE("y"),
		.demand = &other,
		.priority = 9,
		.since_ms = NOW}};
	struct queue_world w = {
		.inventory = &p->inv, .usage = &p->use, .now_ms = NOW, .reserve_ms = INT64_MAX};
	struct queue_member members[SEATS];
	struct queue_pod of[SEATS];
	struct queue_round r;
	size_t n = 1, m = 0, who[SEATS + 1];
	unsigned joined = 0;
	struct arena a;

	arena_init(&a, 1u << 24);
	for (size_t i = 0; i < SEATS; i++) {
		struct seat *s = &seats[i];

		of[i] = (struct queue_pod){.uid = slice_of(s->name),
			.name = slice_of(s->name),
			.namespace = SLICE("x"),
			.demand = &s->demand,
			.since_ms = NOW - (int64_t)i,
			.gang = SLICE("g"),
			.gang_size = began->size,
			.gang_began.key = began->key};
		if (s->is == WAITS) {
			who[n] = i;
			pods[n++] = of[i];
		} else if (s->is != AWAY) {
			members[m++] = (struct queue_member){.pod = s->is == GONE ? NULL : &of[i],
				.leaving = s->is == LEAVES,
				.began = *began,
				.namespace = SLICE("x")};
			members[m - 1].began.asks = queue_size_of(&s->demand, like);
		}
	}
	queue_count_gangs(&p->inv, pods, n, members, m);
	assert_int_equal(queue_decide(&w, pods, n, false, &a, &r, NULL), 0);
	for (size_t i = 1; i < n; i++)
		if (r.entries[i].verdict == QUEUE_START &&
			r.entries[i].place < r.entries[0].place) {
			seats[who[i]].is = LIVES;
			joined++;
		}
	arena_release(&a);
	return joined;
}

/* Law W11: whatever becomes of its members, by joining first a gang has neither more pods nor more
 * bytes than it began with; claims that linger are its own. */
TEST(w11_a_gang_never_has_more_than_it_began_with)
{
	struct pool p;
	struct gpu like;
	unsigned joined = 0;

	pool_init(&p, "a t4:8000 t4:8000 t4:8000 t4:8000 t4:8000 t4:8000 t4:8000 t4:8000; "
		      "b t4:8000 t4:8000 t4:8000 t4:8000 t4:8000 t4:8000 t4:8000 t4:8000; "
		      "c t4:8000 t4:8000 t4:8000 t4:8000 t4:8000 t4:8000 t4:8000 t4:8000");
	like = queue_largest(&p.inv);
	for (uint32_t seed = 1; seed <= 200; seed++) {
		uint32_t x = seed * 2654435761u + 1;
		struct gang_began began = {.size = 2 + pick(&x, 5)};
		struct queue_pod of = {
			.namespace = SLICE("x"), .gang = SLICE("g"), .gang_size = began.size};
		struct seat seats[SEATS] = {{.is = AWAY}};

		began.key = queue_gang_key(&of);
		for (size_t i = 0; i < SEATS; i++) {
			(void)snprintf(seats[i].name, sizeof(seats[i].name), "g%zu", i % 16);
			if (i >= began.size)
				continue;
			change_seat(&x, &seats[i]);
			seats[i].is = LIVES;
			began.bytes += queue_size_of(&seats[i].demand, &like);
		}
		for (unsigned round = 0; round < 60; round++) {
			struct gang_began now = {0};

			/* one lives on: the gang runs */
			change_seat(&x, &seats[1 + pick(&x, SEATS - 1)]);
			joined += join_first(&p, seats, &began, &like);
			for (size_t i = 0; i < SEATS; i++)
				if (seats[i].is > WAITS) {
					now.size++;
					now.bytes += queue_size_of(&seats[i].demand, &like);
				}
			if (now.size > began.size || now.bytes > began.bytes)
				fail_msg("seed %u, round %u: %u pods, %llu bytes", seed, round,
					now.size, (unsigned long long)now.bytes);
		}
	}
	assert_true(joined > 1000);
	pool_release(&p);
}

/* As a placement holds it: init containers one after the other, but beside those that run on. */
TEST(w11_a_pod_asks_what_it_holds_at_once)
{
	struct demand_container list[202];
	struct demand d = {.containers = list, .n_containers = 201};
	struct gpu like = {.bytes = 1000};

	for (size_t i = 0; i < COUNT(list); i++)
		list[i] = (struct demand_container){.name = SLICE("c"),
			.kind = i < 200 ? CONTAINER_INIT : CONTAINER_APP,
			.amount = 1,
			.percent = 100};
	assert_int_equal(queue_size_of(&d, &like), 1000);
	list[7].amount = 3;
	assert_int_equal(queue_size_of(&d, &like), 3000);
	list[3].kind = CONTAINER_RESTARTABLE;
	assert_int_equal(queue_size_of(&d, &like), 4000);
	list[3].kind = CONTAINER_INIT;
	list[8].kind = CONTAINER_RESTARTABLE;
	assert_int_equal(queue_size_of(&d, &like), 3000);
	list[7].amount = 1;
	d.n_containers = 202;
	assert_int_equal(queue_size_of(&d, &like), 3000);
	list[7].amount = UINT32_MAX;
	list[7].percent = 0;
	list[7].memory_mb = UINT64_C(1) << 40;
	assert_true(queue_size_of(&d, &like) == UINT64_MAX);
}

/* Nobody walks through the members of other namespaces, whatever these call their gangs. */
TEST(w11_a_key_is_of_its_namespace)
{
	struct queue_pod x = {.namespace = SLICE("x"), .gang = SLICE("g"), .gang_size = 2}, y = x;

	assert_int_equal(queue_gang_key(&x), queue_gang_key(&y));
	y.namespace = SLICE("y");
	assert_int_not_equal(queue_gang_key(&x), queue_gang_key(&y));
	x.gang_job = y.gang_job = true;
	assert_int_not_equal(queue_gang_key(&x), queue_gang_key(&y));
	y = x;
	y.gang = SLICE("h");
	assert_int_not_equal(queue_gang_key(&x), queue_gang_key(&y));
	y = x;
	y.owner = SLICE("j");
	assert_int_not_equal(queue_gang_key(&x), queue_gang_key(&y));
}

/* A pool whose largest GPU is larger than when the gang began: who asks by percent asks no more
 * than those that he takes the place of; without the word of their claims he does. */
TEST(w11_a_larger_gpu_takes_no_seats)
{
	struct demand_container whole = {.name = SLICE("c"), .amount = 1, .percent = 100};
	struct demand d = {.containers = &whole, .n_containers = 1};
	struct gang_began began = {.size = 2, .bytes = 32000 * MB, .like = 16000 * MB};
	struct queue_pod pods[2] = {{.uid = SLICE("o"),
					    .namespace = SLICE("y"),
					    .demand = &d,
					    .priority = 9,
					    .since_ms = NOW},
		{.uid = SLICE("g1"),
			.namespace = SLICE("x"),
			.demand = &d,
			.since_ms = NOW,
			.gang = SLICE("g"),
			.gang_size = 2}};
	struct queue_pod lives = pods[1];
	struct queue_member member = {.pod = &lives};
	struct pool p;

	pool_init(&p, "a t4:16001 t4:16001 t4:16001");
	began.key = queue_gang_key(&lives);
	lives.gang_began.key = pods[1].gang_began.key = began.key;
	for (unsigned said = 0; said < 2; said++) {
		struct queue_world w = {.inventory = &p.inv,
			.usage = &p.use,
			.now_ms = NOW,
			.reserve_ms = INT64_MAX};
		struct queue_round r;
		struct arena a;

		arena_init(&a, 1u << 24);
		member.began = began;
		if (!said)
			member.began.like = 0;
		queue_count_gangs(&p.inv, pods, 2, &member, 1);
		assert_int_equal(queue_decide(&w, pods, 2, false, &a, &r, NULL), 0);
		assert_int_equal(r.entries[1].place, said ? 1 : 2);
		assert_true(pods[1].gang_began.like == member.began.like);
		arena_release(&a);
	}
	pool_release(&p);
}

/* One member's claim says nothing but of which gang it is, as one that was adopted: he counts by
 * the GPU by which his gang does, and gone no less than one of those who began. */
TEST(w11_who_was_adopted_counts_as_the_others)
{
	struct demand_container half = {.name = SLICE("c"), .amount = 1, .percent = 50};
	struct demand d = {.containers = &half, .n_containers = 1};
	struct queue_pod p = {.uid = SLICE("g2"),
		.namespace = SLICE("x"),
		.demand = &d,
		.gang = SLICE("g"),
		.gang_size = 3};
	struct queue_pod of[2] = {p, p};
	struct gang_began began = {.size = 3, .bytes = 24000 * MB, .like = 16000 * MB};
	struct pool pool;

	pool_init(&pool, "a t4:28000");
	began.key = queue_gang_key(&p);
	for (unsigned gone = 0; gone < 2; gone++) {
		struct queue_member members[2] = {
			{.pod = &of[0], .began = began}, {.pod = gone ? NULL : &of[1],
								 .began.key = began.key,
								 .namespace = SLICE("x"),
								 .bytes = 1000 * MB}};

		of[0].gang_began.key = of[1].gang_began.key = p.gang_began.key = began.key;
		queue_count_gangs(&pool.inv, &p, 1, members, 2);
		assert_int_equal(p.gang_missing, 1);
		assert_true(p.gang_left == 8000 * MB);
	}
	pool_release(&pool);
}

/* Two namespaces whose keys are one by chance: each counts its own members alone. */
TEST(w11_members_of_another_namespace_do_not_count)
{
	const struct gang_began began = {
		.size = 4, .bytes = 16000 * MB, .key = 7, .asks = 4000 * MB};
	struct demand_container half = {.name = SLICE("c"), .amount = 1, .percent = 50};
	struct demand d = {.containers = &half, .n_containers = 1};
	struct queue_pod p = {.uid = SLICE("p"),
		.namespace = SLICE("x"),
		.demand = &d,
		.gang = SLICE("g"),
		.gang_size = 4,
		.gang_began.key = 7};
	struct queue_pod own = p, other = p;
	struct queue_member members[] = {{.pod = &own}, {.pod = &other},
		{.began = began, .namespace = SLICE("y")},
		{.began = began, .namespace = SLICE("x")}};
	struct pool pool;

	own.gang_began = other.gang_began = members[0].began = members[1].began = began;
	other.namespace = SLICE("y");
	pool_init(&pool, "a t4:8000");
	queue_count_gangs(&pool.inv, &p, 1, members, COUNT(members));
	/* its own that lives, and its own that is gone */
	assert_int_equal(p.gang_let_go, 1);
	assert_int_equal(p.gang_missing, 2);
	assert_int_equal(p.gang_left, 8000 * MB);
	pool_release(&pool);
}

TESTS(w11_a_gang_never_has_more_than_it_began_with, w11_a_pod_asks_what_it_holds_at_once,
	w11_a_key_is_of_its_namespace, w11_a_larger_gpu_takes_no_seats,
	w11_who_was_adopted_counts_as_the_others, w11_members_of_another_namespace_do_not_count)
