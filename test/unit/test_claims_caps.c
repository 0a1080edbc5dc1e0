/* SPDX-License-Identifier: Apache-2.0 */
/* test: what the leader gives to pods whose policy has caps: in the order of the queue (W5), and
 * without asking for each that a cap is full. */
#include "test/unit/claims_api.h"
#include "test/unit/kube_store.h"
#include "test/unit/test.h"
#include "webhook/cluster/claims/policy_caps.h"

#define SMALL "/apis/poolgate.io/v1alpha1/gpupolicies/small"

static struct kube_store *store;
static struct kube_config config;
static struct kube *kube;
static struct policy small = {
	.name = "small", .gpus = 18, .bytes = UINT64_MAX, .waiting = UINT32_MAX, .share = 100};

static int of(void *ctx, struct slice namespace, struct arena *a, const struct policy **ret,
	struct err *err)
{
	(void)ctx, (void)namespace, (void)a, (void)err;
	*ret = &small;
	return 0;
}

static const struct policy_source source = {NULL, of};
static const struct policy none = {.name = "none",
	.gpus = UINT32_MAX,
	.bytes = UINT64_MAX,
	.waiting = UINT32_MAX,
	.share = 100};

/* A namespace has to pick one, and has picked none. */
static int of_nobody(void *ctx, struct slice namespace, struct arena *a, const struct policy **ret,
	struct err *err)
{
	(void)ctx, (void)namespace, (void)a, (void)ret;
	return policy_required(err);
}

#define BOUND_TO(policy, model)                                                                    \
	{                                                                                          \
		.name = (policy), .gpus = UINT32_MAX, .bytes = UINT64_MAX, .waiting = UINT32_MAX,  \
		.share = 100, .models = (model), .n_models = 1                                     \
	}

static const char *dear[] = {"A100"}, *cheap[] = {"V100"};
static const struct policy strict = BOUND_TO("strict", dear), loose = BOUND_TO("loose", cheap);

/* Of the namespaces m is free of what n and z are bound to, each to another model. */
static int of_each(void *ctx, struct slice namespace, struct arena *a, const struct policy **ret,
	struct err *err)
{
	(void)ctx, (void)a, (void)err;
	*ret = slice_is(namespace, "m") ? &none : slice_is(namespace, "z") ? &loose : &strict;
	return 0;
}

FIXTURE(set_up)
{
	struct err err = {0};

	api = claims_api_new();
	store = kube_store_start();
	kube_store_policy(store, "small", "{'allow':{'gpus':18}}");
	api_config(kube_store_api(store), &config);
	assert_int_equal(kube_new(&config, &kube, NULL), 0);
	api->cfg.policies = &source;
	api->cfg.accounts = accounts_new(kube, api->pool->servers, &api->pool->log, &err);
	assert_non_null(api->cfg.accounts);
	return 0;
}

FIXTURE(tear_down)
{
	struct accounts *accounts = api->cfg.accounts;

	claims_api_end_leader(api);
	accounts_free(accounts);
	claims_api_free(api);
	kube_free(kube);
	kube_store_stop(store);
	return 0;
}

#define SPEC_B "{'address':'10.0.0.2:56001','gpus':[{'model':'V100','memory':'16G','count':2}]}"
#define SOME "800000000"

/* The cap leaves sixteen GPUs: the oldest has one, though its server is the last by name. */
TEST(w5_the_oldest_has_what_a_cap_leaves)
{
	pool_api_put(api->pool, "a", OURS, SPEC,
		STATUS(CLAIM_ON("x1", "x", "bound", "'a'", "gpu-0", SOME) "," CLAIM_ON(
			"x2", "y", "bound", "'a'", "gpu-1", SOME)));
	pool_api_put(api->pool, "b", OURS, SPEC_B, STATUS(""));
	pod_put(api, "x", "x1", NULL);
	pod_put(api, "y", "x2", NULL);
	for (int i = 0; i < 18; i++) {
		char name[] = {'y', (char)('a' + i), 0}, uid[] = {'u', (char)('a' + i), 0};

		pod_put_waiting(api, name, uid, PLAN_WAITS("1", "10"), 30);
	}
	pod_put_waiting(api, "old", "w1", PLAN_WAITS("1", "100"), 10);
	claims_api_run(api);
	assert_true(pod_is_let_go(api, "w1", SOON));
	assert_true(status_has(api, "b", "'w1'", 0));
}

/* A cap is full, as is seen when it is asked for: what was decided for the others behind it is not
 * kept for a moment, time and again. */
TEST(w6_a_full_cap_is_not_kept_behind)
{
	unsigned puts;

	api->cfg.reserve_ms = 1;
	kube_store_policy(store, "small", "{'allow':{'gpus':1}}");
	pool_api_put(api->pool, "a", OURS, SPEC,
		STATUS(CLAIM_ON("x1", "x", "bound", "'a'", "gpu-0", WHOLE)));
	pod_put(api, "x", "x1", NULL);
	pod_put_waiting(api, "one", "u2", PLAN_WAITS("1", "100"), 30);
	pod_put_waiting(api, "big", "u1", PLAN_WAITS("2", "100"), 31);
	claims_api_run(api);
	assert_false(pod_is_let_go(api, "u2", 2000));
	puts = api->pool->puts;
	assert_false(pod_is_let_go(api, "u2", 4000));
	assert_in_range(api->pool->puts - puts, 0, 1);
	assert_false(status_has(api, "a", "'kept'", 0));
}

/* Of what the pods of a full policy wait for, others are kept from nothing: also while nobody of it
 * is small enough to be refused, and though its pod is the oldest. */
TEST(w6_nothing_is_kept_for_whom_a_cap_bars)
{
	api->cfg.reserve_ms = 1;
	kube_store_policy(store, "small", "{'allow':{'gpus':2}}");
	small.gpus = 2;
	pool_api_put(api->pool, "a", OURS, SPEC,
		STATUS(CLAIM_ON("x1", "x", "bound", "'a'", "gpu-0", WHOLE)));
	pod_put(api, "x", "x1", NULL);
	pod_put_waiting(api, "big", "u1", PLAN_WAITS("2", "100"), 29);
	claims_api_run(api);
	assert_false(pod_is_let_go(api, "u1", 1500));
	assert_true(pod_is_told(api, "u1", "spec.allow.gpus", SOON));
	assert_false(status_has(api, "a", "'kept'", 0));
	pod_gone(api, "x1");
	assert_true(pod_is_let_go(api, "u1", SOON));
	small.gpus = 18;
}

#define APP(name, amount, of)                                                                      \
	"{'name':'" name "','kind':'app','amount':" amount "," of                                  \
	",'units':100,'command':'wrapped','argv':7}"
#define WAITS(containers)                                                                          \
	"{'v':1,'profile':'p','hash':'0123456789abcdef','mode':'full','waits':true,'containers':"  \
	"[" containers "]}"
#define NONE_GPUS UINT32_MAX
#define NONE_BYTES UINT64_MAX
#define GB UINT64_C(1000000000)

/* One of four GPUs, of 16 GB, is held, and one pod waits. Whom the caps bar for sure nobody asks
 * the account about; who may pass is counted there. */
static const struct {
	const char *what, *spec, *plan;
	uint32_t gpus;
	uint64_t bytes;
	const char *told; /* NULL: it has its turn */
	bool asked;
} bars[] = {
	{"as many as are left", "{'allow':{'gpus':3}}", WAITS(APP("a", "2", "'percent':10")), 3,
		NONE_BYTES, NULL, true},
	{"one more", "{'allow':{'gpus':2}}", WAITS(APP("a", "2", "'percent':10")), 2, NONE_BYTES,
		"spec.allow.gpus), of which they hold 1 (n 1), and the pod takes 2", false},
	{"two containers may share one", "{'allow':{'gpus':2}}",
		WAITS(APP("a", "1", "'percent':10") "," APP("b", "1", "'percent':10")), 2,
		NONE_BYTES, NULL, true},
	{"the larger of two", "{'allow':{'gpus':2}}",
		WAITS(APP("a", "2", "'percent':10") "," APP("b", "1", "'percent':10")), 2,
		NONE_BYTES, "and the pod takes 2", false},
	{"memory that is left", "{'allow':{'memory':'20000M'}}",
		WAITS(APP("a", "2", "'memoryMB':2000")), NONE_GPUS, 20 * GB, NULL, true},
	{"memory of each GPU", "{'allow':{'memory':'20000M'}}",
		WAITS(APP("a", "2", "'memoryMB':2001")), NONE_GPUS, 20 * GB,
		"spec.allow.memory), of which they hold 16000 (n 16000 MB), and the pod takes 4002",
		false},
	{"memory of both containers", "{'allow':{'memory':'20000M'}}",
		WAITS(APP("a", "1", "'memoryMB':2000") "," APP("b", "1", "'memoryMB':2001")),
		NONE_GPUS, 20 * GB, "and the pod takes 4001", false},
	{"a percentage where none is left", "{'allow':{'memory':'16000M'}}",
		WAITS(APP("a", "1", "'percent':1")), NONE_GPUS, 16 * GB, "spec.allow.memory",
		false},
	{"a percentage of what is not known", "{'allow':{'memory':'16001M'}}",
		WAITS(APP("a", "1", "'percent':1")), NONE_GPUS, 16 * GB + GB / 1000,
		"spec.allow.memory", true},
};

static void begin_with_one_held(void)
{
	pool_api_put(api->pool, "a", OURS,
		"{'address':'10.0.0.1:56001','gpus':[{'model':'V100','memory':'16G','count':4}]}",
		"{'version':1,'gpus':[" GPU("gpu-0") "," GPU("gpu-1") "," GPU("gpu-2") "," GPU(
			"gpu-3") "],'claims':[" CLAIM_ON("x1", "x", "bound", "'a'", "gpu-0",
			WHOLE) "]}");
	pod_put(api, "x", "x1", NULL);
}

TEST(p6_who_is_barred_is_barred_for_sure)
{
	const struct policy before = small;

	begin_with_one_held();
	claims_api_run(api);
	for (size_t i = 0; i < COUNT(bars); i++) {
		char uid[] = {'u', (char)('0' + i), 0}, name[] = {'p', (char)('0' + i), 0};
		size_t asked = api_seen_of(kube_store_api(store), "GET", SMALL);

		print_message("%s\n", bars[i].what);
		kube_store_policy(store, "small", bars[i].spec);
		small.gpus = bars[i].gpus;
		small.bytes = bars[i].bytes;
		pod_put_waiting(api, name, uid, bars[i].plan, 30);
		if (bars[i].told)
			assert_true(pod_is_told(api, uid, bars[i].told, SOON));
		else
			assert_true(pod_is_let_go(api, uid, SOON));
		assert_int_equal(
			api_seen_of(kube_store_api(store), "GET", SMALL) > asked, bars[i].asked);
		pod_gone(api, uid);
		assert_true(status_has_not(api, "a", uid, SOON));
	}
	small = before;
}

/* What another namespace of the policy holds counts, where its pods wait, too. */
TEST(p6_namespaces_of_a_policy_are_barred_together)
{
	begin_with_one_held();
	kube_store_policy(store, "small", "{'allow':{'gpus':2}}");
	small.gpus = 2;
	pod_put_waiting(api, "p1", "u1", PLAN_WAITS("3", "10"), 30);
	pod_put_waiting(api, "p2", "u2", PLAN_WAITS("2", "10"), 31);
	pod_namespace(api, "u2", 'm');
	claims_api_run(api);
	assert_true(pod_is_told(api, "u1", "(n 1), and the pod takes 3", SOON));
	assert_true(pod_is_told(api, "u2", "(n 1), and the pod takes 2", SOON));
	assert_int_equal(api_seen_of(kube_store_api(store), "GET", SMALL), 0);
	small.gpus = 18;
}

/* They ask alike, and what is no room for one by its policy is room for the other by its own. */
TEST(p1_who_asks_alike_under_another_policy)
{
	static const struct policy_source each = {NULL, of_each};

	api->cfg.policies = &each;
	pool_api_put(api->pool, "a", OURS, SPEC, STATUS(""));
	pod_put_waiting(api, "bound", "u1", PLAN_WAITS("1", "100"), 10);
	pod_put_waiting(api, "free", "u2", PLAN_WAITS("1", "100"), 20);
	pod_namespace(api, "u2", 'm');
	pod_put_waiting(api, "loose", "u3", PLAN_WAITS("1", "100"), 30);
	pod_namespace(api, "u3", 'z');
	claims_api_run(api);
	assert_true(pod_is_let_go(api, "u2", SOON));
	assert_true(pod_is_let_go(api, "u3", SOON));
	assert_false(pod_is_let_go(api, "u1", 0));
	assert_true(pod_is_told(api, "u1", "the GPUPolicy strict does not allow", SOON));
}

static int raise_of(struct policy_caps *c, size_t n, bool forced, uint64_t *ret_take)
{
	struct account_ask ask = {.uid = "u1",
		.namespace = "n",
		.take = accounts_new_take(),
		.wants = {.gpus = n, .bytes = 1},
		.forced = forced,
		.at_once = true};
	struct err err = {0};

	return policy_caps_raise(c, &ask, ret_take, &err);
}

/* A pod that runs is given what it uses also where its namespace would have to pick a policy: it is
 * counted in nobody's account. One that waits is not. */
TEST(p6_who_runs_needs_no_policy)
{
	static const struct policy_source nobody = {NULL, of_nobody};
	struct policy_caps caps;
	uint64_t take[2] = {7, 7};
	int rc[2];

	pool_api_log(api->pool);
	pool_api_put(api->pool, "a", OURS, SPEC, STATUS(""));
	claims_api_run(api);
	policy_caps_init(&caps, &nobody, api->cfg.accounts, &api->pool->log);
	for (size_t i = 0; i < 2; i++)
		rc[i] = raise_of(&caps, 1, i == 0, &take[i]);
	policy_caps_release(&caps);
	assert_int_equal(rc[0], 0);
	assert_int_equal(rc[1], ERR_REFUSED);
	assert_int_equal(take[0], 0);
	assert_int_equal(take[1], 0);
	/* and nothing is wrong with that */
	assert_int_equal(pool_api_logged(api->pool, "in no account yet"), 0);
	assert_int_equal(api_seen_of(kube_store_api(store), "GET", SMALL), 0);
}

static int raise_gpus(struct policy_caps *c, size_t n)
{
	uint64_t take;

	return raise_of(c, n, false, &take);
}

/* Who asks no less than one that was refused a moment ago is refused by what that was told. */
TEST(a_full_cap_is_asked_for_once)
{
	struct policy_caps caps;
	size_t asked;

	pool_api_put(api->pool, "a", OURS, SPEC, STATUS(""));
	claims_api_run(api);
	policy_caps_init(&caps, api->cfg.policies, api->cfg.accounts, &api->pool->log);
	kube_store_policy(store, "small", "{'allow':{'gpus':3}}");
	assert_int_equal(raise_gpus(&caps, 4), ERR_REFUSED);
	asked = api_seen_of(kube_store_api(store), "GET", SMALL);
	assert_int_equal(raise_gpus(&caps, 4), ERR_REFUSED);
	assert_int_equal(raise_gpus(&caps, 5), ERR_REFUSED);
	assert_int_equal(api_seen_of(kube_store_api(store), "GET", SMALL), asked);
	assert_int_equal(raise_gpus(&caps, 3), 0);
	policy_caps_release(&caps);
}

TESTS_BETWEEN(set_up, tear_down, w5_the_oldest_has_what_a_cap_leaves,
	w6_a_full_cap_is_not_kept_behind, w6_nothing_is_kept_for_whom_a_cap_bars,
	p6_who_is_barred_is_barred_for_sure, p6_namespaces_of_a_policy_are_barred_together,
	p1_who_asks_alike_under_another_policy, p6_who_runs_needs_no_policy,
	a_full_cap_is_asked_for_once)
