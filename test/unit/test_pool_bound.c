/* SPDX-License-Identifier: Apache-2.0 */
/* test: pods of a policy that bounds servers and models are placed within these alone, and are told
 * so; who waits and is barred takes no place from others. */
#include "test/unit/pool_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/policy/policy_bound.h"
#include "webhook/core/pool/queue.h"

#define POOL                                                                                       \
	"a team=red zone=x v100:16000 v100:16000; b team=blue t4:16000 v100:16000; c t4:16000; d " \
	"team=red zone=y t4:16000"

static struct pool pool;
static struct label red[] = {{"team", "red"}, {"zone", "x"}};
static const char *const t4[] = {"t4"}, *const both[] = {"k80", "v100"};

FIXTURE(begin)
{
	(void)state;
	pool_init(&pool, POOL);
	return 0;
}

FIXTURE(end)
{
	(void)state;
	pool_release(&pool);
	return 0;
}

/* Where it goes: "a/0 b/1", or the reason and what is said. */
static const char *placed(const char *demand, const char *filters, const struct pool_bound *bound)
{
	struct demand d;
	struct placement p;
	struct err err = {0};
	const char *out = "";
	int rc;

	demand_init(&d, &pool.arena, demand, filters, NULL, false);
	d.bound = bound;
	rc = pool_place(&pool, &d, &p, &err);
	if (rc != 0)
		return arena_fmt(&pool.arena, "%s: %s", err.reason, err.msg);
	for (size_t i = 0; i < p.n_holds; i++)
		out = arena_fmt(&pool.arena, "%s%s%s/%zu", out, *out ? " " : "",
			pool.inv.servers[p.holds[i].server].name, p.holds[i].gpu);
	return out;
}

TEST(test_servers_have_all_labels)
{
	struct pool_bound bound = {.policy = "small", .servers = red, .n_servers = 1};

	assert_string_equal(placed("app c 3 100%", NULL, &bound), "a/0 a/1 d/0");
	bound.n_servers = 2;
	assert_string_equal(placed("app c 2 100%", NULL, &bound), "a/0 a/1");
	assert_string_equal(placed("app c 3 100%", NULL, &bound),
		"NoCapacity: asked 3 GPUs with 100 % each; the pool has 2 GPUs that can be used; 3 "
		"servers are not for the GPUPolicy small (spec.allow.servers); ask for at most 2");
	/* a label that no server has is no reason to take any */
	red[1].value = "z";
	assert_string_equal(placed("app c 1 100%", NULL, &bound),
		"NoServer: asked 1 GPU with 100 %; 4 servers are not for the GPUPolicy small "
		"(spec.allow.servers): ask whoever keeps that policy");
	red[1].value = "x";
}

TEST(test_models_are_those_of_the_filter)
{
	struct pool_bound bound = {.policy = "small", .models = t4, .n_models = 1};

	assert_string_equal(placed("app c 3 100%", NULL, &bound), "b/0 c/0 d/0");
	assert_string_equal(placed("app c 1 100%", "gpu.model=v100", &bound),
		"NoServer: asked 1 GPU with 100 % (filter gpu.model=v100); 3 GPUs are of models "
		"that the GPUPolicy small does not allow (spec.allow.models); no GPU of the pool "
		"matches all of these together; change the annotation bitfusion-client/filter");
	bound = (struct pool_bound){.policy = "small", .models = both, .n_models = 2};
	assert_string_equal(placed("app c 3 100%", NULL, &bound), "a/0 a/1 b/1");
	assert_string_equal(placed("app c 1 100%", "server.name=b", &bound), "b/1");
	bound.servers = red;
	bound.n_servers = 1;
	assert_string_equal(placed("app c 2 100%", NULL, &bound), "a/0 a/1");
}

TEST(test_who_is_barred_takes_no_place)
{
	/* what a pod that waits need not do is not said to it */
	static const struct {
		const char *of, *said;
	} why[] = {{"the cap is used up; create the pod again when one has ended",
			   "the cap is used up"},
		{"a; ask for less, or create the pod again", "a; ask for less"},
		{"a; ask for less or create the pod again", "a; ask for less"},
		{"a, create the pod again", "a, "}, {"create the pod again later", ""},
		{"a; create the pod", "a; create the pod"}};
	struct pool_bound bound = {.policy = "small", .models = t4, .n_models = 1};
	struct queue_world w = {.inventory = &pool.inv, .usage = &pool.use, .now_ms = 1000000};
	struct queue_pod pods[3];
	struct queue_round round;
	struct demand d[3];
	struct err err = {0};
	struct buf b;

	for (size_t i = 0; i < COUNT(pods); i++) {
		demand_init(&d[i], &pool.arena, i == 1 ? "app c 2 100%" : "app c 1 100%", NULL,
			NULL, false);
		pods[i] = (struct queue_pod){.uid = slice_of(i == 0   ? "u0"
							     : i == 1 ? "u1"
								      : "u2"),
			.namespace = SLICE("lab"),
			.name = SLICE("p"),
			.demand = &d[i],
			.since_ms = (int64_t)i};
	}
	pods[0].barred = slice_of(why[0].of);
	d[2].bound = &bound;
	assert_int_equal(queue_decide(&w, pods, 3, true, &pool.arena, &round, &err), 0);
	assert_int_equal(round.entries[0].verdict, QUEUE_BARRED);
	assert_int_equal(round.entries[0].place, 0);
	assert_int_equal(round.entries[1].verdict, QUEUE_START);
	assert_int_equal(round.entries[2].verdict, QUEUE_START);
	assert_string_equal(
		pool.inv.servers[round.entries[2].where.holds[0].server].gpus[0].model, "t4");
	for (size_t i = 0; i < COUNT(why); i++) {
		pods[0].barred = slice_of(why[i].of);
		buf_init(&b, 1000);
		queue_say(&w, pods, 3, &round, 0, &b);
		assert_string_equal(b.data ? b.data : "", why[i].said);
		buf_release(&b);
	}
}

/* The oldest goes last where its policy says so, and who has a class goes by that. */
TEST(test_policies_order_who_waits)
{
	static const struct policy low = {.name = "low", .priority = -1},
				   high = {.name = "high", .priority = 5};
	struct queue_world w = {.inventory = &pool.inv, .usage = &pool.use, .now_ms = 1000000};
	const struct policy *const of[] = {&low, NULL, &high, &high};
	struct queue_pod pods[COUNT(of)];
	struct queue_round round;
	struct err err = {0};
	struct demand d;

	/* one of them alone fits */
	demand_init(&d, &pool.arena, "app c 5 100%", NULL, NULL, false);
	for (size_t i = 0; i < COUNT(pods); i++) {
		pods[i] = (struct queue_pod){.uid = slice_of(arena_fmt(&pool.arena, "u%zu", i)),
			.namespace = slice_of(arena_fmt(&pool.arena, "n%zu", i)),
			.name = SLICE("p"),
			.demand = &d,
			.since_ms = (int64_t)i};
	}
	pods[3].classed = true;
	pods[3].priority = 4;
	for (size_t i = 0; i < COUNT(pods); i++)
		policy_order(of[i], &pods[i]);
	assert_int_equal(queue_decide(&w, pods, COUNT(pods), false, &pool.arena, &round, &err), 0);
	assert_int_equal(round.entries[2].verdict, QUEUE_START);
	assert_int_equal(round.entries[3].place, 1);
	assert_int_equal(round.entries[1].place, 2);
	assert_int_equal(round.entries[0].place, 3);
}

/* Two ask the same, and one of them is bounded. */
TEST(test_bounds_tell_shapes_apart)
{
	struct pool_bound bound = {.policy = "small", .servers = red, .n_servers = 2};
	struct queue_world w = {.inventory = &pool.inv, .usage = &pool.use, .now_ms = 1000000};
	struct queue_pod pods[2];
	struct queue_round round;
	struct demand d[2];
	struct err err = {0};

	for (size_t i = 0; i < COUNT(pods); i++) {
		demand_init(&d[i], &pool.arena, "app c 3 100%", NULL, NULL, false);
		pods[i] = (struct queue_pod){.uid = slice_of(i == 0 ? "u0" : "u1"),
			.namespace = SLICE("lab"),
			.name = SLICE("p"),
			.demand = &d[i],
			.since_ms = (int64_t)i};
	}
	d[0].bound = &bound;
	assert_int_equal(queue_decide(&w, pods, 2, false, &pool.arena, &round, &err), 0);
	assert_int_equal(round.entries[0].verdict, QUEUE_NO_ROOM);
	assert_int_equal(round.entries[1].verdict, QUEUE_START);
}

/* Names of launchers, each of them another letter twice. */
static const char *launchers[] = {"aa", "bb", "cc", "dd", "ee", "ff", "gg", "hh", "ii"};

/* The launchers that a policy allows are told, up to eight; of the one that was asked for, as much
 * as a name of the cluster may have. */
TEST(test_launchers_that_are_not_allowed)
{
	static const struct {
		size_t n, len;
		const char *list;
	} rows[] = {
		{1, 1, "(spec.allow.launchers: aa)"},
		{2, 62, "(spec.allow.launchers: aa, bb)"},
		{8, 63, "(spec.allow.launchers: aa, bb, cc, dd, ee, ff, gg, hh)"},
		{9, 64, "(spec.allow.launchers: aa, bb, cc, dd, ee, ff, gg, hh, \u2026)"},
		{9, 0, "(spec.allow.launchers: aa, bb, cc, dd, ee, ff, gg, hh, \u2026)"},
	};
	char name[65], want[512];

	memset(name, 'x', sizeof(name));
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct policy p = {
			.name = "small", .launchers = launchers, .n_launchers = rows[i].n};
		struct slice asked = {rows[i].len ? name : NULL, rows[i].len};
		struct err err = {0};

		assert_int_equal(policy_allows_launcher(&p, asked, &err), ERR_REFUSED);
		assert_string_equal(err.reason, "PolicyBound");
		(void)snprintf(want, sizeof(want),
			"the GPUPolicy small allows its namespaces no pods of the launcher %.*s "
			"%s; "
			"choose another one, or ask whoever keeps the policy",
			(int)(rows[i].len > 63 ? 63 : rows[i].len), name, rows[i].list);
		assert_string_equal(err.msg, want);
	}
}

TEST(test_launchers_that_are_allowed)
{
	struct policy p = {.name = "small", .launchers = launchers};
	struct err err = {0};

	assert_int_equal(policy_allows_launcher(NULL, SLICE("zz"), &err), 0);
	assert_int_equal(policy_allows_launcher(&p, SLICE("zz"), &err), 0);
	for (p.n_launchers = 1; p.n_launchers <= COUNT(launchers); p.n_launchers++)
		for (size_t i = 0; i < COUNT(launchers); i++)
			assert_int_equal(policy_allows_launcher(&p, slice_of(launchers[i]), &err),
				i < p.n_launchers ? 0 : ERR_REFUSED);
	p.n_launchers = COUNT(launchers);
	assert_int_equal(policy_allows_launcher(&p, SLICE("a"), &err), ERR_REFUSED);
	assert_int_equal(policy_allows_launcher(&p, SLICE("aaa"), &err), ERR_REFUSED);
}

TESTS_BETWEEN(begin, end, test_servers_have_all_labels, test_models_are_those_of_the_filter,
	test_who_is_barred_takes_no_place, test_policies_order_who_waits,
	test_bounds_tell_shapes_apart, test_launchers_that_are_not_allowed,
	test_launchers_that_are_allowed)
