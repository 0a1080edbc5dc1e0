/* SPDX-License-Identifier: Apache-2.0 */
/* test: the leader's duty that keeps the accounts of policies: what has ended goes, what holds
 * something is there, other policies' namespaces are not. */
#include "base/clock.h"
#include "test/unit/ledger_fixture.h"
#include "test/unit/test.h"
#include "webhook/cluster/reconcile/policy_keeper.h"

static struct ledger_fixture fix;
static struct policy_keeper_config cfg;
static struct policy_source source;
static const struct policy small = {.name = "small"}, other = {.name = "other"};
static bool moved; /* "lab" picks the other one */

/* Of "gone" and "old" nobody knows. */
static int of(void *ctx, struct slice namespace, struct arena *a, const struct policy **ret,
	struct err *err)
{
	(void)ctx, (void)a;
	if (slice_is(namespace, "gone") || slice_is(namespace, "old"))
		return err_set(err, ERR_TIMEOUT, "nobody knows");
	*ret = slice_is(namespace, "lab") ? moved ? &other : &small : NULL;
	return 0;
}

#define OF_GONE                                                                                    \
	"{'uid':'u9','namespace':'gone','name':'p','state':'bound','plan':'0000000000000005',"     \
	"'since':'2026-01-01T00:00:00Z','take':'00000000000000aa','servers':['a'],"                \
	"'gpus':[{'id':'gpu-1','bytes':5}]}"

static void comes_to_say(const char *policy, const char *member, const char *text)
{
	char *now = NULL;

	for (int i = 0; i < 1500; i++, api_nap(10)) {
		free(now);
		now = kube_store_policy_says(fix.store, policy, member);
		if (strcmp(now, text) == 0)
			break;
	}
	assert_string_equal(now, text);
	free(now);
}

static void becomes(const char *policy, const char *account)
{
	comes_to_say(policy, "account", account);
}

static void waiting_becomes(const char *n)
{
	comes_to_say("small", "waiting", n);
}

TEST(test_what_stands_is_what_it_says)
{
	struct leader_duty duty;
	void *running;

	ledger_fixture_init(&fix);
	kube_store_server(fix.store, "a", 2, 16000, OF_GONE);
	kube_store_policy(fix.store, "open", "{}");
	kube_store_policy(fix.store, "other", "{'allow':{'gpus':9}}");
	kube_store_policy(fix.store, "small", "{'allow':{'gpus':3}}");
	kube_store_policy_status(fix.store, "small", "{'account':'1 1 n old 1 5','waiting':5}");
	ledger_fixture_begin(&fix);
	source = (struct policy_source){NULL, of};
	cfg = (struct policy_keeper_config){.kube = fix.r.kube,
		.servers = fix.r.servers,
		.accounts = ledger_kube_accounts(fix.r.ledger),
		.log = &fix.r.log};
	accounts_set_policies(cfg.accounts, &source);
	duty = policy_keeper_duty(&cfg);
	/* of a term before this one */
	accounts_noted_all(cfg.accounts);
	assert_int_equal(duty.start(duty.ctx, &running, &fix.e), 0);
	ledger_must_take(&fix, "u1", "app c 2 50%");
	becomes("small", "1 1 n lab 2 16000000000");
	/* which nobody has counted yet */
	waiting_becomes("5");
	accounts_note_waiting(cfg.accounts, "small");
	accounts_noted_all(cfg.accounts);
	waiting_becomes("1");
	becomes("other", "1 1");
	becomes("open", "");
	assert_int_equal(fix.e.code, 0);
	moved = true;
	becomes("small", "1 1");
	becomes("other", "1 1 n lab 2 16000000000");
	kube_store_server(fix.store, "a", 2, 16000, "");
	becomes("other", "1 1 n lab 0 0");
	duty.stop(running);
	ledger_fixture_release(&fix);
}

TESTS(test_what_stands_is_what_it_says)
