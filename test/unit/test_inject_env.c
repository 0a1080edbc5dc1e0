/* SPDX-License-Identifier: Apache-2.0 */
/* core/inject/inject_env with validate_plan, undo and reinject: variables that are written for some
 * requests alone. */
#include <cjson/cJSON.h>

#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/inject/inject.h"

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
	{.name = {"TOKEN", 5}, .secret = {"juice", 5}, .secret_key = {"key", 3}},
};

static void init(struct fixture *f)
{
	struct profile *p;

	fixture_init(f);
	p = &f->profiles[2];
	p->env = env;
	p->n_env = COUNT(env);
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
#define FROM(secret, key)                                                                          \
	"{'name':'TOKEN','valueFrom':{'secretKeyRef':{'name':'" secret "','key':'" key "'}}}"
#define TOKEN FROM("juice", "key")

static const struct {
	const char *pod, *env;
} injected[] = {
	{POD("", "", ""), "[" VAR("ALWAYS", "1") "," VAR("SHARE", "100") "," TOKEN "]"},
	{POD("", "", HALF), "[" VAR("ALWAYS", "1") "," VAR("SHARE", "50") "," TOKEN "]"},
	{POD("", "", MEMORY), "[" VAR("ALWAYS", "1") "," VAR("LIMIT", "4000m") "," VAR(
				      "HINT", "m=4") "," TOKEN "]"},
	{POD(FILTER, "", ""), "[" VAR("ALWAYS", "1") "," VAR("SHARE", "100") "," VAR(
				      "SELECT", "zone=lab") "," TOKEN "]"},
	/* what is not written may be there with any value */
	{POD("", "'env':[" VAR("LIMIT", "x") "," VAR("HINT", "y") "],", ""),
		"[" VAR("LIMIT", "x") "," VAR("HINT", "y") "," VAR("ALWAYS", "1") "," VAR(
			"SHARE", "100") "," TOKEN "]"},
	{POD("", "'env':[" VAR("SHARE", "x") "," VAR("HINT", "y") "],", MEMORY),
		"[" VAR("SHARE", "x") "," VAR("HINT", "m=4,y") "," VAR("ALWAYS", "1") "," VAR(
			"LIMIT", "4000m") "," TOKEN "]"},
	/* what the container sets itself, just as we would, stays its own */
	{POD("", "'env':[" TOKEN "," VAR("ALWAYS", "1") "],", ""),
		"[" TOKEN "," VAR("ALWAYS", "1") "," VAR("SHARE", "100") "]"},
	{POD("", "'env':[" FROM("j\\u0075ice", "key") "],", ""),
		"[" FROM("juice", "key") "," VAR("ALWAYS", "1") "," VAR("SHARE", "100") "]"},
};

/* Injected, admitted, and taken back. */
TEST(test_written_and_taken_back)
{
	struct fixture f;

	init(&f);
	for (size_t i = 0; i < COUNT(injected); i++) {
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

static const char *const collisions[] = {
	POD("", "'env':[" VAR("ALWAYS", "2") "],", ""),
	POD("", "'env':[{'name':'ALWAYS'}],", ""),
	POD("", "'env':[" VAR("TOKEN", "") "],", ""),
	POD("", "'env':[" VAR("TOKEN", "juice") "],", ""),
	POD("", "'env':[{'name':'TOKEN'}],", ""),
	POD("", "'env':[" FROM("juice", "other") "],", ""),
	POD("", "'env':[" FROM("other", "key") "],", ""),
	POD("",
		"'env':[{'name':'TOKEN','valueFrom':{'configMapKeyRef':{'name':'juice','key':'key'}"
		"}"
		"}],",
		""),
	/* of two with one name the last one counts */
	POD("", "'env':[" TOKEN "," FROM("other", "key") "],", ""),
};

TEST(test_collisions)
{
	struct fixture f;

	init(&f);
	for (size_t i = 0; i < COUNT(collisions); i++) {
		if (fixture_mutate(&f, collisions[i]) != ERR_REFUSED)
			fail_msg("row %zu is not refused", i);
		assert_string_equal(f.err.reason, "EnvCollision");
		assert_non_null(strstr(f.err.path, "/spec/containers/0/env/"));
	}
	fixture_release(&f);
}

/* An update brings the user's manifest without what we added: it comes back from the live pod. */
TEST(test_restored)
{
	struct fixture f;

	init(&f);
	for (size_t i = 0; i < COUNT(injected); i++) {
		char *live = fixture_inject(&f, injected[i].pod), *user, *pod;
		const struct json_node *root;
		struct buf both;

		user = fixture_quotes(injected[i].pod);
		buf_init(&both, 1 << 20);
		buf_fmt(&both, "{\"old\":%s,\"new\":%s}", live, user);
		root = fixture_raw(&f, both.data);
		buf_clear(&f.patch);
		assert_int_equal(mutate_update(NULL, &f.json, json_get(&f.json, root, SLICE("new")),
					 json_get(&f.json, root, SLICE("old")), SLICE("ml"),
					 &f.scratch, &f.patch, &f.mutation, &f.err),
			0);
		pod = fixture_apply(user, f.patch.data);
		expect_env(pod, injected[i].env);
		free(pod);
		free(user);
		buf_release(&both);
		free(live);
	}
	fixture_release(&f);
}

static const struct {
	const char *pod, *change, *path;
} forged[] = {
	{POD("", "", ""), "[{'op':'remove','path':'/spec/containers/0/env/2'}]",
		"/spec/containers/0/env"},
	{POD("", "", ""),
		"[{'op':'replace','path':'/spec/containers/0/env/2','value':" VAR(
			"TOKEN", "x") "}]",
		"/spec/containers/0/env/2"},
	{POD("", "", ""),
		"[{'op':'replace','path':'/spec/containers/0/env/2','value':" FROM(
			"juice", "other") "}]",
		"/spec/containers/0/env/2"},
	{POD("", "", ""),
		"[{'op':'add','path':'/spec/containers/0/env/-','value':" FROM("other", "key") "}]",
		"/spec/containers/0/env/3"},
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
		"/spec/containers/0/env/4"},
};

TEST(test_changed_behind_us)
{
	struct fixture f;

	init(&f);
	for (size_t i = 0; i < COUNT(forged); i++) {
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

/* Elements that are empty, separators of several bytes, and what only begins like one. */
TEST(test_join)
{
	static const struct {
		const char *front, *separator, *value, *want;
	} cases[] = {
		{"/a", ":", "", "/a"},
		{"/a", ":", "/b", "/a:/b"},
		{"/a", ":", ":/b::/c:", "/a:/b:/c"},
		{"/a:", ":", "::", "/a"},
		{"", ":", "", ""},
		{"", ":", "::/b", "/b"},
		{"a", "::", "b:c::::d::", "a::b:c::d"},
		{"a:", "::", ":b", "a::::b"},
		{"a", "aab", "aaabaabc", "aaabaaabc"},
		{"a:", "", ":b", "a::b"},
		{"a", "", "b", "ab"},
		{"", "", "b", "b"},
		{"a", "", "", "a"},
	};
	struct arena a;

	arena_init(&a, 4096);
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct slice got = inject_join(slice_of(cases[i].front),
			slice_of(cases[i].separator), slice_of(cases[i].value), &a);

		assert_int_equal(got.len, strlen(cases[i].want));
		assert_memory_equal(got.at, cases[i].want, got.len);
	}
	arena_release(&a);
}

/* What a value holds that JSON spells otherwise is spelled so, alone and in front of the
 * container's own, and read again as it was. */
TEST(test_values_that_are_escaped)
{
	static struct profile_env odd[] = {
		{.name = {"ODD", 3}, .value = {"\"{percent}\"\n\\", 13}},
		{.name = {"ONLY", 4}, .value = {"\1\2\3", 3}},
		{.name = {"PATHS", 5},
			.value = {"C:\\{percent}", 12},
			.prepend = true,
			.separator = {";", 1}},
	};
	struct fixture f;
	char *pod, *back;

	init(&f);
	f.profiles[2].env = odd;
	f.profiles[2].n_env = COUNT(odd);
	pod = fixture_inject(&f, POD("", "'env':[" VAR("PATHS", "D:\\\\") "],", HALF));
	expect_env(pod,
		"[" VAR("PATHS", "C:\\\\50;D:\\\\") ",{'name':'ODD','value':'\\\"50\\\"\\n\\\\'}"
						    "," VAR("ONLY", "\\u0001\\u0002\\u0003") "]");
	assert_int_equal(fixture_validate_raw(&f, pod), 0);
	back = fixture_undo(&f, pod);
	fixture_same(0, "undone", back, POD("", "'env':[" VAR("PATHS", "D:\\\\") "],", HALF));
	free(back);
	free(pod);
	fixture_release(&f);
}

#define ELSEWHERE(name) "{'name':'" name "','valueFrom':{'fieldRef':{'fieldPath':'metadata.uid'}}}"
#define KEPT(name, value)                                                                          \
	ELSEWHERE("POOLGATE_OWN_" name) "," VAR(name, value "$(POOLGATE_OWN_" name ")")

/* Variables that come from elsewhere are each kept, and ours stands right behind, however they lie
 * to each other. */
TEST(test_several_that_come_from_elsewhere)
{
	static struct profile_env front[] = {
		{.name = {"A", 1}, .value = {"a", 1}, .prepend = true, .separator = {":", 1}},
		{.name = {"B", 1}, .value = {"b", 1}, .prepend = true, .separator = {":", 1}},
		{.name = {"C", 1}, .value = {"c", 1}, .prepend = true, .separator = {":", 1}},
	};
	static const struct {
		const char *pod, *env;
	} rows[] = {
		{POD("", "'env':[" ELSEWHERE("A") "," ELSEWHERE("B") "," ELSEWHERE("C") "],", ""),
			"[" KEPT("A", "a:") "," KEPT("B", "b:") "," KEPT("C", "c:") "]"},
		{POD("", "'env':[" ELSEWHERE("C") "," ELSEWHERE("B") "," ELSEWHERE("A") "],", ""),
			"[" KEPT("C", "c:") "," KEPT("B", "b:") "," KEPT("A", "a:") "]"},
		{POD("", "'env':[" ELSEWHERE("B") "," ELSEWHERE("C") "," ELSEWHERE("A") "],", ""),
			"[" KEPT("B", "b:") "," KEPT("C", "c:") "," KEPT("A", "a:") "]"},
		{POD("",
			 "'env':[" VAR("X", "1") "," VAR("B", "2") "," ELSEWHERE("A") "," VAR(
				 "Y", "3") "," ELSEWHERE("C") "],",
			 ""),
			"[" VAR("X", "1") "," VAR("B", "b:2") "," KEPT("A", "a:") "," VAR(
				"Y", "3") "," KEPT("C", "c:") "]"},
	};
	struct fixture f;

	init(&f);
	f.profiles[2].env = front;
	f.profiles[2].n_env = COUNT(front);
	for (size_t i = 0; i < COUNT(rows); i++) {
		char *pod = fixture_inject(&f, rows[i].pod), *back;

		expect_env(pod, rows[i].env);
		if (fixture_validate_raw(&f, pod) != 0)
			fail_msg("row %zu: %s: %s", i, f.err.path, f.err.msg);
		back = fixture_undo(&f, pod);
		fixture_same(i, "undone", back, rows[i].pod);
		free(back);
		free(pod);
	}
	fixture_release(&f);
}

/* A field of the pod comes as it does from a Secret. */
TEST(test_field)
{
	static struct profile_env field[] = {{.name = {"UID", 3}, .field = {"metadata.uid", 12}}};
	static const struct {
		const char *env;
		bool refused;
	} own[] = {{"'env':[{'name':'UID','valueFrom':{'fieldRef':{'apiVersion':'v1','fieldPath':"
		    "'metadata.uid'}}}],",
			   false},
		{"'env':[{'name':'UID','valueFrom':{'fieldRef':{'fieldPath':'metadata.name'}}}],",
			true},
		{"'env':[" VAR("UID", "metadata.uid") "],", true}};
	char pod_text[512], *pod, *changed;
	struct fixture f;

	init(&f);
	f.profiles[2].env = field;
	f.profiles[2].n_env = 1;
	pod = fixture_inject(&f, POD("", "", ""));
	expect_env(pod, "[{'name':'UID','valueFrom':{'fieldRef':{'fieldPath':'metadata.uid'}}}]");
	assert_int_equal(fixture_validate(&f, pod), 0);
	changed =
		fixture_apply(pod, "[{\"op\":\"replace\",\"path\":\"/spec/containers/0/env/0/"
				   "valueFrom/fieldRef/fieldPath\",\"value\":\"metadata.name\"}]");
	assert_int_equal(fixture_validate(&f, changed), ERR_REFUSED);
	assert_non_null(strstr(f.err.msg, "UID must come from the pod's metadata.uid"));
	free(changed);
	free(pod);
	for (size_t i = 0; i < COUNT(own); i++) {
		(void)snprintf(pod_text, sizeof(pod_text), POD("", "%s", ""), own[i].env);
		assert_int_equal(fixture_mutate(&f, pod_text), own[i].refused ? ERR_REFUSED : 0);
	}
	fixture_release(&f);
}

TESTS(test_field, test_join, test_values_that_are_escaped, test_several_that_come_from_elsewhere,
	test_written_and_taken_back, test_collisions, test_restored, test_changed_behind_us)
