/* SPDX-License-Identifier: Apache-2.0 */
/* test: which namespaces hold claims, since when they hold none, and which are forgotten. */
#include "test/unit/ledger_fixture.h"
#include "test/unit/test.h"
#include "webhook/cluster/secrets/secret_places.h"

static const char *const nowhere[] = {NULL};

static bool count(void *ctx, const struct server_object *o)
{
	*(size_t *)ctx += o->status.n_claims;
	return true;
}

/* The server comes to have so many claims, and the replica to know it. */
static void claims(struct ledger_fixture *f, const char *text, size_t n)
{
	size_t got = 77;

	ledger_set_claims(f, "a", text);
	for (int i = 0; i < 1000 && got != n; i++) {
		api_nap(5);
		got = 0;
		servers_each(f->r.servers, count, &got);
	}
	assert_int_equal(got, n);
}

#define ONE(state) CLAIM("u1", "w", state, "'a'", WHOLE)

TEST(test_since_when_it_is_idle)
{
	static const char *const lab[] = {"lab", NULL};
	struct ledger_fixture f;
	struct places p = {0};

	ledger_fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, ONE("pending"));
	ledger_fixture_begin(&f);
	/* a pod that was not seen yet brings no namespace */
	places_look(&p, f.r.servers, nowhere, 3);
	assert_int_equal(p.n, 0);
	claims(&f, "", 0);
	claims(&f, ONE("bound"), 1);
	places_look(&p, f.r.servers, lab, 4);
	assert_int_equal(p.n, 0);
	for (int64_t now = 5; now < 8; now++) {
		places_look(&p, f.r.servers, nowhere, now);
		assert_int_equal(p.n, 1);
		assert_string_equal(p.at[0].name, "lab");
		assert_string_equal(p.at[0].pod, "w");
		assert_string_equal(p.at[0].uid, "u1");
		assert_true(p.at[0].wants && p.at[0].keeps);
		assert_int_equal(p.at[0].idle_ms, 0);
	}
	/* a namespace that is there is kept by a pod that was not seen yet */
	claims(&f, "", 0);
	claims(&f, ONE("pending"), 1);
	places_look(&p, f.r.servers, nowhere, 8);
	assert_true(!p.at[0].wants && p.at[0].keeps);
	assert_int_equal(p.at[0].idle_ms, 0);
	claims(&f, "", 0);
	p.at[0].recorded = true;
	for (int64_t now = 9; now < 12; now++) {
		places_look(&p, f.r.servers, nowhere, now);
		assert_false(p.at[0].wants || p.at[0].keeps);
		assert_int_equal(p.at[0].idle_ms, 9);
	}
	/* while its copies cannot be deleted, claims come back: it is looked at at once */
	p.at[0].stuck_ms = 10;
	p.at[0].next_ms = 1000;
	claims(&f, ONE("adopted"), 1);
	places_look(&p, f.r.servers, nowhere, 12);
	assert_int_equal(p.at[0].idle_ms, 0);
	assert_int_equal(p.at[0].stuck_ms, 0);
	assert_int_equal(p.at[0].next_ms, 0);
	/* and one that is not stuck waits for its time */
	p.at[0].next_ms = 1000;
	places_look(&p, f.r.servers, nowhere, 13);
	assert_int_equal(p.at[0].next_ms, 1000);
	places_release(&p);
	ledger_fixture_release(&f);
}

TEST(test_order_and_prune)
{
	static const char *const added[] = {"m", "c", "x", "a", "z", "m", "b", "y", "a"};
	struct places p = {0};
	char name[16], long_name[80];

	for (size_t i = 0; i < COUNT(added); i++)
		assert_string_equal(places_add(&p, slice_of(added[i]))->name, added[i]);
	assert_int_equal(p.n, 7);
	for (size_t i = 0; i < 100; i++) {
		(void)snprintf(name, sizeof(name), "n%zu", i * 37 % 100);
		assert_non_null(places_add(&p, slice_of(name)));
	}
	assert_int_equal(p.n, 107);
	for (size_t i = 1; i < p.n; i++)
		assert_true(strcmp(p.at[i - 1].name, p.at[i].name) < 0);
	/* as long as a namespace may be, and longer */
	memset(long_name, 'q', sizeof(long_name));
	assert_non_null(places_add(&p, (struct slice){long_name, 63}));
	assert_false(p.failed);
	assert_null(places_add(&p, (struct slice){long_name, 64}));
	assert_true(p.failed);
	places_add(&p, SLICE("a"))->recorded = true;
	places_add(&p, SLICE("x"))->keeps = true;
	places_prune(&p);
	assert_int_equal(p.n, 2);
	assert_string_equal(p.at[0].name, "a");
	assert_string_equal(p.at[1].name, "x");
	places_release(&p);
}

TESTS(test_since_when_it_is_idle, test_order_and_prune)
