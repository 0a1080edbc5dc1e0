/* SPDX-License-Identifier: Apache-2.0 */
/* test: what a GPUPolicy is told in its condition, and no more than once. */
#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/policy/policy_told.h"

#define SPEC(spec)                                                                                 \
	"{'apiVersion':'poolgate.io/v1alpha1','kind':'GPUPolicy','metadata':{'name':'p',"          \
	"'resourceVersion':'7'},'spec':{" spec "},"
#define OBJECT(spec, conditions) SPEC(spec) "'status':{'gpus':3,'conditions':[" conditions "]}}"
#define KEEPS "'accepts':['nvidia.com/gpu'],'ties':'keep'"
#define OTHER "{'type':'Other','status':'Unknown','more':1}"
#define OLD                                                                                        \
	"{'type':'TiesKept','status':'True','reason':'PolicyKeepsTies','message':'in other "       \
	"words','lastTransitionTime':'2026-01-01T00:00:00Z'}"

ARENA_FIXTURES(1 << 20)

/* The patch, malloc'ed; NULL: it is told already. */
static char *told_plain(const char *plain)
{
	char *padded = NULL, *out;
	struct policy p = {0};
	struct json j = {0};
	struct err err = {0};
	struct buf patch;
	bool yes;

	json_init(&j);
	assert_int_equal(json_read_copy(&j, plain, strlen(plain), 1000, &padded, &err), 0);
	assert_int_equal(policy_read(&j, json_root(&j), &arena, &p, &err), 0);
	buf_init(&patch, 1 << 16);
	yes = policy_told(&j, json_root(&j), &p, "2026-11-21T09:30:00Z", &patch);
	assert_false(patch.failed);
	assert_int_equal(yes, patch.len > 0);
	out = buf_take(&patch, NULL);
	buf_release(&patch);
	json_release(&j);
	free(padded);
	if (yes)
		return out;
	free(out);
	return NULL;
}

/* Single quotes stand for double quotes. */
static char *told(const char *text)
{
	char *plain = fixture_quotes(text), *patch = told_plain(plain);

	free(plain);
	return patch;
}

TEST(test_one_that_keeps_ties)
{
	static const char begins[] =
		"{\"metadata\":{\"resourceVersion\":\"7\"},\"status\":{\"conditions\":["
		"{\"type\":\"Other\",\"status\":\"Unknown\",\"more\":1},{\"type\":\"TiesKept\","
		"\"status\":\"True\",\"reason\":\"PolicyKeepsTies\",\"message\":";
	char *patch = told(OBJECT(KEEPS, OTHER)), *spec = fixture_quotes(SPEC(KEEPS));
	struct buf text;

	assert_non_null(patch);
	assert_memory_equal(patch, begins, sizeof(begins) - 1);
	assert_non_null(strstr(patch, "\"lastTransitionTime\":\"2026-11-21T09:30:00Z\"}]}}"));
	/* as it stands then nothing is new */
	buf_init(&text, 1 << 16);
	buf_fmt(&text, "%s%s", spec, strstr(patch, "\"status\":{"));
	assert_null(told_plain(text.data));
	buf_release(&text);
	free(spec);
	free(patch);
	/* another version said it in other words */
	patch = told(OBJECT(KEEPS, OLD));
	assert_non_null(patch);
	assert_null(strstr(patch, "in other words"));
	free(patch);
}

TEST(test_others_are_told_nothing)
{
	char *patch;

	assert_null(told(OBJECT("", OTHER)));
	assert_null(told(OBJECT("'ties':'keep'", OTHER)));
	assert_null(told(OBJECT("'accepts':['nvidia.com/gpu']", OTHER)));
	assert_null(told(OBJECT("'accepts':[],'ties':'keep'", "")));
	/* nor any more */
	patch = told(OBJECT("'accepts':['nvidia.com/gpu'],'ties':'remove'", OLD "," OTHER));
	assert_string_equal(patch,
		"{\"metadata\":{\"resourceVersion\":\"7\"},\"status\":{\"conditions\":["
		"{\"type\":\"Other\",\"status\":\"Unknown\",\"more\":1}]}}");
	free(patch);
}

TESTS_BETWEEN(set_up, tear_down, test_one_that_keeps_ties, test_others_are_told_nothing)
