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

static struct leader_duty duty;
static void *running;

/* What the store holds now, and a keeper that has not begun. */
static void begin(void)
{
	ledger_fixture_begin(&fix);
	source = (struct policy_source){NULL, of};
	cfg = (struct policy_keeper_config){.kube = fix.r.kube,
		.servers = fix.r.servers,
		.accounts = ledger_kube_accounts(fix.r.ledger),
		.log = &fix.r.log};
	accounts_set_policies(cfg.accounts, &source);
	duty = policy_keeper_duty(&cfg);
}

static void keep(void)
{
	assert_int_equal(duty.start(duty.ctx, &running, &fix.e), 0);
}

FIXTURE(set_up)
{
	ledger_fixture_init(&fix);
	moved = false;
	return 0;
}

FIXTURE(tear_down)
{
	duty.stop(running);
	ledger_fixture_release(&fix);
	return 0;
}

TEST(test_what_stands_is_what_it_says)
{
	kube_store_server(fix.store, "a", 2, 16000, OF_GONE);
	kube_store_policy(fix.store, "open", "{}");
	kube_store_policy(fix.store, "other", "{'allow':{'gpus':9}}");
	kube_store_policy(fix.store, "small", "{'allow':{'gpus':3}}");
	kube_store_policy_status(fix.store, "small", "{'account':'1 1 n old 1 5','waiting':5}");
	begin();
	/* of a term before this one */
	accounts_noted_all(cfg.accounts);
	keep();
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
}

/* ---- what is in flight ---- */

/* What the account of a policy says now. */
static void says(const char *policy, const char *text)
{
	char *now = kube_store_policy_says(fix.store, policy, "account");

	assert_string_equal(now, text);
	free(now);
}

static void set_account(const char *policy, const char *text)
{
	char status[400];

	(void)snprintf(status, sizeof(status), "{'account':'%s'}", text);
	kube_store_policy_status(fix.store, policy, status);
}

static int64_t began_ms;

/* Until so many seconds after the keeper has begun. */
static void second(int64_t s)
{
	while (api_now_ms() < began_ms + s * 1000)
		api_nap((int)(began_ms + s * 1000 - api_now_ms()));
}

/* Three policies, and a keeper that looks at them every twelve seconds, since their list takes
 * four.
 */
static void keep_slowly(void)
{
	kube_store_server(fix.store, "a", 2, 16000, "");
	kube_store_policy(fix.store, "away", "{'allow':{'gpus':9}}");
	kube_store_policy(fix.store, "other", "{'allow':{'gpus':9}}");
	kube_store_policy(fix.store, "small", "{'allow':{'gpus':9}}");
	kube_store_fault(fix.store, STORE_SLOW, "GET", POLICIES_PATH, 4000, -1);
	begin();
}

#define NAMED_1_7 " f u1 lab 7 1 5"
#define NAMED_1_8 " f u1 lab 8 1 6"
#define NAMED_2_7 " f u2 lab 7 1 4"
#define NAMED_3_9 " f u3 lab 9 1 3"
#define GONE_1_7 "1 1 n gone 1 5 f u1 gone 7 1 5"
#define GONE_1_8 "1 1 n gone 1 5 f u1 gone 8 1 5"

/* A name goes when it has been in view for four minutes: that name, of that pod, that take and that
 * policy. One that is out of view meanwhile is remembered for ten minutes, and no longer. */
TEST(test_a_name_goes_after_its_time)
{
	keep_slowly();
	set_account("small", "1 1 n lab 1 5" NAMED_1_7);
	set_account("other", "1 1");
	set_account("away", GONE_1_8);
	began_ms = api_now_ms();
	keep();
	second(10);
	set_account("away", GONE_1_7);
	second(40);
	set_account("away", "1 1");
	second(100);
	says("small", "1 1 n lab 1 5" NAMED_1_7);
	set_account("small", "1 1 n lab 3 15" NAMED_1_7 NAMED_1_8 NAMED_2_7);
	set_account("other", GONE_1_7);
	second(235);
	says("small", "1 1 n lab 3 15" NAMED_1_7 NAMED_1_8 NAMED_2_7);
	second(280);
	says("small", "1 1 n lab 2 10" NAMED_2_7 NAMED_1_8);
	set_account("away", GONE_1_7);
	second(335);
	says("small", "1 1 n lab 2 10" NAMED_2_7 NAMED_1_8);
	says("other", GONE_1_7);
	says("away", "1 1");
	second(380);
	says("small", "1 1 n lab 0 0");
	says("other", "1 1");
	/* while this is in view others are forgotten */
	set_account("small", "1 1 n lab 1 3" NAMED_3_9);
	second(615);
	says("small", "1 1 n lab 1 3" NAMED_3_9);
	second(650);
	says("small", "1 1 n lab 0 0");
	set_account("away", GONE_1_8);
	second(680);
	says("away", GONE_1_8);
}

/* ---- what cannot be kept ---- */

static size_t lines_of(int fd, const char *what)
{
	char text[8192] = "";
	size_t n = 0;

	assert_true(pread(fd, text, sizeof(text) - 1, 0) >= 0);
	for (const char *at = text; (at = strstr(at, what)); at++)
		n++;
	return n;
}

/* It is said each time, and is in nobody else's way; that somebody else was first is not worth a
 * word. */
TEST(test_what_cannot_be_kept_is_told)
{
	FILE *to = tmpfile();
	struct log log;

	assert_non_null(to);
	log = (struct log){.fd = fileno(to), .level = LOG_LEVEL_WARN};
	kube_store_server(fix.store, "a", 2, 16000, "");
	kube_store_policy(fix.store, "other", "{'allow':{'gpus':9}}");
	kube_store_policy(fix.store, "small", "{'allow':{'gpus':9}}");
	kube_store_fault(fix.store, STORE_FORBID, "PATCH", POLICIES_PATH "/other/status", 0, -1);
	kube_store_fault(fix.store, STORE_CONFLICT, "PATCH", POLICIES_PATH "/small/status", 0, 1);
	begin();
	cfg.log = &log;
	keep();
	becomes("small", "1 1");
	assert_true(api_wait(fix.api, "PATCH", POLICIES_PATH "/other/status*", 3));
	api_nap(1000);
	assert_true(lines_of(log.fd, "the account of a GPUPolicy could not be kept") >= 3);
	assert_true(lines_of(log.fd, "other") >= 3);
	assert_int_equal(lines_of(log.fd, "small"), 0);
	says("other", "");
	kube_store_heal(fix.store);
	becomes("other", "1 1");
	duty.stop(running);
	cfg.log = &fix.r.log;
	keep();
	(void)fclose(to);
}

TESTS_BETWEEN(set_up, tear_down, test_what_stands_is_what_it_says, test_a_name_goes_after_its_time,
	test_what_cannot_be_kept_is_told)
