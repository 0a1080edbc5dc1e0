/* SPDX-License-Identifier: Apache-2.0 */
/* test: a policy of the namespace: which pods are injected by it, and how. */
#define _GNU_SOURCE 1 /* memmem */
#include <cjson/cJSON.h>

#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/pod/pod_policy.h"
#include "webhook/core/validate/workload.h"

#define META(more) "'metadata':{'name':'p'" more "}"
#define POD(meta, ask)                                                                             \
	"{" meta ",'spec':{'containers':[{'name':'a','command':['x'],'resources':{'limits':{" ask  \
	"}}}]}}"
#define ONE "'bitfusion.io/gpu-amount':1"

static struct fixture fix;
static struct policy policy;
static unsigned asked; /* how often the source was */

static int source_of(void *ctx, struct slice namespace, struct arena *a, const struct policy **ret,
	struct err *err)
{
	(void)ctx, (void)a;
	asked++;
	if (slice_is(namespace, "gone"))
		return err_reason(err, ERR_REFUSED, "NoPolicy", "the policy \"x\" does not exist");
	*ret = slice_is(namespace, "ml") ? &policy : NULL;
	return 0;
}

static const struct policy_source source = {NULL, source_of};

FIXTURE(set_up)
{
	fixture_init(&fix);
	policy = (struct policy){.name = "research",
		.inject = true,
		.share = 100,
		.os = "ubuntu18",
		.version = "400",
		.gpus = UINT32_MAX,
		.waiting = UINT32_MAX,
		.bytes = UINT64_MAX};
	fix.world.policies = &source;
	asked = 0;
	return 0;
}

FIXTURE(tear_down)
{
	fixture_release(&fix);
	return 0;
}

static int mutate_in(const char *namespace, const char *text)
{
	const struct json_node *pod = fixture_pod(&fix, text);

	buf_clear(&fix.patch);
	return mutate_create(&fix.world, &fix.json, pod, slice_of(namespace), &fix.scratch,
		&fix.patch, &fix.mutation, &fix.err);
}

static int validate_in(const char *namespace, const char *text)
{
	const struct json_node *pod = fixture_pod(&fix, text);

	return validate_create(&fix.world, &fix.json, pod, slice_of(namespace), &fix.scratch,
		&fix.validation, &fix.err);
}

TEST(test_injected_without_annotation)
{
	char *pod = fixture_inject(&fix, POD(META(), ONE));

	assert_true(fix.mutation.patched);
	assert_ptr_equal(fix.mutation.policy, &policy);
	assert_true(fix.mutation.plan.full);
	assert_true(slice_is(fix.mutation.plan.os, "ubuntu18"));
	assert_int_equal(fix.mutation.plan.containers[0].percent, 100);
	assert_int_equal(fixture_validate(&fix, pod), 0);
	assert_true(fix.validation.claims);
	free(pod);
}

/* Any word of the pod's own wins, and then its policy is not even looked up. */
TEST(test_own_word)
{
	static const char *const off[] = {"off", "false", "", "no", "of"};
	char text[400];

	for (size_t i = 0; i < COUNT(off); i++) {
		snprintf(text, sizeof(text),
			POD(META(",'annotations':{'auto-management/bitfusion':'%s'}"), ONE),
			off[i]);
		assert_int_equal(mutate_in("gone", text), 0);
		assert_false(fix.mutation.patched);
		assert_string_equal(fix.mutation.why_not, "switch off");
		assert_int_equal(validate_in("gone", text), 0);
	}
	assert_int_equal(asked, 0);
	policy.inject = false;
	assert_int_equal(
		mutate_in(
			"ml", POD(META(",'annotations':{'auto-management/bitfusion':'on'}"), ONE)),
		0);
	assert_true(fix.mutation.patched);
	assert_int_equal(mutate_in("ml", POD(META(), ONE)), 0);
	assert_false(fix.mutation.patched);
}

TEST(test_of_no_concern)
{
	/* nothing is asked; another namespace; no policy of its own */
	assert_int_equal(mutate_in("gone", POD(META(), "'cpu':1")), 0);
	assert_int_equal(validate_in("gone", POD(META(), "'cpu':1")), 0);
	assert_int_equal(mutate_in("kube-system", POD(META(), ONE)), 0);
	assert_int_equal(asked, 0);
	assert_int_equal(mutate_in("other", POD(META(), ONE)), 0);
	assert_false(fix.mutation.patched);
	assert_int_equal(asked, 1);
}

TEST(test_no_policy)
{
	static const char *const pods[] = {POD(META(), ONE),
		POD(META(",'annotations':{'auto-management/bitfusion':'on'}"), ONE)};

	for (size_t i = 0; i < COUNT(pods); i++) {
		assert_int_equal(mutate_in("gone", pods[i]), ERR_REFUSED);
		assert_string_equal(fix.err.reason, "NoPolicy");
		assert_int_equal(validate_in("gone", pods[i]), ERR_REFUSED);
		assert_string_equal(fix.err.reason, "NoPolicy");
	}
}

TEST(test_defaults)
{
	policy.launcher = "juice";
	assert_int_equal(mutate_in("ml", POD(META(), ONE)), 0);
	assert_true(slice_is(fix.mutation.plan.profile, "juice"));
	policy.launcher = NULL;
	policy.percent = 25;
	assert_int_equal(mutate_in("ml", POD(META(), "'bitfusion.io/gpu-amount':2")), 0);
	assert_int_equal(fix.mutation.plan.containers[0].percent, 25);
	assert_int_equal(fix.mutation.plan.containers[0].units, 50);
	/* its own words win, one by one */
	policy.launcher = "juice";
	assert_int_equal(
		mutate_in("ml", POD(META(",'annotations':{'poolgate.io/launcher':'bitfusion'}"),
					ONE ",'bitfusion.io/gpu-percent':60")),
		0);
	assert_true(slice_is(fix.mutation.plan.profile, "bitfusion"));
	assert_int_equal(fix.mutation.plan.containers[0].percent, 60);
	assert_int_equal(
		mutate_in("ml", POD(META(",'annotations':{'poolgate.io/launcher':'bitfusion'}"),
					ONE ",'bitfusion.io/gpu-memory':'4G'")),
		0);
	assert_int_equal(fix.mutation.plan.containers[0].memory_mb, 4000);
	assert_int_equal(fix.mutation.plan.containers[0].percent, 0);
	policy.launcher = "nobody";
	assert_int_equal(mutate_in("ml", POD(META(), ONE)), ERR_REFUSED);
	assert_string_equal(fix.err.reason, "NoLauncher");
	assert_non_null(strstr(fix.err.msg, "research"));
	assert_non_null(strstr(fix.err.msg, "nobody"));
}

TEST(test_when_full)
{
	fix.config.late_place = true;
	policy.when_full = "wait";
	assert_int_equal(mutate_in("ml", POD(META(), ONE)), 0);
	assert_true(fix.mutation.plan.waits);
	assert_int_equal(
		mutate_in(
			"ml", POD(META(",'annotations':{'poolgate.io/when-full':'refuse'}"), ONE)),
		0);
	assert_false(fix.mutation.plan.waits);
	fix.config.when_full = WHEN_FULL_WAIT;
	policy.when_full = "refuse";
	assert_int_equal(mutate_in("ml", POD(META(), ONE)), 0);
	assert_false(fix.mutation.plan.waits);
}

/* What had no annotations, or no metadata, has none again. */
TEST(test_taken_back)
{
	static const char *const pods[] = {POD(META(), ONE),
		"{'spec':{'containers':[{'name':'a',"
		"'command':['x'],'resources':{'limits':{" ONE "}}}]}}",
		POD(META(",'annotations':{}"), ONE),
		POD(META(",'annotations':{'a':'b'},'labels':{'c':'d'}"), ONE)};

	for (size_t i = 0; i < COUNT(pods); i++) {
		char *pod = fixture_inject(&fix, pods[i]), *undone = fixture_undo(&fix, pod);

		fixture_same(i, "undone", undone, pods[i]);
		free(undone);
		free(pod);
	}
}

/* What somebody else has written into what was made for ours stays, and what holds it. */
TEST(test_taken_back_beside_others)
{
	static const struct {
		const char *ops, *left, *gone;
	} rows[] = {
		{"[{'op':'add','path':'/metadata/annotations/x','value':'y'}]",
			"\"annotations\":{\"x\":\"y\"}", "\"labels\""},
		{"[{'op':'add','path':'/metadata/labels/x','value':'y'}]",
			"\"labels\":{\"x\":\"y\"}", "\"annotations\""},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		char *pod = fixture_inject(&fix, POD(META(), ONE));
		char *both = fixture_change(pod, rows[i].ops), *undone = fixture_undo(&fix, both);
		cJSON *tree;
		char *text;

		tree = cJSON_Parse(undone);
		text = cJSON_PrintUnformatted(tree);
		if (!strstr(text, rows[i].left) || strstr(text, rows[i].gone))
			fail_msg("row %zu: %s", i, text);
		cJSON_Delete(tree);
		free(text);
		free(undone);
		free(both);
		free(pod);
	}
}

/* A second round of hooks, and the user's manifest applied again, go by the plan alone: the policy
 * may have changed, or the label may be off. */
TEST(test_by_the_plan_alone)
{
	static const char manifest[] = POD(META(), ONE);
	char *pod, *both;

	policy.percent = 25;
	pod = fixture_inject(&fix, manifest);
	both = fixture_change(pod, "[{'op':'add','path':'/spec/containers/0/resources/limits/"
				   "bitfusion.io~1gpu-amount','value':1}]");
	policy.percent = 50;
	assert_int_equal(fixture_mutate(&fix, both), 0);
	assert_int_equal(fix.mutation.plan.containers[0].percent, 25);
	fix.world.policies = NULL;
	assert_int_equal(fixture_update(&fix, &fix.config, pod, both), 0);
	assert_true(fix.mutation.patched);
	free(both);
	free(pod);
}

/* What the user did say cannot be left out later. */
TEST(test_a_share_that_was_said_stays)
{
	static const char manifest[] = POD(META(), ONE ",'bitfusion.io/gpu-percent':25");
	char *pod = fixture_inject(&fix, manifest), *both;

	both = fixture_change(pod, "[{'op':'add','path':'/spec/containers/0/resources/limits/"
				   "bitfusion.io~1gpu-amount','value':1}]");
	assert_int_equal(fixture_mutate(&fix, both), ERR_REFUSED);
	assert_string_equal(fix.err.reason, "RequestChanged");
	free(both);
	free(pod);
}

TEST(test_unconverted)
{
	assert_int_equal(validate_in("ml", POD(META(), ONE)), ERR_REFUSED);
	assert_string_equal(fix.err.reason, "NotInjected");
	policy.local_on_outage = true;
	assert_int_equal(validate_in("ml", POD(META(), ONE)), 0);
	assert_true(fix.validation.local);
	assert_false(fix.validation.claims);
	assert_true(fix.validation.warnings.n > 0);
	/* who said it himself wants no other GPU */
	assert_int_equal(
		validate_in(
			"ml", POD(META(",'annotations':{'auto-management/bitfusion':'on'}"), ONE)),
		ERR_REFUSED);
	assert_string_equal(fix.err.reason, "NotInjected");
	assert_false(fix.validation.local);
	/* outside of the share nothing was to be converted */
	policy.share = 0;
	assert_int_equal(validate_in("ml", POD(META(), ONE)), 0);
	assert_false(fix.validation.local);
}

/* ---- shares ---- */

static bool among(uint32_t share, const char *text)
{
	struct pod p;

	pod_glance(&fix.json, fixture_pod(&fix, text), &p);
	return pod_policy_shares(&p, SLICE("ml"), share, &fix.scratch);
}

/* The least share that a pod is among. */
static uint32_t least(const char *text)
{
	uint32_t share = 0;

	while (share < 100 && !among(share, text))
		share++;
	for (uint32_t more = share; more <= 100; more++)
		assert_true(among(more, text));
	return share;
}

#define OWNED(kind, owner, labels)                                                                 \
	"{'metadata':{'generateName':'g-','labels':{" labels "},'ownerReferences':[{'controller':" \
	"true,'kind':'" kind "','name':'" owner "','uid':'u'}]},'spec':{}}"

TEST(test_one_group_one_answer)
{
	/* each row: two pods of one group */
	static const char *const pairs[][2] = {
		{OWNED("Job", "train", ""), OWNED("Job", "train", "'x':'y'")},
		{OWNED("ReplicaSet", "web-5d4c", "'pod-template-hash':'5d4c'"),
			OWNED("ReplicaSet", "web-77aa", "'pod-template-hash':'77aa'")},
		{OWNED("Job", "js-a-0", "'jobset.sigs.k8s.io/jobset-uid':'17'"),
			OWNED("Job", "js-b-1", "'jobset.sigs.k8s.io/jobset-uid':'17'")},
		{OWNED("StatefulSet", "l", "'leaderworkerset.sigs.k8s.io/name':'l'"),
			OWNED("StatefulSet", "l-0",
				"'leaderworkerset.sigs.k8s.io/name':'l',"
				"'leaderworkerset.sigs.k8s.io/group-key':'k'")},
		{OWNED("Job", "a", "'kueue.x-k8s.io/pod-group-name':'g'"),
			OWNED("Job", "b", "'kueue.x-k8s.io/pod-group-name':'g'")},
		{"{'metadata':{'name':'a','annotations':{'poolgate.io/gang':'g'}},'spec':{}}",
			"{'metadata':{'name':'b','annotations':{'poolgate.io/gang':'g'},"
			"'labels':{'jobset.sigs.k8s.io/jobset-uid':'17'}},'spec':{}}"},
		/* between our two hooks the API server makes a name of it */
		{"{'metadata':{'generateName':'a-'},'spec':{}}",
			"{'metadata':{'generateName':'a-','name':'a-x7k2p'},'spec':{}}"},
		{"{'metadata':{'name':'a'},'spec':{'schedulingGroup':{'podGroupName':'g'}}}",
			"{'metadata':{'name':'b'},'spec':{'schedulingGroup':{'podGroupName':"
			"'g'}}}"},
	};
	/* and two that are of no one group */
	static const char *const apart[][2] = {
		{OWNED("Job", "a", ""), OWNED("Job", "b", "")},
		{OWNED("Job", "a", ""), OWNED("StatefulSet", "a", "")},
		{OWNED("ReplicaSet", "web-5d4c", "'pod-template-hash':'77aa'"),
			OWNED("ReplicaSet", "web-77aa", "'pod-template-hash':'5d4c'")},
		{"{'metadata':{'name':'a'},'spec':{}}", "{'metadata':{'name':'b'},'spec':{}}"},
		{"{'metadata':{'generateName':'a-'},'spec':{}}",
			"{'metadata':{'generateName':'b-'},'spec':{}}"},
	};

	for (size_t i = 0; i < COUNT(pairs); i++)
		assert_int_equal(least(pairs[i][0]), least(pairs[i][1]));
	for (size_t i = 0; i < COUNT(apart); i++)
		assert_int_not_equal(least(apart[i][0]), least(apart[i][1]));
}

TEST(test_a_share_is_what_it_says)
{
	static const uint32_t shares[] = {0, 1, 10, 50, 99, 100};
	char text[300];

	for (size_t i = 0; i < COUNT(shares); i++) {
		unsigned n = 0;

		for (int k = 0; k < 10000; k++) {
			snprintf(text, sizeof(text), OWNED("Job", "train-%d", ""), k);
			n += among(shares[i], text);
		}
		assert_in_range(n + 100, shares[i] * 100, shares[i] * 100 + 200);
	}
}

TEST(test_share_of_pods)
{
	static const char bare[] = POD(META(), ONE);

	policy.share = least(bare);
	assert_int_equal(mutate_in("ml", bare), 0);
	assert_true(fix.mutation.patched);
	policy.share--;
	assert_int_equal(mutate_in("ml", bare), 0);
	assert_false(fix.mutation.patched);
	assert_int_equal(validate_in("ml", bare), 0);
	/* a workload's pods may be of any group; so may those of a template in a file */
	policy.share = 1;
	assert_int_equal(mutate_in("ml", POD("'metadata':{'labels':{'a':'b'}}", ONE)), 0);
	assert_true(fix.mutation.patched);
	policy.share = 1;
	fix.world.owned = true;
	assert_int_equal(mutate_in("ml", bare), 0);
	assert_true(fix.mutation.patched);
}

TEST(test_workload_hears_of_the_share)
{
	static const char text[] =
		"{'metadata':{'name':'d'},'spec':{'replicas':1,'template':" POD(META(), ONE) "}}";
	struct warnings w = {0};
	struct workload load;
	const struct json_node *object = fixture_pod(&fix, text);

	policy.share = 30;
	assert_true(workload_read(&fix.json, object, SLICE("Deployment"), &load));
	assert_int_equal(workload_warn(&fix.world, &fix.json, &load, SLICE("ml"), &fix.scratch, &w,
				 &fix.err),
		0);
	assert_int_equal(w.n, 1);
	assert_non_null(memmem(w.text[0].at, w.text[0].len, "30 of 100", 9));
}

TESTS_BETWEEN(set_up, tear_down, test_injected_without_annotation, test_own_word,
	test_of_no_concern, test_no_policy, test_defaults, test_when_full, test_taken_back,
	test_taken_back_beside_others, test_by_the_plan_alone, test_a_share_that_was_said_stays,
	test_unconverted, test_one_group_one_answer, test_a_share_is_what_it_says,
	test_share_of_pods, test_workload_hears_of_the_share)
