/* SPDX-License-Identifier: Apache-2.0 */
/* test: runs a program's tests by their names. */
#define _GNU_SOURCE
#include <errno.h>

#include "test/unit/test.h"

#define MOST 96

int tests_run(const char *only, const char *names, const CMUnitTestFunction *tests, size_t n,
	const struct test_frame *frame)
{
	struct CMUnitTest table[MOST] = {0};
	char *copy = strdup(names), *rest = copy;
	int broken;

	if (!copy || n > MOST) {
		fprintf(stderr, "found %zu tests, at most %d are expected\n", n, MOST);
		abort();
	}
	for (size_t i = 0; i < n; i++) {
		char *name = strsep(&rest, ",");

		table[i] = (struct CMUnitTest){.name = name + strspn(name, " "),
			.test_func = tests[i],
			.setup_func = frame->set_up,
			.teardown_func = frame->tear_down};
	}
	if (only)
		cmocka_set_test_filter(only);
	broken = _cmocka_run_group_tests(
		program_invocation_short_name, table, n, frame->begin, frame->end);
	free(copy);
	return broken != 0;
}

void row_says(const char *row, const char *msg, const char *head, const char *part)
{
	if (strncmp(msg, head, strlen(head)) != 0)
		fail_msg("%s: \"%s\" does not begin with \"%s\"", row, msg, head);
	if (!strstr(msg, part))
		fail_msg("%s: \"%s\" lacks \"%s\"", row, msg, part);
}

char *fixture_quotes(const char *text)
{
	char *copy = strdup(text);

	assert_non_null(copy);
	for (char *c = copy; *c; c++)
		if (*c == '\'')
			*c = '"';
	return copy;
}
