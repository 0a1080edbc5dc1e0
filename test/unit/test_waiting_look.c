/* SPDX-License-Identifier: Apache-2.0 */
/* test: how many pods wait, as replicas that do not lead find out. */
#include "base/clock.h"
#include "test/unit/core_fixture.h"
#include "test/unit/ledger_fixture.h"
#include "test/unit/test.h"
#include "webhook/cluster/ledger/waiting_look.h"

#define LIST                                                                                       \
	"/api/v1/pods?labelSelector=poolgate.io%2Finjected%3Dtrue&fieldSelector=spec.nodeName%3D"  \
	"%2Cstatus.phase%3DPending*"
#define OURS "{\"name\":\"poolgate.io/capacity\"}"
#define POD(ns, gates)                                                                             \
	"{\"metadata\":{\"name\":\"p\",\"namespace\":\"" ns                                        \
	"\"},\"spec\":{\"schedulingGates\":[" gates "]}}"

static struct ledger_fixture fix;
static struct waiting_look look;

FIXTURE(set_up)
{
	ledger_fixture_init(&fix);
	ledger_fixture_begin(&fix);
	waiting_look_init(&look);
	look.kube = fix.r.kube;
	return 0;
}

FIXTURE(tear_down)
{
	waiting_look_release(&look);
	ledger_fixture_release(&fix);
	return 0;
}

static void answer(const char *items)
{
	struct buf b;

	buf_init(&b, 1 << 20);
	buf_fmt(&b,
		"{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"7\"},\"items\":[%s]}",
		items);
	api_expect(fix.api, "GET", LIST, 200, b.data);
	buf_release(&b);
}

/* Who has no gate, or another's, too, waits for somebody else. */
TEST(who_waits_for_us)
{
	struct waiters_count n;

	answer(POD("a", OURS) "," POD("b", OURS) "," POD("a", "{\"name\":\"x/y\"}," OURS) "," POD(
		"a", "{\"name\":\"x/y\"}") "," POD("a", "") "," POD("a", OURS));
	assert_true(waiting_look_count(&look, SLICE("a"), &n));
	assert_true(n.all == 3 && n.here == 2 && !n.more);
	/* the same answer for everybody, for a while */
	assert_true(waiting_look_count(&look, SLICE("c"), &n));
	assert_true(n.all == 3 && n.here == 0 && !n.more);
	look.due_ms = clock_ms();
	answer("");
	assert_true(waiting_look_count(&look, SLICE("a"), &n));
	assert_true(n.all == 0 && n.here == 0);
	assert_int_equal(api_left(fix.api), 0);
}

TEST(who_are_many)
{
	struct waiters_count n;
	struct buf b;

	buf_init(&b, 1 << 20);
	for (int i = 0; i < WAITING_LOOK_MAX + 2; i++)
		buf_fmt(&b, "%s%s", i ? "," : "", i % 2 ? POD("a", OURS) : POD("b", OURS));
	answer(b.data);
	buf_release(&b);
	assert_true(waiting_look_count(&look, SLICE("a"), &n));
	assert_true(n.all == WAITING_LOOK_MAX && n.here == WAITING_LOOK_MAX / 2 && n.more);
}

/* Nobody is asked again at once. */
TEST(nobody_knows)
{
	struct waiters_count n;

	api_expect(fix.api, "GET", LIST, 403,
		"{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"message\":\"no\",\"code\":403}");
	assert_false(waiting_look_count(&look, SLICE("a"), &n));
	assert_false(waiting_look_count(&look, SLICE("a"), &n));
	assert_int_equal(api_left(fix.api), 0);
}

TESTS_BETWEEN(set_up, tear_down, who_waits_for_us, who_are_many, nobody_knows)
