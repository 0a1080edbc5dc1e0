/* SPDX-License-Identifier: Apache-2.0 */
/* probe/kernels/pattern, probe/kernels/exact, probe/check/exact_cpu: the same bits as ever, and
 * what they promise of faults. test/probe/golden does the first for other compilers,
 * test/probe/test_golden.py from the description alone. */
#include "probe/check/exact_cpu.h"
#include "probe/kernels/exact.h"
#include "test/unit/test.h"

TEST(golden_constants)
{
	struct kernel_cell c = pattern_cell(0x123456789abcull, 0xfedcba9876543210ull);

	assert_int_equal(pattern_cell(1, 7).lo, 0xfed6d6342a53cf97ull);
	assert_int_equal(pattern_cell(1, 7).hi, 0x64536f47e8a677feull);
	assert_int_not_equal(c.lo, pattern_cell(0x3456789abcull, 0xfedcba9876543210ull).lo);
	assert_int_equal(exact_fma32(1, 4096, EXACT_FOLD_CHECK, 7), 0xaae1f3d57fed8e09ull);
	assert_int_equal(exact_fma32(1, 4096, EXACT_FOLD_RATE, 7), 0x881b8e0d61b7d75dull);
	assert_int_equal(exact_fma64(1, 4096, EXACT_FOLD_CHECK, 7), 0x79a802858ea5ebfbull);
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

/* What one fold of fp32 leaves, when result `at` comes out with a bit flipped; at EXACT_FOLD_CHECK:
 * none does. */
static uint64_t fold32_with(uint32_t lane, unsigned at, unsigned bit)
{
	struct exact_state32 s = exact_seed32(exact_start(lane, 7));
	uint32_t kept = 0;

	for (unsigned n = 0; n < EXACT_FOLD_CHECK; n++) {
		s.x = n % 2 ? exact_fmaf(s.x, 0.75f, s.b) : exact_fmaf(s.x, 1.33333337f, s.minus_a);
		if (n == at)
			s.x = exact_float(exact_float_bits(s.x) ^ 1u << bit);
		exact_keep32(&kept, s.x);
	}
	return exact_fold32(exact_start(lane, 7), s.x, kept);
}

static uint64_t fold64_with(uint32_t lane, unsigned at, unsigned bit)
{
	struct exact_state64 s = exact_seed64(exact_start(lane, 7));
	struct exact_kept64 kept = {0, 0};

	for (unsigned n = 0; n < EXACT_FOLD_CHECK; n++) {
		s.x = n % 2 ? exact_fma(s.x, 0.75, s.b)
			    : exact_fma(s.x, 1.3333333333333333, s.minus_a);
		if (n == at)
			s.x = exact_double(exact_double_bits(s.x) ^ 1ull << bit);
		exact_keep64(&kept, s.x);
	}
	return exact_fold64(exact_start(lane, 7), s.x, kept);
}

/* Whatever bit of whatever result flips, the last bit of the first one, too: no fold forgets it. */
TEST(no_flip_is_forgotten)
{
	for (uint32_t lane = 0; lane < 20; lane++) {
		uint64_t right32 = fold32_with(lane, EXACT_FOLD_CHECK, 0);
		uint64_t right64 = fold64_with(lane, EXACT_FOLD_CHECK, 0);

		assert_int_equal(right32, exact_fma32(lane, 64, EXACT_FOLD_CHECK, 7));
		assert_int_equal(right64, exact_fma64(lane, 64, EXACT_FOLD_CHECK, 7));
		for (unsigned at = 0; at < EXACT_FOLD_CHECK; at++) {
			for (unsigned bit = 0; bit < 32; bit++)
				assert_int_not_equal(fold32_with(lane, at, bit), right32);
			for (unsigned bit = 0; bit < 64; bit++)
				assert_int_not_equal(fold64_with(lane, at, bit), right64);
		}
	}
}

/* A fold's state neither grows nor shrinks. */
TEST(states_stay_in_range)
{
	for (uint32_t n = 0; n < 4000; n++) {
		struct exact_state32 s = exact_seed32(exact_start(n, 7));
		struct exact_state64 d = exact_seed64(exact_start(n, 7));

		for (uint32_t i = 0; i < EXACT_FOLD_CHECK / 2; i++) {
			s.x = exact_pair32(s, NULL);
			d.x = exact_pair64(d, NULL);
		}
		assert_true(s.x > 0.9f && s.x < 4 && d.x > 0.9 && d.x < 4);
	}
}

/* Many at once, by whatever instructions this processor has: the same as one by one. */
TEST(chains_side_by_side)
{
	static const uint32_t folds[] = {EXACT_FOLD_CHECK, EXACT_FOLD_RATE};
	uint32_t lanes[77];
	uint64_t sums[3][77];

	for (uint32_t i = 0; i < 77; i++)
		lanes[i] = i * 0x9e3779b1u;
	for (int f = 0; f < 2; f++) {
		exact_cpu_chains(EXACT_FP32, lanes, 77, 1024, folds[f], 7, sums[0]);
		exact_cpu_chains(EXACT_FP64, lanes, 77, 1024, folds[f], 7, sums[1]);
		for (uint32_t i = 0; i < 77; i++) {
			assert_int_equal(sums[0][i], exact_fma32(lanes[i], 1024, folds[f], 7));
			assert_int_equal(sums[1][i], exact_fma64(lanes[i], 1024, folds[f], 7));
		}
	}
	exact_cpu_chains(EXACT_TENSOR, lanes, 3, 1024, EXACT_MMA_FOLD_CHECK, 7, sums[2]);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(sums[2][i], exact_mma16(lanes[i], 1024, EXACT_MMA_FOLD_CHECK, 7));
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
	no_flip_is_forgotten, states_stay_in_range, chains_side_by_side, operands_are_small,
	weights_are_odd_and_distinct)
