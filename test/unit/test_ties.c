/* SPDX-License-Identifier: Apache-2.0 */
/* core/inject/ties, and what else becomes of pods that ask by keys of others: converted, admitted,
 * applied again, given back. */
#include <cjson/cJSON.h>
#include <stdlib.h>

#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/pod/foreign.h"

#define ON                                                                                         \
	"'annotations':{'auto-management/bitfusion':'all','bitfusion-client/"                      \
	"os':'ubuntu18','bitfusion-client/version':'400'}"
#define POD(spec) "{'metadata':{'name':'p','namespace':'ml'," ON "},'spec':{" spec "}}"
#define LIMITS(members) "'resources':{'limits':{" members "},'requests':{" members "}}"
#define ONE LIMITS("'nvidia.com/gpu':'1'")
#define APP "'containers':[{'name':'a','command':['python']," ONE "}]"
#define TOLERATION "{'key':'nvidia.com/gpu','operator':'Exists','effect':'NoSchedule'}"
#define OTHER "{'key':'team','operator':'Equal','value':'a','effect':'NoSchedule'}"
#define EXPRESSION(key, op) "{'key':'" key "','operator':'" op "','values':['x']}"
#define PRODUCT EXPRESSION("nvidia.com/gpu.product", "In")
#define ZONE EXPRESSION("zone", "In")
#define REQUIRED(terms)                                                                            \
	"'requiredDuringSchedulingIgnoredDuringExecution':{'nodeSelectorTerms':[" terms "]}"
#define PREFERRED(terms) "'preferredDuringSchedulingIgnoredDuringExecution':[" terms "]"
#define AFFINITY(members) "'affinity':{'nodeAffinity':{" members "}}"

static struct fixture fix;
static struct policy policy;

static int find_policy(void *ctx, struct slice namespace, struct arena *a,
	const struct policy **ret, struct err *err)
{
	(void)namespace;
	(void)a;
	(void)err;
	*ret = ctx;
	return 0;
}

static const struct policy_source source = {&policy, find_policy};

FIXTURE(set_up)
{
	fixture_init(&fix);
	policy = (struct policy){.name = "gpu", .accepts = FOREIGN_ALL, .percent = 50};
	fix.world.policies = &source;
	return 0;
}

FIXTURE(tear_down)
{
	fixture_release(&fix);
	return 0;
}

static cJSON *find(cJSON *at, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(at, key);
}

/* What it became: nothing of the node's GPUs is left, and the pool's are counted. */
static void check_converted(size_t row, char *pod)
{
	cJSON *root = fixture_tree(pod), *c;

	if (!fix.mutation.patched)
		fail_msg("row %zu: %s", row, fix.mutation.why_not);
	if (fixture_validate(&fix, pod) < 0)
		fail_msg("row %zu: %s: %s", row, fix.err.path, fix.err.msg);
	assert_true(fix.validation.claims);
	cJSON_DeleteItemFromObject(find(root, "metadata"), "annotations");
	c = cJSON_GetArrayItem(find(find(root, "spec"), "containers"), 0);
	assert_non_null(find(find(find(c, "resources"), "limits"), RES_UNITS));
	cJSON_Delete(root);
}

/* What kubectl apply sends: the live object with the manifest's members over it; lists of maps with
 * names are merged by name, others are the manifest's. */
static void merge(cJSON *into, const cJSON *from)
{
	cJSON *v;

	cJSON_ArrayForEach(v, from)
	{
		cJSON *old = find(into, v->string);

		if (cJSON_IsObject(v) && cJSON_IsObject(old)) {
			merge(old, v);
			continue;
		}
		if (cJSON_IsArray(v) && cJSON_IsArray(old) &&
			find(cJSON_GetArrayItem(v, 0), "name")) {
			cJSON *e, *o;

			cJSON_ArrayForEach(e, v) cJSON_ArrayForEach(o, old)
			{
				if (!strcmp(find(e, "name")->valuestring,
					    find(o, "name")->valuestring))
					merge(o, e);
			}
			continue;
		}
		cJSON_DeleteItemFromObjectCaseSensitive(into, v->string);
		cJSON_AddItemToObject(into, v->string, cJSON_Duplicate(v, true));
	}
}

static char *applied(const char *manifest, const char *live)
{
	cJSON *pod = fixture_tree(live), *m = fixture_tree(manifest), *container;
	char *ret;

	/* kubectl takes a command as a whole */
	cJSON_ArrayForEach(container, find(find(m, "spec"), "containers"))
		cJSON_DeleteItemFromObject(container, "command");
	merge(pod, m);
	ret = cJSON_PrintUnformatted(pod);
	cJSON_Delete(pod);
	cJSON_Delete(m);
	return ret;
}

#define SEVERAL                                                                                    \
	"'nodeSelector':{'nvidia.com/gpu.present':'true','disk':'ssd'},'tolerations':[" OTHER      \
	"," TOLERATION "," OTHER "],'runtimeClassName':'nvidia','overhead':{'cpu':'1'}," AFFINITY( \
		REQUIRED("{'matchExpressions':[" ZONE "," PRODUCT "]},{'matchExpressions':["       \
			 "" PRODUCT "]}") "," PREFERRED("{'weight':1,'preference':{"               \
							"'matchExpressions':[" PRODUCT "]}}"))

/* Pods in the shape of others' examples; a piece that the converted one has not, and one that it
 * has. */
static const struct {
	const char *pod, *has_not, *has;
} rows[] = {
	{POD(APP), "nvidia.com/gpu\":\"1\"}", "NVIDIA_VISIBLE_DEVICES\",\"value\":\"void"},
	/* NVIDIA's device plugin: a pod of a tainted node */
	{POD("'restartPolicy':'Never','tolerations':[" TOLERATION "]," APP),
		"\"tolerations\":[{\"key", "\"restartPolicy\":\"Never\""},
	{POD("'runtimeClassName':'nvidia'," APP), "\"spec\":{\"runtimeClassName", NULL},
	{POD("'runtimeClassName':'gvisor'," APP), "ties", "gvisor"},
	/* HAMi */
	{POD("'schedulerName':'hami-scheduler','containers':[{'name':'a','command':['x'],"
	     "'resources':{'limits':{'nvidia.com/gpu':2,'nvidia.com/gpumem':3000,"
	     "'nvidia.com/gpucores':30}}}]"),
		NULL, "\"memoryMB\\\":3145"},
	/* KubeRay's worker: its init container waits for the head and asks for none */
	{POD("'initContainers':[{'name':'wait-gcs-ready','image':'ray','command':['sh']}],"
	     "'containers':[{'name':'ray-worker','command':['ray'],'args':['start'],'env':[{'name':"
	     "'NVIDIA_VISIBLE_DEVICES','value':'all'}],'resources':{'limits':{'cpu':'4',"
	     "'nvidia.com/gpu':1},'requests':{'cpu':'4','nvidia.com/gpu':1}}}]," SEVERAL),
		"\"value\":\"all\"", NULL},
	/* Kubeflow's notebook and training pods: a sidecar without GPUs beside it */
	{POD("'containers':[{'name':'pytorch','command':['python'],'env':[{'name':'NCCL','value':"
	     "'1'},{'name':'NVIDIA_VISIBLE_DEVICES'}],'resources':{'limits':{'nvidia.com/gpu':1}}},"
	     "{'name':'istio-proxy','image':'p'}],'nodeSelector':{'nvidia.com/"
	     "gpu.product':'A100'}"),
		"\"nodeSelector\":{\"nvidia", NULL},
	/* a value from elsewhere, and one that is void already */
	{POD("'containers':[{'name':'a','command':['x'],'env':[{'name':'NVIDIA_VISIBLE_DEVICES',"
	     "'valueFrom':{'fieldRef':{'fieldPath':'metadata.name'}}},{'name':'B','value':'1'}]"
	     "," ONE "}]"),
		NULL, "POOLGATE_OWN_NVIDIA_VISIBLE_DEVICES"},
	{POD("'containers':[{'name':'a','command':['x'],'env':[{'name':'NVIDIA_VISIBLE_DEVICES',"
	     "'value':'void'}]," ONE "}]"),
		NULL, "\"kept\\\":[\\\"NVIDIA_VISIBLE_DEVICES"},
	/* ties in every place, alone and beside others */
	{POD("'tolerations':[" TOLERATION "," OTHER "," TOLERATION "]," APP), NULL,
		"\"tolerations\":[{\"key\":\"team"},
	{POD("'nodeSelector':{'nvidia.com/gpu.present':'true','disk':'ssd'}," APP), NULL,
		"\"nodeSelector\":{\"disk"},
	{POD(AFFINITY(REQUIRED("{'matchExpressions':[" PRODUCT "]}")) "," APP), "\"affinity\":{",
		NULL},
	{POD("'affinity':{'podAffinity':{},'nodeAffinity':{" REQUIRED(
		 "{'matchExpressions':[" PRODUCT "]}") "}}," APP),
		NULL, "\"affinity\":{\"podAffinity\":{}}"},
	{POD(AFFINITY(REQUIRED("{'matchExpressions':[" PRODUCT "," ZONE "," PRODUCT "]}")) "," APP),
		NULL,
		"\"matchExpressions\":[{\"key\":\"zone\",\"operator\":\"In\",\"values\":[\"x\"]}]"},
	{POD(AFFINITY(REQUIRED(
		 "{'matchExpressions':[" PRODUCT "]},{'matchExpressions':[" ZONE
		 "]},{'matchExpressions':[" PRODUCT "],'matchFields':[" ZONE "]}")) "," APP),
		NULL, "\"nodeSelectorTerms\":[{\"matchExpressions\":[{\"key\":\"zone"},
	{POD(AFFINITY(
		 PREFERRED("{'weight':1,'preference':{'matchExpressions':[" PRODUCT
			   "]}},{'weight':2,'preference':{'matchExpressions':[" PRODUCT "," ZONE
			   "]}}") "," REQUIRED("{'matchExpressions':[" PRODUCT "]}")) "," APP),
		NULL,
		"\"nodeAffinity\":{\"preferredDuringSchedulingIgnoredDuringExecution\":[{"
		"\"weight\":2"},
	/* what keeps it away from such nodes stays */
	{POD(AFFINITY(REQUIRED("{'matchExpressions':[" EXPRESSION("nvidia.com/mig",
		 "NotIn") "," EXPRESSION("nvidia.com/x", "DoesNotExist") "]}")) "," APP),
		"ties", "nvidia.com/mig"},
	{POD("'nodeSelector':{'nvidia\\u002ecom/gpu.present':'true'}," APP), "\"nodeSelector\":{\"",
		NULL},
	/* nothing that stands there is what it should be */
	{POD("'nodeSelector':null,'affinity':{'nodeAffinity':[]},'tolerations':{},"
	     "'runtimeClassName':7," APP),
		"ties", NULL},
};

TEST(test_converted_and_given_back)
{
	for (size_t i = 0; i < COUNT(rows); i++) {
		char *text = fixture_quotes(rows[i].pod), *pod = fixture_inject(&fix, rows[i].pod);
		char *back, *again;

		check_converted(i, pod);
		if (rows[i].has_not && strstr(pod, rows[i].has_not))
			fail_msg("row %zu: %s", i, pod);
		if (rows[i].has && !strstr(pod, rows[i].has))
			fail_msg("row %zu: %s", i, pod);
		back = fixture_undo(&fix, pod);
		fixture_same(i, "undone", back, text);
		/* a second look changes nothing */
		assert_int_equal(fixture_mutate(&fix, pod), 0);
		assert_false(fix.mutation.patched);
		/* P4: whatever the policy says now */
		policy.percent = 7;
		free(back);
		again = applied(text, pod);
		if (fixture_update(&fix, &fix.config, pod, again) < 0)
			fail_msg("row %zu: %s: %s", i, fix.err.path, fix.err.msg);
		back = fixture_apply(again, fix.mutation.patched ? fix.patch.data : "[]");
		fixture_same(i, "applied again", back, pod);
		policy.percent = 50;
		free(back);
		free(again);
		free(pod);
		free(text);
	}
}

/* The place comes late, its variables stand in front; nodes are asked for nothing; another
 * container asks by ours. */
TEST(test_beside_everything_else)
{
	static const char text[] =
		"{'metadata':{'name':'p','annotations':{'auto-management/bitfusion':'all',"
		"'poolgate.io/launcher':'lupine'}},'spec':{'runtimeClassName':'nvidia-cdi',"
		"'initContainers':[{'name':'b','env':[{'name':'NVIDIA_VISIBLE_DEVICES','valueFrom':"
		"{'fieldRef':{'fieldPath':'metadata.name'}}}],'resources':{'limits':{"
		"'nvidia.com/gpu':1}}}],'containers':[{'name':'a','env':[{'name':'A','value':'1'},"
		"{'name':'NVIDIA_VISIBLE_DEVICES','value':'all'},{'name':'B','value':'2'}]," ONE
		"},{'name':'c','env':[{'name':'NVIDIA_VISIBLE_DEVICES','value':'all'}],"
		"'resources':{'limits':{'bitfusion.io/gpu-amount':1}}}]}}";

	policy.percent = 0;
	for (int way = 0; way < 4; way++) {
		char *pod, *back, *again;

		fix.profiles[2].whole_servers = false;
		fix.config.late_place = way & 1;
		fix.config.node_resource_off = way & 2;
		fix.profiles[2].values = way & 1 ? 1U << LATE_SERVERS : 0;
		pod = fixture_inject(&fix, text);
		assert_true(fix.mutation.patched);
		if (fixture_validate_raw(&fix, pod) < 0)
			fail_msg("way %d: %s: %s", way, fix.err.path, fix.err.msg);
		back = fixture_undo(&fix, pod);
		fixture_same((size_t)way, "undone", back, text);
		again = applied(text, pod);
		if (fixture_update(&fix, &fix.config, pod, again) < 0)
			fail_msg("way %d: %s: %s", way, fix.err.path, fix.err.msg);
		free(back);
		back = fixture_apply(again, fix.patch.data);
		fixture_same((size_t)way, "applied again", back, pod);
		/* c asked for none of its node's */
		assert_non_null(strstr(strstr(pod, "\"name\":\"c\""), "\"value\":\"all\""));
		free(again);
		free(back);
		free(pod);
	}
}

/* Of variables with one name the kubelet takes the last. */
TEST(test_the_last_variable_is_hidden)
{
	static const char text[] = POD("'containers':[{'name':'a','command':['x'],'env':[{'name':"
				       "'NVIDIA_VISIBLE_DEVICES','value':'0'},{'name':"
				       "'NVIDIA_VISIBLE_DEVICES','value':'1'}]," ONE "}]");
	char *pod = fixture_inject(&fix, text), *back;

	check_converted(0, pod);
	assert_non_null(strstr(pod, "\"value\":\"0\""));
	assert_null(strstr(pod, "\"value\":\"1\""));
	back = fixture_undo(&fix, pod);
	fixture_same(0, "undone", back, text);
	free(back);
	free(pod);
}

/* A pod of a namespace whose policy does not accept the keys, or without one, is as without us. */
TEST(test_off_is_as_without_us)
{
	for (size_t i = 0; i < COUNT(rows); i++) {
		policy.accepts = 0;
		assert_int_equal(fixture_mutate(&fix, rows[i].pod), 0);
		assert_false(fix.mutation.patched);
		fix.world.policies = NULL;
		assert_int_equal(fixture_mutate(&fix, rows[i].pod), 0);
		assert_false(fix.mutation.patched);
		fix.world.policies = &source;
	}
}

TEST(test_ties_are_kept_where_the_policy_says_so)
{
	char *pod, *back;

	policy.keep_ties = true;
	pod = fixture_inject(&fix, POD(SEVERAL "," APP));
	assert_true(fix.mutation.patched);
	assert_non_null(strstr(pod, "\"runtimeClassName\":\"nvidia\",\"overhead\""));
	assert_non_null(strstr(pod, "nvidia.com/gpu.present"));
	assert_null(strstr(pod, "ties"));
	back = fixture_undo(&fix, pod);
	fixture_same(0, "undone", back, POD(SEVERAL "," APP));
	free(back);
	free(pod);
}

/* pod, what is accepted; path and a piece of the message */
static const struct {
	const char *pod;
	unsigned accepts;
	const char *path, *says;
} refused[] = {
	{POD("'containers':[{'name':'a','command':['x'],'resources':{'limits':{'nvidia.com/gpu':1,"
	     "'nvidia.com/gpumem':1}}}]"),
		1U << FOREIGN_GPU, "/spec/containers/0/resources/limits",
		"found nvidia.com/gpumem"},
	{POD("'containers':[{'name':'a','command':['x'],'resources':{'limits':{'nvidia.com/gpu':1,"
	     "'nvidia.com/gpumem':1}}}]"),
		1U << FOREIGN_MEM, "/spec/containers/0/resources/limits", "found nvidia.com/gpu,"},
	{POD("'containers':[{'name':'a','command':['x']," ONE
	     "},{'name':'b','resources':{'requests':{'nvidia.com/mig-1g.5gb':1}}}]"),
		FOREIGN_ALL, "/spec/containers/1/resources/requests", "its node"},
	{POD("'containers':[{'name':'a','command':['x'],'resources':{'limits':{'nvidia.com/gpu':1,"
	     "'bitfusion.io/gpu-amount':1}}}]"),
		FOREIGN_ALL, "/spec/containers/0/resources/limits/nvidia.com~1gpu", "same twice"},
	{POD("'containers':[{'name':'a','command':['x'],'resources':{'limits':{'nvidia.com/gpu':1,"
	     "'bitfusion.io/gpu':7}}}]"),
		FOREIGN_ALL, "/spec/containers/0/resources/limits/bitfusion.io~1gpu",
		"comes to 50"},
};

TEST(test_refused)
{
	for (size_t i = 0; i < COUNT(refused); i++) {
		policy.accepts = refused[i].accepts;
		fix.err = (struct err){0};
		if (fixture_mutate(&fix, refused[i].pod) != ERR_INVALID)
			fail_msg("row %zu is taken: %s", i, fix.err.msg);
		if (strcmp(fix.err.path, refused[i].path) != 0 ||
			!strstr(fix.err.msg, refused[i].says))
			fail_msg("row %zu: %s: %s", i, fix.err.path, fix.err.msg);
	}
}

/* live pod, patch in single quotes; the validator's verdict */
static const struct {
	const char *ops, *reason, *says;
} spoiled[] = {
	{"[{'op':'remove','path':'/spec/containers/0/env/1'}]", "PlanMismatch", "must be void"},
	{"[{'op':'replace','path':'/spec/containers/0/env/1/value','value':'all'}]", "PlanMismatch",
		"must be void"},
	{"[{'op':'add','path':'/spec/containers/0/env/-','value':{'name':'NVIDIA_VISIBLE_DEVICES',"
	 "'value':'all'}}]",
		"PlanMismatch", "must be void"},
	{"[{'op':'add','path':'/spec/containers/0/resources/limits/nvidia.com~1gpu','value':1}]",
		"NotInjected", "asks for GPUs"},
};

TEST(test_validator)
{
	char *pod = fixture_inject(&fix, POD(APP));

	for (size_t i = 0; i < COUNT(spoiled); i++) {
		char *other = fixture_change(pod, spoiled[i].ops);

		fix.err = (struct err){0};
		if (fixture_validate(&fix, other) != ERR_REFUSED ||
			strcmp(fix.err.reason, spoiled[i].reason) != 0 ||
			!strstr(fix.err.msg, spoiled[i].says))
			fail_msg("row %zu: %s %s", i, fix.err.reason, fix.err.msg);
		free(other);
	}
	free(pod);
}

/* What the policy would convert and nobody has (law P2). */
TEST(test_unconverted_is_refused)
{
	policy.inject = true;
	policy.share = 100;
	fix.err = (struct err){0};
	assert_int_equal(fixture_validate(&fix, POD(APP)), ERR_REFUSED);
	assert_string_equal(fix.err.reason, "NotInjected");
	assert_string_equal(fix.err.path, "/spec/containers/0/resources");
	policy.local_on_outage = true;
	fix.err = (struct err){0};
	assert_int_equal(fixture_validate(&fix, "{'metadata':{'name':'p'},'spec':{" APP "}}"), 0);
	assert_true(fix.validation.local);
	/* a key that is not accepted, and a namespace without a policy: as without us */
	policy.accepts = 1U << FOREIGN_MEM;
	assert_int_equal(fixture_validate(&fix, POD(APP)), 0);
	assert_false(fix.validation.local || fix.validation.claims);
	fix.world.policies = NULL;
	assert_int_equal(fixture_validate(&fix, POD(APP)), 0);
	assert_int_equal(fix.validation.warnings.n, 0);
}

/* A pod of which a part was injected, and to which somebody has added what its policy accepts: it
 * would have GPUs of the pool and of its node. */
TEST(test_a_part_that_is_unconverted_is_refused)
{
	char *pod = fixture_inject(&fix, POD(APP));
	char *other = fixture_change(pod,
		"[{'op':'add','path':'/spec/containers/-','value':{'name':'b','command':['x']," ONE
		"}}]");

	fix.err = (struct err){0};
	assert_int_equal(fixture_validate(&fix, other), ERR_REFUSED);
	assert_string_equal(fix.err.reason, "NotInjected");
	assert_string_equal(fix.err.path, "/spec/containers/1/resources");
	policy.accepts = 0;
	fix.err = (struct err){0};
	assert_int_equal(fixture_validate(&fix, other), 0);
	free(other);
	free(pod);
}

/* A policy that converts and names no client: its pods must not run on their nodes' GPUs. */
TEST(test_no_client)
{
	static const char text[] = "{'metadata':{'name':'p'},'spec':{" APP "}}";

	policy.inject = true;
	policy.share = 100;
	fix.err = (struct err){0};
	assert_int_equal(fixture_mutate(&fix, text), ERR_REFUSED);
	assert_string_equal(fix.err.reason, "NoLauncher");
	assert_non_null(strstr(fix.err.msg, "spec.defaults.os"));
	fix.err = (struct err){0};
	assert_int_equal(fixture_validate(&fix, text), ERR_REFUSED);
	assert_string_equal(fix.err.reason, "NotInjected");
}

/* A hook that comes later adds a container, or brings a key back: the mutator is asked again. */
TEST(test_reinvocation)
{
	char *pod = fixture_inject(&fix, POD("'tolerations':[" TOLERATION "]," APP)), *more, *back;
	char *other = fixture_change(pod,
		"[{'op':'add','path':'/spec/containers/-','value':{'name':'b','command':['x']," ONE
		"}},{'op':'add','path':'/spec/containers/0/resources/limits/nvidia.com~1gpu',"
		"'value':'1'}]");

	policy.percent = 7;
	more = fixture_inject(&fix, other);
	check_converted(0, more);
	assert_null(strstr(more, "nvidia.com/gpu\":\"1\"}}"));
	assert_non_null(strstr(more, "\\\"percent\\\":7,"));
	back = fixture_undo(&fix, more);
	assert_non_null(strstr(back, "\"tolerations\":[{\"key\":\"nvidia.com/gpu\""));
	free(back);
	free(more);
	free(other);
	free(pod);
}

#define KEY(side) "/spec/containers/0/resources/" side "/nvidia.com~1gpu"
#define PUT(side, n) "{'op':'add','path':'" KEY(side) "','value':" n "}"

/* What a hook has given the live pod of the key that was converted, and what the user applies over
 * it: both sides come back as they are in the live pod. */
TEST(test_updates_of_a_key_that_was_given)
{
	static const struct {
		const char *given, *applied;
	} changes[] = {
		{"", PUT("limits", "1")},
		{"", PUT("limits", "1") "," PUT("requests", "'1'")},
		{PUT("limits", "0"), PUT("limits", "1")},
		{PUT("limits", "'0'"), PUT("limits", "1") "," PUT("requests", "1")},
		{PUT("requests", "0"), PUT("limits", "1") "," PUT("requests", "1")},
		{PUT("limits", "0") "," PUT("requests", "0"),
			PUT("limits", "1") "," PUT("requests", "1")},
	};
	char *made = fixture_inject(&fix, POD(APP));

	for (size_t i = 0; i < COUNT(changes); i++) {
		char given[512], applied[512], *live, *now, *after;

		(void)snprintf(given, sizeof(given), "[%s]", changes[i].given);
		(void)snprintf(applied, sizeof(applied), "[%s]", changes[i].applied);
		live = fixture_change(made, given);
		now = fixture_change(live, applied);
		if (fixture_update(&fix, &fix.config, live, now) < 0)
			fail_msg("row %zu: %s: %s", i, fix.err.path, fix.err.msg);
		after = fixture_apply(now, fix.patch.data);
		fixture_same(i, "applied", after, live);
		free(after);
		free(now);
		free(live);
	}
	free(made);
}

/* What a hook has given the live pod of what was taken is there to stay, and only that: the
 * manifest that is applied again brings it, too. */
TEST(test_updates_of_ties_that_were_given)
{
#define SELECT(members) "{'op':'add','path':'/spec/nodeSelector','value':{" members "}}"
#define TOLERATE(list) "{'op':'add','path':'/spec/tolerations','value':[" list "]}"
#define PRESENT "'nvidia.com/gpu.present':'true'"
#define ANOTHER "{'key':'nvidia.com/other','operator':'Exists','effect':'NoSchedule'}"
	static const struct {
		const char *given, *applied, *want;
	} changes[] = {
		{SELECT(PRESENT), SELECT(PRESENT), SELECT(PRESENT)},
		{SELECT("'nvidia.com/x':'1'," PRESENT), SELECT("'nvidia.com/x':'1'," PRESENT),
			SELECT("'nvidia.com/x':'1'," PRESENT)},
		{SELECT("'nvidia.com/x':'1'"), SELECT("'nvidia.com/x':'1'," PRESENT),
			SELECT("'nvidia.com/x':'1'")},
		{TOLERATE(TOLERATION), TOLERATE(TOLERATION), TOLERATE(TOLERATION)},
		{TOLERATE(ANOTHER "," TOLERATION), TOLERATE(ANOTHER "," TOLERATION),
			TOLERATE(ANOTHER "," TOLERATION)},
		{TOLERATE(ANOTHER), TOLERATE(ANOTHER "," TOLERATION), TOLERATE(ANOTHER)},
	};
	char *made = fixture_inject(
		&fix, POD("'nodeSelector':{" PRESENT "},'tolerations':[" TOLERATION "]," APP));

	for (size_t i = 0; i < COUNT(changes); i++) {
		char given[512], applied[512], want[512], *live, *now, *wanted, *after;

		(void)snprintf(given, sizeof(given), "[%s]", changes[i].given);
		(void)snprintf(applied, sizeof(applied), "[" PUT("limits", "1") ",%s]",
			changes[i].applied);
		(void)snprintf(want, sizeof(want), "[%s]", changes[i].want);
		live = fixture_change(made, given);
		now = fixture_change(live, applied);
		wanted = fixture_change(live, want);
		assert_int_equal(fixture_update(&fix, &fix.config, live, now), 0);
		after = fixture_apply(now, fix.patch.data);
		fixture_same(i, "applied", after, wanted);
		free(after);
		free(wanted);
		free(now);
		free(live);
	}
	free(made);
#undef SELECT
#undef TOLERATE
#undef PRESENT
#undef ANOTHER
}

/* So many labels are looked at on each side; whose are more has his manifest as he wrote it. */
TEST(test_updates_with_many_labels)
{
	static const struct {
		size_t live, now; /* beside the one that was taken, which the manifest brings */
		bool left;
	} counts[] = {{63, 63, false}, {64, 64, true}, {64, 0, false}, {65, 0, true}};
	char *made = fixture_inject(&fix, POD("'nodeSelector':{'nvidia.com/p':'true'}," APP));

	for (size_t i = 0; i < COUNT(counts); i++) {
		char *live, *now, *after;
		struct buf given, applied;

		buf_init(&given, 1 << 16);
		buf_init(&applied, 1 << 16);
		buf_str(&given, "[{'op':'add','path':'/spec/nodeSelector','value':{");
		buf_str(&applied, "[" PUT("limits", "1") ",{'op':'add','path':'/spec/nodeSelector',"
							 "'value':{'nvidia.com/p':'true'");
		for (size_t k = 0; k < counts[i].live; k++)
			buf_fmt(&given, "%s'nvidia.com/%zu':'1'", k ? "," : "", k);
		for (size_t k = 0; k < counts[i].now; k++)
			buf_fmt(&applied, ",'nvidia.com/%zu':'1'", k);
		buf_str(&given, "}}]");
		buf_str(&applied, "}}]");
		live = fixture_change(made, given.data);
		now = fixture_change(live, applied.data);
		assert_int_equal(fixture_update(&fix, &fix.config, live, now), 0);
		after = fixture_apply(now, fix.patch.data);
		if ((strstr(after, "\"nvidia.com/p\":\"true\"") != NULL) != counts[i].left)
			fail_msg("row %zu", i);
		free(after);
		free(now);
		free(live);
		buf_release(&applied);
		buf_release(&given);
	}
	free(made);
}

/* An update that asks for something else is refused; one that brings other ties is the API
 * server's to judge. */
TEST(test_other_updates)
{
	char *pod = fixture_inject(&fix, POD("'tolerations':[" TOLERATION "]," APP));
	char *more = fixture_change(pod,
		"[{'op':'add','path':'/spec/containers/0/resources/limits/nvidia.com~1gpu','value':"
		"2}]");
	char *other = fixture_change(pod,
		"[{'op':'add','path':'/spec/tolerations','value':[{'key':'nvidia.com/x',"
		"'operator':'Exists'}," TOLERATION "]},{'op':'add','path':'/spec/containers/0/"
		"resources/limits/nvidia.com~1gpu','value':1}]");

	assert_int_equal(fixture_update(&fix, &fix.config, pod, more), ERR_REFUSED);
	assert_string_equal(fix.err.reason, "RequestChanged");
	free(more);
	assert_int_equal(fixture_update(&fix, &fix.config, pod, other), 0);
	more = fixture_apply(other, fix.patch.data);
	assert_non_null(strstr(more, "\"tolerations\":[{\"key\":\"nvidia.com/x\""));
	assert_null(strstr(more, "nvidia.com/gpu\":1"));
	free(more);
	free(other);
	free(pod);
}

TESTS_BETWEEN(set_up, tear_down, test_converted_and_given_back, test_the_last_variable_is_hidden,
	test_beside_everything_else, test_off_is_as_without_us,
	test_ties_are_kept_where_the_policy_says_so, test_refused,
	test_updates_of_a_key_that_was_given, test_updates_of_ties_that_were_given,
	test_updates_with_many_labels, test_validator, test_unconverted_is_refused,
	test_a_part_that_is_unconverted_is_refused, test_no_client, test_reinvocation,
	test_other_updates)
