/* SPDX-License-Identifier: Apache-2.0 */
/* test: pods that wait, as the queue reads them. */
#include "webhook/core/pod/queue_read.h"

#include "base/rfc3339.h"
#include "test/unit/core_fixture.h"
#include "test/unit/pool_fixture.h"
#include "test/unit/test.h"

#define META                                                                                       \
	"'metadata':{'uid':'u','namespace':'n','name':'p','creationTimestamp':'2026-01-01T00:00:"  \
	"10Z'"
#define OURS "{'name':'poolgate.io/capacity'}"
#define KUEUE "'labels':{'kueue.x-k8s.io/queue-name':'q'}"

#define GROUP "'kueue.x-k8s.io/pod-group-name':'ring'"
#define COUNT_4 "'kueue.x-k8s.io/pod-group-total-count':'4'"

static struct fixture fix;

FIXTURES(fixture_init, fixture_release)

struct row {
	const char *what, *pod;
	int64_t priority;
	const char *since; /* absent: it cannot be read */
	bool foreign, mark;
	const char *gang;
	uint32_t size;
};

static const struct row rows[] = {
	{"a plain one", "{" META "},'spec':{'schedulingGates':[" OURS "]}}", 0,
		"2026-01-01T00:00:10Z", false, false, NULL, 0},
	{"nothing", "{}", 0, NULL, false, false, NULL, 0},
	{"a class that is listed",
		"{" META "},'spec':{'priorityClassName':'high','priority':1000}}", 1000,
		"2026-01-01T00:00:10Z", false, false, NULL, 0},
	{"one that is not", "{" META "},'spec':{'priorityClassName':'mine','priority':1000}}", 0,
		"2026-01-01T00:00:10Z", false, false, NULL, 0},
	{"a number without a class", "{" META "},'spec':{'priority':1000}}", 0,
		"2026-01-01T00:00:10Z", false, false, NULL, 0},
	{"a class without a number", "{" META "},'spec':{'priorityClassName':'high'}}", 0,
		"2026-01-01T00:00:10Z", false, false, NULL, 0},
	{"one that is below the others",
		"{" META "},'spec':{'priorityClassName':'high','priority':-5}}", -5,
		"2026-01-01T00:00:10Z", false, false, NULL, 0},
	{"a foreign gate", "{" META "},'spec':{'schedulingGates':[" OURS ",{'name':'x/y'}]}}", 0,
		"2026-01-01T00:00:10Z", true, false, NULL, 0},
	{"Kueue's gate stands",
		"{" META "," KUEUE "},'spec':{'schedulingGates':[" OURS
		",{'name':'kueue.x-k8s.io/admission'}]}}",
		0, "2026-01-01T00:00:10Z", true, false, NULL, 0},
	{"Kueue's gate has fallen, nobody has seen when",
		"{" META "," KUEUE "},'spec':{'schedulingGates':[" OURS "]}}", 0,
		"2026-01-01T00:00:10Z", false, true, NULL, 0},
	{"and was seen to",
		"{" META "," KUEUE
		",'annotations':{'poolgate.io/queued-since':'2026-01-01T00:00:20Z'}}}",
		0, "2026-01-01T00:00:20Z", false, false, NULL, 0},
	{"nobody makes himself older",
		"{" META "," KUEUE
		",'annotations':{'poolgate.io/queued-since':'2025-01-01T00:00:20Z'}}}",
		0, "2026-01-01T00:00:10Z", false, false, NULL, 0},
	{"a time that is none",
		"{" META "," KUEUE ",'annotations':{'poolgate.io/queued-since':'today'}}}", 0,
		"2026-01-01T00:00:10Z", false, true, NULL, 0},
	{"without Kueue it says nothing",
		"{" META ",'annotations':{'poolgate.io/queued-since':'2026-01-01T00:00:20Z'}}}", 0,
		"2026-01-01T00:00:10Z", false, false, NULL, 0},
	{"a gang",
		"{" META
		",'annotations':{'poolgate.io/gang':'ring\\u0031','poolgate.io/gang-size':'4'}}}",
		0, "2026-01-01T00:00:10Z", false, false, "ring1", 4},
	{"without a size", "{" META ",'annotations':{'poolgate.io/gang':'ring'}}}", 0,
		"2026-01-01T00:00:10Z", false, false, "ring", 0},
	{"with one that is none",
		"{" META
		",'annotations':{'poolgate.io/gang':'ring','poolgate.io/gang-size':'-4'}}}",
		0, "2026-01-01T00:00:10Z", false, false, "ring", 0},
	{"a group of Kueue's",
		"{" META ",'labels':{" GROUP "},'annotations':{" COUNT_4
		",'poolgate.io/gang-size':'group'}}}",
		0, "2026-01-01T00:00:10Z", false, false, "ring", 4},
	{"one that nobody speaks of",
		"{" META ",'labels':{" GROUP "},'annotations':{" COUNT_4 "}}}", 0,
		"2026-01-01T00:00:10Z", false, false, NULL, 0},
	{"other types",
		"{'metadata':{'uid':7,'annotations':[],'labels':7,'creationTimestamp':7},'spec':{"
		"'schedulingGates':{},'priorityClassName':7,'priority':'x'}}",
		0, NULL, false, false, NULL, 0},
};

TEST(a_pod_that_waits)
{
	static const struct slice names[] = {{"low", 3}, {"high", 4}};
	const struct queue_classes classes = {names, COUNT(names)};

	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct row *r = &rows[i];
		struct queue_pod p = {.claimed = true, .gang_let_go = 3};
		char since[RFC3339_SIZE];
		bool mark;

		print_message("%s\n", r->what);
		assert_true(queue_read(
			&fix.json, fixture_pod(&fix, r->pod), &classes, &fix.scratch, &p, &mark));
		assert_int_equal(p.priority, r->priority);
		assert_int_equal(p.classed, r->priority != 0);
		rfc3339_write(p.since_ms, since);
		assert_string_equal(since, r->since ? r->since : "1970-01-01T00:00:00Z");
		assert_int_equal(p.foreign, r->foreign);
		assert_int_equal(mark, r->mark);
		assert_true(r->gang ? slice_is(p.gang, r->gang) : !p.gang.at);
		assert_int_equal(p.gang_size, r->size);
		assert_int_equal(slice_is(p.uid, "u"), r->since != NULL);
		assert_int_equal(slice_is(p.name, "p"), r->since != NULL);
		assert_int_equal(slice_is(p.namespace, "n"), r->since != NULL);
		assert_true(p.claimed && p.gang_let_go == 3);
	}
}

#define LONG "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

TEST(how_a_gang_is_named)
{
	static const struct {
		const char *annotations, *want; /* NULL: as it must be */
	} all[] = {
		{"", NULL},
		{"'poolgate.io/gang':'g','poolgate.io/gang-size':'1'", NULL},
		{"'poolgate.io/gang':'" LONG "','poolgate.io/gang-size':'4096'", NULL},
		{"'poolgate.io/gang':'" LONG "a','poolgate.io/gang-size':'4'",
			"found a longer one"},
		{"'poolgate.io/gang':'','poolgate.io/gang-size':'4'",
			"found \"\", expected the name"},
		{"'poolgate.io/gang-size':'4'", "found nothing, expected the name"},
		{"'poolgate.io/gang':'g'",
			"found nothing, expected how many pods the gang \"g\" has"},
		{"'poolgate.io/gang':'g','poolgate.io/gang-size':'0'",
			"found \"0\", expected how many"},
		{"'poolgate.io/gang':'g','poolgate.io/gang-size':'4097'", "found \"4097\""},
		{"'poolgate.io/gang':'g','poolgate.io/gang-size':'four'", "found \"four\""},
		{"'poolgate.io/gang':'g','poolgate.io/gang-size':'job'", NULL},
		{"'poolgate.io/gang-size':'group'," COUNT_4 "},'labels':{" GROUP, NULL},
		{"'poolgate.io/gang-size':'group'," COUNT_4,
			"found \"group\", and the pod does not"},
		{"'poolgate.io/gang-size':'group'},'labels':{" GROUP, "found \"group\""},
		{"'poolgate.io/gang-size':'group','kueue.x-k8s.io/pod-group-total-count':'0'},"
		 "'labels':{" GROUP,
			"from 1 to 4096"},
		{"'poolgate.io/gang':'g','poolgate.io/gang-size':'group'," COUNT_4
		 "},'labels':{" GROUP,
			"or group, without poolgate.io/gang"},
		{"'poolgate.io/gang':'g','poolgate.io/gang-size':'Job'",
			"found \"Job\", expected how many pods the gang \"g\" has, from 1 to 4096, "
			"or job"},
	};

	for (size_t i = 0; i < COUNT(all); i++) {
		char text[400];
		struct pod p;
		int rc;

		(void)snprintf(text, sizeof(text), "{'metadata':{'annotations':{%s}}}",
			all[i].annotations);
		pod_glance(&fix.json, fixture_pod(&fix, text), &p);
		err_clear(&fix.err);
		rc = queue_check_gang(&p, &fix.scratch, &fix.err);
		assert_int_equal(rc, all[i].want ? ERR_INVALID : 0);
		if (all[i].want) {
			assert_non_null(strstr(fix.err.msg, all[i].want));
			assert_non_null(
				strstr(fix.err.path, "/metadata/annotations/poolgate.io~1gang"));
		}
	}
}

/* As many pods as the Job has at one time, whatever stands there. */
TEST(how_large_a_job_is)
{
	static const struct {
		const char *spec;
		uint32_t size;
	} all[] = {{"{}", 1}, {"{'parallelism':4}", 4}, {"{'parallelism':4,'completions':9}", 4},
		{"{'parallelism':4,'completions':3}", 3}, {"{'completions':3}", 1},
		{"{'parallelism':0}", 1}, {"{'parallelism':-1}", 1}, {"{'parallelism':'4'}", 1},
		{"{'parallelism':5000}", 4096}, {"7", 1}};
	static const struct {
		const char *owner, *job;
	} made[] = {{"{'apiVersion':'batch/v1','kind':'Job','name':'j','controller':true}", "j"},
		{"{'apiVersion':'batch/v1','kind':'Job','name':'j','controller':false}", NULL},
		{"{'apiVersion':'batch/v2','kind':'Job','name':'j','controller':true}", NULL},
		{"{'apiVersion':'batch/v1','kind':'Jobs','name':'j','controller':true}", NULL}};
	char text[400];

	for (size_t i = 0; i < COUNT(all); i++) {
		(void)snprintf(text, sizeof(text), "{'spec':%s}", all[i].spec);
		assert_int_equal(queue_job_size(&fix.json, fixture_pod(&fix, text)), all[i].size);
	}
	for (size_t i = 0; i < COUNT(made); i++) {
		struct pod p;

		(void)snprintf(
			text, sizeof(text), "{'metadata':{'ownerReferences':[%s]}}", made[i].owner);
		pod_glance(&fix.json, fixture_pod(&fix, text), &p);
		err_clear(&fix.err);
		assert_int_equal(queue_check_job(&p, &fix.err), made[i].job ? 0 : ERR_INVALID);
		assert_true(made[i].job ? slice_is(queue_job_of(&p, &fix.scratch), made[i].job)
					: !queue_job_of(&p, &fix.scratch).at);
	}
}

/* Each differs from all others, and is the same as itself in other words. */
TEST(who_asks_the_same)
{
	static const struct {
		const char *asks, *filters, *servers;
		bool whole;
	} all[] = {
		{"app a 1 100%", NULL, NULL, false},
		{"app a 1 99%", NULL, NULL, false},
		{"app a 1 100", NULL, NULL, false},
		{"app a 2 100%", NULL, NULL, false},
		{"init a 1 100%", NULL, NULL, false},
		{"side a 1 100%", NULL, NULL, false},
		{"app a 1 100%; app b 1 100%", NULL, NULL, false},
		{"app a 1 100%; app c 1 100%", NULL, NULL, false},
		{"app a 1 100%", NULL, NULL, true},
		{"app a 1 100%", "x=y", NULL, false},
		{"app a 1 100%", "x=y z=1", NULL, false},
		{"app a 1 100%", NULL, "x=y", false},
		/* the same letters, parted elsewhere */
		{"app a 1 100%", "a=1 1b=2", NULL, false},
		{"app a 1 100%", "a=11 b=2", NULL, false},
		{"app a 1 100%", NULL, "one two", false},
		{"app a 1 100%", NULL, "onet wo", false},
	};
	const struct json_seed seed = {1, 2}, other = {1, 3};
	uint64_t asks[COUNT(all)];
	struct arena a;

	arena_init(&a, 1u << 20);
	for (size_t i = 0; i < COUNT(all); i++) {
		struct demand d, again;

		demand_init(&d, &a, all[i].asks, all[i].filters, all[i].servers, all[i].whole);
		demand_init(&again, &a, all[i].asks, all[i].filters, all[i].servers, all[i].whole);
		if (d.n_containers == 1)
			again.containers[0].name = SLICE("other");
		asks[i] = queue_asks(&d, seed);
		assert_true(asks[i] != 0 && asks[i] != queue_asks(&d, other));
		assert_true(asks[i] == queue_asks(&again, seed));
		for (size_t k = 0; k < i; k++)
			assert_true(asks[i] != asks[k]);
	}
	arena_release(&a);
}

TESTS_BETWEEN(set_up, tear_down, a_pod_that_waits, how_a_gang_is_named, how_large_a_job_is,
	who_asks_the_same)
