/* SPDX-License-Identifier: Apache-2.0 */
/* core/inject/mutate, core/inject/reinject, core/inject/undo: what is injected, restored on update,
 * and taken back. */
#include <cjson/cJSON.h>

#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/edge/pool/ledger_memory.h"

#define ON                                                                                         \
	"'annotations':{'auto-management/bitfusion':'all','bitfusion-client/"                      \
	"os':'ubuntu18','bitfusion-client/version':'400'"
#define POD(meta, spec) "{'metadata':{'name':'p'," meta "},'spec':{" spec "}}"
#define ONE "'resources':{'limits':{'bitfusion.io/gpu-amount':1}}"
#define APP "'containers':[{'name':'a','command':['python','t.py']," ONE "}]"

/* pod; 0 or the error; why_not or a piece of the message; path */
static const struct {
	const char *pod;
	int rc;
	const char *says, *path;
} verdicts[] = {
	{POD("'annotations':{'auto-management/bitfusion':'injection','bitfusion-client/"
	     "os':'ubuntu18','bitfusion-client/version':'400'}",
		 "'containers':[{'name':'a','command':['bitfusion','run','-n','8','x']," ONE "}]"),
		ERR_INVALID, "GPU count of 8", "/spec/containers/0/command"},
	{POD(ON "}", APP), 0, NULL, NULL},
	{POD("'annotations':{'auto-management/bitfusion':'ALL','bitfusion-client/"
	     "os':'ubuntu18','bitfusion-client/version':'400'}",
		 APP),
		0, NULL, NULL},
	{POD("'annotations':{'auto-management/bitfusion':'none'}", APP), 0, "switch off", NULL},
	{POD("'annotations':{'Auto-Management/bitfusion':'all'}", APP), 0, "switch off", NULL},
	{POD("'labels':{}", APP), 0, "switch off", NULL},
	{POD(ON ",'kubernetes.io/config.mirror':'x'}", APP), 0, "exempt", NULL},
	{POD(ON ",'auto-management/status':'Injected'}", APP), 0, "already injected", NULL},
	{POD(ON ",'auto-management/status':'broken'}", APP), 0, NULL, NULL},
	{POD(ON ",'poolgate.io/plan':'no'}", APP), 0, "unreadable plan", NULL},
	{POD(ON "}", "'containers':[{'name':'a','command':['x']}]"), 0, "no container asks", NULL},
	{POD("'annotations':{'auto-management/bitfusion':'on'}", APP), 0, "no client chosen", NULL},
	{POD("'annotations':{'auto-management/bitfusion':'on','bitfusion-client/"
	     "os':'beos','bitfusion-client/version':'1'}",
		 APP),
		ERR_INVALID, "Could not find Bitfusion client info", "/metadata/annotations"},
	{POD(ON ",'poolgate.io/launcher':'nobody'}", APP), ERR_INVALID, "bitfusion, juice, lupine",
		"/metadata/annotations/poolgate.io~1launcher"},
	{POD(ON "}", "'os':{'name':'windows'}," APP), ERR_INVALID, "Windows", "/spec/os"},
	{POD(ON "}", "'nodeSelector':{'kubernetes.io/os':'windows'}," APP), ERR_INVALID, "Windows",
		"/spec/nodeSelector/kubernetes.io~1os"},
	{POD(ON "}", "'x':1"), ERR_INVALID, "found nothing", "/spec/containers"},
	{POD(ON "}", "'containers':{}"), ERR_INVALID, "found object", "/spec/containers"},
	{POD(ON "}", "'containers':[1]"), ERR_INVALID, "found number", "/spec/containers/0"},
	{POD(ON "}", "'containers':[{'name':'a'," ONE "}]"), ERR_INVALID, "no command",
		"/spec/containers/0/command"},
	{POD(ON "}", "'containers':[{'name':'a','command':['x'],'resources':{'limits':{'bitfusion."
		     "io/gpu-amount':0}}}]"),
		ERR_INVALID, "whole number of GPUs",
		"/spec/containers/0/resources/limits/bitfusion.io~1gpu-amount"},
	{POD(ON "}", "'containers':[{'name':'a','command':['x'],'resources':{'limits':{'bitfusion."
		     "io/gpu-percent':10}}}]"),
		ERR_INVALID, "add bitfusion.io/gpu-amount", "/spec/containers/0/resources"},
	{POD(ON "}", "'containers':[{'name':'a','command':['x'],'resources':{'limits':{'bitfusion."
		     "io/gpu-amount':1,'bitfusion.io/gpu':7}}}]"),
		ERR_INVALID, "comes to 100",
		"/spec/containers/0/resources/limits/bitfusion.io~1gpu"},
	{POD(ON "}", APP ",'volumes':[{'name':'bitfusion-distro'}]"), ERR_REFUSED, "rename",
		"/spec/volumes/0"},
	{POD(ON "}", "'containers':[{'name':'a','command':['x'],'volumeMounts':[{'name':'v','"
		     "mountPath':'/bitfusion/'}]," ONE "}]"),
		ERR_REFUSED, "mount yours elsewhere", "/spec/containers/0/volumeMounts/0"},
	{POD(ON "}", "'containers':[{'name':'a','command':['x'],'volumeDevices':[{'devicePath':'/"
		     "bitfusion'}]," ONE "}]"),
		ERR_REFUSED, "mount yours elsewhere", "/spec/containers/0/volumeDevices/0"},
	{POD(ON "}", "'initContainers':[{'name':'populate'}]," APP), ERR_REFUSED, "rename",
		"/spec/initContainers/0"},
	{POD(ON ",'poolgate.io/launcher':'juice'}",
		 "'containers':[{'name':'a','command':['x'],'resources':{'limits':{'bitfusion.io/"
		 "gpu-amount':1,'bitfusion.io/gpu-percent':50}}}]"),
		ERR_INVALID, "", "/spec/containers/0/resources"},
	{POD(ON ",'poolgate.io/launcher':'lupine'}",
		 "'containers':[{'name':'a','env':[{'name':'LUPINE_SERVER','value':'x'}]," ONE
		 "}]"),
		ERR_REFUSED, "remove it", "/spec/containers/0/env/0"},
};

static struct fixture fix;

FIXTURES(fixture_init, fixture_release)

TEST(test_verdicts)
{
	for (size_t i = 0; i < COUNT(verdicts); i++) {
		int rc = fixture_mutate(&fix, verdicts[i].pod);
		const char *said = rc                     ? fix.err.msg
				   : fix.mutation.patched ? "patched"
							  : fix.mutation.why_not;

		if (rc != verdicts[i].rc)
			fail_msg("row %zu: %d, %s at %s", i, rc, said, fix.err.path);
		if (rc == 0 && fix.mutation.patched != (verdicts[i].says == NULL))
			fail_msg("row %zu: %s", i, said);
		if (verdicts[i].says && !strstr(said, verdicts[i].says))
			fail_msg("row %zu: %s", i, said);
		if (verdicts[i].path && strcmp(fix.err.path, verdicts[i].path) != 0)
			fail_msg("row %zu: at %s", i, fix.err.path);
	}
}

static cJSON *at(cJSON *v, const char *path)
{
	char copy[256], *rest = copy, *seg;

	snprintf(copy, sizeof(copy), "%s", path);
	while (v && (seg = strsep(&rest, ".")))
		v = cJSON_IsArray(v) ? cJSON_GetArrayItem(v, atoi(seg))
				     : cJSON_GetObjectItemCaseSensitive(v, seg);
	return v;
}

static void expect(const char *pod, const char *path, const char *want)
{
	cJSON *root = cJSON_Parse(pod), *v = at(root, path);
	char *got = v ? cJSON_PrintUnformatted(v) : strdup("nothing");
	char *wanted = fixture_quotes(want);

	if (strcmp(got, wanted) != 0)
		fail_msg("%s is %s, expected %s", path, got, wanted);
	free(got);
	free(wanted);
	cJSON_Delete(root);
}

TEST(test_what_is_injected)
{
	char *pod = fixture_inject(
		&fix, POD(ON ",'bitfusion-client/filter':'a=b  c'}",
			      "'containers':[{'name':'side','command':['x']},{'name':'a'"
			      ",'command':['python t.py'],"
			      "'resources':{'limits':{'cpu':'2','bitfusion.io/"
			      "gpu-amount':'2','bitfusion.io/gpu-percent':'12500m'},"
			      "'requests':{'cpu':'500m','bitfusion.io/"
			      "gpu-amount':'2','bitfusion.io/gpu-percent':'12500m'}},"
			      "'env':[{'name':'LD_LIBRARY_PATH','value':'/cupti/'}]}]"));

	expect(pod, "spec.containers.1.command",
		"['" FIX_LAUNCHER "','run','-n','2','-p','0.130000','--filter','a=b','--filter','c'"
		",'--','sh','-c','python t.py']");
	expect(pod, "spec.containers.1.resources",
		"{'limits':{'cpu':'2','bitfusion.io/"
		"gpu':26},'requests':{'cpu':'500m','bitfusion.io/gpu':26}}");
	expect(pod, "spec.containers.1.env.0.value", "'" FIX_LIB ":/cupti/'");
	expect(pod, "spec.containers.0", "{'name':'side','command':['x']}");
	expect(pod, "spec.initContainers.0.resources",
		"{'limits':{'cpu':'2'},'requests':{'cpu':'500m'}}");
	expect(pod, "metadata.labels", "{'poolgate.io/injected':'true'}");
	expect(pod, "metadata.annotations.auto-management/status", "'injected'");
	assert_int_equal(fix.mutation.warnings.n, 2);
	free(pod);
}

/* the container's own variable, as JSON; what becomes of env */
static const char *const paths[][2] = {
	{"", "[{'name':'LD_LIBRARY_PATH','value':'" FIX_LIB "'}]"},
	{"'env':[],", "[{'name':'LD_LIBRARY_PATH','value':'" FIX_LIB "'}]"},
	{"'env':[{'name':'LD_LIBRARY_PATH','value':''}],",
		"[{'name':'LD_LIBRARY_PATH','value':'" FIX_LIB "'}]"},
	{"'env':[{'name':'LD_LIBRARY_PATH'}],",
		"[{'name':'LD_LIBRARY_PATH','value':'" FIX_LIB "'}]"},
	{"'env':[{'name':'LD_LIBRARY_PATH','value':'/a:'}],",
		"[{'name':'LD_LIBRARY_PATH','value':'" FIX_LIB ":/a'}]"},
	{"'env':[{'name':'LD_LIBRARY_PATH','value':':/a::/b$(X)'}],",
		"[{'name':'LD_LIBRARY_PATH','value':'" FIX_LIB ":/a:/b$(X)'}]"},
	{"'env':[{'name':'LD_LIBRARY_PATH','value':'/1'},{'name':'LD_LIBRARY_PATH','value':'/2'}],",
		"[{'name':'LD_LIBRARY_PATH','value':'/"
		"1'},{'name':'LD_LIBRARY_PATH','value':'" FIX_LIB ":/2'}]"},
	{"'env':[{'name':'LD_LIBRARY_PATH','valueFrom':{'x':1}},{'name':'Z'}],",
		"[{'valueFrom':{'x':1},'name':'POOLGATE_OWN_LD_LIBRARY_PATH'},"
		"{'name':'LD_LIBRARY_PATH','value':'" FIX_LIB
		":$(POOLGATE_OWN_LD_LIBRARY_PATH)'},{'name':'Z'}]"},
};

#define ENV_POD(env)                                                                               \
	"{'metadata':{'name':'p'," ON "}},'spec':{'containers':[{'name':'a'," env                  \
	"'command':['x']," ONE "}]}}"

TEST(test_library_path)
{
	for (size_t i = 0; i < COUNT(paths); i++) {
		char text[1024], *pod;

		snprintf(text, sizeof(text), ENV_POD("%s"), paths[i][0]);
		pod = fixture_inject(&fix, text);
		expect(pod, "spec.containers.0.env", paths[i][1]);
		free(pod);
	}
}

TEST(test_twice_is_once)
{
	char *once = fixture_inject(&fix, POD(ON "}", APP));

	assert_int_equal(fixture_mutate(&fix, once), 0);
	assert_false(fix.mutation.patched);
	free(once);
}

/* A later hook adds a container that asks: it joins the plan, nothing else changes. */
TEST(test_reinvocation)
{
	char *once, *more, *twice;

	once = fixture_inject(&fix, POD(ON "}", APP));
	more = fixture_apply(once, "[{\"op\":\"add\",\"path\":\"/spec/containers/"
				   "-\",\"value\":{\"name\":\"late\",\"command\":[\"y\"],"
				   "\"resources\":{\"limits\":{\"bitfusion.io/gpu-amount\":1}}}}]");
	twice = fixture_inject(&fix, more);
	expect(twice, "spec.containers.1.command.7", "'y'");
	expect(twice, "spec.containers.0.command.7", "'python'");
	assert_int_equal(fix.mutation.plan.n_containers, 2);
	assert_int_equal(fix.mutation.plan.n_inits, 1);
	expect(twice, "spec.initContainers.1", "nothing");
	expect(twice, "spec.volumes.1", "nothing");
	assert_int_equal(fixture_validate(&fix, twice), 0);
	assert_true(fix.validation.claims);
	assert_int_equal(fix.validation.demand.n_containers, 2);
	free(once);
	free(more);
	free(twice);
}

/* Pods that come back as they were; empty maps and lists of the user's own stay. */
static const char *const round_trips[] = {
	POD(ON "}", APP),
	POD(ON ",'auto-management/status':'odd'},'labels':{'a':'b'}",
		"'initContainers':[{'name':'i','command':['x y'],'env':[]," ONE
		"}],'volumes':[{'name':'v'}],"
		"'containers':[{'name':'a','command':['p','$(X)'],'args':['--'],'volumeMounts':[],'"
		"resources':{'limits':{"
		"'bitfusion.io/gpu-num':'1','bitfusion.io/"
		"gpu-memory':'4G'},'requests':{'cpu':'1'}}}]"),
	POD(ON "}", "'volumes':[],'initContainers':[]," APP),
	ENV_POD("'env':[{'name':'LD_LIBRARY_PATH','value':'/a::'}],"),
	ENV_POD("'env':[{'name':'LD_LIBRARY_PATH'},{'name':'Q','value':'1'}],"),
	ENV_POD("'env':[{'name':'Q'},{'name':'LD_LIBRARY_PATH','valueFrom':{'fieldRef':{'fieldPath'"
		":'x'}}}],"),
	POD(ON ",'poolgate.io/launcher':'lupine'}",
		"'containers':[{'name':'a','image':'x'," ONE "}]"),
	POD(ON ",'poolgate.io/launcher':'juice'}", APP),
};

TEST(test_undo_brings_back)
{
	for (size_t i = 0; i < COUNT(round_trips); i++) {
		char *pod = fixture_inject(&fix, round_trips[i]), *back = fixture_undo(&fix, pod);

		fixture_same(i, "undone", back, round_trips[i]);
		free(back);
		free(pod);
	}
}

/* The injected pod was changed where the plan says that something of ours stands. */
TEST(test_undo_of_another_pod)
{
#define C0 "/spec/containers/0"
#define RES_GPU "bitfusion.io~1gpu"
	static const struct {
		const char *command, *change, *path, *says;
	} rows[] = {
		{"python", "{'op':'remove','path':'" C0 "/resources/limits/" RES_GPU "'}",
			C0 "/resources/limits", "bitfusion.io/gpu is missing"},
		{"python", "{'op':'remove','path':'" C0 "/resources/requests/" RES_GPU "'}",
			C0 "/resources/requests", "bitfusion.io/gpu is missing"},
		{"python", "{'op':'remove','path':'" C0 "/resources'}", C0 "/resources/limits",
			"bitfusion.io/gpu is missing"},
		{"python", "{'op':'remove','path':'" C0 "/command'}", C0 "/command",
			"launcher's words"},
		{"python", "{'op':'replace','path':'" C0 "/command','value':'x'}", C0 "/command",
			"launcher's words"},
		{"python",
			"{'op':'replace','path':'" C0 "/command','value':{'a':1,'b':1,'c':1,"
			"'d':1,'e':1,'f':1,'g':1,'h':1,'i':1,'j':1}}",
			C0 "/command", "launcher's words"},
		/* seven words of the launcher, and sh -c behind them; what they stand in front of
		   is gone */
		{"python", "{'op':'remove','path':'" C0 "/command/7'}", C0 "/command",
			"launcher's words"},
		{"python t.py", "{'op':'remove','path':'" C0 "/command/9'}", C0 "/command",
			"launcher's words"},
		{"python", "{'op':'remove','path':'" C0 "/env'}", C0 "/env", "a variable"},
		{"python", "{'op':'replace','path':'" C0 "/env/0/name','value':'MINE'}", C0 "/env",
			"a variable"},
		{"python", "{'op':'replace','path':'" C0 "/name','value':'b'}", "/spec/containers",
			"a container of the plan is missing"},
		{"python",
			"{'op':'replace','path':'/metadata/annotations/"
			"poolgate.io~1plan','value':'{}'}",
			"/metadata/annotations/poolgate.io~1plan/v", "the plan's version"},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		char text[1024], change[512], *pod, *changed;

		snprintf(text, sizeof(text),
			POD(ON "}", "'containers':[{'name':'a','command':['%s'],'resources':{"
				    "'limits':{'bitfusion.io/gpu-amount':1,"
				    "'bitfusion.io/gpu-percent':50}}}]"),
			rows[i].command);
		snprintf(change, sizeof(change), "[%s]", rows[i].change);
		pod = fixture_inject(&fix, text);
		changed = fixture_change(pod, change);
		fixture_raw(&fix, changed);
		buf_clear(&fix.patch);
		if (mutate_undo(&fix.json, json_root(&fix.json), &fix.scratch, &fix.patch,
			    &fix.mutation, &fix.err) != ERR_INVALID)
			fail_msg("row %zu is taken back: %s", i, changed);
		if (strcmp(fix.err.path, rows[i].path) != 0 || !strstr(fix.err.msg, rows[i].says))
			fail_msg("row %zu: %s: %s", i, fix.err.path, fix.err.msg);
		free(changed);
		free(pod);
	}
#undef C0
#undef RES_GPU
}

/* Where nodes are asked for nothing, what a container asks of its node goes, too, and comes back.
 */
TEST(test_units_where_nodes_are_asked_for_nothing)
{
	static const char text[] =
		POD(ON "}", "'containers':[{'name':'a','command':['x'],'resources':{'limits':{"
			    "'cpu':1,'bitfusion.io/gpu-amount':1,'bitfusion.io/gpu':100},"
			    "'requests':{'bitfusion.io/gpu':100}}}]");
	char *pod, *back;

	fix.config.node_resource_off = true;
	pod = fixture_inject(&fix, text);
	assert_null(strstr(pod, "\"bitfusion.io/gpu\":100}"));
	assert_non_null(strstr(pod, "\"limits\":{\"cpu\":1}"));
	back = fixture_undo(&fix, pod);
	fixture_same(0, "undone", back, text);
	fix.config.node_resource_off = false;
	free(back);
	free(pod);
}

/* What `kubectl apply` of the user's manifest makes of the live pod: command and gpu-amount come
 * back. */
TEST(test_update_restores)
{
	static const char apply[] =
		"[{\"op\":\"replace\",\"path\":\"/spec/containers/0/"
		"command\",\"value\":[\"python\",\"t.py\"]},"
		"{\"op\":\"add\",\"path\":\"/spec/containers/0/resources/limits/"
		"bitfusion.io~1gpu-amount\",\"value\":\"1\"},"
		"{\"op\":\"add\",\"path\":\"/metadata/annotations/note\",\"value\":\"x\"}]";
	static const char replace[] =
		"[{\"op\":\"remove\",\"path\":\"/metadata/labels\"},{\"op\":\"remove\",\"path\":\"/"
		"spec/volumes\"},"
		"{\"op\":\"remove\",\"path\":\"/spec/"
		"initContainers\"},{\"op\":\"remove\",\"path\":\"/spec/containers/0/env\"},"
		"{\"op\":\"remove\",\"path\":\"/spec/containers/0/volumeMounts\"},"
		"{\"op\":\"remove\",\"path\":\"/metadata/annotations/poolgate.io~1plan\"},"
		"{\"op\":\"remove\",\"path\":\"/spec/containers/0/resources/requests\"},"
		"{\"op\":\"remove\",\"path\":\"/spec/containers/0/resources/limits/"
		"bitfusion.io~1gpu\"}]";
	char *live, *applied, *both;

	live = fixture_inject(&fix, POD(ON "}", APP));
	for (int k = 0; k < 2; k++) {
		char *now;

		applied = fixture_apply(live, apply);
		both = k ? fixture_apply(applied, replace) : strdup(applied);
		/* another launcher is configured by now: what counts is the live pod */
		assert_int_equal(fixture_update(&fix, NULL, live, both), 0);
		now = fixture_apply(both, fix.patch.data);
		cJSON *got = cJSON_Parse(now), *want = cJSON_Parse(live);

		cJSON_DeleteItemFromObjectCaseSensitive(at(got, "metadata.annotations"), "note");
		if (!cJSON_Compare(got, want, true))
			fail_msg("%s\nis not\n%s", now, live);
		cJSON_Delete(got);
		cJSON_Delete(want);
		free(now);
		free(applied);
		free(both);
	}
	free(live);
}

/* What is the user's own stays away where he took it away: ours come back all the same. */
TEST(test_update_restores_into_what_is_gone)
{
	static const char *const lists[] = {"spec.volumes", "spec.initContainers",
		"spec.containers.0.env", "spec.containers.0.volumeMounts"};
	static const char replace[] =
		"[{'op':'replace','path':'/spec/containers/0/command','value':['python']},"
		"{'op':'add','path':'/spec/containers/0/resources/limits/bitfusion.io~1gpu-amount',"
		"'value':1},{'op':'remove','path':'/metadata/annotations/poolgate.io~1plan'},"
		"{'op':'remove','path':'/spec/volumes'},{'op':'remove','path':'/spec/"
		"initContainers'},"
		"{'op':'remove','path':'/spec/containers/0/env'},"
		"{'op':'remove','path':'/spec/containers/0/volumeMounts'}]";
	char *live = fixture_inject(&fix,
		POD(ON "}",
			"'volumes':[{'name':'mine','emptyDir':{}},{'name':'more','emptyDir':{}}],"
			"'initContainers':[{'name':'mine','image':'i'}],"
			"'containers':[{'name':'a','command':['python'],'env':[{'name':'MINE','"
			"value':'1'}],"
			"'volumeMounts':[{'name':'mine','mountPath':'/"
			"m'},{'name':'more','mountPath':'/n'}],"
			"'resources':{'limits':{'bitfusion.io/gpu-amount':1}}}]"));
	char *both = fixture_change(live, replace), *now;
	cJSON *got, *was = cJSON_Parse(live);

	assert_int_equal(fixture_update(&fix, NULL, live, both), 0);
	now = fixture_apply(both, fix.patch.data);
	assert_null(strstr(now, "\"mine\""));
	assert_null(strstr(now, "\"MINE\""));
	got = cJSON_Parse(now);
	for (size_t i = 0; i < COUNT(lists); i++) {
		int users = i == 0 || i == 3 ? 2 : 1;

		if (cJSON_GetArraySize(at(got, lists[i])) !=
			cJSON_GetArraySize(at(was, lists[i])) - users)
			fail_msg("%s: %s", lists[i], now);
	}
	cJSON_Delete(got);
	cJSON_Delete(was);
	free(now);
	free(both);
	free(live);
}

TEST(test_update_cannot_change_the_request)
{
	static const char change[] = "[{\"op\":\"add\",\"path\":\"/spec/containers/0/resources/"
				     "limits/bitfusion.io~1gpu-amount\",\"value\":\"2\"}]";
	char *live = fixture_inject(&fix, POD(ON "}", APP)), *now = fixture_apply(live, change);

	assert_int_equal(fixture_update(&fix, NULL, live, now), ERR_REFUSED);
	assert_string_equal(fix.err.reason, "RequestChanged");
	free(now);
	free(live);
}

TEST(test_servers_are_placed)
{
	char *pod = fixture_inject(&fix,
		POD(ON ",'poolgate.io/launcher':'lupine'}", "'containers':[{'name':'a'," ONE "}]"));

	expect(pod, "spec.containers.0.env.0", "{'name':'LUPINE_SERVER','value':'10.0.0.1:14833'}");
	assert_int_equal(fixture_validate(&fix, pod), 0);
	assert_int_equal(fix.validation.demand.n_servers, 1);
	assert_true(fix.validation.demand.whole_servers);
	free(pod);
}

/* Two servers with one GPU each hold two containers, unless the launcher reaches only one of them.
 */
TEST(test_one_server)
{
	static struct gpu gpu[] = {{.id = "gpu-0",
		.model = "T4",
		.bytes = 16000000000ULL,
		.fit = true,
		.fresh = true,
		.why = ""}};
	static struct gpu_server servers[] = {
		{.name = "a", .address = "a:1", .gpus = gpu, .n_gpus = 1},
		{.name = "b", .address = "b:1", .gpus = gpu, .n_gpus = 1, .first_gpu = 1}};
	static const char two[] = POD(ON ",'poolgate.io/launcher':'lupine'}",
		"'containers':[{'name':'a'," ONE "},{'name':'b'," ONE "}]");
	struct inventory inv = {.servers = servers, .n_servers = 2, .n_gpus = 2};
	char *pod;

	assert_int_equal(ledger_memory_set_inventory(fix.ledger, &inv, &fix.err), 0);
	pod = fixture_inject(&fix, two);
	expect(pod, "spec.containers.1.env.0", "{'name':'LUPINE_SERVER','value':'a:1,b:1'}");
	free(pod);
	fix.profiles[2].one_server = true;
	assert_int_equal(fixture_mutate(&fix, two), ERR_REFUSED);
	assert_string_equal(fix.err.reason, "NoCapacity");
	assert_non_null(strstr(fix.err.msg, "one GPU server per pod"));
	pod = fixture_inject(&fix,
		POD(ON ",'poolgate.io/launcher':'lupine'}", "'containers':[{'name':'a'," ONE "}]"));
	expect(pod, "spec.containers.0.env.0", "{'name':'LUPINE_SERVER','value':'a:1'}");
	free(pod);
}

/* Who asks for what can never be is not told to wait for a pool that is full. */
TEST(test_full_pool_hides_no_mistake)
{
	static const struct {
		const char *pod, *says;
	} pods[] = {
		{POD(ON ",'poolgate.io/launcher':'lupine'}",
			 "'containers':[{'name':'a','resources':{'limits':{'bitfusion.io/"
			 "gpu-amount':1,'bitfusion.io/gpu-percent':50}}}]"),
			"ask for whole GPUs"},
		{POD(ON ",'poolgate.io/launcher':'lupine'}",
			 "'containers':[{'name':'a',"
			 "'env':[{'name':'LUPINE_SERVER','value':'mine'}]," ONE "}]"),
			"LUPINE_SERVER"},
	};
	static struct gpu gpu[] = {{.id = "gpu-0", .model = "T4", .bytes = 1, .why = ""}};
	static struct gpu_server servers[] = {
		{.name = "a", .address = "a:1", .gpus = gpu, .n_gpus = 1}};
	struct inventory inv = {.servers = servers, .n_servers = 1, .n_gpus = 1};

	assert_int_equal(ledger_memory_set_inventory(fix.ledger, &inv, &fix.err), 0);
	for (size_t i = 0; i < COUNT(pods); i++) {
		assert_true(fixture_mutate(&fix, pods[i].pod) < 0);
		row_says(pods[i].pod, fix.err.msg, "", pods[i].says);
		err_clear(&fix.err);
	}
	assert_int_equal(fixture_mutate(&fix, POD(ON ",'poolgate.io/launcher':'lupine'}", APP)),
		ERR_REFUSED);
	assert_string_equal(fix.err.reason, "NoServer");
}

/* A client whose image the operator has not set would never start. */
TEST(test_image_that_is_not_set)
{
	static const struct {
		const char *image;
		bool unset;
	} rows[] = {
		{"images.invalid/bitfusion-client:450", true},
		{"images.invalid:5000/a", true},
		{"a.b.invalid/c@sha256:1", true},
		{"registry.example/images.invalid/a", false},
		{"images.invalid.example/a", false},
		{".invalid/a", false},
		{"invalid/a", false},
		{"images.invalid", false},
		{"", false},
	};
	struct profile_init init = {.name = SLICE("populate"), .json = SLICE("{}")};
	struct profile_client client;

	for (size_t i = 0; i < COUNT(rows); i++)
		assert_int_equal(image_is_unset(slice_of(rows[i].image)), rows[i].unset);
	client = fix.profiles[0].clients[0];
	init.image = slice_of(rows[0].image);
	client.inits = &init;
	client.n_inits = 1;
	fix.profiles[0].clients = &client;
	assert_int_equal(fixture_mutate(&fix, POD(ON "}", APP)), ERR_REFUSED);
	assert_string_equal(fix.err.reason, "ImageNotSet");
	assert_non_null(
		strstr(fix.err.msg, "would run the image images.invalid/bitfusion-client:450,"));
	err_clear(&fix.err);
	fix.world.preview = true;
	assert_int_equal(fixture_mutate(&fix, POD(ON "}", APP)), 0);
	assert_true(fix.mutation.patched);
	assert_non_null(
		strstr(fix.mutation.warnings.text[0].at, "would run the image images.invalid"));
}

/* A later hook adds a container that the servers which were chosen cannot hold: said at once, and
 * truly. */
TEST(test_late_container_on_placed_servers)
{
	static const char late[] =
		"[{\"op\":\"add\",\"path\":\"/spec/containers/-\",\"value\":{\"name\":\"late\","
		"\"resources\":{\"limits\":{\"bitfusion.io/gpu-amount\":3}}}}]";
	char *once, *more;

	once = fixture_inject(&fix,
		POD(ON ",'poolgate.io/launcher':'lupine'}", "'containers':[{'name':'a'," ONE "}]"));
	more = fixture_apply(once, late);
	assert_int_equal(fixture_mutate(&fix, more), ERR_REFUSED);
	assert_string_equal(fix.err.reason, "NoCapacity");
	assert_non_null(strstr(fix.err.msg, "added by another hook"));
	free(once);
	free(more);
}

/* Nobody keeps claims where a file is injected: a later container joins the servers all the same.
 */
TEST(test_late_container_where_nobody_keeps_claims)
{
	static const char late[] =
		"[{'op':'add','path':'/spec/containers/-','value':{'name':'late',"
		"'resources':{'limits':{'bitfusion.io/gpu-amount':3}}}}]";
	char *once, *more, *twice;

	once = fixture_inject(&fix,
		POD(ON ",'poolgate.io/launcher':'lupine'}", "'containers':[{'name':'a'," ONE "}]"));
	more = fixture_change(once, late);
	fix.world.ledger = NULL;
	twice = fixture_inject(&fix, more);
	expect(twice, "spec.containers.1.env.0",
		"{'name':'LUPINE_SERVER','value':'10.0.0.1:14833'}");
	assert_int_equal(fix.mutation.plan.n_servers, 1);
	assert_string_equal(arena_strdup(&fix.scratch, fix.mutation.plan.servers[0]), "gpu-01");
	free(twice);
	free(more);
	free(once);
}

/* What else the operator gives an init container stands behind cpu and memory, on each side. */
TEST(test_init_with_other_resources)
{
#define OTHER "'ephemeral-storage':'1Gi'"
	static const struct {
		const char *cpu, *memory, *want, *plain; /* plain: of the side without */
	} rows[] = {
		{NULL, NULL, "{" OTHER "}", "nothing"},
		{"1", NULL, "{'cpu':'1'," OTHER "}", "{'cpu':'1'}"},
		{NULL, "2Gi", "{'memory':'2Gi'," OTHER "}", "{'memory':'2Gi'}"},
		{"1", "2Gi", "{'cpu':'1','memory':'2Gi'," OTHER "}", "{'cpu':'1','memory':'2Gi'}"},
	};
	struct profile_client client = fix.profiles[0].clients[0];
	struct profile_init one = client.inits[0];
	char *other = fixture_quotes(OTHER);

	client.inits = &one;
	fix.profiles[0].clients = &client;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct slice cpu = rows[i].cpu ? slice_of(rows[i].cpu) : (struct slice){0};
		struct slice memory = rows[i].memory ? slice_of(rows[i].memory) : (struct slice){0};
		char *pod;

		one.limit_cpu = one.request_cpu = cpu;
		one.limit_memory = one.request_memory = memory;
		one.other_limits = slice_of(other);
		one.other_requests = (struct slice){0};
		pod = fixture_inject(&fix, POD(ON "}", APP));
		expect(pod, "spec.initContainers.0.resources.limits", rows[i].want);
		expect(pod, "spec.initContainers.0.resources.requests", rows[i].plain);
		free(pod);
		one.other_limits = (struct slice){0};
		one.other_requests = slice_of(other);
		pod = fixture_inject(&fix, POD(ON "}", APP));
		expect(pod, "spec.initContainers.0.resources.requests", rows[i].want);
		expect(pod, "spec.initContainers.0.resources.limits", rows[i].plain);
		free(pod);
	}
	free(other);
#undef OTHER
}

TEST(test_injection_mode_leaves_the_command)
{
	char *pod = fixture_inject(&fix,
		POD("'annotations':{'auto-management/bitfusion':'Injection','bitfusion-client/"
		    "os':'ubuntu18','bitfusion-client/version':'400'}",
			"'containers':[{'name':'a'," ONE "}]"));

	expect(pod, "spec.containers.0.command", "nothing");
	expect(pod, "spec.containers.0.resources.requests", "{'bitfusion.io/gpu':100}");
	assert_int_equal(fix.mutation.plan.containers[0].command, COMMAND_NONE);
	assert_int_equal(fixture_validate(&fix, pod), 0);
	assert_true(fix.validation.claims);
	free(pod);
}

TESTS_BETWEEN(set_up, tear_down, test_verdicts, test_what_is_injected, test_library_path,
	test_twice_is_once, test_reinvocation, test_undo_brings_back, test_undo_of_another_pod,
	test_update_restores, test_update_restores_into_what_is_gone,
	test_update_cannot_change_the_request, test_servers_are_placed, test_one_server,
	test_full_pool_hides_no_mistake, test_image_that_is_not_set,
	test_late_container_on_placed_servers, test_late_container_where_nobody_keeps_claims,
	test_init_with_other_resources, test_injection_mode_leaves_the_command,
	test_units_where_nodes_are_asked_for_nothing)
