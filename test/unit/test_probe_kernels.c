/* SPDX-License-Identifier: Apache-2.0 */
/* test: probe/kernels/pattern.h and exact.h: the same bits as ever, and what they promise of faults. test/probe/golden does the first
 * for other compilers, test/probe/test_golden.py from the description alone. */
#include "probe/kernels/exact.h"
#include "test/unit/test.h"

TEST(golden_constants)
{
	struct kernel_cell c = pattern_cell(0x123456789abcull, 0xfedcba9876543210ull);

	assert_int_equal(pattern_cell(1, 7).lo, 0xfed6d6342a53cf97ull);
	assert_int_equal(pattern_cell(1, 7).hi, 0x64536f47e8a677feull);
	assert_int_not_equal(c.lo, pattern_cell(0x3456789abcull, 0xfedcba9876543210ull).lo);
	assert_int_equal(exact_fma32(1, 4096, EXACT_FOLD_CHECK, 7), 0x28ad48f534e65579ull);
	assert_int_equal(exact_fma32(1, 4096, EXACT_FOLD_RATE, 7), 0x317a9c7d8c247a6full);
	assert_int_equal(exact_fma64(1, 4096, EXACT_FOLD_CHECK, 7), 0x43075973a8cc5e96ull);
	assert_int_equal(exact_mma16(1, 4096, EXACT_MMA_FOLD_MAX, 7), 0x8b8c62b9267c40f1ull);
}

/* Every bit is one about half the time, and neighbours differ in half of their bits. */
TEST(pattern_is_balanced)
{
	const uint64_t starts[] = {0, 1ull << 32, (1ull << 40) - 1000};

	for (int s = 0; s < 3; s++) {
		unsigned ones[128] = {0}, differ = 0;

		for (uint64_t i = starts[s]; i < starts[s] + 65536; i++) {
			struct kernel_cell c = pattern_cell(i, 7), next = pattern_cell(i + 1, 7);

			for (unsigned bit = 0; bit < 64; bit++) {
				ones[bit] += c.lo >> bit & 1;
				ones[64 + bit] += c.hi >> bit & 1;
			}
			differ += (unsigned)__builtin_popcountll(c.lo ^ next.lo) +
				  (unsigned)__builtin_popcountll(c.hi ^ next.hi);
		}
		for (int bit = 0; bit < 128; bit++)
			assert_in_range(ones[bit], 32768 - 1300, 32768 + 1300);
		assert_in_range(differ / 65536, 62, 66);
	}
}

/* An address line that is stuck makes two indices share a cell: they must not look alike. */
TEST(each_address_line_counts)
{
	for (unsigned bit = 0; bit < 48; bit++) {
		for (uint64_t i = 0; i < 64; i++) {
			struct kernel_cell a = pattern_cell(i * 977, 7);
			struct kernel_cell b = pattern_cell((i * 977) ^ (1ull << bit), 7);

			assert_int_not_equal(a.lo, b.lo);
			assert_int_not_equal(a.hi, b.hi);
		}
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

TEST(lanes_stay_distinct)
{
	uint64_t *sums = calloc(65536, sizeof(*sums));

	assert_non_null(sums);
	for (uint32_t i = 0; i < 65536; i++)
		sums[i] = exact_fma32(i, 256, EXACT_FOLD_CHECK, 7);
	qsort(sums, 65536, sizeof(*sums), compare);
	for (uint32_t i = 1; i < 65536; i++)
		assert_int_not_equal(sums[i], sums[i - 1]);
	free(sums);
}

/* One bit flipped somewhere in a fold: how many of 4,000 such faults does the fold not see? */
TEST(few_flips_are_masked)
{
	unsigned masked32 = 0, masked64 = 0;

	for (uint32_t n = 0; n < 4000; n++) {
		struct exact_state32 s = exact_seed32(exact_start(n, 7)), t = s;
		struct exact_state64 d = exact_seed64(exact_start(n, 7)), e = d;

		for (uint32_t i = 0; i < EXACT_FOLD_CHECK / 2; i++) {
			if (i == n * 7 % (EXACT_FOLD_CHECK / 2)) {
				t.x = exact_float(exact_float_bits(t.x) ^ (1u << (n % 32)));
				e.x = exact_double(exact_double_bits(e.x) ^ (1ull << (n % 64)));
			}
			s.x = exact_pair32(s);
			t.x = exact_pair32(t);
			d.x = exact_pair64(d);
			e.x = exact_pair64(e);
		}
		assert_true(s.x > 0.9f && s.x < 4 && d.x > 0.9 && d.x < 4);
		masked32 += exact_float_bits(s.x) == exact_float_bits(t.x);
		masked64 += exact_double_bits(d.x) == exact_double_bits(e.x);
	}
	assert_in_range(masked32, 0, 120);
	assert_in_range(masked64, 0, 120);
}

/* The sums of the tensor cores' products stay where every order of addition gives the same. */
TEST(operands_are_small)
{
	int least = 0, most = 0;

	assert_true((int64_t)EXACT_MMA_FOLD_MAX * EXACT_MMA_DEPTH * 63 * 63 < 1 << 23);
	for (uint32_t warp = 0; warp < 64; warp++) {
		uint64_t key = exact_key(exact_start(warp, 7), warp);

		for (uint32_t i = 0; i < 1024; i++) {
			uint32_t w = exact_operands(key, i >> 9, i >> 7 & 3, i >> 3 & 15, i & 7);
			int a = (int)(w & 0xffff) - 63, b = (int)(w >> 16) - 63;

			least = a < least ? a : least;
			most = a > most ? a : most;
			assert_in_range(a + 63, 0, 126);
			assert_in_range(b + 63, 0, 126);
		}
	}
	assert_int_equal(least, -63);
	assert_int_equal(most, 63);
}

/* One product more or less is seen wherever it is. */
TEST(weights_are_odd_and_distinct)
{
	uint64_t weights[EXACT_MMA_ROWS * EXACT_MMA_COLS];

	for (uint32_t i = 0; i < EXACT_MMA_ROWS * EXACT_MMA_COLS; i++) {
		weights[i] = exact_weight(i / EXACT_MMA_COLS, i % EXACT_MMA_COLS);
		assert_int_equal(weights[i] & 1, 1);
	}
	qsort(weights, EXACT_MMA_ROWS * EXACT_MMA_COLS, sizeof(weights[0]), compare);
	for (uint32_t i = 1; i < EXACT_MMA_ROWS * EXACT_MMA_COLS; i++)
		assert_int_not_equal(weights[i], weights[i - 1]);
}

TESTS(golden_constants, pattern_is_balanced, each_address_line_counts, lanes_stay_distinct,
	few_flips_are_masked, operands_are_small, weights_are_odd_and_distinct)
