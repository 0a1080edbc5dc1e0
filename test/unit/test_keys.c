/* SPDX-License-Identifier: Apache-2.0 */
/* core/pod/keys: what looks like ours and is none is refused where the switch is on, and warned
 * about elsewhere. */
#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/validate/workload.h"

static struct fixture fix;

FIXTURES(fixture_init, fixture_release)

#define POD(annotations, resources)                                                                \
	"{'metadata':{'name':'p','labels':{},'annotations':{" annotations                          \
	"}},'spec':{'containers':[{'name':'a','command':['python','t.py'],'resources':{" resources \
	"}}]}}"
#define ON                                                                                         \
	"'auto-management/bitfusion':'all','bitfusion-client/os':'ubuntu18','bitfusion-client/"    \
	"version':'400'"
#define ASKS "'limits':{'bitfusion.io/gpu-amount':1"

/* pod; path and a piece of the refusal, or NULL */
static const struct {
	const char *pod, *path, *says;
} cases[] = {
	{POD(ON, ASKS "}"), NULL, NULL},
	{POD(ON ",'other/key':'x','poolgate.io/launcher':'bitfusion'",
		 ASKS ",'cpu':'1','nvidia.com/gpu':1}"),
		NULL, NULL},
	{POD(ON, ASKS ",'bitfusion.io/gpu-precent':25}"), "/spec/containers/0/resources/limits",
		"\"bitfusion.io/gpu-precent\", which means nothing here; did you mean "
		"\"bitfusion.io/gpu-percent\"?"},
	/* nothing else asks: injected or not */
	{POD(ON, "'requests':{'bitfusion.io/gpu-amout':1}"),
		"/spec/containers/0/resources/requests",
		"did you mean \"bitfusion.io/gpu-amount\"?"},
	{POD(ON, ASKS ",'bitfusion.io\\/gpu\\u002dMemory':25}"),
		"/spec/containers/0/resources/limits", "did you mean \"bitfusion.io/gpu-memory\"?"},
	{POD(ON, ASKS ",'bitfusion.io/something-else':25}"), "/spec/containers/0/resources/limits",
		"known are bitfusion.io/gpu-amount, bitfusion.io/gpu-num"},
	{POD(ON ",'bitfusion-client/filters':'a=b'", ASKS "}"), "/metadata/annotations",
		"did you mean \"bitfusion-client/filter\"?"},
	{POD(ON ",'poolgate.io/luncher':'juice'", ASKS "}"), "/metadata/annotations",
		"did you mean \"poolgate.io/launcher\"?"},
	/* off: not ours to refuse */
	{POD("'poolgate.io/luncher':'juice'", ASKS ",'bitfusion.io/gpu-precent':25}"), NULL, NULL},
};

TEST(test_refused)
{
	for (size_t i = 0; i < COUNT(cases); i++) {
		int rc = fixture_mutate(&fix, cases[i].pod);

		for (int hook = 0; hook < 2; hook++) {
			if (hook && !cases[i].path)
				continue;
			if (hook)
				rc = fixture_validate(&fix, cases[i].pod);
			if (rc != (cases[i].path ? ERR_INVALID : 0))
				fail_msg("row %zu gives %d: %s", i, rc, fix.err.msg);
			if (!cases[i].path)
				continue;
			assert_string_equal(fix.err.path, cases[i].path);
			if (!strstr(fix.err.msg, cases[i].says))
				fail_msg("row %zu says %s", i, fix.err.msg);
		}
	}
}

static bool warned(const struct warnings *w, const char *piece)
{
	for (size_t i = 0; i < w->n; i++)
		if (strstr(w->text[i].at, piece))
			return true;
	return false;
}

TEST(test_warned)
{
	assert_int_equal(
		fixture_mutate(&fix, POD(ON ",'auto-management/injection':'x'", ASKS "}")), 0);
	assert_true(warned(&fix.mutation.warnings, "auto-management/injection means nothing here"));
	assert_int_equal(fixture_validate(&fix, POD("'auto-management/Bitfusion':'all'",
							ASKS ",'bitfusion.io/gpu-precent':25}")),
		0);
	assert_true(warned(&fix.validation.warnings, "is written auto-management/bitfusion"));
	assert_true(warned(&fix.validation.warnings, "\"bitfusion.io/gpu-percent\"?"));
}

/* old and new annotations; is the update refused? */
static const struct {
	const char *old, *now;
	bool refused;
} updates[] = {
	{ON ",'bitfusion-client/filters':'a'", ON ",'bitfusion-client/filters':'a','x':'y'", false},
	{ON ",'bitfusion-client/filters':'a'", ON, false},
	{ON ",'bitfusion-client/filters':'a'", ON ",'bitfusion-client/filters':'b'", true},
	{ON, ON ",'bitfusion-client/filters':'a'", true},
	{"", "'bitfusion-client/filters':'a'", false},
};

TEST(test_updates)
{
	for (size_t i = 0; i < COUNT(updates); i++) {
		struct buf b;
		struct review r = {0};
		int rc;

		buf_init(&b, 1 << 16);
		buf_fmt(&b,
			"{'old':{'metadata':{'annotations':{%s}},'spec':{'containers':[]}},"
			"'new':{'metadata':{'annotations':{%s}},'spec':{'containers':[]}}}",
			updates[i].old, updates[i].now);
		(void)fixture_pod(&fix, b.data);
		r.j = &fix.json;
		r.object = json_get(r.j, json_root(r.j), SLICE("new"));
		r.old_object = json_get(r.j, json_root(r.j), SLICE("old"));
		r.namespace = SLICE("ml");
		rc = validate_update(&fix.world, &r, &fix.scratch, &fix.err);
		if (rc != (updates[i].refused ? ERR_INVALID : 0))
			fail_msg("row %zu gives %d: %s", i, rc, fix.err.msg);
		buf_release(&b);
	}
}

TEST(test_workloads)
{
	struct warnings w = {0};
	struct workload load;
	const struct json_node *o;

	o = fixture_pod(&fix,
		"{'metadata':{'annotations':{'auto-management/"
		"bitfusion':'all'}},'spec':{'template':"
		"{'metadata':{},'spec':{'containers':[{'name':'a','resources':{'limits':{"
		"'bitfusion.io/gpu-amout':1}}}]}}}}");
	assert_true(workload_read(&fix.json, o, SLICE("Deployment"), &load));
	assert_int_equal(workload_warn(&fix.world, &fix.json, &load, SLICE("ml"), &fix.scratch, &w,
				 &fix.err),
		0);
	assert_true(warned(&w, "stands on the workload itself"));
	assert_true(warned(&w, "\"bitfusion.io/gpu-amount\"?"));
}

TESTS_BETWEEN(set_up, tear_down, test_refused, test_warned, test_updates, test_workloads)
