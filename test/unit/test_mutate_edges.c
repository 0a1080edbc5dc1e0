/* SPDX-License-Identifier: Apache-2.0 */
/* core/inject/mutate, core/inject/reinject: pods that nobody expects: nulls, escapes, repeated
 * names, very large ones, second requests. */
#include <cjson/cJSON.h>

#include "test/unit/core_fixture.h"
#include "test/unit/test.h"

#define ON                                                                                         \
	"'annotations':{'auto-management/bitfusion':'all','bitfusion-client/"                      \
	"os':'ubuntu18','bitfusion-client/version':'400'"
#define POD(meta, spec) "{'metadata':{'name':'p'," meta "},'spec':{" spec "}}"
#define ONE "'resources':{'limits':{'bitfusion.io/gpu-amount':1}}"
#define APP "'containers':[{'name':'a','command':['x']," ONE "}]"
#define STATUS(value) POD(ON ",'auto-management/status':'" value "'}", APP)
#define ESCAPED                                                                                    \
	POD("'annotations':{'auto-management\\/bitfusion':'\\u0061\\u004cl','bitfusion-client\\/"  \
	    "os':'\\u0075buntu18','bitfusion-client/version':'\\u0034\\u0030\\u0030'}",            \
		"'containers':[{'name':'\\u0061','command':['\\u0078'],'resources':{'limits':{"    \
		"'bitfusion.io\\/gpu-amount':1,'bitfusion.io\\/gpu-percent':'50'}}}]")

/* These are patched, and the result is admitted. */
static const char *const accepted[] = {
	POD(ON "},'labels':null", APP),
	POD(ON "},'labels':[]", APP),
	POD(ON "}", "'volumes':null,'initContainers':null," APP),
	POD(ON "}",
		"'containers':[{'name':'a','command':['x'],'args':null,'env':null,'volumeMounts'"
		":null,'resources':{'limits':null,'requests':{'bitfusion.io/gpu-amount':1}}}]"),
	POD(ON "}", "'containers':[{'name':'a','command':['x'],'resources':{'requests':null,"
		    "'claims':[{'name':'c'}],'limits':{'bitfusion.io/gpu-amount':1}}}]"),
	ESCAPED,
	POD(ON "}", "'containers':[{'name':'a','command':['x'],'env':[1,null,{'x':2}],'"
		    "volumeMounts':[{},7]," ONE "}]"),
	POD(ON "},'x~y/z':1", "'containers':[{'name':'a','command':['x'],'resources':{'limits':{'a~"
			      "b/c':1,'bitfusion.io/gpu-amount':'1'}}}]"),
};

static struct fixture fix;

FIXTURES(fixture_init, fixture_release)

TEST(test_odd_pods_are_injected)
{
	for (size_t i = 0; i < COUNT(accepted); i++) {
		char *pod = fixture_inject(&fix, accepted[i]), *again;
		cJSON *root;

		if (!fix.mutation.patched)
			fail_msg("row %zu: %s", i, fix.mutation.why_not);
		if (fixture_validate(&fix, pod) < 0)
			fail_msg("row %zu: %s: %s in %s", i, fix.err.path, fix.err.msg, pod);
		assert_true(fix.validation.claims);
		again = fixture_inject(&fix, pod);
		assert_false(fix.mutation.patched);
		root = cJSON_Parse(pod);
		assert_non_null(root);
		cJSON_Delete(root);
		free(again);
		free(pod);
	}
}

TEST(test_other_resources_stay)
{
	char *pod;

	pod = fixture_inject(&fix, accepted[4]);
	assert_non_null(strstr(pod, "\"claims\":[{\"name\":\"c\"}]"));
	free(pod);
	pod = fixture_inject(&fix, accepted[7]);
	assert_non_null(strstr(pod, "\"a~b/c\":1"));
	free(pod);
}

/* pod; 0 or the error; a piece of why_not or message; path */
static const struct {
	const char *pod;
	int rc;
	const char *says, *path;
} verdicts[] = {
	{POD(ON "}", "'containers':[{'name':'a'},{'name':'a','command':['x']," ONE "}]"),
		ERR_INVALID, "a second time", "/spec/containers/1/name"},
	{POD(ON "}", "'initContainers':[{'name':'a'}]," APP), ERR_INVALID, "a second time",
		"/spec/containers/0/name"},
	/* without a client nothing is looked at: the pod is allowed as it is */
	{POD("'annotations':{'auto-management/bitfusion':'on'}",
		 "'containers':[{'name':'a','resources':{'limits':{'bitfusion.io/"
		 "gpu-amount':0}}}]"),
		0, "no client chosen", NULL},
	{POD("'annotations':{'auto-management/bitfusion':true}", APP), 0, "switch off", NULL},
	{POD("'annotations':null", APP), 0, "switch off", NULL},
	{"{'metadata':7,'spec':[]}", 0, "switch off", NULL},
	{"[]", 0, "switch off", NULL},
	{POD(ON "}", "'containers':[{'name':'a','resources':null}]"), 0, "no container asks", NULL},
	{POD(ON "}", "'containers':[{'name':'a','resources':{'limits':[1]}}]"), 0,
		"no container asks", NULL},
	{POD(ON "}", "'containers':[{'name':'a','command':['x'],'resources':{'limits':{'bitfusion."
		     "io/gpu-amount':null}}}]"),
		ERR_INVALID, "found null",
		"/spec/containers/0/resources/limits/bitfusion.io~1gpu-amount"},
	{POD(ON "}", "'containers':[{'name':'a','command':'x'," ONE "}]"), ERR_INVALID,
		"array of strings", "/spec/containers/0/command"},
	{POD(ON "}", "'containers':[{'name':'a','command':['x',null]," ONE "}]"), ERR_INVALID,
		"found null", "/spec/containers/0/command/1"},
	{POD(ON "}", "'containers':[{'name':'a','command':['x'],'args':[7]," ONE "}]"), ERR_INVALID,
		"found number", "/spec/containers/0/args/0"},
};

TEST(test_verdicts)
{
	for (size_t i = 0; i < COUNT(verdicts); i++) {
		int rc = fixture_mutate(&fix, verdicts[i].pod);
		const char *says = rc ? fix.err.msg : fix.mutation.why_not;

		if (rc != verdicts[i].rc)
			fail_msg("row %zu gives %d: %s", i, rc, fix.err.msg);
		if (!says || !strstr(says, verdicts[i].says))
			fail_msg("row %zu says %s", i, says ? says : "nothing");
		if (rc)
			assert_string_equal(fix.err.path, verdicts[i].path);
	}
}

/* A number of 6000 digits is the user's own and comes back as it was. */
TEST(test_a_long_number)
{
	struct buf b;
	char *pod, *back;

	buf_init(&b, 1 << 16);
	buf_str(&b, "{'metadata':{'name':'p'," ON "}},'spec':{'containers':[{'name':'a','command':["
		    "'x'],'resources':{'limits':{'bitfusion.io/gpu-amount':1.");
	for (int i = 0; i < 6000; i++)
		buf_char(&b, '0');
	buf_str(&b, "}}}]}}");
	pod = fixture_inject(&fix, b.data);
	back = fixture_undo(&fix, pod);
	assert_non_null(strstr(fix.patch.data, "1.00000000000"));
	free(back);
	free(pod);
	buf_release(&b);
}

TEST(test_filters_are_bounded)
{
	struct buf b;

	buf_init(&b, 1 << 16);
	buf_str(&b, "{'metadata':{'name':'p'," ON ",'bitfusion-client/filter':'");
	for (int i = 0; i < 5000; i++)
		buf_char(&b, '$');
	buf_str(&b, "'}},'spec':{" APP "}}");
	assert_int_equal(fixture_mutate(&fix, b.data), ERR_INVALID);
	assert_string_equal(fix.err.path, "/metadata/annotations/bitfusion-client~1filter");
	buf_release(&b);
}

/* Of two variables of one name the last one was moved; the first is the user's and stays when ours
 * goes. */
TEST(test_undo_leaves_the_users_own_variables)
{
	static const char text[] = POD(ON "}",
		"'containers':[{'name':'a','command':['x'],'env':["
		"{'name':'LD_LIBRARY_PATH','value':'/1'},"
		"{'name':'LD_LIBRARY_PATH','valueFrom':{'x':1}},{'name':'Z'}]," ONE "}]");
	char *pod, *back;

	pod = fixture_inject(&fix, text);
	back = fixture_undo(&fix, pod);
	assert_non_null(strstr(back,
		"\"env\":[{\"name\":\"LD_LIBRARY_PATH\",\"value\":\"/1\"},"
		"{\"valueFrom\":{\"x\":1},\"name\":\"LD_LIBRARY_PATH\"},{\"name\":\"Z\"}]"));
	free(back);
	free(pod);
}

/* What somebody else took out of the pod is not looked for elsewhere: all that is the user's stays.
 */
TEST(test_undo_of_what_is_gone_takes_nothing_else)
{
	static const char text[] =
		POD(ON "}", "'volumes':[{'name':'mine','emptyDir':{}}],'containers':[{'name':'a','"
			    "command':['x'],"
			    "'volumeMounts':[{'name':'mine','mountPath':'/mine'}]," ONE "}]");
	char *pod = fixture_inject(&fix, text), *back, *at;

	/* Ours have other names now. */
	while ((at = strstr(pod, "\"mountPath\":\"/bitfusion\"")))
		at[strlen("\"mountPath\":\"/")] = 'x';
	at = strstr(pod, "{\"name\":\"bitfusion-distro\",\"emptyDir\"");
	assert_non_null(at);
	at[strlen("{\"name\":\"")] = 'x';
	back = fixture_undo(&fix, pod);
	assert_non_null(strstr(back, "\"mountPath\":\"/mine\""));
	assert_non_null(strstr(back, "\"mountPath\":\"/xitfusion\""));
	assert_non_null(strstr(back, "{\"name\":\"mine\",\"emptyDir\":{}}"));
	assert_non_null(strstr(back, "{\"name\":\"xitfusion-distro\",\"emptyDir\":{}}"));
	free(back);
	free(pod);
}

/* A container that is done and is given its request once more: the resources are rewritten, the
 * rest is left. */
TEST(test_a_container_that_asks_again)
{
	char *pod, *again, *twice;

	pod = fixture_inject(&fix, POD(ON "}", APP));
	again = fixture_change(pod, "[{'op':'add','path':'/spec/containers/0/resources/limits/"
				    "bitfusion.io~1gpu-amount','value':'1'}]");
	twice = fixture_inject(&fix, again);
	assert_true(fix.mutation.patched);
	assert_string_equal(twice, pod);
	free(again);
	free(twice);
	again = fixture_change(pod, "[{'op':'add','path':'/spec/containers/0/resources/limits/"
				    "bitfusion.io~1gpu-amount','value':'1'},{'op':'add','path':"
				    "'/spec/containers/0/resources/requests/"
				    "bitfusion.io~1gpu-amount','value':1}]");
	twice = fixture_inject(&fix, again);
	assert_string_equal(twice, pod);
	free(again);
	free(twice);
	again = fixture_change(pod, "[{'op':'add','path':'/spec/containers/0/resources/limits/"
				    "bitfusion.io~1gpu-amount','value':'2'}]");
	assert_int_equal(fixture_mutate(&fix, again), ERR_REFUSED);
	assert_string_equal(fix.err.reason, "RequestChanged");
	assert_string_equal(fix.err.path, "/spec/containers/0/resources");
	free(again);
	free(pod);
}

/* Whoever gives it its request once more, and other units than it comes to, is told where. */
TEST(test_a_container_that_asks_again_with_other_units)
{
	static const char *const sides[] = {"limits", "requests"};
	char *pod = fixture_inject(&fix, POD(ON "}", APP)), *again;
	char change[512], path[128];

	for (size_t i = 0; i < COUNT(sides); i++) {
		(void)snprintf(change, sizeof(change),
			"[{'op':'add','path':'/spec/containers/0/resources/limits/"
			"bitfusion.io~1gpu-amount','value':'1'},{'op':'replace','path':"
			"'/spec/containers/0/resources/%s/bitfusion.io~1gpu','value':7}]",
			sides[i]);
		(void)snprintf(path, sizeof(path),
			"/spec/containers/0/resources/%s/bitfusion.io~1gpu", sides[i]);
		again = fixture_change(pod, change);
		assert_int_equal(fixture_mutate(&fix, again), ERR_INVALID);
		assert_string_equal(fix.err.path, path);
		assert_non_null(strstr(fix.err.msg, "found 7, but"));
		free(again);
	}
	free(pod);
}

/* A pod that carries no plan is left as it is. */
TEST(test_undo_of_a_pod_without_a_plan)
{
	const struct json_node *pod = fixture_pod(&fix, POD(ON "}", APP));

	buf_clear(&fix.patch);
	assert_int_equal(
		mutate_undo(&fix.json, pod, &fix.scratch, &fix.patch, &fix.mutation, &fix.err), 0);
	assert_false(fix.mutation.patched);
	assert_string_equal(fix.mutation.why_not, "no plan");
	assert_int_equal(fix.patch.len, 0);
}

/* Nodes are asked for nothing, and the API server has left out the side that was empty then. */
TEST(test_undo_into_a_side_that_is_gone)
{
	static const char text[] =
		POD(ON "}", "'containers':[{'name':'a','command':['x'],'resources':{'limits':{"
			    "'bitfusion.io/gpu-amount':1,'bitfusion.io/"
			    "gpu-percent':'50'},'requests':{'cpu':1}}}]");
	char *pod, *live, *back;

	fix.config.node_resource_off = true;
	pod = fixture_inject(&fix, text);
	live = fixture_change(
		pod, "[{'op':'remove','path':'/spec/containers/0/resources/limits'}]");
	back = fixture_undo(&fix, live);
	fixture_same(0, "undone", back, text);
	free(back);
	free(live);
	free(pod);
}

#define TWO                                                                                        \
	"'containers':[{'name':'a','command':['x']," ONE "},{'name':'b','command':['y']," ONE "}]"
#define BACK(n)                                                                                    \
	"{'op':'replace','path':'/spec/containers/" #n                                             \
	"/resources','value':{'limits':{'bitfusion.io/gpu-amount':'1'},'requests':null}}"

/* change of the live pod; 0, or the error */
static const struct {
	const char *change;
	int rc;
	bool same; /* the patch brings the live pod back */
} updates[] = {
	{"[" BACK(0) "," BACK(1) "]", 0, true},
	{"[" BACK(0) "]", 0, true},
	{"[" BACK(0) ",{'op':'replace','path':'/spec/containers/1/resources','value':{}}]",
		ERR_REFUSED, false},
	{"[" BACK(0) ",{'op':'remove','path':'/spec/containers/1/resources'}]", ERR_REFUSED, false},
	{"[" BACK(1) ",{'op':'replace','path':'/metadata/labels','value':null},{'op':'replace',"
		     "'path':'/spec/volumes','value':null},{'op':'replace','path':'/spec/"
		     "containers/0/"
		     "env','value':null}]",
		0, true},
	/* the containers stand in another order: what is restored goes to the right one */
	{"[" BACK(0) ",{'op':'replace','path':'/spec/containers/0/name','value':'b'},"
		     "{'op':'replace','path':'/spec/containers/1/name','value':'a'}]",
		0, false},
};

TEST(test_updates)
{
	char *live;

	live = fixture_inject(&fix, POD(ON "}", TWO));
	for (size_t i = 0; i < COUNT(updates); i++) {
		char *now = fixture_change(live, updates[i].change), *after;
		int rc = fixture_update(&fix, &fix.config, live, now);

		if (rc != updates[i].rc)
			fail_msg("row %zu gives %d: %s", i, rc, fix.err.msg);
		if (rc == 0) {
			after = fixture_apply(now, fix.patch.data);
			if (updates[i].same)
				fixture_same(i, "updated", after, live);
			free(after);
		} else {
			assert_string_equal(fix.err.reason, "RequestChanged");
		}
		free(now);
	}
	free(live);
}

/* One container asks so, the other as before. */
#define ASKS(n, other, members)                                                                    \
	"[" BACK(other) ",{'op':'replace','path':'/spec/containers/" #n                            \
			"/resources','value':{" members "}}]"

/* What is applied over the live pod; the error, and where it is. */
static const struct {
	const char *change;
	int rc;
	const char *path;
} refused[] = {
	{ASKS(1, 0, ""), ERR_REFUSED, "/spec/containers/1/resources"},
	{ASKS(0, 1, "'limits':{'bitfusion.io/gpu-amount':2}"), ERR_REFUSED,
		"/spec/containers/0/resources"},
	{ASKS(1, 0, "'limits':{'bitfusion.io/gpu-amount':1,'bitfusion.io/gpu-percent':10}"),
		ERR_REFUSED, "/spec/containers/1/resources"},
	{ASKS(0, 1, "'limits':{'bitfusion.io/gpu-percent':10}"), ERR_INVALID,
		"/spec/containers/0/resources"},
	{ASKS(1, 0, "'limits':{'bitfusion.io/gpu-amount':'x'}"), ERR_INVALID,
		"/spec/containers/1/resources/limits/bitfusion.io~1gpu-amount"},
	{ASKS(0, 1, "'requests':{'bitfusion.io/gpu-amount':0}"), ERR_INVALID,
		"/spec/containers/0/resources/requests/bitfusion.io~1gpu-amount"},
};

TEST(test_refused_updates)
{
	char *live = fixture_inject(&fix, POD(ON "}", TWO));

	for (size_t i = 0; i < COUNT(refused); i++) {
		char *now = fixture_change(live, refused[i].change);
		int rc = fixture_update(&fix, &fix.config, live, now);

		if (rc != refused[i].rc || strcmp(fix.err.path, refused[i].path) != 0)
			fail_msg("row %zu gives %d at %s: %s", i, rc, fix.err.path, fix.err.msg);
		free(now);
	}
	free(live);
}

#define GPU(side) "/spec/containers/0/resources/" side "/bitfusion.io~1gpu"
#define BOTH(limits, requests)                                                                     \
	"{'op':'replace','path':'/spec/containers/0/"                                              \
	"resources','value':{'limits':{" limits "},'requests':{" requests "}}}"
#define OURS(side) "{'op':'remove','path':'" GPU(side) "'}"
#define ASKED "'bitfusion.io/gpu-amount':'1'"
#define UNITS(n) "'bitfusion.io/gpu':" n

/* What another hook makes of the resources of the injected pod, and what the user applies over
 * that; the same, and with other GPUs, comes back as the live pod has it. */
static const struct {
	const char *hook, *user;
} resources[] = {
	{NULL, BOTH(ASKED, "")},
	{NULL, BOTH("", ASKED)},
	{NULL, BOTH(ASKED, ASKED)},
	{NULL, BOTH(ASKED "," UNITS("100"), "")},
	{NULL, BOTH(ASKED, UNITS("100"))},
	{NULL, BOTH(ASKED, UNITS("'100'"))},
	{NULL, BOTH(UNITS("100"), UNITS("100"))},
	/* the API server gives requests what limits have */
	{OURS("requests"), BOTH(ASKED "," UNITS("100"), ASKED "," UNITS("100"))},
	{OURS("requests"), BOTH(ASKED, UNITS("100"))},
	{OURS("requests"), BOTH(ASKED, "")},
	{OURS("limits"), BOTH(ASKED "," UNITS("100"), UNITS("100"))},
	{OURS("limits"), BOTH(ASKED, "")},
	{OURS("limits") "," OURS("requests"), BOTH(ASKED "," UNITS("100"), UNITS("100"))},
	{OURS("limits") "," OURS("requests"), BOTH(ASKED, "")},
};

/* Another hook's changes of a live pod, if any. */
static char *hooked(const char *live, const char *ops)
{
	char text[1024];

	(void)snprintf(text, sizeof(text), "[%s]", ops ? ops : "");
	return fixture_change(live, text);
}

TEST(test_updates_of_resources)
{
	char *made = fixture_inject(&fix, POD(ON "}", APP));

	for (size_t i = 0; i < COUNT(resources); i++) {
		char *live = hooked(made, resources[i].hook),
		     *now = hooked(live, resources[i].user);
		char *after;

		if (fixture_update(&fix, &fix.config, live, now) != 0)
			fail_msg("row %zu: %s", i, fix.err.msg);
		after = fixture_apply(now, fix.patch.data);
		fixture_same(i, "updated", after, live);
		free(after);
		free(now);
		free(live);
	}
	free(made);
}

/* The live pod has none of a name that its plan knows: nothing is known of it that could be
 * restored, and the others are. */
TEST(test_updates_of_what_the_live_pod_lacks)
{
	static const char *const other = "{'op':'replace','path':'/spec/containers/0/name',"
					 "'value':'other'}";
	char *made = fixture_inject(&fix, POD(ON "}", TWO)), *live = hooked(made, other);
	char *now = hooked(made, BACK(0) "," BACK(1)), *want = hooked(made, BACK(0)), *after;

	assert_int_equal(fixture_update(&fix, &fix.config, live, now), 0);
	after = fixture_apply(now, fix.patch.data);
	fixture_same(0, "updated", after, want);
	free(after);
	free(want);
	free(now);
	free(live);
	free(made);
}

#define COMMAND "/spec/containers/0/command"
#define ARGS "/spec/containers/0/args"
#define SET(path, value) "{'op':'replace','path':'" path "','value':" value "}"
#define GONE(path) "{'op':'replace','path':'" path "','value':null}"
#define FRONT                                                                                      \
	"{'op':'add','path':'" COMMAND "/0','value':'T=1'},{'op':'add','path':'" COMMAND           \
	"/0','value':'/bin/env'}"
#define MOVED SET(COMMAND, "['/bin/env']") "," SET(ARGS, "['T=1'," RUN ",'python','t.py','x']")
#define RUN "'/usr/bin/bitfusion','run','-n','1','-p','1.000000','--'"

/* What another hook makes of the injected pod, what the user applies; does the live pod come back?
 */
static const struct {
	const char *hook, *user;
	bool same;
} wrapped[] = {
	{FRONT, SET(COMMAND, "['python','t.py']"), true},
	{MOVED, SET(COMMAND, "['python','t.py']"), true},
	{MOVED, SET(COMMAND, "['python','t.py']") "," SET(ARGS, "['x']"), true},
	/* another program, or other arguments: the API server shall say that this cannot be changed
	 */
	{FRONT, SET(COMMAND, "['python','u.py']"), false},
	{FRONT, SET(COMMAND, "['t.py']"), false},
	{FRONT, SET(COMMAND, "['python']"), false},
	{MOVED, SET(COMMAND, "['python','u.py']"), false},
	{MOVED, SET(COMMAND, "['python','t.py','x','y']"), false},
	{MOVED, SET(COMMAND, "['python','t.py']") "," SET(ARGS, "['y']"), false},
	{MOVED, SET(COMMAND, "['python','t.py']") "," SET(ARGS, "['x','y']"), false},
	{MOVED, SET(COMMAND, "['python','t.py']") "," SET(ARGS, "[]"), false},
	{SET(ARGS, "['x']"), SET(COMMAND, "['t.py']"), false},
	/* the launcher is gone */
	{SET(COMMAND, "['/bin/env','a','b','c','d','e','f','g','h','python','t.py']"),
		SET(COMMAND, "['python','t.py']"), false},
	{SET(COMMAND, "['a','/usr/bin/bitfusion']") "," SET(ARGS, "[]"),
		SET(COMMAND, "['python','t.py']"), false},
	{SET(COMMAND, "['a','b','c','/usr/bin/bitfusion']"), SET(COMMAND, "['python','t.py']"),
		false},
	{SET(COMMAND, "['/bin/env','a']") "," SET(ARGS, "['b']"),
		SET(COMMAND, "[]") "," SET(ARGS, "[]"), false},
	/* the launcher's words are the last, in the command and behind it */
	{SET(COMMAND, "['/bin/env'," RUN "]") "," SET(ARGS, "[]"), SET(COMMAND, "[]"), false},
	{SET(COMMAND, "['/bin/env'," RUN "]"), SET(COMMAND, "[]"), true},
	/* the first of the arguments, and the user has none behind them */
	{SET(COMMAND, "['/bin/env']") "," SET(ARGS, "[" RUN ",'python','t.py','x']"),
		SET(COMMAND, "['python','t.py']"), true},
	{SET(COMMAND, "['/bin/env']") "," SET(ARGS, "['T=1'," RUN ",'python','t.py']"),
		SET(COMMAND, "['python','t.py']") "," SET(ARGS, "[]"), true},
	/* torn apart: the command ends among them */
	{SET(COMMAND, "['/bin/env','/usr/bin/bitfusion','run']") "," SET(
		 ARGS, "['-n','1','-p','1.000000','--','python','t.py','x']"),
		SET(COMMAND, "['python','t.py']") "," SET(ARGS, "['x']"), false},
	/* no command at all, or none that can be read */
	{FRONT, GONE(COMMAND), false},
	{FRONT, GONE(COMMAND) "," GONE(ARGS), false},
	{FRONT, SET(COMMAND, "null"), false},
	{FRONT, SET(COMMAND, "'python'"), false},
	{MOVED, GONE(COMMAND), false},
	{GONE(COMMAND), SET(COMMAND, "['python','t.py']"), false},
	{GONE(COMMAND) "," GONE(ARGS), SET(COMMAND, "[]"), false},
};

TEST(test_updates_of_wrapped)
{
	static const char pod[] = POD(ON "}",
		"'containers':[{'name':'a','command':['python','t.py'],'args':['x']," ONE "}]");

	for (size_t i = 0; i < COUNT(wrapped); i++) {
		char *made = fixture_inject(&fix, pod), *live, *now, *after;
		char hook[1024], user[1024];
		cJSON *got, *want;

		(void)snprintf(hook, sizeof(hook), "[%s]", wrapped[i].hook);
		(void)snprintf(user, sizeof(user), "[%s," BACK(0) "]", wrapped[i].user);
		live = fixture_change(made, hook);
		now = fixture_change(live, user);
		assert_int_equal(fixture_update(&fix, &fix.config, live, now), 0);
		after = fixture_apply(now, fix.patch.data);
		got = cJSON_Parse(after);
		want = cJSON_Parse(live);
		if (cJSON_Compare(got, want, true) != wrapped[i].same)
			fail_msg("row %zu: %s\nfrom\n%s", i, after, live);
		cJSON_Delete(got);
		cJSON_Delete(want);
		free(after);
		free(now);
		free(live);
		free(made);
	}
}

/* A pod with n containers that ask, each with so many variables. */
static void crowd(struct buf *b, int n, int env)
{
	buf_str(b, "{'metadata':{'name':'p'," ON "}},'spec':{'containers':[");
	for (int i = 0; i < n; i++) {
		buf_fmt(b, "%s{'name':'c%d','command':['x'],'env':[", i ? "," : "", i);
		for (int k = 0; k < env; k++)
			buf_fmt(b, "%s{'name':'V%d','value':'%d'}", k ? "," : "", k, k);
		buf_str(b, "]," ONE "}");
	}
	buf_str(b, "]}}");
}

/* What a review finds does not depend on how much memory is left: the same, or that there is none.
 */
TEST(test_memory_that_ends_anywhere)
{
	static const char *const pods[] = {ESCAPED, STATUS("injected"), STATUS("\\u0069njected"),
		STATUS("injected','poolgate.io/plan':'\\u007b"),
		STATUS("\\u0069njected','poolgate.io/plan':'\\u007b")};

	for (size_t i = 0; i < COUNT(pods); i++) {
		int rc = fixture_mutate(&fix, pods[i]), least = ERR_NOMEM;
		bool patched = fix.mutation.patched;
		const char *why_not = fix.mutation.why_not;

		assert_int_equal(rc, 0);
		for (size_t max = 0; least != 0; max += 1 + max / 64) {
			arena_release(&fix.scratch);
			arena_init(&fix.scratch, max);
			least = fixture_mutate(&fix, pods[i]);
			if (least == 0 && (fix.mutation.patched != patched ||
						  fix.mutation.why_not != why_not))
				fail_msg(
					"row %zu with %zu bytes: %s", i, max, fix.mutation.why_not);
			if (least != 0)
				assert_int_equal(least, ERR_NOMEM);
		}
		arena_release(&fix.scratch);
		arena_init(&fix.scratch, 64 << 20);
	}
}

/* The same of what is taken back, where all is as it was planned and where words are missing. */
TEST(test_undo_with_memory_that_ends_anywhere)
{
	static const char *const changes[] = {"[]",
		"[{'op':'remove','path':'/spec/containers/0/command'}]",
		"[{'op':'remove','path':'/spec/containers/0/env'}]"};
	char *made = fixture_inject(&fix, POD(ON "}", APP));

	for (size_t i = 0; i < COUNT(changes); i++) {
		char *pod = fixture_change(made, changes[i]);
		int least = ERR_NOMEM, want = i == 0 ? 0 : ERR_INVALID;

		for (size_t max = 0; least == ERR_NOMEM; max += 8) {
			arena_release(&fix.scratch);
			arena_init(&fix.scratch, max);
			fixture_raw(&fix, pod);
			buf_clear(&fix.patch);
			least = mutate_undo(&fix.json, json_root(&fix.json), &fix.scratch,
				&fix.patch, &fix.mutation, &fix.err);
		}
		assert_int_equal(least, want);
		free(pod);
	}
	free(made);
}

TEST(test_crowds)
{
	static const struct {
		int containers, env, rc;
	} rows[] = {
		{1, 100000, 0},
		{100, 1000, 0},
		{1000, 1, ERR_INVALID},
		{1025, 0, ERR_TOOBIG},
		{20000, 0, ERR_TOOBIG},
	};
	struct buf b;

	buf_init(&b, 16 << 20);
	alarm(60);
	for (size_t i = 0; i < COUNT(rows); i++) {
		int rc;

		buf_clear(&b);
		crowd(&b, rows[i].containers, rows[i].env);
		assert_false(b.failed);
		rc = fixture_mutate(&fix, b.data);
		if (rc != rows[i].rc)
			fail_msg("row %zu gives %d: %s", i, rc, fix.err.msg);
		if (rc == 0)
			assert_true(fix.mutation.patched);
	}
	alarm(0);
	buf_release(&b);
}

TESTS_BETWEEN(set_up, tear_down, test_odd_pods_are_injected, test_other_resources_stay,
	test_verdicts, test_a_long_number, test_filters_are_bounded,
	test_undo_leaves_the_users_own_variables, test_undo_of_what_is_gone_takes_nothing_else,
	test_a_container_that_asks_again, test_a_container_that_asks_again_with_other_units,
	test_undo_of_a_pod_without_a_plan, test_undo_into_a_side_that_is_gone,
	test_undo_with_memory_that_ends_anywhere, test_updates, test_refused_updates,
	test_memory_that_ends_anywhere, test_updates_of_resources,
	test_updates_of_what_the_live_pod_lacks, test_updates_of_wrapped, test_crowds)
