/* SPDX-License-Identifier: Apache-2.0 */
/* test: the account of a policy's caps in a cluster (law P6): raised before a claim is written,
 * counted anew before anybody is refused, whatever becomes of the writes. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "test/unit/ledger_fixture.h"
#include "test/unit/test.h"

#define SMALL "/apis/poolgate.io/v1alpha1/gpupolicies/small"
#define THREADS 16
/* One GPU of the namespace lab. */
#define ASK(pod, n, b)                                                                             \
	(struct account_ask)                                                                       \
	{                                                                                          \
		.uid = (pod), .namespace = "lab", .take = (n), .wants = { 1, (b) }                 \
	}

static struct ledger_fixture fix;
static struct policy small = {
	.name = "small", .gpus = 3, .bytes = UINT64_MAX, .waiting = UINT32_MAX};

static int of(void *ctx, struct slice namespace, struct arena *a, const struct policy **ret,
	struct err *err)
{
	(void)ctx, (void)a, (void)err;
	*ret = slice_is(namespace, "lab") || slice_is(namespace, "ward") ? &small : NULL;
	return 0;
}

static const struct policy_source source = {NULL, of};
static struct accounts *x; /* the replica's */

FIXTURE(set_up)
{
	ledger_fixture_init(&fix);
	kube_store_server(fix.store, "a", 8, 16000, "");
	kube_store_policy(fix.store, "small", "{'allow':{'gpus':3}}");
	ledger_fixture_begin(&fix);
	x = ledger_kube_accounts(fix.r.ledger);
	accounts_set_policies(x, &source);
	return 0;
}

FIXTURE(tear_down)
{
	ledger_fixture_release(&fix);
	return 0;
}

static int take_by(struct replica *r, const char *namespace, const char *uid, const char *demand,
	struct claim_answer *ret, struct err *err)
{
	struct demand d;
	struct arena a;
	struct claim_ask ask = {.uid = slice_of(uid),
		.namespace = slice_of(namespace),
		.name = slice_of(uid),
		.demand = &d,
		.policy = &small,
		.deadline_ms = api_now_ms() + 8000};
	int rc;

	arena_init(&a, 1u << 20);
	demand_init(&d, &a, demand, NULL, NULL, false);
	err_clear(err);
	rc = r->ledger->ops->take(r->ledger, &ask, &a, ret, err);
	arena_release(&a);
	return rc;
}

static int take(const char *namespace, const char *uid, const char *demand)
{
	return take_by(&fix.r, namespace, uid, demand, &fix.answer, &fix.e);
}

static void must_take(const char *namespace, const char *uid, const char *demand)
{
	if (take(namespace, uid, demand) != 0)
		fail_msg("%s: %s", fix.e.reason, fix.e.msg);
}

static void must_refuse(const char *namespace, const char *uid, const char *demand)
{
	ASSERT_REFUSED(&fix, take(namespace, uid, demand), "PolicyFull");
}

static void says(const char *member, const char *value)
{
	char *now = kube_store_policy_says(fix.store, "small", member);

	assert_string_equal(now, value);
	free(now);
}

TEST(test_over_all_namespaces)
{
	must_take("lab", "u1", "app c 2 50%");
	says("gpus", "2");
	says("bytes", "16000000000");
	must_refuse("ward", "u2", "app c 2 50%");
	assert_non_null(strstr(fix.e.msg, "of which they hold 2 (lab 2), and the pod takes 2"));
	must_take("ward", "u3", "app c 1 50%");
	must_refuse("lab", "u4", "app c 1 50%");
	assert_int_equal(kube_store_claims(fix.store, NULL, NULL), 2);
	/* who holds his claim is answered from it */
	must_take("lab", "u1", "app c 2 50%");
	/* nobody is in flight, once something is written again */
	says("account", "1 1 n lab 2 16000000000 n ward 1 8000000000");
}

TEST(test_what_has_ended_is_counted_out)
{
	must_take("lab", "u1", "app c 3 50%");
	must_refuse("lab", "u2", "app c 1 50%");
	kube_store_server(fix.store, "a", 8, 16000, "");
	must_take("lab", "u2", "app c 1 50%");
	says("gpus", "1");
}

TEST(test_what_stood_before_the_cap_counts)
{
	small.gpus = UINT32_MAX;
	must_take("lab", "u0", "app c 2 50%");
	small.gpus = 3;
	must_refuse("lab", "u1", "app c 2 50%");
	must_take("lab", "u2", "app c 1 50%");
	/* the object's cap counts, not that of the replica's picture */
	kube_store_policy(fix.store, "small", "{'allow':{'gpus':4}}");
	must_refuse("lab", "u3", "app c 2 50%");
	must_take("lab", "u4", "app c 1 50%");
	/* and under another spec all is counted anew */
	kube_store_policy(fix.store, "small", "{'allow':{}}");
	must_take("lab", "u5", "app c 1 50%");
	kube_store_policy(fix.store, "small", "{'allow':{'gpus':5}}");
	must_refuse("ward", "u6", "app c 1 50%");
}

TEST(test_whoever_held_before_the_cap_counts)
{
	small.gpus = UINT32_MAX;
	must_take("ward", "u0", "app c 2 50%");
	must_take("none", "u1", "app c 2 50%");
	small.gpus = 3;
	must_refuse("lab", "u2", "app c 2 50%");
	must_take("lab", "u3", "app c 1 50%");
	says("gpus", "3");
}

TEST(test_lost_answers)
{
	kube_store_fault(fix.store, STORE_CUT_AFTER, "PATCH", SMALL "/status", 0, 1);
	must_take("lab", "u1", "app c 1 50%");
	kube_store_fault(fix.store, STORE_CUT_BEFORE, "PATCH", SMALL "/status", 0, 1);
	must_take("lab", "u2", "app c 1 50%");
	kube_store_fault(fix.store, STORE_CONFLICT, "PATCH", SMALL "/status", 0, 1);
	must_take("lab", "u3", "app c 1 50%");
	says("gpus", "3");
	must_refuse("lab", "u4", "app c 1 50%");
	assert_int_equal(kube_store_claims(fix.store, NULL, NULL), 3);
}

TEST(test_no_account_no_claim)
{
	kube_store_fault(fix.store, STORE_FORBID, "PATCH", SMALL "/status", 0, -1);
	ASSERT_REFUSED(&fix, take("lab", "u1", "app c 1 50%"), "ApiServerAway");
	assert_int_equal(kube_store_claims(fix.store, NULL, NULL), 0);
	small.name = "other";
	assert_int_equal(take("lab", "u2", "app c 1 50%"), ERR_REFUSED);
	small.name = "small";
	assert_string_equal(fix.e.reason, "NoPolicy");
	kube_store_heal(fix.store);
	/* and nobody asks for it again */
	assert_true(accounts_flush(x, clock_ms() + 5000));
}

TEST(test_taken_back)
{
	must_take("lab", "u1", "app c 3 50%");
	ledger_undo(&fix, fix.answer.ticket);
	assert_true(kube_store_wait_claims(fix.store, NULL, "u1", 0));
	must_take("lab", "u2", "app c 3 50%");
	says("gpus", "3");
	/* what cannot be written is in nobody's way for long */
	kube_store_server(fix.store, "a", 8, 16000, "");
	kube_store_fault(fix.store, STORE_CUT_BEFORE, "PUT", STATUS_OF("a"), 0, -1);
	assert_int_equal(ledger_take(&fix, "none", "app c 1 10%", 300), ERR_REFUSED);
	kube_store_heal(fix.store);
	must_take("ward", "u3", "app c 3 50%");
}

TEST(test_a_broken_account_is_counted_anew)
{
	must_take("lab", "u1", "app c 2 50%");
	kube_store_policy_status(fix.store, "small", "{'account':'what?','gpus':0}");
	must_refuse("lab", "u2", "app c 2 50%");
	says("gpus", "2");
	assert_true(accounts_flush(x, clock_ms() + 5000));
	says("account", "1 1 n lab 2 16000000000");
}

static bool is_over(void *ctx, const char *policy, const struct account_flight *f)
{
	(void)ctx, (void)policy, (void)f;
	return false;
}

static const struct account_care care = {NULL, is_over};

/* What is closed counts no more beside what stands, though no review has written it out yet. */
TEST(test_a_keeper_writes_what_was_closed)
{
	const struct account_ask ask = ASK("u1", 7, 5);
	int64_t end = clock_ms() + 20000;

	assert_int_equal(accounts_raise(x, "small", &ask, end, &fix.e), 0);
	accounts_close(x, 7);
	kube_store_server(fix.store, "a", 8, 16000, CLAIM("u1", "u1", "bound", "'a'", "5"));
	assert_int_equal(accounts_repair(x, "small", &care, end, &fix.e), 0);
	says("account", "1 1 n lab 1 5");
}

/* Of a write that was not confirmed it is known when its server has another version. */
TEST(test_what_may_land_yet_keeps_its_name)
{
	const struct account_ask ask = ASK("u1", 7, 5);
	uint64_t version = servers_version(fix.r.servers, "a");
	int64_t end = clock_ms() + 20000;

	assert_true(version > 0);
	assert_int_equal(accounts_raise(x, "small", &ask, end, &fix.e), 0);
	accounts_close_after(x, 7, "a", version);
	assert_int_equal(accounts_repair(x, "small", &care, end, &fix.e), 0);
	says("account", "1 1 n lab 1 5 f u1 lab 7 1 5");
	kube_store_server(fix.store, "a", 8, 16000, "");
	assert_int_equal(servers_refresh(fix.r.servers, end, &fix.e), 0);
	assert_true(servers_version(fix.r.servers, "a") > version);
	assert_int_equal(accounts_repair(x, "small", &care, end, &fix.e), 0);
	says("account", "1 1 n lab 0 0");
}

/* A claim was to take the place of half a one, and was begun: what came of it the leader will see,
 * and until then its name stays. */
TEST(test_what_was_begun_in_anothers_place_keeps_its_name)
{
	char *now;

	kube_store_server(fix.store, "a", 8, 16000,
		CLAIM_OF("u1", "u1", "pending", "'a','b'", "8000000000", "aa"));
	assert_int_equal(servers_refresh(fix.r.servers, clock_ms() + 5000, &fix.e), 0);
	kube_store_fault(fix.store, STORE_SLOW, "PUT", STATUS_OF("a"), 1, 1);
	kube_store_fault(fix.store, STORE_FORBID, "PUT", STATUS_OF("a"), 0, -1);
	assert_int_equal(take("lab", "u1", "app c 1 50%"), ERR_REFUSED);
	/* the half one has gone, and nothing came in its place */
	assert_int_equal(kube_store_claims(fix.store, NULL, "u1"), 0);
	kube_store_heal(fix.store);
	must_take("lab", "u2", "app c 1 50%");
	assert_true(accounts_flush(x, clock_ms() + 5000));
	assert_int_equal(accounts_repair(x, "small", &care, clock_ms() + 5000, &fix.e), 0);
	now = kube_store_policy_says(fix.store, "small", "account");
	assert_non_null(strstr(now, "1 1 n lab 2 16000000000 f u1 lab "));
	assert_null(strstr(now, "f u2"));
	free(now);
}

/* What is closed waits then; nobody asks for it without end. */
TEST(test_a_policy_that_turned_wrong)
{
	size_t asked;

	must_take("lab", "u1", "app c 1 50%");
	kube_store_policy(fix.store, "small", "{'allow':7}");
	for (int i = 0; i < 3 && !accounts_flush(x, clock_ms() + 5000); i++)
		;
	asked = api_seen_of(fix.api, "*", SMALL "*");
	assert_true(accounts_flush(x, clock_ms() + 5000));
	assert_int_equal(api_seen_of(fix.api, "*", SMALL "*"), asked);
	/* until it is right again */
	kube_store_policy(fix.store, "small", "{'allow':{'gpus':3}}");
	must_take("lab", "u2", "app c 1 50%");
	assert_true(accounts_flush(x, clock_ms() + 5000));
	says("account", "1 3 n lab 2 16000000000");
}

/* The object has no cap any more, which a replica's picture does not show yet: nobody waits,
 * nothing is written, and what was closed is forgotten. */
TEST(test_a_policy_without_caps_by_now)
{
	kube_store_policy(fix.store, "small", "{}");
	for (int i = 0; i < 4; i++) {
		char uid[] = {'u', (char)('0' + i), 0};

		must_take("lab", uid, "app c 2 50%");
		assert_true(accounts_flush(x, clock_ms() + 5000));
	}
	assert_int_equal(api_seen_of(fix.api, "PATCH", SMALL "*"), 0);
	says("account", "");
}

TEST(test_who_waits_is_bounded_by_the_last_count)
{
	int64_t end = clock_ms() + 20000;

	kube_store_policy(fix.store, "small", "{'allow':{'waiting':3}}");
	kube_store_policy_status(fix.store, "small", "{'waiting':1}");
	for (int i = 0; i < 5; i++)
		assert_int_equal(accounts_may_wait(x, &small, true, end, &fix.e), 0);
	assert_int_equal(accounts_may_wait(x, &small, false, end, &fix.e), 0);
	assert_int_equal(accounts_may_wait(x, &small, false, end, &fix.e), 0);
	assert_int_equal(accounts_may_wait(x, &small, false, end, &fix.e), ERR_REFUSED);
	assert_string_equal(fix.e.reason, "PolicyFull");
	assert_non_null(strstr(fix.e.msg, "(spec.allow.waiting), and 3 do"));
}

/* A policy that bounds those who wait alone: how many do is kept, and nobody is in its account. */
TEST(test_who_waits_is_counted_without_an_account)
{
	int64_t end = clock_ms() + 20000;

	small.gpus = UINT32_MAX;
	must_take("lab", "u1", "app c 1 50%");
	small.gpus = 3;
	kube_store_policy(fix.store, "small", "{'allow':{'waiting':3}}");
	accounts_note_waiting(x, "small");
	accounts_noted_all(x);
	assert_int_equal(accounts_repair(x, "small", &care, end, &fix.e), 0);
	says("waiting", "1");
	says("account", "1 0");
	says("gpus", "0");
	assert_int_equal(accounts_repair(x, "small", &care, end, &fix.e), 0);
	assert_int_equal(api_seen_of(fix.api, "PATCH", SMALL "/status"), 1);
}

/* Where nobody has counted yet, or what stands there is no count, nobody waits. */
TEST(test_who_waits_where_nobody_has_counted)
{
	static const char *const cases[][2] = {{"none", "{}"}, {"null", "{'waiting':null}"},
		{"word", "{'waiting':'1'}"}, {"less", "{'waiting':-1}"},
		{"most", "{'waiting':4294967295}"}};
	int64_t end = clock_ms() + 20000;

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct policy one = small;

		one.name = cases[i][0];
		kube_store_policy(fix.store, one.name, "{'allow':{'waiting':1}}");
		kube_store_policy_status(fix.store, one.name, cases[i][1]);
		assert_int_equal(accounts_may_wait(x, &one, false, end, &fix.e), 0);
		assert_int_equal(accounts_may_wait(x, &one, false, end, &fix.e), ERR_REFUSED);
		assert_non_null(strstr(fix.e.msg, "(spec.allow.waiting), and 1 do"));
	}
}

static int could_ever(const struct policy *policy, int64_t deadline_ms)
{
	struct demand d;
	struct claim_ask ask = {.uid = SLICE("u"),
		.namespace = SLICE("lab"),
		.name = SLICE("u"),
		.demand = &d,
		.policy = policy,
		.deadline_ms = deadline_ms};
	struct arena a;
	int rc;

	arena_init(&a, 1u << 20);
	demand_init(&d, &a, "app c 1 50%", NULL, NULL, false);
	err_clear(&fix.e);
	rc = fix.r.ledger->ops->could_ever(fix.r.ledger, &ask, &a, &fix.e);
	arena_release(&a);
	return rc;
}

/* Nobody is told that he may not wait because the API server does not say how many do. */
TEST(test_who_waits_when_nobody_says_how_many_do)
{
	struct policy bounded = small;
	int64_t end = clock_ms() + 20000;

	bounded.waiting = 3;
	kube_store_policy(fix.store, "small", "{'allow':{'waiting':3}}");
	kube_store_fault(fix.store, STORE_FORBID, "GET", SMALL, 0, 2);
	assert_int_equal(accounts_may_wait(x, &bounded, true, end, &fix.e), ERR_IO);
	ASSERT_REFUSED(&fix, could_ever(&bounded, end), "ApiServerAway");
	kube_store_fault(fix.store, STORE_SLOW, "GET", SMALL, 2000, 1);
	ASSERT_REFUSED(&fix, could_ever(&bounded, clock_ms() + 300), "ApiServerAway");
	assert_int_equal(could_ever(&bounded, end), 0);
	/* nor is one of a policy that is gone told that something is broken */
	api_nap(1100);
	kube_store_policy(fix.store, "small", NULL);
	ASSERT_REFUSED(&fix, could_ever(&bounded, end), "NoPolicy");
}

/* While a round of the queue counts, what the one before it has counted stays. */
TEST(test_half_a_count_of_those_who_wait)
{
	int64_t end = clock_ms() + 20000;

	accounts_note_waiting(x, NULL);
	accounts_note_waiting(x, "small");
	accounts_note_waiting(x, "small");
	accounts_noted_all(x);
	accounts_note_waiting(x, NULL);
	accounts_note_waiting(x, "small");
	assert_int_equal(accounts_repair(x, "small", &care, end, &fix.e), 0);
	says("waiting", "2");
	accounts_noted_all(x);
	assert_int_equal(accounts_repair(x, "small", &care, end, &fix.e), 0);
	says("waiting", "1");
}

/* An answer that brings the same number is no count that came after them. */
TEST(test_who_was_let_in_is_not_forgotten)
{
	const struct account_ask ask = ASK("u1", 7, 5);
	int64_t began = clock_ms(), end = began + 20000;

	kube_store_policy(fix.store, "small", "{'allow':{'waiting':2}}");
	kube_store_policy_status(fix.store, "small", "{'waiting':1}");
	assert_int_equal(accounts_may_wait(x, &small, false, end, &fix.e), 0);
	/* it has no cap: this reads it */
	assert_int_equal(accounts_raise(x, "small", &ask, end, &fix.e), 0);
	/* after four seconds everybody was counted */
	if (accounts_may_wait(x, &small, false, end, &fix.e) == 0)
		assert_true(clock_ms() - began >= 4000);
	kube_store_policy_status(fix.store, "small", "{'waiting':0}");
	assert_int_equal(accounts_raise(x, "small", &ask, end, &fix.e), 0);
	assert_int_equal(accounts_may_wait(x, &small, false, end, &fix.e), 0);
}

/* ---- at once ---- */

static void *take_in_vain(void *arg)
{
	(void)arg;
	assert_int_equal(take("lab", "u1", "app c 2 50%"), ERR_REFUSED);
	return NULL;
}

/* It was raised, and not one write was begun: nobody has anything to take back. */
TEST(test_what_found_no_room_after_all_is_written_out)
{
	char *now = NULL;
	pthread_t taker;

	kube_store_fault(fix.store, STORE_SLOW, "PATCH", SMALL "/status", 1000, 1);
	assert_int_equal(pthread_create(&taker, NULL, take_in_vain, NULL), 0);
	assert_true(api_wait(fix.api, "PATCH", SMALL "/status", 1));
	kube_store_server(fix.store, "a", 1, 16000, "");
	(void)pthread_join(taker, NULL);
	for (int i = 0; i < 1000; i++, api_nap(10)) {
		free(now);
		now = kube_store_policy_says(fix.store, "small", "account");
		if (!strstr(now, " f "))
			break;
	}
	assert_null(strstr(now, " f "));
	free(now);
}

static void *raise_slowly(void *arg)
{
	const struct account_ask ask = ASK("u1", 1, 1);
	struct err err = {0};

	assert_int_equal(accounts_raise(arg, "small", &ask, clock_ms() + 20000, &err), 0);
	return NULL;
}

/* Somebody is at work, for three seconds from now. */
static int64_t begin_slowly(pthread_t *slow)
{
	kube_store_fault(fix.store, STORE_SLOW, "GET", SMALL, 3000, 1);
	assert_int_equal(pthread_create(slow, NULL, raise_slowly, x), 0);
	assert_true(api_wait(fix.api, "GET", SMALL, 1));
	return clock_ms();
}

/* Who came when others were at work already. */
TEST(test_nobody_overstays_his_deadline)
{
	const struct account_ask ask = ASK("u2", 2, 1);
	pthread_t slow;
	int64_t began = begin_slowly(&slow);

	assert_int_equal(accounts_raise(x, "small", &ask, began + 200, &fix.e), ERR_TIMEOUT);
	assert_true(clock_ms() - began < 2000);
	(void)pthread_join(slow, NULL);
}

/* Nor who wants to know something else of it meanwhile. */
TEST(test_nobody_waits_longer_for_who_is_at_work)
{
	pthread_t slow;
	int64_t began = begin_slowly(&slow);

	assert_int_equal(accounts_may_wait(x, &small, true, began + 200, &fix.e), ERR_TIMEOUT);
	assert_string_equal(fix.e.msg, "the GPUPolicy small could not be read in time");
	assert_int_equal(accounts_repair(x, "small", &care, began + 400, &fix.e), ERR_TIMEOUT);
	assert_string_equal(fix.e.msg, "the account of small is at work");
	assert_true(clock_ms() - began < 2500);
	assert_int_equal(api_seen_of(fix.api, "*", SMALL "*"), 1);
	(void)pthread_join(slow, NULL);
}

/* ---- what is asked for ---- */

/* By compare-and-swap: without its version, or without knowing which object and spec it is. */
TEST(test_an_object_that_says_too_little)
{
	static const char *const metas[] = {"'generation':1", "'resourceVersion':'7'",
		"'resourceVersion':'','generation':1",
		"'resourceVersion':'12345678901234567890123456789012','generation':1",
		"'resourceVersion':'7','generation':1,'uid':'0123456789012345678901234567890123456"
		"789012345678901234567890123'"};

	for (size_t i = 0; i < COUNT(metas); i++) {
		const struct account_ask ask = ASK("u1", i + 1, 5);
		char text[512];

		(void)snprintf(text, sizeof(text),
			"{'apiVersion':'poolgate.io/v1alpha1','kind':'GPUPolicy','metadata':{'name'"
			":'small',%s},'spec':{'allow':{'gpus':3}}}",
			metas[i]);
		for (char *at = text; (at = strchr(at, '\''));)
			*at = '"';
		api_expect(fix.api, "GET", SMALL, 200, text);
		assert_int_equal(
			accounts_raise(x, "small", &ask, clock_ms() + 20000, &fix.e), ERR_INVALID);
		assert_string_equal(fix.e.msg, "found a GPUPolicy without a version");
	}
	assert_int_equal(api_seen_of(fix.api, "PATCH", SMALL "*"), 0);
	must_take("lab", "u1", "app c 1 50%");
}

/* One who writes alone does not read it again; beside another he does, before he is told that he
 * is behind. */
TEST(test_who_writes_in_turn_reads_first)
{
	struct account_ask ask = ASK("u1", 1, 5);
	int64_t end = clock_ms() + 20000;
	size_t reads;

	kube_store_policy(fix.store, "small", "{'allow':{'gpus':100}}");
	/* the first finds an account that nobody has counted, and reads it again for that */
	assert_int_equal(accounts_raise(x, "small", &ask, end, &fix.e), 0);
	reads = api_seen_of(fix.api, "GET", SMALL);
	api_nap(20);
	ask.take = 2;
	assert_int_equal(accounts_raise(x, "small", &ask, end, &fix.e), 0);
	assert_int_equal(api_seen_of(fix.api, "GET", SMALL), reads);
	assert_int_equal(api_seen_of(fix.api, "PATCH", SMALL "/status"), 2);
	kube_store_fault(fix.store, STORE_CONFLICT, "PATCH", SMALL "/status", 0, 1);
	ask.take = 3;
	assert_int_equal(accounts_raise(x, "small", &ask, end, &fix.e), 0);
	assert_int_equal(api_seen_of(fix.api, "PATCH", SMALL "/status"), 4);
	assert_int_equal(api_seen_of(fix.api, "GET", SMALL), reads + 1);
	api_nap(20);
	accounts_close(x, 1);
	ask.take = 4;
	assert_int_equal(accounts_raise(x, "small", &ask, end, &fix.e), 0);
	/* but for a machine that stood still */
	if (end - clock_ms() > 16000)
		assert_int_equal(api_seen_of(fix.api, "GET", SMALL), reads + 2);
	assert_int_equal(api_seen_of(fix.api, "PATCH", SMALL "/status"), 5);
}

/* What was read within a second is not asked for again. */
TEST(test_how_old_the_number_of_those_who_wait_may_be)
{
	int64_t began, end = clock_ms() + 20000;
	size_t asked;

	kube_store_policy(fix.store, "small", "{'allow':{'waiting':3}}");
	kube_store_policy_status(fix.store, "small", "{'waiting':3}");
	began = clock_ms();
	assert_int_equal(accounts_may_wait(x, &small, true, end, &fix.e), ERR_REFUSED);
	kube_store_policy_status(fix.store, "small", "{'waiting':2}");
	asked = accounts_may_wait(x, &small, true, end, &fix.e) == ERR_REFUSED
			? 1
			: api_seen_of(fix.api, "GET", SMALL);
	if (clock_ms() - began < 900)
		assert_int_equal(asked, 1);
	api_nap(1100);
	assert_int_equal(accounts_may_wait(x, &small, true, end, &fix.e), 0);
}

/* ---- ahead ---- */

struct one {
	pthread_t thread;
	char uid[8];
	struct account_ask ask;
	int rc;
	struct err err;
};

static void *raise_one(void *arg)
{
	struct one *one = arg;

	one->rc = accounts_raise(x, "small", &one->ask, clock_ms() + 20000, &one->err);
	return NULL;
}

static void raise_later(struct one *one, uint64_t take, uint64_t gpus)
{
	(void)snprintf(one->uid, sizeof(one->uid), "u%u", (unsigned)take);
	one->ask = (struct account_ask){
		.uid = one->uid, .namespace = "lab", .take = take, .wants = {gpus, gpus}};
	assert_int_equal(pthread_create(&one->thread, NULL, raise_one, one), 0);
}

static int end_of(struct one *one)
{
	(void)pthread_join(one->thread, NULL);
	return one->rc;
}

/* The first one of those who come at once: it is written for a second. */
static void raise_first(struct one *first)
{
	kube_store_fault(fix.store, STORE_SLOW, "PATCH", SMALL "/status", 1000, 1);
	raise_later(first, 1, 1);
	assert_true(api_wait(fix.api, "PATCH", SMALL "/status", 1));
}

static bool is_there(const char *word)
{
	char *now = kube_store_policy_says(fix.store, "small", "account");
	bool yes = strstr(now, word) != NULL;

	free(now);
	return yes;
}

static void wait_for(const char *word, bool there)
{
	for (int i = 0; i < 1000 && is_there(word) != there; i++)
		api_nap(10);
	assert_int_equal(is_there(word), there);
}

/* Three come at once, under a cap that is far: for the next ones nothing is written. */
static int64_t crowd_comes(struct one crowd[3])
{
	int64_t began;

	raise_first(&crowd[0]);
	began = clock_ms();
	raise_later(&crowd[1], 2, 1);
	raise_later(&crowd[2], 3, 1);
	for (int i = 0; i < 3; i++)
		assert_int_equal(end_of(&crowd[i]), 0);
	return began;
}

static int64_t come_at_once(struct one crowd[3])
{
	kube_store_policy(fix.store, "small", "{'allow':{'gpus':1000}}");
	return crowd_comes(crowd);
}

TEST(test_who_comes_in_company_is_counted_ahead)
{
	struct one crowd[3], next;
	int64_t began = come_at_once(crowd);
	size_t asked = api_seen_of(fix.api, "*", SMALL "*");
	size_t now;

	raise_later(&next, 4, 1);
	assert_int_equal(end_of(&next), 0);
	now = api_seen_of(fix.api, "*", SMALL "*");
	/* but for a machine that stood still */
	if (clock_ms() - began < 2000)
		assert_int_equal(now, asked);
	assert_true(is_there("f ahead lab "));
	for (uint64_t take = 1; take <= 3; take++)
		accounts_close(x, take);
	/* as long as it is not known what came of who had a part of it */
	wait_for("f u1 ", false);
	wait_for("f u2 ", false);
	assert_true(is_there("f ahead lab "));
	accounts_close(x, 4);
	wait_for(" f ", false);
	assert_int_equal(accounts_repair(x, "small", &care, clock_ms() + 20000, &fix.e), 0);
	says("account", "1 2 n lab 0 0");
}

TEST(test_who_is_gone_stays_counted_ahead)
{
	struct one crowd[3], next;
	int64_t began = come_at_once(crowd);

	raise_later(&next, 4, 1);
	(void)end_of(&next);
	assert_true(is_there(" f u4 ") || is_there(" f ahead lab "));
	for (uint64_t take = 1; take <= 3; take++)
		accounts_close(x, take);
	accounts_leave(x, 4);
	accounts_stop_ahead(x);
	assert_true(accounts_flush(x, clock_ms() + 5000));
	assert_false(is_there(" f u1 "));
	if (clock_ms() - began < 2000)
		assert_true(is_there(" f ahead lab "));
}

static void raises(uint64_t take, uint64_t gpus, int rc)
{
	struct one one;

	raise_later(&one, take, gpus);
	assert_int_equal(end_of(&one), rc);
}

/* How many GPUs are counted ahead in the account. */
static unsigned gpus_ahead(void)
{
	static const char word[] = " f ahead lab ";
	char *now = kube_store_policy_says(fix.store, "small", "account");
	const char *at = strstr(now, word);
	unsigned gpus = 0;

	if (at)
		assert_int_equal(sscanf(at + sizeof(word) - 1, "%*u %u", &gpus), 1);
	free(now);
	return gpus;
}

/* So many times what came at once, and less where the caps do not leave a multiple of that. */
TEST(test_how_much_is_counted_ahead)
{
	struct one crowd[3];

	(void)come_at_once(crowd);
	assert_int_equal(gpus_ahead(), 32);
}

TEST(test_less_is_counted_ahead_near_the_caps)
{
	struct one crowd[3];

	kube_store_policy(fix.store, "small", "{'allow':{'gpus':100}}");
	(void)crowd_comes(crowd);
	assert_int_equal(gpus_ahead(), 12);
	/* and it is given in its namespace alone, no more than it is */
	says("gpus", "15");
}

TEST(test_nothing_ahead_where_the_caps_are_near)
{
	struct one crowd[3];

	kube_store_policy(fix.store, "small", "{'allow':{'gpus':18}}");
	(void)crowd_comes(crowd);
	says("gpus", "3");
}

/* Nobody would write out what is left of it. */
TEST(test_nothing_ahead_without_a_janitor)
{
	struct one crowd[3];

	accounts_set_janitor(x, NULL);
	(void)come_at_once(crowd);
	says("gpus", "3");
}

/* Two of two namespaces are no company. */
TEST(test_nothing_ahead_for_who_comes_alone)
{
	struct one slow, two[2];

	kube_store_policy(fix.store, "small", "{'allow':{'gpus':1000}}");
	raise_first(&slow);
	raise_later(&two[0], 2, 1);
	(void)snprintf(two[1].uid, sizeof(two[1].uid), "u3");
	two[1].ask = (struct account_ask){
		.uid = two[1].uid, .namespace = "ward", .take = 3, .wants = {1, 1}};
	assert_int_equal(pthread_create(&two[1].thread, NULL, raise_one, &two[1]), 0);
	(void)end_of(&slow);
	for (size_t i = 0; i < COUNT(two); i++)
		assert_int_equal(end_of(&two[i]), 0);
	says("gpus", "3");
	assert_false(is_there(" ahead "));
}

/* Whoever has read them. */
TEST(test_nothing_ahead_outlives_its_caps)
{
	struct one crowd[3];

	(void)come_at_once(crowd);
	kube_store_policy(fix.store, "small", "{'allow':{'gpus':1}}");
	assert_int_equal(accounts_repair(x, "small", &care, clock_ms() + 20000, &fix.e), 0);
	raises(4, 2, ERR_REFUSED);
}

/* A restore of etcd brings back an account of before, of the same object and spec. */
TEST(test_nothing_ahead_outlives_a_restore)
{
	struct one crowd[3];

	kube_store_policy(fix.store, "small", "{'allow':{'gpus':1000}}");
	kube_store_backup(fix.store);
	(void)crowd_comes(crowd);
	kube_store_restore(fix.store);
	assert_int_equal(accounts_repair(x, "small", &care, clock_ms() + 20000, &fix.e), 0);
	raises(4, 2, 0);
	assert_true(is_there("f u4 "));
}

TEST(test_nothing_ahead_outlives_its_policy)
{
	struct one crowd[3];

	(void)come_at_once(crowd);
	kube_store_policy(fix.store, "small", NULL);
	kube_store_policy(fix.store, "small", "{'allow':{'gpus':2000}}");
	/* of the same generation as the one before */
	kube_store_policy(fix.store, "small", "{'allow':{'gpus':1}}");
	assert_int_equal(accounts_repair(x, "small", &care, clock_ms() + 20000, &fix.e), 0);
	raises(4, 2, ERR_REFUSED);
}

TEST(test_nothing_ahead_of_a_policy_that_is_gone)
{
	struct one crowd[3];

	(void)come_at_once(crowd);
	kube_store_policy(fix.store, "small", NULL);
	assert_int_not_equal(accounts_repair(x, "small", &care, clock_ms() + 20000, &fix.e), 0);
	raises(4, 1, ERR_REFUSED);
}

TEST(test_nothing_ahead_beside_who_found_it_full)
{
	struct one slow, two[2], big;

	kube_store_policy(fix.store, "small", "{'allow':{'gpus':1000}}");
	raise_first(&slow);
	raise_later(&two[0], 2, 1);
	raise_later(&two[1], 3, 1);
	raise_later(&big, 4, 2000);
	(void)end_of(&slow);
	(void)end_of(&two[0]);
	(void)end_of(&two[1]);
	assert_int_equal(end_of(&big), ERR_REFUSED);
	assert_false(is_there(" ahead "));
}

/* It may be minutes until his server has another version. */
TEST(test_who_is_unsure_keeps_his_part_alone)
{
	uint64_t version = servers_version(fix.r.servers, "a");
	int64_t end = clock_ms() + 20000;
	struct one crowd[3];

	(void)come_at_once(crowd);
	raises(4, 1, 0);
	for (uint64_t take = 1; take <= 3; take++)
		accounts_close(x, take);
	accounts_close_after(x, 4, "a", version);
	accounts_stop_ahead(x);
	assert_true(accounts_flush(x, end));
	assert_false(is_there(" ahead "));
	assert_true(is_there(" f u4 lab 4 1 1"));
	assert_false(is_there("n lab 1 1 "));
	assert_int_equal(accounts_repair(x, "small", &care, end, &fix.e), 0);
	says("account", "1 2 n lab 1 1 f u4 lab 4 1 1");
	kube_store_server(fix.store, "a", 8, 16000, "");
	assert_int_equal(servers_refresh(fix.r.servers, end, &fix.e), 0);
	assert_int_equal(accounts_repair(x, "small", &care, end, &fix.e), 0);
	says("account", "1 2 n lab 0 0");
}

/* Beside one who is unsure another is still at work by what is ahead: it stays for him. */
TEST(test_who_is_unsure_ends_nothing_for_others)
{
	uint64_t version = servers_version(fix.r.servers, "a");
	int64_t end = clock_ms() + 20000;
	struct one crowd[3];

	(void)come_at_once(crowd);
	raises(4, 1, 0);
	raises(5, 1, 0);
	for (uint64_t take = 1; take <= 3; take++)
		accounts_close(x, take);
	accounts_close_after(x, 4, "a", version);
	accounts_stop_ahead(x);
	(void)accounts_flush(x, clock_ms() + 500);
	assert_true(is_there(" ahead "));
	assert_false(is_there(" f u4 "));
	accounts_close(x, 5);
	assert_true(accounts_flush(x, end));
	assert_false(is_there(" ahead "));
	assert_true(is_there(" f u4 lab 4 1 1"));
}

/* Another replica's: who would fit but for it waits for its end. */
TEST(test_nobody_is_refused_for_what_is_ahead)
{
	struct one big;

	kube_store_policy(fix.store, "small", "{'allow':{'gpus':1000}}");
	kube_store_policy_status(fix.store, "small",
		"{'account':'1 1 n lab 800 0 f ahead lab 77 800 0','gpus':800}");
	raise_later(&big, 1, 300);
	assert_true(api_wait(fix.api, "GET", SMALL, 2));
	kube_store_policy_status(fix.store, "small", "{'account':'1 1 n lab 800 0','gpus':800}");
	assert_int_equal(end_of(&big), 0);
	says("gpus", "300");
	/* not for ever: it may be of one that was killed */
	kube_store_policy_status(fix.store, "small",
		"{'account':'1 1 n lab 800 0 f ahead lab 77 800 0','gpus':800}");
	raise_later(&big, 2, 300);
	assert_int_equal(end_of(&big), ERR_REFUSED);
	assert_string_equal(big.err.reason, "PolicyFull");
}

/* A leader, who asks again, does not hold up those behind him. */
TEST(test_who_asks_again_waits_for_nothing_ahead)
{
	struct one patient, leader;

	kube_store_policy(fix.store, "small", "{'allow':{'gpus':1000}}");
	kube_store_policy_status(fix.store, "small",
		"{'account':'1 1 n lab 800 0 f ahead lab 77 800 0','gpus':800}");
	raise_later(&patient, 1, 300);
	assert_true(api_wait(fix.api, "GET", SMALL, 2));
	leader = (struct one){.uid = "u2",
		.ask = {.namespace = "lab", .take = 2, .wants = {300, 300}, .at_once = true}};
	leader.ask.uid = leader.uid;
	(void)raise_one(&leader);
	assert_int_equal(leader.rc, ERR_REFUSED);
	assert_string_equal(leader.err.reason, "PolicyFull");
	kube_store_policy_status(fix.store, "small", "{'account':'1 1 n lab 800 0','gpus':800}");
	assert_int_equal(end_of(&patient), 0);
}

static struct replica others[2];
static atomic_int admitted;

static void *take_some(void *arg)
{
	size_t me = (size_t)arg;
	struct replica *r = me % 3 ? &others[me % 3 - 1] : &fix.r;

	for (int i = 0; i < 3; i++) {
		struct claim_answer answer;
		struct err err = {0};
		char uid[32];
		int rc;

		(void)snprintf(uid, sizeof(uid), "u-%zu-%d", me, i);
		rc = take_by(r, i % 2 ? "lab" : "ward", uid, "app c 1 10%", &answer, &err);
		if (rc == 0)
			atomic_fetch_add(&admitted, 1);
		else if (strcmp(err.reason, "PolicyFull") != 0)
			fail_msg("%s: %s", err.reason, err.msg);
	}
	return NULL;
}

/* Nobody knows what is claimed there, and this replica has never seen an older state of it. */
TEST(test_a_server_that_was_never_readable)
{
	kube_store_put(fix.store, "b", SPEC_AT("10.0.0.9:56001", "1"), "{'claims':7}", "[]");
	kube_store_policy_status(fix.store, "small", "{'account':'1 1 n lab 3 5','gpus':3}");
	replica_init(&others[0], fix.store);
	accounts_set_policies(ledger_kube_accounts(others[0].ledger), &source);
	ASSERT_REFUSED(&fix, take_by(&others[0], "lab", "u1", "app c 1 50%", &fix.answer, &fix.e),
		"PolicyFull");
	replica_release(&others[0]);
}

TEST(test_three_replicas_at_once)
{
	pthread_t threads[THREADS];

	kube_store_policy(fix.store, "small", "{'allow':{'gpus':7}}");
	for (size_t i = 0; i < COUNT(others); i++)
		replica_init(&others[i], fix.store);
	atomic_store(&admitted, 0);
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, take_some, (void *)i), 0);
	for (size_t i = 0; i < THREADS; i++)
		(void)pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&admitted), 7);
	assert_int_equal(kube_store_claims(fix.store, NULL, NULL), 7);
	for (size_t i = 0; i < COUNT(others); i++)
		replica_release(&others[i]);
	says("gpus", "7");
}

TESTS_BETWEEN(set_up, tear_down, test_over_all_namespaces, test_what_has_ended_is_counted_out,
	test_what_stood_before_the_cap_counts, test_whoever_held_before_the_cap_counts,
	test_lost_answers, test_no_account_no_claim, test_taken_back,
	test_a_broken_account_is_counted_anew, test_a_keeper_writes_what_was_closed,
	test_what_may_land_yet_keeps_its_name, test_a_policy_that_turned_wrong,
	test_what_was_begun_in_anothers_place_keeps_its_name, test_a_policy_without_caps_by_now,
	test_who_waits_is_bounded_by_the_last_count, test_who_waits_is_counted_without_an_account,
	test_who_waits_where_nobody_has_counted, test_who_waits_when_nobody_says_how_many_do,
	test_half_a_count_of_those_who_wait, test_who_was_let_in_is_not_forgotten,
	test_nobody_overstays_his_deadline, test_what_found_no_room_after_all_is_written_out,
	test_nothing_ahead_outlives_its_caps, test_nothing_ahead_outlives_a_restore,
	test_nothing_ahead_outlives_its_policy, test_nothing_ahead_of_a_policy_that_is_gone,
	test_who_is_unsure_keeps_his_part_alone, test_who_is_unsure_ends_nothing_for_others,
	test_nobody_waits_longer_for_who_is_at_work, test_an_object_that_says_too_little,
	test_who_writes_in_turn_reads_first, test_how_old_the_number_of_those_who_wait_may_be,
	test_how_much_is_counted_ahead, test_less_is_counted_ahead_near_the_caps,
	test_nothing_ahead_where_the_caps_are_near, test_nothing_ahead_without_a_janitor,
	test_nothing_ahead_for_who_comes_alone, test_nothing_ahead_beside_who_found_it_full,
	test_who_comes_in_company_is_counted_ahead, test_who_is_gone_stays_counted_ahead,
	test_nobody_is_refused_for_what_is_ahead, test_who_asks_again_waits_for_nothing_ahead,
	test_a_server_that_was_never_readable, test_three_replicas_at_once)
