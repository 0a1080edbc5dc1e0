/* SPDX-License-Identifier: Apache-2.0 */
/* test: live pods without a whole claim are given one (ledger rule R7). */
#include <stdatomic.h>

#include "base/clock.h"
#include "test/unit/claims_api.h"
#include "test/unit/test.h"
#include "webhook/cluster/claims/adopt_whole.h"
#include "webhook/cluster/claims/policy_caps.h"
#include "webhook/edge/metrics/metrics.h"

static struct accounts *accounts;
/* There is no such object: the picture of the policies is behind. */
static const struct policy capped = {
	.name = "small", .gpus = 1, .bytes = UINT64_MAX, .waiting = UINT32_MAX};

FIXTURE(tear_down)
{
	claims_api_free(api);
	accounts_free(accounts);
	accounts = NULL;
	return 0;
}

static void set_policies(const struct policy_source *source)
{
	accounts = accounts_new(api->kube, api->pool->servers, &api->pool->log, NULL);
	assert_non_null(accounts);
	api->cfg.policies = source;
	api->cfg.accounts = accounts;
}

/* Without memory nobody's claim looks whole: what else the pod holds would go. */
TEST(r7_no_memory_is_no_whole_claim)
{
	const struct demand nothing = {0};
	const char **servers;
	struct arena a;
	size_t n;

	arena_init(&a, 1024);
	assert_false(adopt_whole(
		api->pool->servers, NULL, SLICE("u1"), 1000, &nothing, &a, &servers, &n));
	assert_true(a.failed);
	arena_release(&a);
}

static int64_t adoptions(void)
{
	return metric_value(api->pool->metrics, M_ADOPTIONS, 0, 0);
}

/* Told and counted after the commit that others see first. */
static bool adoptions_come(int64_t n)
{
	for (int i = 0; i < 100 && adoptions() != n; i++)
		api_nap(50);
	return adoptions() == n;
}

static bool settled(int64_t since_ms, int ms)
{
	int64_t until = api_now_ms() + ms;

	while (!claims_adopted_since(&api->cfg, since_ms)) {
		if (api_now_ms() > until)
			return false;
		api_nap(20);
	}
	return true;
}

static void put(const char *name, const char *finalizers, const char *status)
{
	pool_api_put(api->pool, name, finalizers, SPEC, status);
}

/* A pod of that plan lives, and a leader. */
static void run_with(const char *plan)
{
	pod_put(api, "w", "u1", plan);
	claims_api_run(api);
}

#define ADOPTED "'state':'adopted'"
#define FULL_TWO                                                                                   \
	CLAIM_ON("x1", "x1", "bound", "'a'", "gpu-0", WHOLE)                                       \
	"," CLAIM_ON("x2", "x2", "bound", "'a'", "gpu-1", WHOLE)

/* Also on a server that is not opened yet: it is opened only afterwards. */
TEST(r7_a_pod_without_a_claim_gets_one)
{
	int64_t since = clock_ms();

	put("a", "[]", STATUS(""));
	run_with(PLAN_HALF);
	assert_false(claims_adopted_since(&api->cfg, since));
	assert_true(status_has(api, "a", "'uid':'u1','namespace':'n','name':'w'," ADOPTED, SOON));
	assert_true(status_has(api, "a", "'grace':30,'gpus':[{'id':'gpu-0','bytes':8000000000", 0));
	assert_true(settled(since, SOON));
	assert_true(status_keeps(api, "a", ADOPTED, 500));
	assert_true(adoptions_come(1));
	assert_true(pod_events_come(api, "ClaimAdopted", 1));
	/* and it ends like any other */
	pod_gone(api, "u1");
	assert_true(status_has_not(api, "a", "'u1'", 3000));
}

static atomic_int in_use;

static const struct config *acquire(void *ctx)
{
	in_use++;
	return ctx;
}

static void give_back(void *ctx, const struct config *config)
{
	assert_ptr_equal(ctx, config);
	in_use--;
}

/* As a review would have taken it: here the profile says that a pod holds its server whole, though
 * its plan names none. */
TEST(r7_as_the_profile_says)
{
	struct profile profiles[] = {{.name = SLICE("p"), .whole_servers = true}};
	struct config config = {.profiles = profiles, .n_profiles = 1};

	api->cfg.source = (struct config_source){&config, acquire, give_back};
	put("a", "[]", STATUS(""));
	run_with(PLAN_HALF);
	assert_true(status_has(api, "a", ADOPTED, SOON));
	assert_true(status_has(api, "a",
		"'gpus':[{'id':'gpu-0','bytes':16000000000},{'id':'gpu-1','bytes':16000000000}]",
		0));
	claims_api_end_leader(api);
	assert_int_equal(in_use, 0);
}

/* Nobody writes over a status that cannot be read, so another server is looked for. */
TEST(r7_not_where_the_status_cannot_be_read)
{
	put("a", OURS, STATUS(""));
	put("b", OURS, STATUS(""));
	claims_api_run(api);
	status_put(api, "a", "{'claims':7}");
	api_nap(200);
	pod_put(api, "w", "u1", PLAN_HALF);
	assert_true(status_has(api, "b", ADOPTED, SOON));
	assert_int_equal(pod_events(api, "NotAccounted"), 0);
}

/* Its own claim arrives in the picture a little later than the pod. */
TEST(r7_not_when_its_claim_comes_late)
{
	put("a", OURS, STATUS(""));
	claims_api_run(api);
	pod_put(api, "w", "u1", PLAN_HALF);
	api_nap(ADOPT_AFTER_MS / 2);
	status_put(api, "a", STATUS(CLAIM("u1", "w", "pending")));
	assert_true(status_has(api, "a", "'state':'bound'", SOON));
	api_nap(2 * ADOPT_AFTER_MS);
	assert_int_equal(adoptions(), 0);
	assert_int_equal(pod_events(api, ""), 0);
}

/* The watch of servers is cut: it is judged on a list that was made after the pod was seen. */
TEST(r7_judged_on_a_fresh_list)
{
	put("a", OURS, STATUS(""));
	put("b", OURS, STATUS(""));
	claims_api_run(api);
	/* what the watch would tell is held back: the next one fails, and then waits longer */
	for (int i = 0; i < 3; i++)
		api_expect(api->pool->api, "GET", SERVERS_PATH "?watch=true*", 500, "");
	api_end(api->pool->api, SERVERS_PATH "*");
	status_put(api, "b", STATUS(CLAIM_ON("u1", "w", "pending", "'b'", "gpu-0", "8000000000")));
	pod_put(api, "w", "u1", PLAN_HALF);
	assert_true(status_has(api, "b", "'state':'bound'", SOON));
	api_nap(2 * ADOPT_AFTER_MS);
	assert_int_equal(adoptions(), 0);
}

/* Gone when it is asked for: nothing is written. */
TEST(r7_asked_past_the_cache)
{
	put("a", OURS, STATUS(""));
	pod_put(api, "w", "u1", PLAN_HALF);
	pods_get_status(api, 500);
	claims_api_run(api);
	api_nap(1500);
	assert_true(pod_asked(api, "w") >= 1);
	assert_int_equal(adoptions(), 0);
	assert_false(claims_adopted_since(&api->cfg, clock_ms() - 1400));
	pods_get_status(api, 0);
	assert_true(status_has(api, "a", ADOPTED, SOON));
}

static bool asked_more_than(size_t n)
{
	for (int i = 0; i < SOON / 50 && pod_asked(api, "w") <= n; i++)
		api_nap(50);
	return pod_asked(api, "w") > n;
}

/* Nobody answers, or the watch is silent and shows a pod that is gone: neither is asked about, nor
 * servers listed, in every round. */
TEST(r7_a_watch_that_is_behind)
{
	size_t asked, lists;

	put("a", OURS, STATUS(""));
	pod_put(api, "w", "u1", PLAN_HALF);
	pods_get_status(api, 500);
	api->cfg.ask_ms = 60000;
	claims_api_run(api);
	assert_true(asked_more_than(0));
	asked = pod_asked(api, "w");
	api_nap(2000);
	/* once a second */
	assert_true(pod_asked(api, "w") <= asked + 3);
	pod_gone_unseen(api, "u1");
	pods_get_status(api, 0);
	asked = pod_asked(api, "w");
	assert_true(asked_more_than(asked));
	/* one may have been under way */
	api_nap(1500);
	asked = pod_asked(api, "w");
	lists = api_seen_of(api->pool->api, "GET", SERVERS_PATH "?limit=*");
	assert_true(lists > 0);
	api_nap(2000);
	assert_int_equal(pod_asked(api, "w"), asked);
	assert_int_equal(api_seen_of(api->pool->api, "GET", SERVERS_PATH "?limit=*"), lists);
	assert_int_equal(adoptions(), 0);
	assert_true(settled(clock_ms(), 3000));
}

/* What is finished, and what never was injected, needs nothing. */
TEST(r7_not_for_finished_pods)
{
	put("a", OURS, STATUS(""));
	pod_put(api, "w", "u1", PLAN_HALF);
	pod_phase(api, "u1", "Succeeded");
	claims_api_run(api);
	api_nap(3 * ADOPT_AFTER_MS);
	assert_int_equal(adoptions(), 0);
	assert_int_equal(pod_asked(api, "w"), 0);
}

/* On its way out it still computes. */
TEST(r7_deleting_is_live)
{
	put("a", OURS, STATUS(""));
	pod_put(api, "w", "u1", PLAN_HALF);
	pod_delete(api, "u1", 30);
	claims_api_run(api);
	assert_true(status_has(api, "a", ADOPTED, SOON));
}

/* Fit GPUs with room first; else beyond what the GPU has, and it takes nothing new. */
TEST(r7_over_full_if_need_be)
{
	put("a", OURS, STATUS(FULL_TWO));
	pod_put(api, "x1", "x1", NULL);
	pod_put(api, "x2", "x2", NULL);
	run_with(PLAN_HALF);
	assert_true(status_has(api, "a", ADOPTED, SOON));
	assert_true(status_has(api, "a", "'free':0", 0));
	assert_true(pod_events_come(api, "beyond what its GPUs have", 1));
	assert_true(adoptions_come(1));
}

TEST(r7_room_elsewhere_comes_first)
{
	put("a", OURS, STATUS(FULL_TWO));
	put("b", "[]", STATUS(""));
	pod_put(api, "x1", "x1", NULL);
	pod_put(api, "x2", "x2", NULL);
	run_with(PLAN_HALF);
	assert_true(status_has(api, "b", ADOPTED, SOON));
	assert_false(status_has(api, "a", "'u1'", 0));
}

/* R9: its server deleted by force, and made anew with an empty status. */
TEST(r7_a_server_made_anew)
{
	int64_t since;

	put("a", OURS, STATUS(CLAIM("u1", "w", "bound")));
	run_with(PLAN_HALF);
	assert_true(settled(clock_ms(), SOON));
	assert_int_equal(adoptions(), 0);
	api_lock(api->pool->api);
	free(api->pool->server[0].finalizers);
	api->pool->server[0].finalizers = strdup("[]");
	api_unlock(api->pool->api);
	pool_api_delete(api->pool, "a");
	assert_true(status_has(api, "a", "", 0) == false);
	/* nowhere to go: said once */
	api_nap(4 * ADOPT_AFTER_MS);
	assert_true(pod_events_come(api, "NotAccounted", 1));
	since = clock_ms();
	put("a", "[]", STATUS(""));
	assert_false(claims_adopted_since(&api->cfg, since));
	assert_true(settled(since, SOON));
	/* opened only now, it holds the pod */
	assert_true(status_has(api, "a", ADOPTED, 0));
	assert_true(adoptions_come(1));
}

#define PLAN_TWO PLAN_OF("3", "100")
#define HALF_OF(gpu) CLAIM_ON("u1", "w", "bound", "'a','b'", gpu, WHOLE)

/* R1: the other half is lost. */
TEST(r7_a_half_claim_is_repaired)
{
	put("a", OURS, STATUS(HALF_OF("gpu-0")));
	put("b", OURS, STATUS(""));
	run_with(PLAN_TWO);
	assert_true(status_has(api, "a", ADOPTED, SOON));
	assert_true(status_has(api, "b", ADOPTED, SOON));
	assert_true(status_has(api, "a", "'servers':['a','b']", 0));
	assert_true(status_has(api, "b", "'servers':['a','b']", 0));
	api_nap(3 * ADOPT_AFTER_MS);
	assert_true(adoptions_come(1));
}

#define PLAN_THREE PLAN_OF("3", "100")

/* The list of servers is the old one, so that a new part beside an old one would look whole, with
 * two GPUs for three (R19). */
TEST(r7_half_an_adoption_is_not_a_whole_claim)
{
	put("a", OURS, STATUS(CLAIM_ON("x1", "x1", "bound", "'a'", "gpu-0", WHOLE)));
	put("b", OURS, STATUS(HALF_OF("gpu-0")));
	pod_put(api, "x1", "x1", NULL);
	pod_put(api, "w", "u1", PLAN_THREE);
	api_expect(api->pool->api, "PUT", SERVERS_PATH "/b/status", 500, "");
	claims_api_run(api);
	assert_true(status_has(api, "a", "'u1'", SOON));
	assert_true(status_has(api, "b", ADOPTED, SOON));
	assert_true(status_has(api, "b",
		"{'id':'gpu-0','bytes':16000000000},{'id':'gpu-1','bytes':16000000000}", 0));
	assert_true(status_has_not(api, "a", "'open'", SOON));
	assert_true(adoptions_come(1));
}

/* It fits on one server now: the old half goes. */
TEST(r7_the_old_half_goes)
{
	put("a", OURS,
		STATUS(CLAIM_ON("x1", "x1", "bound", "'a'", "gpu-0", WHOLE) "," CLAIM_ON(
			"u1", "w", "bound", "'a','gone'", "gpu-1", "1")));
	put("b", OURS, STATUS(""));
	pod_put(api, "x1", "x1", NULL);
	run_with(PLAN_OF("2", "100"));
	assert_true(status_has(api, "b", ADOPTED, SOON));
	assert_true(status_has_not(api, "a", "'u1'", SOON));
	assert_true(status_has(api, "a", "'x1'", 0));
	api_nap(3 * ADOPT_AFTER_MS);
	assert_true(adoptions_come(1));
}

/* A write that landed late, or two leaders: one whole claim stays, what a review promised before
 * what was adopted. */
TEST(r7_two_claims_are_trimmed_to_one)
{
	put("a", OURS, STATUS(CLAIM_ON("u1", "w", "adopted", "'a'", "gpu-0", "8000000000")));
	put("b", OURS, STATUS(CLAIM_ON("u1", "w", "bound", "'b'", "gpu-0", "8000000000")));
	run_with(PLAN_HALF);
	assert_true(status_has_not(api, "a", "'u1'", SOON));
	assert_true(status_keeps(api, "b", "'u1'", 3 * ADOPT_AFTER_MS));
	assert_int_equal(adoptions(), 0);
}

static void run_two(void)
{
	pod_put(api, "w", "u1", PLAN_HALF);
	pod_put(api, "x", "u2", PLAN_HALF);
	claims_api_run(api);
}

/* The same wherever it stands: neither the first nor the last on the list. */
TEST(r7_what_was_promised_stays_in_any_order)
{
	put("a", OURS, STATUS(CLAIM_ON("u1", "w", "bound", "'a'", "gpu-0", "8000000000")));
	put("b", OURS, STATUS(CLAIM_ON("u1", "w", "adopted", "'b'", "gpu-0", "8000000000")));
	put("c", OURS, STATUS(CLAIM_ON("u2", "x", "adopted", "'c'", "gpu-0", "8000000000")));
	put("d", OURS, STATUS(CLAIM_ON("u2", "x", "bound", "'d'", "gpu-0", "8000000000")));
	put("e", OURS, STATUS(CLAIM_ON("u2", "x", "adopted", "'e'", "gpu-0", "8000000000")));
	run_two();
	assert_true(status_has_not(api, "b", "'u1'", SOON));
	assert_true(status_has_not(api, "c", "'u2'", SOON));
	assert_true(status_has_not(api, "e", "'u2'", SOON));
	assert_true(status_keeps(api, "a", "'u1'", 3 * ADOPT_AFTER_MS));
	assert_true(status_keeps(api, "d", "'u2'", 0));
	assert_int_equal(adoptions(), 0);
}

/* The write of a review that gave it up lands when the pod has another's claim already: whoever
 * made it takes it back, too. */
TEST(r7_what_it_lives_with_stays_beside_a_late_write)
{
	put("a", OURS, STATUS(CLAIM_ON("u1", "w", "pending", "'a'", "gpu-0", "8000000000")));
	put("b", OURS, STATUS(CLAIM_ON("u1", "w", "bound", "'b'", "gpu-0", "8000000000")));
	put("c", OURS, STATUS(CLAIM_ON("u2", "x", "bound", "'c'", "gpu-0", "8000000000")));
	put("d", OURS, STATUS(CLAIM_ON("u2", "x", "pending", "'d'", "gpu-0", "8000000000")));
	run_two();
	assert_true(status_has_not(api, "a", "'u1'", SOON));
	assert_true(status_has_not(api, "d", "'u2'", SOON));
	assert_true(status_keeps(api, "b", "'u1'", 3 * ADOPT_AFTER_MS));
	assert_true(status_keeps(api, "c", "'u2'", 0));
	assert_int_equal(adoptions(), 0);
}

/* A claim of two parts, of which one is open. */
static void put_open(void)
{
	put("a", OURS,
		STATUS("{'uid':'u1','namespace':'n','name':'w','state':'bound','open':true,"
		       "'servers':['a','b'],'gpus':[{'id':'gpu-0','bytes':8000000000}]}"));
	put("b", OURS, STATUS(CLAIM_ON("u1", "w", "bound", "'a','b'", "gpu-0", "8000000000")));
}

/* Of two reviews of one uid, one said yes, and the other stands still before it said that its parts
 * are a claim (R19). */
TEST(r7_what_is_open_is_not_the_claim_that_stays)
{
	put_open();
	put("c", OURS, STATUS(CLAIM_ON("u1", "w", "bound", "'c'", "gpu-0", "8000000000")));
	run_with(PLAN_HALF);
	assert_true(status_has_not(api, "a", "'u1'", SOON));
	assert_true(status_has_not(api, "b", "'u1'", SOON));
	assert_true(status_keeps(api, "c", "'u1'", 3 * ADOPT_AFTER_MS));
	assert_int_equal(adoptions(), 0);
}

/* Nobody will say so any more: its pod lives, and gets a claim that stands. */
TEST(r7_who_has_an_open_claim_alone_gets_one)
{
	put_open();
	run_with(PLAN_OF("2", "50"));
	assert_true(adoptions_come(1));
	assert_true(status_has_not(api, "a", "'open'", SOON));
	assert_true(status_has_not(api, "b", "'a','b'", SOON));
}

/* More than the plan can need is given back; less is left alone. */
TEST(r7_what_exceeds_the_plan_is_trimmed)
{
	put("a", OURS,
		STATUS(CLAIM_ON("u1", "w", "bound", "'a'", "gpu-0", WHOLE) "," CLAIM_ON(
			"u2", "x", "bound", "'a'", "gpu-1", "8000000000")));
	run_two();
	assert_true(status_has_not(api, "a", "'bytes':16000000000", SOON));
	assert_true(status_has(api, "a", "'u1'", 0));
	assert_true(
		status_has(api, "a", "'uid':'u2','namespace':'n','name':'x','state':'bound'", 0));
	api_nap(3 * ADOPT_AFTER_MS);
	assert_int_equal(pod_asked(api, "x"), 1);
}

/* Said once, tried again, and nobody waits for it. */
TEST(r7_a_pod_without_a_readable_plan)
{
	int64_t since = clock_ms();

	put("a", "[]", STATUS(""));
	pod_put(api, "w", "u1", "{'v':1}");
	pod_put(api, "x", "u2", NULL);
	claims_api_run(api);
	assert_true(settled(since, SOON));
	api_nap(1500);
	assert_true(pod_events_come(api, "NotAccounted", 2));
	assert_true(pod_asked(api, "w") >= 3);
	assert_int_equal(adoptions(), 0);
}

/* Somebody else writes in between: never on top of it. Mostly that is a conflict; a picture that
 * has caught up in time knows it. */
static void take_the_room(struct claims_api *c)
{
	api_cut(c->pool->api, SERVERS_PATH "*"); /* the picture is behind */
	status_put(c, "a", STATUS(FULL_TWO));
}

TEST(r7_when_others_were_first_it_is_placed_anew)
{
	put("a", OURS, STATUS(""));
	put("b", OURS, STATUS(CLAIM_ON("x3", "x3", "bound", "'b'", "gpu-0", "100")));
	for (int i = 0; i < 3; i++)
		pod_put(api, (const char *[]){"x1", "x2", "x3"}[i],
			(const char *[]){"x1", "x2", "x3"}[i], NULL);
	api->between = take_the_room;
	run_with(PLAN_OF("1", "100"));
	assert_true(status_has(api, "b", ADOPTED, SOON));
	assert_false(status_has(api, "a", "'u1'", 0));
}

/* As often as others are first it is judged again in the next round, and not after a while, as
 * where nobody answers. */
TEST(r7_behind_each_conflict_it_is_tried_at_once)
{
	struct api_reply conflict;
	int64_t first_ms = 0;

	put("a", OURS, STATUS(""));
	for (int i = 0; i < 6; i++) {
		conflict = (struct api_reply){.delay_ms = 150};
		api_status(&conflict, 409, "Conflict", "the object has been modified");
		api_expect_reply(api->pool->api, "PUT", SERVERS_PATH "/a/status", &conflict);
	}
	run_with(PLAN_HALF);
	for (size_t i = 1; i <= 6; i++) {
		assert_true(api_wait(api->pool->api, "PUT", SERVERS_PATH "/a/status", i));
		first_ms = first_ms ? first_ms : api_now_ms();
		pool_api_status(api->pool, "a", STATUS(""));
	}
	assert_true(status_has(api, "a", ADOPTED, SOON));
	assert_true(api_now_ms() - first_ms < SOON);
	assert_true(adoptions_come(1));
	assert_int_equal(pod_events(api, "NotAccounted"), 0);
}

/* A status that the API server does not take is not written again before the pool is another one,
 * or a while has passed; where we may not write it, it is, each second. */
TEST(r7_how_often_a_claim_is_written_again)
{
	static const struct {
		int status;
		const char *reason;
		size_t most, events;
	} answers[] = {{422, "Invalid", 0, 1}, {403, "Forbidden", 8, 0},
		{503, "ServiceUnavailable", 4, 0}};

	for (size_t i = 0; i < COUNT(answers); i++) {
		char body[128];
		size_t asked;

		(void)snprintf(body, sizeof(body),
			"{\"kind\":\"Status\",\"reason\":\"%s\",\"message\":\"x\",\"code\":%d}",
			answers[i].reason, answers[i].status);
		claims_api_free(api);
		claims_api_begin(NULL);
		api->cfg.adopt_again_ms = 10 * SOON;
		put("a", OURS, STATUS(""));
		for (int k = 0; k < 100; k++)
			api_expect(api->pool->api, "PUT", SERVERS_PATH "/a/status",
				answers[i].status, body);
		run_with(PLAN_HALF);
		assert_true(api_wait(api->pool->api, "PUT", SERVERS_PATH "/a/status",
			answers[i].events ? 1 : 2));
		if (answers[i].events)
			assert_true(pod_events_come(api, "NotAccounted", 1));
		asked = api_seen_of(api->api, "GET", POD_OF("w"));
		api_nap(2500);
		asked = api_seen_of(api->api, "GET", POD_OF("w")) - asked;
		assert_true(asked <= answers[i].most);
		assert_int_equal(pod_events(api, "NotAccounted"), answers[i].events);
	}
}

/* ---- policies with caps (law P6) ---- */

/* As large as its schema lets it be: 64 labels of 317 bytes with values of 63 characters, 64
 * models of 128, each of four bytes. */
static int pick_large(void *ctx, struct slice namespace, struct arena *a, const struct policy **ret,
	struct err *err)
{
	(void)ctx, (void)namespace;
	*ret = &capped;
	if (!arena_alloc(a, (size_t)64 * (317 + 4 * 63 + 4 * 128)))
		return err_set(err, ERR_NOMEM, "out of memory");
	return 0;
}

TEST(p6_a_large_policy)
{
	static const struct policy_source source = {NULL, pick_large};
	const struct account_ask ask = {.uid = "u1", .namespace = "n", .at_once = true};
	struct policy_caps caps;
	struct err err = {0};
	uint64_t take;

	set_policies(&source);
	policy_caps_init(&caps, &source, accounts, &api->pool->log);
	assert_int_equal(policy_caps_raise(&caps, &ask, &take, &err), ERR_REFUSED);
	assert_string_equal(err.reason, "NoPolicy");
	policy_caps_release(&caps);
}

static int pick_capped(void *ctx, struct slice namespace, struct arena *a,
	const struct policy **ret, struct err *err)
{
	(void)ctx, (void)namespace, (void)a, (void)err;
	*ret = &capped;
	return 0;
}

/* What runs has its GPU, whatever becomes of an account: without a claim its bytes would be
 * promised to others. */
TEST(r7_without_an_account)
{
	static const struct policy_source source = {NULL, pick_capped};

	set_policies(&source);
	put("a", OURS, STATUS(""));
	run_with(PLAN_HALF);
	assert_true(status_has(api, "a", ADOPTED, SOON));
	assert_true(adoptions_come(1));
	assert_int_equal(pod_events(api, "NotAccounted"), 0);
}

#define SMALL "/apis/poolgate.io/v1alpha1/gpupolicies/small"
#define SMALL_OBJECT                                                                               \
	"{\"apiVersion\":\"poolgate.io/v1alpha1\",\"kind\":\"GPUPolicy\",\"metadata\":{\"name\":"  \
	"\"small\",\"resourceVersion\":\"5\",\"generation\":1},\"spec\":{\"allow\":{\"gpus\":1}}}"

/* Its name in the account is that of the record: who counts sees that it stands, and it is not
 * counted twice. */
TEST(p6_what_is_adopted_is_counted_once)
{
	static const struct policy_source source = {NULL, pick_capped};
	const struct api_request *raised;
	unsigned long long take;
	const char *flight;
	char text[64];

	set_policies(&source);
	put("a", OURS, STATUS(""));
	pod_put(api, "w", "u1", PLAN_HALF);
	api_expect(api->api, "GET", SMALL, 200, SMALL_OBJECT);
	api_expect(api->api, "GET", SMALL, 200, SMALL_OBJECT);
	api_expect(api->api, "PATCH", SMALL "/status", 200, SMALL_OBJECT);
	claims_api_run(api);
	assert_true(status_has(api, "a", ADOPTED, SOON));
	raised = api_last(api->api, "PATCH", SMALL "/status");
	assert_non_null(raised);
	flight = strstr(raised->body, "f u1 n ");
	assert_non_null(flight);
	assert_int_equal(sscanf(flight, "f u1 n %llu ", &take), 1);
	(void)snprintf(text, sizeof(text), "'take':'%016llx'", take);
	assert_true(status_has(api, "a", text, 0));
}

static unsigned long long take_in(const struct api_request *raised)
{
	unsigned long long take = 0;
	const char *flight = strstr(raised->body, "f u1 n ");

	if (flight)
		(void)sscanf(flight, "f u1 n %llu ", &take);
	return take;
}

/* Others were first: nothing of it can land any more, and its name does not stay for minutes, as
 * often as it is tried. */
TEST(p6_a_conflict_leaves_no_name)
{
	static const struct policy_source source = {NULL, pick_capped};
	struct api_reply conflict = {.delay_ms = 1000};
	unsigned long long first;
	char text[600];

	set_policies(&source);
	put("a", OURS, STATUS(""));
	pod_put(api, "w", "u1", PLAN_HALF);
	api_expect(api->api, "GET", SMALL, 200, SMALL_OBJECT);
	api_expect(api->api, "GET", SMALL, 200, SMALL_OBJECT);
	api_expect(api->api, "PATCH", SMALL "/status", 200, SMALL_OBJECT);
	api_status(&conflict, 409, "Conflict", "the object has been modified");
	api_expect_reply(api->pool->api, "PUT", SERVERS_PATH "/a/status", &conflict);
	claims_api_run(api);
	assert_true(api_wait(api->api, "PATCH", SMALL "/status", 1) ||
		    api_wait(api->api, "PATCH", SMALL "/status", 1));
	assert_true(api_wait(api->pool->api, "PUT", SERVERS_PATH "/a/status", 1));
	first = take_in(api_last(api->api, "PATCH", SMALL "/status"));
	assert_true(first != 0);
	(void)snprintf(text, sizeof(text),
		"{\"apiVersion\":\"poolgate.io/v1alpha1\",\"kind\":\"GPUPolicy\",\"metadata\":"
		"{\"name\":\"small\",\"resourceVersion\":\"6\",\"generation\":1},\"spec\":{"
		"\"allow\":{\"gpus\":1}},\"status\":{\"account\":\"1 1 n n 1 8000000000 f u1 n "
		"%llu 1 8000000000\"}}",
		first);
	api_expect(api->api, "GET", SMALL, 200, text);
	api_expect(api->api, "PATCH", SMALL "/status", 200, SMALL_OBJECT);
	status_put(api, "a", STATUS(""));
	assert_true(status_has(api, "a", ADOPTED, SOON));
	assert_int_equal(api_seen_of(api->api, "PATCH", SMALL "/status"), 2);
	(void)snprintf(text, sizeof(text), "f u1 n %llu ", first);
	assert_null(strstr(api_last(api->api, "PATCH", SMALL "/status")->body, text));
}

/* What a pod that runs holds beside its claim cannot be taken away, since its server cannot be
 * read: that is tried again as often as what nobody answers. */
TEST(r7_a_part_that_nobody_can_take_away)
{
	size_t asked;

	pool_api_put(api->pool, "a", OURS, SPEC, STATUS(""));
	pool_api_put(api->pool, "b", OURS,
		"{'address':'10.0.0.2:56001','gpus':[{'model':'V100','memory':'16G','count':2}]}",
		STATUS(CLAIM_ON("u1", "p", "bound", "'a','b'", "gpu-0", "8000000000")));
	pods_get_status(api, 500);
	pod_put(api, "p", "u1", PLAN_HALF);
	claims_api_run(api);
	status_put(api, "b", "{'version':1,'gpus':[],'claims':7}");
	pods_get_status(api, 0);
	assert_true(status_has(api, "a", "'u1'", SOON));
	asked = claims_api_asked(api);
	api_nap(10000);
	asked = claims_api_asked(api) - asked;
	/* each second a list of the servers, and the pod */
	assert_in_range(asked, 10, 25);
	assert_true(status_has(api, "a", "'u1'", 0));
}

TESTS_BETWEEN(claims_api_begin, tear_down, r7_no_memory_is_no_whole_claim,
	r7_a_pod_without_a_claim_gets_one, r7_as_the_profile_says,
	r7_not_where_the_status_cannot_be_read, r7_not_when_its_claim_comes_late,
	r7_judged_on_a_fresh_list, r7_asked_past_the_cache, r7_a_watch_that_is_behind,
	r7_not_for_finished_pods, r7_deleting_is_live, r7_over_full_if_need_be,
	r7_room_elsewhere_comes_first, r7_a_server_made_anew, r7_a_half_claim_is_repaired,
	r7_half_an_adoption_is_not_a_whole_claim, r7_the_old_half_goes,
	r7_two_claims_are_trimmed_to_one, r7_what_was_promised_stays_in_any_order,
	r7_what_it_lives_with_stays_beside_a_late_write,
	r7_what_is_open_is_not_the_claim_that_stays, r7_who_has_an_open_claim_alone_gets_one,
	r7_what_exceeds_the_plan_is_trimmed, r7_a_pod_without_a_readable_plan,
	r7_when_others_were_first_it_is_placed_anew, r7_behind_each_conflict_it_is_tried_at_once,
	r7_how_often_a_claim_is_written_again, p6_a_large_policy, r7_without_an_account,
	p6_what_is_adopted_is_counted_once, p6_a_conflict_leaves_no_name,
	r7_a_part_that_nobody_can_take_away)
