/* SPDX-License-Identifier: Apache-2.0 */
/* test: the memory of GPUs in parts that add up to all of it. */
#include "test/unit/test.h"
#include "webhook/edge/pool/pool_states.h"

TEST(test_names)
{
	assert_string_equal(pool_part_name(POOL_BOUND), "bound");
	assert_string_equal(pool_part_name(POOL_MISSING), "missing");
	assert_string_equal(pool_part_name(POOL_STATES), "unknown");
}

/* What is gone says nothing else of itself, and an old verdict is none. */
TEST(test_what_the_rest_counts_as)
{
	static const struct {
		bool drain, missing, fresh, fit;
		enum pool_part state;
	} rows[] = {
		{false, false, true, true, POOL_FREE},
		{true, false, true, true, POOL_DRAINED},
		{false, false, true, false, POOL_UNFIT},
		{true, false, true, false, POOL_UNFIT},
		{false, false, false, true, POOL_STALE},
		{true, false, false, false, POOL_STALE},
		{false, true, true, true, POOL_MISSING},
		{true, true, false, false, POOL_MISSING},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct gpu g = {
			.missing = rows[i].missing, .fresh = rows[i].fresh, .fit = rows[i].fit};
		struct gpu_server s = {.drain = rows[i].drain, .gpus = &g, .n_gpus = 1};

		assert_int_equal(pool_part_of(&s, &g), rows[i].state);
	}
}

TEST(test_parts_of_the_whole)
{
	struct gpu gpus[] = {{.bytes = 100, .fit = true, .fresh = true},
		{.bytes = 100, .fit = true, .fresh = true},
		{.bytes = 100, .fit = true, .fresh = true}, {.bytes = 100, .fresh = true}};
	struct gpu_server servers[] = {
		{.gpus = gpus, .n_gpus = 1}, {.gpus = gpus + 1, .n_gpus = 3, .first_gpu = 1}};
	uint64_t claimed[] = {60, 130, 40, 10}, pending[] = {20, 200, 40, 0};
	const struct pool_view v = {
		.inventory = {.servers = servers, .n_servers = 2, .n_gpus = COUNT(gpus)},
		.usage = {.claimed = claimed, .pending = pending}};
	struct pool_split one = {0}, all = {0};
	uint64_t sum = 0;

	pool_split_server(&v, 0, &one);
	assert_int_equal(one.bytes[POOL_BOUND], 40);
	assert_int_equal(one.bytes[POOL_PENDING], 20);
	assert_int_equal(one.bytes[POOL_FREE], 40);
	assert_int_equal(one.over, 0);
	/* promised beyond it: all of it is held, and no more of that is pending */
	one = (struct pool_split){0};
	pool_split_gpu(&v, 1, 0, &one);
	assert_int_equal(one.over, 30);
	assert_int_equal(one.bytes[POOL_PENDING], 100);
	assert_int_equal(one.bytes[POOL_BOUND], 0);
	assert_int_equal(one.bytes[POOL_FREE], 0);
	for (size_t i = 0; i < 2; i++)
		pool_split_server(&v, i, &all);
	assert_int_equal(all.bytes[POOL_BOUND], 50);
	assert_int_equal(all.bytes[POOL_PENDING], 160);
	assert_int_equal(all.bytes[POOL_FREE], 100);
	assert_int_equal(all.bytes[POOL_UNFIT], 90);
	assert_int_equal(all.over, 30);
	for (size_t i = 0; i < POOL_STATES; i++)
		sum += all.bytes[i];
	assert_int_equal(sum, 400);
}

TESTS(test_names, test_what_the_rest_counts_as, test_parts_of_the_whole)
