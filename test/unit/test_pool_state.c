/* SPDX-License-Identifier: Apache-2.0 */
/* core/pool/pool_state: what claims that start, end or are nowhere do to the sums of their GPUs. */
#include "webhook/core/pool/pool_state.h"

#include "test/unit/pool_fixture.h"
#include "test/unit/test.h"

static struct pool_state state_of;

FIXTURE(set_up)
{
	struct pool p;

	state_of = (struct pool_state){0};
	pool_init(&p, "a t4:8 t4:8; b t4:8; c t4:8");
	assert_true(pool_state_set(&state_of, &p.inv));
	pool_release(&p);
	return 0;
}

FIXTURE(tear_down)
{
	pool_state_release(&state_of);
	return 0;
}

static int add(const char *key, const char *server, const char *gpu, struct err *err)
{
	struct claim_part parts[] = {{.server = "a", .gpu = "gpu-1", .bytes = 3 * MB},
		{.server = server, .gpu = gpu, .bytes = 5 * MB}};
	const struct claim c = {.key = key,
		.namespace = "x",
		.name = key,
		.state = CLAIM_PENDING,
		.parts = parts,
		.n_parts = 2};

	return pool_state_add(&state_of, &c, KEY_UID, 0, 0, err);
}

/* MB that are claimed, and of them pending, of each GPU; then how many claims are on each server.
 */
static void expect(const uint64_t claimed[4], const uint64_t pending[4], const uint32_t n[3])
{
	struct usage use = pool_state_usage(&state_of);

	for (size_t i = 0; i < 4; i++)
		if (use.claimed[i] != claimed[i] * MB || use.pending[i] != pending[i] * MB)
			fail_msg("GPU %zu: %llu, pending %llu", i,
				(unsigned long long)use.claimed[i],
				(unsigned long long)use.pending[i]);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(use.n_claims[i], n[i]);
}

#define ALL(...)                                                                                   \
	(const uint64_t[])                                                                         \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}
#define ON(...)                                                                                    \
	(const uint32_t[])                                                                         \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}

/* Each of two claims starts and ends by itself: what is pending goes with it, what is claimed when
 * it ends. */
TEST(test_claims_that_start_and_end)
{
	struct claim_entry *one, *two;
	struct err err = {0};

	assert_int_equal(add("one", "b", "gpu-0", &err), 0);
	assert_int_equal(add("two", "c", "gpu-0", &err), 0);
	one = claim_table_by_key(&state_of.claims, KEY_UID, "one");
	two = claim_table_by_key(&state_of.claims, KEY_UID, "two");
	assert_non_null(one);
	assert_non_null(two);
	expect(ALL(0, 6, 5, 5), ALL(0, 6, 5, 5), ON(2, 1, 1));
	pool_state_start(&state_of, one);
	assert_int_equal(one->claim.state, CLAIM_BOUND);
	assert_int_equal(two->claim.state, CLAIM_PENDING);
	expect(ALL(0, 6, 5, 5), ALL(0, 3, 0, 5), ON(2, 1, 1));
	pool_state_start(&state_of, two);
	expect(ALL(0, 6, 5, 5), ALL(0, 0, 0, 0), ON(2, 1, 1));
	pool_state_end(&state_of, one);
	expect(ALL(0, 3, 0, 5), ALL(0, 0, 0, 0), ON(1, 0, 1));
	pool_state_end(&state_of, two);
	expect(ALL(0, 0, 0, 0), ALL(0, 0, 0, 0), ON(0, 0, 0));
	assert_int_equal(state_of.claims.n, 0);
}

/* A claim with a part that is nowhere is not taken in, and counts nowhere. */
TEST(test_claims_that_are_nowhere)
{
	static const char *const nowhere[][2] = {
		{"a", "gpu-2"}, {"b", "gpu-1"}, {"d", "gpu-0"}, {"", "gpu-0"}};

	for (size_t i = 0; i < COUNT(nowhere); i++) {
		struct err err = {0};

		assert_int_equal(add("p", nowhere[i][0], nowhere[i][1], &err), ERR_INTERNAL);
		assert_string_equal(err.msg, "the ledger chose a GPU that it does not know");
		assert_null(claim_table_by_key(&state_of.claims, KEY_UID, "p"));
		assert_int_equal(state_of.claims.n, 0);
		expect(ALL(0, 0, 0, 0), ALL(0, 0, 0, 0), ON(0, 0, 0));
	}
}

TESTS_BETWEEN(set_up, tear_down, test_claims_that_start_and_end, test_claims_that_are_nowhere)
