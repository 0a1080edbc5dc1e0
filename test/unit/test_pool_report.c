/* SPDX-License-Identifier: Apache-2.0 */
/* test: the pool as JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/unit/pool_fixture.h"
#include "webhook/edge/ledger_memory.h"
#include "webhook/edge/pool_report.h"

static struct claim_part parts[] = {{"a", "gpu-0", 4000 * MB}, {"b", "gpu-0", 1}};
static const struct claim claims[] = {
	{.key = "u1",
		.namespace = "lab",
		.name = "web\"\n-0",
		.state = CLAIM_PENDING,
		.since_ms = 1717754400123,
		.parts = parts,
		.n_parts = 2},
	{.key = "lab/x", .namespace = "lab", .name = "x", .state = CLAIM_ADOPTED, .parts = parts},
};

static const char want[] =
	"{\"servers\":["
	"{\"name\":\"a\",\"address\":\"a:56001\",\"labels\":{\"zone\":\"lab\"},\"drain\":false,"
	"\"claims\":1,\"gpus\":["
	"{\"id\":\"gpu-0\",\"model\":\"Tesla "
	"T4\",\"bytes\":8000000000,\"freeBytes\":4000000000,\"claimedBytes\":4000000000,"
	"\"pendingBytes\":4000000000,\"fit\":true,\"fresh\":true,\"missing\":false,\"why\":\"\"},"
	"{\"id\":\"gpu-1\",\"model\":\"k80\",\"bytes\":1000000,\"freeBytes\":0,\"claimedBytes\":"
	"2000000,\"pendingBytes\":0,\"fit\":true,\"fresh\":true,\"missing\":false,\"why\":\"\"},"
	"{\"id\":\"gpu-2\",\"model\":\"k80\",\"bytes\":1000000,\"freeBytes\":1000000,"
	"\"claimedBytes\":0,\"pendingBytes\":0,\"fit\":false,\"fresh\":true,\"missing\":false,"
	"\"why\":\"ECC errors\"},"
	"{\"id\":\"gpu-3\",\"model\":\"k80\",\"bytes\":1000000,\"freeBytes\":0,\"claimedBytes\":0,"
	"\"pendingBytes\":0,\"fit\":true,\"fresh\":true,\"missing\":true,\"why\":\"\"}]},"
	"{\"name\":\"b\",\"address\":\"b:56001\",\"labels\":{},\"drain\":true,\"claims\":0,"
	"\"gpus\":["
	"{\"id\":\"gpu-0\",\"model\":\"k80\",\"bytes\":5000000,\"freeBytes\":5000000,"
	"\"claimedBytes\":0,\"pendingBytes\":0,\"fit\":true,\"fresh\":false,\"missing\":false,"
	"\"why\":\"no report\"}]}],"
	"\"claims\":["
	"{\"namespace\":\"lab\",\"name\":\"web\\\"\\n-0\",\"uid\":\"u1\",\"state\":\"pending\","
	"\"since\":\"2024-06-07T10:00:00Z\",\"parts\":["
	"{\"server\":\"a\",\"gpu\":\"gpu-0\",\"bytes\":4000000000},{\"server\":\"b\",\"gpu\":\"gpu-"
	"0\",\"bytes\":1}]},"
	"{\"namespace\":\"lab\",\"name\":\"x\",\"uid\":\"lab/"
	"x\",\"state\":\"adopted\",\"since\":\"1970-01-01T00:00:00Z\",\"parts\":[]}],"
	"\"summary\":{\"gpus\":5,\"fit\":2,\"freeBytes\":4000000000,\"claims\":2}}\n";

static void view_init(struct pool_view *v, struct pool *p)
{
	pool_init(
		p, "a zone=lab claims=1 Tesla_T4:8000/4000p k80:1/2 k80:1u k80:1m; b drain k80:5s");
	*v = (struct pool_view){
		.inventory = p->inv, .usage = p->use, .claims = claims, .n_claims = 2};
}

static void test_write(void **state)
{
	struct pool_view v;
	struct pool p;
	struct buf out;
	struct err e = {0};

	(void)state;
	view_init(&v, &p);
	buf_init(&out, 1u << 16);
	assert_int_equal(pool_report_write(&v, &out, &e), 0);
	assert_string_equal(out.data, want);
	buf_release(&out);
	pool_release(&p);
}

static void test_too_big(void **state)
{
	struct pool_view v;
	struct pool p;

	(void)state;
	view_init(&v, &p);
	for (size_t max = 0; max < sizeof(want) - 1; max += 97) {
		struct buf out;
		struct err e = {0};

		buf_init(&out, max);
		assert_int_equal(pool_report_write(&v, &out, &e), ERR_TOOBIG);
		buf_release(&out);
	}
	pool_release(&p);
}

static void test_ledger(void **state)
{
	struct ledger *l = ledger_memory_new(0);
	struct buf out;
	struct err e = {0};

	(void)state;
	buf_init(&out, 4096);
	assert_int_equal(pool_report(l, &out, &e), 0);
	assert_string_equal(out.data, "{\"servers\":[],\"claims\":[],\"summary\":{\"gpus\":0,"
				      "\"fit\":0,\"freeBytes\":0,\"claims\":0}}\n");
	buf_release(&out);
	ledger_memory_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_write),
		cmocka_unit_test(test_too_big),
		cmocka_unit_test(test_ledger),
	};

	return cmocka_run_group_tests_name("pool_report", tests, NULL, NULL) != 0;
}
