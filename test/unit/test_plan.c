/* SPDX-License-Identifier: Apache-2.0 */
/* core/pod/plan: written, read, and refused when forged. */
#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/pod/plan.h"

ARENA_FIXTURES(1 << 20)

#define HEAD "{'v':1,'profile':'p','hash':'0123456789abcdef','mode':'full'"
#define ONE                                                                                        \
	"{'name':'a','kind':'app','amount':1,'percent':100,'units':100,'command':'wrapped',"       \
	"'argv':7}"
#define PLAN(more) HEAD more ",'containers':[" ONE "]}"
#define WITH(container) HEAD ",'containers':[" container "]}"
#define SHARE(share) "{'name':'a','kind':'app','amount':1," share ",'units':5,'command':'none'}"
#define C(more) "{'name':'a','kind':'app','amount':1,'units':5,'command':'none'" more "}"

#define SLOT(name, slot)                                                                           \
	"{'name':'" name                                                                           \
	"','kind':'app','amount':1,'units':5,'command':'none','percent':1,'slot':" slot "}"

static int read_text(struct arena *a, const char *text, struct plan *p, struct err *err)
{
	char *copy = fixture_quotes(text);
	int rc;

	err_clear(err);
	rc = plan_read(slice_of(copy), a, p, err);
	/* everything is copied */
	memset(copy, 'x', strlen(copy));
	free(copy);
	return rc;
}

/* As they are written, member for member. */
static const char *const whole[] = {
	PLAN(""),
	"{'v':1,'profile':'p','hash':'ffffffffffffffff','mode':'injection','containers':[" SHARE(
		"'percent':5") "]}",
	"{'v':2,'profile':'','hash':'0000000000000000','client':{'os':'o','version':'v'},"
	"'mode':'full','totalMB':1,'nodeResource':false,'filters':['a=b','ü'],'servers':[{'name':'"
	"s','address':'h:1'},"
	"{'name':'t','address':''}],'containers':[" SHARE(
		"'memoryMB':1000000000") ",{'name':'b',"
					 "'kind':'init','amount':10000,'percent':1,'units':10000,'"
					 "command':'shell','argv':8,"
					 "'askedLimits':{'bitfusion.io/"
					 "gpu-amount':1.50,'x':'\\u0031'},'askedRequests':{},"
					 "'env':[{'name':'A'},{'name':'B','was':null},{'name':'C',"
					 "'was':'x\\ny'},{'name':'D',"
					 "'moved':'E'}],'mounts':['/"
					 "m'],'made':['limits','requests','env','volumeMounts']},"
					 "{'name':'c','kind':'restartable','amount':1,'percent':"
					 "100,'units':100,'command':'own'}],"
					 "'initContainers':['i'],'volumes':['v','w'],'made':['"
					 "labels','initContainers','volumes'],"
					 "'statusWas':''}",
	HEAD ",'containers':[" SHARE("'percent':1") "],'ties':{'nodeSelector':{'nvidia.com/a':'b'},"
						    "'nodeAffinity':{'x':[]},'runtimeClassName':"
						    "'nvidia','overhead':{'cpu':'1'},'tolerations'"
						    ":[{'at':0,'was':{}},{'at':7,'was':{'key':'a'}"
						    "}]}}",
	HEAD ",'containers':[" SHARE("'percent':1") "],'ties':{'tolerations':[{'at':1,'was':{}}]}}",
	PLAN(",'late':{'granularity':'server','values':['servers']}"),
	PLAN(",'late':{'granularity':'gpu','oneServer':true,'values':['gpus']}"),
	PLAN(",'late':{'granularity':'gpu','noIPv4':true,'values':['server_host','gpus']}"),
	PLAN(",'late':{'granularity':'gpu','noIPv6':true,'values':['gpu_indexes']}"),
	HEAD
	",'late':{'granularity':'gpu','values':['gpus']},'containers':[" ONE ","
	"{'name':'b','kind':'app','amount':1,'percent':1,'units':1,'command':'none','slot':1}]}",
};

static void round_trip(const char *text)
{
	struct plan p;
	struct err err = {0};
	struct buf out;
	char *quoted = fixture_quotes(text);

	buf_init(&out, 1 << 20);
	if (read_text(&arena, text, &p, &err) < 0)
		fail_msg("%s: %s in %s", err.path, err.msg, quoted);
	plan_write(&p, &out);
	assert_string_equal(out.data, quoted);
	buf_release(&out);
	free(quoted);
}

TEST(test_round_trips)
{
	for (size_t i = 0; i < COUNT(whole); i++)
		round_trip(whole[i]);
}

/* What a mutation writes is what is read. */
TEST(test_what_is_written_is_read)
{
	struct fixture f;
	struct buf once, twice;
	struct plan p;

	fixture_init(&f);
	buf_init(&once, 1 << 16);
	buf_init(&twice, 1 << 16);
	assert_int_equal(
		fixture_mutate(&f,
			"{'metadata':{'labels':{},'annotations':{'auto-management/bitfusion':'on',"
			"'auto-management/status':'odd \\\"','bitfusion-client/os':'ubuntu18',"
			"'bitfusion-client/version':'400','bitfusion-client/filter':'a=b\\\" c'}},"
			"'spec':{'containers':[{'name':'a','command':['x y'],'env':[{'name':"
			"'LD_LIBRARY_PATH','value':'/a\\\"\\\\b'}],'resources':{'limits':{"
			"'bitfusion.io/gpu-amount':1e0,'bitfusion.io/gpu-memory':'4Gi'}}}]}}"),
		0);
	plan_write(&f.mutation.plan, &once);
	assert_int_equal(plan_read(buf_as_slice(&once), &f.scratch, &p, &f.err), 0);
	plan_write(&p, &twice);
	assert_string_equal(once.data, twice.data);
	assert_non_null(plan_container(&p, SLICE("a")));
	assert_null(plan_container(&p, SLICE("b")));
	assert_true(slice_is(p.containers[0].env[0].was, "/a\\\"\\\\b"));
	buf_release(&once);
	buf_release(&twice);
	fixture_release(&f);
}

/* plan; path and a piece of the message */
static const struct {
	const char *text, *path, *says;
} bad[] = {
	{"", "", "at byte 0"},
	{"x", "", "at byte 0"},
	{"7", "", "expected an object"},
	{"[]", "", "expected an object"},
	{"{'v':1}x", "", "at byte 7"},
	{"{'v':1,'v':1}", "", "at byte"},
	{"{}", "/v", "the plan's version"},
	{"{'v':0}", "/v", "in its range"},
	{"{'v':'1'}", "/v", "in its range"},
	{"{'v':1001}", "/v", "in its range"},
	{"{'v':1}", "/profile", "found nothing, expected a string"},
	{"{'v':1,'profile':null}", "/profile", "found null"},
	/* quoted up to the sixtieth byte */
	{"{'v':1,'profile':111111111111111111111111111111111111111111111111111111111111}",
		"/profile",
		"found 111111111111111111111111111111111111111111111111111111111111, expected"},
	{"{'v':1,'profile':1111111111111111111111111111111111111111111111111111111111111}",
		"/profile",
		"found 111111111111111111111111111111111111111111111111111111111111, expected"},
	{"{'v':1,'profile':'p'}", "/hash", "16 hexadecimal digits"},
	{"{'v':1,'profile':'p','hash':'0123456789abcde'}", "/hash", "16 hexadecimal"},
	{"{'v':1,'profile':'p','hash':'0123456789ABCDEF'}", "/hash", "16 hexadecimal"},
	{"{'v':1,'profile':'p','hash':7}", "/hash", "16 hexadecimal"},
	{"{'v':1,'profile':'p','hash':'0123456789abcdef'}", "/mode", "full or injection"},
	{PLAN(",'client':{}"), "/client/os", "a string"},
	{PLAN(",'client':{'os':'o'}"), "/client/version", "a string"},
	{PLAN(",'client':7"), "/client/os", "a string"},
	{PLAN(",'nodeResource':0"), "/nodeResource", "true or false"},
	{PLAN(",'totalMB':0"), "/totalMB", "in its range"},
	{PLAN(",'totalMB':1.5"), "/totalMB", "in its range"},
	{PLAN(",'totalMB':1e10"), "/totalMB", "in its range"},
	{PLAN(",'filters':'a'"), "/filters", "an array"},
	{PLAN(",'filters':['a',7]"), "/filters", "a string"},
	{PLAN(",'servers':{}"), "/servers", "an array"},
	{PLAN(",'servers':[7]"), "/servers/0/name", "a string"},
	{PLAN(",'servers':[{'name':'a','address':'b'},{'name':'c'}]"), "/servers/1/address",
		"a string"},
	{PLAN(",'initContainers':7"), "/initContainers", "an array"},
	{PLAN(",'volumes':[null]"), "/volumes", "a string"},
	{PLAN(",'made':'labels'"), "/made", "an array"},
	{PLAN(",'statusWas':null"), "/statusWas", "a string"},
	{PLAN(",'ties':[]"), "/ties", "an object"},
	{PLAN(",'ties':{'nodeSelector':7}"), "/ties/nodeSelector", "an object"},
	{PLAN(",'ties':{'nodeAffinity':null}"), "/ties/nodeAffinity", "an object"},
	{PLAN(",'ties':{'runtimeClassName':{}}"), "/ties/runtimeClassName", "a string"},
	{PLAN(",'ties':{'overhead':''}"), "/ties/overhead", "an object"},
	{PLAN(",'ties':{'tolerations':{}}"), "/ties/tolerations", "at most 256"},
	{PLAN(",'ties':{'tolerations':[{'was':{}}]}"), "/ties/tolerations", "rising order"},
	{PLAN(",'ties':{'tolerations':[{'at':-1,'was':{}}]}"), "/ties/tolerations", "rising"},
	{PLAN(",'ties':{'tolerations':[{'at':1,'was':7}]}"), "/ties/tolerations", "rising"},
	{PLAN(",'ties':{'tolerations':[{'at':1,'was':{}},{'at':1,'was':{}}]}"), "/ties/tolerations",
		"rising order"},
	{HEAD "}", "/containers", "an array of 1 to 256 containers"},
	{HEAD ",'containers':[]}", "/containers", "an array of 1 to 256"},
	{HEAD ",'containers':{}}", "/containers", "an array of 1 to 256"},
	{WITH("7"), "/containers/0/name", "a string"},
	{WITH("{}"), "/containers/0/name", "a string"},
	{WITH("{'name':'a'}"), "/containers/0/kind", "app, init or restartable"},
	{WITH("{'name':'a','kind':'App'}"), "/containers/0/kind", "app, init or restartable"},
	{WITH("{'name':'a','kind':'app'}"), "/containers/0/command", "none, wrapped"},
	{WITH("{'name':'a','kind':'app','command':'none'}"), "/containers/0",
		"amount and units are missing"},
	{WITH(C("")), "/containers/0", "one of percent and memoryMB"},
	{WITH(C(",'percent':5,'memoryMB':7")), "/containers/0", "one of percent and memoryMB"},
	{WITH(C(",'percent':0")), "/containers/0/percent", "in its range"},
	{WITH(C(",'percent':101")), "/containers/0/percent", "in its range"},
	{WITH(C(",'percent':-1")), "/containers/0/percent", "in its range"},
	{WITH(C(",'percent':null")), "/containers/0/percent", "found null"},
	{WITH(C(",'memoryMB':1e18")), "/containers/0/memoryMB", "in its range"},
	{WITH(C(",'percent':1,'argv':10001")), "/containers/0/argv", "in its range"},
	{WITH(C(",'percent':1,'argv':-1")), "/containers/0/argv", "in its range"},
	{WITH("{'name':'a','kind':'app','command':'none','amount':0,'units':1,'percent':1}"),
		"/containers/0/amount", "in its range"},
	{WITH("{'name':'a','kind':'app','command':'none','amount':10001,'units':1,'percent':1}"),
		"/containers/0/amount", "in its range"},
	{WITH("{'name':'a','kind':'app','command':'none','amount':1,'units':1e17,'percent':1}"),
		"/containers/0/units", "in its range"},
	{WITH(C(",'percent':1,'askedLimits':[]")), "/containers/0/askedLimits", "an object"},
	{WITH(C(",'percent':1,'askedRequests':null")), "/containers/0/askedRequests", "an object"},
	{WITH(C(",'percent':1,'env':{'was':'hunter2'}")), "/containers/0/env",
		"found object, expected an array"},
	{WITH(C(",'percent':1,'env':[{}]")), "/containers/0/env/0/name", "a string"},
	{WITH(C(",'percent':1,'env':[{'name':'n','was':7}]")), "/containers/0/env",
		"a string or null"},
	{WITH(C(",'percent':1,'env':[{'name':'n','moved':7}]")), "/containers/0/env/0/moved",
		"a string"},
	{WITH(C(",'percent':1,'mounts':[7]")), "/containers/0/mounts", "a string"},
	{WITH(C(",'percent':1,'made':7")), "/containers/0/made", "an array"},
	{WITH(C(",'percent':1") "," C(",'percent':2")), "/containers/1/name", "named twice"},
	{WITH(C(",'percent':1") ",{'name':'\\u0061','kind':'init','amount':1,'units':5,'command':"
				"'none','percent':1}"),
		"/containers/1/name", "named twice"},
	{WITH(C(",'percent':1,'mounts':['/a','/b','/a']")), "/containers/0/mounts/2", "twice"},
	{WITH(C(",'percent':1,'env':[{'name':'A','moved':'B'},{'name':'B'}]")),
		"/containers/0/env/1", "twice"},
	{WITH(C(",'percent':1,'env':[{'name':'B'},{'name':'A','moved':'B'}]")),
		"/containers/0/env/1", "twice"},
	{HEAD ",'late':{'granularity':'gpu','values':['gpus']},'containers':[" SLOT(
		 "a", "0") "," SLOT("b", "0") "]}",
		"/containers/1/slot", "another container has the same slot"},
	{HEAD ",'late':{'granularity':'gpu','values':['gpus']},'containers':[" SLOT(
		 "a", "0") "," SLOT("b", "2") "," SLOT("c", "2") "]}",
		"/containers/2/slot", "another container has the same slot"},
	{PLAN(",'volumes':['\\u0061','a']"), "/volumes/1", "twice"},
	{PLAN(",'initContainers':['a','a']"), "/initContainers/1", "twice"},
};

/* A list of n strings, each another, under key. */
static char *long_list(const char *before, const char *key, const char *behind, int n)
{
	struct buf b;

	buf_init(&b, 1 << 16);
	buf_fmt(&b, "%s,'%s':[", before, key);
	for (int i = 0; i < n; i++)
		buf_fmt(&b, "%s'%d'", i ? "," : "", i);
	buf_fmt(&b, "]%s", behind);
	return b.data;
}

/* Whoever may write pods may have written the plan: how much it may name decides what it costs to
 * look for all of it. */
TEST(test_lists_are_bounded)
{
	static const struct {
		const char *before, *key, *behind;
		int most;
	} cases[] = {
		{HEAD, "volumes", ",'containers':[" C(",'percent':1") "]}", 64},
		{HEAD, "initContainers", ",'containers':[" C(",'percent':1") "]}", 64},
		{HEAD, "filters", ",'containers':[" C(",'percent':1") "]}", 64},
		{HEAD ",'containers':[{'name':'a','kind':'app','command':'none','amount':1,'units':"
		      "5,'percent':1",
			"mounts", "}]}", 64},
	};

	for (size_t i = 0; i < COUNT(cases) * 2; i++) {
		int n = cases[i / 2].most + (int)(i % 2);
		char *text =
			long_list(cases[i / 2].before, cases[i / 2].key, cases[i / 2].behind, n);
		struct arena a;
		struct plan p;
		struct err err = {0};

		arena_init(&a, 1 << 20);
		assert_int_equal(read_text(&a, text, &p, &err), i % 2 ? ERR_INVALID : 0);
		if (i % 2)
			assert_non_null(strstr(err.msg, "found 65 elements, expected at most 64"));
		arena_release(&a);
		free(text);
	}
}

TEST(test_bad_plans)
{
	struct err err = {0};

	for (size_t i = 0; i < COUNT(bad); i++) {
		struct plan p = {.version = 77};
		int rc = read_text(&arena, bad[i].text, &p, &err);

		if (rc != ERR_INVALID && rc != ERR_SYNTAX)
			fail_msg("row %zu gives %d", i, rc);
		if (strcmp(err.path, bad[i].path) != 0)
			fail_msg("row %zu: path %s (%s)", i, err.path, err.msg);
		row_says(bad[i].text, err.msg, "", bad[i].says);
		assert_int_equal(p.version, 77);
	}
}

TEST(test_unknown_members_are_a_newer_replicas)
{
	struct plan p;
	struct err err = {0};

	assert_int_equal(
		read_text(&arena,
			"{'new':{'x':[1]},'v':7,'profile':'p','hash':'0123456789abcdef','mode':"
			"'full','made':['more'],'containers':[" C(",'percent':1,'new':null") "]}",
			&p, &err),
		0);
	assert_int_equal(p.version, 7);
	assert_int_equal(p.n_containers, 1);
}

TEST(test_too_big)
{
	struct plan p;
	struct err err = {0};
	struct buf b;

	buf_init(&b, 1 << 20);
	buf_str(&b, HEAD ",'filters':['");
	while (b.len <= PLAN_BYTES_MAX)
		buf_char(&b, 'x');
	buf_str(&b, "'],'containers':[" ONE "]}");
	assert_int_equal(read_text(&arena, b.data, &p, &err), ERR_TOOBIG);
	/* nodes */
	buf_clear(&b);
	buf_str(&b, HEAD ",'filters':[0");
	while (b.len < PLAN_BYTES_MAX - 1000)
		buf_str(&b, ",0");
	buf_str(&b, "],'containers':[" ONE "]}");
	assert_int_equal(read_text(&arena, b.data, &p, &err), ERR_TOOBIG);
	/* containers */
	buf_clear(&b);
	buf_str(&b, HEAD ",'containers':[");
	for (int i = 0; i <= PLAN_CONTAINERS_MAX; i++)
		buf_fmt(&b,
			"%s{'name':'c%d','kind':'app','amount':1,'units':5,'command':'none',"
			"'percent':1}",
			i ? "," : "", i);
	buf_str(&b, "]}");
	assert_int_equal(read_text(&arena, b.data, &p, &err), ERR_INVALID);
	assert_string_equal(err.path, "/containers");
	buf_release(&b);
}

TEST(test_no_memory)
{
	struct err err = {0};
	size_t tried = 0;
	int rc = ERR_NOMEM;

	for (size_t max = 1; rc != 0; max += 37, tried++) {
		struct arena a;
		struct plan p;

		arena_init(&a, max);
		rc = read_text(&a, whole[2], &p, &err);
		assert_true(rc == 0 || rc == ERR_NOMEM);
		arena_release(&a);
	}
	assert_true(tried > 10);
}

TEST(test_demand)
{
	struct arena a;
	struct plan p;
	struct demand d;
	struct err err = {0};

	arena_init(&a, 1 << 20);
	assert_int_equal(read_text(&a, whole[2], &p, &err), 0);
	assert_int_equal(plan_demand(&p, true, &a, &d, &err), 0);
	assert_int_equal(d.n_containers, 3);
	assert_int_equal(d.containers[0].memory_mb, 1000000000);
	assert_int_equal(d.containers[0].percent, 0);
	assert_int_equal(d.containers[1].amount, 10000);
	assert_int_equal(d.containers[1].kind, CONTAINER_INIT);
	assert_int_equal(d.containers[2].kind, CONTAINER_RESTARTABLE);
	assert_int_equal(d.n_filters, 2);
	assert_true(slice_is(d.filters[0].key, "a") && slice_is(d.filters[0].value, "b"));
	assert_null(d.filters[1].key.at);
	assert_int_equal(d.n_servers, 2);
	assert_true(d.whole_servers);
	arena_release(&a);
	arena_init(&a, 1);
	assert_int_equal(plan_demand(&p, true, &a, &d, &err), ERR_NOMEM);
	arena_release(&a);
}

TESTS_BETWEEN(set_up, tear_down, test_round_trips, test_what_is_written_is_read, test_bad_plans,
	test_lists_are_bounded, test_unknown_members_are_a_newer_replicas, test_too_big,
	test_no_memory, test_demand)
