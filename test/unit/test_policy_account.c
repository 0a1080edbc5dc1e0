/* SPDX-License-Identifier: Apache-2.0 */
/* test: the account of a policy's caps: nothing that may stand is ever missing in its sum. */
#include "base/buf.h"
#include "test/unit/test.h"
#include "webhook/core/policy/policy_account.h"

#define GB UINT64_C(1000000000)

static struct arena arena;
static struct account account;
static struct policy caps;
static struct err err;

FIXTURE(begin)
{
	(void)state;
	arena_init(&arena, 1 << 20);
	account = (struct account){0};
	caps = (struct policy){.name = "small", .gpus = 4, .bytes = UINT64_MAX};
	err = (struct err){0};
	return 0;
}

FIXTURE(end)
{
	(void)state;
	arena_release(&arena);
	return 0;
}

static enum account_said raise_one(
	const char *namespace, const char *uid, uint64_t take, uint64_t gpus)
{
	struct account_ask ask = {
		.uid = uid, .namespace = namespace, .take = take, .wants = {gpus, gpus * 16 * GB}};

	return account_raise(&account, &caps, 1, &ask, &arena);
}

/* All claims of the world, counted. */
static bool count(const char *namespace, const char *list)
{
	struct account_count n;
	char ns[20], uid[20];
	unsigned take, gpus;
	int used;

	assert_true(!namespace || account_know(&account, namespace, &arena));
	assert_true(account_count_begin(&n, &account, &arena));
	while (sscanf(list, "%19s %19s %u %u%n", ns, uid, &take, &gpus, &used) == 4) {
		account_count_add(&n, ns, uid, take, (struct account_sum){gpus, gpus * 16 * GB});
		list += used;
	}
	return account_count_end(&n, 1);
}

static void expect(const char *text)
{
	struct buf b;

	buf_init(&b, 4000);
	account_write(&account, &b);
	assert_string_equal(b.data, text);
	buf_release(&b);
}

/* A status that somebody wrote by hand may say any number: who holds so much does not come to hold
 * nothing. */
TEST(test_sums_end_at_the_largest_number)
{
	struct claim_part parts[] = {{.bytes = UINT64_MAX - 1}, {.bytes = 2}};
	const struct claim claim = {.parts = parts, .n_parts = 2};
	struct account_sum sum = {.gpus = UINT64_MAX - 1};

	account_sum_add(&sum, &claim);
	assert_true(sum.gpus == UINT64_MAX && sum.bytes == UINT64_MAX);
	account_sum_add(&sum, &claim);
	assert_true(sum.gpus == UINT64_MAX && sum.bytes == UINT64_MAX);
}

TEST(test_only_caps_need_one)
{
	struct policy p = {.gpus = UINT32_MAX, .bytes = UINT64_MAX, .waiting = 3};

	assert_false(policy_is_capped(NULL));
	assert_false(policy_is_capped(&p));
	p.gpus = 0;
	assert_true(policy_is_capped(&p));
	p.gpus = UINT32_MAX;
	p.bytes = 1;
	assert_true(policy_is_capped(&p));
}

TEST(test_a_namespace_is_counted_first)
{
	assert_int_equal(raise_one("a", "u1", 7, 1), ACCOUNT_UNKNOWN);
	assert_true(count("a", "a u0 1 2 b u9 1 4"));
	assert_int_equal(raise_one("a", "u1", 7, 1), ACCOUNT_RAISED);
	/* another namespace was not counted */
	assert_int_equal(raise_one("b", "u2", 8, 1), ACCOUNT_UNKNOWN);
	expect("1 1 n a 3 48000000000 f u1 a 7 1 16000000000");
	/* and under another spec nothing was */
	account.generation = 2;
	assert_int_equal(raise_one("a", "u3", 9, 1), ACCOUNT_UNKNOWN);
}

TEST(test_the_cap_is_of_all_namespaces)
{
	(void)count("a", "");
	(void)count("b", "");
	assert_int_equal(raise_one("a", "u1", 1, 3), ACCOUNT_RAISED);
	assert_int_equal(raise_one("b", "u2", 2, 2), ACCOUNT_FULL);
	assert_int_equal(raise_one("b", "u2", 2, 1), ACCOUNT_RAISED);
	assert_int_equal(raise_one("b", "u2", 2, 1), ACCOUNT_THERE);
	assert_int_equal(account_held(&account).gpus, 4);
	assert_int_equal(raise_one("a", "u3", 3, 1), ACCOUNT_FULL);
	/* what runs already is counted, whatever the cap is */
	assert_int_equal(account_raise(&account, &caps, 1,
				 &(struct account_ask){.uid = "u4",
					 .namespace = "a",
					 .take = 4,
					 .wants = {2, 1},
					 .forced = true},
				 &arena),
		ACCOUNT_RAISED);
	assert_int_equal(account_held(&account).gpus, 6);
}

TEST(test_bytes_have_a_cap_of_their_own)
{
	caps.gpus = UINT32_MAX;
	caps.bytes = 40 * GB;
	(void)count("a", "");
	assert_int_equal(raise_one("a", "u1", 1, 2), ACCOUNT_RAISED);
	assert_int_equal(raise_one("a", "u2", 2, 1), ACCOUNT_FULL);
}

TEST(test_a_cap_of_nothing)
{
	caps.gpus = 0;
	(void)count("a", "");
	assert_int_equal(raise_one("a", "u1", 1, 1), ACCOUNT_FULL);
}

TEST(test_a_name_that_goes_leaves_the_sum)
{
	(void)count("a", "");
	(void)raise_one("a", "u1", 1, 2);
	assert_false(account_close(&account, "u1", 2));
	assert_true(account_close(&account, "u1", 1));
	expect("1 1 n a 2 32000000000");
	/* only a count takes it back */
	assert_true(count(NULL, ""));
	expect("1 1 n a 0 0");
	assert_false(count(NULL, ""));
}

TEST(test_who_is_in_flight_counts_beside_what_stands)
{
	(void)count("a", "a u0 9 1");
	(void)raise_one("a", "u1", 1, 2);
	/* nothing of it stands yet */
	assert_false(count(NULL, "a u0 9 1"));
	/* a half of it does; the other may come */
	assert_false(count(NULL, "a u0 9 1 a u1 1 1"));
	assert_int_equal(account_held(&account).gpus, 3);
	/* the same pod's claim of another review is another one */
	assert_true(count(NULL, "a u0 9 1 a u1 5 2"));
	assert_int_equal(account_held(&account).gpus, 5);
	/* all of it does: nothing is on its way any more */
	assert_true(count(NULL, "a u0 9 1 a u1 1 1 a u1 1 1"));
	expect("1 1 n a 3 48000000000");
}

TEST(test_more_stands_than_was_announced)
{
	(void)count("a", "");
	(void)raise_one("a", "u1", 1, 1);
	assert_true(count(NULL, "a u1 1 1 a u1 1 1"));
	expect("1 1 n a 2 32000000000");
}

TEST(test_of_several_in_flight_each_is_looked_at)
{
	(void)count("a", "");
	(void)raise_one("a", "u1", 1, 1);
	(void)raise_one("a", "u2", 2, 1);
	(void)raise_one("a", "u3", 3, 1);
	assert_true(count(NULL, "a u1 1 1 a u3 3 1"));
	expect("1 1 n a 3 48000000000 f u2 a 2 1 16000000000");
}

TEST(test_the_next_try_takes_the_place_of_the_last)
{
	struct account_ask ask = {
		.uid = "u1", .namespace = "a", .take = 2, .instead = 1, .wants = {4, 4 * GB}};

	(void)count("a", "");
	(void)raise_one("a", "u1", 1, 3);
	assert_int_equal(account_raise(&account, &caps, 1, &ask, &arena), ACCOUNT_RAISED);
	expect("1 1 n a 4 4000000000 f u1 a 2 4 4000000000");
	/* where the last one is not there it is one of its own */
	ask.take = 3;
	ask.instead = 1;
	assert_int_equal(account_raise(&account, &caps, 1, &ask, &arena), ACCOUNT_FULL);
}

TEST(test_what_cannot_be_read_is_not_taken_for_gone)
{
	struct account_count n;

	(void)count("a", "a u0 1 2");
	assert_true(account_count_begin(&n, &account, &arena));
	n.partly = true;
	assert_false(account_count_end(&n, 1));
	assert_int_equal(account_held(&account).gpus, 2);
}

static bool is_a(void *ctx, const struct account_row *row)
{
	(void)ctx;
	return strcmp(row->namespace, "a") == 0;
}

/* A gang is raised under the uid of one of its members; their records have their own. */
TEST(test_a_gang_in_flight_is_counted_once)
{
	(void)count("a", "");
	(void)raise_one("a", "u1", 7, 3);
	assert_false(count(NULL, "a u2 7 1 a u1 7 1"));
	expect("1 1 n a 3 48000000000 f u1 a 7 3 48000000000");
	assert_true(count(NULL, "a u2 7 1 a u1 7 1 a u3 7 1"));
	expect("1 1 n a 3 48000000000");
}

TEST(test_rows_of_others_go)
{
	(void)count("a", "");
	(void)count("b", "a u0 1 1 b u1 1 1");
	(void)count("c", "a u0 1 1 b u1 1 1");
	(void)raise_one("b", "u2", 2, 1);
	/* b has one in flight */
	assert_true(account_drop(&account, is_a, NULL));
	expect("1 1 n a 1 16000000000 n b 2 32000000000 f u2 b 2 1 16000000000");
	assert_false(account_drop(&account, is_a, NULL));
	(void)account_close(&account, "u2", 2);
	assert_true(account_drop(&account, is_a, NULL));
	expect("1 1 n a 1 16000000000");
}

TEST(test_it_is_read_as_it_was_written)
{
	static const char *const wrong[] = {"2 1", "1", "1 x", "1 1 n", "1 1 n a", "1 1 n a 1",
		"1 1 n a 1 -1", "1 1 x", "1 1 n b 1 1 n a 1 1", "1 1 n a 1 1 n a 1 1",
		"1 1 f u a 1 1", "1 9223372036854775808", "1 1 n a 1 18446744073709551616"};
	static const char text[] =
		"1 3 n a 1 16000000000 n b 2 7 f u1 a 18446744073709551615 1 16000000000";

	assert_int_equal(account_read(slice_of(text), &arena, &account, &err), 0);
	assert_int_equal(account.generation, 3);
	assert_int_equal(account.n_rows, 2);
	assert_true(account.flights[0].take == UINT64_MAX);
	expect(text);
	assert_int_equal(account_read((struct slice){0}, &arena, &account, &err), 0);
	assert_int_equal(account.generation, 0);
	for (size_t i = 0; i < COUNT(wrong); i++) {
		assert_int_equal(
			account_read(slice_of(wrong[i]), &arena, &account, &err), ERR_SYNTAX);
		assert_int_equal(account.n_rows, 0);
	}
}

static void refused(uint64_t gpus, uint64_t bytes, const char *text)
{
	struct account_ask ask = {.uid = "u", .namespace = "a", .wants = {gpus, bytes}};

	assert_int_equal(account_refuse(&account, &caps, &ask, &err), ERR_REFUSED);
	assert_string_equal(err.reason, "PolicyFull");
	assert_string_equal(err.msg, text);
}

TEST(test_a_refusal_says_who_holds_what)
{
	static const char *const others[] = {"a", "c", "d", "e", "f"};

	(void)count("b", "a u0 1 1 b u1 1 3");
	refused(2, 0,
		"the GPUPolicy small allows its namespaces 4 GPUs at once (spec.allow.gpus), of "
		"which they hold 3 (b 3), and the pod takes 2; create the pod again when one of "
		"theirs has ended");
	for (size_t i = 0; i < COUNT(others); i++)
		(void)count(others[i], "a u0 1 1 b u1 1 3 c u2 1 1 d u3 1 1 e u4 1 1 f u5 1 1");
	refused(9, 0,
		"the GPUPolicy small allows its namespaces 4 GPUs at once (spec.allow.gpus), of "
		"which they hold 8 (b 3, a 1, c 1, d 1, and 2 more), and the pod takes 9; ask for "
		"less: no pod of theirs can have so much");
	caps.gpus = UINT32_MAX;
	caps.bytes = 20 * GB;
	account.n_rows = 1;
	refused(1, 8 * GB,
		"the GPUPolicy small allows its namespaces 20000 MB at once (spec.allow.memory), "
		"of which they hold 16000 (a 16000 MB), and the pod takes 8000; create the pod "
		"again when one of theirs has ended");
}

/* Where memory ends, the arena says so, and what was known stays: no row, no name and no sum of
 * half a raise. */
TEST(test_without_memory)
{
	struct account_ask ask = {.uid = "u1", .namespace = "a", .take = 1, .wants = {1, 16 * GB}};
	struct arena none;

	arena_init(&none, 0);
	assert_false(account_know(&account, "a", &none));
	assert_true(none.failed);
	assert_false(account_knows(&account, "a"));
	assert_int_equal(account.n_rows, 0);
	assert_true(count("a", ""));
	/* it is there already, which takes nothing */
	assert_true(account_know(&account, "a", &none));
	arena_release(&none);
	arena_init(&none, 0);
	(void)account_raise(&account, &caps, 1, &ask, &none);
	assert_true(none.failed);
	expect("1 1 n a 0 0");
	arena_release(&none);
	arena_init(&none, 0);
	account_name(&account, &ask, &none);
	assert_true(none.failed);
	expect("1 1 n a 0 0");
	arena_release(&none);
	assert_int_equal(raise_one("a", "u1", 1, 1), ACCOUNT_RAISED);
	assert_int_equal(raise_one("a", "u2", 2, 1), ACCOUNT_RAISED);
	expect("1 1 n a 2 32000000000 f u1 a 1 1 16000000000 f u2 a 2 1 16000000000");
}

/* Namespaces come in any order, and each keeps what it holds at its place. */
TEST(test_rows_are_ordered)
{
	assert_true(count("b", "b u1 1 1"));
	assert_true(count("d", "b u1 1 1 d u2 2 2"));
	assert_true(account_know(&account, "a", &arena));
	expect("1 1 n a 0 0 n b 1 16000000000 n d 2 32000000000");
	assert_true(account_know(&account, "c", &arena));
	assert_true(account_know(&account, "e", &arena));
	assert_true(account_know(&account, "c", &arena));
	expect("1 1 n a 0 0 n b 1 16000000000 n c 0 0 n d 2 32000000000 n e 0 0");
}

TESTS_BETWEEN(begin, end, test_sums_end_at_the_largest_number, test_only_caps_need_one,
	test_a_namespace_is_counted_first, test_the_cap_is_of_all_namespaces,
	test_bytes_have_a_cap_of_their_own, test_a_cap_of_nothing,
	test_a_name_that_goes_leaves_the_sum, test_who_is_in_flight_counts_beside_what_stands,
	test_more_stands_than_was_announced, test_of_several_in_flight_each_is_looked_at,
	test_the_next_try_takes_the_place_of_the_last,
	test_what_cannot_be_read_is_not_taken_for_gone, test_a_gang_in_flight_is_counted_once,
	test_rows_of_others_go, test_it_is_read_as_it_was_written,
	test_a_refusal_says_who_holds_what, test_without_memory, test_rows_are_ordered)
