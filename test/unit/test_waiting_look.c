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

/* A pod of that minute; more: behind its metadata. */
#define PLAN                                                                                       \
	"{\\\"v\\\":1,\\\"profile\\\":\\\"p\\\",\\\"hash\\\":\\\"0123456789abcdef\\\","            \
	"\\\"mode\\\":\\\"full\\\",\\\"waits\\\":true,\\\"containers\\\":[{\\\"name\\\":"          \
	"\\\"a\\\",\\\"kind\\\":\\\"app\\\",\\\"amount\\\":2,\\\"percent\\\":50,\\\"units\\\":"    \
	"100,\\\"command\\\":\\\"wrapped\\\",\\\"argv\\\":7}]}"
#define AT(minute, name, annotations, more)                                                        \
	"{\"metadata\":{\"name\":\"" name                                                          \
	"\",\"namespace\":\"n\",\"uid\":\"u\",\"creationTimestamp\":\"2026-01-01T00:" minute       \
	":00Z\",\"annotations\":{" annotations "}},\"spec\":{\"schedulingGates\":[" OURS "]}" more \
	"}"
#define SAID(status, message)                                                                      \
	",\"status\":{\"conditions\":[{\"type\":\"poolgate.io/Admitted\",\"status\":\"" status     \
	"\",\"message\":\"" message "\"}]}"

static char *tell(void)
{
	struct arena a;
	struct slice s;
	char *text;

	arena_init(&a, 1 << 20);
	s = waiting_look_tell(&look, &a);
	assert_non_null(s.at);
	text = strndup(s.at, s.len);
	arena_release(&a);
	return text;
}

#define expect_told(want)                                                                          \
	do {                                                                                       \
		char *told = tell();                                                               \
		assert_string_equal(told, want);                                                   \
		free(told);                                                                        \
	} while (0)

/* A replica that does not lead tells of them by age, as they say it themselves. */
TEST(who_they_are)
{
	answer(AT("09", "young", "\"poolgate.io/plan\":\"" PLAN "\",\"poolgate.io/gang\":\"g\"",
		SAID("False", "no room \\u202e")) "," AT("05", "old", "", "") "," AT("01",
		"has its turn", "", SAID("True", "it starts")));
	expect_told(
		"{\"ordered\":false,\"pods\":["
		"{\"namespace\":\"n\",\"name\":\"old\",\"gang\":\"\",\"asks\":\"\",\"since\":"
		"\"2026-01-01T00:05:00Z\",\"place\":0,\"why\":\"\"},"
		"{\"namespace\":\"n\",\"name\":\"young\",\"gang\":\"g\",\"asks\":\"2 GPUs with 50 "
		"% each\",\"since\":\"2026-01-01T00:09:00Z\",\"place\":0,\"why\":\"no room "
		"\xe2\x80\xae\"}],\"total\":2,\"more\":false}");
	/* nobody is asked again for a while */
	free(tell());
	assert_int_equal(api_left(fix.api), 0);
}

/* The first hundred of so many. */
TEST(who_are_many_are_told_in_part)
{
	struct buf b;
	char *told;
	size_t n = 0;

	buf_init(&b, 1 << 20);
	for (int i = 0; i < WAITING_LOOK_MAX + 2; i++)
		buf_fmt(&b, "%s%s", i ? "," : "", AT("01", "p", "", ""));
	answer(b.data);
	buf_release(&b);
	told = tell();
	for (const char *at = told; (at = strstr(at, "\"place\":")); at++)
		n++;
	assert_int_equal(n, POOL_WAITING_MAX);
	assert_non_null(strstr(told, "],\"total\":256,\"more\":true}"));
	free(told);
}

TEST(nobody_can_tell)
{
	api_expect(fix.api, "GET", LIST, 403,
		"{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"message\":\"no\",\"code\":403}");
	expect_told("null");
}

/* What the leader has said goes before, until it says no more. */
TEST(what_the_leader_says)
{
	struct buf b;

	buf_init(&b, 1 << 10);
	buf_str(&b, "{\"ordered\":true}");
	waiting_look_post(&look, &b);
	expect_told("{\"ordered\":true}");
	/* it stands still */
	look.until_ms = clock_ms();
	answer("");
	expect_told("{\"ordered\":false,\"pods\":[],\"total\":0,\"more\":false}");
	look.until_ms = clock_ms() + 1000000;
	buf_init(&b, 1 << 10);
	waiting_look_post(&look, &b);
	expect_told("{\"ordered\":false,\"pods\":[],\"total\":0,\"more\":false}");
	assert_int_equal(api_left(fix.api), 0);
}

TESTS_BETWEEN(set_up, tear_down, who_waits_for_us, who_are_many, nobody_knows, who_they_are,
	who_are_many_are_told_in_part, nobody_can_tell, what_the_leader_says)
