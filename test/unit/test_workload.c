/* SPDX-License-Identifier: Apache-2.0 */
/* core/validate/workload: what becomes of the pods that a Deployment, a Job and the like make. */
#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/validate/workload.h"
#include "webhook/edge/pool/ledger_memory.h"

/* kind, object; copies, or -1 when there is no template */
static const struct {
	const char *kind, *object;
	int64_t replicas;
} kinds[] = {
	{"Deployment", "{'spec':{'replicas':3,'template':{}}}", 3},
	{"StatefulSet", "{'spec':{'replicas':0,'template':{}}}", 0},
	{"ReplicaSet", "{'spec':{'template':{}}}", 1},
	{"ReplicationController", "{'spec':{'replicas':2,'template':{}}}", 2},
	{"DaemonSet", "{'spec':{'replicas':7,'template':{}}}", 1},
	{"Job", "{'spec':{'parallelism':4,'completions':9,'template':{}}}", 4},
	{"Job", "{'spec':{'parallelism':null,'template':{}}}", 1},
	{"Job", "{'spec':{'parallelism':-4,'template':{}}}", 1},
	{"Job", "{'spec':{'parallelism':'4','template':{}}}", 1},
	{"CronJob", "{'spec':{'jobTemplate':{'spec':{'parallelism':5,'template':{}}}}}", 5},
	{"PodTemplate", "{'template':{}}", 1},
	{"CronJob", "{'spec':{'template':{}}}", -1},
	{"Deployment", "{'spec':{'template':null}}", -1},
	{"Deployment", "{'spec':{'template':[]}}", -1},
	{"Deployment", "{'spec':7}", -1},
	{"Deployment", "{}", -1},
	{"Pod", "{'spec':{'template':{}}}", -1},
	{"deployment", "{'spec':{'template':{}}}", -1},
	{"ConfigMap", "{'spec':{'template':{}}}", -1},
	{"", "{'spec':{'template':{}}}", -1},
};

static struct fixture fix;

FIXTURES(fixture_init, fixture_release)

TEST(test_kinds)
{
	for (size_t i = 0; i < COUNT(kinds); i++) {
		struct workload w;
		const struct json_node *o = fixture_pod(&fix, kinds[i].object);
		bool is = workload_read(&fix.json, o, slice_of(kinds[i].kind), &w);

		if (is != (kinds[i].replicas >= 0))
			fail_msg("row %zu: %d", i, is);
		if (is && w.replicas != kinds[i].replicas)
			fail_msg("row %zu: %lld", i, (long long)w.replicas);
	}
}

#define JOB(n, annotations, spec)                                                                  \
	"{'spec':{'parallelism':" #n ",'template':{'metadata':{'annotations':{" annotations        \
	"}},'spec':{" spec "}}}}"
#define ON                                                                                         \
	"'auto-management/bitfusion':'all','bitfusion-client/os':'ubuntu18','bitfusion-client/"    \
	"version':'400'"
#define ASKS(n)                                                                                    \
	"'containers':[{'name':'a','command':['x'],'resources':{'limits':{'bitfusion.io/"          \
	"gpu-amount':" #n "}}}]"

/* the pool has two GPUs; a Job; a piece of the one warning, or NULL */
static const struct {
	const char *job, *says;
} rows[] = {
	{JOB(1, "", ASKS(1)), NULL},
	{JOB(1, ON, "'containers':[{'name':'a'}]"), "nothing is injected"},
	{JOB(1, ON, ASKS(1)), NULL},
	{JOB(2, ON, ASKS(1)), NULL},
	{JOB(0, ON, ASKS(3)), NULL},
	{JOB(3, ON, ASKS(1)), "2 of 3 pods would be admitted now"},
	{JOB(100000, ON, ASKS(2)), "1 of 100000 pods"},
	{JOB(1, ON, ASKS(3)), "its pods would be refused now"},
	{JOB(1, ON, ASKS(0)), "its pods would be refused: /spec/containers/0/resources/limits"},
	{JOB(1, ON, "'containers':7"), "its pods would be refused: /spec/containers"},
	{JOB(1, "'auto-management/bitfusion':'all'", ASKS(1)), "not injected: set the annotations"},
	{JOB(1, ON ",'poolgate.io/launcher':'none'", ASKS(1)), "its pods would be refused"},
	{JOB(2, ON ",'poolgate.io/launcher':'lupine'", ASKS(1)), "1 of 2 pods"},
};

static int warn(struct fixture *f, const char *job, const char *namespace, struct warnings *w)
{
	struct workload load;
	const struct json_node *o = fixture_pod(f, job);

	*w = (struct warnings){0};
	assert_true(workload_read(&f->json, o, SLICE("Job"), &load));
	return workload_warn(
		&f->world, &f->json, &load, slice_of(namespace), &f->scratch, w, &f->err);
}

/* Each pod of a workload gets servers of its own, not those that were chosen for the first. */
TEST(test_placed_servers)
{
	static struct gpu gpu[] = {{.id = "gpu-0",
		.model = "T4",
		.bytes = 16000000000ULL,
		.fit = true,
		.fresh = true,
		.why = ""}};
	static struct gpu_server servers[8];
	static const char *const names[COUNT(servers)] = {"a", "b", "c", "d", "e", "f", "g", "h"};
	struct inventory inv = {
		.servers = servers, .n_servers = COUNT(servers), .n_gpus = COUNT(servers)};
	struct warnings w;

	for (size_t i = 0; i < COUNT(servers); i++)
		servers[i] = (struct gpu_server){.name = (char *)names[i],
			.address = "a:1",
			.gpus = gpu,
			.n_gpus = 1,
			.first_gpu = i};
	assert_int_equal(ledger_memory_set_inventory(fix.ledger, &inv, &fix.err), 0);
	for (int whole = 0; whole < 2; whole++) {
		fix.profiles[2].whole_servers = whole == 1;
		assert_int_equal(warn(&fix, JOB(8, ON ",'poolgate.io/launcher':'lupine'", ASKS(1)),
					 "ml", &w),
			0);
		if (w.n)
			fail_msg("%s", w.text[0].at);
		assert_int_equal(warn(&fix, JOB(9, ON ",'poolgate.io/launcher':'lupine'", ASKS(1)),
					 "ml", &w),
			0);
		assert_non_null(strstr(w.text[0].at, "8 of 9 pods would be admitted now"));
	}
}

TEST(test_warnings)
{
	struct warnings w;

	for (size_t i = 0; i < COUNT(rows); i++) {
		assert_int_equal(warn(&fix, rows[i].job, "ml", &w), 0);
		if ((w.n > 0) != (rows[i].says != NULL))
			fail_msg("row %zu warns %zu times: %s", i, w.n, w.n ? w.text[0].at : "");
		/* nothing is cut off: a long refusal goes on in the next warning */
		for (size_t k = 0; k < w.n; k++) {
			assert_true(w.text[k].len <= WARNING_MAX);
			assert_true(k == 0 || slice_starts(w.text[k], SLICE("... ")));
		}
		if (rows[i].says && !strstr(w.text[0].at, rows[i].says))
			fail_msg("row %zu warns %s", i, w.text[0].at);
		assert_int_equal(fix.err.code, 0);
	}
	assert_int_equal(warn(&fix, rows[7].job, "kube-system", &w), 0);
	assert_int_equal(w.n, 0);
	/* without a pool only what can never be right is said */
	fix.world.ledger = NULL;
	assert_int_equal(warn(&fix, rows[7].job, "ml", &w), 0);
	assert_int_equal(w.n, 0);
}

/* two GPUs; what was asked for before, and now; a piece of the one warning, or NULL */
static const struct {
	const char *old, *now, *says;
} updates[] = {
	{JOB(2, ON, ASKS(1)), JOB(2, ON, ASKS(1)), NULL},
	{JOB(9, ON, ASKS(1)), JOB(3, ON, ASKS(1)), NULL},
	{JOB(9, ON, ASKS(1)), JOB(11, ON, ASKS(1)), NULL},
	{JOB(9, ON, ASKS(1)), JOB(12, ON, ASKS(1)), "2 of 3 more pods would be admitted now"},
	{JOB(9, ON, ASKS(1)), JOB(12, ON, ASKS(1)), "2 of 3 more pods would find free GPUs now"},
	{JOB(0, ON, ASKS(1)), JOB(3, ON, ASKS(1)), "2 of 3 pods"},
	{JOB(9, ON, ASKS(3)), JOB(10, ON, ASKS(3)), "its pods would be refused now"},
	/* another template: its pods are new ones */
	{JOB(3, ON, ASKS(2)), JOB(3, ON, ASKS(1)), "2 of 3 pods"},
	{JOB(3, ON ",'a':'b'", ASKS(1)), JOB(3, ON, ASKS(1)), "2 of 3 pods"},
	{"{'spec':{}}", JOB(3, ON, ASKS(1)), "2 of 3 pods"},
};

TEST(test_updates)
{
	for (size_t i = 0; i < COUNT(updates); i++) {
		char text[4096];
		struct workload load;
		struct warnings w = {0};
		const struct json_node *both;

		(void)snprintf(
			text, sizeof(text), "{'old':%s,'now':%s}", updates[i].old, updates[i].now);
		/* where pods wait, it is said what they find now */
		fix.config.late_place = updates[i].says && strstr(updates[i].says, "find");
		both = fixture_pod(&fix, text);
		assert_true(workload_read(
			&fix.json, json_get(&fix.json, both, SLICE("now")), SLICE("Job"), &load));
		workload_was(
			&fix.json, json_get(&fix.json, both, SLICE("old")), SLICE("Job"), &load);
		assert_int_equal(workload_warn(&fix.world, &fix.json, &load, SLICE("ml"),
					 &fix.scratch, &w, &fix.err),
			0);
		if ((w.n > 0) != (updates[i].says != NULL) ||
			(w.n && !strstr(w.text[0].at, updates[i].says)))
			fail_msg("row %zu: %s", i, w.n ? w.text[0].at : "no warning");
	}
}

/* Where pods wait, who applies them hears for what, and what runs meanwhile. The pool has two GPUs.
 */
TEST(test_pods_that_wait)
{
	static const struct {
		const char *job, *says, *then;
	} waits[] = {
		{JOB(2, ON, ASKS(1)), NULL, NULL},
		{JOB(3, ON, ASKS(1)), "2 of 3 pods would find free GPUs now", NULL},
		{JOB(3, ON, ASKS(2)), "1 of 3 pods would find free GPUs now", NULL},
		{JOB(1, ON, ASKS(3)), "its pods would be refused: ", "... "},
		{JOB(3, ON ",'poolgate.io/when-full':'refuse'", ASKS(1)),
			"2 of 3 pods would be admitted now", NULL},
	};
	struct warnings w;

	fix.config.late_place = true;
	for (size_t i = 0; i < COUNT(waits); i++) {
		assert_int_equal(warn(&fix, waits[i].job, "ml", &w), 0);
		if ((w.n > 0) != (waits[i].says != NULL) ||
			(w.n && !strstr(w.text[0].at, waits[i].says)) ||
			(waits[i].then && (w.n < 2 || !strstr(w.text[1].at, waits[i].then))))
			fail_msg("row %zu: %s", i, w.n ? w.text[0].at : "no warning");
	}
	assert_int_equal(warn(&fix,
				 "{'spec':{'activeDeadlineSeconds':60,'parallelism':3,'template':{"
				 "'metadata':{'annotations':{" ON "}},'spec':{" ASKS(1) "}}}}",
				 "ml", &w),
		0);
	assert_int_equal(w.n, 2);
	assert_non_null(strstr(w.text[1].at, "activeDeadlineSeconds runs while"));
}

static bool count(void *ctx, struct slice namespace, struct waiters_count *ret)
{
	const struct waiters_count *n = ctx;

	*ret = *n;
	return slice_is(namespace, "ml");
}

/* And who is before them, where somebody knows it. */
TEST(test_others_that_wait)
{
	struct waiters_count n = {.all = 12, .here = 3};
	struct waiters waiters = {&n, count};
	struct warnings w;

	fix.config.late_place = true;
	fix.world.waiters = &waiters;
	assert_int_equal(warn(&fix, JOB(3, ON, ASKS(1)), "ml", &w), 0);
	assert_int_equal(w.n, 2);
	assert_string_equal(w.text[1].at,
		"12 pods wait for GPUs already, 3 of this namespace: turns go by priority, by what "
		"each namespace holds, and by age");
	n = (struct waiters_count){.all = 1, .more = true};
	assert_int_equal(warn(&fix, JOB(3, ON, ASKS(1)), "ml", &w), 0);
	assert_non_null(strstr(w.text[1].at, "more than 1 pod waits for GPUs already, 0 of"));
	n.all = 0;
	assert_int_equal(warn(&fix, JOB(3, ON, ASKS(1)), "ml", &w), 0);
	assert_int_equal(w.n, 1);
	n.all = 1;
	assert_int_equal(warn(&fix, JOB(3, ON, ASKS(1)), "other", &w), 0);
	assert_int_equal(w.n, 1);
	/* who is refused waits for nobody */
	assert_int_equal(warn(&fix, JOB(1, ON, ASKS(3)), "ml", &w), 0);
	for (size_t i = 0; i < w.n; i++)
		assert_null(strstr(w.text[i].at, "already"));
}

#define GANG(n) ON ",'poolgate.io/gang':'g','poolgate.io/gang-size':'" #n "'"
#define SET(policy, n)                                                                             \
	"{'spec':{'replicas':3," policy                                                            \
	"'template':{'metadata':{'annotations':{" GANG(n) "}},'spec':{" ASKS(1) "}}}}"

/* What keeps a gang from ever being whole, or from starting now. The pool has two GPUs. */
TEST(test_gangs)
{
	static const struct {
		const char *kind, *object, *says;
	} gangs[] = {
		{"Job", JOB(2, GANG(2), ASKS(1)), NULL},
		{"Job", JOB(4, GANG(4), ASKS(1)),
			"2 of the 4 pods of its gang would find free GPUs now; they start together "
			"when all do"},
		{"Job", JOB(2, GANG(2), ASKS(2)), "1 of the 2 pods of its gang would find"},
		{"Job", JOB(4, GANG(2), ASKS(1)), "2 of 4 pods would find free GPUs now"},
		{"Job", JOB(1, GANG(2), ASKS(1)), "it makes 1 of the 2 pods of its gang"},
		{"StatefulSet", SET("", 2), "set podManagementPolicy: Parallel"},
		{"StatefulSet", SET("'podManagementPolicy':'OrderedReady',", 2),
			"set podManagementPolicy: Parallel"},
		{"StatefulSet", SET("'podManagementPolicy':'Parallel',", 2),
			"2 of 3 pods would find free GPUs now"},
		{"StatefulSet", SET("", 1), "2 of 3 pods would find free GPUs now"},
		{"Job", JOB(2, GANG(job), ASKS(1)), NULL},
		{"Job", JOB(4, GANG(job), ASKS(1)), "2 of the 4 pods of its gang would find"},
		{"StatefulSet", SET("'podManagementPolicy':'Parallel',", job),
			"no Job makes them, that could say how many its gang has"},
	};

	fix.config.late_place = true;
	for (size_t i = 0; i < COUNT(gangs); i++) {
		const struct json_node *o = fixture_pod(&fix, gangs[i].object);
		struct warnings w = {0};
		struct workload load;
		bool said;

		err_clear(&fix.err);
		assert_true(workload_read(&fix.json, o, slice_of(gangs[i].kind), &load));
		assert_int_equal(workload_warn(&fix.world, &fix.json, &load, SLICE("ml"),
					 &fix.scratch, &w, &fix.err),
			0);
		said = !gangs[i].says && w.n == 0;
		for (size_t k = 0; k < w.n && gangs[i].says; k++)
			said = said || strstr(w.text[k].at, gangs[i].says);
		if (!said)
			fail_msg("row %zu: %s", i, w.n ? w.text[0].at : "no warning");
	}
}

/* Nothing is free: one warning says that they wait, and why now. What could never be is said
 * otherwise. */
TEST(test_pods_that_wait_for_all_of_it)
{
	struct demand_container all = {.name = SLICE("c"), .amount = 2, .percent = 100};
	struct demand d = {.containers = &all, .n_containers = 1};
	struct claim_ask ask = {.uid = SLICE("u"),
		.namespace = SLICE("ml"),
		.name = SLICE("u"),
		.demand = &d,
		.plan_hash = 5};
	struct claim_answer answer;
	struct warnings w;

	fix.config.late_place = true;
	assert_int_equal(fix.ledger->ops->take(fix.ledger, &ask, &fix.arena, &answer, &fix.err), 0);
	assert_int_equal(warn(&fix, JOB(3, ON, ASKS(1)), "ml", &w), 0);
	for (size_t i = 1; i < w.n; i++)
		assert_null(strstr(w.text[i].at, "its pods would"));
	row_says("full", w.text[0].at, "its pods would wait for their turn now: NoCapacity: asked ",
		"none has that");
	assert_int_equal(warn(&fix, JOB(2, GANG(2), ASKS(1)), "ml", &w), 0);
	row_says("gang", w.text[0].at, "its pods would wait for their turn now: ", "");
	assert_int_equal(warn(&fix, JOB(1, ON, ASKS(3)), "ml", &w), 0);
	row_says("never", w.text[0].at, "its pods would be refused: NoCapacity: asked 3 GPUs", "");
	assert_int_equal(fix.err.code, 0);
}

static int picks(void *ctx, struct slice namespace, struct arena *a, const struct policy **ret,
	struct err *err)
{
	(void)namespace, (void)a, (void)err;
	*ret = ctx;
	return 0;
}

/* Where a policy takes a part of the pods, who writes a workload that leaves it to the policy is
 * told. */
TEST(test_a_policy_that_takes_a_part)
{
	static const struct {
		uint32_t share;
		const char *job, *says;
	} shares[] = {
		{0, JOB(1, "", ASKS(1)), NULL},
		{99, JOB(1, "", ASKS(1)), "the policy \"p\" injects 99 of 100 groups of pods"},
		{100, JOB(1, "", ASKS(1)), NULL},
		{99, JOB(1, ON, ASKS(1)), NULL},
		{99, JOB(1, "'auto-management/bitfusion':'none'", ASKS(1)), NULL},
	};
	struct policy policy = {.name = "p",
		.inject = true,
		.os = "ubuntu18",
		.version = "400",
		.gpus = UINT32_MAX,
		.waiting = UINT32_MAX,
		.bytes = UINT64_MAX};
	const struct policy_source source = {&policy, picks};
	struct warnings w;

	fix.world.policies = &source;
	for (size_t i = 0; i < COUNT(shares); i++) {
		policy.share = shares[i].share;
		assert_int_equal(warn(&fix, shares[i].job, "ml", &w), 0);
		if (w.n != (shares[i].says ? 1U : 0U) ||
			(w.n && !strstr(w.text[0].at, shares[i].says)))
			fail_msg("row %zu warns %zu times: %s", i, w.n, w.n ? w.text[0].at : "");
	}
}

TESTS_BETWEEN(set_up, tear_down, test_a_policy_that_takes_a_part, test_gangs, test_pods_that_wait,
	test_pods_that_wait_for_all_of_it, test_others_that_wait, test_kinds, test_warnings,
	test_placed_servers, test_updates)
