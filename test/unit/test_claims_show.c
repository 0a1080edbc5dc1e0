/* SPDX-License-Identifier: Apache-2.0 */
/* test: the leader shows people who waits, in the order of the queue. */
#include "test/unit/claims_api.h"
#include "test/unit/test.h"

static struct waiting_look look;

FIXTURE(set_up)
{
	api = claims_api_new();
	waiting_look_init(&look);
	look.kube = api->kube;
	api->cfg.waiting = &look;
	return 0;
}

FIXTURE(tear_down)
{
	claims_api_free(api);
	waiting_look_release(&look);
	return 0;
}

/* Does it show all of these texts, in this order, within SOON? */
static bool shows(const char *const *words, size_t n)
{
	int64_t until = api_now_ms() + SOON;

	do {
		struct arena a;
		const char *at;
		size_t i = 0;

		arena_init(&a, 1 << 20);
		at = waiting_look_tell(&look, &a).at;
		while (at && i < n && (at = strstr(at, words[i])))
			i++;
		arena_release(&a);
		if (i == n)
			return true;
		api_nap(20);
	} while (api_now_ms() < until);
	return false;
}

#define SHOWS(...)                                                                                 \
	shows((const char *const[]){__VA_ARGS__},                                                  \
		sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

TEST(w9_who_waits_is_shown)
{
	pool_api_put(api->pool, "a", OURS, SPEC,
		STATUS(CLAIM_ON("x1", "x", "bound", "'a'", "gpu-0", WHOLE)));
	pod_put(api, "x", "x1", NULL);
	pod_put_waiting(api, "alone", "u1", PLAN_GANG("g", "2", "1", "100"), 1);
	pod_put_waiting(api, "late", "u2", PLAN_WAITS("2", "100"), 20);
	pod_put_waiting(api, "early", "u3", PLAN_WAITS("2", "100"), 10);
	pod_put_waiting(api, "kueues", "u4", PLAN_WAITS("2", "100"), 5);
	pod_foreign(api, "u4", true);
	claims_api_run(api);
	assert_true(SHOWS("{\"ordered\":true,\"pods\":[{\"namespace\":\"n\",\"name\":\"early\"",
		"\"asks\":\"2 GPUs with 100 % "
		"each\",\"since\":\"2026-11-21T09:10:00Z\",\"place\":1,"
		"\"why\":\"asked 2 GPUs with 100 % each; of 2 GPUs that can be used, 1 has",
		"; it is number 1 of 2 that wait", "\"name\":\"late\"", "\"place\":2,",
		"\"name\":\"alone\",\"gang\":\"g\"", "\"place\":0,\"why\":\"its gang has 1 of 2 ",
		"],\"total\":3,\"more\":false}"));
	/* the words are those that the pod is told */
	assert_true(pod_is_told(api, "u3", "it is number 1 of 2 that wait", SOON));
	pod_gone(api, "x1");
	assert_true(pod_is_let_go(api, "u3", SOON));
	assert_true(
		SHOWS("[{\"namespace\":\"n\",\"name\":\"late\"", "\"place\":1,", "\"total\":2,"));
	pod_gone(api, "u1");
	pod_gone(api, "u2");
	pod_gone(api, "u3");
	pod_gone(api, "u4");
	assert_true(SHOWS("{\"ordered\":true,\"pods\":[],\"total\":0,\"more\":false}"));
}

/* Who has no place comes behind those that have one, the eldest first, in whatever order they were
 * stored. */
TEST(w9_who_has_no_place_is_shown_by_age)
{
	pool_api_put(api->pool, "a", OURS, SPEC,
		STATUS(CLAIM_ON("x1", "x", "bound", "'a'", "gpu-0", WHOLE)));
	pod_put(api, "x", "x1", NULL);
	for (unsigned i = 0; i < 6; i++) {
		static const unsigned born[] = {40, 10, 50, 30, 20, 55};
		static const char *const plans[] = {PLAN_GANG("g0", "2", "1", "100"),
			PLAN_GANG("g1", "2", "1", "100"), PLAN_GANG("g2", "2", "1", "100"),
			PLAN_GANG("g3", "2", "1", "100"), PLAN_GANG("g4", "2", "1", "100"),
			PLAN_WAITS("2", "100")};
		char name[] = {'p', (char)('0' + i), 0}, uid[] = {'u', (char)('0' + i), 0};

		pod_put_waiting(api, name, uid, plans[i], born[i]);
	}
	claims_api_run(api);
	assert_true(SHOWS("[{\"namespace\":\"n\",\"name\":\"p5\"", "\"place\":1,",
		"\"name\":\"p1\"", "\"place\":0,", "\"name\":\"p4\"", "\"name\":\"p3\"",
		"\"name\":\"p0\"", "\"name\":\"p2\"", "\"total\":6,"));
}

/* Who leads no more does not say it any longer. */
TEST(w9_a_leader_ends)
{
	pool_api_put(api->pool, "a", OURS, SPEC, STATUS(""));
	claims_api_run(api);
	assert_true(SHOWS("{\"ordered\":true"));
	claims_api_end_leader(api);
	assert_true(SHOWS("{\"ordered\":false"));
}

TESTS_BETWEEN(set_up, tear_down, w9_who_waits_is_shown, w9_who_has_no_place_is_shown_by_age,
	w9_a_leader_ends)
