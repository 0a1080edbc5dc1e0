/* SPDX-License-Identifier: Apache-2.0 */
/* test: claims of a server whose gate knows pods by their addresses say these. */
#include "test/unit/claims_api.h"
#include "test/unit/test.h"

#define GATED(mode)                                                                                \
	"{'address':'10.0.0.1:9446','gpus':[{'model':'V100','memory':'16G','count':2}],'gate':{"   \
	"'profile':'p','url':'https://a','tokenSecret':'t'" mode "}}"
#define BY_ADDRESS GATED(",'mode':'address'")
#define CLAIM_AT(uid, name, state, ips)                                                            \
	CLAIM_WITH(uid, name, state, "aa", "'a'", "'podIPs':[" ips "],", HOLDS("gpu-0", "1"))

/* A status that says more than the phase. */
#define AT(ips) "Running\",\"podIPs\":[" ips "],\"x\":\""
#define ONE AT("{\"ip\":\"10.1.2.3\"}")
#define TWO AT("{\"ip\":\"10.1.2.4\"},{\"ip\":\"fd00::4\"}")

static void with(const char *spec, const char *status)
{
	pool_api_put(api->pool, "a", OURS, spec, status);
	claims_api_run(api);
}

static bool has(const char *text)
{
	return status_has(api, "a", text, SOON);
}

static bool has_not(const char *text)
{
	return status_has_not(api, "a", text, SOON);
}

TEST(the_address_that_it_has)
{
	with(BY_ADDRESS, STATUS(CLAIM("u1", "w", "pending")));
	pod_put(api, "w", "u1", NULL);
	assert_true(has("'bound'"));
	assert_true(status_has_not(api, "a", "'podIPs'", 0));
	pod_phase(api, "u1", ONE);
	assert_true(has("'podIPs':['10.1.2.3']"));
	/* its sandbox is made anew */
	pod_phase(api, "u1", TWO);
	assert_true(has("'podIPs':['10.1.2.4','fd00::4']"));
	pod_phase(api, "u1", "Running");
	assert_true(has_not("'podIPs'"));
}

/* As in the commit that binds it. */
TEST(with_what_else_is_written)
{
	with(BY_ADDRESS, STATUS(CLAIM("u1", "w", "pending")));
	pod_put(api, "w", "u1", NULL);
	assert_true(has("'bound'"));
	pod_put(api, "x", "u2", NULL);
	pod_phase(api, "u2", ONE);
	status_put(api, "a", STATUS(CLAIM("u1", "w", "bound") "," CLAIM("u2", "x", "pending")));
	assert_true(has("'state':'bound','plan':'0000000000000000','since':'2026-11-21T09:30:00Z',"
			"'take':'00000000000000aa','servers':['a'],'podIPs':['10.1.2.3']"));
	assert_true(status_keeps(api, "a", "'podIPs'", 300));
}

/* Such a server's claims cost no write for it, and say nothing of before. */
TEST(not_where_tokens_count)
{
	unsigned puts;

	with(GATED(""),
		STATUS(CLAIM_AT("u1", "w", "bound", "'10.1.2.3'") "," CLAIM("u2", "x", "bound")));
	pod_put(api, "w", "u1", NULL);
	pod_put(api, "x", "u2", NULL);
	assert_true(has_not("'podIPs'"));
	puts = api->pool->puts;
	pod_phase(api, "u1", ONE);
	pod_phase(api, "u2", TWO);
	assert_true(status_keeps(api, "a", "'u2'", 1500));
	assert_int_equal(api->pool->puts, puts);
}

/* Its pod may still run there. */
TEST(who_lingers_keeps_it)
{
	api->cfg.grace_ms = 60000;
	pod_put(api, "w", "u1", NULL);
	pod_place(api, "u1");
	pod_phase(api, "u1", ONE);
	with(BY_ADDRESS, STATUS(CLAIM_AT("u1", "w", "bound", "'10.1.2.3'")));
	assert_true(status_keeps(api, "a", "'podIPs':['10.1.2.3']", 300));
	pod_gone(api, "u1");
	assert_true(has("'lingers'"));
	assert_true(status_keeps(api, "a", "'podIPs':['10.1.2.3']", 300));
}

/* The watch does not show it, and the API server says that it is there. */
TEST(what_another_leader_has_said)
{
	pod_put(api, "w", "u1", NULL);
	pod_strip(api, "u1");
	with(BY_ADDRESS, STATUS(CLAIM_AT("u1", "w", "bound", "'10.1.2.3'")));
	assert_true(status_keeps(api, "a", "'podIPs':['10.1.2.3']", 3 * ASK_MS));
}

TESTS_BETWEEN(claims_api_begin, claims_api_end, the_address_that_it_has, with_what_else_is_written,
	not_where_tokens_count, who_lingers_keeps_it, what_another_leader_has_said)
