/* SPDX-License-Identifier: Apache-2.0 */
/* core/pod/late, core/pod/place: a place that comes late: what is injected for it, what reviews
 * make of it, and what the leader writes. */
#include <cjson/cJSON.h>

#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/pod/late.h"

static struct fixture fix;

static struct slice narrow_words[] = {{"/opt/n", 6}, {"--server={server_host}", 22}, {"--gpus", 6},
	{"{gpu_indexes}", 13}, {"--filter={filters}", 18}};
static struct profile_words narrow_argv[] = {{WORD_ALWAYS, narrow_words, 5}};
static struct profile_env narrow_env[] = {{.name = {"LD_LIBRARY_PATH", 15},
	.value = {"/{gpus}", 7},
	.prepend = true,
	.separator = {":", 1}}};

FIXTURE(set_up)
{
	fixture_init(&fix);
	fix.config.late_place = true;
	/* Nobody looks at a pool. */
	fix.world.ledger = NULL;
	fix.profiles[2].values = 1u << LATE_SERVERS;
	fix.profiles[1] = (struct profile){.name = SLICE("narrow"),
		.hash = 0x4a,
		.kind = PROFILE_WRAP,
		.argv = narrow_argv,
		.n_argv = 1,
		.basename = SLICE("n"),
		.shell = SLICE("sh"),
		.env = narrow_env,
		.n_env = 1,
		.clients = fix.profiles[2].clients,
		.n_clients = 1,
		.max_amount = 8,
		.servers_placed = true,
		.one_server = true,
		.needs_late = true,
		.values = 1u << LATE_SERVER_HOST | 1u << LATE_GPUS | 1u << LATE_GPU_INDEXES};
	return 0;
}

FIXTURE(tear_down)
{
	fixture_release(&fix);
	return 0;
}

#define POD(launcher, more, spec)                                                                  \
	"{'metadata':{'name':'p','annotations':{'auto-management/bitfusion':'all','poolgate.io/"   \
	"launcher':'" launcher "'" more "}},'spec':{" spec "}}"
#define ONE "'resources':{'limits':{'bitfusion.io/gpu-amount':1}}"
#define APP "'containers':[{'name':'a','command':['python','t.py']," ONE "}]"
#define TWO                                                                                        \
	"'containers':[{'name':'a','command':['x']," ONE "},{'name':'b','command':['y']," ONE "}]"
#define ADDED(at, name)                                                                            \
	"{'op':'add','path':'/spec/containers/" at "','value':{'name':'" name                      \
	"','command':['z']," ONE "}}"
#define GONE(at) "{'op':'remove','path':'/spec/containers/" at "'}"
#define ENV(list) "'containers':[{'name':'a','command':['python','t.py'],'env':[" list "]," ONE "}]"

static const char *const round_trips[] = {
	POD("lupine", "", APP),
	POD("lupine", "", "'schedulingGates':[{'name':'x.io/y'}]," APP),
	POD("narrow", ",'bitfusion-client/filter':'a=$(POOLGATE_GPUS)'", APP),
	POD("narrow", "",
		ENV("{'name':'Q','value':'1'},{'name':'LD_LIBRARY_PATH','value':'/own'}")),
	POD("narrow", "",
		ENV("{'name':'LD_LIBRARY_PATH','valueFrom':{'fieldRef':{'fieldPath':'x'}}}")),
};

static void must_be(const char *text, const char *want)
{
	char *quotes = fixture_quotes(want);

	if (!strstr(text, quotes))
		fail_msg("%s\nis not in\n%s", quotes, text);
	free(quotes);
}

TEST(test_what_is_rendered)
{
	char *pod = fixture_inject(&fix, round_trips[0]);

	must_be(pod, "'schedulingGates':[{'name':'poolgate.io/capacity'}]");
	assert_non_null(strstr(
		pod, "\"fieldPath\":\"metadata.annotations['poolgate.io/place-0.servers']\"}}}"));
	must_be(pod, "'env':[{'name':'POOLGATE_SERVERS','valueFrom':");
	must_be(pod, "{'name':'LUPINE_SERVER','value':'$(POOLGATE_SERVERS)'}]");
	free(pod);
}

/* Only our own references are the kubelet's to expand, and what they refer to stands in front of
 * them. */
TEST(test_words_and_variables)
{
	char *pod = fixture_inject(&fix, round_trips[2]);

	must_be(pod,
		"'command':['/opt/n','--server=$(POOLGATE_SERVER_HOST)','--gpus','$(POOLGATE_GPU_"
		"INDEXES)','--filter=a=$$(POOLGATE_GPUS)','python','t.py']");
	free(pod);
	pod = fixture_inject(&fix, round_trips[3]);
	must_be(pod, "},{'name':'Q','value':'1'},{'name':'LD_LIBRARY_PATH','value':'/$(POOLGATE_"
		     "GPUS):/own'}]");
	free(pod);
}

TEST(test_admitted_and_taken_back)
{
	for (size_t i = 0; i < COUNT(round_trips); i++) {
		char *pod = fixture_inject(&fix, round_trips[i]), *back;

		if (fixture_validate_raw(&fix, pod) < 0)
			fail_msg("row %zu: %s: %s", i, fix.err.path, fix.err.msg);
		assert_true(fix.validation.claims);
		assert_int_equal(fix.validation.demand.n_servers, 0);
		assert_int_equal(fix.validation.demand.one_server, i > 1);
		assert_int_equal(fix.validation.demand.whole_servers, i < 2);
		back = fixture_undo(&fix, pod);
		fixture_same(i, "undone", back, round_trips[i]);
		free(back);
		free(pod);
	}
}

TEST(test_refused_when_it_comes)
{
	static const struct {
		const char *pod;
		int rc;
		const char *path;
	} rows[] = {
		{POD("lupine", "", "'nodeName':'n1'," APP), ERR_INVALID, "/spec/nodeName"},
		{POD("lupine", "", "'schedulingGates':[{'name':'poolgate.io/capacity'}]," APP),
			ERR_INVALID, "/spec/schedulingGates"},
		{POD("lupine", ",'poolgate.io/place-0.servers':'x'", APP), ERR_INVALID,
			"/metadata/annotations"},
		{POD("lupine", ",'poolgate.io/queued-since':'2020-01-01T00:00:00Z'", APP),
			ERR_INVALID, "/metadata/annotations"},
		{POD("lupine", "", ENV("{'name':'POOLGATE_SERVERS','value':'x'}")), ERR_REFUSED,
			"/spec/containers/0/env"},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		if (fixture_mutate(&fix, rows[i].pod) != rows[i].rc ||
			strcmp(fix.err.path, rows[i].path) != 0)
			fail_msg("row %zu: %s: %s", i, fix.err.path, fix.err.msg);
	}
	fix.config.late_place = false;
	assert_int_equal(fixture_mutate(&fix, round_trips[2]), ERR_REFUSED);
	assert_string_equal(fix.err.reason, "NoLauncher");
}

TEST(test_refused_as_it_was_left)
{
	static const struct {
		const char *change, *path;
	} rows[] = {
		{"[{'op':'remove','path':'/spec/schedulingGates/0'}]", "/spec/schedulingGates"},
		{"[{'op':'add','path':'/spec/nodeName','value':'n'}]", "/spec/nodeName"},
		{"[{'op':'add','path':'/metadata/annotations/"
		 "poolgate.io~1place','value':'gpu-01/gpu-0'}]",
			"/metadata/annotations"},
		{"[{'op':'replace','path':'/spec/containers/0/env/0/valueFrom/fieldRef/"
		 "fieldPath','value':'metadata.name'}]",
			"/spec/containers/0/env"},
		{"[{'op':'add','path':'/spec/containers/0/env/"
		 "0','value':{'name':'POOLGATE_SERVERS','value':'mine:1'}}]",
			"/spec/containers/0/env"},
		{"[{'op':'replace','path':'/spec/containers/0/env/1/value','value':'mine:1'}]",
			"/spec/containers/0/env/1"},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		char *pod = fixture_inject(&fix, round_trips[0]);
		char *changed = fixture_change(pod, rows[i].change);

		if (fixture_validate_raw(&fix, changed) == 0 ||
			strcmp(fix.err.path, rows[i].path) != 0)
			fail_msg("row %zu: %s: %s", i, fix.err.path, fix.err.msg);
		err_clear(&fix.err);
		free(changed);
		free(pod);
	}
}

/* What the leader writes is not brought along, also where the pod is switched off, so that nobody
 * asks what else it says. */
TEST(test_what_the_leader_writes_is_not_brought)
{
	static const char *const keys[] = {
		"poolgate.io~1place", "poolgate.io~1place-0.servers", "poolgate.io~1queued-since"};
	char *pod = fixture_inject(&fix, round_trips[0]), *changed, change[256];

	for (size_t i = 0; i < COUNT(keys); i++)
		for (int off = 0; off < 2; off++) {
			(void)snprintf(change, sizeof(change),
				"[{'op':'%s','path':'/metadata/annotations/"
				"auto-management~1bitfusion',"
				"'value':'all'},{'op':'add','path':'/metadata/annotations/"
				"%s','value':"
				"'x'}]",
				off ? "remove" : "replace", keys[i]);
			changed = fixture_change(pod, change);
			err_clear(&fix.err);
			assert_int_equal(fixture_validate_raw(&fix, changed),
				off ? ERR_REFUSED : ERR_INVALID);
			assert_string_equal(fix.err.path, "/metadata/annotations");
			row_says(keys[i], fix.err.msg,
				off ? "annotations poolgate.io/place" : "found the annotation",
				off ? "were there before" : "poolgate alone writes");
			if (off)
				assert_string_equal(fix.err.reason, "PlanMismatch");
			free(changed);
		}
	/* a key that only begins so is nobody's */
	changed = fixture_change(pod,
		"[{'op':'remove','path':'/metadata/annotations/auto-management~1bitfusion'},{'op':"
		"'add','path':'/metadata/annotations/poolgate.io~1placed','value':'x'}]");
	err_clear(&fix.err);
	assert_int_equal(fixture_validate_raw(&fix, changed), 0);
	free(changed);
	free(pod);
}

/* Nobody but the leader, whose updates the hook does not hear of. */
TEST(test_the_gate_is_ours)
{
	char *pod = fixture_inject(&fix, round_trips[0]);
	char *open = fixture_change(pod, "[{'op':'remove','path':'/spec/schedulingGates'}]");
	const struct json_node *root = fixture_both(&fix, pod, open);
	struct review r;

	r = (struct review){.j = &fix.json,
		.namespace = SLICE("ml"),
		.kind = SLICE("Pod"),
		.resource = SLICE("pods"),
		.operation = OP_UPDATE,
		.object = json_get(&fix.json, root, SLICE("new")),
		.old_object = json_get(&fix.json, root, SLICE("old"))};
	assert_int_equal(validate_update(&fix.world, &r, &fix.scratch, &fix.err), ERR_REFUSED);
	assert_string_equal(fix.err.path, "/spec/schedulingGates");
	free(open);
	free(pod);
}

/* ---- the place ---- */

/* What later hooks make of a pod with the containers a and b, and the numbers that its containers
 * have then, in their order. */
static const struct {
	const char *first, *second, *numbers;
} hooks[] = {
	{NULL, NULL, "a0 b1"},
	{ADDED("0", "c"), NULL, "c2 a0 b1"},
	{ADDED("1", "c"), NULL, "a0 c2 b1"},
	{ADDED("-", "c"), NULL, "a0 b1 c2"},
	{ADDED("0", "d") "," ADDED("-", "c"), NULL, "d2 a0 b1 c3"},
	{ADDED("0", "c"), ADDED("0", "d"), "d3 c2 a0 b1"},
	/* nobody gets the number of one that is gone */
	{GONE("0"), ADDED("-", "c"), "b1 c2"},
	{GONE("1") "," ADDED("-", "c"), NULL, "a0 c2"},
};

/* What becomes of a pod whose paths of fields hold quotes, with another hook's changes, if any. */
static char *hook(char *pod, const char *ops)
{
	char text[512], *changed, *again;

	if (!ops)
		return pod;
	(void)snprintf(text, sizeof(text), "[%s]", ops);
	changed = fixture_change(pod, text);
	buf_clear(&fix.patch);
	if (mutate_create(&fix.world, &fix.json, fixture_raw(&fix, changed), SLICE("ml"),
		    &fix.scratch, &fix.patch, &fix.mutation, &fix.err) < 0)
		fail_msg("%s: %s", fix.err.path, fix.err.msg);
	again = fix.mutation.patched ? fixture_apply(changed, fix.patch.data) : strdup(changed);
	free(changed);
	free(pod);
	return again;
}

/* A place is written under its container's number: that stays, and is nobody else's. */
TEST(test_numbers_of_later_containers)
{
	for (size_t i = 0; i < COUNT(hooks); i++) {
		char *pod = fixture_inject(&fix, POD("lupine", "", TWO)), numbers[64] = "";

		pod = hook(hook(pod, hooks[i].first), hooks[i].second);
		for (size_t k = 0; k < fix.mutation.plan.n_containers; k++) {
			const struct plan_container *c = &fix.mutation.plan.containers[k];
			size_t len = strlen(numbers);

			(void)snprintf(numbers + len, sizeof(numbers) - len, "%s%.*s%u",
				k ? " " : "", (int)c->name.len, c->name.at, c->slot);
		}
		assert_string_equal(numbers, hooks[i].numbers);
		if (fixture_validate_raw(&fix, pod) < 0)
			fail_msg("row %zu: %s: %s", i, fix.err.path, fix.err.msg);
		free(pod);
	}
}

#define GPU(name)                                                                                  \
	{                                                                                          \
		.id = name, .model = "V100", .bytes = 1000, .fit = true, .fresh = true, .why = ""  \
	}

TEST(test_place_of_a_claim)
{
	struct gpu one[] = {GPU("g0"), GPU("g1"), GPU("g2")}, two[] = {GPU("h0"), GPU("h1")};
	struct gpu_server servers[] = {
		{.name = "a", .address = "10.0.0.1:7", .gpus = one, .n_gpus = 3},
		{.name = "b", .address = "[fd::1]:7", .gpus = two, .n_gpus = 2, .first_gpu = 3}};
	struct inventory inv = {.servers = servers, .n_servers = 2, .n_gpus = 5};
	struct plan_container containers[] = {
		{.name = SLICE("x"), .amount = 1, .percent = 50, .slot = 0},
		{.name = SLICE("y"), .amount = 1, .percent = 100, .slot = 4}};
	struct plan plan = {.containers = containers,
		.n_containers = 2,
		.late = {.values = (1u << LATE_VALUES) - 1}};
	const uint64_t held[] = {0, 0, 500, 0, 1000}, none[5] = {0},
		       unlike[][5] = {{1000, 800, 500, 0, 0}, {500, 800, 1000, 0, 0}};
	struct gpu_place place;
	struct buf out;
	const struct json_node *pod;

	one[1].missing = true;
	assert_int_equal(gpu_place_of(&plan, &inv, held, &fix.scratch, &place, &fix.err), 0);
	assert_true(slice_is(place.all, "a/g2,b/h1"));
	assert_true(slice_is(place.containers[0].value[LATE_SERVERS], "10.0.0.1:7"));
	assert_true(slice_is(place.containers[0].value[LATE_GPUS], "g2"));
	assert_true(slice_is(place.containers[0].value[LATE_GPU_INDEXES], "1"));
	assert_true(slice_is(place.containers[1].value[LATE_SERVER_HOST], "fd::1"));
	assert_true(slice_is(place.containers[1].value[LATE_GPUS], "h1"));
	assert_int_equal(
		gpu_place_of(&plan, &inv, none, &fix.scratch, &place, &fix.err), ERR_INVALID);

	/* of several GPUs in their order, whichever is the fullest */
	one[1].missing = false;
	containers[0].amount = 3;
	containers[1].amount = 0;
	for (size_t i = 0; i < COUNT(unlike); i++) {
		assert_int_equal(
			gpu_place_of(&plan, &inv, unlike[i], &fix.scratch, &place, &fix.err), 0);
		assert_true(slice_is(place.containers[0].value[LATE_GPUS], "g0,g1,g2"));
	}
	containers[0].amount = containers[1].amount = 1;
	one[1].missing = true;

	plan.late.whole_servers = true;
	plan.late.values = 1u << LATE_SERVERS;
	pod = fixture_pod(&fix,
		"{'metadata':{'name':'p','uid':'u1','annotations':{}},'spec':{'schedulingGates':["
		"{'name':'x'},{'name':'poolgate.io/capacity'}]}}");
	assert_int_equal(gpu_place_of(&plan, &inv, held, &fix.scratch, &place, &fix.err), 0);
	buf_init(&out, 4096);
	assert_true(late_patch(&fix.json, pod, &plan, &place, &fix.scratch, &out));
	must_be(out.data,
		"[{'op':'test','path':'/metadata/uid','value':'u1'},{'op':'test','path':'/spec/"
		"schedulingGates/1/name','value':'poolgate.io/capacity'},{'op':'add','path':'/"
		"metadata/annotations/poolgate.io~1place','value':'a/g2,b/h1'},{'op':'add','path':"
		"'/metadata/annotations/poolgate.io~1place-0.servers','value':'10.0.0.1:7,[fd::1]:"
		"7'},{'op':'add','path':'/metadata/annotations/poolgate.io~1place-4.servers',"
		"'value':'10.0.0.1:7,[fd::1]:7'},{'op':'remove','path':'/spec/schedulingGates/1'}"
		"]");
	buf_clear(&out);
	pod = fixture_pod(&fix, "{'metadata':{'name':'p','uid':'u1'},'spec':{}}");
	assert_false(late_patch(&fix.json, pod, &plan, &place, &fix.scratch, &out));
	assert_int_equal(out.len, 0);
	buf_release(&out);
}

/* A pod's annotations hold so many bytes of it: those of its claim and of each container together.
 */
TEST(test_place_that_is_too_large)
{
	enum { GPUS = 100, LEN = 489, MORE = 53 };
	static char ids[GPUS][LEN + MORE + 2];
	struct gpu gpus[GPUS];
	struct gpu_server server = {.name = "a", .address = "a:7", .gpus = gpus, .n_gpus = GPUS};
	struct inventory inv = {.servers = &server, .n_servers = 1, .n_gpus = GPUS};
	struct plan_container container = {.name = SLICE("x"), .amount = GPUS, .percent = 100};
	struct plan plan = {.containers = &container,
		.n_containers = 1,
		.late = {.values = 1u << LATE_GPUS, .whole_servers = true}};
	uint64_t held[GPUS];
	struct gpu_place place;

	for (size_t i = 0; i < GPUS; i++) {
		memset(ids[i], 'g', i ? LEN : LEN + MORE);
		gpus[i] = (struct gpu)GPU(ids[i]);
		held[i] = 1000;
	}
	assert_int_equal(gpu_place_of(&plan, &inv, held, &fix.scratch, &place, &fix.err), 0);
	assert_int_equal(place.all.len + place.containers[0].value[LATE_GPUS].len, 96 << 10);
	ids[0][LEN + MORE] = 'g';
	assert_int_equal(
		gpu_place_of(&plan, &inv, held, &fix.scratch, &place, &fix.err), ERR_INVALID);
	row_says("bytes", fix.err.msg, "its place takes more than the 98304 bytes",
		"use fewer servers");
	/* its claim alone */
	for (size_t i = 0; i < GPUS; i++)
		gpus[i].id = ids[0];
	server.name = ids[0];
	plan.late.values = 0;
	assert_int_equal(
		gpu_place_of(&plan, &inv, held, &fix.scratch, &place, &fix.err), ERR_INVALID);
	assert_non_null(strstr(fix.err.msg, "too many GPUs to write them down"));
}

/* A claim of several GPUs of a server names the server once; without memory there is no place. */
TEST(test_servers_of_a_claim)
{
	struct gpu one[] = {GPU("g0"), GPU("g1"), GPU("g2")}, two[] = {GPU("h0"), GPU("h1")};
	struct gpu_server servers[] = {
		{.name = "a", .address = "10.0.0.1:7", .gpus = one, .n_gpus = 3},
		{.name = "b", .address = "[fd::1]:7", .gpus = two, .n_gpus = 2, .first_gpu = 3}};
	struct inventory inv = {.servers = servers, .n_servers = 2, .n_gpus = 5};
	struct plan_container container = {.name = SLICE("x"), .amount = 4, .percent = 100};
	struct plan plan = {.containers = &container,
		.n_containers = 1,
		.late = {.values = 1u << LATE_SERVERS, .whole_servers = true}};
	static const struct {
		uint64_t held[5];
		const char *servers, *all;
	} rows[] = {
		{{1, 1, 1, 1, 1}, "10.0.0.1:7,[fd::1]:7", "a/g0,a/g1,a/g2,b/h0,b/h1"},
		{{1000, 0, 1000, 0, 1000}, "10.0.0.1:7,[fd::1]:7", "a/g0,a/g2,b/h1"},
		{{0, 5, 5, 0, 0}, "10.0.0.1:7", "a/g1,a/g2"},
		{{0, 0, 0, 5, 5}, "[fd::1]:7", "b/h0,b/h1"},
		{{0, 0, 0, 0, 1}, "[fd::1]:7", "b/h1"},
	};
	struct gpu_place place;

	for (size_t i = 0; i < COUNT(rows); i++) {
		assert_int_equal(
			gpu_place_of(&plan, &inv, rows[i].held, &fix.scratch, &place, &fix.err), 0);
		if (!slice_is(place.all, rows[i].all) ||
			!slice_is(place.containers[0].value[LATE_SERVERS], rows[i].servers))
			fail_msg("row %zu: %.*s", i, (int)place.all.len, place.all.at);
		assert_null(place.gates.at);
		/* through gates: each server by a port of the pod's end */
		plan.gate_port = 9000;
		assert_int_equal(
			gpu_place_of(&plan, &inv, rows[i].held, &fix.scratch, &place, &fix.err), 0);
		if (!slice_is(place.gates, rows[i].servers) ||
			!slice_is(place.containers[0].value[LATE_SERVERS],
				strchr(rows[i].servers, ',') ? "127.0.0.1:9000,127.0.0.1:9001"
							     : "127.0.0.1:9000"))
			fail_msg("row %zu: %.*s", i, (int)place.gates.len, place.gates.at);
		plan.gate_port = 0;
	}
	plan.late = (struct plan_late){.values = (1u << LATE_VALUES) - 1};
	for (int n = 1; n <= 2; n++)
		for (int rc = ERR_NOMEM, max = 0; rc != 0; max += 8) {
			struct arena a;

			assert_true(max < 100000);
			inv.n_servers = (size_t)n;
			/* of one, what is known of GPUs takes more than all else */
			inv.n_gpus = n == 1 ? 50 : 5;
			container.amount = (uint32_t)n + 1;
			arena_init(&a, (size_t)max);
			err_clear(&fix.err);
			rc = gpu_place_of(&plan, &inv, rows[1].held, &a, &place, &fix.err);
			assert_true(rc == 0 || rc == ERR_NOMEM);
			if (rc == 0)
				assert_true(slice_is(place.containers[0].value[LATE_GPUS],
					n == 1 ? "g0,g2" : "g0,g2,h1"));
			arena_release(&a);
		}
}

/* A pod's end dials so many servers, and no more. */
TEST(test_servers_behind_gates)
{
	enum { MOST = PROFILE_GATE_SERVERS };
	struct gpu gpu = GPU("g");
	struct gpu_server servers[MOST + 1];
	struct inventory inv = {.servers = servers};
	struct plan_container container = {.name = SLICE("x"), .amount = 1, .percent = 100};
	struct plan plan = {.containers = &container,
		.n_containers = 1,
		.gate_port = 9000,
		.late = {.values = 1u << LATE_SERVERS, .whole_servers = true}};
	uint64_t held[MOST + 1];
	struct gpu_place place;

	for (size_t i = 0; i <= MOST; i++) {
		servers[i] = (struct gpu_server){
			.name = "a", .address = "a:7", .gpus = &gpu, .n_gpus = 1, .first_gpu = i};
		held[i] = 1;
	}
	inv.n_servers = inv.n_gpus = MOST;
	assert_int_equal(gpu_place_of(&plan, &inv, held, &fix.scratch, &place, &fix.err), 0);
	assert_int_equal(place.gates.len, 4 * MOST - 1);
	inv.n_servers = inv.n_gpus = MOST + 1;
	assert_int_equal(
		gpu_place_of(&plan, &inv, held, &fix.scratch, &place, &fix.err), ERR_INVALID);
	row_says("servers", fix.err.msg, "its claim holds GPUs of", "through their gates");
}

TESTS_BETWEEN(set_up, tear_down, test_what_is_rendered, test_numbers_of_later_containers,
	test_words_and_variables, test_admitted_and_taken_back, test_refused_when_it_comes,
	test_refused_as_it_was_left, test_the_gate_is_ours, test_place_of_a_claim,
	test_place_that_is_too_large, test_what_the_leader_writes_is_not_brought,
	test_servers_of_a_claim, test_servers_behind_gates)
