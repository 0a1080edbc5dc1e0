/* SPDX-License-Identifier: Apache-2.0 */
/* core/inject_env with validate_plan, undo and reinject: variables that are written for some requests alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "test/unit/core_fixture.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))
#define ON "'auto-management/bitfusion':'all','poolgate.io/launcher':'lupine'"
#define POD(more, env, asks)                                                                       \
	"{'metadata':{'name':'p','annotations':{" ON more "}},'spec':{'containers':[{'name':'a'"   \
	"," env "'resources':{'limits':{'bitfusion.io/gpu-amount':1" asks "}}}]}}"
#define MEMORY ",'bitfusion.io/gpu-memory':'4G'"
#define HALF ",'bitfusion.io/gpu-percent':50"
#define FILTER ",'bitfusion-client/filter':'zone=lab'"

static struct profile_env env[] = {
	{.name = {"ALWAYS", 6}, .value = {"1", 1}},
	{.name = {"LIMIT", 5}, .value = {"{memory_mb}m", 12}, .when = WORD_MEMORY},
	{.name = {"SHARE", 5}, .value = {"{percent}", 9}, .when = WORD_FRACTION},
	{.name = {"SELECT", 6}, .value = {"{filters}", 9}, .when = WORD_ANY_FILTER},
	{.name = {"HINT", 4},
		.value = {"m={memory_gib}", 14},
		.prepend = true,
		.separator = {",", 1},
		.when = WORD_MEMORY},
};

static void init(struct fixture *f)
{
	struct profile *p;

	fixture_init(f);
	p = &f->profiles[2];
	p->env = env;
	p->n_env = LEN(env);
	p->servers_placed = p->whole_servers = false;
	p->can_fraction = p->can_memory = CAN_YES;
}

static cJSON *env_of(const char *pod)
{
	cJSON *root = cJSON_Parse(pod), *at;

	at = cJSON_DetachItemFromObject(
		cJSON_GetArrayItem(
			cJSON_GetObjectItem(cJSON_GetObjectItem(root, "spec"), "containers"), 0),
		"env");
	cJSON_Delete(root);
	assert_non_null(at);
	return at;
}

/* The environment of the injected pod is this, in this order. */
static void expect_env(const char *pod, const char *text)
{
	char *quoted = fixture_quotes(text);
	cJSON *got = env_of(pod), *want = cJSON_Parse(quoted);

	assert_non_null(want);
	if (!cJSON_Compare(got, want, true))
		fail_msg("%s is not %s", cJSON_PrintUnformatted(got), text);
	cJSON_Delete(got);
	cJSON_Delete(want);
	free(quoted);
}

#define VAR(name, value) "{'name':'" name "','value':'" value "'}"

static const struct {
	const char *pod, *env;
} injected[] = {
	{POD("", "", ""), "[" VAR("ALWAYS", "1") "," VAR("SHARE", "100") "]"},
	{POD("", "", HALF), "[" VAR("ALWAYS", "1") "," VAR("SHARE", "50") "]"},
	{POD("", "", MEMORY),
		"[" VAR("ALWAYS", "1") "," VAR("LIMIT", "4000m") "," VAR("HINT", "m=4") "]"},
	{POD(FILTER, "", ""),
		"[" VAR("ALWAYS", "1") "," VAR("SHARE", "100") "," VAR("SELECT", "zone=lab") "]"},
	/* what is not written may be there with any value */
	{POD("", "'env':[" VAR("LIMIT", "x") "," VAR("HINT", "y") "],", ""),
		"[" VAR("LIMIT", "x") "," VAR("HINT", "y") "," VAR("ALWAYS", "1") "," VAR(
			"SHARE", "100") "]"},
	{POD("", "'env':[" VAR("SHARE", "x") "," VAR("HINT", "y") "],", MEMORY),
		"[" VAR("SHARE", "x") "," VAR("HINT", "m=4,y") "," VAR("ALWAYS", "1") "," VAR(
			"LIMIT", "4000m") "]"},
};

/* Injected, admitted, taken back, and restored when the user's manifest is applied again. */
static void test_written_and_taken_back(void **state)
{
	struct fixture f;

	(void)state;
	init(&f);
	for (size_t i = 0; i < LEN(injected); i++) {
		char *pod = fixture_inject(&f, injected[i].pod), *back, *user;
		cJSON *got, *want;

		expect_env(pod, injected[i].env);
		if (fixture_validate(&f, pod) != 0)
			fail_msg("row %zu: %s: %s", i, f.err.path, f.err.msg);
		fixture_raw(&f, pod);
		buf_clear(&f.patch);
		assert_int_equal(mutate_undo(&f.json, json_root(&f.json), &f.scratch, &f.patch,
					 &f.mutation, &f.err),
			0);
		back = fixture_apply(pod, f.patch.data);
		user = fixture_quotes(injected[i].pod);
		got = cJSON_Parse(back);
		want = cJSON_Parse(user);
		if (!cJSON_Compare(got, want, true))
			fail_msg("row %zu: %s", i, back);
		cJSON_Delete(got);
		cJSON_Delete(want);
		free(user);
		free(back);
		free(pod);
	}
	fixture_release(&f);
}

static const struct {
	const char *pod, *change, *path;
} forged[] = {
	{POD("", "", MEMORY), "[{'op':'remove','path':'/spec/containers/0/env/1'}]",
		"/spec/containers/0/env"},
	{POD("", "", MEMORY),
		"[{'op':'replace','path':'/spec/containers/0/env/1/value','value':'9000m'}]",
		"/spec/containers/0/env/1"},
	{POD("", "", HALF),
		"[{'op':'replace','path':'/spec/containers/0/env/1/value','value':'51'}]",
		"/spec/containers/0/env/1"},
	{POD("", "", MEMORY),
		"[{'op':'add','path':'/spec/containers/0/env/-','value':" VAR(
			"LIMIT", "9000m") "}]",
		"/spec/containers/0/env/3"},
};

static void test_changed_behind_us(void **state)
{
	struct fixture f;

	(void)state;
	init(&f);
	for (size_t i = 0; i < LEN(forged); i++) {
		char *pod = fixture_inject(&f, forged[i].pod);
		char *changed = fixture_change(pod, forged[i].change);

		assert_int_equal(fixture_validate(&f, changed), ERR_REFUSED);
		assert_string_equal(f.err.reason, "PlanMismatch");
		assert_string_equal(f.err.path, forged[i].path);
		free(changed);
		free(pod);
	}
	fixture_release(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_written_and_taken_back),
		cmocka_unit_test(test_changed_behind_us),
	};

	return cmocka_run_group_tests_name("inject_env", tests, NULL, NULL) != 0;
}
