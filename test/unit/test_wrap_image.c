/* SPDX-License-Identifier: Apache-2.0 */
/* core/inject/wrap_image: a container whose program only its image knows, from the pod to the plan
 * and back. */
#include <cjson/cJSON.h>

#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/inject/wrap.h"
#include "webhook/core/pod/plan.h"

#define DIGEST "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define POD(more)                                                                                  \
	"{'metadata':{'name':'p','annotations':{'auto-management/bitfusion':'all',"                \
	"'bitfusion-client/os':'ubuntu18','bitfusion-client/version':'400'" JUICE "}},"            \
	"'spec':{'containers':[{'name':'a','image':'r.x/a:1','resources':{'limits':{"              \
	"'bitfusion.io/gpu-amount':1}}" more "}]}}"
#define JUICE ""

static struct fixture fix;
static struct slice entrypoint[3], cmd[3];
static struct image_start start;
static bool allowed;
static int rc;
static unsigned looks;

static bool allows(void *ctx, struct slice image)
{
	(void)ctx;
	assert_true(slice_is(image, "r.x/a:1"));
	return allowed;
}

static int look(void *ctx, const struct image_ask *ask, struct arena *a, struct image_start *ret,
	struct err *err)
{
	(void)ctx, (void)a;
	looks++;
	assert_true(slice_is(ask->image, "r.x/a:1") && slice_is(ask->namespace, "ml"));
	assert_non_null(ask->pod->spec);
	*ret = start;
	return rc ? err_set(err, (enum err_code)rc, "its registry is asleep") : 0;
}

static const struct image_source source = {NULL, allows, look};

FIXTURE(set_up)
{
	fixture_init(&fix);
	fix.world.images = &source;
	allowed = true;
	rc = 0;
	looks = 0;
	entrypoint[0] = SLICE("/entry");
	entrypoint[1] = SLICE("$(A) $$ $");
	cmd[0] = SLICE("x");
	start = (struct image_start){.digest = SLICE(DIGEST),
		.entrypoint = entrypoint,
		.n_entrypoint = 2,
		.cmd = cmd,
		.n_cmd = 1};
	return 0;
}

FIXTURE(tear_down)
{
	fixture_release(&fix);
	return 0;
}

static int mutate(const char *text)
{
	const struct json_node *pod = fixture_pod(&fix, text);

	buf_clear(&fix.patch);
	fix.err = (struct err){0};
	return mutate_create(&fix.world, &fix.json, pod, SLICE("ml"), &fix.scratch, &fix.patch,
		&fix.mutation, &fix.err);
}

static bool patch_has(const char *single)
{
	char *text = fixture_quotes(single);
	bool found = fix.patch.data && strstr(fix.patch.data, text);

	free(text);
	return found;
}

TEST(the_image_s_words_stand_behind_the_launcher_s)
{
	const struct plan_container *c;

	assert_int_equal(mutate(POD("")), 0);
	assert_true(patch_has(
		"'op':'add','path':'/spec/containers/0/command','value':['" FIX_LAUNCHER "'"));
	assert_true(patch_has("'--','/entry','$$(A) $$$$ $$','x']"));
	c = &fix.mutation.plan.containers[0];
	assert_true(slice_is(c->image, DIGEST));
	assert_int_equal(c->image_words, 3);
	assert_int_equal(c->command, COMMAND_WRAPPED);
	assert_true(patch_has("\\\"image\\\":{\\\"digest\\\":\\\"" DIGEST "\\\",\\\"words\\\":3}"));
}

TEST(args_take_the_place_of_cmd)
{
	assert_int_equal(mutate(POD(",'args':['y']")), 0);
	assert_true(patch_has("'/entry','$$(A) $$$$ $$']"));
	assert_int_equal(fix.mutation.plan.containers[0].image_words, 2);
	assert_int_equal(mutate(POD(",'args':[],'command':null")), 0);
	assert_int_equal(fix.mutation.plan.containers[0].image_words, 3);
}

TEST(a_command_needs_no_image)
{
	assert_int_equal(mutate(POD(",'command':['x']")), 0);
	assert_int_equal(mutate(POD(",'command':7")), ERR_INVALID);
	assert_int_equal(looks, 0);
}

TEST(what_is_not_known_is_refused_as_before_or_with_the_reason)
{
	allowed = false;
	assert_int_equal(mutate(POD("")), ERR_INVALID);
	assert_non_null(strstr(fix.err.msg, "the container has no command, so the program"));
	assert_int_equal(looks, 0);
	allowed = true;
	rc = ERR_REFUSED;
	assert_int_equal(mutate(POD("")), ERR_REFUSED);
	assert_string_equal(fix.err.reason, "ImageUnknown");
	assert_string_equal(fix.err.path, "/spec/containers/0/command");
	assert_non_null(
		strstr(fix.err.msg, "its registry is asleep; write the image's ENTRYPOINT"));
	rc = ERR_TIMEOUT;
	assert_int_equal(mutate(POD("")), ERR_TIMEOUT);
	rc = ERR_NOMEM;
	assert_int_equal(mutate(POD("")), ERR_NOMEM);
}

TEST(images_that_start_nothing_or_the_launcher)
{
	start.n_entrypoint = start.n_cmd = 0;
	assert_int_equal(mutate(POD("")), ERR_INVALID);
	assert_non_null(strstr(fix.err.msg, "neither ENTRYPOINT nor CMD"));
	start.n_cmd = 1;
	assert_int_equal(mutate(POD("")), 0);
	assert_int_equal(mutate(POD(",'args':['y']")), ERR_INVALID);
	assert_non_null(strstr(fix.err.msg, "write the args as command"));
	cmd[0] = SLICE("/x/bitfusion run -n 8 y");
	assert_int_equal(mutate(POD("")), ERR_INVALID);
	entrypoint[0] = SLICE("bash");
	entrypoint[1] = SLICE("-c");
	start.n_entrypoint = 2;
	assert_int_equal(mutate(POD(",'args':['exec bitfusion run y']")), ERR_INVALID);
	assert_non_null(strstr(fix.err.msg, "starts the launcher"));
	assert_int_equal(mutate(POD(",'args':['echo bitfusion']")), 0);
}

#undef JUICE
#define JUICE ",'poolgate.io/launcher':'juice'"
TEST(without_a_separator_no_option_comes_first)
{
	entrypoint[0] = SLICE("-x");
	assert_int_equal(mutate(POD("")), ERR_INVALID);
	assert_non_null(strstr(fix.err.msg, "begins with '-'"));
	entrypoint[0] = SLICE("");
	assert_int_equal(mutate(POD("")), 0);
}
#undef JUICE
#define JUICE ""

#define SET(key, value) "{'op':'add','path':'/spec/containers/0/" key "','value':" value "}"
#define GONE(key) "{'op':'remove','path':'/spec/containers/0/" key "'}"
#define ASKS SET("resources", "{'limits':{'bitfusion.io/gpu-amount':1}}")
#define WORDS "'" FIX_LAUNCHER "','run','-n','1','-p','1.000000','--','/entry','$$(A) $$$$ $$'"
#define MOVED(more) SET("command", "['/bin/env']") "," SET("args", "['T=1'," WORDS more "]")

/* The pod's args, what another hook makes of the injected pod, and what the user applies; does the
 * live pod come back? */
static const struct {
	const char *pod, *hook, *user;
	bool same;
} updates[] = {
	{POD(""), "", GONE("command"), true},
	{POD(""), "", SET("command", "null"), true},
	{POD(",'args':[]"), "", GONE("command"), true},
	{POD(",'args':['y']"), "", GONE("command"), true},
	/* no arguments, in other words */
	{POD(""), "", GONE("command") "," SET("args", "[]"), true},
	{POD(",'args':[]"), "", GONE("command") "," GONE("args"), true},
	{POD(",'args':[]"), "", GONE("command") "," SET("args", "null"), true},
	/* all of it is arguments of another program */
	{POD(""), MOVED(",'x'"), GONE("command") "," GONE("args"), true},
	{POD(",'args':['y']"), MOVED(",'y'"), GONE("command") "," SET("args", "['y']"), true},
	{POD(",'args':['y','z']"), MOVED(",'y','z'"), GONE("command") "," SET("args", "['y','z']"),
		true},
	{POD(",'args':['y']"), MOVED(",'y'"), GONE("command"), true},
	/* other arguments, or another command: the API server's to refuse */
	{POD(",'args':['y']"), "", GONE("command") "," SET("args", "['z']"), false},
	/* the image's last word is none of them */
	{POD(",'args':['y']"), "", GONE("command") "," SET("args", "['$$(A) $$$$ $$','y']"), false},
	{POD(",'args':['y']"), "", SET("command", "['y']"), false},
	{POD(",'args':['y']"), "", SET("command", "7"), false},
	{POD(",'args':['y']"), MOVED(",'y'"), GONE("command") "," SET("args", "['z']"), false},
	{POD(",'args':['y']"), MOVED(",'y'"), GONE("command") "," SET("args", "['x','y']"), false},
	{POD(",'args':['y']"), MOVED(",'y'"),
		GONE("command") "," SET("args", "['1','2','3','4','5','6','7','8','9','10','11',"
						"'12','13']"),
		false},
};

TEST(an_update_brings_the_image_s_words_back)
{
	for (size_t i = 0; i < COUNT(updates); i++) {
		char *plain = fixture_quotes(updates[i].pod), *made, *live, *now, *after;
		char hook[512], user[512];
		cJSON *got, *want;

		(void)snprintf(hook, sizeof(hook), "[%s]", updates[i].hook);
		(void)snprintf(user, sizeof(user), "[%s," ASKS "]", updates[i].user);
		assert_int_equal(mutate(updates[i].pod), 0);
		made = fixture_apply(plain, fix.patch.data);
		live = fixture_change(made, hook);
		now = fixture_change(live, user);
		if (fixture_update(&fix, &fix.config, live, now) != 0)
			fail_msg("row %zu: %s", i, fix.err.msg);
		after = fixture_apply(now, fix.mutation.patched ? fix.patch.data : "[]");
		got = fixture_tree(after);
		want = fixture_tree(live);
		if (cJSON_Compare(got, want, true) != updates[i].same)
			fail_msg("row %zu: %s\nfrom\n%s", i, after, live);
		cJSON_Delete(got);
		cJSON_Delete(want);
		free(after);
		free(now);
		free(live);
		free(made);
		free(plain);
	}
}

/* The digest and the count come back from the annotation, and the pod from both. */
TEST(undone_the_pod_has_no_command)
{
	static const char *const bad[] = {
		"[{'op':'add','path':'/spec/containers/0/command/-','value':'z'}]",
		"[{'op':'remove','path':'/spec/containers/0/command'}]",
		"[{'op':'remove','path':'/spec/containers/0/command/2'}]"};
	char *before = fixture_quotes(POD(",'args':['y']")), *patched;
	struct mutation m;

	assert_int_equal(mutate(POD(",'args':['y']")), 0);
	patched = fixture_apply(before, fix.patch.data);
	buf_clear(&fix.patch);
	assert_int_equal(mutate_undo(&fix.json, fixture_raw(&fix, patched), &fix.scratch,
				 &fix.patch, &m, &fix.err),
		0);
	assert_true(patch_has("{'op':'remove','path':'/spec/containers/0/command'}"));
	assert_true(slice_is(m.plan.containers[0].image, DIGEST));
	for (size_t i = 0; i < COUNT(bad); i++) {
		char *ops = fixture_quotes(bad[i]), *other = fixture_apply(patched, ops);

		buf_clear(&fix.patch);
		assert_int_equal(mutate_undo(&fix.json, fixture_raw(&fix, other), &fix.scratch,
					 &fix.patch, &m, &fix.err),
			ERR_INVALID);
		free(other);
		free(ops);
	}
	free(patched);
	free(before);
}

/* Whoever wrote a plan may have written anything. */
TEST(plans_with_images)
{
	static const struct {
		const char *image;
		bool good;
	} rows[] = {{"{'digest':'" DIGEST "','words':1}", true}, {"{'digest':'" DIGEST "'}", false},
		{"{'words':1}", false}, {"{'digest':'sha256:x','words':1}", false},
		{"{'digest':'" DIGEST "','words':0}", false},
		{"{'digest':'" DIGEST "','words':99999}", false}, {"7", false}, {"null", false}};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct plan p;
		struct err err = {0};
		char text[600], *quoted;

		(void)snprintf(text, sizeof(text),
			"{'v':1,'profile':'b','hash':'0000000000000000','mode':'full','containers':"
			"["
			"{'name':'a','kind':'app','amount':1,'percent':100,'units':100,'command':"
			"'wrapped','argv':3,'image':%s}]}",
			rows[i].image);
		quoted = fixture_quotes(text);
		if ((plan_read(slice_of(quoted), &fix.scratch, &p, &err) == 0) != rows[i].good)
			fail_msg("row %zu: %s", i, err.msg);
		free(quoted);
	}
}

/* Without memory nothing is half done: an error, and the same answer once there is enough. */
TEST(memory_that_ends_anywhere)
{
	size_t enough = 0;

	for (size_t max = 64; enough == 0; max += 64) {
		arena_release(&fix.scratch);
		arena_init(&fix.scratch, max);
		if (mutate(POD("")) == 0)
			enough = max;
		else
			assert_int_equal(fix.err.code, ERR_NOMEM);
	}
	assert_true(patch_has("'--','/entry'"));
}

/* Of a profile that starts nothing by name no words are its own. */
TEST(without_a_launcher_s_name_no_words_start_it)
{
	struct slice words[] = {
		SLICE(""), SLICE("/"), SLICE("a/"), SLICE("sh"), SLICE("bitfusion")};
	const struct profile none = {0};
	struct json j = {0};
	char *copy;

	assert_int_equal(json_read_copy(&j, "{}", 2, 10, &copy, NULL), 0);
	for (size_t i = 0; i < COUNT(words); i++)
		for (size_t n = 0; i + n <= COUNT(words); n++)
			assert_false(wrap_is_own_image(
				&j, json_root(&j), words + i, n, &none, &fix.arena));
	json_release(&j);
	free(copy);
}

TESTS_BETWEEN(set_up, tear_down, without_a_launcher_s_name_no_words_start_it,
	an_update_brings_the_image_s_words_back, the_image_s_words_stand_behind_the_launcher_s,
	args_take_the_place_of_cmd, a_command_needs_no_image,
	what_is_not_known_is_refused_as_before_or_with_the_reason,
	images_that_start_nothing_or_the_launcher, without_a_separator_no_option_comes_first,
	undone_the_pod_has_no_command, plans_with_images, memory_that_ends_anywhere)
