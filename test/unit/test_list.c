/* SPDX-License-Identifier: Apache-2.0 */
/* test: lists that grow, from malloc and from an arena. */
#include "base/list.h"

#include "test/unit/test.h"

#define MANY 1000

TEST(a_list_keeps_what_it_holds)
{
	uint64_t *list = NULL;
	size_t n = 0, cap = 0;

	for (uint64_t i = 0; i < MANY; i++) {
		assert_true(LIST_ROOM(list, n, cap));
		assert_true(cap > n);
		list[n++] = i;
	}
	for (uint64_t i = 0; i < MANY; i++)
		assert_int_equal(list[i], i);
	free(list);
}

TEST(a_list_that_has_room_stays)
{
	char *list = NULL, *first;
	size_t cap = 0;

	assert_true(LIST_ROOM(list, 0, cap));
	first = list;
	for (size_t n = 1; n < cap; n++)
		assert_true(LIST_ROOM(list, n, cap));
	assert_ptr_equal(list, first);
	free(list);
}

/* Until the arena is full: then the list is what it was. */
TEST(a_list_of_an_arena)
{
	struct arena a;
	const char **list = NULL;
	size_t n = 0, cap = 0, was;

	arena_init(&a, MANY * sizeof(char *));
	while (LIST_ROOM_IN(&a, list, n, cap))
		list[n++] = "word";
	assert_true(a.full);
	was = cap;
	assert_true(n == was && n > MANY / 4);
	for (size_t i = 0; i < n; i++)
		assert_string_equal(list[i], "word");
	arena_release(&a);
}

TESTS(a_list_keeps_what_it_holds, a_list_that_has_room_stays, a_list_of_an_arena)
