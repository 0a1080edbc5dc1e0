/* SPDX-License-Identifier: Apache-2.0 */
/* test: pods whose claims stand and that no node takes: they are told, and where the setting says
 * so evicted. */
#include "test/unit/claims_api.h"
#include "test/unit/test.h"

FIXTURE(set_up)
{
	api = claims_api_new();
	pool_api_put(api->pool, "a", OURS, SPEC,
		STATUS(CLAIM("u1", "w", "bound") "," CLAIM("u2", "x", "bound")));
	api->cfg.unplaced_ms = 300;
	api->cfg.evict_again_ms = 300;
	pod_put(api, "x", "u2", NULL);
	return 0;
}

#define SAYS(reason, message)                                                                      \
	"Pending\",\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\",\"reason\":"    \
	"\"" reason "\",\"message\":\"" message "\"}],\"x\":\""
#define NO_NODE SAYS("Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.")
#define BY(api, kind, name)                                                                        \
	"{\"apiVersion\":\"" api "\",\"kind\":\"" kind "\",\"name\":\"" name                       \
	"\",\"uid\":\"o1\",\"controller\":true}"
#define SET BY("apps/v1", "ReplicaSet", "o")
#define JOBS(name) BY("batch/v1", "Job", name)
#define EVICTION "/api/v1/namespaces/n/pods/w/eviction"
#define PULLS                                                                                      \
	"Pending\",\"containerStatuses\":[{\"state\":{\"waiting\":{\"reason\":"                    \
	"\"ImagePullBackOff\"}}}],\"x\":\""
#define JOB(uid, rules)                                                                            \
	"{\"metadata\":{\"name\":\"j\",\"uid\":\"" uid                                             \
	"\"},\"spec\":{\"podFailurePolicy\":{\"rules\":[" rules "]}}}"
#define RULE(action)                                                                               \
	"{\"action\":\"" action "\",\"onPodConditions\":[{\"type\":\"DisruptionTarget\"}]}"

/* The pod `w`, of which the scheduler says that; a leader that evicts. */
static void run(const char *owner, const char *phase)
{
	pod_put(api, "w", "u1", NULL);
	pod_owner(api, "u1", owner);
	pod_phase(api, "u1", phase);
	api->cfg.evict_ms = 600;
	claims_api_run(api);
}

static int64_t evictions(enum metric_evict result)
{
	return metric_value(api->pool->metrics, M_EVICTIONS, result, 0);
}

static bool wait_event(const char *text)
{
	for (int i = 0; i < SOON / 10 && pod_events(api, text) == 0; i++)
		api_nap(10);
	return pod_events(api, text) > 0;
}

static size_t tries(void)
{
	return api_seen_of(api->api, "POST", EVICTION);
}

/* With the lock held. */
static struct pods_api_pod *pod_of(struct claims_api *c, const char *uid)
{
	size_t i = 0;

	while (!c->pod[i].there || strcmp(c->pod[i].uid, uid) != 0)
		assert_true(++i < PODS_API_MAX);
	return &c->pod[i];
}

/* As shipped nobody is evicted: it is told, once, in the scheduler's own words, and counted. */
TEST(it_is_told)
{
	pod_put(api, "w", "u1", NULL);
	pod_owner(api, "u1", SET);
	pod_phase(api, "u1", NO_NODE);
	claims_api_run(api);
	assert_true(wait_event(
		"claimed, waits for a node: 0/3 nodes are available: 3 Insufficient cpu."));
	assert_int_equal(metric_value(api->pool->metrics, M_UNSTARTED, WHY_UNSCHEDULABLE, 0), 1);
	assert_true(status_has(api, "a", "'waits':'Unschedulable'", SOON));
	assert_true(status_keeps(api, "a", "'u1'", 700));
	assert_int_equal(pod_events(api, "WaitsForNode"), 1);
	assert_int_equal(pod_events(api, ""), 1);
	assert_int_equal(tries(), 0);
	/* a node comes */
	pod_place(api, "u1");
	pod_phase(api, "u1", "Running");
	assert_true(status_has_not(api, "a", "'waits'", SOON));
	assert_int_equal(metric_value(api->pool->metrics, M_UNSTARTED, WHY_UNSCHEDULABLE, 0), 0);
}

/* What it waited for without a claim, here for its turn, does not count. */
TEST(waiting_for_its_turn_is_no_waiting_for_a_node)
{
	int64_t free_ms;

	status_put(api, "a",
		STATUS(CLAIM_ON("u2", "x", "bound", "'a'", "gpu-0", WHOLE) "," CLAIM_ON(
			"u5", "y", "bound", "'a'", "gpu-1", WHOLE)));
	pod_put(api, "y", "u5", NULL);
	pod_put_waiting(api, "q", "u3", PLAN_WAITS("1", "100"), 30);
	api->cfg.unstarted_ms = 1000;
	claims_api_run(api);
	assert_false(pod_is_let_go(api, "u3", 1500));
	free_ms = api_now_ms();
	pod_gone(api, "u5");
	assert_true(status_has(api, "a", "'waits':'Pending'", SOON));
	assert_true(api_now_ms() >= free_ms + 1000);
}

static const struct {
	const char *name, *uid, *owner;
	const char *stays; /* and is told why; NULL: it is evicted */
} pods[] = {
	{"set", "p0", SET, NULL},
	{"bare", "p1", NULL, "nobody would make another"},
	{"strange", "p2", BY("kubeflow.org/v1", "PyTorchJob", "o"), "is not known: PyTorchJob"},
	{"counts", "p3", JOBS("counts"), "its Job would count that as a failure"},
	{"ignores", "p4", JOBS("ignores"), NULL},
};

#define N_PODS (sizeof(pods) / sizeof(pods[0]))
#define PART(uid, name) CLAIM_ON(uid, name, "bound", "'a'", "gpu-0", "1000")

/* Evicted is whom a controller replaces without harm, as it was read, and its claim ends. Who would
 * be lost is told so, once, and stays. So do the Jobs' whose Job is gone, or another one by now,
 * and who waits for something else than a node. */
TEST(who_is_evicted_and_who_stays)
{
	const char *body;

	status_put(api, "a",
		STATUS(PART("p0", "set") "," PART("p1", "bare") "," PART("p2", "strange") "," PART(
			"p3", "counts") "," PART("p4", "ignores") "," PART("p5",
			"gone") "," PART("p6", "other") "," PART("p7", "pulls") "," PART("p8",
			"placed")));
	for (size_t i = 0; i < N_PODS; i++) {
		pod_put(api, pods[i].name, pods[i].uid, NULL);
		pod_owner(api, pods[i].uid, pods[i].owner);
		pod_phase(api, pods[i].uid, NO_NODE);
	}
	pod_put(api, "gone", "p5", NULL);
	pod_owner(api, "p5", JOBS("gone"));
	pod_phase(api, "p5", NO_NODE);
	pod_put(api, "other", "p6", NULL);
	pod_owner(api, "p6", JOBS("other"));
	pod_phase(api, "p6", NO_NODE);
	pod_put(api, "pulls", "p7", NULL);
	pod_owner(api, "p7", SET);
	pod_phase(api, "p7", PULLS);
	/* The watch does not tell it: what is read before an eviction counts. */
	pod_put(api, "placed", "p8", NULL);
	pod_owner(api, "p8", SET);
	pod_phase(api, "p8", NO_NODE);
	api_lock(api->api);
	pod_of(api, "p8")->placed = true;
	api_unlock(api->api);
	api->job[0].name = "counts";
	api->job[0].text = JOB("o1", RULE("Count"));
	api->job[1].name = "ignores";
	api->job[1].text = JOB("o1", RULE("Ignore"));
	api->job[2].name = "other";
	api->job[2].text = JOB("o2", RULE("Ignore"));
	api->cfg.evict_ms = 600;
	claims_api_run(api);
	assert_true(status_keeps(api, "a", "'p0'", 300));
	assert_true(status_has_not(api, "a", "'p0'", SOON));
	assert_true(status_has_not(api, "a", "'p4'", SOON));
	for (size_t i = 0; i < N_PODS; i++)
		assert_true(wait_event(pods[i].stays ? pods[i].stays : "EvictedWithoutNode"));
	assert_true(status_keeps(api, "a", "'p1'", 1200));
	assert_true(status_has(api, "a", "'p1','namespace':'n','name':'bare'", 0));
	assert_true(status_has(api, "a", "'p2'", 0));
	assert_true(status_has(api, "a", "'p3'", 0));
	assert_true(status_has(api, "a", "'p5'", 0));
	assert_true(status_has(api, "a", "'p6'", 0));
	assert_true(status_has(api, "a", "'p7'", 0));
	assert_true(status_has(api, "a", "'p8'", 0));
	assert_true(pod_asked(api, "placed") > 0);
	assert_int_equal(pod_events(api, "NotEvicted"), 3);
	assert_int_equal(pod_events(api, "EvictedWithoutNode"), 2);
	assert_int_equal(api->evicted, 2);
	assert_int_equal(evictions(EVICT_DONE), 2);
	assert_int_equal(evictions(EVICT_REFUSED), 0);
	body = api_last(api->api, "POST", "/api/v1/namespaces/n/pods/set/eviction")->body;
	assert_non_null(strstr(body, "{\"apiVersion\":\"policy/v1\",\"kind\":\"Eviction\","
				     "\"metadata\":{\"name\":\"set\",\"namespace\":\"n\"},"));
}

/* It changes between the question and the eviction: 409, and it is read anew. */
static void changes(struct claims_api *c)
{
	pod_of(c, "u1")->version = ++c->version;
}

TEST(it_changes_meanwhile)
{
	api->cfg.unplaced_ms = 60000;
	api->between = changes;
	run(SET, NO_NODE);
	assert_true(status_has_not(api, "a", "'u1'", SOON));
	assert_int_equal(tries(), 2);
	assert_int_equal(evictions(EVICT_LATER), 1);
	assert_int_equal(evictions(EVICT_DONE), 1);
}

/* A PodDisruptionBudget, or an API server that is too busy: later. Without the component's rights:
 * later, too. And somebody else has deleted it: nothing was refused, and nothing is told. */
TEST(it_is_not_taken)
{
	api->evict_status = 429;
	run(SET, NO_NODE);
	assert_true(api_wait(api->api, "POST", EVICTION, 2));
	assert_true(evictions(EVICT_LATER) > 0);
	assert_int_equal(evictions(EVICT_REFUSED), 0);
	evictions_fare(api, 403);
	for (int i = 0; i < SOON / 10 && evictions(EVICT_REFUSED) == 0; i++)
		api_nap(10);
	assert_true(evictions(EVICT_REFUSED) > 0);
	assert_true(status_has(api, "a", "'u1'", 0));
	evictions_fare(api, 404);
	assert_true(api_wait(api->api, "POST", EVICTION, tries() + 2));
	pod_gone(api, "u1");
	assert_true(status_has_not(api, "a", "'u1'", SOON));
	assert_int_equal(evictions(EVICT_DONE), 0);
	assert_int_equal(pod_events(api, "EvictedWithoutNode"), 0);
	assert_int_equal(pod_events(api, "NotEvicted"), 0);
}

TESTS_BETWEEN(set_up, claims_api_end, it_is_told, waiting_for_its_turn_is_no_waiting_for_a_node,
	who_is_evicted_and_who_stays, it_changes_meanwhile, it_is_not_taken)
