/* SPDX-License-Identifier: Apache-2.0 */
/* unit: unified differences, word for word and by applying them. */
#include "test/unit/test.h"
#include "webhook/cli/inject/diff.h"

TEST(shows)
{
	static const struct {
		const char *before, *after, *diff;
	} cases[] = {
		{"", "", ""},
		{"a\nb\n", "a\nb\n", ""},
		{"a\nb\nc\n", "a\nx\nc\n", "--- a\n+++ b\n@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"},
		{"", "x\ny\n", "--- a\n+++ b\n@@ -0,0 +1,2 @@\n+x\n+y\n"},
		{"x\n", "", "--- a\n+++ b\n@@ -1 +0,0 @@\n-x\n"},
		{"a", "a\n", "--- a\n+++ b\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"},
		{"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n5\n6\n7\n8\n9\n",
			"--- a\n+++ b\n@@ -2,6 +2,7 @@\n 2\n 3\n 4\n+x\n 5\n 6\n 7\n"},
		/* far apart: two; near: one */
		{"a\n1\n2\n3\n4\n5\n6\n7\nb\n", "A\n1\n2\n3\n4\n5\n6\n7\nB\n",
			"--- a\n+++ b\n@@ -1,4 +1,4 @@\n-a\n+A\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n "
			"6\n 7\n-b\n+B\n"},
		{"a\n1\n2\n3\n4\n5\n6\nb\n", "A\n1\n2\n3\n4\n5\n6\nB\n",
			"--- a\n+++ b\n@@ -1,8 +1,8 @@\n-a\n+A\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+B\n"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct err err = {0};
		struct buf out;

		buf_init(&out, 1000);
		assert_int_equal(diff_unified(slice_of(cases[i].before), slice_of(cases[i].after),
					 "a", "b", false, &out, &err),
			0);
		assert_string_equal(out.data ? out.data : "", cases[i].diff);
		buf_release(&out);
	}
}

/* What is left of a diff without '-' lines is the new text, without '+' lines the old one; both
 * need context for all. */
static void keeps(struct slice diff, char drop, struct buf *out)
{
	const char *line = diff.at, *end = diff.at + diff.len;

	for (; line < end; line = strchr(line, '\n') + 1) {
		if (strncmp(line, "--- ", 4) == 0 || strncmp(line, "+++ ", 4) == 0 ||
			*line == '@' || *line == drop)
			continue;
		buf_add(out, line + 1, (size_t)(strchr(line, '\n') - line));
	}
}

TEST(holds_both_texts)
{
	srand(7);
	for (int round = 0; round < 300; round++) {
		struct buf a, b, diff, old, new;
		struct err err = {0};

		buf_init(&a, 10000);
		buf_init(&b, 10000);
		buf_init(&diff, 100000);
		buf_init(&old, 100000);
		buf_init(&new, 100000);
		/* few lines between changes, so that one hunk shows all from the first to the last
		 */
		buf_str(&a, "first\n");
		buf_str(&b, "FIRST\n");
		for (int i = rand() % 40; i > 0; i--) {
			int what = rand() % 4;

			if (what != 0)
				buf_fmt(&a, "%c\n", 'a' + rand() % 3);
			if (what != 1)
				buf_fmt(&b, "%c\n", 'a' + rand() % 3);
		}
		buf_str(&a, "last\n");
		buf_str(&b, "LAST\n");
		assert_int_equal(diff_unified(buf_as_slice(&a), buf_as_slice(&b), "a", "b", false,
					 &diff, &err),
			0);
		keeps(buf_as_slice(&diff), '+', &old);
		keeps(buf_as_slice(&diff), '-', &new);
		if (strstr(diff.data + 10, "\n@@ ") == NULL ||
			strstr(strstr(diff.data, "@@ -") + 4, "\n@@ -") == NULL) {
			assert_string_equal(old.data, a.data);
			assert_string_equal(new.data, b.data);
		}
		buf_release(&a);
		buf_release(&b);
		buf_release(&diff);
		buf_release(&old);
		buf_release(&new);
	}
}

TEST(large_and_limits)
{
	struct buf a, b, out;
	struct err err = {0};

	buf_init(&a, 1 << 20);
	buf_init(&b, 1 << 20);
	buf_init(&out, 1 << 21);
	for (int i = 0; i < 3000; i++) {
		buf_fmt(&a, "a%d\n", i);
		buf_fmt(&b, "b%d\n", i);
	}
	assert_int_equal(
		diff_unified(buf_as_slice(&a), buf_as_slice(&b), "a", "b", false, &out, &err), 0);
	assert_non_null(strstr(out.data, "@@ -1,3000 +1,3000 @@"));
	buf_release(&out);
	buf_init(&out, 100);
	assert_int_equal(
		diff_unified(buf_as_slice(&a), buf_as_slice(&b), "a", "b", false, &out, &err),
		ERR_TOOBIG);
	buf_release(&out);
	buf_release(&a);
	buf_release(&b);
	buf_init(&a, DIFF_LINES_MAX + 10);
	for (int i = 0; i <= DIFF_LINES_MAX; i++)
		buf_char(&a, '\n');
	assert_int_equal(diff_unified(buf_as_slice(&a), SLICE("x"), "a", "b", false, &out, &err),
		ERR_TOOBIG);
	buf_release(&a);
}

TESTS(shows, holds_both_texts, large_and_limits)
