/* SPDX-License-Identifier: Apache-2.0 */
/* unit: YAML and JSON files as trees, what their scalars mean, JSON out of them, and every refusal.
 */
#include "base/yaml/yaml.h"
#include "base/yaml/yaml_find.h"
#include "base/yaml/yaml_json.h"
#include "base/yaml/yaml_scalar.h"
#include "test/unit/test.h"

ARENA_FIXTURES(YAML_ARENA_MAX)

static struct yaml_doc *doc_of(struct slice text)
{
	struct yaml_stream docs;
	struct err err = {0};

	if (yaml_parse(&arena, "t.yaml", text, YAML_ANY, &docs, &err) != 0)
		fail_msg("%s", err.msg);
	return docs.first;
}

static const char *json_of(struct slice text, enum yaml_json_form form, struct err *err)
{
	struct yaml_doc *doc = doc_of(text);
	struct buf out;
	const char *copy;
	int rc;

	buf_init(&out, 1 << 20);
	rc = yaml_to_json(doc ? doc->root : NULL, form, &out, err);
	copy = rc == 0 ? arena_strdup(&arena, buf_as_slice(&out)) : NULL;
	buf_release(&out);
	return copy;
}

/* What kubectl takes a value and a key to be; checked against sigs.k8s.io/yaml 1.6.0. */
TEST(scalars_mean)
{
	static const struct {
		const char *spelling, *json, *key; /* key NULL: refused */
	} cases[] = {
		{"y", "true", "true"},
		{"Y", "true", "true"},
		{"yes", "true", "true"},
		{"Yes", "true", "true"},
		{"YES", "true", "true"},
		{"yEs", "\"yEs\"", "yEs"},
		{"on", "true", "true"},
		{"oN", "\"oN\"", "oN"},
		{"true", "true", "true"},
		{"TRUE", "true", "true"},
		{"tRUE", "\"tRUE\"", "tRUE"},
		{"n", "false", "false"},
		{"No", "false", "false"},
		{"OFF", "false", "false"},
		{"False", "false", "false"},
		{"", "null", NULL},
		{"~", "null", NULL},
		{"null", "null", NULL},
		{"NULL", "null", NULL},
		{"nuLL", "\"nuLL\"", "nuLL"},
		{"0600", "384", "384"},
		{"0o600", "384", "384"},
		{"0O17", "15", "15"},
		{"0x1F", "31", "31"},
		{"0X1f", "31", "31"},
		{"0b11", "3", "3"},
		{"-0b11", "-3", "-3"},
		{"0b-101", "-5", "-5"},
		{"0b102", "\"0b102\"", "0b102"},
		{"1_000", "1000", "1000"},
		{"_1", "\"_1\"", "_1"},
		{"1_", "1", "1"},
		{"08", "8", "8"},
		{"089", "89", "89"},
		{"07", "7", "7"},
		{"+1", "1", "1"},
		{"-0", "0", "0"},
		{"-0.0", "-0", "-0"},
		{"++1", "\"++1\"", "++1"},
		{"-", NULL, NULL},
		{"3.10", "3.1", "3.1"},
		{"1e3", "1000", "1000"},
		{"1E-7", "1e-7", "1e-07"},
		{"1e21", "1e+21", "1e+21"},
		{"1e20", "100000000000000000000", "1e+20"},
		{".5", "0.5", "0.5"},
		{"5.", "5", "5"},
		{".5_5", "0.55", "0.55"},
		{"._5", "\"._5\"", "._5"},
		{"1e6", "1000000", "1e+06"},
		{"0.1", "0.1", "0.1"},
		{"0.0001", "0.0001", "0.0001"},
		{"0.00001", "0.00001", "1e-05"},
		{"123456.5", "123456.5", "123456.5"},
		{"1234567.5", "1234567.5", "1.2345675e+06"},
		/* the largest float, the last number that rounds to it, and the first that does not
		 */
		{"3.4028234663852886e38", "3.4028234663852886e+38", "3.4028235e+38"},
		{"3.4028235677973362e38", "3.4028235677973362e+38", "3.4028235e+38"},
		{"-3.4028235677973362e38", "-3.4028235677973362e+38", "-3.4028235e+38"},
		{"3.4028235677973366e38", "3.4028235677973366e+38", NULL},
		{"-3.4028235677973366e38", "-3.4028235677973366e+38", NULL},
		{"-1e39", "-1e+39", NULL},
		{"1e400", "\"1e400\"", "1e400"},
		{"1e", "\"1e\"", "1e"},
		{"0x", "\"0x\"", "0x"},
		{"0x1p4", "\"0x1p4\"", "0x1p4"},
		{"9223372036854775807", "9223372036854775807", "9223372036854775807"},
		{"9223372036854775808", "9223372036854775808", NULL},
		{"-9223372036854775808", "-9223372036854775808", "-9223372036854775808"},
		{"18446744073709551615", "18446744073709551615", NULL},
		{"18446744073709551616", "18446744073709552000", "1.8446744e+19"},
		{"+9223372036854775808", "9223372036854776000", "9.223372e+18"},
		{"0xFFFFFFFFFFFFFFFFF", "\"0xFFFFFFFFFFFFFFFFF\"", "0xFFFFFFFFFFFFFFFFF"},
		{"1:30", "\"1:30\"", "1:30"},
		{"2001-01-01", "\"2001-01-01\"", "2001-01-01"},
		{"2001-12-14t21:59:43Z", "\"2001-12-14t21:59:43Z\"", "2001-12-14t21:59:43Z"},
		{"12500m", "\"12500m\"", "12500m"},
		{"1Ei", "\"1Ei\"", "1Ei"},
		{"127.0.0.1", "\"127.0.0.1\"", "127.0.0.1"},
		{".inf", NULL, NULL},
		{"-.INF", NULL, NULL},
		{"+.Inf", NULL, NULL},
		{".nan", NULL, NULL},
		{".NaN", NULL, NULL},
		{".Nan", "\".Nan\"", ".Nan"},
		{"-.nan", "\"-.nan\"", "-.nan"},
		{"'yes'", "\"yes\"", "yes"},
		{"\"0644\"", "\"0644\"", "0644"},
		{"''", "\"\"", ""},
		{"!!str 5", "\"5\"", "5"},
		{"!!str", "\"\"", ""},
		{"!!int '5'", "5", "5"},
		{"!!float 5", "5", "5"},
		{"!!bool 'no'", "false", "false"},
		{"!!null ''", "null", NULL},
		{"!mine 5", "\"5\"", "5"},
		{"! 5", "\"5\"", "5"},
		{"!!int abc", NULL, NULL},
		{"!!bool 3", NULL, NULL},
		{"!!float x", NULL, NULL},
		{"!!null x", NULL, NULL},
		{"!!binary aGk=", NULL, NULL},
		{"!!timestamp 5", NULL, NULL},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		char text[128];
		struct err err = {0};
		struct yaml_stream docs;

		if (strcmp(cases[i].spelling, "-") == 0)
			continue; /* a sequence, not a scalar */
		snprintf(text, sizeof(text), "a: %s", cases[i].spelling);
		const char *json = json_of(slice_of(text), YAML_JSON_COMPACT, &err);

		if (!cases[i].json) {
			assert_null(json);
			assert_int_equal(err.code, ERR_INVALID);
			assert_non_null(strstr(err.msg, "t.yaml:1: /a: "));
		} else {
			char want[128];

			snprintf(want, sizeof(want), "{\"a\":%s}", cases[i].json);
			assert_string_equal(json, want);
		}
		if (strcmp(cases[i].spelling, "!!str") == 0)
			continue; /* "!!str:" is another tag */
		snprintf(text, sizeof(text), "%s: 1", cases[i].spelling);
		int rc = yaml_parse(&arena, "t", slice_of(text), YAML_ANY, &docs, &err);

		if (!cases[i].key && rc == 0)
			fail_msg("taken for a key: %s", text);
		if (cases[i].key && (rc != 0 || !yaml_get(docs.first->root, cases[i].key)))
			fail_msg("%s: %s", text, rc ? err.msg : "another key");
	}
}

TEST(number_of_any_length)
{
	char text[3000] = "a: ";
	struct err err = {0};

	memset(text + 3, '1', 2000);
	const char *json = json_of(slice_of(text), YAML_JSON_COMPACT, &err);

	assert_int_equal(json[5], '"'); /* a string, not infinity */
}

TEST(to_json)
{
	static const struct {
		const char *yaml, *json;
	} cases[] = {
		{"", "null"},
		{"# nothing\n", "null"},
		{"---\n", "null"},
		{"a: [1, {b: c}]\nd: {}\ne: []\n", "{\"a\":[1,{\"b\":\"c\"}],\"d\":{},\"e\":[]}"},
		{"a: \"\\0\\t\\\"\\\\\\u00e9\"\n", "{\"a\":\"\\u0000\\t\\\"\\\\\303\251\"}"},
		{"z: 1\na: 2\n", "{\"z\":1,\"a\":2}"},
		{"a: &x {b: [1]}\nc: *x\nd: *x\n",
			"{\"a\":{\"b\":[1]},\"c\":{\"b\":[1]},\"d\":{\"b\":[1]}}"},
		{"<<: {a: 2}\na: 1\n", "{\"a\":1}"},
		{"a: 1\n<<: {a: 2}\n", "{\"a\":2}"}, /* as goyaml.v2: what comes last wins */
		{"<<: [{a: 1}, {a: 2, b: 3}]\nb: 4\n", "{\"a\":1,\"b\":4}"},
		{"x: &x {p: 1, <<: {q: 2}}\nz: {<<: [*x, {q: 5, r: 1}], p: 9}\n",
			"{\"x\":{\"p\":1,\"q\":2},\"z\":{\"q\":2,\"r\":1,\"p\":9}}"},
		{"'<<': 5\n", "{\"<<\":5}"},
		{"yes: 1\n2: 3\n", "{\"true\":1,\"2\":3}"},
		{"{\"a\": [1.50, 1e3, \"\\u0041\\ud83d\\ude00\"]}",
			"{\"a\":[1.50,1e3,\"\\u0041\\ud83d\\ude00\"]}"},
		{"{\"a\": 0x1F}", "{\"a\":31}"}, /* no JSON, so YAML */
		{"\357\273\277a: 1\n", "{\"a\":1}"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct err err = {0};
		const char *json = json_of(slice_of(cases[i].yaml), YAML_JSON_COMPACT, &err);

		if (!json)
			fail_msg("%s: %s", cases[i].yaml, err.msg);
		assert_string_equal(json, cases[i].json);
	}
	struct err err = {0};

	assert_string_equal(json_of(SLICE("a: [1, {b: c}]\nd: {}\n"), YAML_JSON_PRETTY, &err),
		"{\n  \"a\": [\n    1,\n    {\n      \"b\": \"c\"\n    }\n  ],\n  \"d\": {}\n}");
	assert_string_equal(json_of(SLICE("[[], [1], {a: {}}]"), YAML_JSON_PRETTY, &err),
		"[\n  [],\n  [\n    1\n  ],\n  {\n    \"a\": {}\n  }\n]");
}

/* What can be read can be written; an alias may nest it deeper than that. */
TEST(as_deep_as_is_read)
{
	const char *const open[] = {"[", "{a: "}, *const written[] = {"[", "{\"a\":"},
			  *const close[] = {"]", "}"};

	for (size_t kind = 0; kind < COUNT(open); kind++) {
		struct buf text, json;
		struct err err = {0};

		buf_init(&text, 10000);
		buf_init(&json, 10000);
		for (int i = 0; i < YAML_DEPTH_MAX; i++) {
			buf_str(&text, open[kind]);
			buf_str(&json, written[kind]);
		}
		buf_str(&text, "0");
		buf_str(&json, "0");
		for (int i = 0; i < YAML_DEPTH_MAX; i++) {
			buf_str(&text, close[kind]);
			buf_str(&json, close[kind]);
		}
		assert_string_equal(
			json_of(buf_as_slice(&text), YAML_JSON_COMPACT, &err), json.data);
		buf_clear(&text);
		buf_str(&text, "- &x ");
		for (int i = 0; i < YAML_DEPTH_MAX - 1; i++)
			buf_str(&text, open[kind]);
		buf_str(&text, "0");
		for (int i = 0; i < YAML_DEPTH_MAX - 1; i++)
			buf_str(&text, close[kind]);
		buf_str(&text, "\n- [*x]\n");
		assert_null(json_of(buf_as_slice(&text), YAML_JSON_COMPACT, &err));
		assert_int_equal(err.code, ERR_TOOBIG);
		buf_release(&text);
		buf_release(&json);
	}
}

TEST(not_to_json)
{
	static const struct {
		const char *yaml;
		enum err_code code;
		const char *says;
	} cases[] = {
		{"a:\n  b: .inf\n", ERR_INVALID, "t.yaml:2: /a/b: found .inf"},
		{"<<: 5\n", ERR_INVALID, "t.yaml:1: /<<: found 5 under a merge key"},
		{"<<: [{a: 1}, 2]\n", ERR_INVALID, "t.yaml:1: /<</1: found 2 under a merge key"},
		{"x: &x [1]\ny:\n  <<: *x\n", ERR_INVALID, "t.yaml:3:"},
		/* 10^9 scalars out of some hundred bytes */
		{"a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c "
		 "[*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
		 "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: "
		 "[*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n",
			ERR_TOOBIG, "t.yaml:"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct err err = {0};

		assert_null(json_of(slice_of(cases[i].yaml), YAML_JSON_COMPACT, &err));
		assert_int_equal(err.code, cases[i].code);
		if (!strstr(err.msg, cases[i].says))
			fail_msg("\"%s\" does not say \"%s\"", err.msg, cases[i].says);
	}
	struct buf tiny;
	struct err err = {0};

	buf_init(&tiny, 4);
	assert_int_equal(
		yaml_to_json(doc_of(SLICE("a: 123456"))->root, YAML_JSON_COMPACT, &tiny, &err),
		ERR_TOOBIG);
	buf_release(&tiny);
}

/* Merges of merges: refused after a bounded time. */
TEST(merge_bomb)
{
	struct buf text;
	struct err err = {0};

	buf_init(&text, 1 << 16);
	buf_str(&text, "m0: &m0 {a: 1}\n");
	for (int i = 1; i < 30; i++) {
		buf_fmt(&text, "m%d: &m%d {<<: [", i, i);
		for (int k = 0; k < 10; k++)
			buf_fmt(&text, "%s*m%d", k ? "," : "", i - 1);
		buf_str(&text, "]}\n");
	}
	assert_null(json_of(buf_as_slice(&text), YAML_JSON_COMPACT, &err));
	assert_int_equal(err.code, ERR_TOOBIG);
	const struct yaml_node *via = NULL;

	yaml_find(yaml_get(doc_of(buf_as_slice(&text))->root, "m29"), SLICE("zz"), &via);
	buf_release(&text);
}

TEST(refused)
{
	static const struct {
		struct slice text;
		enum yaml_flags flags;
		enum err_code code;
		const char *says;
	} cases[] = {
		{SLICE("a: 1\nb: 2\na: 3\n"), YAML_ANY, ERR_SYNTAX,
			"t.yaml:3: /a: the key \"a\" is there twice, first in line 1"},
		{SLICE("x:\n  yes: 1\n  on: 2\n"), YAML_ANY, ERR_SYNTAX, "\"true\" is there twice"},
		{SLICE("1: a\n'1': b\n"), YAML_ANY, ERR_SYNTAX, "\"1\" is there twice"},
		{SLICE("{\"a\":1,\"\\u0061\":2}"), YAML_ANY, ERR_SYNTAX, "\"a\" is there twice"},
		{SLICE("? [1]\n: 2\n"), YAML_ANY, ERR_INVALID, "found a sequence as a key"},
		{SLICE("a: &x 1\n*x : 2\n"), YAML_ANY, ERR_INVALID, "found an alias as a key"},
		{SLICE("~: 2\n"), YAML_ANY, ERR_INVALID, "as a key, expected a string"},
		{SLICE("a: *x\n"), YAML_ANY, ERR_SYNTAX,
			"t.yaml:1: /a: the alias *x has no anchor"},
		{SLICE("a: &x [*x]\n"), YAML_ANY, ERR_SYNTAX,
			"stands inside the value that it names"},
		{SLICE("a: &x {b: {c: *x}}\n"), YAML_ANY, ERR_SYNTAX, "stands inside"},
		{SLICE("a: &x 1\n---\nb: *x\n"), YAML_ANY, ERR_SYNTAX, "has no anchor"},
		{SLICE("a: &x 1\n"), YAML_NO_ALIASES, ERR_REFUSED,
			"t.yaml:1: /a: found the anchor &x"},
		{SLICE("a: *x\n"), YAML_NO_ALIASES, ERR_REFUSED, "found the alias *x"},
		{SLICE("a:\n  <<: {b: 1}\n"), YAML_NO_ALIASES, ERR_REFUSED,
			"t.yaml:2: /a/<<: found the merge key"},
		{SLICE("a: 1\n\tb: 2\n"), YAML_ANY, ERR_SYNTAX, "t.yaml:2: "},
		{SLICE("a: [1\n"), YAML_ANY, ERR_SYNTAX, "t.yaml:2: "},
		{SLICE("{\"a\": \"\\ud83d\"}"), YAML_ANY, ERR_SYNTAX, "and as JSON: "},
		{SLICE("a: \xff\n"), YAML_ANY, ERR_SYNTAX, "UTF-8"},
		{SLICE("a: \xed\xa0\x80\n"), YAML_ANY, ERR_SYNTAX, "UTF-8"},
		{SLICE("\xff\xfe"
		       "a\0"),
			YAML_ANY, ERR_SYNTAX, "UTF-16"},
		{SLICE("a\0:\0"), YAML_ANY, ERR_SYNTAX, "UTF-16"},
		{SLICE("abc\0d"), YAML_ANY, ERR_SYNTAX, "t.yaml"},
		{SLICE("a: !x!y z\n"), YAML_ANY, ERR_SYNTAX, "t.yaml:1: "},
		{SLICE("%YAML 3.0\n---\na\n"), YAML_ANY, ERR_SYNTAX, "t.yaml:1: "},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct yaml_stream docs = {0};
		struct err err = {0};
		int rc = yaml_parse(&arena, "t.yaml", cases[i].text, cases[i].flags, &docs, &err);

		if (rc != (int)cases[i].code || err.code != cases[i].code ||
			!strstr(err.msg, cases[i].says))
			fail_msg("%zu: %d \"%s\", not \"%s\"", i, rc, err.msg, cases[i].says);
		assert_null(docs.first);
		assert_int_equal(
			yaml_parse(&arena, "t", cases[i].text, cases[i].flags, &docs, NULL), rc);
	}
}

TEST(limits)
{
	struct yaml_stream docs;
	struct err err = {0};
	struct buf text;

	buf_init(&text, YAML_BYTES_MAX + 10);
	for (int i = 0; i < YAML_DEPTH_MAX; i++)
		buf_char(&text, '[');
	for (int i = 0; i < YAML_DEPTH_MAX; i++)
		buf_char(&text, ']');
	assert_int_equal(yaml_parse(&arena, "t", buf_as_slice(&text), YAML_ANY, &docs, &err), 0);
	buf_clear(&text);
	for (int i = 0; i < 100000; i++)
		buf_char(&text, '[');
	assert_int_equal(
		yaml_parse(&arena, "t", buf_as_slice(&text), YAML_ANY, &docs, &err), ERR_TOOBIG);
	assert_non_null(strstr(err.msg, "deeper than 64"));
	buf_clear(&text);
	buf_char(&text, '[');
	for (unsigned i = 0; i <= YAML_NODES_MAX; i++)
		buf_str(&text, "0,");
	assert_int_equal(
		yaml_parse(&arena, "t", buf_as_slice(&text), YAML_ANY, &docs, &err), ERR_TOOBIG);
	buf_clear(&text);
	for (unsigned i = 0; i <= YAML_BYTES_MAX; i++)
		buf_char(&text, ' ');
	assert_int_equal(
		yaml_parse(&arena, "t", buf_as_slice(&text), YAML_ANY, &docs, &err), ERR_TOOBIG);
	buf_clear(&text);
	for (int i = 0; i <= YAML_ANCHORS_MAX; i++)
		buf_fmt(&text, "- &a%d x\n", i);
	assert_int_equal(
		yaml_parse(&arena, "t", buf_as_slice(&text), YAML_ANY, &docs, &err), ERR_TOOBIG);
	buf_release(&text);

	struct arena small;

	arena_init(&small, 600);
	assert_int_equal(yaml_parse(&small, "t", SLICE("a: [1, 2, 3, 4]\n"), YAML_ANY, &docs, &err),
		ERR_NOMEM);
	assert_int_equal(
		yaml_parse(&small, "t", SLICE("{\"a\": [1, 2, 3, 4]}"), YAML_ANY, &docs, &err),
		ERR_NOMEM);
	arena_release(&small);
}

TEST(walks)
{
	struct yaml_node *root =
		doc_of(SLICE("a: {b: [x, 2, ~]}\nn:\nyes: on\n'q': \"t\"\nl: &l [1]\nm: *l\n"))
			->root;
	size_t n = 0;

	assert_int_equal(root->count, 6);
	assert_true(yaml_is_str(yaml_at(yaml_path(root, "a", "b", NULL), 0), "x"));
	assert_false(yaml_is_str(yaml_at(yaml_path(root, "a", "b", NULL), 1), "2"));
	assert_null(yaml_at(yaml_path(root, "a", "b", NULL), 3));
	assert_null(yaml_path(root, "a", "c", "d", NULL));
	assert_null(yaml_get(NULL, "a"));
	assert_true(yaml_absent(NULL) && yaml_absent(yaml_get(root, "n")));
	assert_true(yaml_absent(yaml_at(yaml_path(root, "a", "b", NULL), 2)));
	assert_false(yaml_absent(yaml_get(root, "q")));
	assert_non_null(yaml_get(root, "true"));
	assert_int_equal(yaml_get(root, "m")->kind, YAML_ALIAS);
	assert_ptr_equal(yaml_get(root, "m")->target, yaml_get(root, "l"));
	assert_int_equal(yaml_get(root, "l")->aliased, 1);
	assert_int_equal(yaml_get(root, "q")->line, 4);
	assert_int_equal(yaml_get(root, "q")->column, 6);
	YAML_MEMBERS(root, k)
	n += k->kind == YAML_SCALAR;
	YAML_EACH(root, e) /* a map: nothing */
	n += e != NULL;
	assert_int_equal(n, 6);
}

TEST(what_is_no_scalar_means_nothing)
{
	static const char *const cases[] = {"{a: 1}", "- 1\n"};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct yaml_value v;
		struct err err = {0};

		assert_int_equal(
			yaml_meaning(doc_of(slice_of(cases[i]))->root, &v, &err), ERR_INVALID);
		assert_non_null(strstr(err.msg, "expected a single value"));
	}
}

TEST(places)
{
	struct yaml_node *root = doc_of(SLICE("a/b:\n- x~y:\n    yes: here\n"))->root;
	struct yaml_node *at = yaml_path(yaml_at(yaml_get(root, "a/b"), 0), "x~y", "true", NULL);
	struct err err = {0};
	struct buf out;

	buf_init(&out, 100);
	yaml_pointer(at, &out);
	assert_string_equal(out.data, "/a~1b/0/x~0y/true");
	buf_clear(&out);
	yaml_pointer(root, &out);
	assert_int_equal(out.len, 0);
	buf_release(&out);
	assert_int_equal(yaml_err(at, &err, ERR_INVALID, "n %d", 5), ERR_INVALID);
	assert_string_equal(err.msg, "t.yaml:3: /a~1b/0/x~0y/true: n 5");
	yaml_err(root, &err, ERR_INVALID, "all");
	assert_string_equal(err.msg, "t.yaml:1: all");
	yaml_err(NULL, &err, ERR_INVALID, "all");
	assert_string_equal(err.msg, "all");

	struct yaml_doc *json = doc_of(SLICE("{\n \"a\": [1,\n  {\"b\": 2}]}"));

	yaml_err(yaml_get(yaml_at(yaml_get(json->root, "a"), 1), "b"), &err, ERR_INVALID, "x");
	assert_string_equal(err.msg, "t.yaml:3: /a/1/b: x");
	assert_true(json->json);
}

TEST(found)
{
	static const struct {
		const char *yaml, *found;
	} cases[] = {{"abc", "\"abc\""}, {"12", "12"}, {"yes", "yes"}, {"~", "~"}, {"''", "\"\""},
		{"'12'", "\"12\""}, {"{a: 1}", "a mapping"}, {"[1]", "a sequence"}, {"", NULL},
		{"0123456789012345678901234567890123456789012345678901234567890123456789x",
			"\"012345678901234567890123456789012345678901234567890123456789...\""}};
	char out[80];

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct yaml_doc *doc = doc_of(slice_of(cases[i].yaml));

		assert_string_equal(yaml_found(doc ? doc->root : NULL, out),
			cases[i].found ? cases[i].found : "nothing");
	}
	assert_string_equal(yaml_found(yaml_get(doc_of(SLICE("a:"))->root, "a"), out), "nothing");
	assert_string_equal(yaml_found(yaml_get(doc_of(SLICE("x: &x 1\na: *x\n"))->root, "a"), out),
		"an alias");
}

/* What is found in JSON is told as it is spelled there: a text in quotes, all else without. */
TEST(found_in_json)
{
	static const struct {
		const char *json, *found;
	} cases[] = {{"\"abc\"", "\"abc\""}, {"\"12\"", "\"12\""}, {"\"\"", "\"\""},
		{"\"null\"", "\"null\""}, {"12", "12"}, {"-1.5e3", "-1.5e3"}, {"true", "true"},
		{"null", "null"}, {"{}", "a mapping"}, {"[\"a\"]", "a sequence"}};
	char text[64], out[80];

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct yaml_doc *doc;

		(void)snprintf(text, sizeof(text), "{\"a\": %s}", cases[i].json);
		doc = doc_of(slice_of(text));
		assert_true(doc->json);
		assert_string_equal(yaml_found(yaml_get(doc->root, "a"), out), cases[i].found);
	}
}

TEST(finds_through)
{
	struct yaml_node *root = doc_of(
		SLICE("base: &b {x: 1, m: &m {z: 2}}\nuse:\n  <<: *b\n  w: 3\nalias: *b\n"
		      "list: {<<: [{x: 7}, *b]}\nlate: {x: 8, <<: *b}\nearly: {<<: *b, x: 9}\n"))
					 ->root;
	const struct yaml_node *via = NULL;

	assert_true(slice_is(yaml_find(yaml_get(root, "use"), SLICE("w"), &via)->text, "3"));
	assert_null(via);
	assert_true(slice_is(yaml_find(yaml_get(root, "use"), SLICE("x"), &via)->text, "1"));
	assert_true(yaml_is_merge(via));
	assert_int_equal(via->line, 3);
	via = NULL;
	assert_true(slice_is(yaml_find(yaml_get(root, "alias"), SLICE("x"), &via)->text, "1"));
	assert_int_equal(via->kind, YAML_ALIAS);
	via = NULL;
	assert_true(slice_is(yaml_find(yaml_get(root, "list"), SLICE("x"), &via)->text, "7"));
	assert_true(slice_is(yaml_find(yaml_get(root, "late"), SLICE("x"), &via)->text, "1"));
	via = NULL;
	assert_true(slice_is(yaml_find(yaml_get(root, "early"), SLICE("x"), &via)->text, "9"));
	assert_null(via);
	assert_null(yaml_find(yaml_get(root, "use"), SLICE("none"), &via));
	assert_null(yaml_find(NULL, SLICE("x"), &via));
	assert_non_null(yaml_follow(yaml_get(root, "use"), "m", &via));
}

TEST(plain_safe)
{
	static const char *const safe[] = {"a", "python", "/usr/bin/x", "a b c", "--flag", "-n",
		"a=b", "local/train:1", "http://x/y", "1Gi", "a.b_c-d", "bitfusion.io/gpu",
		"zone=lab"};
	static const char *const unsafe[] = {"", " a", "a ", "yes", "N", "null", "~", "1", "0644",
		"1e3", "1.5", "1:30", "2001-01-01", "-", "--", "---", "- a", "a: b", "a #b", "*x",
		"&x", "!x", "[a]", "{a}", "a,b", "'a'", "\"a\"", "a\nb", "a\tb", "%x", "@x",
		"\303\251", ".5", "...", "10.0.0.1", "a:", "#", "|", ">", "=", "<<"};

	for (size_t i = 0; i < COUNT(safe); i++) {
		if (!yaml_plain_safe(slice_of(safe[i])))
			fail_msg("%s is safe", safe[i]);
	}
	for (size_t i = 0; i < COUNT(unsafe); i++) {
		if (yaml_plain_safe(slice_of(unsafe[i])))
			fail_msg("%s is not safe", unsafe[i]);
	}
	assert_false(yaml_plain_safe(SLICE("a\0b")));
}

TESTS_BETWEEN(set_up, tear_down, scalars_mean, number_of_any_length, to_json, as_deep_as_is_read,
	not_to_json, merge_bomb, refused, limits, walks, what_is_no_scalar_means_nothing, places,
	found, found_in_json, finds_through, plain_safe)
