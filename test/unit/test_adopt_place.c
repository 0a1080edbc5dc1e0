/* SPDX-License-Identifier: Apache-2.0 */
/* test: the pool as adoption sees it: what the pod holds itself is free, verdicts on GPUs do not
 * count, and at last sums may exceed. */
#include <pthread.h>

#include "test/unit/ledger_fixture.h"
#include "test/unit/test.h"
#include "webhook/cluster/claims/adopt_place.h"

/* Both servers have a claim of "u1", each GPU of 16000 MB; "u2" is on "a" beside it. */
TEST(test_what_it_holds_is_free)
{
	static const char u1[] = CLAIM("u1", "u1", "bound", "'a','b'", "4000000000");
	static const char both[] = CLAIM("u1", "u1", "bound", "'a','b'", "4000000000") "," CLAIM(
		"u2", "u2", "bound", "'a'", "5000000000");
	static const struct {
		const char *uid;
		uint64_t claimed[2], own;
		uint32_t n_claims[2];
	} rows[] = {
		{"u1", {5000000000, 0}, 8000000000, {1, 0}},
		{"u2", {4000000000, 4000000000}, 5000000000, {1, 1}},
		{"u3", {9000000000, 4000000000}, 0, {2, 1}},
	};
	struct ledger_fixture f;

	ledger_fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, both);
	kube_store_server(f.store, "b", 1, 16000, u1);
	ledger_fixture_begin(&f);
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct adopt_pool pool;

		assert_int_equal(
			adopt_pool_read(f.r.servers, slice_of(rows[i].uid), &f.a, &pool, &f.e), 0);
		assert_int_equal(pool.inventory.n_servers, 2);
		assert_int_equal(pool.inventory.n_gpus, 2);
		assert_int_equal(pool.own_bytes, rows[i].own);
		for (size_t s = 0; s < 2; s++) {
			assert_int_equal(pool.claimed[s], rows[i].claimed[s]);
			assert_int_equal(pool.n_claims[s], rows[i].n_claims[s]);
		}
	}
	ledger_fixture_release(&f);
}

/* What this replica has written counts, though no watch has shown it yet. */
TEST(test_the_newest_state)
{
	struct adopt_pool pool;
	struct ledger_fixture f;

	ledger_fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, CLAIM("u1", "u1", "bound", "'a'", "4000000000"));
	ledger_fixture_begin(&f);
	kube_store_mute(f.store, true);
	ledger_must_take(&f, "u2", "app c 1 50%");
	assert_int_equal(adopt_pool_read(f.r.servers, SLICE("u3"), &f.a, &pool, &f.e), 0);
	assert_int_equal(pool.claimed[0], 12000000000);
	assert_int_equal(adopt_pool_read(f.r.servers, SLICE("u2"), &f.a, &pool, &f.e), 0);
	assert_int_equal(pool.claimed[0], 4000000000);
	assert_int_equal(pool.own_bytes, 8000000000);
	ledger_fixture_release(&f);
}

static void *take_both(void *ctx)
{
	struct ledger_fixture *f = ctx;

	ledger_must_take(f, "u2", "app c 2 50%");
	return NULL;
}

/* What a review has chosen and not written yet is nobody's: the one whose write comes first has it.
 */
TEST(test_what_is_being_written_is_free)
{
	struct adopt_pool pool;
	struct ledger_fixture f;
	pthread_t other;
	struct arena a;
	struct err e;

	ledger_fixture_init(&f);
	arena_init(&a, 1u << 20);
	kube_store_server(f.store, "a", 2, 16000, CLAIM("u1", "u1", "bound", "'a'", "4000000000"));
	ledger_fixture_begin(&f);
	kube_store_mute(f.store, true);
	kube_store_fault(f.store, STORE_SLOW, "PUT", STATUS_OF("a"), 1500, 1);
	assert_int_equal(pthread_create(&other, NULL, take_both, &f), 0);
	assert_true(api_wait(f.api, "PUT", STATUS_OF("a"), 1));
	assert_int_equal(adopt_pool_read(f.r.servers, SLICE("u3"), &a, &pool, &e), 0);
	assert_int_equal(pool.n_claims[0], 1);
	assert_int_equal(pool.claimed[0], 4000000000);
	assert_int_equal(pool.claimed[1], 0);
	assert_int_equal(pthread_join(other, NULL), 0);
	assert_int_equal(adopt_pool_read(f.r.servers, SLICE("u3"), &a, &pool, &e), 0);
	assert_int_equal(pool.claimed[0], 12000000000);
	assert_int_equal(pool.claimed[1], 8000000000);
	arena_release(&a);
	ledger_fixture_release(&f);
}

/* A pod that is there already stays where it is, whatever gate stands there now. */
TEST(test_any_gate)
{
	struct adopt_pool pool;
	struct ledger_fixture f;

	ledger_fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, "");
	kube_store_put(f.store, "a",
		"{'address':'a:1','gpus':[{'model':'m','memory':16000000000}],'gate':{"
		"'profile':'p','url':'https://a:2','tokenSecret':'t','mode':'address'}}",
		NULL, NULL);
	ledger_fixture_begin(&f);
	assert_int_equal(adopt_pool_read(f.r.servers, SLICE("u"), &f.a, &pool, &f.e), 0);
	assert_int_equal(pool.inventory.n_servers, 1);
	assert_true(pool.inventory.servers[0].guarded);
	assert_int_equal(pool.inventory.servers[0].gate_by, GATE_BY_ANY);
	ledger_fixture_release(&f);
}

/* want: server/gpu of the first hold, "!" in front where sums exceed what the GPU has; NULL:
 * refused */
static const struct {
	const char *pool, *demand, *want;
} rows[] = {
	{"a t4:8; b t4:8", "app c 1 100%", "a/gpu-0"},
	{"a t4:8u; b t4:8", "app c 1 100%", "b/gpu-0"},
	{"a t4:8u; b t4:8u", "app c 1 100%", "a/gpu-0"},
	{"a t4:8s t4:9; b t4:8/8", "app c 1 8", "a/gpu-1"},
	{"a t4:8s t4:9/9; b t4:8u", "app c 1 8", "a/gpu-0"},
	{"a t4:8/8; b t4:8u", "app c 1 100%", "b/gpu-0"},
	{"a t4:8/8 t4:8/1u; b t4:8/8u t4:8u", "app c 1 100%", "b/gpu-1"},
	{"a t4:8/8; b t4:8/8", "app c 1 100%", "!a/gpu-0"},
	{"a claims=256 t4:8; b t4:8u", "app c 1 1%", "b/gpu-0"},
	{"a claims=256 t4:8", "app c 1 1%", "!a/gpu-0"},
	{"a t4:8m; b drain t4:8", "app c 1 1%", NULL},
	{"a t4:8", "app c 1 9", NULL},
	{"", "app c 1 1%", NULL},
};

TEST(test_places)
{
	for (size_t i = 0; i < COUNT(rows); i++) {
		const char *want = rows[i].want;
		struct placement p = {0};
		struct adopt_pool pool;
		struct pool made;
		struct demand d;
		char got[64];
		bool full;
		struct err err;
		int rc;

		pool_init(&made, rows[i].pool);
		demand_init(&d, &made.arena, rows[i].demand, NULL, NULL, false);
		pool = (struct adopt_pool){
			.inventory = made.inv, .claimed = made.claimed, .n_claims = made.n_claims};
		rc = adopt_place(&pool, &d, &made.arena, &p, &full, &err);
		if (rc != (want ? 0 : ERR_REFUSED))
			fail_msg("row %zu: %d", i, rc);
		if (want) {
			const struct gpu_server *s = &made.inv.servers[p.holds[0].server];

			(void)snprintf(got, sizeof(got), "%s%s/%s", full ? "!" : "", s->name,
				s->gpus[p.holds[0].gpu].id);
			if (strcmp(got, want) != 0)
				fail_msg("row %zu: %s", i, got);
		}
		pool_release(&made);
	}
}

/* Does it hold more than its plan can need, each container on the biggest GPU? */
TEST(test_exceeds)
{
	static const struct {
		uint64_t own, biggest;
		const char *demand;
		bool whole, exceeds;
	} all[] = {
		{8, 16, "app c 1 50%", false, false},
		{9, 16, "app c 1 50%", false, true},
		{9, 16, "app c 1 50%", true, false},
		{24, 16, "app c 1 50%; init i 1 100%", false, false},
		{25, 16, "app c 1 50%; init i 1 100%", false, true},
		{32, 16, "app c 4 50%", false, false},
		{33, 16, "app c 4 50%", false, true},
		{5000000, 16, "app c 1 5", false, false},
		{5000001, 16, "app c 1 5", false, true},
		{1, 16, "app c 0 100%", false, true},
		{UINT64_MAX, 16, "app c 2 18446744073709551615", false, false},
		{UINT64_MAX, UINT64_MAX, "app c 1 99%; app d 1 2%", false, false},
		{UINT64_MAX, UINT64_MAX, "app c 1 99%", false, true},
		{UINT64_MAX, UINT64_MAX, "app c 2 50%", false, true},
		/* none of its GPUs is there any more */
		{1, 0, "app c 1 50%", false, true},
		{0, 0, "app c 1 50%", false, false},
	};

	for (size_t i = 0; i < COUNT(all); i++) {
		struct adopt_pool pool = {
			.own_bytes = all[i].own, .biggest = {.bytes = all[i].biggest}};
		struct demand d;
		struct arena a;

		arena_init(&a, 1u << 20);
		demand_init(&d, &a, all[i].demand, NULL, NULL, all[i].whole);
		if (adopt_exceeds(&pool, &d) != all[i].exceeds)
			fail_msg("row %zu", i);
		arena_release(&a);
	}
}

TESTS(test_any_gate, test_exceeds, test_what_it_holds_is_free, test_places, test_the_newest_state,
	test_what_is_being_written_is_free)
