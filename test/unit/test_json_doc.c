/* SPDX-License-Identifier: Apache-2.0 */
/* unit: the door to cJSON: strict in, exact out. */
#include "base/json_doc.h"
#include "test/unit/test.h"

TEST(builds)
{
	struct json_doc *doc = json_doc_object(), *list = json_doc_array();
	struct err err = {0};
	struct buf out;

	buf_init(&out, 1000);
	assert_true(json_doc_set_str(doc, "s", SLICE("a\"\n\303\251")));
	assert_true(json_doc_set_int(doc, "big", INT64_MAX));
	assert_true(json_doc_set_int(doc, "small", INT64_MIN));
	assert_true(json_doc_set_int(doc, "bytes", 16160LL << 20));
	assert_true(json_doc_set_bool(doc, "t", true));
	assert_true(json_doc_set_null(doc, "n"));
	assert_true(json_doc_set_raw(doc, "r", SLICE("{\"x\": 1.50}")));
	assert_true(json_doc_push_str(list, SLICE("")));
	assert_true(json_doc_push_int(list, -7));
	assert_true(json_doc_push_raw(list, SLICE("null")));
	assert_true(json_doc_push(list, json_doc_object()));
	assert_true(json_doc_set(doc, "l", list));
	assert_int_equal(json_doc_print(doc, &out, &err), 0);
	assert_string_equal(out.data, "{\"s\":\"a\\\"\\n\303\251\",\"big\":9223372036854775807,"
				      "\"small\":-9223372036854775808,"
				      "\"bytes\":16944988160,\"t\":true,\"n\":null,\"r\":{\"x\": "
				      "1.50},\"l\":[\"\",-7,null,{}]}");
	buf_release(&out);
	buf_init(&out, 10);
	assert_int_equal(json_doc_print(doc, &out, &err), ERR_TOOBIG);
	buf_release(&out);
	json_doc_free(doc);
}

TEST(builders_do_not_crash)
{
	struct json_doc *doc = json_doc_object(), *list = json_doc_array();
	struct err err = {0};
	struct buf out;

	buf_init(&out, 10);
	assert_false(json_doc_set_str(doc, "s", SLICE("a\0b")));
	assert_false(json_doc_set_str(doc, "s", (struct slice){0}));
	assert_false(json_doc_set_str(NULL, "s", SLICE("a")));
	assert_false(json_doc_set_int(list, "s", 1)); /* no object */
	assert_false(json_doc_push_int(doc, 1));      /* no array */
	assert_false(json_doc_set(doc, "x", NULL));
	assert_false(json_doc_set(NULL, "x", json_doc_object())); /* freed */
	assert_false(json_doc_push(NULL, json_doc_array()));
	assert_int_equal(json_doc_count(doc), 0);
	assert_int_equal(json_doc_print(NULL, &out, &err), ERR_NOMEM);
	json_doc_free(doc);
	json_doc_free(list);
	json_doc_free(NULL);
	buf_release(&out);
}

TEST(reads)
{
	struct json_doc *doc = NULL;
	struct err err = {0};
	struct slice s;
	int64_t n = 5;
	bool b = false;
	size_t members = 0;

	assert_int_equal(json_doc_parse(SLICE(" {\"Spec\":{\"a\":[1,\"\\u0041\",null]},\"i\":"
					      "9007199254740992,\"j\":9007199254740994,"
					      "\"f\":1.5,\"e\":1e3,\"t\":true} "),
				 &doc, &err),
		0);
	assert_null(json_doc_get(doc, "spec")); /* case matters */
	struct json_doc *list = json_doc_get(json_doc_get(doc, "Spec"), "a");

	assert_true(
		json_doc_is_array(list) && !json_doc_is_object(list) && json_doc_is_object(doc));
	assert_int_equal(json_doc_count(list), 3);
	assert_true(json_doc_str(json_doc_next(json_doc_first(list)), &s));
	assert_true(slice_is(s, "A"));
	assert_true(json_doc_absent(json_doc_next(json_doc_next(json_doc_first(list)))));
	assert_true(json_doc_int(json_doc_get(doc, "i"), &n) && n == 9007199254740992);
	assert_false(json_doc_int(json_doc_get(doc, "j"), &n));
	assert_false(json_doc_int(json_doc_get(doc, "f"), &n));
	assert_true(json_doc_int(json_doc_get(doc, "e"), &n) && n == 1000);
	assert_true(json_doc_bool(json_doc_get(doc, "t"), &b) && b);
	assert_false(json_doc_str(json_doc_get(doc, "t"), &s) ||
		     json_doc_int(json_doc_get(doc, "t"), &n));
	assert_false(json_doc_bool(NULL, &b) || json_doc_str(NULL, &s) || json_doc_int(NULL, &n));
	assert_true(json_doc_absent(NULL) && !json_doc_is_array(NULL) && json_doc_count(NULL) == 0);
	assert_null(json_doc_get(list, "a"));
	assert_null(json_doc_get(NULL, "a"));
	assert_null(json_doc_first(json_doc_get(doc, "t")));
	assert_null(json_doc_key(NULL));
	assert_string_equal(json_doc_key(json_doc_first(doc)), "Spec");
	for (const struct json_doc *m = json_doc_first(doc); m; m = json_doc_next(m))
		members++;
	assert_int_equal(members, 6);
	json_doc_free(doc);
}

/* What cJSON would accept. */
TEST(refuses)
{
	static const struct slice cases[] = {SLICE(""), SLICE("{\"a\":1}x"),
		SLICE("{\"a\":1,\"a\":2}"), SLICE("\"\\u0000\""), SLICE("007"), SLICE("1."),
		SLICE("\357\273\277{}"), SLICE("\"\xff\""), SLICE("1e400"), SLICE("[1,]"),
		SLICE("{\"a\":1\v}"), SLICE("\"a\tb\""), SLICE("{}\0")};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct json_doc *doc = NULL;
		struct err err = {0};

		if (json_doc_parse(cases[i], &doc, &err) != ERR_SYNTAX || doc)
			fail_msg("%zu was read", i);
		assert_true(err.msg[0]);
	}
	char deep[200];
	struct json_doc *doc = NULL;
	struct err err = {0};

	memset(deep, '[', sizeof(deep));
	assert_int_equal(
		json_doc_parse((struct slice){deep, sizeof(deep)}, &doc, &err), ERR_TOOBIG);
}

TESTS(builds, builders_do_not_crash, reads, refuses)
