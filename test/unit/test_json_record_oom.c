/* SPDX-License-Identifier: Apache-2.0 */
/* unit: structs by tables: every kind of row both ways, what is refused, and memory that ends at
 * every n-th allocation. */
#include <math.h>

#include "base/json/json_record.h"
#include "test/unit/oom_wrap.h"
#include "test/unit/test.h"

enum colour { RED, GREEN, BLUE };

struct leaf {
	const char *name;
	struct slice rest;
};

struct inner {
	int64_t since;
	uint32_t n;
};

struct all {
	const char *text, *maybe;
	char array[8];
	int whole;
	int64_t large;
	uint64_t count, hash;
	double share;
	bool yes;
	enum colour colour, tone;
	const char **names;
	size_t n_names;
	struct leaf *leaves;
	size_t n_leaves;
	struct inner few[2];
	unsigned n_few;
	uint64_t bits[2], word;
	struct inner inner;
	int left, right, own;
	struct slice rest;
};

static const char *tone_name(unsigned i)
{
	static const char *const names[] = {"light", "dark"};

	return names[i];
}

static int read_own(struct json_reader *r, const struct json_node *v, void *to)
{
	((struct all *)to)->own = (int)json_raw(r->j, v).len;
	return v->type == JSON_ARRAY ? 0 : json_record_wrong(r, v, "own", "a list of anything");
}

static void write_own(const void *from, struct buf *out)
{
	buf_fmt(out, "[%d]", ((const struct all *)from)->own);
}

static int check_leaf(struct json_reader *r, const struct json_node *v, const void *list, size_t i)
{
	const struct leaf *leaves = list;

	return i == 0 || strcmp(leaves[i].name, leaves[i - 1].name) != 0
		       ? 0
		       : json_record_wrong(r, json_get(r->j, v, SLICE("name")), "name", "another");
}

static bool is_short(const char *s)
{
	return strlen(s) < 5;
}

static const char *const colours[] = {"red", "green", "blue", NULL};
static const struct json_own own = {read_own, write_own};
static const struct json_field leaf_fields[] = {REC_STR(leaf, name, "name", REC_NEEDED)};
JSON_RECORD(leaf_record, leaf, leaf_fields, offsetof(struct leaf, rest));
static const struct json_field inner_fields[] = {
	REC_TIME(inner, since, "since", REC_OMIT),
	REC_U32(inner, n, "n"),
};
JSON_RECORD(inner_record, inner, inner_fields, 0);
static const struct json_field side_fields[] = {
	REC_INT(all, left, "left", .min = -1),
	REC_INT(all, right, "right", REC_OMIT, .min = -1),
};
JSON_RECORD_CLOSED(side_record, all, side_fields);
static const struct json_field all_fields[] = {
	REC_STR(all, text, "text", REC_NEEDED, .good = is_short, .expected = "a short word"),
	REC_STR(all, maybe, "maybe", REC_OR_NULL | REC_OMIT),
	REC_TEXT(all, array, "array"),
	REC_INT(all, whole, "whole", .min = -5, .max = 5),
	REC_LONG(all, large, "large"),
	REC_COUNT(all, count, "count", REC_OMIT),
	REC_HEX(all, hash, "hash"),
	REC_DOUBLE(all, share, "share", .max = 100),
	REC_BOOL(all, yes, "yes", REC_OMIT),
	REC_WORD(all, colour, "colour", .words = colours, .expected = "a colour"),
	REC_WORD(all, tone, "tone", .word = tone_name, .max = 1),
	REC_STRS(all, names, "names"),
	REC_LIST(all, leaves, leaf, "leaves", .max = 3, .check = check_leaf),
	REC_OBJECT(all, inner, inner, "inner"),
	REC_ARRAY(all, few, inner, "few"),
	REC_BITS(all, bits[0], 2, "bits"),
	REC_BITS(all, word, 1, "word"),
	REC_WITHIN(side_record, "side"),
	REC_OWN(own, "own"),
};
JSON_RECORD(all_record, all, all_fields, offsetof(struct all, rest));

#define FULL                                                                                       \
	"{\"text\":\"a\\\"\",\"maybe\":\"m\",\"array\":\"1234567\",\"whole\":-5,"                  \
	"\"large\":9007199254740991,\"count\":7,\"hash\":\"00000000000000ab\",\"share\":0.5,"      \
	"\"yes\":true,\"colour\":\"blue\",\"tone\":\"dark\",\"names\":[\"x\",\"\"],"               \
	"\"leaves\":[{\"name\":\"l\",\"z\":[1]},{\"name\":\"k\"}],"                                \
	"\"inner\":{\"since\":\"2026-11-21T09:30:00Z\",\"n\":4294967295},\"few\":[{\"n\":1},{"     \
	"\"n\":2}],"                                                                               \
	"\"bits\":\"0x0000000000000001fedcba9876543210\",\"word\":\"0x00000000000000ff\","         \
	"\"side\":{\"left\":-1,\"right\":3},\"own\":[5],\"later\":{\"a\":null}}"

/* Read a text. *ret holds what was read when the answer is 0. */
static int read_all(const char *text, struct arena *a, struct all *ret, struct err *err)
{
	struct json_reader r = {.a = a, .err = err};
	struct json j = {0};
	char *copy = NULL;
	int rc = json_read_copy(&j, text, strlen(text), 200, &copy, err);

	r.j = &j;
	*ret = (struct all){.share = (double)NAN, .right = -1};
	if (rc == 0)
		rc = json_record_read(&r, json_root(&j), &all_record, ret);
	json_release(&j);
	free(copy);
	return rc;
}

/* What is written is what was read, but own: it holds the length of what it read. */
TEST(test_both_ways)
{
	static const char *const texts[] = {FULL,
		"{\"text\":\"t\",\"array\":\"\",\"whole\":0,\"large\":0,\"hash\":"
		"\"0000000000000000\","
		"\"share\":null,\"colour\":\"red\",\"tone\":\"light\",\"names\":[],\"leaves\":[],"
		"\"inner\":{\"n\":0},\"few\":[],\"bits\":\"0x00000000000000000000000000000000\","
		"\"word\":\"0x0000000000000000\",\"side\":{\"left\":0},\"own\":[0]}"};
	for (size_t i = 0; i < 2; i++) {
		struct err err = {0};
		struct arena a;
		struct all all;
		struct buf out;

		arena_init(&a, 1u << 20);
		buf_init(&out, 1u << 16);
		if (read_all(texts[i], &a, &all, &err) != 0)
			fail_msg("%s: %s", err.path, err.msg);
		all.own = i == 0 ? 5 : 0;
		json_record_write(&all_record, &all, &out);
		assert_string_equal(out.data, texts[i]);
		assert_int_equal(all.colour, i == 0 ? BLUE : RED);
		assert_true(i == 1 || strcmp(all.leaves[0].rest.at, "\"z\":[1]") == 0);
		assert_true(i == 0 || all.maybe == NULL);
		assert_true(i == 1 || (all.bits[1] == 1 && all.bits[0] == 0xfedcba9876543210));
		buf_release(&out);
		arena_release(&a);
	}
}

/* What each kind takes for empty; a word, an object, an array and what is written by a function
 * never are, and of nothing an object is left. */
struct thin {
	double share;
	const char *text;
	uint64_t hash, count;
	enum colour colour;
	struct inner inner;
	struct inner few[2];
	unsigned n_few;
	int own;
};

static void write_thin(const void *from, struct buf *out)
{
	buf_i64(out, ((const struct thin *)from)->own);
}

static const struct json_own thin_own = {NULL, write_thin};
static const struct json_field thin_fields[] = {
	REC_DOUBLE(thin, share, "share", REC_OMIT),
	REC_STR(thin, text, "text", REC_OMIT),
	REC_HEX(thin, hash, "hash", REC_OMIT),
	REC_COUNT(thin, count, "count", REC_OMIT),
};
JSON_RECORD(thin_record, thin, thin_fields, 0);
static const struct json_field kept_fields[] = {
	REC_WORD(thin, colour, "colour", REC_OMIT, .words = colours),
	REC_OBJECT(thin, inner, inner, "inner", REC_OMIT),
	REC_ARRAY(thin, few, inner, "few", REC_OMIT),
	REC_OWN(thin_own, "own", REC_OMIT),
};
JSON_RECORD(kept_record, thin, kept_fields, 0);

TEST(test_what_is_left_out)
{
	struct thin empty = {.share = (double)NAN}, full = {.share = 0, .text = "t", .hash = 1};
	struct buf out;

	buf_init(&out, 1u << 16);
	json_record_write(&thin_record, &empty, &out);
	assert_string_equal(out.data, "{}");
	buf_clear(&out);
	empty.share = -(double)INFINITY;
	empty.count = 2;
	json_record_write(&thin_record, &empty, &out);
	assert_string_equal(out.data, "{\"count\":2}");
	buf_clear(&out);
	json_record_write(&thin_record, &full, &out);
	assert_string_equal(out.data, "{\"share\":0,\"text\":\"t\",\"hash\":\"0000000000000001\"}");
	buf_clear(&out);
	json_record_write(&kept_record, &empty, &out);
	assert_string_equal(
		out.data, "{\"colour\":\"red\",\"inner\":{\"n\":0},\"few\":[],\"own\":0}");
	buf_release(&out);
}

TEST(test_refused)
{
	static const struct {
		const char *text, *path, *msg;
	} cases[] = {
		{"{}", "/text", "found nothing, expected a short word"},
		{"{\"text\":null}", "/text", "found null, expected a short word"},
		{"{\"text\":\"\"}", "/text", "found \"\", expected a short word"},
		{"{\"text\":\"too long\"}", "/text", "found \"too long\", expected a short word"},
		{"{\"maybe\":1}", "/maybe", "found 1, expected a string"},
		{"{\"array\":\"12345678\"}", "/array", "expected a string of less than 8 bytes"},
		{"{\"array\":[]}", "/array", "found [], expected a string of less"},
		{"{\"whole\":6}", "/whole", "found 6, expected a whole number from -5 to 5"},
		{"{\"whole\":1.5}", "/whole", "found 1.5, expected a whole number from -5 to 5"},
		{"{\"large\":-1}", "/large",
			"found -1, expected a whole number that is not negative"},
		{"{\"count\":\"1\"}", "/count", "found \"1\", expected a whole number"},
		{"{\"hash\":\"ab\"}", "/hash", "found \"ab\", expected 16 hex digits"},
		{"{\"hash\":\"00000000000000AB\"}", "/hash", "expected 16 hex digits"},
		{"{\"share\":100.5}", "/share", "found 100.5, expected a number from 0 to 100"},
		{"{\"share\":true}", "/share", "found true"},
		{"{\"yes\":0}", "/yes", "found 0, expected true or false"},
		{"{\"colour\":\"Red\"}", "/colour", "found \"Red\", expected a colour"},
		{"{\"tone\":\"grey\"}", "/tone", "expected a known word"},
		{"{\"names\":\"x\"}", "/names", "expected strings"},
		{"{\"names\":[1]}", "/names", "found 1, expected strings"},
		{"{\"leaves\":[1]}", "/leaves/0", "found 1, expected an object"},
		{"{\"leaves\":[{}]}", "/leaves/0/name",
			"found nothing, expected a string that is not"},
		{"{\"leaves\":[{\"name\":\"a\"},{\"name\":\"a\"}]}", "/leaves/1/name", "another"},
		{"{\"leaves\":[{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"c\"},{\"name\":\"d\"}]"
		 "}",
			"/leaves", "found a list of 4, expected at most 3"},
		{"{\"inner\":{\"n\":4294967296}}", "/inner/n", "expected a whole number"},
		{"{\"inner\":{\"since\":\"now\"}}", "/inner/since", "expected a time such as"},
		{"{\"inner\":5}", "/inner", "expected an object"},
		{"{\"side\":{\"left\":-2}}", "/side/left", "from -1 to 2147483647"},
		{"{\"side\":{\"up\":1}}", "/side",
			"found \"up\", expected a member that is known here"},
		{"{\"few\":[{},{},{}]}", "/few", "found a list of 3, expected at most 2"},
		{"{\"few\":[{},{\"n\":-1}]}", "/few/1/n", "found -1"},
		{"{\"bits\":\"0x1\"}", "/bits", "expected 0x and hex digits"},
		{"{\"bits\":\"00000000000000000000000000000000\"}", "/bits", "expected 0x"},
		{"{\"word\":\"0x00000000000000fG\"}", "/word", "expected 0x and hex digits"},
		{"{\"own\":{}}", "/own", "a list of anything"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct err err = {0};
		struct arena a;
		struct all all;

		arena_init(&a, 1u << 20);
		if (read_all(cases[i].text, &a, &all, &err) != ERR_INVALID)
			fail_msg("accepted: %s", cases[i].text);
		assert_string_equal(err.path, cases[i].path);
		if (!strstr(err.msg, cases[i].msg))
			fail_msg("%s: %s", cases[i].text, err.msg);
		arena_release(&a);
	}
}

TEST(test_no_memory)
{
	for (enum oom_extent extent = OOM_ONE; extent <= OOM_ALL_AFTER; extent++) {
		for (long n = 0; n < 1000; n++) {
			struct err err = {0};
			struct arena a;
			struct all all;
			int rc;

			arena_init_small(&a, 1u << 20, 16); /* a chunk for nearly each allocation */
			oom_begin(n, extent);
			rc = read_all(FULL, &a, &all, &err);
			arena_release(&a);
			if (!oom_end()) {
				assert_int_equal(rc, 0);
				break;
			}
			assert_int_equal(rc, ERR_NOMEM);
			assert_int_equal(err.code, ERR_NOMEM);
			assert_true(n < 999);
		}
	}
}

TESTS(test_both_ways, test_what_is_left_out, test_refused, test_no_memory)
