/* SPDX-License-Identifier: Apache-2.0 */
/* test: comparing bytes a word at a time. */
#include "base/slice.h"
#include "test/unit/test.h"

/* Copies of exactly n bytes, so that AddressSanitizer sees a byte too many. */
static void compare(size_t n, size_t differing)
{
	char *a = malloc(n ? n : 1), *b = malloc(n ? n : 1);

	assert_non_null(a);
	assert_non_null(b);
	for (size_t i = 0; i < n; i++)
		a[i] = b[i] = (char)(i * 7);
	assert_true(bytes_eq(a, b, n));
	if (differing < n) {
		b[differing] ^= (char)0x80;
		assert_false(bytes_eq(a, b, n));
		assert_false(bytes_eq(b, a, n));
	}
	free(a);
	free(b);
}

TEST(each_byte_counts)
{
	for (size_t n = 0; n < 50; n++)
		for (size_t i = 0; i <= n; i++)
			compare(n, i);
	assert_true(bytes_eq(NULL, NULL, 0));
}

TEST(who_is_shorter_goes_first)
{
	static const char *const order[] = {"", "A", "a", "a-b", "ab", "b", "\xff"};

	for (int i = 0; i < 7; i++)
		for (int k = 0; k < 7; k++) {
			int c = slice_order(slice_of(order[i]), slice_of(order[k]));

			assert_int_equal((c > 0) - (c < 0), (i > k) - (i < k));
		}
	assert_int_equal(slice_order((struct slice){0}, SLICE("")), 0);
}

TESTS(each_byte_counts, who_is_shorter_goes_first)
