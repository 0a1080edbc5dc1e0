/* SPDX-License-Identifier: Apache-2.0 */
/* test: the set of uids that hold claims, against a plain table of counts. */
#include "test/unit/test.h"
#include "webhook/cluster/duty/uid_set.h"

#define UIDS 700

static struct slice uid_of(char *text, size_t size, unsigned n)
{
	snprintf(text, size, "3ad9fe1c-0000-4000-8000-%012u", n);
	return slice_of(text);
}

static void check_all(const struct uid_set *s, const unsigned *count)
{
	char text[64];

	for (unsigned i = 0; i < UIDS; i++)
		assert_int_equal(uid_set_count(s, uid_of(text, sizeof(text), i)), count[i]);
}

/* Adds and removals in an order without system: what was added more often than removed is there,
 * nothing else. */
TEST(test_against_counts)
{
	struct uid_set s = {0};
	unsigned count[UIDS] = {0};
	uint32_t random = 7;
	char text[64];

	check_all(&s, count);
	for (unsigned step = 0; step < 40000; step++) {
		unsigned i;

		random = random * 1664525 + 1013904223;
		i = (random >> 8) % UIDS;
		if (random >> 31) {
			uid_set_add(&s, uid_of(text, sizeof(text), i));
			count[i]++;
		} else {
			uid_set_remove(&s, uid_of(text, sizeof(text), i));
			count[i] -= count[i] > 0;
		}
		if (step % 997 == 0)
			check_all(&s, count);
	}
	for (unsigned i = 0; i < UIDS; i++)
		for (; count[i]; count[i]--)
			uid_set_remove(&s, uid_of(text, sizeof(text), i));
	check_all(&s, count);
	assert_int_equal(s.n, 0);
	uid_set_release(&s);
}

/* Who knows nothing must not say no. */
TEST(test_blind)
{
	struct uid_set s = {.blind = true};

	uid_set_add(&s, SLICE("a"));
	uid_set_remove(&s, SLICE("a"));
	assert_int_equal(uid_set_count(&s, SLICE("a")), UINT32_MAX);
	assert_int_equal(uid_set_count(&s, SLICE("b")), UINT32_MAX);
	uid_set_release(&s);
}

TESTS(test_against_counts, test_blind)
