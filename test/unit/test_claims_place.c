/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/claims/claims_place, cluster/claims/carrier_gate: pods that wait for their place are told
 * which GPUs their claims hold, and let go, whenever a leader dies (W3). */
#include "test/unit/claims_api.h"
#include "test/unit/test.h"
#include "webhook/cluster/duty/duty.h"

#define PLAN_LATE                                                                                  \
	"{'v':1,'profile':'p','hash':'0123456789abcdef','mode':'full','late':{'values':["          \
	"'servers','gpus'],'granularity':'gpu'},'containers':[{'name':'a','amount':1,'percent':"   \
	"50,'kind':'app','units':100,'command':'wrapped','argv':7,'slot':3}]}"
#define HELD(state) STATUS(CLAIM_ON("u1", "w", state, "'a'", "gpu-1", "8000000000"))

#define SPEC_OF_B "{'address':'10.0.0.2:56001','gpus':[{'model':'V100','memory':'16G','count':2}]}"

static void put(const char *name, const char *status)
{
	pool_api_put(api->pool, name, OURS, SPEC, status);
}

/* Server a with that status, and a pod that waits for its place. */
static void begin(const char *status)
{
	put("a", status);
	pod_put_gated(api, "w", "u1", PLAN_LATE);
	claims_api_run(api);
}

static void must_say(const char *body, const char *text)
{
	if (!strstr(body, text))
		fail_msg("%s\nis not in\n%s", text, body);
}

/* In one patch: for this pod, while the gate stands, what its container reads, and no gate but
 * ours. */
TEST(w3_a_claim_that_stands)
{
	const char *body;

	begin(HELD("pending"));
	assert_true(pod_is_let_go(api, "u1", SOON));
	body = api_last(api->api, "PATCH", POD_OF("w"))->body;
	must_say(body, "{\"op\":\"test\",\"path\":\"/metadata/uid\",\"value\":\"u1\"}");
	must_say(body,
		"\"path\":\"/spec/schedulingGates/1/name\",\"value\":\"poolgate.io/capacity\"}");
	must_say(body, "poolgate.io~1place\",\"value\":\"a/gpu-1\"}");
	must_say(body, "poolgate.io~1place-3.servers\",\"value\":\"10.0.0.1:56001\"}");
	must_say(body, "poolgate.io~1place-3.gpus\",\"value\":\"gpu-1\"}");
	must_say(body, "{\"op\":\"remove\",\"path\":\"/spec/schedulingGates/1\"}]");
	/* and it is bound and ends like any other */
	assert_true(status_has(api, "a", "'state':'bound'", SOON));
	pod_gone(api, "u1");
	assert_true(status_has_not(api, "a", "'u1'", 3000));
	assert_int_equal(api->places, 1);
	assert_int_equal(metric_value(api->pool->metrics, M_PLACES, 0, 0), 1);
}

/* The pod is seen first. */
TEST(w3_a_claim_that_comes_later)
{
	begin(STATUS(""));
	assert_false(pod_is_let_go(api, "u1", LOST_AFTER_MS / 4));
	status_put(api, "a", HELD("pending"));
	assert_true(pod_is_let_go(api, "u1", SOON));
}

/* The claim stands, nothing is written. */
TEST(w3_a_leader_dies_before_the_patch)
{
	places_fare(api, PLACE_NOT_WRITTEN);
	begin(HELD("pending"));
	assert_true(api_wait(api->api, "PATCH", POD_OF("w"), 1));
	assert_false(pod_is_let_go(api, "u1", 0));
	places_fare(api, PLACE_WRITTEN);
	claims_api_next_leader(api);
	assert_true(pod_is_let_go(api, "u1", SOON));
	assert_int_equal(api->places, 1);
	must_say(api_last(api->api, "PATCH", POD_OF("w"))->body, "\"value\":\"a/gpu-1\"}");
}

/* The place is written, and nobody heard. It is not written again. */
TEST(w3_a_leader_dies_behind_the_patch)
{
	places_fare(api, PLACE_NOT_HEARD);
	begin(HELD("pending"));
	assert_true(pod_is_let_go(api, "u1", SOON));
	claims_api_next_leader(api);
	assert_true(status_has(api, "a", "'state':'bound'", SOON));
	assert_true(status_keeps(api, "a", "'u1'", 1500));
	assert_int_equal(api->places, 1);
}

/* A claim over two servers of which one part stands: nobody starts on half of it. */
TEST(w3_half_a_claim)
{
	put("a", STATUS(CLAIM_ON("u1", "w", "pending", "'a','b'", "gpu-1", "8000000000")));
	put("b", STATUS(""));
	pod_put_gated(api, "w", "u1", PLAN_LATE);
	claims_api_run(api);
	assert_false(pod_is_let_go(api, "u1", 4 * LOST_AFTER_MS));
	assert_int_equal(api_seen_of(api->api, "PATCH", POD_OF("w")), 0);
}

/* Nothing of it runs: it is not given GPUs behind its back, and waits for ever if nobody says so.
 */
TEST(w0_a_claim_that_is_lost)
{
	size_t asked;

	begin(STATUS(""));
	assert_true(pod_events_come(api, "ClaimLost", 1));
	asked = api_seen_of(api->api, "GET", POD_OF("w"));
	api_nap(1500);
	/* It is asked about again in a minute. */
	assert_int_equal(api_seen_of(api->api, "GET", POD_OF("w")), asked);
	assert_false(status_has(api, "a", "'u1'", 0));
	assert_false(pod_is_let_go(api, "u1", 0));
	assert_int_equal(pod_events(api, ""), 1);
	assert_int_equal(metric_value(api->pool->metrics, M_ADOPTIONS, 0, 0), 0);
}

/* Without the right to it: it is tried each second. */
TEST(w9_a_place_that_is_not_taken)
{
	size_t tried;

	places_fare(api, PLACE_REFUSED);
	begin(HELD("bound"));
	assert_true(pod_events_come(api, "PlaceNotWritten", 1));
	assert_true(api_wait(api->api, "PATCH", POD_OF("w"), 2));
	tried = api_seen_of(api->api, "PATCH", POD_OF("w"));
	api_nap(1500);
	assert_true(api_seen_of(api->api, "PATCH", POD_OF("w")) - tried <= 6);
	assert_int_equal(pod_events(api, ""), 1);
	places_fare(api, PLACE_WRITTEN);
	assert_true(pod_is_let_go(api, "u1", SOON));
}

/* The patch could not be written; etcd is restored to where nothing was claimed, which the watch of
 * the servers does not tell. Nobody is let go by what has gone (R16). */
TEST(r16_a_claim_that_a_restore_has_taken)
{
	places_fare(api, PLACE_NOT_WRITTEN);
	begin(HELD("bound"));
	assert_true(api_wait(api->api, "PATCH", POD_OF("w"), 1));
	assert_true(status_restored(api, "a", STATUS("")));
	places_fare(api, PLACE_WRITTEN);
	assert_false(pod_is_let_go(api, "u1", 1500));
	status_put(api, "a", HELD("bound"));
	assert_true(pod_is_let_go(api, "u1", SOON));
}

/* What the picture comes to show of a between the look of a round and the place that is read. */
static const char *meanwhile;

static void change_meanwhile(struct claims_api *c)
{
	uint64_t before = servers_version(c->pool->servers, "a");

	status_put(c, "a", meanwhile);
	for (int i = 0; i < 1000 && servers_version(c->pool->servers, "a") == before; i++)
		api_nap(5);
}

#define ON_A(more, servers, gpu)                                                                   \
	CLAIM_WITH("u1", "w", "bound", "aa", servers, more, HOLDS(gpu, "8000000000"))

/* While its pod is read a claim comes to be none that stands: it is opened again, or spans another
 * number of servers than a part of it says, or none of these. The pod is told no place, and nothing
 * is wrong; when it stands it is. */
TEST(w3_a_claim_that_changes_meanwhile)
{
	static const struct {
		const char *before, *b, *then;
	} cases[] = {
		{ON_A("", "'a'", "gpu-1"), "", ON_A("'open':true,", "'a'", "gpu-1")},
		{ON_A("", "'a','b'", "gpu-1"), ON_A("", "'a','b'", "gpu-0"),
			ON_A("", "'a','b','c'", "gpu-1")},
		{ON_A("", "'a','b'", "gpu-1"), ON_A("", "'a','b'", "gpu-0"), ""},
	};
	char status[2][2000], changed[2000];
	size_t asked;

	for (size_t i = 0; i < COUNT(cases); i++) {
		if (i > 0) {
			claims_api_free(api);
			api = claims_api_new();
		}
		(void)snprintf(status[0], sizeof(status[0]), STATUS("%s"), cases[i].before);
		(void)snprintf(status[1], sizeof(status[1]), STATUS("%s"), cases[i].b);
		(void)snprintf(changed, sizeof(changed), STATUS("%s"), cases[i].then);
		put("a", status[0]);
		pool_api_put(api->pool, "b", OURS, SPEC_OF_B, status[1]);
		pod_put_gated(api, "w", "u1", PLAN_LATE);
		meanwhile = changed;
		/* which is tried again a second later */
		places_fare(api, PLACE_NOT_WRITTEN);
		claims_api_run(api);
		assert_true(api_wait(api->api, "PATCH", POD_OF("w"), 1));
		asked = pod_asked(api, "w");
		api_lock(api->api);
		api->between = change_meanwhile;
		api->fate = PLACE_WRITTEN;
		api_unlock(api->api);
		assert_true(api_wait(api->api, "GET", POD_OF("w"), asked + 1));
		api_nap(300);
		assert_int_equal(api_seen_of(api->api, "PATCH", POD_OF("w")), 1);
		assert_int_equal(pod_events(api, "not whole"), 0);
		status_put(api, "a", status[0]);
		assert_true(pod_is_let_go(api, "u1", 2 * SOON));
	}
}

/* Somebody has taken its gate away, and the watch has not told of it: there is nothing to write,
 * and nothing that is wrong. */
TEST(w3_a_gate_that_has_fallen)
{
	put("a", HELD("bound"));
	pod_put_gated(api, "w", "u1", PLAN_LATE);
	api_lock(api->api);
	api->pod[0].gated = false;
	api_unlock(api->api);
	claims_api_run(api);
	assert_true(api_wait(api->api, "GET", POD_OF("w"), 1));
	api_nap(500);
	assert_int_equal(api_seen_of(api->api, "PATCH", POD_OF("w")), 0);
	assert_int_equal(pod_events(api, ""), 0);
	assert_int_equal(metric_value(api->pool->metrics, M_PLACES, 0, 0), 0);
}

/* A successor of the same name is another pod: the claim is not its own. */
TEST(w3_a_successor_of_the_same_name)
{
	put("a", HELD("bound"));
	pod_put_gated(api, "w", "u2", PLAN_LATE);
	claims_api_run(api);
	assert_false(pod_is_let_go(api, "u2", 2 * LOST_AFTER_MS));
	assert_int_equal(api->places, 0);
}

/* It carries our gate, and by its plan nobody was to take it away. */
TEST(w3_a_plan_without_a_late_place)
{
	put("a", HELD("bound"));
	pod_put_gated(api, "w", "u1", PLAN_HALF);
	claims_api_run(api);
	assert_true(pod_events_come(api, "waits for no place", 1));
	assert_false(pod_is_let_go(api, "u1", 0));
}

TESTS_BETWEEN(claims_api_begin, claims_api_end, w3_a_claim_that_stands, w3_a_claim_that_comes_later,
	w3_a_leader_dies_before_the_patch, w3_a_leader_dies_behind_the_patch, w3_half_a_claim,
	w0_a_claim_that_is_lost, w9_a_place_that_is_not_taken, w3_a_gate_that_has_fallen,
	w3_a_claim_that_changes_meanwhile, w3_a_successor_of_the_same_name,
	r16_a_claim_that_a_restore_has_taken, w3_a_plan_without_a_late_place)
