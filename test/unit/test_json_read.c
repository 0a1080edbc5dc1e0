/* SPDX-License-Identifier: Apache-2.0 */
/* test: base/json/json_read on made-up texts: messages, nodes, getters, limits. test_json_files has
 * the documents. */
#include "base/json/json_read.h"
#include "test/unit/test.h"

#define NODES 1000000

/* A document that must be accepted, read from an exact copy so that AddressSanitizer sees a byte
 * too many. */
static struct doc {
	struct json j;
	char *text;
} d;

FIXTURE(forget)
{
	json_release(&d.j);
	free(d.text);
	d = (struct doc){0};
	return 0;
}

/* Into d, where another one was. Its root. */
static const struct json_node *read_text(struct slice s)
{
	struct err err = {0};

	(void)forget(NULL);
	if (json_read_copy(&d.j, s.at, s.len, NODES, &d.text, &err) != 0)
		fail_msg("refused: %s", err.msg);
	return json_root(&d.j);
}

static int refuse(struct slice s, uint32_t max_nodes, struct err *err)
{
	char untouched, *text = &untouched;
	struct json j = {0};
	int rc = json_read_copy(&j, s.at, s.len, max_nodes, &text, err);

	if (rc == 0)
		fail_msg("accepted: %.*s", (int)(s.len < 100 ? s.len : 100), s.at);
	assert_null(text);
	assert_int_equal(err->code, rc);
	assert_int_equal(j.count, 0);
	assert_null(json_root(&j));
	json_release(&j);
	return rc;
}

TEST(messages_say_where_and_what)
{
	static const struct {
		const char *in, *msg;
	} cases[] = {
		{"", "at byte 0: expected a value, found the end of the text"},
		{"{\"a\":1x}", "at byte 6: expected ',' or '}', found 'x'"},
		{"[1 2]", "at byte 3: expected ',' or ']', found '2'"},
		{"[1,]", "at byte 3: expected a value, found ']'"},
		{"{\"a\" 1}", "at byte 5: expected ':' behind the key, found '1'"},
		{"{a:1}", "at byte 1: expected a key in '\"' or '}', found 'a'"},
		{"{\"a\":1,}", "at byte 7: expected a key in '\"' behind the ',', found '}'"},
		{"{} x", "at byte 3: expected nothing more behind the value, found 'x'"},
		{"[tru]", "at byte 1: expected a value (true, false and null are the only words), "
			  "found 't'"},
		{"[\x01]", "at byte 1: expected a value, found byte 0x01"},
		{"[\xff]", "at byte 1: expected a value, found byte 0xFF"},
		{"\xef\xbb\xbf{}", "at byte 0: a byte order mark; JSON is sent without one"},
		{"[-]", "at byte 2: expected a digit, found ']'"},
		{"[1.]", "at byte 3: expected a digit, found ']'"},
		{"[1e+", "at byte 4: expected a digit, found the end of the text"},
		{"[1e400]", "at byte 1: a number larger than a double can be"},
		{"[\"abc", "at byte 1: the string that begins here has no closing '\"'"},
		{"[\"a\nb\"]",
			"at byte 3: control character 0x0A in a string; it is written \\u000A"},
		{"[\"a\xff\"]", "at byte 3: byte 0xFF in a string is not UTF-8"},
		{"[\"\\x\"]", "at byte 3: expected one of \" \\ / b f n r t u behind a backslash, "
			      "found 'x'"},
		{"[\"\\u12g4\"]", "at byte 2: \\u without four hexadecimal digits"},
		{"[\"a\\u0000\"]", "at byte 3: \\u0000 is not accepted: no value may hold a NUL"},
		{"[\"\\udc00\"]", "at byte 2: a low surrogate without its high one"},
		{"[\"\\ud800x\"]", "at byte 2: a high surrogate without its low one"},
		{"{\"a\":1,\"b\":2,\"\\u0061\":3}", "at byte 13: the key \"a\" stands twice in "
						    "this object, first at byte 1; keep one"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct err err = {0};

		assert_int_equal(refuse(slice_of(cases[i].in), NODES, &err), ERR_SYNTAX);
		assert_string_equal(err.msg, cases[i].msg);
	}
}

TEST(nul_bytes_are_refused_anywhere)
{
	static const struct slice cases[] = {SLICE("\0"), SLICE("\0{}"), SLICE("{}\0"),
		SLICE("[1\0]"), SLICE("\"a\0b\""), SLICE("[\"a\0"), SLICE("{\"a\0\":1}"),
		SLICE("tru\0")};

	for (size_t i = 0; i < COUNT(cases); i++)
		assert_int_equal(refuse(cases[i], NODES, &(struct err){0}), ERR_SYNTAX);
}

/* Every beginning of a document is refused, whatever it is cut through. */
TEST(every_cut_is_refused)
{
	static const struct slice whole =
		SLICE("{\"key\":[1,-2.5e+10,\"\\ud83d\\ude00 \xe2\x82\xac\\n long text here\","
		      "true,false,null,{\"k\\\"\":{}}],\"b\":[[]]}");
	read_text(whole);
	for (size_t len = 0; len < whole.len; len++)
		assert_int_equal(
			refuse((struct slice){whole.at, len}, NODES, &(struct err){0}), ERR_SYNTAX);
}

TEST(nodes_lie_in_the_order_of_the_text)
{
	static const struct json_node want[] = {
		{1, 35, 7, JSON_OBJECT, 0, 2},
		{3, 3, 2, JSON_STRING, 0, 0},
		{9, 13, 5, JSON_ARRAY, 0, 2},
		{11, 1, 4, JSON_NUMBER, 0, 0},
		{15, 5, 5, JSON_STRING, 1, 0},
		{25, 3, 6, JSON_STRING, 0, 0},
		{31, 3, 7, JSON_OBJECT, 0, 0},
	};

	read_text(SLICE(" { \"a\" : [ 1 , \"x\\n\" ] , \"b\" : { } } "));
	assert_int_equal(d.j.count, COUNT(want));
	for (size_t i = 0; i < COUNT(want); i++) {
		const struct json_node *n = &d.j.node[i];

		assert_int_equal(n->at, want[i].at);
		assert_int_equal(n->len, want[i].len);
		assert_int_equal(n->next, want[i].next);
		assert_int_equal(n->type, want[i].type);
		assert_int_equal(n->escaped, want[i].escaped);
		assert_int_equal(n->count, want[i].count);
	}
}

TEST(walking)
{
	const struct json *j = &d.j;
	const struct json_node *root = read_text(SLICE("{\"list\":[10,[20,21],{\"x\":30},40],"
						       "\"empty\":[],\"none\":{},\"last\":null}")),
			       *list = json_get(j, root, SLICE("list"));
	static const char *const elements[] = {"10", "[20,21]", "{\"x\":30}", "40"};
	static const char *const keys[] = {"list", "empty", "none", "last"};
	size_t n = 0;

	JSON_EACH(j, list, e)
	assert_true(slice_is(json_raw(j, e), elements[n++]));
	assert_int_equal(n, 4);
	n = 0;
	JSON_MEMBERS(j, root, k)
	assert_true(json_is_str(j, k, slice_of(keys[n++])));
	assert_int_equal(n, 4);
	/* The wrong kind, nothing at all and empty ones give no turns. */
	JSON_EACH(j, root, e)
	fail_msg("%u", e->at);
	JSON_MEMBERS(j, list, k)
	fail_msg("%u", k->at);
	JSON_EACH(j, json_get(j, root, SLICE("empty")), e)
	fail_msg("%u", e->at);
	JSON_MEMBERS(j, json_get(j, root, SLICE("none")), k)
	fail_msg("%u", k->at);
	JSON_EACH(j, NULL, e)
	fail_msg("%u", e->at);
	assert_null(json_first(j, NULL));
	assert_null(json_first(j, json_get(j, root, SLICE("last"))));
	assert_null(json_first(j, json_get(j, root, SLICE("none"))));
}

TEST(looking_up)
{
	const struct json *j = &d.j;
	const struct json_node *root =
		read_text(SLICE("{\"spec\":{\"containers\":[{\"name\":\"c\"}],\"Spec\":1},\"\":5,"
				"\"k\\u0065y\\n\":6,\"\\ud83d\\ude00\":7,\"nil\":null}"));
	int64_t n;

	assert_true(json_is(json_path(j, root, "spec", "containers", NULL), JSON_ARRAY));
	assert_ptr_equal(json_path(j, root, NULL), root);
	assert_null(json_path(j, root, "spec", "missing", "deeper", NULL));
	assert_null(json_path(j, root, "spec", "containers", "name", NULL));
	assert_null(json_path(j, NULL, "spec", NULL));
	assert_null(json_get(j, root, SLICE("SPEC")));
	assert_null(json_get(j, root, SLICE("spe")));
	assert_null(json_get(j, root, SLICE("specs")));
	assert_null(json_get(j, root, SLICE("containers")));
	assert_true(json_int(j, json_get(j, root, SLICE("")), &n) && n == 5);
	assert_true(json_int(j, json_get(j, root, SLICE("key\n")), &n) && n == 6);
	assert_true(json_int(j, json_get(j, root, SLICE("\xf0\x9f\x98\x80")), &n) && n == 7);
	assert_null(json_get(j, root, SLICE("k\\u0065y\\n")));
	assert_true(json_absent(json_get(j, root, SLICE("nil"))));
	assert_true(json_absent(NULL));
	assert_false(json_absent(root));
	assert_false(json_is(NULL, JSON_NULL));
}

/* The element that json_find finds, as its index; -1 for none. */
static int found_at(const struct json *j, const char *list, const char *value, bool last)
{
	const struct json_node *array = json_get(j, json_root(j), slice_of(list));
	size_t index = 99;
	const struct json_node *e = json_find(j, array, "name", slice_of(value), last, &index);

	assert_ptr_equal(e, json_find(j, array, "name", slice_of(value), last, NULL));
	if (!e) {
		assert_int_equal(index, 99);
		return -1;
	}
	JSON_EACH(j, array, at)
	if (at == e)
		return (int)index;
	fail_msg("what was found for %s is no element", value);
	return -2;
}

/* Looking for many at once finds what looking for each finds; more than some 20 of them in the
 * order of names. */
#define MANY 40
TEST(finding_many_elements)
{
	static const char *const texts[] = {
		"a", "b", "c", "d", "b\n", "", "7", "e", "f", "b", "longer than any", "a"};
	struct slice names[MANY];
	struct json_hit hits[MANY];
	struct arena a;

	read_text(SLICE(
		"{\"list\":[{\"value\":\"b\",\"name\":\"a\"},{\"name\":\"b\"},[\"name\",\"c\"],"
		"{\"n\\u0061me\":\"c\"},{\"name\":\"\\u0064\"},{\"nam\\u0065\":\"b\\n\"},"
		"{\"name\":\"\"},{\"name\":7},{},\"e\",null,{\"name\":\"b\"}],\"name\":7}"));
	arena_init(&a, 1 << 20);
	for (size_t i = 0; i < MANY; i++)
		names[i] = slice_of(texts[i % (sizeof(texts) / sizeof(texts[0]))]);
	for (size_t n = 0; n <= MANY; n++)
		for (int last = 0; last < 2; last++)
			for (size_t k = 0; k < 2; k++) {
				const struct json_node *array = json_get(
					&d.j, json_root(&d.j), slice_of(k ? "name" : "list"));

				assert_int_equal(json_find_each(&d.j, array, "name", names, n, last,
							 &a, hits),
					0);
				for (size_t i = 0; i < n; i++) {
					size_t index = 0;

					assert_ptr_equal(
						hits[i].node, json_find(&d.j, array, "name",
								      names[i], last, &index));
					assert_int_equal(hits[i].index, index);
				}
			}
	arena_release(&a);
	arena_init(&a, 1);
	assert_int_equal(json_find_each(&d.j, json_get(&d.j, json_root(&d.j), SLICE("list")),
				 "name", names, MANY, false, &a, hits),
		ERR_NOMEM);
	arena_release(&a);
}

TEST(finding_an_element)
{
	/* 0 has its name last, 1 another member with the value, 4 an escaped key, 5 an escaped
	 * value, 6 both */
	read_text(SLICE(
		"{\"list\":[{\"value\":\"b\",\"name\":\"a\"},{\"nama\":\"b\",\"x\":[{\"name\":"
		"\"b\"}]},{\"name\":\"b\"},[\"name\",\"c\"],{\"n\\u0061me\":\"c\"},{\"name\":"
		"\"\\u0064\"},{\"nam\\u0065\":\"b\\n\"},{\"name\":\"\"},{\"name\":7},{},\"e\","
		"null,{\"other\":\"\\u0066\",\"name\":\"b\"}],\"none\":[],\"name\":\"a\"}"));
	assert_int_equal(found_at(&d.j, "list", "a", false), 0);
	assert_int_equal(found_at(&d.j, "list", "b", false), 2);
	assert_int_equal(found_at(&d.j, "list", "b", true), 12);
	assert_int_equal(found_at(&d.j, "list", "c", false), 4);
	assert_int_equal(found_at(&d.j, "list", "d", true), 5);
	assert_int_equal(found_at(&d.j, "list", "b\n", false), 6);
	assert_int_equal(found_at(&d.j, "list", "", false), 7);
	assert_int_equal(found_at(&d.j, "list", "7", false), -1);
	assert_int_equal(found_at(&d.j, "list", "e", false), -1);
	assert_int_equal(found_at(&d.j, "list", "f", false), -1);
	assert_int_equal(found_at(&d.j, "none", "a", false), -1);
	assert_int_equal(found_at(&d.j, "name", "a", false), -1);
	assert_int_equal(found_at(&d.j, "missing", "a", false), -1);
}

TEST(decoding)
{
	static const struct {
		struct slice in, out;
		bool escaped;
	} cases[] = {
		{SLICE("\"\""), SLICE(""), false},
		{SLICE("\"plain text, no escapes at all\""), SLICE("plain text, no escapes at all"),
			false},
		{SLICE("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""), SLICE("\"\\/\b\f\n\r\t"), true},
		{SLICE("\"\\u0041\\u00e9\\u20AC\\uffff\""),
			SLICE("A\xc3\xa9\xe2\x82\xac\xef\xbf\xbf"), true},
		{SLICE("\"\\u007f\\u0080\\u07ff\\u0800\""),
			SLICE("\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80"), true},
		{SLICE("\"\\ud800\\udc00\\uDBFF\\uDFFF\""),
			SLICE("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"), true},
		{SLICE("\"\\u003cnone\\u003e\""), SLICE("<none>"), true},
		{SLICE("\"a\\tb\xc3\xa9\\\\\""), SLICE("a\tb\xc3\xa9\\"), true},
		{SLICE("\"\\\\u0041\""), SLICE("\\u0041"), true},
		{SLICE("\"k:{\\\"name\\\":\\\"nvidia.com\\/gpu\\\"}\""),
			SLICE("k:{\"name\":\"nvidia.com/gpu\"}"), true},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		const struct json_node *v = read_text(cases[i].in);
		struct arena a;
		struct slice s;
		struct buf b;

		arena_init(&a, 1000);
		buf_init(&b, cases[i].out.len);
		assert_int_equal(v->escaped, cases[i].escaped);
		json_decode(&d.j, v, &b);
		assert_false(b.failed);
		assert_true(slice_eq(buf_as_slice(&b), cases[i].out));
		s = json_str(&d.j, v, &a);
		assert_true(slice_eq(s, cases[i].out));
		assert_int_equal(a.used != 0, cases[i].escaped);
		assert_true(json_is_str(&d.j, v, cases[i].out));
		assert_false(json_is_str(&d.j, v, SLICE("something else")));
		if (cases[i].out.len > 0) {
			struct slice less = {cases[i].out.at, cases[i].out.len - 1};

			assert_false(json_is_str(&d.j, v, less));
		}
		assert_int_equal(json_inside(&d.j, v).len, cases[i].in.len - 2);
		assert_true(slice_eq(json_raw(&d.j, v), cases[i].in));
		buf_release(&b);
		arena_release(&a);
	}
}

TEST(values_that_are_no_strings)
{
	struct arena a;
	struct buf b;

	read_text(SLICE("[1,null,{}]"));
	arena_init(&a, 100);
	buf_init(&b, 100);
	JSON_EACH(&d.j, json_root(&d.j), v)
	{
		assert_null(json_str(&d.j, v, &a).at);
		assert_null(json_inside(&d.j, v).at);
		assert_false(json_is_str(&d.j, v, SLICE("1")));
		json_decode(&d.j, v, &b);
		assert_int_equal(b.len, 0);
	}
	assert_null(json_str(&d.j, NULL, &a).at);
	assert_null(json_raw(&d.j, NULL).at);
	assert_false(json_is_str(&d.j, NULL, SLICE("")));
	json_decode(&d.j, NULL, &b);
	assert_int_equal(b.len, 0);
}

TEST(a_full_arena_gives_no_string)
{
	struct arena a;

	read_text(SLICE("\"a\\nb\""));
	arena_init(&a, 3);
	assert_null(json_str(&d.j, json_root(&d.j), &a).at);
	assert_true(a.failed);
	arena_release(&a);
}

TEST(integers)
{
	static const struct {
		const char *in;
		bool ok;
		int64_t n;
	} cases[] = {
		{"0", true, 0},
		{"-0", true, 0},
		{"-0.0e5", true, 0},
		{"1", true, 1},
		{"-42", true, -42},
		{"1e3", true, 1000},
		{"1E+3", true, 1000},
		{"2.0", true, 2},
		{"2.50e1", true, 25},
		{"1500e-2", true, 15},
		{"0.5e1", true, 5},
		{"100000000000000000000e-18", true, 100},
		{"0.00000000000000000001e20", true, 1},
		{"9007199254740992", true, INT64_C(9007199254740992)},
		{"-9007199254740992", true, INT64_C(-9007199254740992)},
		{"9007199254740992.000", true, INT64_C(9007199254740992)},
		{"0e999999999999999999999999", true, 0},
		{"9007199254740993", false, 0},
		{"9007199254740992.5", false, 0},
		{"9007199254740991.5", false, 0},
		{"18014398509481984e-1", false, 0},
		{"90071992547409920e-1", true, INT64_C(9007199254740992)},
		{"1.5", false, 0},
		{"1e-1", false, 0},
		{"1e16", false, 0},
		{"1e15", true, INT64_C(1000000000000000)},
		{"1e300", false, 0},
		{"1e-99999999999999999999", false, 0},
		{"100000000000000000000000000000000000000000001", false, 0},
		{"1.00000000000000000000000000000000000000000001", false, 0},
		{"9223372036854775808", false, 0}, /* each digit up to the last but one is exact */
		{"900719925474099200001", false, 0},
		{"-900719925474099200001", false, 0},
		{"9007199254740991e4", false, 0},
		{"9007199254740991.00001", false, 0},
		{"\"1\"", false, 0},
		{"true", false, 0},
		{"[1]", false, 0},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		int64_t n = 77;

		read_text(slice_of(cases[i].in));
		if (json_int(&d.j, json_root(&d.j), &n) != cases[i].ok ||
			n != (cases[i].ok ? cases[i].n : 77))
			fail_msg("%s: %lld", cases[i].in, (long long)n);
	}
	assert_false(json_int(&(struct json){0}, NULL, &(int64_t){0}));
}

TEST(type_names)
{
	static const char *const names[] = {
		"null", "false", "true", "number", "string", "array", "object"};
	size_t i = 0;

	read_text(SLICE("[null,false,true,0,\"\",[],{}]"));
	JSON_EACH(&d.j, json_root(&d.j), v)
	{
		assert_int_equal(v->type, i);
		assert_string_equal(json_type_name(v), names[i++]);
	}
	assert_string_equal(json_type_name(NULL), "nothing");
}

/* ---- limits ---- */

static char *repeat(const char *unit, size_t n, size_t *ret_len)
{
	size_t len = strlen(unit);
	char *s = malloc(len * n + 1);

	assert_non_null(s);
	for (size_t i = 0; i < n; i++)
		memcpy(s + i * len, unit, len);
	s[len * n] = '\0';
	*ret_len = len * n;
	return s;
}

TEST(depth_is_limited)
{
	static const char *const units[] = {"[", "{\"a\":", "[{\"a\":"};

	for (size_t i = 0; i < COUNT(units); i++) {
		struct err err = {0};
		size_t len;
		char *s = repeat(units[i], 100000, &len);

		assert_int_equal(refuse((struct slice){s, len}, NODES, &err), ERR_TOOBIG);
		assert_non_null(strstr(err.msg, "nested deeper than 64 levels"));
		assert_memory_equal(err.msg, "at byte ", 8);
		free(s);
	}
}

TEST(nodes_are_limited)
{
	struct json j = {0};
	struct err err = {0};
	char *copy = NULL;

	/* Seven values and keys. */
	assert_int_equal(refuse(SLICE("{\"a\":[1,2],\"b\":3}"), 6, &err), ERR_TOOBIG);
	assert_string_equal(
		err.msg, "at byte 15: more than 6 values and keys, which is the most accepted");
	assert_int_equal(refuse(SLICE("1"), 0, &err), ERR_TOOBIG);
	assert_int_equal(json_read_copy(&j, "{\"a\":[1,2],\"b\":3}", 17, 7, &copy, &err), 0);
	assert_int_equal(j.count, 7);
	free(copy);
	/* Room from an earlier read does not lift the limit of this one. */
	assert_int_equal(json_read_copy(&j, "[1,2,3,4,5,6,7,8]", 17, 1000, &copy, &err), 0);
	free(copy);
	assert_int_equal(json_read_copy(&j, "[1,2,3,4,5,6,7,8]", 17, 8, &copy, &err), ERR_TOOBIG);
	assert_null(copy);
	assert_int_equal(json_read_copy(&j, "[1,2,3,4,5,6,7,8]", 17, 9, &copy, &err), 0);
	free(copy);
	json_release(&j);
}

/* Of so much not a byte is read: here there is one. */
TEST(four_gibibytes_are_too_many)
{
	static const size_t lens[] = {UINT32_MAX - JSON_PAD + 1ull, UINT32_MAX, UINT32_MAX + 1ull,
		UINT32_MAX + 2ull, 1ull << 40};

	for (size_t i = 0; i < COUNT(lens); i++) {
		struct json j = {0};
		struct err err = {0};

		assert_int_equal(json_read(&j, "1", lens[i], NODES, &err), ERR_TOOBIG);
		assert_int_equal(err.code, ERR_TOOBIG);
		assert_string_equal(err.msg, "at byte 0: a text of more than 4 GiB");
		assert_int_equal(json_read(&j, "1", lens[i], NODES, NULL), ERR_TOOBIG);
		assert_null(json_root(&j));
		json_release(&j);
	}
}

TEST(three_mebibytes_of_zeros)
{
	struct err err = {0};
	size_t len;
	char *s = repeat("0,", 3 << 19, &len);

	s[0] = '[';
	s[1] = '1';
	s[2] = '0';
	assert_int_equal(refuse((struct slice){s, len}, 100000, &err), ERR_TOOBIG);
	free(s);
}

/* ---- keys ---- */

/* {"…":0,…} of n keys made by the format, which takes a number. */
static char *wide_object(const char *fmt, unsigned n, unsigned again, size_t *ret_len)
{
	struct buf b;
	char key[64];

	buf_init(&b, 64 << 20);
	buf_char(&b, '{');
	for (unsigned i = 0; i < n; i++) {
		snprintf(key, sizeof(key), fmt, i);
		buf_fmt(&b, "\"%s\":0,", key);
	}
	snprintf(key, sizeof(key), fmt, again);
	buf_fmt(&b, "\"%s\":1}", key);
	assert_false(b.failed);
	return buf_take(&b, ret_len);
}

TEST(duplicate_keys_are_found_at_any_width)
{
	static const char *const formats[] = {
		"k%u", "\\u006b%u", "a-long-prefix-that-all-share/%u", "%u"};
	static const unsigned widths[] = {
		1, 2, 3, 8, 31, 32, 33, 34, 64, 65, 255, 256, 257, 300, 512, 1000, 99000};

	for (size_t f = 0; f < COUNT(formats); f++) {
		for (size_t w = 0; w < COUNT(widths); w++) {
			unsigned twice[] = {0, widths[w] / 2, widths[w] - 1};
			struct err err = {0};
			size_t len;
			char *s = wide_object(formats[f], widths[w], widths[w], &len);

			read_text((struct slice){s, len});
			assert_int_equal(json_root(&d.j)->count, widths[w] + 1);
			free(s);
			for (size_t t = 0; t < COUNT(twice); t++) {
				s = wide_object(formats[f], widths[w], twice[t], &len);
				assert_int_equal(
					refuse((struct slice){s, len}, NODES, &err), ERR_SYNTAX);
				assert_non_null(strstr(err.msg, "stands twice in this object"));
				free(s);
			}
		}
	}
}

/* Spellings of one key, and keys whose spellings look alike. Padded to a wide object, too. */
TEST(keys_are_compared_decoded)
{
	static const struct {
		const char *one, *other;
		bool same;
	} cases[] = {
		{"k:{\\\"name\\\":\\\"a\\\"}", "k:{\\u0022name\\u0022:\\\"a\\\"}", true},
		{"k:{\\\"name\\\":\\\"a\\\"}", "k:{\\\"name\\\":\\\"a\\\"}", true},
		{"k:{\\\"name\\\":\\\"a\\\"}", "k:{\\\"name\\\":\\\"b\\\"}", false},
		{"a\\\\b", "a\\u005cb", true},
		{"a\\\\b", "a\\u005Cb", true},
		{"a\\/b", "a/b", true},
		{"\\n", "\\u000a", true},
		{"\\t\\\"", "\\u0009\\u0022", true},
		{"\\u00e9\\\"", "\xc3\xa9\\\"", true},
		{"\\ud83d\\ude00", "\xf0\x9f\x98\x80", true},
		{"a\\\\", "a\\\"", false},
		{"a\\\\\\\"", "a\\\"", false},
		{"\\\\n", "\\n", false},
		{"\\\\u0041", "\\u0041", false},
		{"\\\\u0041", "A", false},
	};

	for (size_t i = 0; i < 2 * COUNT(cases); i++) {
		struct err err = {0};
		struct buf b;

		buf_init(&b, 100000);
		buf_fmt(&b, "{\"%s\":{},", cases[i / 2].one);
		for (int k = 0; i % 2 && k < 40; k++)
			buf_fmt(&b, "\"filler-%d\":[],", k);
		buf_fmt(&b, "\"%s\":1}", cases[i / 2].other);
		if (cases[i / 2].same) {
			assert_int_equal(refuse(buf_as_slice(&b), NODES, &err), ERR_SYNTAX);
			assert_non_null(strstr(err.msg, "stands twice in this object"));
		} else {
			read_text(buf_as_slice(&b));
			assert_int_equal(json_root(&d.j)->count, i % 2 ? 42 : 2);
		}
		buf_release(&b);
	}
}

/* Containers without a blank in them take a way of their own. */
TEST(empty_containers)
{
	static const char *const texts[] = {
		"{}", "[]", "{ }", "[\n]", "[[],{},[ ],{ }]", "{\"a\":{},\"b\":[]}"};
	static const unsigned nodes[] = {1, 1, 1, 1, 5, 5}, counts[] = {0, 0, 0, 0, 4, 2};

	for (size_t i = 0; i < COUNT(texts); i++) {
		const struct json_node *root = read_text(slice_of(texts[i]));

		assert_int_equal(d.j.count, nodes[i]);
		assert_int_equal(root->count, counts[i]);
		assert_int_equal(root->len, strlen(texts[i]));
		assert_int_equal(root->next, nodes[i]);
		if (i == 4)
			JSON_EACH(&d.j, root, v)
			{
				assert_int_equal(v->count, 0);
				assert_true(v->len == 2 || v->len == 3);
				assert_int_equal(
					d.j.text[v->at], v->type == JSON_ARRAY ? '[' : '{');
			}
	}
}

TEST(one_byte_keys_do_not_collide)
{
	struct buf b;
	size_t n = 0;

	buf_init(&b, 100000);
	for (int c = ' '; c < 0x7F; c++) {
		if (c == '"' || c == '\\')
			continue;
		buf_fmt(&b, "%c\"%c\":[]", n++ ? ',' : '{', c);
	}
	buf_char(&b, '}');
	read_text(buf_as_slice(&b));
	assert_int_equal(json_root(&d.j)->count, n);
	buf_clear(&b);
	/* All control characters by escapes, and keys that are the beginning of one another. */
	for (int c = 1; c < 0x80; c++)
		buf_fmt(&b, "%s\"\\u%04x\":0", c > 1 ? "," : "{", (unsigned)c);
	for (int len = 2; len < 70; len++)
		buf_fmt(&b, ",\"%.*s\":0", len,
			"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
	buf_char(&b, '}');
	read_text(buf_as_slice(&b));
	assert_int_equal(json_root(&d.j)->count, 127 + 68);
	buf_release(&b);
}

/* Hashes of outer objects must survive inner ones that need more room. */
TEST(keys_of_open_objects_are_kept)
{
	struct err err = {0};
	struct buf b;
	size_t len;
	char *inner = wide_object("k%u", 700, 700, &len);

	buf_init(&b, 1 << 20);
	buf_fmt(&b, "{\"first\":1,\"k1\":{\"deep\":%s,\"k1\":%s},\"k2\":2,", inner, inner);
	buf_str(&b, "\"first\":2}");
	assert_int_equal(refuse(buf_as_slice(&b), NODES, &err), ERR_SYNTAX);
	assert_non_null(
		strstr(err.msg, "the key \"first\" stands twice in this object, first at byte 1;"));
	b.len -= strlen("\"first\":2}");
	buf_str(&b, "\"second\":2}");
	read_text(buf_as_slice(&b));
	assert_int_equal(json_root(&d.j)->count, 4);
	free(inner);
	buf_release(&b);
}

TEST(a_long_key_is_cut_in_the_message)
{
	struct err err = {0};
	struct buf b;
	size_t len;
	char *key = repeat("\xe2\x82\xac", 500, &len);

	buf_init(&b, 10000);
	buf_fmt(&b, "{\"%s\":1,\"%s\":2}", key, key);
	assert_int_equal(refuse(buf_as_slice(&b), NODES, &err), ERR_SYNTAX);
	assert_non_null(strstr(
		err.msg, "\xac...\" stands twice in this object, first at byte 1; keep one"));
	assert_null(strchr(err.msg, '?'));
	free(key);
	buf_release(&b);
}

/* ---- use ---- */

TEST(one_reader_reads_many_documents)
{
	struct json j;
	char *copy;

	json_init(&j);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(json_read_copy(&j, i % 2 ? "[1,2]" : "{\"a\":1}", i % 2 ? 5 : 7,
					 10, &copy, NULL),
			0);
		assert_int_equal(j.count, 3);
		assert_true(json_is(json_root(&j), i % 2 ? JSON_ARRAY : JSON_OBJECT));
		free(copy);
		assert_int_equal(json_read_copy(&j, "[", 1, 10, &copy, NULL), ERR_SYNTAX);
		assert_null(json_root(&j));
	}
	json_release(&j);
	json_release(&j);
}

/* What has its padding is read where it is. */
TEST(text_in_its_place)
{
	static const char text[8 + JSON_PAD] = "[1,true]";
	struct json j = {0};

	assert_int_equal(json_read(&j, text, 8, NODES, NULL), 0);
	assert_int_equal(j.count, 3);
	assert_int_equal(json_read(&j, text, 7, NODES, NULL), ERR_SYNTAX);
	assert_null(json_root(&j));
	json_release(&j);
}

TEST(text_of_a_byte_order_mark)
{
	struct err err = {0};

	assert_int_equal(refuse(SLICE("\xEF\xBB\xBF"), NODES, &err), ERR_SYNTAX);
	assert_non_null(strstr(err.msg, "a byte order mark"));
	assert_int_equal(refuse(SLICE("\xEF\xBB"), NODES, &err), ERR_SYNTAX);
	assert_null(strstr(err.msg, "a byte order mark"));
}

TEST(text_of_no_bytes)
{
	assert_int_equal(refuse((struct slice){NULL, 0}, NODES, &(struct err){0}), ERR_SYNTAX);
}

TESTS_BETWEEN(NULL, forget, messages_say_where_and_what, nul_bytes_are_refused_anywhere,
	every_cut_is_refused, nodes_lie_in_the_order_of_the_text, walking, looking_up,
	finding_an_element, finding_many_elements, decoding, values_that_are_no_strings,
	a_full_arena_gives_no_string, integers, type_names, depth_is_limited, nodes_are_limited,
	four_gibibytes_are_too_many, three_mebibytes_of_zeros,
	duplicate_keys_are_found_at_any_width, keys_are_compared_decoded, empty_containers,
	one_byte_keys_do_not_collide, keys_of_open_objects_are_kept,
	a_long_key_is_cut_in_the_message, one_reader_reads_many_documents, text_in_its_place,
	text_of_a_byte_order_mark, text_of_no_bytes)
