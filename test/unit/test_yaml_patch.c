/* SPDX-License-Identifier: Apache-2.0 */
/* unit: JSON patches on YAML trees, as the text shows them afterwards. */
#include "base/yaml/yaml_find.h"
#include "base/yaml/yaml_json.h"
#include "base/yaml/yaml_patch.h"
#include "base/yaml/yaml_splice.h"
#include "test/unit/test.h"

ARENA_FIXTURES(YAML_ARENA_MAX)

static struct yaml_stream read_text(const char *text)
{
	struct yaml_stream docs;
	struct err err = {0};

	if (yaml_parse(&arena, "t.yaml", slice_of(text), YAML_ANY, &docs, &err) != 0)
		fail_msg("%s", err.msg);
	return docs;
}

static const char *written(const struct yaml_stream *docs, const char *text)
{
	struct buf out;
	struct err err = {0};
	const char *copy;

	buf_init(&out, 1 << 20);
	if (yaml_splice(docs, slice_of(text), &out, &err) != 0)
		fail_msg("%s\n%s\n%s", err.msg, text, out.data);
	copy = arena_strdup(&arena, buf_as_slice(&out));
	buf_release(&out);
	return copy;
}

TEST(changes)
{
	static const struct {
		const char *before, *patch, *after;
	} cases[] = {
		{"a: 1\n", "[{\"op\":\"add\",\"path\":\"/b\",\"value\":\"x\"}]", "a: 1\nb: x\n"},
		{"a: 1\n", "[{\"op\":\"add\",\"path\":\"/a\",\"value\":\"1\"}]", "a: \"1\"\n"},
		{"a: 0644\nb: yes\n", "[{\"op\":\"replace\",\"path\":\"/a\",\"value\":null}]",
			"a: null\nb: yes\n"},
		{"a: 1\nb: 2\nc: 3\n",
			"[{\"op\":\"remove\",\"path\":\"/b\"},{\"op\":\"remove\",\"path\":\"/a\"}]",
			"c: 3\n"},
		{"a: 1\nb: 2\n",
			"[{\"op\":\"remove\",\"path\":\"/b\"},{\"op\":\"add\",\"path\":\"/"
			"c\",\"value\":3}]",
			"a: 1\nc: 3\n"}, /* in the place of what went */
		{"a: 1\nb: 2 # two\nc: 3\n",
			"[{\"op\":\"remove\",\"path\":\"/b\"},{\"op\":\"add\",\"path\":\"/"
			"d\",\"value\":4},{\"op\":\"add\",\"path\":\"/e\",\"value\":5}]",
			"a: 1\nd: 4 # two\ne: 5\nc: 3\n"},
		{"a: [x, y]\n",
			"[{\"op\":\"add\",\"path\":\"/a/"
			"0\",\"value\":\"-n\"},{\"op\":\"add\",\"path\":\"/a/-\",\"value\":\"1\"},"
			"{\"op\":\"add\",\"path\":\"/a/4\",\"value\":{\"k\":[]}}]",
			"a: [-n, x, y, \"1\", {k: []}]\n"},
		{"a: [x, y, z]\n",
			"[{\"op\":\"remove\",\"path\":\"/a/2\"},{\"op\":\"remove\",\"path\":\"/a/"
			"0\"},"
			"{\"op\":\"add\",\"path\":\"/a/1\",\"value\":\"e\"}]",
			"a: [y, e]\n"},
		{"a:\n  - x\n",
			"[{\"op\":\"add\",\"path\":\"/a/"
			"-\",\"value\":{\"k\":{\"l\":[1,{\"m\":\"n\"}]},\"o\":{}}}]",
			"a:\n  - x\n  - k:\n      l:\n        - 1\n        - m: \"n\"\n    o: "
			"{}\n"},
		{"a:\n- x\n", "[{\"op\":\"add\",\"path\":\"/b\",\"value\":[{\"c\":1}]}]",
			"a:\n- x\nb:\n- c: 1\n"},
		{"a: {}\nb: []\n",
			"[{\"op\":\"add\",\"path\":\"/a/"
			"k\",\"value\":1},{\"op\":\"add\",\"path\":\"/b/-\",\"value\":2}]",
			"a:\n  k: 1\nb:\n- 2\n"},
		{"a: {b: {}}\n", "[{\"op\":\"add\",\"path\":\"/a/b/c\",\"value\":{\"d\":1}}]",
			"a: {b: {c: {d: 1}}}\n"},
		{"x/y:\n  a~b: 1\n", "[{\"op\":\"replace\",\"path\":\"/x~1y/a~0b\",\"value\":2}]",
			"x/y:\n  a~b: 2\n"},
		{"yes: 1\n", "[{\"op\":\"replace\",\"path\":\"/true\",\"value\":2}]", "yes: 2\n"},
		{"a: 1\n", "[{\"op\":\"add\",\"path\":\"/yes\",\"value\":\"l\\nm\"}]",
			"a: 1\n\"yes\": \"l\\nm\"\n"},
		{"a:\n    b:\n        c: 1\n",
			"[{\"op\":\"remove\",\"path\":\"/a/b/c\"},{\"op\":\"add\",\"path\":\"/a/b/"
			"d\",\"value\":2}]",
			"a:\n    b:\n        d: 2\n"},
		{"x: &x 1\nw: *x\nz: [1]\n",
			"[{\"op\":\"add\",\"path\":\"/z/"
			"-\",\"value\":2},{\"op\":\"replace\",\"path\":\"/w\",\"value\":3},"
			"{\"op\":\"replace\",\"path\":\"/x\",\"value\":4}]",
			"x: 4\nw: 3\nz: [1, 2]\n"}, /* the alias is gone, so the anchor may go */
		{"a: {x: &x 1, w: *x}\n", "[{\"op\":\"remove\",\"path\":\"/a\"}]",
			"{}\n"}, /* the alias goes with its anchor */
		{"b: &b {x: 1}\nm:\n  <<: *b\n  k: 1\n",
			"[{\"op\":\"replace\",\"path\":\"/m/"
			"k\",\"value\":2},{\"op\":\"add\",\"path\":\"/m/o\",\"value\":3}]",
			"b: &b {x: 1}\nm:\n  <<: *b\n  k: 2\n  o: 3\n"},
		/* aliases and merge keys that lead to the place are written out there ... */
		{"b: &b {x: {v: 1}}\na: 1\nc: *b # see b\n",
			"[{\"op\":\"replace\",\"path\":\"/c/x/v\",\"value\":2}]",
			"b: &b {x: {v: 1}}\na: 1\nc: {x: {v: 2}} # see b\n"},
		{"b: &b\n  x:\n    - &i |\n      l\n      m\n    - *i\nc: *b # see b\n",
			"[{\"op\":\"add\",\"path\":\"/c/v\",\"value\":2}]",
			"b: &b\n  x:\n    - &i |\n      l\n      m\n    - *i\nc: # see b\n  x:\n   "
			" - "
			"|\n      l\n      m\n    - *i\n  v: 2\n"},
		{"b: &b {x: 1, k: 1}\nm:\n  j: 0\n  <<: *b # all of b\n  k: 2\n",
			"[{\"op\":\"replace\",\"path\":\"/m/x\",\"value\":2}]",
			"b: &b {x: 1, k: 1}\nm:\n  j: 0\n  x: 2 # all of b\n  k: 2\n"},
		{"b: &b {x: {v: 1}}\nm:\n  x: {}\n  <<: [*b]\n",
			"[{\"op\":\"add\",\"path\":\"/m/x/z\",\"value\":2}]",
			"b: &b {x: {v: 1}}\nm:\n  x: {v: 1, z: 2}\n"}, /* the merge overwrote it */
		{"b: &b {x: 1}\nm:\n  <<: *b\n  x: 2\n", "[{\"op\":\"remove\",\"path\":\"/m/x\"}]",
			"b: &b {x: 1}\nm: {}\n"},
		/* ... and where else a value is shown that changes */
		{"a:\n  b: &b {x: 1}\nc: *b\n",
			"[{\"op\":\"add\",\"path\":\"/a/b/v\",\"value\":2}]",
			"a:\n  b: &b {x: 1, v: 2}\nc: {x: 1}\n"},
		{"a: &a {x: {z: 1}}\nc: {<<: *a, d: 1}\n",
			"[{\"op\":\"add\",\"path\":\"/a/x/v\",\"value\":2}]",
			"a: &a {x: {z: 1, v: 2}}\nc: {x: {z: 1}, d: 1}\n"},
		{"a: &a 1\nc: *a\n", "[{\"op\":\"replace\",\"path\":\"/a\",\"value\":2}]",
			"a: 2\nc: 1\n"},
		{"a: {b: [&a 1]}\nc: *a\n", "[{\"op\":\"remove\",\"path\":\"/a\"}]", "c: 1\n"},
		{"a: 1\n", "[]", "a: 1\n"},
		{"{\"a\": 1}", "[{\"op\":\"add\",\"path\":\"/b\",\"value\":[\"x\",\"1\"]}]",
			"{\"a\": 1, \"b\": [\"x\", \"1\"]}"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct yaml_stream docs = read_text(cases[i].before);
		struct err err = {0};

		if (yaml_patch(docs.first->root, slice_of(cases[i].patch), &err) != 0)
			fail_msg("%zu: %s", i, err.msg);
		assert_string_equal(written(&docs, cases[i].before), cases[i].after);
	}
}

TEST(refuses)
{
	static const struct {
		const char *text, *patch;
		enum err_code code;
		const char *says;
	} cases[] = {
		{"a: 1\n", "{}", ERR_INVALID, "must be an array"},
		{"a: 1\n", "[1]", ERR_INVALID, "needs \"op\" and \"path\""},
		{"a: 1\n", "[", ERR_SYNTAX, ""},
		{"a: 1\n", "[{\"op\":\"move\",\"path\":\"/b\",\"from\":\"/a\"}]", ERR_INVALID,
			"/b"},
		{"a: 1\n", "[{\"op\":\"add\",\"path\":\"/b\"}]", ERR_INVALID, "no value"},
		{"a: 1\n", "[{\"op\":\"add\",\"path\":\"b\",\"value\":1}]", ERR_INVALID,
			"does not begin with"},
		{"a: 1\n", "[{\"op\":\"add\",\"path\":\"/b~2\",\"value\":1}]", ERR_INVALID,
			"followed by 0 or 1"},
		{"a: 1\n", "[{\"op\":\"add\",\"path\":\"/b~\",\"value\":1}]", ERR_INVALID,
			"followed by 0 or 1"},
		{"a: 1\n", "[{\"op\":\"add\",\"path\":\"\",\"value\":1}]", ERR_INVALID,
			"whole document"},
		{"a: 1\n", "[{\"op\":\"remove\",\"path\":\"\"}]", ERR_INVALID, "whole document"},
		{"a: 1\n", "[{\"op\":\"remove\",\"path\":\"/b\"}]", ERR_NOTFOUND,
			"\"/b\": there is nothing there"},
		{"a: 1\n", "[{\"op\":\"replace\",\"path\":\"/b\",\"value\":1}]", ERR_NOTFOUND,
			"/b"},
		{"a: 1\n", "[{\"op\":\"test\",\"path\":\"/a\",\"value\":1}]", ERR_INVALID,
			"another operation"},
		{"a: 1\n", "[{\"op\":\"add\",\"path\":\"/a/b\",\"value\":1}]", ERR_NOTFOUND,
			"nothing at \"/a\" to go into"},
		{"a: 1\n", "[{\"op\":\"add\",\"path\":\"/c/b\",\"value\":1}]", ERR_NOTFOUND,
			"nothing at \"/c\""},
		{"a: [1]\n", "[{\"op\":\"add\",\"path\":\"/a/2\",\"value\":1}]", ERR_NOTFOUND,
			"1 elements"},
		{"a: [1]\n", "[{\"op\":\"add\",\"path\":\"/a/00\",\"value\":1}]", ERR_NOTFOUND,
			"1 elements"},
		{"a: [1]\n", "[{\"op\":\"remove\",\"path\":\"/a/-\"}]", ERR_NOTFOUND,
			"nothing there"},
		{"a: [1]\n", "[{\"op\":\"remove\",\"path\":\"/a/x\"}]", ERR_NOTFOUND, "1 elements"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct yaml_stream docs = read_text(cases[i].text);
		struct err err = {0};
		int rc = yaml_patch(docs.first->root, slice_of(cases[i].patch), &err);

		if (rc != (int)cases[i].code || !strstr(err.msg, cases[i].says))
			fail_msg("%zu: %d \"%s\", not \"%s\"", i, rc, err.msg, cases[i].says);
		docs = read_text(cases[i].text);
		assert_int_equal(yaml_patch(docs.first->root, slice_of(cases[i].patch), NULL), rc);
	}
}

TEST(below_a_node)
{
	static const char text[] = "items:\n- a: 1\n- a: 1\n";
	struct yaml_stream docs = read_text(text);
	struct yaml_node *second = yaml_at(yaml_get(docs.first->root, "items"), 1);
	struct err err = {0};

	assert_int_equal(yaml_patch(second,
				 SLICE("[{\"op\":\"replace\",\"path\":\"/a\",\"value\":2}]"), &err),
		0);
	assert_string_equal(written(&docs, text), "items:\n- a: 1\n- a: 2\n");
}

TEST(depth_and_memory)
{
	char patch[400] = "[{\"op\":\"add\",\"path\":\"/a/b\",\"value\":";
	struct yaml_stream docs = read_text("a: {c: 1}\n");
	struct err err = {0};

	size_t n = strlen(patch);

	memset(patch + n, '[', 61);
	memset(patch + n + 61, ']', 61);
	strncat(patch, "}]", 3);
	assert_int_equal(yaml_patch(docs.first->root, slice_of(patch), &err), 0);
	written(&docs, "a: {c: 1}\n");
	docs = read_text("a: {c: {b: {}}}\n");
	memcpy(patch + 22, "/a/c", 4);
	struct yaml_stream deep = read_text("a: {b: {b: {b: {}}}}\n");
	char deeper[420];

	snprintf(deeper, sizeof(deeper), "[{\"op\":\"add\",\"path\":\"/a/b/b/b/b\",%s",
		strstr(patch, "\"value\""));
	assert_int_equal(yaml_patch(deep.first->root, slice_of(deeper), &err), ERR_TOOBIG);

	struct arena small;
	struct yaml_stream tiny;

	arena_init(&small, 800);
	assert_int_equal(yaml_parse(&small, "t", SLICE("a: 1"), YAML_ANY, &tiny, &err), 0);
	assert_int_equal(
		yaml_patch(tiny.first->root,
			SLICE("[{\"op\":\"add\",\"path\":\"/b\",\"value\":[1,2,3,4]}]"), &err),
		ERR_NOMEM);
	arena_release(&small);
}

/* With less memory than it takes, a patch fails, wherever that is found out. */
TEST(all_or_an_error)
{
	static const char text[] = "a: &x {c: {d: 1}}\nb: *x\n<<: *x\n",
			  patch[] =
				  "[{\"op\":\"add\",\"path\":\"/b/c/e\",\"value\":{\"f\":[1,{}]}},"
				  "{\"op\":\"replace\",\"path\":\"/a/c/d\",\"value\":2},"
				  "{\"op\":\"remove\",\"path\":\"/b/c/d\"}]";
	struct yaml_stream docs = read_text(text);
	struct err err = {0};
	struct buf whole;
	size_t failed = 0;
	int rc = ERR_NOMEM;

	assert_int_equal(yaml_patch(docs.first->root, slice_of(patch), &err), 0);
	buf_init(&whole, 4096);
	assert_int_equal(yaml_to_json(docs.first->root, YAML_JSON_COMPACT, &whole, &err), 0);
	for (size_t max = 64; rc != 0; max += 8) {
		struct arena small;
		struct buf out;

		arena_init(&small, max);
		rc = yaml_parse(&small, "t", slice_of(text), YAML_ANY, &docs, &err);
		if (rc == 0) {
			rc = yaml_patch(docs.first->root, slice_of(patch), &err);
			failed += rc != 0;
		}
		assert_true(rc == 0 || rc == ERR_NOMEM);
		if (rc == 0) {
			buf_init(&out, 4096);
			assert_int_equal(
				yaml_to_json(docs.first->root, YAML_JSON_COMPACT, &out, &err), 0);
			assert_string_equal(out.data, whole.data);
			buf_release(&out);
		}
		arena_release(&small);
	}
	assert_true(failed > 10);
	buf_release(&whole);
}

TEST(json_stays_json)
{
	struct yaml_stream docs = read_text("{\"a\": 1.50, \"b\": \"\\u0041\"}");
	struct err err = {0};
	struct buf out;

	buf_init(&out, 1000);
	assert_int_equal(
		yaml_patch(docs.first->root,
			SLICE("[{\"op\":\"add\",\"path\":\"/c\\u0064\",\"value\":{\"e\":2.0}}]"),
			&err),
		0);
	assert_int_equal(yaml_to_json(docs.first->root, YAML_JSON_COMPACT, &out, &err), 0);
	assert_string_equal(out.data, "{\"a\":1.50,\"b\":\"\\u0041\",\"cd\":{\"e\":2.0}}");
	buf_release(&out);
}

TESTS_BETWEEN(set_up, tear_down, changes, refuses, below_a_node, depth_and_memory, all_or_an_error,
	json_stays_json)
