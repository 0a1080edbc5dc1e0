/* SPDX-License-Identifier: Apache-2.0 */
/* test: base/arena. */
#include "base/arena.h"
#include "test/unit/test.h"

static bool all_zero(const unsigned char *at, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (at[i] != 0)
			return false;
	return true;
}

TEST(init_allocates_nothing)
{
	struct arena a;

	arena_init(&a, 100);
	assert_null(a.first);
	assert_false(a.failed);
	arena_reset(&a);
	arena_release(&a);
}

/* Pieces of every size: zeroed, aligned, apart from each other, also after a reset over used
 * memory. */
TEST(pieces_are_zeroed_aligned_and_apart)
{
	static unsigned char *piece[3000];
	struct arena a;

	arena_init(&a, 64 << 20);
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < 3000; i++) {
			piece[i] = arena_alloc(&a, i);
			assert_non_null(piece[i]);
			assert_int_equal((uintptr_t)piece[i] % _Alignof(max_align_t), 0);
			assert_true(all_zero(piece[i], i));
			memset(piece[i], (int)(i % 255 + 1), i);
		}
		for (size_t i = 0; i < 3000; i++)
			for (size_t k = 0; k < i; k++)
				if (piece[i][k] != i % 255 + 1)
					fail_msg("piece %zu was overwritten", i);
		arena_reset(&a);
		assert_int_equal(a.used, 0);
	}
	arena_release(&a);
	assert_null(a.first);
}

TEST(reset_keeps_the_first_chunk)
{
	struct arena a;
	void *first;

	arena_init(&a, 64 << 20);
	first = arena_alloc(&a, 100);
	for (int i = 0; i < 100; i++)
		assert_non_null(arena_alloc(&a, 100000));
	arena_reset(&a);
	assert_ptr_equal(arena_alloc(&a, 8), first);
	arena_release(&a);
}

TEST(one_huge_piece_is_not_kept)
{
	struct arena a;

	arena_init(&a, 64 << 20);
	assert_non_null(arena_alloc(&a, 10 << 20));
	arena_reset(&a);
	assert_null(a.first);
	assert_non_null(arena_alloc(&a, 10));
	arena_release(&a);
}

TEST(maximum_holds_and_failure_sticks)
{
	struct arena a;

	arena_init(&a, 1000);
	assert_non_null(arena_alloc(&a, 900));
	assert_non_null(arena_alloc(&a, 100));
	assert_int_equal(a.used, 1000);
	assert_null(arena_alloc(&a, 1));
	assert_true(a.failed);
	assert_null(arena_alloc(&a, 0));
	assert_null(arena_fmt(&a, "x"));
	assert_null(arena_strdup(&a, SLICE("x")));
	assert_null(arena_slice(&a, SLICE("x")).at);
	arena_reset(&a);
	assert_false(a.failed);
	assert_non_null(arena_alloc(&a, 1000));
	arena_release(&a);
}

TEST(sizes_that_overflow)
{
	static const size_t cases[][2] = {{SIZE_MAX, 2}, {2, SIZE_MAX}, {SIZE_MAX / 2 + 1, 2},
		{SIZE_MAX, 1}, {1, SIZE_MAX - 8}};
	struct arena a;

	arena_init(&a, SIZE_MAX);
	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_null(arena_array(&a, cases[i][0], cases[i][1]));
		a.failed = false;
		assert_null(arena_space(&a, cases[i][0], cases[i][1]));
		assert_null(arena_copy(&a, "", cases[i][0], cases[i][1]));
		assert_true(a.failed);
		arena_reset(&a);
	}
	assert_non_null(arena_array(&a, 10, 8));
	assert_non_null(arena_array(&a, 0, 8));
	assert_int_equal(a.used, 81);
	arena_release(&a);
}

/* One of thousands takes what it needs, and grows all the same. */
TEST(small_ones)
{
	static const size_t expected[] = {0, 1, 16, 100, 5000};

	for (size_t e = 0; e < COUNT(expected); e++) {
		struct arena a;

		arena_init_small(&a, 10000, expected[e]);
		for (int round = 0; round < 2; round++) {
			for (size_t i = 0; i < 80; i++)
				assert_non_null(memset(arena_alloc(&a, 100), 7, 100));
			assert_int_equal(a.used, 8000);
			assert_null(arena_alloc(&a, 3000));
			assert_true(a.failed);
			arena_reset(&a);
		}
		arena_release(&a);
		assert_non_null(arena_alloc(&a, 10));
		arena_release(&a);
	}
}

TEST(texts)
{
	struct slice s;
	struct arena a;
	char *t;

	arena_init(&a, 100000);
	assert_string_equal(arena_strdup(&a, SLICE("abc")), "abc");
	assert_string_equal(arena_strdup(&a, (struct slice){NULL, 0}), "");
	assert_string_equal(arena_strdup(&a, (struct slice){"abcdef", 3}), "abc");
	assert_string_equal(arena_fmt(&a, "%d-%s", 5, "x"), "5-x");
	assert_string_equal(arena_fmt(&a, "%s", ""), "");
	t = arena_fmt(&a, "%70000d", 1);
	assert_int_equal(strlen(t), 70000);
	s = arena_slice(&a, (struct slice){"a\0b", 3});
	assert_int_equal(s.len, 3);
	assert_memory_equal(s.at, "a\0b", 4);
	s = arena_slice(&a, (struct slice){"", 0});
	assert_non_null(s.at);
	assert_null(arena_slice(&a, (struct slice){NULL, 0}).at);
	assert_false(a.failed);
	arena_release(&a);
}

TEST(copies)
{
	static const uint32_t numbers[] = {7, 8, 9};
	struct arena a;
	uint32_t *copy;

	arena_init(&a, 1000);
	copy = arena_copy(&a, numbers, 3, sizeof(numbers[0]));
	assert_non_null(copy);
	assert_ptr_not_equal(copy, numbers);
	assert_memory_equal(copy, numbers, sizeof(numbers));
	assert_non_null(arena_copy(&a, NULL, 0, sizeof(numbers[0])));
	assert_false(a.failed);
	assert_null(arena_copy(&a, numbers, 3000, 1));
	assert_true(a.failed);
	arena_release(&a);
}

TESTS(init_allocates_nothing, pieces_are_zeroed_aligned_and_apart, reset_keeps_the_first_chunk,
	one_huge_piece_is_not_kept, maximum_holds_and_failure_sticks, sizes_that_overflow,
	small_ones, texts, copies)
