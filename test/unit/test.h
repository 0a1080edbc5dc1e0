/* SPDX-License-Identifier: Apache-2.0 */
/* What each unit test stands on: the headers of the C library and of cmocka, the form of a test,
 * and main. */
#ifndef TEST_UNIT_TEST_H
#define TEST_UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* TEST(what_holds) { … } is a test. A program names its tests, in their order, in one TESTS without
 * a semicolon. */
#define TEST(name) static void name(void **state __attribute__((unused)))
#define TESTS(...) TESTS_ALL(NULL, NULL, NULL, NULL, __VA_ARGS__)

/* What runs before or behind tests: 0 when all is well. */
#define FIXTURE(name) static int name(void **state __attribute__((unused)))

/* set_up() and tear_down() that call these with &fix, the program's own. */
#define FIXTURES(init, release)                                                                    \
	FIXTURE(set_up)                                                                            \
	{                                                                                          \
		init(&fix);                                                                        \
		return 0;                                                                          \
	}                                                                                          \
	FIXTURE(tear_down)                                                                         \
	{                                                                                          \
		release(&fix);                                                                     \
		return 0;                                                                          \
	}

/* The program's arena, which grows to so many bytes at most and is anew for each test. */
#define ARENA_FIXTURES(most)                                                                       \
	static struct arena arena;                                                                 \
	FIXTURE(set_up)                                                                            \
	{                                                                                          \
		arena_init(&arena, most);                                                          \
		return 0;                                                                          \
	}                                                                                          \
	FIXTURE(tear_down)                                                                         \
	{                                                                                          \
		arena_release(&arena);                                                             \
		return 0;                                                                          \
	}

/* Each test runs between set_up and tear_down, also when it fails. */
#define TESTS_BETWEEN(set_up, tear_down, ...) TESTS_ALL(NULL, NULL, set_up, tear_down, __VA_ARGS__)

/* All of them together run between begin and end. */
#define TESTS_WITHIN(begin, end, ...) TESTS_ALL(begin, end, NULL, NULL, __VA_ARGS__)

#define TESTS_ALL(begin, end, set_up, tear_down, ...)                                              \
	int main(int argc, char **argv)                                                            \
	{                                                                                          \
		static const CMUnitTestFunction tests[] = {__VA_ARGS__};                           \
		static const struct test_frame frame = {begin, end, set_up, tear_down};            \
                                                                                                   \
		return tests_run(                                                                  \
			argc > 1 ? argv[1] : NULL, #__VA_ARGS__, tests, COUNT(tests), &frame);     \
	}

/* NULL: there is nothing to do. */
struct test_frame {
	CMFixtureFunction begin, end, set_up, tear_down;
};

/* only: a pattern (`*` and `?`) of the names of the tests to run, NULL for all. names: those of the
 * tests, with a comma between each two. Returns main's value: 0 when all passed. */
int tests_run(const char *only, const char *names, const CMUnitTestFunction *tests, size_t n,
	const struct test_frame *frame);

/* Fails, with the row, the message and what it lacks, unless it begins with the head and has the
 * part. row: which one it is of a table. */
void row_says(const char *row, const char *msg, const char *head, const char *part);

/* A copy with every single quote made a double one; the caller frees it. */
char *fixture_quotes(const char *text);

#endif
