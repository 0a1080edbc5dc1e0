/* SPDX-License-Identifier: Apache-2.0 */
/* test: pods that wait for their turn are given claims and let go, in their order and whenever a
 * leader dies (W3, W5, W7). */
#include "base/clock.h"
#include "base/rfc3339.h"
#include "test/unit/claims_api.h"
#include "test/unit/test.h"
#include "webhook/cluster/duty/duty.h"

#define SPEC_B "{'address':'10.0.0.2:56001','gpus':[{'model':'V100','memory':'16G','count':2}]}"

static void put(const char *name, const char *status)
{
	pool_api_put(api->pool, name, OURS, *name == 'b' ? SPEC_B : SPEC, status);
}

/* All that server a has is claimed by x1 and x2. */
static void put_full(void)
{
	put("a", STATUS(CLAIM_ON("x1", "x", "bound", "'a'", "gpu-0", WHOLE) "," CLAIM_ON(
			 "x2", "y", "bound", "'a'", "gpu-1", WHOLE)));
	pod_put(api, "x", "x1", NULL);
	pod_put(api, "y", "x2", NULL);
}

/* One that waits, of that plan, and a leader. */
static void begin(const char *plan)
{
	pod_put_waiting(api, "w", "u1", plan, 30);
	claims_api_run(api);
}

static bool metric_comes_to(size_t id, int64_t n)
{
	for (int i = 0; i < SOON / 10 && metric_value(api->pool->metrics, id, 0, 0) != n; i++)
		api_nap(10);
	return metric_value(api->pool->metrics, id, 0, 0) == n;
}

/* Its client chooses for itself: it is told nothing but that it may go. */
TEST(w3_who_finds_room_starts_at_once)
{
	const char *body;

	put("a", STATUS(""));
	begin(PLAN_WAITS("1", "50"));
	assert_true(pod_is_let_go(api, "u1", SOON));
	assert_true(
		status_has(api, "a", "'uid':'u1','namespace':'n','name':'w','state':'bound'", 0));
	body = api_last(api->api, "PATCH", POD_OF("w"))->body;
	assert_null(strstr(body, "annotations"));
	assert_non_null(strstr(body, "{\"op\":\"remove\",\"path\":\"/spec/schedulingGates/0\"}]"));
	assert_true(metric_comes_to(M_WAIT_SECONDS, 1));
	assert_true(metric_comes_to(M_PLACES, 1));
	assert_int_equal(metric_value(api->pool->metrics, M_ADOPTIONS, 0, 0), 0);
	assert_int_equal(pod_events(api, ""), 0);
	/* it was not read for that */
	assert_int_equal(pod_asked(api, "w"), 0);
	/* and it ends like any other */
	pod_gone(api, "u1");
	assert_true(status_has_not(api, "a", "'u1'", SOON));
}

/* A full pool: it holds nothing, is given nothing behind its back, and has lost nothing. */
TEST(w2_who_finds_none_waits)
{
	put_full();
	begin(PLAN_WAITS("1", "100"));
	assert_false(pod_is_let_go(api, "u1", 3 * LOST_AFTER_MS));
	assert_false(status_has(api, "a", "'uid':'u1','namespace':'n','name':'w','state'", 0));
	assert_int_equal(pod_events(api, "ClaimLost"), 0);
	assert_int_equal(metric_value(api->pool->metrics, M_QUEUE_DEPTH, 0, 0), 1);
	assert_true(metric_value(api->pool->metrics, M_QUEUE_HEAD, 0, 0) > 3600);
	pod_gone(api, "x2");
	assert_true(pod_is_let_go(api, "u1", SOON));
	assert_true(metric_comes_to(M_QUEUE_DEPTH, 0));
	assert_int_equal(metric_value(api->pool->metrics, M_QUEUE_HEAD, 0, 0), 0);
	assert_true(status_has(api, "a", "'id':'gpu-1','bytes':16000000000", 0));
	assert_true(status_has(api, "a", "'u1'", 0));
}

#define CROWD 300

static size_t crowd_let_go(void)
{
	size_t n = 0;

	api_lock(api->api);
	for (size_t i = 0; i < CROWD; i++)
		n += !api->pod[i].gated;
	api_unlock(api->api);
	return n;
}

/* More than one round writes, and lets go: the others are not far behind. */
TEST(w5_more_than_a_round_lets_go)
{
	int64_t first_ms = 0, last_ms;
	char name[8], uid[8];
	size_t n;

	put("a", STATUS(""));
	put("b", STATUS(""));
	for (unsigned i = 0; i < CROWD; i++) {
		(void)snprintf(name, sizeof(name), "p%u", i);
		(void)snprintf(uid, sizeof(uid), "u%u", i);
		pod_put_waiting(api, name, uid, PLAN_WAITS("1", "1"), 30);
	}
	claims_api_run(api);
	last_ms = api_now_ms() + 2 * SOON;
	while ((n = crowd_let_go()) < CROWD && api_now_ms() < last_ms) {
		if (n > 0 && first_ms == 0)
			first_ms = api_now_ms();
		api_nap(5);
	}
	assert_int_equal(n, CROWD);
	assert_in_range(api_now_ms() - first_ms, 0, 800);
}

/* The eldest first, as one place after the other comes free. */
TEST(w5_in_order_of_age)
{
	put_full();
	pod_put_waiting(api, "late", "u3", PLAN_WAITS("1", "100"), 33);
	pod_put_waiting(api, "first", "u1", PLAN_WAITS("1", "100"), 31);
	pod_put_waiting(api, "then", "u2", PLAN_WAITS("1", "100"), 32);
	claims_api_run(api);
	assert_false(pod_is_let_go(api, "u1", 500));
	pod_gone(api, "x2");
	assert_true(pod_is_let_go(api, "u1", SOON));
	assert_false(pod_is_let_go(api, "u2", 500));
	pod_gone(api, "u1");
	assert_true(pod_is_let_go(api, "u2", SOON));
	assert_false(pod_is_let_go(api, "u3", 0));
}

/* What the watch has not told yet is read when the API server does not take the write: a gate that
 * another leader has taken away, and a successor of the same name. */
TEST(w3_who_is_not_as_the_watch_shows_him)
{
	places_fare(api, PLACE_NOT_WRITTEN);
	put("a", STATUS(""));
	begin(PLAN_WAITS("1", "50"));
	assert_true(api_wait(api->api, "PATCH", POD_OF("w"), 1));
	pod_gone_unseen(api, "u1");
	pod_put_waiting(api, "w", "u2", PLAN_WAITS("1", "50"), 31);
	pod_foreign(api, "u2", true);
	places_fare(api, PLACE_WRITTEN);
	assert_true(api_wait(api->api, "GET", POD_OF("w"), 1));
	api_nap(2000);
	assert_false(pod_is_let_go(api, "u2", 0));
	assert_int_equal(api->places, 0);
}

/* Of two the one goes first whose namespace holds less, though it is younger. */
TEST(w5_whose_namespace_holds_less)
{
	put("a", STATUS(CLAIM_ON("x1", "x", "bound", "'a'", "gpu-0", WHOLE) "," CLAIM_OF(
			 "z", "x2", "y", "bound", "aa", "'a'", "", HOLDS("gpu-1", WHOLE))));
	pod_put(api, "x", "x1", NULL);
	pod_put(api, "y", "x2", NULL);
	pod_namespace(api, "x2", 'z');
	pod_put_waiting(api, "old", "u1", PLAN_WAITS("1", "100"), 30);
	pod_put_waiting(api, "new", "u2", PLAN_WAITS("1", "100"), 40);
	pod_namespace(api, "u2", 'm');
	claims_api_run(api);
	pod_gone(api, "x2");
	assert_true(pod_is_let_go(api, "u2", SOON));
	assert_false(pod_is_let_go(api, "u1", 0));
	pod_gone(api, "x1");
	assert_true(pod_is_let_go(api, "u1", SOON));
}

#define CLAIM_IN(namespace, uid, server, gpu, bytes)                                               \
	CLAIM_OF(namespace, uid, uid, "bound", "aa", "'" server "'", "", HOLDS(gpu, bytes))

/* What each holds is counted on all servers, and for all of its pods that wait. */
TEST(w5_whose_namespace_holds_less_elsewhere)
{
	static const struct {
		const char *uid;
		char namespace;
	} holders[] = {{"x1", 'n'}, {"x2", 'm'}, {"x3", 'z'}, {"x4", 'z'}};

	put("a", STATUS(CLAIM_IN("n", "x1", "a", "gpu-0", "8000000000") "," CLAIM_IN(
			 "z", "x3", "a", "gpu-1", WHOLE)));
	put("b", STATUS(CLAIM_IN("m", "x2", "b", "gpu-0", WHOLE) "," CLAIM_IN(
			 "z", "x4", "b", "gpu-1", WHOLE)));
	for (size_t i = 0; i < COUNT(holders); i++) {
		pod_put(api, holders[i].uid, holders[i].uid, NULL);
		pod_namespace(api, holders[i].uid, holders[i].namespace);
	}
	pod_put_waiting(api, "old", "u1", PLAN_WAITS("1", "100"), 20);
	pod_put_waiting(api, "older", "u2", PLAN_WAITS("1", "100"), 10);
	pod_namespace(api, "u1", 'm');
	pod_namespace(api, "u2", 'm');
	pod_put_waiting(api, "new", "u3", PLAN_WAITS("1", "100"), 40);
	claims_api_run(api);
	pod_gone(api, "x3");
	assert_true(pod_is_let_go(api, "u3", SOON));
	assert_false(pod_is_let_go(api, "u1", 500));
	assert_false(pod_is_let_go(api, "u2", 0));
}

/* As long as somebody else's gate stands it takes nobody's place. */
TEST(w7_another_gate)
{
	put("a", STATUS(CLAIM_ON("x1", "x", "bound", "'a'", "gpu-0", WHOLE)));
	pod_put(api, "x", "x1", NULL);
	pod_put_waiting(api, "w", "u1", PLAN_WAITS("1", "100"), 30);
	pod_foreign(api, "u1", true);
	pod_put_waiting(api, "v", "u2", PLAN_WAITS("1", "100"), 40);
	claims_api_run(api);
	assert_true(pod_is_let_go(api, "u2", SOON));
	pod_gone(api, "x1");
	assert_false(pod_is_let_go(api, "u1", 1000));
	pod_foreign(api, "u1", false);
	assert_true(pod_is_let_go(api, "u1", SOON));
}

/* Where Kueue held them their order is that in which it let them go, whatever their creation says,
 * for the next leader, too. */
TEST(w7_since_kueue_let_it_go)
{
	char first[32], second[32], later[32];

	put_full();
	pod_put_waiting(api, "old", "u1", PLAN_WAITS("1", "100"), 30);
	pod_put_waiting(api, "new", "u2", PLAN_WAITS("1", "100"), 40);
	pod_put_waiting(api, "plain", "u3", PLAN_WAITS("1", "100"), 50);
	for (size_t i = 0; i < 2; i++) {
		pod_kueue(api, i ? "u2" : "u1");
		pod_foreign(api, i ? "u2" : "u1", true);
	}
	claims_api_run(api);
	assert_true(pod_is_told(api, "u1", "OtherGate", SOON));
	assert_false(pod_is_marked(api, "u1", first, 0));
	pod_foreign(api, "u2", false);
	assert_true(pod_is_marked(api, "u2", second, SOON));
	api_nap(1100); /* ages are told in seconds */
	pod_foreign(api, "u1", false);
	assert_true(pod_is_marked(api, "u1", first, SOON));
	assert_true(strcmp(second, first) < 0);
	claims_api_next_leader(api);
	pod_gone(api, "x1");
	assert_true(pod_is_let_go(api, "u3", SOON));
	pod_gone(api, "x2");
	assert_true(pod_is_let_go(api, "u2", SOON));
	pod_gone(api, "u3");
	assert_true(pod_is_let_go(api, "u1", SOON));
	/* said once */
	assert_true(pod_is_marked(api, "u1", later, 0));
	assert_string_equal(later, first);
	assert_int_equal(api->marked, 2);
}

/* Where it may not be written it is not tried with each round; behind a conflict it is. */
TEST(w7_where_no_age_may_be_written)
{
	char since[32];

	put_full();
	pod_put_waiting(api, "w", "u1", PLAN_WAITS("1", "100"), 30);
	pod_put_waiting(api, "v", "u2", PLAN_WAITS("1", "100"), 31);
	pod_kueue(api, "u1");
	pod_kueue(api, "u2");
	api_expect(api->api, "PATCH", POD_OF("w"), 403, "{}");
	api_expect(api->api, "PATCH", POD_OF("v"), 409, "{}");
	claims_api_run(api);
	assert_true(pod_is_marked(api, "u2", since, SOON));
	assert_int_equal(api_seen_of(api->api, "PATCH", POD_OF("v")), 2);
	api_nap(1500);
	assert_int_equal(api_seen_of(api->api, "PATCH", POD_OF("w")), 1);
	assert_false(pod_is_marked(api, "u1", since, 0));
	assert_int_equal(api_seen_of(api->api, "PATCH", POD_OF("v")), 2);
}

/* Who finds room at once needs no age. */
TEST(w7_who_starts_is_not_marked)
{
	char since[32];

	put("a", STATUS(""));
	pod_put_waiting(api, "w", "u1", PLAN_WAITS("1", "50"), 30);
	pod_kueue(api, "u1");
	claims_api_run(api);
	assert_true(pod_is_let_go(api, "u1", SOON));
	assert_false(pod_is_marked(api, "u1", since, 500));
}

/* Nobody takes what it is told: that is not tried with each round, but again a second later. */
TEST(w9_what_nobody_takes_is_told_again)
{
	size_t tried;

	put_full();
	pod_put_waiting(api, "w", "u1", PLAN_WAITS("1", "100"), 30);
	for (int i = 0; i < 40; i++)
		api_expect(api->api, "PATCH", POD_OF("w") "/status", 500, "{}");
	claims_api_run(api);
	assert_true(api_wait(api->api, "PATCH", POD_OF("w") "/status", 1));
	/* there is a reason for a round all the time */
	for (int i = 0; i < 30; i++) {
		status_put(api, "b", STATUS(""));
		api_nap(100);
	}
	tried = api_seen_of(api->api, "PATCH", POD_OF("w") "/status");
	assert_in_range(tried, 2, 5);
	assert_int_equal(pod_events(api, "WaitsForGPUs"), 0);
}

/* The claim stands, the gate too. */
TEST(w3_a_leader_dies_behind_the_claim)
{
	places_fare(api, PLACE_NOT_WRITTEN);
	put("a", STATUS(""));
	begin(PLAN_WAITS("1", "50"));
	assert_true(api_wait(api->api, "PATCH", POD_OF("w"), 1));
	assert_true(status_has(api, "a", "'u1'", SOON));
	places_fare(api, PLACE_WRITTEN);
	claims_api_next_leader(api);
	assert_true(pod_is_let_go(api, "u1", SOON));
	assert_int_equal(api->places, 1);
	assert_true(status_keeps(api, "a", "'u1'", 1500));
}

/* The same, and etcd is restored to where nothing was claimed, which the watch of the servers does
 * not tell: it has its turn once more (R16). */
TEST(r16_a_claim_that_a_restore_has_taken)
{
	places_fare(api, PLACE_NOT_WRITTEN);
	put("a", STATUS(""));
	begin(PLAN_WAITS("1", "50"));
	assert_true(api_wait(api->api, "PATCH", POD_OF("w"), 1));
	assert_true(status_has(api, "a", "'u1'", SOON));
	assert_true(status_restored(api, "a", STATUS("")));
	assert_true(status_has(api, "a", "'state':'bound'", SOON));
	places_fare(api, PLACE_WRITTEN);
	assert_true(pod_is_let_go(api, "u1", SOON));
	assert_int_equal(pod_events(api, "ClaimLost"), 0);
	assert_int_equal(metric_value(api->pool->metrics, M_ADOPTIONS, 0, 0), 0);
}

/* Of a claim over two servers the first part stands, open: it goes, and a whole one is written. */
TEST(w3_a_leader_dies_in_the_claim)
{
	put("a", STATUS(CLAIM_WITH("u1", "w", "bound", "00", "'a','b'", "'open':true,",
			 HOLDS("gpu-0", WHOLE) "," HOLDS("gpu-1", WHOLE))));
	put("b", STATUS(""));
	begin(PLAN_WAITS("3", "100"));
	assert_true(pod_is_let_go(api, "u1", SOON));
	assert_true(status_has(api, "a", "'servers':['a','b']", 0));
	assert_true(status_has(api, "b", "'servers':['a','b']", 0));
	assert_false(status_has(api, "a", "'open'", 0));
	assert_int_equal(metric_value(api->pool->metrics, M_ADOPTIONS, 0, 0), 0);
}

/* A leader that stands still in the middle of a claim: the next one has taken that back, and begun
 * one on other servers. That is not this one's to finish, nor is the pod let go (R19). */
TEST(r19_two_leaders_in_one_claim)
{
	put("a", STATUS(""));
	put("b", STATUS(""));
	pod_put_waiting(api, "w", "u1", PLAN_WAITS("3", "100"), 30);
	api->pool->puts_max = 3;
	api->pool->rival_before = "\"grace\":30,\"gpus\"";
	api->pool->rival_on = "a";
	api->pool->rival = STATUS(CLAIM_WITH("u1", "w", "bound", "00", "'a','c'", "'open':true,",
		HOLDS("gpu-0", WHOLE) "," HOLDS("gpu-1", WHOLE)));
	claims_api_run(api);
	assert_true(status_has(api, "b", "'servers':['a','b']", SOON));
	assert_false(pod_is_let_go(api, "u1", 1000));
	/* all of it goes, and it has another one */
	api_lock(api->pool->api);
	api->pool->puts_max = 0;
	api_unlock(api->pool->api);
	assert_true(pod_is_let_go(api, "u1", SOON));
	assert_true(status_has(api, "a", "'servers':['a','b']", 0));
	assert_true(status_has(api, "b", "'servers':['a','b']", 0));
}

/* Half a claim that cannot be taken back is tried again when a second is over, and not before. */
TEST(w3_half_a_claim_that_nobody_can_take_back)
{
	int64_t last, gap = INT64_MAX;

	put("a", STATUS(CLAIM_ON("u1", "w", "bound", "'a','gone'", "gpu-0", WHOLE)));
	for (int i = 0; i < 8; i++)
		api_expect(api->pool->api, "PUT", SERVERS_PATH "/a/status", 403, "{}");
	begin(PLAN_WAITS("1", "100"));
	assert_true(api_wait(api->pool->api, "PUT", SERVERS_PATH "/a/status", 1));
	last = api_now_ms();
	for (size_t n = 2; n < 8; n++) {
		int64_t now;

		assert_true(api_wait(api->pool->api, "PUT", SERVERS_PATH "/a/status", n));
		now = api_now_ms();
		gap = now - last < gap ? now - last : gap;
		last = now;
	}
	assert_in_range(gap, 990, 1050);
	assert_false(pod_is_let_go(api, "u1", 0));
}

/* Two leaders have each given it one: the first is kept. */
TEST(w3_two_claims)
{
	put("a", STATUS(CLAIM_ON("u1", "w", "bound", "'a'", "gpu-0", "8000000000")));
	put("b", STATUS(CLAIM_ON("u1", "w", "bound", "'b'", "gpu-0", "8000000000")));
	begin(PLAN_WAITS("1", "50"));
	assert_true(pod_is_let_go(api, "u1", SOON));
	assert_true(status_has(api, "a", "'u1'", 0));
	assert_true(status_has_not(api, "b", "'u1'", SOON));
}

/* A leader that stood still gives another claim to a pod that has been let go: it keeps the one
 * that it was told. */
TEST(w3_two_claims_and_a_place)
{
	put("a", STATUS(CLAIM_ON("u1", "w", "bound", "'a'", "gpu-0", "8000000000")));
	put("b", STATUS(CLAIM_ON("u1", "w", "bound", "'b'", "gpu-0", "8000000000")));
	pod_put(api, "w", "u1",
		"{'v':1,'profile':'p','hash':'0123456789abcdef','mode':'full','late':{'values':["
		"'servers'],'granularity':'gpu'},'waits':true,'containers':[{'name':'a','amount':1,"
		"'percent':50,'kind':'app','units':50,'command':'none'}]}");
	pod_told_place(api, "u1", "b/gpu-0");
	claims_api_run(api);
	assert_true(status_has_not(api, "a", "'u1'", SOON));
	assert_true(status_keeps(api, "b", "'u1'", 1000));
}

/* A finalizer keeps it: it is given nothing any more, and keeps nobody back. */
TEST(w5_who_is_being_deleted)
{
	put_full();
	pod_put_waiting(api, "w", "u1", PLAN_WAITS("1", "100"), 30);
	pod_put_waiting(api, "v", "u2", PLAN_WAITS("1", "100"), 31);
	pod_delete(api, "u1", 0);
	claims_api_run(api);
	pod_gone(api, "x1");
	assert_true(pod_is_let_go(api, "u2", SOON));
	pod_gone(api, "x2");
	assert_false(pod_is_let_go(api, "u1", 1000));
}

/* What drains or is unfit takes nobody who could wait. */
TEST(w3_a_server_that_takes_nothing)
{
	pool_api_put(api->pool, "a", OURS,
		"{'address':'10.0.0.1:56001','drain':true,'gpus':[{'model':'V100','memory':'16G','"
		"count':2}]}",
		STATUS(""));
	begin(PLAN_WAITS("1", "50"));
	assert_false(pod_is_let_go(api, "u1", 1000));
	assert_false(status_has(api, "a", "'u1'", 0));
}

/* Who has waited for long is passed no more: what frees up is kept for it, in the status, until it
 * starts. */
TEST(w6_what_frees_up_is_kept)
{
	api->cfg.reserve_ms = 1;
	put_full();
	pod_put_waiting(api, "big", "u1", PLAN_WAITS("2", "100"), 30);
	pod_put_waiting(api, "small", "u2", PLAN_WAITS("1", "50"), 31);
	claims_api_run(api);
	assert_true(status_has(api, "a", "'kept':[{'uid':'u1','namespace':'n','name':'big'", SOON));
	assert_true(metric_comes_to(M_QUEUE_KEPT, 32000000000));
	pod_gone(api, "x1");
	assert_true(status_has_not(api, "a", "'x1'", SOON));
	assert_false(pod_is_let_go(api, "u2", 1000));
	/* the next leader goes on with it */
	claims_api_next_leader(api);
	assert_false(pod_is_let_go(api, "u2", 1000));
	pod_gone(api, "x2");
	assert_true(pod_is_let_go(api, "u1", SOON));
	assert_true(status_has_not(api, "a", "'kept':[{'uid':'u1'", SOON));
	assert_false(pod_is_let_go(api, "u2", 0));
}

/* The queue gives what lies beside what is kept, and a review takes a part of that before it is
 * written: who has come behind the head gets nothing of what is kept for it. */
TEST(w6_a_review_takes_what_lies_beside)
{
	api->cfg.reserve_ms = 1;
	put_full();
	pod_put(api, "z", "u3", NULL);
	pod_put_waiting(api, "big", "u1", PLAN_WAITS("2", "50"), 30);
	pod_put_waiting(api, "small", "u2", PLAN_WAITS("1", "50"), 31);
	api->pool->rival_before = "\"uid\":\"u2\"";
	api->pool->rival =
		"{\"uid\":\"u3\",\"namespace\":\"n\",\"name\":\"z\",\"state\":\"pending\",\"plan\":"
		"\"0000000000000000\",\"since\":\"2026-11-21T09:30:00Z\",\"take\":"
		"\"00000000000000aa\",\"servers\":[\"a\"],\"gpus\":[{\"id\":\"gpu-0\",\"bytes\":"
		"1600000000}]}";
	claims_api_run(api);
	assert_true(status_has(api, "a", "'kept':[{'uid':'u1'", SOON));
	pod_gone(api, "x1");
	assert_true(status_has(api, "a", "'uid':'u3'", SOON));
	assert_false(pod_is_let_go(api, "u2", 1000));
	assert_false(status_has(api, "a", "'uid':'u2'", 0));
	pod_gone(api, "u3");
	assert_true(pod_is_let_go(api, "u2", SOON));
	assert_true(status_has(api, "a", "'kept':[{'uid':'u1'", 0));
}

/* A leader stands still before it writes what it keeps, and the next one has kept something for
 * another by then: that stands. */
TEST(w6_another_leader_keeps_for_another)
{
	api->cfg.reserve_ms = 1;
	put_full();
	pod_put_waiting(api, "big", "u1", PLAN_WAITS("2", "100"), 30);
	pod_put_waiting(api, "later", "u9", PLAN_WAITS("2", "100"), 31);
	api->pool->rival_before = "\"kept\":[{\"uid\":\"u1\"";
	api->pool->rival_on = "a";
	api->pool->rival = "{'version':1,'gpus':[" GPU("gpu-0") "," GPU(
		"gpu-1") "],'claims':[" CLAIM_ON("x1", "x", "bound", "'a'", "gpu-0",
		WHOLE) "," CLAIM_ON("x2", "y", "bound", "'a'", "gpu-1",
		WHOLE) "],'kept':[{'uid':'u9','namespace':'n','name':'later','since':"
		       "'2026-11-21T09:30:00Z','gpus':[" HOLDS("gpu-0", WHOLE) "," HOLDS(
			       "gpu-1", WHOLE) "]}]}";
	claims_api_run(api);
	assert_true(status_has(api, "a", "'kept':[{'uid':'u9'", SOON));
	assert_true(status_keeps(api, "a", "'kept':[{'uid':'u9'", 2000));
}

/* Another leader has kept something by the time that a claim is written, of which this one's queue
 * knew nothing: nobody else gets it in this round. Whoever it was for does not wait, as the next
 * round knows, so that it holds nobody up. */
TEST(w6_what_another_leader_keeps_is_met)
{
	put("a", STATUS(""));
	pod_put_waiting(api, "w", "u1", PLAN_WAITS("1", "100"), 30);
	api->pool->rival_before = "\"uid\":\"u1\"";
	api->pool->rival_on = "a";
	api->pool->rival = "{'version':1,'gpus':[" GPU("gpu-0") "," GPU(
		"gpu-1") "],'claims':[],'kept':[{'uid':"
			 "'u9','namespace':'n','name':'later','since':'2026-11-21T09:30:00Z','gpus'"
			 ":[" HOLDS("gpu-0", WHOLE) "," HOLDS("gpu-1", WHOLE) "]}]}";
	claims_api_run(api);
	assert_true(status_has(api, "a", "'kept':[{'uid':'u9'", SOON));
	api_nap(20);
	/* a round is a tenth of a second behind the one before it */
	assert_false(status_has(api, "a", "'uid':'u1'", 0));
	assert_true(pod_is_let_go(api, "u1", SOON));
}

/* Who is passed no more from a moment on is not passed by then, wherever that lies between two
 * rounds that nothing else is the reason of. */
TEST(w6_kept_from_its_moment_on)
{
	int64_t since, due;

	assert_true(rfc3339_read(SLICE("2026-11-21T09:30:00Z"), &since));
	put("a", STATUS(CLAIM_ON("x1", "x", "bound", "'a'", "gpu-0", WHOLE)));
	pod_put(api, "x", "x1", NULL);
	pod_put_waiting(api, "big", "u1", PLAN_WAITS("2", "100"), 30);
	due = clock_wall_ms() + 3500;
	api->cfg.reserve_ms = due - since;
	claims_api_run(api);
	assert_false(status_has(api, "a", "'kept'", (int)(due - 20 - clock_wall_ms())));
	assert_true(status_has(api, "a", "'kept'", 250));
}

/* It goes away: nothing is kept for it. */
TEST(w6_who_has_gone_keeps_nothing)
{
	api->cfg.reserve_ms = 1;
	put_full();
	pod_put_waiting(api, "big", "u1", PLAN_WAITS("2", "100"), 30);
	claims_api_run(api);
	assert_true(status_has(api, "a", "'kept'", SOON));
	pod_gone(api, "u1");
	assert_true(status_has_not(api, "a", "'kept'", SOON));
	assert_true(metric_comes_to(M_QUEUE_KEPT, 0));
}

/* The watch has shown it as let go; since then etcd was restored to where its gate stands. What the
 * API server says of it now counts: it is given a claim in its turn, and not as one that runs. */
TEST(w3_who_is_behind_its_gate_again_is_not_adopted)
{
	size_t asked = 0;

	put_full();
	pod_put(api, "w", "u1", PLAN_WAITS("1", "100"));
	pods_get_status(api, 500);
	claims_api_run(api);
	for (int i = 0; i < SOON / 50 && asked == 0; i++) {
		api_nap(50);
		asked = pod_asked(api, "w");
	}
	assert_true(asked > 0);
	pod_gate_unseen(api, "u1");
	pods_get_status(api, 0);
	for (int i = 0; i < SOON / 50 && pod_asked(api, "w") <= asked + 1; i++)
		api_nap(50);
	api_nap(1000);
	assert_true(status_has_not(api, "a", "'uid':'u1'", 0));
	assert_int_equal(metric_value(api->pool->metrics, M_ADOPTIONS, 0, 0), 0);
}

/* Its owner reads on the pod itself why it waits, and that it does no more; by an Event once. */
TEST(w9_a_pod_says_why)
{
	put_full();
	begin(PLAN_WAITS("1", "100"));
	assert_true(pod_is_told(api, "u1",
		"{'type':'poolgate.io/Admitted','status':'False','lastTransitionTime':'2", SOON));
	assert_true(pod_is_told(api, "u1", "'reason':'NoCapacity','message':'", 0));
	assert_true(pod_is_told(api, "u1", "number 1 of 1", 0));
	/* nothing new is told twice, by the next leader neither */
	claims_api_next_leader(api);
	api_nap(1500);
	assert_int_equal(api->told, 1);
	assert_int_equal(pod_events(api, "WaitsForGPUs"), 1);
	pod_gone(api, "x1");
	assert_true(pod_is_let_go(api, "u1", SOON));
	assert_true(pod_is_told(api, "u1", "'status':'True'", SOON));
	assert_int_equal(api->told, 2);
	assert_int_equal(pod_events(api, "WaitsForGPUs"), 1);
}

/* What could not be written for a moment is written later. */
TEST(w9_an_api_server_that_is_away_for_a_moment)
{
	put_full();
	pod_put_waiting(api, "w", "u1", PLAN_WAITS("1", "100"), 30);
	api_expect(api->api, "PATCH", "/api/v1/namespaces/n/pods/w/status", 500, "");
	claims_api_run(api);
	assert_true(pod_is_told(api, "u1", "'reason':'NoCapacity'", SOON));
	api_nap(1500);
	assert_int_equal(api->told, 1);
	assert_int_equal(pod_events(api, "WaitsForGPUs"), 1);
}

/* Who may not write the condition says it by the Event, and does not try again with each round. */
TEST(w9_where_no_condition_may_be_written)
{
	put_full();
	pod_put_waiting(api, "w", "u1", PLAN_WAITS("1", "100"), 30);
	api_expect(api->api, "PATCH", POD_OF("w") "/status", 403, "{}");
	claims_api_run(api);
	for (int i = 0; i < SOON / 10 && pod_events(api, "WaitsForGPUs") == 0; i++)
		api_nap(10);
	api_nap(2500);
	assert_int_equal(pod_events(api, "WaitsForGPUs"), 1);
	assert_int_equal(api_seen_of(api->api, "PATCH", POD_OF("w") "/status"), 1);
	assert_int_equal(api->told, 0);
}

/* More than are told at once: the others a second later, each once. */
TEST(w9_many_are_told)
{
	char name[16], uid[16];

	put_full();
	for (unsigned i = 0; i < 20; i++) {
		(void)snprintf(name, sizeof(name), "w%u", i);
		(void)snprintf(uid, sizeof(uid), "u%u", i);
		pod_put_waiting(api, name, uid, PLAN_WAITS("1", "100"), 30 + i);
	}
	claims_api_run(api);
	for (unsigned i = 0; i < 20; i++) {
		(void)snprintf(uid, sizeof(uid), "u%u", i);
		(void)snprintf(name, sizeof(name), "number %u of 20", i + 1);
		assert_true(pod_is_told(api, uid, name, SOON));
	}
	assert_int_equal(metric_value(api->pool->metrics, M_QUEUE_DEPTH, 0, 0), 20);
	api_nap(1500);
	assert_int_equal(api->told, 20);
}

/* Who has his turn at once is told nothing. */
TEST(w9_who_never_waited_is_told_nothing)
{
	put("a", STATUS(""));
	begin(PLAN_WAITS("1", "100"));
	assert_true(pod_is_let_go(api, "u1", SOON));
	assert_int_equal(api->told, 0);
}

/* Pods that wait, more than are written on side by side. */
#define MANY 48

static void put_many(const char *plan, bool kueue)
{
	char name[16], uid[16];

	for (unsigned i = 0; i < MANY; i++) {
		(void)snprintf(name, sizeof(name), "w%u", i % MANY);
		(void)snprintf(uid, sizeof(uid), "u%u", i % MANY);
		pod_put_waiting(api, name, uid, plan, 30);
		if (kueue)
			pod_kueue(api, uid);
	}
	api->patch_ms = 1000;
	claims_api_run(api);
}

static unsigned counted(const unsigned *n)
{
	unsigned now;

	api_lock(api->api);
	now = *n;
	api_unlock(api->api);
	return now;
}

/* A leader is told to end while it writes on pods: what is on its way is written, and what may have
 * begun meanwhile. */
static void ends_soon(const unsigned *written)
{
	for (int i = 0; counted(written) == 0 && i < 4 * SOON / 5; i++)
		api_nap(5);
	assert_true(counted(written) > 0);
	claims_api_end_leader(api);
	assert_true(counted(written) < MANY);
}

TEST(w3_who_ends_lets_nobody_go)
{
	put("a", STATUS(""));
	put_many(PLAN_WAITS("1", "4"), false);
	ends_soon(&api->places);
}

TEST(w7_who_ends_marks_nobody)
{
	put_full();
	put_many(PLAN_WAITS("1", "100"), true);
	ends_soon(&api->marked);
}

#define OF_TWO(more, gpu) CLAIM_WITH("u1", "w", "bound", "bb", "'b','c'", more, HOLDS(gpu, WHOLE))

/* While a leader takes back what looks like halves another one calls the claim whole, and may have
 * let the pod go: what is not as it was seen stays. */
TEST(r19_whole_since_it_was_seen)
{
	put("a", STATUS(CLAIM_ON("u1", "w", "bound", "'a','z'", "gpu-0", WHOLE)));
	put("b", STATUS(OF_TWO("'open':true,", "gpu-0")));
	put("c", STATUS(OF_TWO("", "gpu-0")));
	pod_put_waiting(api, "w", "u1", PLAN_WAITS("2", "100"), 30);
	api->pool->rival_on = "b";
	api->pool->rival = STATUS(OF_TWO("", "gpu-0"));
	api->pool->rival_before = "\"name\":\"a\"";
	claims_api_run(api);
	assert_true(pod_is_let_go(api, "u1", SOON));
	assert_true(status_has(api, "b", OF_TWO("", "gpu-0"), 0));
	assert_false(status_has(api, "a", "'u1'", 0));
}

TESTS_BETWEEN(claims_api_begin, claims_api_end, w3_who_finds_room_starts_at_once,
	w3_who_is_not_as_the_watch_shows_him, w2_who_finds_none_waits, w5_in_order_of_age,
	w5_whose_namespace_holds_less, w5_whose_namespace_holds_less_elsewhere, w7_another_gate,
	w7_since_kueue_let_it_go, w7_who_starts_is_not_marked, w3_a_leader_dies_behind_the_claim,
	w9_what_nobody_takes_is_told_again, r16_a_claim_that_a_restore_has_taken,
	w3_a_leader_dies_in_the_claim, w5_who_is_being_deleted,
	w3_half_a_claim_that_nobody_can_take_back, r19_two_leaders_in_one_claim, w3_two_claims,
	w3_two_claims_and_a_place, w3_a_server_that_takes_nothing, w6_what_frees_up_is_kept,
	w5_more_than_a_round_lets_go, w6_what_another_leader_keeps_is_met,
	w6_kept_from_its_moment_on, w6_a_review_takes_what_lies_beside,
	w6_another_leader_keeps_for_another, w6_who_has_gone_keeps_nothing,
	w7_where_no_age_may_be_written, w3_who_is_behind_its_gate_again_is_not_adopted,
	w9_a_pod_says_why, w9_an_api_server_that_is_away_for_a_moment,
	w9_where_no_condition_may_be_written, w9_many_are_told, w9_who_never_waited_is_told_nothing,
	w3_who_ends_lets_nobody_go, w7_who_ends_marks_nobody, r19_whole_since_it_was_seen)
