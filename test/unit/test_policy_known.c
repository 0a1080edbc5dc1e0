/* SPDX-License-Identifier: Apache-2.0 */
/* test: names and what is known of each, in whatever order lists and watches tell of them. */
#include "test/unit/test.h"
#include "webhook/cluster/policy/policy_known.h"

/* More than fit before room is made, twice. */
#define MANY 200

static struct known known;

FIXTURE(tear_down)
{
	known_release(&known);
	return 0;
}

static void put(const char *name, const char *text, bool replaces)
{
	known_put(&known, slice_of(name), text ? strdup(text) : NULL, replaces);
}

static void expect(const char *name, const char *text)
{
	const struct known_entry *e = known_find(&known, slice_of(name));

	assert_non_null(e);
	assert_string_equal(e->name, name);
	if (text)
		assert_string_equal(e->text, text);
	else
		assert_null(e->text);
}

static void unknown(const char *name)
{
	assert_null(known_find(&known, slice_of(name)));
}

static void in_order(void)
{
	for (size_t i = 1; i < known.n; i++)
		assert_true(strcmp(known.at[i - 1].name, known.at[i].name) < 0);
}

/* Names that begin others, before them and behind. */
TEST(test_whatever_the_order)
{
	static const char *const names[] = {"ml", "m", "mlx", "a", "z", "ml-2", "mk", "l"};

	for (size_t i = 0; i < COUNT(names); i++) {
		unknown(names[i]);
		put(names[i], names[i], true);
		assert_int_equal(known.n, i + 1);
		in_order();
		for (size_t k = 0; k <= i; k++)
			expect(names[k], names[k]);
	}
	for (size_t i = 0; i < COUNT(names); i++) {
		known_drop(&known, slice_of(names[i]));
		unknown(names[i]);
		assert_int_equal(known.n, COUNT(names) - 1 - i);
		for (size_t k = i + 1; k < COUNT(names); k++)
			expect(names[k], names[k]);
		/* of whom nobody knows */
		known_drop(&known, slice_of(names[i]));
		assert_int_equal(known.n, COUNT(names) - 1 - i);
	}
}

TEST(test_many)
{
	char name[16];

	for (unsigned i = 0; i < MANY; i++) {
		(void)snprintf(name, sizeof(name), "n%u", i * 7 % MANY);
		put(name, name, true);
	}
	assert_int_equal(known.n, MANY);
	in_order();
	for (unsigned i = 0; i < MANY; i++) {
		(void)snprintf(name, sizeof(name), "n%u", i);
		expect(name, name);
	}
}

/* What is wrong now does not replace what was right; that there is nothing does. */
TEST(test_what_replaces)
{
	put("a", NULL, false);
	expect("a", NULL);
	put("a", "1", true);
	expect("a", "1");
	put("a", NULL, false);
	expect("a", "1");
	put("a", "2", true);
	expect("a", "2");
	put("a", NULL, true);
	expect("a", NULL);
	assert_int_equal(known.n, 1);
	/* an object without a name is none */
	put("", "x", true);
	unknown("");
	assert_int_equal(known.n, 1);
}

TEST(test_what_a_list_does_not_show_is_gone)
{
	assert_false(known.whole);
	known_listing(&known);
	put("a", "1", true);
	put("b", "1", true);
	put("c", "1", true);
	assert_false(known.whole);
	known_listed(&known);
	assert_true(known.whole);
	expect("a", "1");
	/* a watch tells between two lists */
	put("d", "1", true);
	known_listing(&known);
	/* shown, though what it says is wrong */
	put("a", NULL, false);
	put("c", "2", true);
	expect("b", "1");
	known_listed(&known);
	expect("a", "1");
	unknown("b");
	expect("c", "2");
	unknown("d");
	assert_int_equal(known.n, 2);
	assert_true(known.whole);
	known_listing(&known);
	known_listed(&known);
	assert_int_equal(known.n, 0);
}

TESTS_BETWEEN(NULL, tear_down, test_whatever_the_order, test_many, test_what_replaces,
	test_what_a_list_does_not_show_is_gone)
