/* SPDX-License-Identifier: Apache-2.0 */
/* test: the n-th allocation fails, for each n, while the leader looks after claims and nothing
 * happens: nothing is written, and it goes on. Linked with --wrap for malloc, calloc and realloc;
 * without (as by `make mutants`) nothing is shown. */
#include "test/unit/claims_api.h"
#include "test/unit/oom_wrap.h"
#include "test/unit/test.h"

/* So many allocations a round has at the most. */
#define MOST 1000
/* A round is begun in it; and in the other what an error has brought about is over. */
#define ROUND_MS 1100
#define OVER_MS 1100

FIXTURE(set_up)
{
	api = claims_api_new();
	api->cfg.reserve_ms = 1;
	return 0;
}

/* Two pods wait in a full pool, and what frees up is kept for the first: so it stays, also where
 * for a moment nobody knows who waits. */
TEST(w6_what_is_kept_stays)
{
	size_t puts;
	long n = 0;

	pool_api_put(api->pool, "a", OURS, SPEC,
		STATUS(CLAIM_ON("x1", "x", "bound", "'a'", "gpu-0", WHOLE) "," CLAIM_ON(
			"x2", "y", "bound", "'a'", "gpu-1", WHOLE)));
	pod_put(api, "x", "x1", NULL);
	pod_put(api, "y", "x2", NULL);
	pod_put_waiting(api, "big", "u1", PLAN_WAITS("2", "100"), 30);
	pod_put_waiting(api, "small", "u2", PLAN_WAITS("1", "100"), 31);
	claims_api_run(api);
	assert_true(status_has(api, "a", "'kept':[{'uid':'u1'", SOON));
	api_nap(OVER_MS);
	puts = api_seen_of(api->pool->api, "PUT", SERVERS_PATH "/a/status");
	for (bool failed = true; failed; n++) {
		oom_begin(n, OOM_ONE);
		api_nap(ROUND_MS);
		failed = oom_end();
		if (failed)
			api_nap(OVER_MS);
		assert_in_range(n, 0, MOST);
		if (api_seen_of(api->pool->api, "PUT", SERVERS_PATH "/a/status") != puts)
			fail_msg("allocation %ld", n);
	}
	print_message("%ld allocations\n", n - 1);
	pod_gone(api, "x1");
	assert_false(pod_is_let_go(api, "u2", 1000));
	pod_gone(api, "x2");
	assert_true(pod_is_let_go(api, "u1", SOON));
}

TESTS_BETWEEN(set_up, claims_api_end, w6_what_is_kept_stays)
