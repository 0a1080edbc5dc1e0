/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/duty/repeat: what is wrong is told when it changes and once in a while, not at every
 * event. */
#include "test/unit/test.h"
#include "webhook/cluster/duty/repeat.h"

TEST(test_once_and_again)
{
	struct repeat r = {0};

	assert_true(repeat_due(&r, "a", "x", 0));
	assert_false(repeat_due(&r, "a", "x", 0));
	assert_false(repeat_due(&r, "a", "x", REPEAT_MS - 1));
	assert_true(repeat_due(&r, "a", "x", REPEAT_MS));
	assert_false(repeat_due(&r, "a", "x", 2 * REPEAT_MS - 1));
}

TEST(test_changes_are_told)
{
	struct repeat r = {0};

	assert_true(repeat_due(&r, "a", "x", 5));
	assert_true(repeat_due(&r, "b", "x", 5));
	assert_true(repeat_due(&r, "a", "y", 5));
	assert_true(repeat_due(&r, "a", "x", 5));
	assert_false(repeat_due(&r, "b", "x", 5));
	repeat_forget(&r, "b");
	repeat_forget(&r, "nobody");
	assert_true(repeat_due(&r, "b", "x", 5));
	assert_false(repeat_due(&r, "a", "x", 5));
	assert_true(repeat_due(&r, "", "", 5));
	assert_false(repeat_due(&r, "", "", 5));
}

TEST(test_many)
{
	struct repeat r = {0};
	char name[32];
	size_t told = 0;

	for (int i = 0; i < REPEAT_KEPT; i++) {
		(void)snprintf(name, sizeof(name), "server-%d", i);
		assert_true(repeat_due(&r, name, "x", i));
	}
	for (int i = 0; i < REPEAT_KEPT; i++) {
		(void)snprintf(name, sizeof(name), "server-%d", i);
		assert_false(repeat_due(&r, name, "x", 100 + i));
	}
	/* the one that was told longest ago makes room */
	assert_true(repeat_due(&r, "one more", "x", 200));
	assert_false(repeat_due(&r, "server-1", "x", 200));
	assert_true(repeat_due(&r, "server-0", "x", 200));
	for (int i = 0; i < REPEAT_KEPT; i++) {
		(void)snprintf(name, sizeof(name), "server-%d", i);
		told += repeat_due(&r, name, "x", 300);
	}
	assert_true(told <= REPEAT_KEPT);
}

/* What is forgotten makes room for the next one: nothing else has to go. */
TEST(test_forgotten_makes_room)
{
	struct repeat r = {0};
	char name[32];

	for (int i = 0; i < REPEAT_KEPT; i++) {
		(void)snprintf(name, sizeof(name), "server-%d", i);
		assert_true(repeat_due(&r, name, "x", i));
	}
	repeat_forget(&r, name);
	assert_true(repeat_due(&r, "one more", "x", 200));
	for (int i = 0; i < REPEAT_KEPT - 1; i++) {
		(void)snprintf(name, sizeof(name), "server-%d", i);
		assert_false(repeat_due(&r, name, "x", 200));
	}
	assert_false(repeat_due(&r, "one more", "x", 200));
}

TESTS(test_forgotten_makes_room, test_once_and_again, test_changes_are_told, test_many)
