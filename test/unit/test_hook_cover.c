/* SPDX-License-Identifier: Apache-2.0 */
/* test: which Secrets the conditions of the validating hook know. */
#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/launcher/hook_cover.h"

#define HOOK(name, conditions) "{'name':'" name "','matchConditions':[" conditions "]}"
#define CONDITION(text) "{'name':'c','expression':\"" text "\"}"

ARENA_FIXTURES(1 << 20)

/* Single quotes stand for double quotes but in the expressions. */
static const char *conditions_of(const char *text)
{
	char *copy = strdup(text), *padded = NULL;
	const char *got;
	bool inside = false;
	struct json j = {0};

	for (char *c = copy; *c; c++) {
		inside = inside != (*c == '"');
		if (*c == '\'' && !inside)
			*c = '"';
	}
	assert_int_equal(json_read_copy(&j, copy, strlen(copy), 1000, &padded, NULL), 0);
	got = hook_conditions(&j, &arena);
	json_release(&j);
	free(padded);
	free(copy);
	return got;
}

TEST(test_names)
{
	const char *c = "request.x['a'] == '' || v in ['juice-token', 'a.b'] || "
			"v.startsWith('bitfusion-client-secret-') || w in []";

	assert_true(hook_covers(c, SLICE("juice-token")));
	assert_true(hook_covers(c, SLICE("a.b")));
	assert_true(hook_covers(c, SLICE("bitfusion-client-secret-ca.crt")));
	assert_false(hook_covers(c, SLICE("juice-token2")));
	assert_false(hook_covers(c, SLICE("juice")));
	assert_false(hook_covers(c, SLICE("bitfusion-client")));
	assert_false(hook_covers(c, SLICE("")));
	assert_false(hook_covers("'it is not closed", SLICE("it is not closed")));
	assert_false(hook_covers("", SLICE("a")));
}

TEST(test_which_conditions)
{
	const char *c = conditions_of("{'webhooks':[" HOOK(
		"warn.poolgate.io", CONDITION("v == 'w'")) "," HOOK("validate.poolgate.io",
		CONDITION("v == 'a'") "," CONDITION("v == 'b'")) "]}");

	assert_non_null(c);
	assert_true(hook_covers(c, SLICE("a")) && hook_covers(c, SLICE("b")));
	assert_false(hook_covers(c, SLICE("w")));
	assert_null(conditions_of("{'webhooks':[" HOOK("validate.poolgate.io", "") "]}"));
	assert_null(conditions_of("{'webhooks':[]}"));
	/* namespaces that pick a policy have a hook of their own, which has to know it, too */
	c = conditions_of("{'webhooks':[" HOOK("validate-policy.poolgate.io",
		CONDITION("v == 'b' || v == 'c'")) "," HOOK("validate.poolgate.io",
		CONDITION("v in ['a', 'b']")) "]}");
	assert_non_null(c);
	assert_true(hook_covers(c, SLICE("b")));
	assert_false(hook_covers(c, SLICE("a")) || hook_covers(c, SLICE("c")));
	assert_null(conditions_of(
		"{'webhooks':[" HOOK("validate-policy.poolgate.io", CONDITION("v == 'b'")) "]}"));
	assert_null(conditions_of("[1]"));
}

TESTS_BETWEEN(set_up, tear_down, test_names, test_which_conditions)
