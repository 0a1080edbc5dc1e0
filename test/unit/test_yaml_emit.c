/* SPDX-License-Identifier: Apache-2.0 */
/* unit: what yaml_emit writes reads as what was read, and keeps spelling, style and indentation. */
#include "base/yaml_emit.h"
#include "base/yaml_find.h"
#include "base/yaml_json.h"
#include "test/unit/test.h"
#include "test/unit/yaml_documents.h"

static struct slice emitted(struct arena *a, struct slice text, struct yaml_stream *ret)
{
	struct err err = {0};
	struct buf out;
	struct slice copy;

	buf_init(&out, 1 << 20);
	if (yaml_parse(a, "t", text, YAML_ANY, ret, &err) != 0)
		fail_msg("%s: %.*s", err.msg, (int)text.len, text.at);
	assert_int_equal(yaml_emit(ret, &out, &err), 0);
	copy = arena_slice(a, out.data ? buf_as_slice(&out) : SLICE(""));
	buf_release(&out);
	return copy;
}

TEST(reads_the_same)
{
	assert_true(COUNT(yaml_documents) >= 60);
	for (size_t i = 0; i < COUNT(yaml_documents); i++) {
		const struct yaml_document *d = &yaml_documents[i];
		struct yaml_stream first, second, third;
		struct arena a;

		arena_init(&a, YAML_ARENA_MAX);
		struct slice once = emitted(&a, (struct slice){d->text, d->len}, &first);
		struct slice twice = emitted(&a, once, &second);

		emitted(&a, twice, &third);
		if (!yaml_same_streams(&first, &second) || !yaml_same_streams(&second, &third))
			fail_msg("%s: another tree:\n%.*s", d->name, (int)once.len, once.at);
		if (!slice_eq(once, twice))
			fail_msg("%s: not stable:\n%.*s", d->name, (int)twice.len, twice.at);
		for (struct yaml_doc *x = first.first, *y = second.first; x && y;
			x = x->next, y = y->next) {
			assert_int_equal(x->end_marked, y->end_marked);
			assert_int_equal(x->major * 100 + x->minor, y->major * 100 + y->minor);
			assert_int_equal(x->tag_count, y->tag_count);
		}
		arena_release(&a);
	}
}

/* Byte for byte. */
TEST(stays_as_it_was)
{
	static const char *const texts[] = {
		"mode: 0644\na: 1e3\nb: 12345678901234567890\nc: yes\nd: 3.10\ne: 0x1F\nf: "
		"1_000\ng: ~\nh:\ni: .5\n",
		"a: 'it''s'\nb: \"x\\ty\"\nc: plain text\nd: \"yes\"\ne: '0644'\n",
		"a: |\n  one\n   two\n\n  three\nb: |-\n  x\nc: |+\n  y\n\nd: >-\n  folded\n",
		"a: |2\n   leading\n  text\n",
		"a: |\n  echo \360\237\230\200\n",
		"a: {b: [c, \"d\"], e: {}}\nf: []\n",
		"a:\n- b\n- c: 1\n  d: 2\n- - e\n  - f\n",
		"a:\n  - b\n  - c: 1\n    d: 2\n",
		"a:\n    b:\n        c: 1\n    d:\n        -   x: 1\n            y: 2\n",
		"base: &b\n  x: 1\nuse: *b\nmerged:\n  <<: *b\n  y: 2\n",
		"- &a text\n- *a\n- &m\n  k: v\n- *m\n",
		"---\na: 1\n---\nb: 2\n...\n",
		"%YAML 1.1\n%TAG !e! tag:example.com,2000:\n---\na: !e!x 1\nb: !!str 5\nc: !local "
		"y\nd: ! \"5\"\n",
		"--- {a: b}\n--- text\n--- |\n  lines\n",
		"a: http://x:80/y\nb: a#b\nc: -x\nd: 1:30\ne: 2001-01-01\n",
		"\"quoted key\": 1\n'other': 2\n\344\270\255: \346\226\207\n",
	};

	for (size_t i = 0; i < COUNT(texts); i++) {
		struct yaml_stream docs;
		struct arena a;

		arena_init(&a, YAML_ARENA_MAX);
		struct slice out = emitted(&a, slice_of(texts[i]), &docs);

		assert_string_equal(out.at, texts[i]);
		arena_release(&a);
	}
}

TEST(becomes)
{
	static const struct {
		const char *before, *after;
	} cases[] = {
		{"a: 1 # comment\n\n\nb: 2", "a: 1\nb: 2\n"},
		/* without the "..." the directive would be a part of the text before it */
		{"a\n# comment\n%YAML 1.1\n---\nb\n", "a\n...\n%YAML 1.1\n--- b\n"},
		{"? |\n  x\n: y\n", "\"x\\n\": y\n"},
		{"a: one\n  two\n\n  three\n", "a: one two\n\n  three\n"},
		{"a: 'one\n  two\n\n  three'\n", "a: 'one two\n\n  three'\n"},
		{"a: \"one\n  two\\\n  three\"\n", "a: \"one twothree\"\n"},
		{"a: >\n  one\n  two\n\n  three\n    more\n  four\n",
			"a: >\n  one two\n\n  three\n    more\n  four\n"},
		{"a: [x,\n  y]\n", "a: [x, y]\n"},
		{"a: {x: , y}\n", "a: {x: null, y: null}\n"},
		{"[a: b]\n", "[{a: b}]\n"},
		{"a: \"\\U0001F600\\u2028\\0\"\n", "a: \"\360\237\230\200\\u2028\\x00\"\n"},
		{"\357\273\277a: 1\r\nb: |\r\n  x\r\n", "a: 1\nb: |\n  x\n"},
		{"  a: 1\n  b:\n     c: 2\n", "a: 1\nb:\n   c: 2\n"},
		{"  --- x: 1\n", "\"--- x\": 1\n"},
		{"{\"a\": [1.50, \"yes\", \"b c\", \"\", {\"x\": \"1\"}], \"e\": {}}",
			"a:\n- 1.50\n- \"yes\"\n- b c\n- \"\"\n- x: \"1\"\ne: {}\n"},
		{"", ""},
		{"# nothing\n", ""},
		{"~", "~\n"},
		{"---\n---\n", "---\n---\n"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct yaml_stream docs;
		struct arena a;

		arena_init(&a, YAML_ARENA_MAX);
		assert_string_equal(
			emitted(&a, slice_of(cases[i].before), &docs).at, cases[i].after);
		arena_release(&a);
	}
}

TEST(long_keys_are_explicit)
{
	char text[1400] = "? \"";
	struct yaml_stream docs, again;
	struct arena a;

	memset(text + 3, 'k', 1300);
	strncat(text, "\"\n: v\n", 8);
	arena_init(&a, YAML_ARENA_MAX);
	struct slice out = emitted(&a, slice_of(text), &docs);

	assert_string_equal(out.at, text);
	emitted(&a, out, &again);
	assert_true(yaml_same_streams(&docs, &again));
	arena_release(&a);
}

TEST(limit_of_the_buffer)
{
	struct yaml_stream docs;
	struct err err = {0};
	struct arena a;
	struct buf out;

	arena_init(&a, YAML_ARENA_MAX);
	buf_init(&out, 5);
	assert_int_equal(yaml_parse(&a, "t", SLICE("a: 123456789\n"), YAML_ANY, &docs, &err), 0);
	assert_int_equal(yaml_emit(&docs, &out, &err), ERR_TOOBIG);
	assert_true(err.msg[0]);
	buf_release(&out);
	arena_release(&a);
}

TEST(differences_are_seen)
{
	static const char *const pairs[][2] = {{"a: 1", "a: 2"}, {"a: 1", "a: '1'"},
		{"a: 1\nb: 2", "b: 2\na: 1"}, {"a: [1]", "a: [1, 2]"}, {"a: 1", "a: 1\n---\nb: 1"},
		{"a: !x 1", "a: 1"}, {"a: &x 1", "a: 1"}, {"a: &x 1\nb: *x", "a: &x 1\nb: 1"},
		{"a: {}", "a: []"}, {"a: ~", "a: ''"}};

	for (size_t i = 0; i < COUNT(pairs); i++) {
		struct yaml_stream left, right;
		struct arena a;

		arena_init(&a, YAML_ARENA_MAX);
		emitted(&a, slice_of(pairs[i][0]), &left);
		emitted(&a, slice_of(pairs[i][1]), &right);
		assert_false(yaml_same_streams(&left, &right));
		assert_true(yaml_same_streams(&left, &left));
		arena_release(&a);
	}
}

TESTS(reads_the_same, stays_as_it_was, becomes, long_keys_are_explicit, limit_of_the_buffer,
	differences_are_seen)
