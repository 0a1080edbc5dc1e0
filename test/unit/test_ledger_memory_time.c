/* SPDX-License-Identifier: Apache-2.0 */
/* edge/pool/ledger_memory: claims that are taken to have started, by a clock that leaps. */
#include <time.h>

#include "test/unit/pool_fixture.h"
#include "test/unit/test.h"
#include "webhook/edge/pool/ledger_memory.h"

static struct ledger *ledger;
static struct arena arena;

FIXTURE(set_up)
{
	struct pool p;

	arena_init(&arena, 1u << 20);
	ledger = ledger_memory_new(0);
	assert_non_null(ledger);
	pool_init(&p, "a t4:8000");
	assert_int_equal(ledger_memory_set_inventory(ledger, &p.inv, NULL), 0);
	pool_release(&p);
	return 0;
}

FIXTURE(tear_down)
{
	ledger_memory_free(ledger);
	arena_release(&arena);
	return 0;
}

static int take(const char *uid, const char *demand, struct err *err)
{
	struct claim_answer answer;
	struct demand d;
	struct claim_ask ask = {.uid = slice_of(uid),
		.namespace = SLICE("lab"),
		.name = slice_of(uid),
		.demand = &d,
		.plan_hash = 5};

	err_clear(err);
	demand_init(&d, &arena, demand, NULL, NULL, false);
	return ledger->ops->take(ledger, &ask, &arena, &answer, err);
}

static void must_take(const char *uid, const char *demand)
{
	struct err err = {0};

	if (take(uid, demand, &err) != 0)
		fail_msg("%s: %s", uid, err.msg);
}

static void pass(int seconds)
{
	(void)nanosleep(&(struct timespec){.tv_sec = seconds}, NULL);
}

static void expect_count(size_t pending, size_t bound)
{
	size_t n[CLAIM_STATES];

	ledger->ops->count(ledger, n);
	assert_int_equal(n[CLAIM_PENDING], pending);
	assert_int_equal(n[CLAIM_BOUND], bound);
}

/* MB of the GPU that are claimed, and how many of these are pending. */
static void expect_view(uint64_t claimed, uint64_t pending)
{
	struct pool_view v;
	struct err err = {0};

	assert_int_equal(ledger->ops->view(ledger, false, &arena, &v, &err), 0);
	assert_int_equal(v.usage.claimed[0], claimed * MB);
	assert_int_equal(v.usage.pending[0], pending * MB);
}

/* Each when its own time is over, whoever looks: those that are counted, and those that are seen.
 */
TEST(test_claims_start_one_after_the_other)
{
	must_take("one", "app c 1 10%");
	pass(30);
	must_take("two", "app c 1 20%");
	expect_count(2, 0);
	expect_view(2400, 2400);
	pass(14);
	expect_view(2400, 2400);
	expect_count(2, 0);
	pass(1);
	expect_view(2400, 1600);
	expect_count(1, 1);
	must_take("three", "app c 1 30%");
	/* who has started already stands before those that have not */
	pass(30);
	expect_count(1, 2);
	expect_view(4800, 2400);
	pass(15);
	expect_count(0, 3);
	expect_view(4800, 0);
}

/* A refusal says what is pending: not what has had its time. */
TEST(test_a_refusal_knows_who_has_started)
{
	struct err early = {0}, late = {0};

	must_take("one", "app c 1 100%");
	assert_int_equal(take("two", "app c 1 50%", &early), ERR_REFUSED);
	pass(45);
	assert_int_equal(take("two", "app c 1 50%", &late), ERR_REFUSED);
	if (strcmp(early.msg, late.msg) == 0)
		fail_msg("both say %s", late.msg);
}

TESTS_BETWEEN(set_up, tear_down, test_claims_start_one_after_the_other,
	test_a_refusal_knows_who_has_started)
