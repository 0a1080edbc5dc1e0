/* SPDX-License-Identifier: Apache-2.0 */
/* test: whose ResourceQuotas are read, and what it means that they cannot be (rule R12). */
#include "base/clock.h"
#include "test/unit/core_fixture.h"
#include "test/unit/ledger_fixture.h"
#include "test/unit/test.h"
#include "webhook/cluster/ledger/quota_look.h"

#define LIST "/api/v1/namespaces/lab/resourcequotas*"
#define QUOTAS                                                                                     \
	"{\"kind\":\"ResourceQuotaList\",\"metadata\":{\"resourceVersion\":\"7\"},\"items\":["     \
	"{\"metadata\":{\"name\":\"wide\"},\"status\":{\"hard\":{\"pods\":\"9\"}}},"               \
	"{\"metadata\":{\"name\":\"none\"},\"status\":{\"hard\":{\"pods\":\"0\"}}}]}"
#define POD "{\"spec\":{\"containers\":[{\"name\":\"a\"}]}}"

static struct ledger_fixture fix;
static struct quota_look look;

FIXTURE(set_up)
{
	ledger_fixture_init(&fix);
	kube_store_server(fix.store, "a", 1, 16000, "");
	return 0;
}

FIXTURE(tear_down)
{
	ledger_fixture_release(&fix);
	return 0;
}

/* A claim of that namespace has ended whose pod never came. */
static void begin(const char *namespace)
{
	char status[300];

	(void)snprintf(status, sizeof(status),
		"{'version':1,'gpus':[],'claims':[],'phantoms':[{'namespace':'%s','since':"
		"'2026-11-21T09:30:00Z'}]}",
		namespace);
	kube_store_put(fix.store, "a", NULL, status, NULL);
	ledger_fixture_begin(&fix);
	look = (struct quota_look){.kube = fix.r.kube, .servers = fix.r.servers, .log = &fix.r.log};
}

static int check(int ms)
{
	struct json pod = {0};
	char *copy;
	int rc;

	err_clear(&fix.e);
	assert_int_equal(json_read_copy(&pod, POD, strlen(POD), 1000, &copy, NULL), 0);
	rc = quota_look_check(&look, SLICE("lab"), &pod, json_root(&pod), clock_ms() + ms, &fix.e);
	json_release(&pod);
	free(copy);
	return rc;
}

TEST(test_a_namespace_whose_pods_never_came)
{
	begin("lab");
	api_expect(fix.api, "GET", LIST, 200, QUOTAS);
	assert_int_equal(check(5000), ERR_REFUSED);
	assert_string_equal(fix.e.reason, "QuotaExceeded");
	assert_string_equal(fix.e.msg,
		"exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0");
	assert_int_equal(api_left(fix.api), 0);
}

TEST(test_others_are_not_asked_for)
{
	begin("elsewhere");
	api_expect(fix.api, "GET", LIST, 200, QUOTAS);
	assert_int_equal(check(5000), 0);
	assert_int_equal(api_left(fix.api), 1);
}

/* No right, no answer, no time: as if there were none. */
TEST(test_what_cannot_be_read_refuses_nobody)
{
	begin("lab");
	api_expect(fix.api, "GET", LIST, 500, "no");
	assert_int_equal(check(5000), 0);
	api_expect(fix.api, "GET", LIST, 200, "{\"kind\":\"Status\"}");
	assert_int_equal(check(5000), 0);
	assert_int_equal(check(0), 0);
	api_expect(fix.api, "GET", LIST, 403,
		"{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"message\":\"no\",\"code\":403}");
	assert_int_equal(check(5000), 0);
	assert_int_equal(api_left(fix.api), 0);
	/* not asked again for a minute */
	api_expect(fix.api, "GET", LIST, 200, QUOTAS);
	assert_int_equal(check(5000), 0);
	assert_int_equal(api_left(fix.api), 1);
	atomic_fetch_sub(&look.forbidden_ms, QUOTA_LOOK_AGAIN_MS);
	assert_int_equal(check(5000), ERR_REFUSED);
}

TESTS_BETWEEN(set_up, tear_down, test_a_namespace_whose_pods_never_came,
	test_others_are_not_asked_for, test_what_cannot_be_read_refuses_nobody)
