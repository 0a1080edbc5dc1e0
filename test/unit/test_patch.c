/* SPDX-License-Identifier: Apache-2.0 */
/* core/review/patch: operations as RFC 6902 and RFC 6901 spell them. */
#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/review/patch.h"

#define NO_KEY ((struct slice){0})

static void expect(struct buf *b, const char *want)
{
	char *quoted = fixture_quotes(want);

	assert_false(b->failed);
	assert_string_equal(b->data ? b->data : "", quoted);
	free(quoted);
	buf_release(b);
}

TEST(test_nothing_is_nothing)
{
	struct buf b;
	struct patch p;

	buf_init(&b, 100);
	patch_begin(&p, &b);
	patch_end(&p);
	assert_int_equal(p.n, 0);
	expect(&b, "");
}

TEST(test_operations)
{
	struct buf b;
	struct patch p;

	buf_init(&b, 1000);
	patch_begin(&p, &b);
	patch_add(&p, "/a", NO_KEY, SLICE("[]"));
	patch_add(&p, "/a", SLICE("-"), SLICE("1.50"));
	patch_remove(&p, "/c", NO_KEY);
	patch_remove(&p, "/c", SLICE("d"));
	patch_add_at(&p, "/e", 0, SLICE("{}"));
	patch_remove_at(&p, "/e", 12, NO_KEY);
	patch_remove_at(&p, "/e", 12, SLICE("f"));
	patch_end(&p);
	assert_int_equal(p.n, 7);
	expect(&b, "[{'op':'add','path':'/a','value':[]},{'op':'add','path':'/a/-','value':1.50},"
		   "{'op':'remove','path':'/c'},"
		   "{'op':'remove','path':'/c/d'},{'op':'add','path':'/e/0','value':{}},"
		   "{'op':'remove','path':'/e/12'},{'op':'remove','path':'/e/12/f'}]");
}

TEST(test_keys_are_escaped)
{
	struct buf b;
	struct patch p;

	buf_init(&b, 1000);
	patch_begin(&p, &b);
	patch_add_str(&p, "/a", SLICE("x.io/y~z\"\\\n"), SLICE("q\"\\\x01"));
	patch_open(&p, "replace", "/a", SLICE("/"));
	buf_str(&b, "1");
	patch_close(&p);
	patch_open_at(&p, "add", "/a", 7, SLICE("~"));
	buf_str(&b, "2");
	patch_close(&p);
	patch_add(&p, "/a", SLICE(""), SLICE("3"));
	patch_end(&p);
	expect(&b, "[{'op':'add','path':'/a/x.io~1y~0z\\'\\\\\\n','value':'q\\'\\\\\\u0001'},"
		   "{'op':'replace','path':'/a/~1','value':1},{'op':'add','path':'/a/7/~0',"
		   "'value':2},{'op':'add','path':'/a/','value':3}]");
}

/* What is written behind something else leaves that alone. */
TEST(test_appending)
{
	struct buf b;
	struct patch p;

	buf_init(&b, 1000);
	buf_str(&b, "x");
	patch_begin(&p, &b);
	patch_remove(&p, "/a", NO_KEY);
	patch_end(&p);
	expect(&b, "x[{'op':'remove','path':'/a'}]");
}

/* The arena ran out while a path was made. */
TEST(test_no_path)
{
	struct buf b;
	struct patch p;

	for (int i = 0; i < 6; i++) {
		buf_init(&b, 1000);
		patch_begin(&p, &b);
		switch (i) {
		case 0:
			patch_add(&p, NULL, NO_KEY, SLICE("1"));
			break;
		case 1:
			patch_remove(&p, NULL, SLICE("a"));
			break;
		case 2:
			patch_remove_at(&p, NULL, 1, NO_KEY);
			break;
		case 3:
			patch_add_at(&p, NULL, 1, SLICE("1"));
			break;
		case 4:
			patch_add_str(&p, NULL, NO_KEY, SLICE("1"));
			break;
		default:
			patch_open(&p, "add", NULL, NO_KEY);
			break;
		}
		patch_end(&p);
		assert_true(b.failed);
		assert_false(b.full);
		buf_release(&b);
	}
}

TEST(test_no_room)
{
	struct buf b;
	struct patch p;

	buf_init(&b, 20);
	patch_begin(&p, &b);
	patch_remove(&p, "/a", NO_KEY);
	patch_end(&p);
	assert_true(b.failed);
	assert_true(b.full);
	buf_release(&b);
}

TESTS(test_nothing_is_nothing, test_operations, test_keys_are_escaped, test_appending, test_no_path,
	test_no_room)
