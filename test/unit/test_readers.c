/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of webhook/edge/admin/readers: how long an answer holds, and whom others' tries keep
 * out. */
#include <stdio.h>

#include "test/unit/test.h"
#include "webhook/edge/admin/readers.h"

#define A "10.0.0.1:1000"
#define SAME "10.0.0.1:2000"
#define B "10.0.0.2:1000"
#define NOW INT64_C(1000000)

static struct readers *readers;

FIXTURE(set_up)
{
	readers = readers_new();
	return readers ? 0 : -1;
}

FIXTURE(tear_down)
{
	readers_free(readers);
	return 0;
}

static enum reader at(const char *token, const char *peer, int64_t now_ms)
{
	return readers_look(readers, slice_of(token), peer, now_ms);
}

static void note(const char *token, const char *peer, enum reader word, int64_t now_ms)
{
	readers_note(readers, slice_of(token), peer, word, now_ms);
}

TEST(an_answer_holds_for_a_time)
{
	assert_int_equal(at("t", A, NOW), READER_UNKNOWN);
	note("t", A, READER_YES, NOW);
	assert_int_equal(at("t", B, NOW + READERS_YES_MS - 1), READER_YES);
	assert_int_equal(at("T", A, NOW), READER_UNKNOWN);
	assert_int_equal(at("", A, NOW), READER_UNKNOWN);
	assert_int_equal(at("t", A, NOW + READERS_YES_MS), READER_UNKNOWN);
	note("t", A, READER_NO, NOW + READERS_YES_MS);
	assert_int_equal(at("t", A, NOW + READERS_YES_MS + READERS_NO_MS - 1), READER_NO);
	assert_int_equal(at("t", A, NOW + READERS_YES_MS + READERS_NO_MS), READER_UNKNOWN);
	note("u", A, READER_NOBODY, NOW);
	assert_int_equal(at("u", A, NOW), READER_NOBODY);
}

/* While nobody can say, the next one is asked about. */
TEST(nobody_can_say)
{
	note("t", A, READER_AWAY, NOW);
	assert_int_equal(at("t", A, NOW), READER_UNKNOWN);
	/* and what was a yes holds no longer than it did */
	note("t", A, READER_YES, NOW);
	note("t", A, READER_AWAY, NOW + READERS_YES_MS);
	assert_int_equal(at("t", A, NOW + READERS_YES_MS), READER_UNKNOWN);
}

static void fail_often(const char *peer, unsigned times)
{
	char token[32];

	for (unsigned i = 0; i < times; i++) {
		(void)snprintf(token, sizeof(token), "bad-%s-%u", peer, i);
		note(token, peer, READER_NOBODY, NOW);
	}
}

TEST(tries_are_counted_by_address)
{
	note("good", A, READER_YES, NOW - READERS_YES_MS);
	note("old", A, READER_YES, NOW - READERS_YES_MS - READERS_KNOWN_MS);
	fail_often(A, READERS_TRIES - 1);
	assert_int_equal(at("x", A, NOW), READER_UNKNOWN);
	fail_often(A, 1);
	assert_int_equal(at("x", A, NOW), READER_TRIES);
	assert_int_equal(at("x", SAME, NOW), READER_TRIES);
	assert_int_equal(at("x", B, NOW), READER_UNKNOWN);
	/* who was let in is asked about on, for some time */
	assert_int_equal(at("good", SAME, NOW), READER_UNKNOWN);
	assert_int_equal(at("old", A, NOW), READER_TRIES);
	/* what is known is told all the same */
	assert_int_equal(at("bad-" A "-0", A, NOW), READER_NOBODY);
	assert_int_equal(at("x", A, NOW + 60000), READER_UNKNOWN);
}

/* Questions that nobody could answer count, but for who was let in before. */
TEST(what_nobody_can_say_is_a_try)
{
	note("good", A, READER_YES, NOW - READERS_YES_MS);
	for (unsigned i = 0; i < READERS_TRIES; i++)
		note("good", A, READER_AWAY, NOW);
	assert_int_equal(at("x", A, NOW), READER_UNKNOWN);
	for (unsigned i = 0; i < READERS_TRIES; i++)
		note("other", A, READER_AWAY, NOW);
	assert_int_equal(at("x", A, NOW), READER_TRIES);
	assert_int_equal(at("other", A, NOW), READER_TRIES);
	assert_int_equal(at("good", A, NOW), READER_UNKNOWN);
}

TEST(a_network_is_one_address)
{
	fail_often("[2001:db8::1]:1", READERS_TRIES);
	assert_int_equal(at("x", "[2001:db8::ffff:2]:9", NOW), READER_TRIES);
	assert_int_equal(at("x", "[2001:db8:0:1::1]:1", NOW), READER_UNKNOWN);
	assert_int_equal(at("x", "?", NOW), READER_UNKNOWN);
}

TEST(who_may_not_pushes_out_nobody_who_may)
{
	char token[16];

	for (unsigned i = 0; i < READERS_MAX; i++) {
		(void)snprintf(token, sizeof(token), "yes-%u", i);
		note(token, A, READER_YES, NOW + i);
	}
	for (unsigned i = 0; i < 2 * READERS_MAX; i++) {
		(void)snprintf(token, sizeof(token), "no-%u", i);
		note(token, B, READER_NO, NOW + 100);
	}
	assert_int_equal(at("yes-0", A, NOW + 100), READER_YES);
	assert_int_equal(at("no-0", A, NOW + 100), READER_UNKNOWN);
	/* one more who may does: the one that ends first */
	note("more", A, READER_YES, NOW + 100);
	assert_int_equal(at("more", A, NOW + 100), READER_YES);
	assert_int_equal(at("yes-0", A, NOW + 100), READER_UNKNOWN);
	assert_int_equal(at("yes-1", A, NOW + 100), READER_YES);
}

TESTS_BETWEEN(set_up, tear_down, an_answer_holds_for_a_time, nobody_can_say,
	tries_are_counted_by_address, what_nobody_can_say_is_a_try, a_network_is_one_address,
	who_may_not_pushes_out_nobody_who_may)
