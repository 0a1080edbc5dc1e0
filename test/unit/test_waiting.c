/* SPDX-License-Identifier: Apache-2.0 */
/* core: pods that wait for GPUs instead of being refused: who does, what is injected, and what
 * reviews make of it (W1, W2, W4, W10). */
#include <cjson/cJSON.h>

#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/pod/late.h"

static struct fixture fix;

FIXTURE(set_up)
{
	fixture_init(&fix);
	fix.config.late_place = true;
	fix.profiles[2].values = 1u << LATE_SERVERS;
	fix.world.ledger = NULL;
	return 0;
}

FIXTURE(tear_down)
{
	fixture_release(&fix);
	return 0;
}

#define POD_OF(launcher, meta, more, spec)                                                         \
	"{'metadata':{'name':'p'," meta                                                            \
	"'annotations':{'auto-management/bitfusion':'all','poolgate.io/launcher':'" launcher       \
	"'" more "}},'spec':{" spec                                                                \
	"'containers':[{'name':'a','command':['python','t.py'],'resources':{'limits':{"            \
	"'bitfusion.io/gpu-amount':1}}}]}}"
#define POD(meta, more, spec) POD_OF("juice", meta, more, spec)
#define OWNED(is) "'ownerReferences':[{'kind':'Job','name':'j','controller':" is "}],"
#define BY_JOB                                                                                     \
	"'ownerReferences':[{'apiVersion':'batch/v1','kind':'Job','name':'j','uid':'o1',"          \
	"'controller':true}],"
#define SAYS(word) ",'poolgate.io/when-full':'" word "'"
#define GATED "\"schedulingGates\":[{\"name\":\"poolgate.io/capacity\"}]"

/* Who waits, by setting, owner and word. */
TEST(w2_who_waits)
{
	static const struct {
		enum when_full setting;
		const char *pod;
		bool waits;
	} rows[] = {
		{WHEN_FULL_OWNED, POD("", "", ""), false},
		{WHEN_FULL_OWNED, POD(OWNED("true"), "", ""), true},
		{WHEN_FULL_OWNED, POD(OWNED("false"), "", ""), false},
		{WHEN_FULL_OWNED, POD(OWNED("true"), SAYS("refuse"), ""), false},
		{WHEN_FULL_OWNED, POD("", SAYS("wait"), ""), true},
		{WHEN_FULL_WAIT, POD("", "", ""), true},
		{WHEN_FULL_WAIT, POD("", SAYS("refuse"), ""), false},
		{WHEN_FULL_REFUSE, POD(OWNED("true"), "", ""), false},
		{WHEN_FULL_REFUSE, POD("", SAYS("wait"), ""), true},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		char *pod;

		fix.config.when_full = rows[i].setting;
		pod = fixture_inject(&fix, rows[i].pod);
		if ((strstr(pod, GATED) != NULL) != rows[i].waits ||
			(strstr(pod, "\\\"waits\\\":true") != NULL) != rows[i].waits)
			fail_msg("row %zu: %s", i, pod);
		free(pod);
	}
}

/* A template of a Job has no owner yet, and its pods will. */
TEST(w2_a_template_stands_for_owned_pods)
{
	char *pod;

	fix.world.owned = true;
	pod = fixture_inject(&fix, POD("", "", ""));
	assert_non_null(strstr(pod, GATED));
	free(pod);
}

/* Without the component nobody takes gates away: it is told, and is as it was. */
TEST(w0_nobody_waits_without_the_component)
{
	char *pod, *plain;

	fix.config.late_place = false;
	fix.config.when_full = WHEN_FULL_WAIT;
	plain = fixture_inject(&fix, POD(OWNED("true"), "", ""));
	assert_int_equal(fix.mutation.warnings.n, 0);
	assert_null(strstr(plain, "waits"));
	assert_null(strstr(plain, "schedulingGates"));
	pod = fixture_inject(&fix, POD("", SAYS("wait"), ""));
	assert_null(strstr(pod, "schedulingGates"));
	assert_int_equal(fix.mutation.warnings.n, 1);
	free(pod);
	free(plain);
}

/* The API server takes no gate with a node. */
TEST(w10_a_pod_with_a_node_is_refused_when_full)
{
	char *pod = fixture_inject(&fix, POD("", SAYS("wait"), "'nodeName':'n1',"));

	assert_null(strstr(pod, "schedulingGates"));
	assert_int_equal(fix.mutation.warnings.n, 1);
	assert_non_null(strstr(fix.mutation.warnings.text[0].at, "spec.nodeName"));
	free(pod);
	assert_int_equal(
		fixture_mutate(&fix, POD_OF("lupine", "", SAYS("wait"), "'nodeName':'n1',")),
		ERR_INVALID);
	assert_string_equal(fix.err.path, "/spec/nodeName");
}

TEST(w2_a_word_that_is_none)
{
	static const struct {
		const char *word, *meant;
	} rows[] = {{"wat", "did you mean \"wait\"?"}, {"refused", "did you mean \"refuse\"?"},
		{"yes", "expected wait or refuse"}, {"", "expected wait or refuse"}};

	for (size_t i = 0; i < COUNT(rows); i++) {
		char text[1024];

		snprintf(text, sizeof(text), POD("", SAYS("%s"), ""), rows[i].word);
		assert_int_equal(fixture_mutate(&fix, text), ERR_INVALID);
		assert_string_equal(fix.err.path, "/metadata/annotations/poolgate.io~1when-full");
		assert_non_null(strstr(fix.err.msg, rows[i].meant));
		err_clear(&fix.err);
	}
}

static const char *const round_trips[] = {
	POD("", SAYS("wait"), ""),
	POD(OWNED("true"), "", ""),
	POD("", SAYS("wait"), "'schedulingGates':[{'name':'x.io/y'}],"),
	POD_OF("lupine", OWNED("true"), "", ""),
	POD("", ",'poolgate.io/gang':'g','poolgate.io/gang-size':'4'", ""),
	POD_OF("bitfusion", "",
		SAYS("wait") ",'bitfusion-client/os':'ubuntu18','bitfusion-client/version':'400'",
		""),
};

/* What is injected is admitted, reinvoked without a change, and taken back. */
TEST(w2_admitted_and_taken_back)
{
	for (size_t i = 0; i < COUNT(round_trips); i++) {
		char *pod = fixture_inject(&fix, round_trips[i]), *back, *again;

		if (fixture_validate_raw(&fix, pod) < 0)
			fail_msg("row %zu: %s: %s", i, fix.err.path, fix.err.msg);
		assert_true(fix.validation.claims);
		assert_true(fix.validation.plan.waits);
		assert_int_equal(fix.validation.plan.late.values != 0, i == 3);
		buf_clear(&fix.patch);
		assert_int_equal(
			mutate_create(&fix.world, &fix.json, json_root(&fix.json), SLICE("ml"),
				&fix.scratch, &fix.patch, &fix.mutation, &fix.err),
			0);
		again = fix.mutation.patched ? fixture_apply(pod, fix.patch.data) : strdup(pod);
		fixture_same(i, "injected again", again, pod);
		free(again);
		back = fixture_undo(&fix, pod);
		fixture_same(i, "undone", back, round_trips[i]);
		free(back);
		free(pod);
	}
}

/* Neither gate nor plan without the other, nor a node, nor a place that somebody brings along. */
TEST(w4_refused_as_it_was_left)
{
	static const struct {
		const char *change, *path;
	} rows[] = {
		{"[{'op':'remove','path':'/spec/schedulingGates/0'}]", "/spec/schedulingGates"},
		{"[{'op':'add','path':'/spec/nodeName','value':'n'}]", "/spec/nodeName"},
		{"[{'op':'add','path':'/metadata/annotations/poolgate.io~1place','value':'a/b'}]",
			"/metadata/annotations"},
		{"[{'op':'add','path':'/metadata/annotations/poolgate.io~1queued-since','value':'"
		 "2020-01-01T00:00:00Z'}]",
			"/metadata/annotations"},
		{"[{'op':'replace','path':'/metadata/annotations/poolgate.io~1when-full','value':"
		 "'weit'}]",
			"/metadata/annotations/poolgate.io~1when-full"},
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

/* A plan that says so where nobody takes gates away, and one that does not with a gate that nobody
 * would take. */
TEST(w0_a_plan_from_elsewhere)
{
	char *pod = fixture_inject(&fix, round_trips[0]), *gated;

	fix.config.late_place = false;
	assert_int_equal(fixture_validate_raw(&fix, pod), ERR_REFUSED);
	assert_string_equal(fix.err.reason, "PlanMismatch");
	err_clear(&fix.err);
	free(pod);
	fix.config.late_place = true;
	pod = fixture_inject(&fix, POD("", "", ""));
	gated = fixture_change(pod, "[{'op':'add','path':'/spec/"
				    "schedulingGates','value':[{'name':'poolgate.io/capacity'}]}]");
	assert_int_equal(fixture_validate_raw(&fix, gated), ERR_REFUSED);
	assert_string_equal(fix.err.path, "/spec/schedulingGates");
	free(gated);
	free(pod);
}

#define SINCE "\"poolgate.io/queued-since\":\"2026-01-01T00:00:20Z\""

/* What the leader has written goes with what was injected. */
TEST(w7_since_when_is_taken_back)
{
	char *made = fixture_inject(&fix, round_trips[0]), *back;
	char *pod = fixture_change(made,
		"[{'op':'add','path':'/metadata/annotations/poolgate.io~1queued-since','value':'"
		"2026-01-01T00:00:20Z'}]");

	assert_non_null(strstr(pod, SINCE));
	back = fixture_undo(&fix, pod);
	assert_null(strstr(back, "queued-since"));
	free(back);
	free(pod);
	free(made);
}

/* The user's own manifest a second time brings back what stands, and the gate only while it stands.
 */
TEST(w4_applied_again)
{
	char *made = fixture_inject(&fix, round_trips[0]), *open, *users;
	char *pod = fixture_change(made,
		"[{'op':'add','path':'/metadata/annotations/poolgate.io~1queued-since','value':'"
		"2026-01-01T00:00:20Z'}]");

	open = fixture_change(pod, "[{'op':'remove','path':'/spec/schedulingGates'}]");
	users = fixture_quotes(round_trips[0]);
	for (int i = 0; i < 2; i++) {
		const char *live = i ? open : pod;
		char *now;

		assert_int_equal(fixture_update(&fix, &fix.config, live, users), 0);
		now = fixture_apply(users, fix.patch.data);
		assert_int_equal(strstr(now, GATED) != NULL, !i);
		assert_non_null(strstr(now, SINCE));
		free(now);
	}
	free(users);
	free(open);
	free(pod);
	free(made);
}

#define GANG(name, size) ",'poolgate.io/gang':'" name "','poolgate.io/gang-size':'" size "'"
#define IN_PLAN "\\\"waits\\\":true,\\\"gang\\\":\\\"g\\\",\\\"gangSize\\\":4,"

/* Whose pod it is does not matter: members wait for one another. What cannot be is told with what
 * to do. */
TEST(w11_a_gang)
{
	static const struct {
		bool late;
		const char *pod, *path, *says; /* NULL: it is in the plan */
	} rows[] = {
		{true, POD("", GANG("g", "4"), ""), NULL, NULL},
		{true, POD("", GANG("g", "4") SAYS("wait"), ""), NULL, NULL},
		{true, POD_OF("lupine", "", GANG("g", "4"), ""), NULL, NULL},
		{false, POD("", GANG("g", "4"), ""), "/metadata/annotations/poolgate.io~1gang",
			"the operator has to install components/waiting; leave poolgate.io/gang"},
		{true, POD("", GANG("g", "4") SAYS("refuse"), ""),
			"/metadata/annotations/poolgate.io~1when-full",
			"found \"refuse\", and the pods of a gang (poolgate.io/gang) wait for one "
			"another; write wait, or leave it out"},
		{true, POD("", GANG("g", "4"), "'nodeName':'n1',"), "/spec/nodeName",
			"spec.nodeSelector"},
		{true, POD("", GANG("g", "job"), ""),
			"/metadata/annotations/poolgate.io~1gang-size",
			"found \"job\", and no Job made this pod"},
		{true, POD("", ",'poolgate.io/gang':'g'", ""),
			"/metadata/annotations/poolgate.io~1gang-size", "expected how many pods"},
		{true, POD("", ",'poolgate.io/gang-site':'4'", ""), "/metadata/annotations",
			"did you mean \"poolgate.io/gang-size\"?"},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		char *pod;
		int rc;

		fix.config.late_place = rows[i].late;
		if (!rows[i].path) {
			pod = fixture_inject(&fix, rows[i].pod);
			if (!strstr(pod, GATED) || !strstr(pod, IN_PLAN))
				fail_msg("row %zu: %s", i, pod);
			free(pod);
			continue;
		}
		rc = fixture_mutate(&fix, rows[i].pod);
		if (rc != ERR_INVALID || strcmp(fix.err.path, rows[i].path) != 0 ||
			!strstr(fix.err.msg, rows[i].says))
			fail_msg("row %zu: %d %s: %s", i, rc, fix.err.path, fix.err.msg);
		err_clear(&fix.err);
	}
}

/* The leader reads the plan, and people the annotations: they say the same, from the create on. */
TEST(w4_a_gang_that_is_forged)
{
	static const struct {
		const char *change, *path;
	} rows[] = {
		{"[{'op':'replace','path':'/metadata/annotations/poolgate.io~1gang-size','value':"
		 "'1'}]",
			"/metadata/annotations/poolgate.io~1plan"},
		{"[{'op':'replace','path':'/metadata/annotations/poolgate.io~1gang','value':'h'}]",
			"/metadata/annotations/poolgate.io~1plan"},
		{"[{'op':'remove','path':'/metadata/annotations/poolgate.io~1gang'},{'op':'remove',"
		 "'path':'/metadata/annotations/poolgate.io~1gang-size'}]",
			"/metadata/annotations/poolgate.io~1plan"},
		{"[{'op':'remove','path':'/metadata/annotations/poolgate.io~1gang-size'}]",
			"/metadata/annotations/poolgate.io~1gang-size"},
		{"[{'op':'remove','path':'/spec/schedulingGates/0'}]", "/spec/schedulingGates"},
	};
	char *pod = fixture_inject(&fix, POD("", GANG("g", "4"), "")), *changed;

	assert_int_equal(fixture_validate_raw(&fix, pod), 0);
	assert_true(slice_is(fix.validation.plan.gang, "g"));
	assert_int_equal(fix.validation.plan.gang_size, 4);
	for (size_t i = 0; i < COUNT(rows); i++) {
		changed = fixture_change(pod, rows[i].change);
		if (fixture_validate_raw(&fix, changed) == 0 ||
			strcmp(fix.err.path, rows[i].path) != 0)
			fail_msg("row %zu: %s: %s", i, fix.err.path, fix.err.msg);
		err_clear(&fix.err);
		free(changed);
	}
	free(pod);
	/* nor does one become a Job's that none has made */
	pod = fixture_inject(&fix, POD(BY_JOB, GANG("g", "job"), ""));
	assert_non_null(
		strstr(pod, "\\\"waits\\\":true,\\\"gang\\\":\\\"g\\\",\\\"containers\\\""));
	assert_int_equal(fixture_validate_raw(&fix, pod), 0);
	assert_int_equal(fix.validation.plan.gang_size, 0);
	changed = fixture_change(pod, "[{'op':'remove','path':'/metadata/ownerReferences'}]");
	assert_int_equal(fixture_validate_raw(&fix, changed), ERR_REFUSED);
	assert_string_equal(fix.err.reason, "PlanMismatch");
	err_clear(&fix.err);
	free(changed);
	free(pod);
	/* nor does one that comes alone become a gang's */
	pod = fixture_inject(&fix, POD("", SAYS("wait"), ""));
	changed = fixture_change(pod,
		"[{'op':'add','path':'/metadata/annotations/poolgate.io~1gang','value':'g'},{'op':"
		"'add','path':'/metadata/annotations/poolgate.io~1gang-size','value':'1'}]");
	assert_int_equal(fixture_validate_raw(&fix, changed), ERR_REFUSED);
	free(changed);
	free(pod);
}

/* Its client is told no place: the gate alone goes. */
TEST(w3_the_gate_alone)
{
	const struct json_node *pod = fixture_pod(&fix,
		"{'metadata':{'name':'p','uid':'u1','annotations':{}},'spec':{'schedulingGates':["
		"{'name':'poolgate.io/capacity'}]}}");
	struct plan plan = {.waits = true};
	struct buf out;
	char *want = fixture_quotes(
		"[{'op':'test','path':'/metadata/uid','value':'u1'},{'op':'test','path':'/spec/"
		"schedulingGates/0/name','value':'poolgate.io/capacity'},{'op':'remove','path':'/"
		"spec/schedulingGates/0'}]");

	buf_init(&out, 4096);
	assert_true(late_patch(&fix.json, pod, &plan, NULL, &fix.scratch, &out));
	assert_string_equal(out.data, want);
	buf_release(&out);
	free(want);
}

TESTS_BETWEEN(set_up, tear_down, w2_who_waits, w2_a_template_stands_for_owned_pods,
	w0_nobody_waits_without_the_component, w10_a_pod_with_a_node_is_refused_when_full,
	w2_a_word_that_is_none, w2_admitted_and_taken_back, w4_refused_as_it_was_left,
	w0_a_plan_from_elsewhere, w7_since_when_is_taken_back, w4_applied_again, w3_the_gate_alone,
	w11_a_gang, w4_a_gang_that_is_forged)
