/* SPDX-License-Identifier: Apache-2.0 */
/* unit: typed config values, and what is said about those that are wrong. */
#include "base/yaml/yaml_config.h"
#include "test/unit/test.h"

ARENA_FIXTURES(YAML_ARENA_MAX)

static struct yaml_node *root_of(const char *text)
{
	struct yaml_stream docs;
	struct err err = {0};

	if (yaml_parse(&arena, "p.yaml", slice_of(text), YAML_NO_ALIASES, &docs, &err) != 0)
		fail_msg("%s", err.msg);
	return docs.first->root;
}

static const char *const words[] = {"text", "json", "off"};

TEST(reads)
{
	const struct yaml_node *m = root_of("s: abc\nq: \"450\"\nv: 3.10\ni: 0600\nb: on\nd: "
					    "1m30s\nz: 0\ng: 16160Mi\nh: 2\nw: off\n"
					    "l: [a, 'b']\nm: {k: 1}\nnothing:\n");
	const struct yaml_node *none = NULL;
	struct yaml_node *node = NULL;
	struct slice s = {0}, *all = NULL;
	struct quantity quantity = {0};
	struct err err = {0};
	const char *c = NULL;
	int64_t i = 0;
	size_t n = 0;
	bool b = false;

	assert_int_equal(yaml_get_str(m, "s", &s, &err), 0);
	assert_true(slice_is(s, "abc"));
	assert_int_equal(yaml_get_cstr(m, "q", &c, &err), 0);
	assert_string_equal(c, "450");
	assert_int_equal(yaml_as_text(yaml_get(m, "v"), &s, &err), 0);
	assert_true(slice_is(s, "3.10"));
	assert_int_equal(yaml_get_int(m, "i", 0, 511, &i, &err), 0);
	assert_int_equal(i, 384);
	assert_int_equal(yaml_get_bool(m, "b", &b, &err), 0);
	assert_true(b);
	assert_int_equal(yaml_get_duration(m, "d", 0, 100000, &i, &err), 0);
	assert_int_equal(i, 90000);
	assert_int_equal(yaml_get_duration(m, "z", 0, 100000, &i, &err), 0);
	assert_int_equal(i, 0);
	assert_int_equal(yaml_as_quantity(yaml_get(m, "g"), &quantity, &err), 0);
	assert_int_equal(quantity_ceil(quantity), 16160LL << 20);
	assert_int_equal(yaml_as_quantity(yaml_get(m, "h"), &quantity, &err), 0);
	assert_int_equal(quantity_ceil(quantity), 2);
	assert_int_equal(yaml_get_choice(m, "w", words, COUNT(words), &n, &err), 0);
	assert_int_equal(n, 2);
	assert_int_equal(yaml_get_strs(m, "l", &all, &n, &err), 0);
	assert_int_equal(n, 2);
	assert_true(slice_is(all[1], "b"));
	assert_int_equal(yaml_get_map(m, "m", &node, &err), 0);
	assert_int_equal(node->count, 1);
	assert_int_equal(yaml_get_seq(m, "l", &node, &err), 0);
	assert_int_equal(node->count, 2);
	assert_int_equal(yaml_need(m, "s", &node, &err), 0);
	assert_true(slice_is(node->text, "abc"));
	/* absent and null: the default stays */
	assert_int_equal(yaml_get_str(m, "nothing", &s, &err), 0);
	assert_int_equal(yaml_get_str(m, "absent", &s, &err), 0);
	assert_int_equal(yaml_get_str(none, "absent", &s, &err), 0);
	assert_true(slice_is(s, "3.10"));
	assert_int_equal(yaml_get_map(m, "nothing", &node, &err), 0);
	assert_null(node);
	assert_int_equal(yaml_known(m, &err, "s", "q", "v", "i", "b", "d", "z", "g", "h", "w", "l",
				 "m", "nothing", NULL),
		0);
	assert_int_equal(yaml_known(none, &err, "s", NULL), 0);
}

enum reader { STR, CSTR, TEXT, INT, BOOL, DURATION, QUANTITY, CHOICE, STRS, MAP, SEQ };

static int call(enum reader reader, const struct yaml_node *m, struct err *err)
{
	struct yaml_node *node;
	struct quantity q;
	struct slice s, *all;
	const char *c;
	int64_t i;
	size_t n;
	bool b;

	switch (reader) {
	case STR:
		return yaml_get_str(m, "a", &s, err);
	case CSTR:
		return yaml_get_cstr(m, "a", &c, err);
	case TEXT:
		return yaml_as_text(yaml_get(m, "a"), &s, err);
	case INT:
		return yaml_get_int(m, "a", 1, 10, &i, err);
	case BOOL:
		return yaml_get_bool(m, "a", &b, err);
	case DURATION:
		return yaml_get_duration(m, "a", 1000, 7200000, &i, err);
	case QUANTITY:
		return yaml_as_quantity(yaml_get(m, "a"), &q, err);
	case CHOICE:
		return yaml_get_choice(m, "a", words, COUNT(words), &n, err);
	case STRS:
		return yaml_get_strs(m, "a", &all, &n, err);
	case MAP:
		return yaml_get_map(m, "a", &node, err);
	case SEQ:
		return yaml_get_seq(m, "a", &node, err);
	}
	return 1;
}

TEST(refuses)
{
	static const struct {
		const char *text;
		enum reader reader;
		const char *says;
	} cases[] = {
		{"a: 450", STR, "p.yaml:1: /a: found 450, expected a string; put it in quotes"},
		{"a: yes", STR, "found yes, expected a string"},
		{"a: {}", STR, "found a mapping, expected a string"},
		{"a: \"x\\0y\"", CSTR, "NUL byte"},
		{"a: [1]", TEXT, "found a sequence, expected a single value"},
		{"a: 11", INT, "found 11, expected a whole number from 1 to 10"},
		{"a: '5'", INT, "found \"5\", expected a whole number"},
		{"a: 5.5", INT, "found 5.5"},
		{"a: 18446744073709551615", INT, "found 18446744073709551615"},
		{"a: -9223372036854775808", INT, "found -9223372036854775808"},
		{"a: 1", BOOL, "found 1, expected true or false"},
		{"a: 'true'", BOOL, "found \"true\", expected true or false"},
		{"\n\na: abc", DURATION,
			"p.yaml:3: /a: found \"abc\", expected a duration such as 90s"},
		{"a: 90", DURATION, "found 90, expected a duration such as 90s"},
		{"a: 3h", DURATION, "found \"3h\", expected a duration from 1s to 2h"},
		{"a: 1500us", DURATION, "expected a duration"},
		{"a: 5x", QUANTITY, "found \"5x\", expected a quantity such as 16Gi"},
		{"a: []", QUANTITY, "found a sequence"},
		{"a: xml", CHOICE, "found \"xml\", expected text, json or off"},
		{"a: {}", CHOICE, "found a mapping, expected"},
		{"a: x", STRS, "expected a sequence of strings"},
		{"a: [x, 5]", STRS, "p.yaml:1: /a/1: found 5, expected a string"},
		{"a: [x, ~]", STRS, "/a/1: found ~, expected a string"},
		{"a: x", MAP, "found \"x\", expected a mapping"},
		{"a: {}", SEQ, "found a mapping, expected a sequence"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct err err = {0};

		assert_int_equal(call(cases[i].reader, root_of(cases[i].text), &err), ERR_INVALID);
		if (!strstr(err.msg, cases[i].says))
			fail_msg("\"%s\" does not say \"%s\"", err.msg, cases[i].says);
	}
}

TEST(keys)
{
	struct yaml_node *m = root_of("pool:\n  claimTTL: 5\n  x:\n"), *node;
	struct err err = {0};

	assert_int_equal(yaml_known(yaml_get(m, "pool"), &err, "claimTtl", "x", NULL), ERR_INVALID);
	assert_string_equal(err.msg, "p.yaml:2: /pool/claimTTL: unknown key \"claimTTL\" (did you "
				     "mean \"claimTtl\"?), known keys: claimTtl, x");
	yaml_known(yaml_get(m, "pool"), &err, "claimTtx", "x", NULL);
	assert_non_null(strstr(err.msg, "(did you mean \"claimTtx\"?)"));
	yaml_known(yaml_get(m, "pool"), &err, "something", "x", NULL);
	assert_null(strstr(err.msg, "did you mean"));
	assert_int_equal(yaml_known(root_of("5"), &err, "a", NULL), ERR_INVALID);
	assert_non_null(strstr(err.msg, "found 5, expected a mapping"));
	assert_int_equal(yaml_need(m, "tls", &node, &err), ERR_INVALID);
	assert_string_equal(err.msg, "p.yaml:1: /tls: the key \"tls\" is missing");
	assert_int_equal(yaml_need(yaml_get(m, "pool"), "x", &node, &err), ERR_INVALID);
	assert_string_equal(
		err.msg, "p.yaml:3: /pool/x: the key \"x\" is required, its value is empty");
	assert_int_equal(yaml_need(yaml_get(m, "pool"), "y", &node, &err), ERR_INVALID);
	assert_non_null(strstr(err.msg, ": /pool/y: the key \"y\" is missing"));
	assert_int_equal(yaml_need_as(m, "kind", "a Thing", &node, &err), ERR_INVALID);
	assert_string_equal(err.msg, "p.yaml:1: /kind: found nothing, expected a Thing");
	assert_int_equal(
		yaml_need_as(root_of("a: 1\nKind: 2\nkind1: 3"), "kind", "a Thing", &node, &err),
		ERR_INVALID);
	assert_string_equal(err.msg,
		"p.yaml:2: /kind: found nothing, expected a Thing; \"Kind\" is "
		"another key: write \"kind\"");
	assert_int_equal(
		yaml_need_as(root_of("kind:\nKind: 2"), "kind", "x", &node, &err), ERR_INVALID);
	assert_string_equal(err.msg, "p.yaml:1: /kind: found nothing, expected x");
	assert_int_equal(yaml_need(root_of("{}"), "x", &node, NULL), ERR_INVALID);
	assert_int_equal(yaml_need(root_of("[]"), "x", &node, &err), ERR_INVALID);
	assert_int_equal(yaml_need(NULL, "x", &node, &err), ERR_INVALID);
	assert_string_equal(err.msg, "the key \"x\" is missing");
	assert_int_equal(yaml_as_map(root_of("[]"), &err), ERR_INVALID);
	assert_int_equal(yaml_as_seq(root_of("{}"), &err), ERR_INVALID);
	assert_int_equal(yaml_as_map(root_of("{}"), &err), 0);
}

TESTS_BETWEEN(set_up, tear_down, reads, refuses, keys)
