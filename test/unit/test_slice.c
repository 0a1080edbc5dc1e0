/* SPDX-License-Identifier: Apache-2.0 */
/* test: comparing bytes a word at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "base/slice.h"

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

static void each_byte_counts(void **state)
{
	(void)state;
	for (size_t n = 0; n < 50; n++)
		for (size_t i = 0; i <= n; i++)
			compare(n, i);
	assert_true(bytes_eq(NULL, NULL, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_byte_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
