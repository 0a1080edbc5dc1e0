/* SPDX-License-Identifier: Apache-2.0 */
/* unit: what yaml_splice writes has every byte of the text but for the place that changed. */
#include "base/yaml/yaml_find.h"
#include "base/yaml/yaml_patch.h"
#include "base/yaml/yaml_splice.h"
#include "test/unit/test.h"
#include "test/unit/yaml_documents.h"

ARENA_FIXTURES(YAML_ARENA_MAX)

/* The text after a patch of its first document; ops: the inside of the array. */
static int changed(struct slice text, const char *ops, struct buf *out, struct err *err)
{
	struct yaml_stream docs;
	struct buf patch;
	int rc = yaml_parse(&arena, "t.yaml", text, YAML_ANY, &docs, err);

	buf_init(&patch, 1 << 20);
	buf_fmt(&patch, "[%s]", ops);
	if (rc == 0 && docs.first)
		rc = yaml_patch(docs.first->root, buf_as_slice(&patch), err);
	if (rc == 0)
		rc = yaml_splice(&docs, text, out, err);
	buf_release(&patch);
	return rc;
}

#define ADD(path, value) "{\"op\":\"add\",\"path\":\"" path "\",\"value\":" value "}"
#define REMOVE(path) "{\"op\":\"remove\",\"path\":\"" path "\"}"

TEST(edits)
{
	static const struct {
		const char *before, *ops, *after;
	} cases[] = {
		/* what stands around the place stays */
		{"# a\r\na:   1  # one\r\n\r\n# b\r\nb:\r\n   - x # x\r\n\r\n...\r\n# end",
			ADD("/b/-", "\"z\"") "," ADD("/c", "{\"d\":[1,\"no\"]}"),
			"# a\r\na:   1  # one\r\n\r\n# b\r\nb:\r\n   - x # x\r\n   - z\r\nc:\r\n  "
			"d:\r\n     - 1\r\n     - \"no\"\r\n\r\n...\r\n# end"},
		{"\357\273\277%YAML 1.1\n---\na: {b: c}   # c\n---\n'x':   2\n", ADD("/a/d", "1"),
			"\357\273\277%YAML 1.1\n---\na: {b: c, d: 1}   # c\n---\n'x':   2\n"},
		{"a: \"\\u00e9\" # \303\251\nb: \344\270\255\n", ADD("/c", "\"\303\251\""),
			"a: \"\\u00e9\" # \303\251\nb: \344\270\255\nc: \"\303\251\"\n"},
		/* what the reader lets through stands as it is beside what it does not */
		{"a: 1\n",
			ADD("/c", "\"\\u0001 "
				  "~\\u007f\\u009f\\u00a0\\u2027\\u2028\\ud7ff\\ue000\\ufffd\""),
			"a: 1\nc: \"\\u0001 ~\\u007F\\u009F\302\240\342\200\247\\u2028\355\237\277"
			"\356\200\200\357\277\275\"\n"},
		/* lines stay lines, however few */
		{"a: &x |\n  y\nb: *x\n", REMOVE("/a"), "b: |\n  y\n"},
		{"a: &x |\n  y\n  z\t\303\251\nb: *x\n", REMOVE("/a"),
			"b: |\n  y\n  z\t\303\251\n"},
		/* but for such with an end of a line that other readers do not know */
		{"a: &x |\n  y\342\200\250  z\nb: *x\n", REMOVE("/a"), "b: \"y\\u2028z\\n\"\n"},
		/* a dash is found behind a comment, wherever that begins */
		{"- a\n# c\n-\n  b\n- d\n", REMOVE("/1"), "- a\n# c\n- d\n"},
		{"- a\n #c\n-\n  b\n- d\n", REMOVE("/1"), "- a\n #c\n- d\n"},
		{"- a\n# c\n#\n\n-\n  b\n- d\n", REMOVE("/1"), "- a\n# c\n#\n\n- d\n"},
		{"- a\n#c\n# d\n- b\n", ADD("/1", "1"), "- a\n- 1\n#c\n# d\n- b\n"},
		/* anchor and tag stay in front of what comes into an element */
		{"- &x {}\n- b\n", ADD("/0/a", "1"), "- &x\n  a: 1\n- b\n"},
		{"- !t []\n", ADD("/0/0", "1"), "- !<!t>\n  - 1\n"},
		/* no newline at the end */
		{"a: 1\nb: 2", ADD("/c", "3"), "a: 1\nb: 2\nc: 3"},
		{"a: 1\nb: 2", REMOVE("/b"), "a: 1"},
		{"a: 1\nb: |\n  x", ADD("/c", "3"), "a: 1\nb: |-\n  x\nc: 3"},
		{"a: 1\nb: |+\n  x", ADD("/c", "3"), "a: 1\nb: |-\n  x\nc: 3"},
		{"a: 1\nb: |\n  x\n  ", ADD("/c", "3"), "a: 1\nb: |\n  x\nc: 3\n  "},
		{"a: 1\nb: |\n  x\n   ", ADD("/c", "3"), "a: 1\nb: |-\n  x\n   \nc: 3"},
		{"a: 1\nb: |", ADD("/c", "3"), "a: 1\nb: |-\nc: 3"},
		{"a:\n- b: >-\n   x", ADD("/a/-", "3"), "a:\n- b: >-\n   x\n- 3"},
		/* block scalars and the empty lines behind them */
		{"a: |\n  x\n\n\nb: 1\n", ADD("/c", "3") "," REMOVE("/b"), "a: |\n  x\n\n\nc: 3\n"},
		{"m:\n  a: |\n    x\n\n# c\nb: 1\n", ADD("/m/c", "3"),
			"m:\n  a: |\n    x\n  c: 3\n\n# c\nb: 1\n"},
		{"m:\n  a: |+\n    x\n\nb: 1\n", ADD("/m/c", "3"),
			"m:\n  a: |+\n    x\n\n  c: 3\nb: 1\n"},
		/* what goes takes its line, and no other comment than that on it */
		{"a:\n  # one\n  b: 1 # b\n  # two\n  c: 2\n", REMOVE("/a/b"),
			"a:\n  # one\n  # two\n  c: 2\n"},
		{"a:\n  # one\n  b: 1 # b\n  # two\n  c: 2\n", REMOVE("/a/c") "," REMOVE("/a/b"),
			"a: {}\n"},
		{"- a: 1\n  b: 2\n  c: 3\n", REMOVE("/0/a") "," REMOVE("/0/b"), "- c: 3\n"},
		{"- - 1\n  - 2\n", REMOVE("/0/0"), "- - 2\n"},
		{"- 1\n-   a: 2\n    b: 3\n", ADD("/1/c", "4") "," REMOVE("/0"),
			"-   a: 2\n    b: 3\n    c: 4\n"},
		{"a: 1\nb:\n  c: 2\n", REMOVE("/b"), "a: 1\n"},
		/* the first that comes takes the place of the first that went, with its comment */
		{"a:\n  x: 1\n  b: 1   # b\n  c: 2 # c\n  z: 3\n",
			REMOVE("/a/b") "," REMOVE("/a/c") "," ADD("/a/d", "4"),
			"a:\n  x: 1\n  d: 4   # b\n  z: 3\n"},
		{"a: {x: 1, b: 2, z: 3}\n", REMOVE("/a/b") "," ADD("/a/d", "4"),
			"a: {x: 1, d: 4, z: 3}\n"},
		{"a:\n  b: 1 # b\n", REMOVE("/a/b") "," ADD("/a/d", "[1]"),
			"a:\n  d: # b\n  - 1\n"},
		{"b: &b\r\n  x:\r\n    w: 1\r\nm:\r\n  <<: *b # b\r\n  k: 1\r\n",
			ADD("/m/x/z", "2"),
			"b: &b\r\n  x:\r\n    w: 1\r\nm:\r\n  x: # b\r\n    w: 1\r\n    z: 2\r\n  "
			"k: 1\r\n"},
		/* what stood in block style cannot in a line */
		{"a: &a\n  x:\n  - 1\n  y: {z: 2}\nb: [*a] # b\nc: *a\n", ADD("/b/0/w", "3"),
			"a: &a\n  x:\n  - 1\n  y: {z: 2}\nb: [{x: [1], y: {z: 2}, w: 3}] # b\nc: "
			"*a\n"},
		{"a: &a\n  x:\n  - 1\n  y: {z: 2}\nb: [*a] # b\nc: *a\n", REMOVE("/a"),
			"b: [{x: [1], y: {z: 2}}] # b\nc:\n  x:\n  - 1\n  y: {z: 2}\n"},
		/* an alias in what is copied is one more */
		{"x: &x [1]\na: &a {y: *x}\nb: *a\n",
			ADD("/b/z", "2") "," REMOVE("/a") "," REMOVE("/x"), "b: {y: [1], z: 2}\n"},
		{"a: &a |\n  x\n  y\nb: [*a] # b\nc:\n- *a # c\n", REMOVE("/a"),
			"b: [\"x\\ny\\n\"] # b\nc:\n- | # c\n  x\n  y\n"},
		/* brackets */
		{"a: [ x , y,z ]\n", REMOVE("/a/0") "," ADD("/a/-", "\"a, b\""),
			"a: [ y,z, \"a, b\" ]\n"},
		{"a: [x, y, z]\n", REMOVE("/a/2") "," REMOVE("/a/1"), "a: [x]\n"},
		{"a: [x, y,]\n", REMOVE("/a/1") "," REMOVE("/a/0"), "a: []\n"},
		{"a: [\n  x, # x\n  y  # y\n]\n", ADD("/a/-", "1") "," ADD("/a/0", "2"),
			"a: [\n  2,\n  x, # x\n  y,  # y\n  1\n]\n"},
		{"a: {\n  b: 1, # b\n  c: 2, # c\n  d: 3 # d\n}\n",
			REMOVE("/a/c") "," REMOVE("/a/d") "," ADD("/a/e", "4"),
			"a: {\n  b: 1, # b\n  e: 4 # c\n}\n"},
		{"a: {\n  b: 1, # b\n  c: 2, # c\n  d: 3, # d\n}\n",
			REMOVE("/a/b") "," REMOVE("/a/d") "," ADD("/a/e", "4") "," ADD("/a/f", "5"),
			"a: {\n  e: 4, # b\n  f: 5,\n  c: 2, # c\n}\n"},
		{"a: {\n  b: 1, # b\n  c: 2 # c\n}\n", REMOVE("/a/c") "," REMOVE("/a/b"),
			"a: {}\n"},
		{"a: {\n  b: 1, # b\n  c: 2, d: 3 # c\n}\n", REMOVE("/a/d") "," REMOVE("/a/b"),
			"a: {\n  c: 2 # c\n}\n"},
		{"a: [x\n , y\n , z\n]\n", REMOVE("/a/1"), "a: [x\n , z\n]\n"},
		{"a: {b, c: }\n", ADD("/a/b", "1") "," ADD("/a/c", "2"), "a: {b: 1, c: 2}\n"},
		{"a: {? b : 1, ? c}\n", ADD("/a/b", "2") "," REMOVE("/a/c"), "a: {? b : 2}\n"},
		{"a: {b: {}, c: [1]}\n", ADD("/a/b/d", "{}") "," REMOVE("/a/c/0"),
			"a: {b: {d: {}}, c: []}\n"},
		/* other values for keys that stay */
		{"a:\nb: # b\n  c: 1 # c\nd: [] # d\n",
			ADD("/a", "1") "," ADD("/b", "2") "," ADD("/d/0", "3"),
			"a: 1\nb: 2 # b\nd: # d\n- 3\n"},
		{"a:   {} # a\nb: |\n  x\n  y\nc: 'x\n  y' # c\n",
			ADD("/a", "{\"x\":1}") "," ADD("/b", "\"z\"") "," ADD("/c", "[1]"),
			"a: # a\n  x: 1\nb: z\nc: # c\n- 1\n"},
		{"a: &a {}\nb: !!map &b\n  c: 1\n", ADD("/a/x", "1") "," REMOVE("/b/c"),
			"a: &a\n  x: 1\nb: &b !<tag:yaml.org,2002:map> {}\n"},
		{"- {}\n- []\n- - 1\n",
			ADD("/0/a", "{\"b\":1}") "," ADD("/1/-", "1") "," REMOVE("/2/0"),
			"- a:\n    b: 1\n- - 1\n- []\n"},
		{"? a\n: b\n? c\n", ADD("/a", "1") "," ADD("/c", "2"), "? a\n: 1\n? c\n: 2\n"},
		{"{}\n", ADD("/a", "[{\"b\":[[]]}]"), "{\"a\": [{\"b\": [[]]}]}\n"},
		{"# c\n{}\n", ADD("/a", "[{\"b\":[[]]}]"), "# c\na:\n- b:\n  - []\n"},
		/* JSON */
		{"{\"a\":1.0,\"b\":[\"x\"]}", ADD("/b/-", "\"\\u0041\"") "," ADD("/c", "{\"d\":2}"),
			"{\"a\":1.0,\"b\":[\"x\",\"\\u0041\"],\"c\":{\"d\":2}}"},
		{"{\n\t\"a\": 1,\n\t\"b\": {}, \"e\": [0, 1]\n}\n",
			ADD("/b/c", "[2]") "," REMOVE("/a") "," ADD("/f", "{\"d\":3}") "," REMOVE(
				"/e/0"),
			"{\n\t\"f\": {\n\t\t\"d\": 3\n\t},\n\t\"b\": {\n\t\t\"c\": "
			"[\n\t\t\t2\n\t\t]\n\t}, "
			"\"e\": [1]\n}\n"},
		/* tabs, odd ends of lines */
		{"a:\t1\t# t\nb: \"\t\"\n", ADD("/c", "\"\\t\""),
			"a:\t1\t# t\nb: \"\t\"\nc: \"\\t\"\n"},
		{"a: 1\rb: 2\r", ADD("/c", "3"), "a: 1\rb: 2\nc: 3\r"},
		{"a: 1\n", ADD("/b", "\"\\u007f\\u2028\\n\""), "a: 1\nb: \"\\u007F\\u2028\\n\"\n"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct err err = {0};
		struct buf out;

		buf_init(&out, 1 << 20);
		if (changed(slice_of(cases[i].before), cases[i].ops, &out, &err) != 0)
			fail_msg("%zu: %s", i, err.msg);
		assert_string_equal(out.data, cases[i].after);
		buf_release(&out);
	}
}

/* Every style that is read can be written into: the same bytes when nothing changes, else the tree
 * that was meant. */
/* A comment that moves behind the first line of what comes is moved whole, however long it is: also
 * where it fills the room that was made for it to the last byte. */
TEST(comments_of_any_length)
{
	static const char *const breaks[] = {"\n", "\r\n"};
	char comment[4096], before[8192], after[8192];
	struct err err = {0};
	struct buf out;

	for (size_t len = 1; len < sizeof(comment); len += len < 300 ? 1 : 1171)
		for (size_t i = 0; i < COUNT(breaks); i++) {
			const char *end = breaks[i];

			memset(comment, '#', len);
			comment[len] = '\0';
			(void)snprintf(before, sizeof(before), "a:%s  b: 1 %s%s  c: 2%s", end,
				comment, end, end);
			(void)snprintf(after, sizeof(after), "a:%s  d: %s%s  - 1%s  - 2%s  c: 2%s",
				end, comment, end, end, end, end);
			buf_init(&out, 1 << 20);
			arena_reset(&arena);
			if (changed(slice_of(before), REMOVE("/a/b") "," ADD("/a/d", "[1,2]"), &out,
				    &err) != 0)
				fail_msg("%zu bytes: %s", len, err.msg);
			assert_string_equal(out.data, after);
			assert_int_equal(out.len, strlen(after));
			buf_release(&out);
		}
}

TEST(any_document)
{
	for (size_t i = 0; i < COUNT(yaml_documents); i++) {
		const struct yaml_document *d = &yaml_documents[i];
		struct slice text = {d->text, d->len};
		struct yaml_stream docs;
		struct err err = {0};
		struct buf out;

		buf_init(&out, 1 << 20);
		if (yaml_parse(&arena, "t", text, YAML_ANY, &docs, &err) != 0)
			fail_msg("%s: %s", d->name, err.msg);
		assert_int_equal(yaml_splice(&docs, text, &out, &err), 0);
		assert_true(slice_eq(buf_as_slice(&out), text));
		buf_clear(&out);
		for (struct yaml_doc *doc = docs.first; doc; doc = doc->next) {
			const char *ops = doc->root->kind == YAML_MAP
						  ? "[" ADD("/zz", "{\"a\":[1,\"x\"]}") "]"
						  : "[" ADD("/-", "{\"a\":[1,\"x\"]}") "]";

			if (doc->root->kind == YAML_MAP || doc->root->kind == YAML_SEQ)
				assert_int_equal(yaml_patch(doc->root, slice_of(ops), &err), 0);
		}
		if (yaml_splice(&docs, text, &out, &err) != 0)
			fail_msg("%s: %s", d->name, err.msg);
		buf_release(&out);
	}
}

/* A text that cannot be edited so that it reads as meant is refused. */
TEST(guards)
{
	struct err err = {0};
	struct buf out;

	buf_init(&out, 1000);
	buf_str(&out, "before");
	assert_int_equal(
		changed(SLICE("- [a: b]\n"), ADD("/0/0/c", "1"), &out, &err), ERR_INTERNAL);
	assert_non_null(strstr(err.msg, "t.yaml: the change cannot be written into this text"));
	assert_string_equal(out.data, "before");
	buf_release(&out);
	buf_init(&out, 10);
	assert_int_equal(changed(SLICE("a: 1\n"), ADD("/b", "123456"), &out, &err), ERR_TOOBIG);
	buf_release(&out);
}

TEST(json_as_yaml)
{
	static const char *const cases[][2] = {
		{"{\"a\": [1.50, \"yes\", \"b c\", \"\", {\"x\": \"1\", \"y\": [[2]]}], \"e\": {}}",
			"a:\n- 1.50\n- \"yes\"\n- b c\n- \"\"\n- x: \"1\"\n  \"y\":\n  - - 2\ne: "
			"{}\n"},
		{"{\"a\": \"\\ud83d\\ude00\\u2028\\u0007\\n\", \"b:\": null}",
			"a: \"\360\237\230\200\\u2028\\u0007\\n\"\n\"b:\": null\n"},
		{"{}", "{}\n"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct yaml_stream docs;
		struct err err = {0};
		struct buf out;

		buf_init(&out, 1000);
		assert_int_equal(
			yaml_parse(&arena, "t", slice_of(cases[i][0]), YAML_ANY, &docs, &err), 0);
		assert_int_equal(yaml_from_json_text(&docs, &out, &err), 0);
		assert_string_equal(out.data, cases[i][1]);
		buf_release(&out);
	}
}

TEST(differences_are_seen)
{
	static const char *const pairs[][2] = {{"a: 1", "a: 2"}, {"a: 1", "a: '1'"},
		{"a: 1\nb: 2", "b: 2\na: 1"}, {"a: [1]", "a: [1, 2]"}, {"a: 1", "a: 1\n---\nb: 1"},
		{"a: !x 1", "a: 1"}, {"a: &x 1", "a: 1"}, {"a: &x 1\nb: *x", "a: &x 1\nb: 1"},
		{"a: {}", "a: []"}, {"a: ~", "a: ''"}, {"a: !!int x", "a: !!int y"},
		{"a: !!int x", "a: !!int 1"}};

	for (size_t i = 0; i < COUNT(pairs); i++) {
		struct yaml_stream left, right;
		struct err err = {0};

		assert_int_equal(
			yaml_parse(&arena, "t", slice_of(pairs[i][0]), YAML_ANY, &left, &err), 0);
		assert_int_equal(
			yaml_parse(&arena, "t", slice_of(pairs[i][1]), YAML_ANY, &right, &err), 0);
		assert_false(yaml_same_streams(&left, &right));
		assert_true(yaml_same_streams(&left, &left));
	}
}

TESTS_BETWEEN(set_up, tear_down, edits, comments_of_any_length, any_document, guards, json_as_yaml,
	differences_are_seen)
