/* SPDX-License-Identifier: Apache-2.0 */
/* test: the shared ledger by the rules R1 to R9. */
#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "test/unit/ledger_fixture.h"
#include "test/unit/test.h"

/* ---- R1 ---- */

static struct ledger_fixture fix;

FIXTURES(ledger_fixture_init, ledger_fixture_release)

TEST(test_r1_same_uid_is_answered_from_its_claim)
{
	uint64_t first;

	kube_store_server(fix.store, "a", 2, 16000, "");
	ledger_fixture_begin(&fix);
	assert_true(fix.r.ledger->may_wait);
	ledger_must_take(&fix, "u1", "app c 2 50%");
	first = fix.answer.ticket;
	assert_int_not_equal(first, 0);
	assert_int_equal(fix.answer.n_parts, 2);
	ledger_must_take(&fix, "u1", "app c 2 50%");
	assert_int_equal(fix.answer.ticket, 0);
	assert_int_equal(fix.answer.n_parts, 2);
	assert_string_equal(fix.answer.parts[1].server, "a");
	assert_string_equal(fix.answer.parts[1].gpu, "gpu-1");
	assert_int_equal(fix.answer.parts[1].bytes, 8000 * MB);
	/* The second reply rests on the claim: the first one's undo is too late. */
	ledger_undo(&fix, first);
	api_nap(300);
	assert_int_equal(kube_store_claims(fix.store, "a", "u1"), 1);
}

TEST(test_r1_other_replica_answers_from_it_too)
{
	struct replica other;
	uint64_t first;

	ledger_fixture_begin_with(&fix, "a");
	ledger_must_take(&fix, "u1", "app c 1 100%");
	first = fix.answer.ticket;
	replica_init(&other, fix.store);
	assert_int_equal(ledger_take_in(&other, &fix.a, "u1", "u1", "app c 1 100%", 5000, false,
				 &fix.answer, &fix.e),
		0);
	assert_int_equal(fix.answer.ticket, 0);
	ledger_undo(&fix, first);
	api_nap(300);
	assert_int_equal(kube_store_claims(fix.store, "a", "u1"), 1);
	replica_release(&other);
}

/* ---- R2 ---- */

TEST(test_r2_lost_answers)
{
	ledger_fixture_begin_with(&fix, "a");
	kube_store_fault(fix.store, STORE_CUT_AFTER, "PUT", STATUS_OF("a"), 0, 1);
	ledger_must_take(&fix, "u1", "app c 1 50%");
	assert_int_equal(kube_store_writes(fix.store), 1);
	assert_int_equal(kube_store_claims(fix.store, NULL, "u1"), 1);
	kube_store_fault(fix.store, STORE_CUT_BEFORE, "PUT", STATUS_OF("a"), 0, 1);
	ledger_must_take(&fix, "u2", "app c 1 20%");
	assert_int_equal(kube_store_claims(fix.store, NULL, "u2"), 1);
	kube_store_fault(fix.store, STORE_CUT_LATE, "PUT", STATUS_OF("a"), 50, 1);
	ledger_must_take(&fix, "u3", "app c 1 20%");
	api_nap(150);
	assert_int_equal(kube_store_claims(fix.store, NULL, "u3"), 1);
	assert_int_equal(kube_store_claims(fix.store, NULL, NULL), 3);
}

TEST(test_r2_second_server_is_full)
{
	size_t n;

	ledger_fixture_begin_with(&fix, "ab");
	kube_store_hush(fix.store);
	ledger_set_claims(&fix, "b", CLAIM("other", "other", "bound", "'b'", WHOLE));
	ledger_must_refuse(&fix, "u1", "app c 2 100%", "NoCapacity");
	n = api_seen_count(fix.api);
	/* In the order of names. */
	for (size_t i = 0; i < n; i++)
		if (strcmp(api_seen(fix.api, i)->method, "PUT") == 0) {
			assert_string_equal(api_seen(fix.api, i)->path, STATUS_OF("a"));
			break;
		}
	assert_int_equal(api_seen_of(fix.api, "PUT", STATUS_OF("b")), 1);
	assert_true(kube_store_wait_claims(fix.store, "a", "u1", 0));
	assert_int_equal(kube_store_claims(fix.store, "b", "u1"), 0);
}

/* The part that it has already is no reason to refuse it the next try. */
TEST(test_r2_second_server_is_full_and_a_third_is_not)
{
	ledger_fixture_begin_with(&fix, "abc");
	kube_store_hush(fix.store);
	ledger_set_claims(&fix, "b", CLAIM("other", "other", "bound", "'b'", WHOLE));
	ledger_must_take(&fix, "u1", "app c 2 100%");
	assert_string_equal(fix.answer.parts[0].server, "a");
	assert_string_equal(fix.answer.parts[1].server, "c");
	api_nap(300);
	assert_int_equal(kube_store_claims(fix.store, "a", "u1"), 1);
	assert_int_equal(kube_store_claims(fix.store, "b", "u1"), 0);
	assert_int_equal(kube_store_claims(fix.store, "c", "u1"), 1);
}

/* Somebody broke a server's status, and this replica hears of it by its commit: nothing that the
 * pod's user did wrong. */
TEST(test_r2_server_is_broken)
{
	ledger_fixture_begin_with(&fix, "ab");
	kube_store_hush(fix.store);
	kube_store_put(fix.store, "a", NULL, "{'claims':7}", NULL);
	ledger_must_take(&fix, "u1", "app c 1 100%");
	assert_string_equal(fix.answer.parts[0].server, "b");
}

TEST(test_r2_conflict_storm)
{
	ledger_fixture_begin_with(&fix, "a");
	kube_store_fault(fix.store, STORE_CONFLICT, "PUT", STATUS_OF("a"), 0, 20);
	ledger_must_take(&fix, "u1", "app c 1 100%");
	assert_int_equal(ledger_puts(&fix), 21);
	assert_int_equal(kube_store_claims(fix.store, NULL, "u1"), 1);
	assert_int_equal(metric_value(fix.r.metrics, M_COMMITS, COMMIT_CONFLICT, 0), 20);
}

/* ---- R3 ---- */

TEST(test_r3_undo_ends_that_take)
{
	uint64_t one;

	ledger_fixture_begin_with(&fix, "ab");
	ledger_must_take(&fix, "u1", "app c 2 50%");
	one = fix.answer.ticket;
	ledger_must_take(&fix, "u2", "app c 2 50%");
	ledger_undo(&fix, 0);
	ledger_undo(&fix, 12345);
	ledger_undo(&fix, one);
	assert_true(kube_store_wait_claims(fix.store, NULL, "u1", 0));
	assert_int_equal(kube_store_claims(fix.store, NULL, "u2"), 2);
	ledger_must_take(&fix, "u3", "app c 2 50%");
	/* One on each server, counted once its write is answered. */
	for (int i = 0; i < 500 && metric_value(fix.r.metrics, M_CLAIMS_ENDED, END_UNSENT, 0) < 2;
		i++)
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	assert_int_equal(metric_value(fix.r.metrics, M_CLAIMS_ENDED, END_UNSENT, 0), 2);
	/* A claim whose pod has been seen is no longer ours to end. */
}

/* Nothing was taken, and a claim says that nothing took it: that one is another's. */
TEST(test_r3_undo_of_nothing)
{
	ledger_fixture_begin_with(&fix, "a");
	ledger_set_claims(&fix, "a", CLAIM_OF("u9", "w", "pending", "'a'", "4000000000", "00"));
	ledger_must_take(&fix, "u1", "app c 1 50%");
	ledger_undo(&fix, 0);
	/* one behind the other */
	ledger_undo(&fix, fix.answer.ticket);
	assert_true(kube_store_wait_claims(fix.store, "a", "u1", 0));
	assert_int_equal(kube_store_claims(fix.store, "a", "u9"), 1);
}

/* What the leader has ended is not ended once more. */
TEST(test_r3_undo_of_what_is_gone_counts_nothing)
{
	ledger_fixture_begin_with(&fix, "a");
	ledger_must_take(&fix, "u1", "app c 1 50%");
	ledger_set_claims(&fix, "a", "");
	ledger_undo(&fix, fix.answer.ticket);
	/* Behind it in the queue; when that is gone, so is it. */
	ledger_must_take(&fix, "u2", "app c 1 50%");
	ledger_undo(&fix, fix.answer.ticket);
	assert_true(kube_store_wait_claims(fix.store, "a", "u2", 0));
	for (int i = 0; i < 100 && metric_value(fix.r.metrics, M_CLAIMS_ENDED, END_UNSENT, 0) < 1;
		i++)
		api_nap(10);
	api_nap(200);
	assert_int_equal(metric_value(fix.r.metrics, M_CLAIMS_ENDED, END_UNSENT, 0), 1);
}

TEST(test_r3_stopping_takes_back)
{
	ledger_fixture_begin_with(&fix, "a");
	ledger_must_take(&fix, "u1", "app c 1 50%");
	ledger_must_take(&fix, "u2", "app c 1 50%");
	ledger_undo(&fix, fix.answer.ticket);
	replica_release(&fix.r);
	assert_int_equal(kube_store_claims(fix.store, NULL, "u1"), 1);
	assert_int_equal(kube_store_claims(fix.store, NULL, "u2"), 0);
	ledger_fixture_begin(&fix);
}

TEST(test_r3_deadline_in_the_middle)
{
	int64_t began;

	ledger_fixture_begin_with(&fix, "ab");
	kube_store_fault(fix.store, STORE_SLOW, "PUT", STATUS_OF("b"), 1000, 1);
	began = api_now_ms();
	assert_int_equal(ledger_take(&fix, "u1", "app c 2 100%", 500), ERR_REFUSED);
	assert_true(api_now_ms() - began < 800);
	assert_string_equal(fix.e.reason, "ApiServerAway");
	assert_true(kube_store_wait_claims(fix.store, NULL, "u1", 0));
}

/* Who sets no deadline has the ledger's own, which is long enough for both questions. */
TEST(test_r3_no_deadline)
{
	ledger_fixture_begin_with(&fix, "a");
	assert_int_equal(ledger_could_ever(&fix, "app c 1 100%", 0), 0);
	assert_int_equal(ledger_take(&fix, "u1", "app c 1 100%", 0), 0);
	assert_int_equal(kube_store_claims(fix.store, "a", "u1"), 1);
}

/* Somebody else's call hangs: who is in a hurry does not wait for it. */
static void *take_slowly(void *arg)
{
	struct ledger_fixture *f = arg;
	struct claim_answer answer;
	struct arena a;
	struct err e = {0};

	arena_init(&a, 1u << 24);
	assert_int_equal(
		ledger_take_in(&f->r, &a, "slow", "slow", "app c 1 10%", 8000, false, &answer, &e),
		0);
	arena_release(&a);
	return NULL;
}

TEST(test_r3_deadline_while_another_hangs)
{
	pthread_t thread;
	int64_t began;

	ledger_fixture_begin_with(&fix, "a");
	kube_store_fault(fix.store, STORE_SLOW, "PUT", STATUS_OF("a"), 2000, 1);
	assert_int_equal(pthread_create(&thread, NULL, take_slowly, &fix), 0);
	assert_true(api_wait(fix.api, "PUT", STATUS_OF("a"), 1));
	began = api_now_ms();
	assert_int_equal(ledger_take(&fix, "u1", "app c 1 10%", 400), ERR_REFUSED);
	assert_true(api_now_ms() - began < 700);
	assert_string_equal(fix.e.reason, "ApiServerAway");
	assert_int_equal(pthread_join(thread, NULL), 0);
	api_nap(200);
	assert_int_equal(kube_store_claims(fix.store, NULL, "u1"), 0);
	assert_int_equal(kube_store_claims(fix.store, NULL, "slow"), 1);
}

TEST(test_r3_api_server_away)
{
	int64_t began;

	ledger_fixture_begin_with(&fix, "a");
	api_down(fix.api);
	began = api_now_ms();
	assert_int_equal(ledger_take(&fix, "u1", "app c 1 100%", 600), ERR_REFUSED);
	assert_true(api_now_ms() - began < 900);
	assert_string_equal(fix.e.reason, "ApiServerAway");
	/* A refusal, too, needs the API server. */
	ASSERT_REFUSED(&fix, ledger_take(&fix, "u1", "app c 9 100%", 600), "ApiServerAway");
	api_up(fix.api);
	api_nap(300);
	assert_int_equal(kube_store_claims(fix.store, NULL, NULL), 0);
	ledger_must_take(&fix, "u2", "app c 1 100%");
}

/* The write lands after the answer was no: it is found and taken back. */
TEST(test_r3_write_lands_late)
{
	ledger_fixture_begin_with(&fix, "a");
	kube_store_fault(fix.store, STORE_CUT_LATE, "PUT", STATUS_OF("a"), 1500, 1);
	kube_store_fault(fix.store, STORE_FAIL, "PUT", STATUS_OF("a"), 0, -1);
	ASSERT_REFUSED(&fix, ledger_take(&fix, "u1", "app c 1 100%", 500), "ApiServerAway");
	kube_store_heal(fix.store);
	assert_int_equal(kube_store_writes(fix.store), 0);
	assert_true(kube_store_wait_claims(fix.store, NULL, "u1", 1));
	assert_true(kube_store_wait_claims(fix.store, NULL, "u1", 0));
	ledger_must_take(&fix, "u2", "app c 1 100%");
}

/* The same where the watch says nothing either, and this replica stops. */
TEST(test_r3_unknown_write_is_taken_back_when_stopping)
{
	ledger_fixture_begin_with(&fix, "a");
	kube_store_hush(fix.store);
	kube_store_fault(fix.store, STORE_SLOW, "PUT", STATUS_OF("a"), 1000, 1);
	assert_int_equal(ledger_take(&fix, "u1", "app c 1 100%", 300), ERR_REFUSED);
	assert_int_equal(kube_store_claims(fix.store, NULL, "u1"), 1);
	replica_release(&fix.r);
	assert_int_equal(kube_store_claims(fix.store, NULL, "u1"), 0);
	kube_store_mute(fix.store, false);
	ledger_fixture_begin(&fix);
}

/* Both parts stand, and the word that they are all lands after the answer was no. */
TEST(test_r3_the_last_word_lands_late)
{
	ledger_fixture_begin_with(&fix, "ab");
	kube_store_fault(fix.store, STORE_SLOW, "PUT", STATUS_OF("a"), 1, 1);
	kube_store_fault(fix.store, STORE_CUT_LATE, "PUT", STATUS_OF("a"), 1500, 1);
	kube_store_fault(fix.store, STORE_FAIL, "PUT", STATUS_OF("a"), 0, -1);
	ASSERT_REFUSED(&fix, ledger_take(&fix, "u1", "app c 2 100%", 500), "ApiServerAway");
	assert_int_equal(kube_store_claims(fix.store, NULL, "u1"), 2);
	api_nap(2000);
	kube_store_heal(fix.store);
	assert_true(kube_store_wait_claims(fix.store, NULL, "u1", 0));
	api_nap(500);
	ledger_must_take(&fix, "u2", "app c 2 100%");
	assert_int_equal(kube_store_claims(fix.store, NULL, NULL), 2);
}

/* ---- R4 ---- */

TEST(test_r4_stale_picture_refuses_nobody)
{
	size_t before;

	kube_store_server(fix.store, "a", 1, 16000, CLAIM("other", "other", "bound", "'a'", WHOLE));
	ledger_fixture_begin(&fix);
	kube_store_hush(fix.store);
	ledger_set_claims(&fix, "a", "");
	before = ledger_lists(&fix);
	ledger_must_take(&fix, "u1", "app c 1 100%");
	assert_int_equal(ledger_lists(&fix), before + 1);
}

/* ---- R14 ---- */

#define LISTS STORE_SERVERS

/* A review in a thread. */
struct waiting {
	pthread_t thread;
	const char *uid;
	int ms, rc;
	int64_t took_ms;
	char reason[32];
};

static void *waiting_main(void *arg)
{
	struct waiting *r = arg;
	struct claim_answer answer;
	struct err e = {0};
	struct arena a;
	int64_t began = api_now_ms();

	arena_init(&a, 1u << 26);
	r->rc = ledger_take_in(
		&fix.r, &a, r->uid, r->uid, "app c 1 100%", r->ms, false, &answer, &e);
	r->took_ms = api_now_ms() - began;
	(void)snprintf(r->reason, sizeof(r->reason), "%s", e.reason);
	arena_release(&a);
	return NULL;
}

static void waiting_begin(struct waiting *r, const char *uid, int ms)
{
	*r = (struct waiting){.uid = uid, .ms = ms};
	assert_int_equal(pthread_create(&r->thread, NULL, waiting_main, r), 0);
}

static void waiting_end(struct waiting *r)
{
	assert_int_equal(pthread_join(r->thread, NULL), 0);
}

static void begin_full(void)
{
	kube_store_server(fix.store, "a", 1, 16000, CLAIM("other", "other", "bound", "'a'", WHOLE));
	ledger_fixture_begin(&fix);
	api_nap(200);
}

/* Room that a watch shows is room, however long the list takes that a refusal would rest on. */
TEST(test_r14_a_yes_needs_no_list)
{
	struct waiting r;

	begin_full();
	kube_store_fault(fix.store, STORE_SLOW, "GET", LISTS, 2500, -1);
	waiting_begin(&r, "u1", 5000);
	api_nap(300);
	ledger_set_claims(&fix, "a", "");
	waiting_end(&r);
	assert_int_equal(r.rc, 0);
	assert_true(r.took_ms < 1500);
}

/* A list that fails is made again, and all who share it are none the worse. */
TEST(test_r14_one_500_refuses_nobody)
{
	struct waiting r[8];
	static const char *const uids[] = {"u0", "u1", "u2", "u3", "u4", "u5", "u6", "u7"};
	int yes = 0;

	begin_full();
	kube_store_mute(fix.store, true);
	ledger_set_claims(&fix, "a", "");
	kube_store_fault(fix.store, STORE_FAIL, "GET", LISTS, 0, 2);
	for (size_t i = 0; i < COUNT(r); i++)
		waiting_begin(&r[i], uids[i], 5000);
	for (size_t i = 0; i < COUNT(r); i++) {
		waiting_end(&r[i]);
		yes += r[i].rc == 0;
		if (r[i].rc != 0)
			assert_string_equal(r[i].reason, "NoCapacity");
	}
	assert_int_equal(yes, 1);
}

/* It has a time of its own, not that of the review that was first to want it. */
TEST(test_r14_a_list_outlives_who_wanted_it)
{
	struct waiting first, second;

	begin_full();
	kube_store_mute(fix.store, true);
	ledger_set_claims(&fix, "a", "");
	kube_store_fault(fix.store, STORE_SLOW, "GET", LISTS, 1000, -1);
	waiting_begin(&first, "u1", 400);
	waiting_end(&first);
	assert_string_equal(first.reason, "ApiServerAway");
	assert_true(first.took_ms < 800);
	api_nap(1200);
	waiting_begin(&second, "u2", 3000);
	waiting_end(&second);
	assert_int_equal(second.rc, 0);
	assert_true(second.took_ms < 800);
}

/* Who may not list is told at once. */
TEST(test_r14_a_list_that_is_forbidden)
{
	int64_t began;

	begin_full();
	kube_store_fault(fix.store, STORE_FORBID, "GET", LISTS, 0, -1);
	began = api_now_ms();
	ledger_must_refuse(&fix, "u1", "app c 1 100%", "ApiServerAway");
	assert_true(api_now_ms() - began < 1500);
}

/* ---- R5, R6 ---- */

TEST(test_r5_pending_is_not_replaced)
{
	kube_store_server(fix.store, "a", 1, 16000, CLAIM("old", "web-0", "pending", "'a'", WHOLE));
	ledger_fixture_begin(&fix);
	ASSERT_REFUSED(&fix, ledger_take_one(&fix, "new", "web-0", false), "NoCapacity");
	assert_int_equal(kube_store_claims(fix.store, "a", "old"), 1);
	assert_int_equal(ledger_puts(&fix), 0);
}

/* As the leader does, a moment after the review came. */
static void *write_later(void *claims)
{
	api_nap(300);
	ledger_set_claims(&fix, "a", claims);
	return NULL;
}

/* web-0 is gone, and its claim is not: the leader says whether it was seen to end (R13). */
static int64_t take_after(const char *claims, int *ret_rc)
{
	static char text[600];
	int64_t began = api_now_ms();
	pthread_t thread;

	(void)snprintf(text, sizeof(text), "%s", claims ? claims : "");
	if (claims)
		assert_int_equal(pthread_create(&thread, NULL, write_later, text), 0);
	*ret_rc = ledger_take_in(
		&fix.r, &fix.a, "new", "web-0", "app c 1 100%", 5000, false, &fix.answer, &fix.e);
	if (claims)
		(void)pthread_join(thread, NULL);
	return api_now_ms() - began;
}

TEST(test_r6_the_next_pod_of_a_name_waits_for_its_end)
{
	char *text;
	int rc;

	kube_store_server(fix.store, "a", 1, 16000, CLAIM("old", "web-0", "bound", "'a'", WHOLE));
	kube_store_pod(fix.store, "lab", "web-0", "old", "Running", NULL);
	ledger_fixture_begin(&fix);
	assert_true(take_after(NULL, &rc) < 1500);
	assert_int_equal(rc, ERR_REFUSED);
	assert_string_equal(fix.e.reason, "AlreadyExists");
	kube_store_pod(fix.store, "lab", "web-0", NULL, NULL, NULL);
	/* nobody says anything */
	assert_true(take_after(NULL, &rc) >= 1900);
	assert_int_equal(rc, ERR_REFUSED);
	assert_string_equal(fix.e.reason, "NoCapacity");
	assert_int_equal(kube_store_claims(fix.store, "a", "old"), 1);
	assert_int_equal(ledger_puts(&fix), 0);
	/* nor is another's end waited for */
	rc = ledger_take_one(&fix, "elsewhere", "web-1", false);
	assert_int_equal(rc, ERR_REFUSED);
	/* it ended */
	assert_true(take_after("", &rc) < 1900);
	assert_int_equal(rc, 0);
	assert_int_equal(kube_store_claims(fix.store, "a", "new"), 1);
	text = kube_store_text(fix.store, "a");
	assert_non_null(strstr(text, "\"grace\":7,"));
	free(text);
}

/* Force-deleted: what it holds may be in use. */
TEST(test_r13_a_claim_that_lingers_is_kept)
{
	int64_t ms;
	int rc;

	kube_store_server(fix.store, "a", 1, 16000, CLAIM("old", "web-0", "bound", "'a'", WHOLE));
	ledger_fixture_begin(&fix);
	ms = take_after(
		"{'uid':'old','namespace':'lab','name':'web-0','state':'bound','plan':"
		"'0000000000000005','since':'2026-01-01T00:00:00Z','take':'00000000000000aa',"
		"'lingers':'2026-01-01T00:10:00Z','servers':['a'],'gpus':[{'id':'gpu-0',"
		"'bytes':" WHOLE "}]}",
		&rc);
	assert_int_equal(rc, ERR_REFUSED);
	assert_string_equal(fix.e.reason, "NoCapacity");
	assert_true(ms < 1900);
	/* at once, now that it is known */
	assert_true(take_after(NULL, &rc) < 1500);
	assert_int_equal(rc, ERR_REFUSED);
	assert_int_equal(kube_store_claims(fix.store, "a", "old"), 1);
	assert_int_equal(ledger_puts(&fix), 0);
}

/* Somebody between us and the API server knows no such page: that says nothing about the pod. */
TEST(test_r6_only_the_api_server_says_that_a_pod_is_gone)
{
	kube_store_server(fix.store, "a", 1, 16000, CLAIM("old", "web-0", "bound", "'a'", WHOLE));
	kube_store_pod(fix.store, "lab", "web-0", "old", "Running", NULL);
	ledger_fixture_begin(&fix);
	api_expect(fix.api, "GET", "/api/v1/namespaces/lab/pods/web-0", 404, "404 page not found");
	assert_int_equal(ledger_take_one(&fix, "new", "web-0", false), ERR_REFUSED);
	assert_int_equal(api_left(fix.api), 0);
	assert_int_equal(kube_store_claims(fix.store, "a", "old"), 1);
}

/* ---- R12 ---- */

/* Five creates of a name that exists: the API server refuses them after us, and each would have
 * held its GPUs for 45 s. */
TEST(test_r12_a_name_that_is_taken)
{
	char uid[8];

	kube_store_server(fix.store, "a", 8, 16000, CLAIM("first", "web", "bound", "'a'", WHOLE));
	kube_store_pod(fix.store, "lab", "web", "first", "Running", NULL);
	ledger_fixture_begin(&fix);
	for (int i = 0; i < 5; i++) {
		(void)snprintf(uid, sizeof(uid), "u%d", i);
		ASSERT_REFUSED(&fix, ledger_take_one(&fix, uid, "web", false), "AlreadyExists");
		assert_non_null(strstr(fix.e.msg, "\"web\" already exists"));
	}
	assert_int_equal(ledger_puts(&fix), 0);
	/* the pod itself, asked about again */
	assert_int_equal(ledger_take_one(&fix, "first", "web", false), 0);
	/* a pending one that has been stored meanwhile, before anybody was told */
	ledger_set_claims(&fix, "a", CLAIM("second", "db", "pending", "'a'", WHOLE));
	kube_store_pod(fix.store, "lab", "db", "second", "Pending", NULL);
	/* as soon as the watch has told of that claim */
	for (int i = 0; i < 500 && ledger_take_one(&fix, "u9", "db", true) == 0; i++)
		api_nap(10);
	assert_string_equal(fix.e.reason, "AlreadyExists");
}

/* No pod of that name is stored, or nobody says so: either may win, and both are let in. */
TEST(test_r12_a_name_that_is_not_taken_yet)
{
	kube_store_server(fix.store, "a", 8, 16000, CLAIM("first", "web", "pending", "'a'", WHOLE));
	ledger_fixture_begin(&fix);
	assert_int_equal(ledger_take_one(&fix, "u1", "web", false), 0);
	kube_store_pod(fix.store, "lab", "web", "first", "Running", NULL);
	api_expect(fix.api, "GET", "/api/v1/namespaces/lab/pods/web", 500, "no");
	assert_int_equal(ledger_take_one(&fix, "u2", "web", false), 0);
	assert_int_equal(api_left(fix.api), 0);
	assert_int_equal(kube_store_claims(fix.store, "a", NULL), 3);
	/* Who has a name of his own asks nobody. */
	ledger_must_take(&fix, "u3", "app c 1 100%");
	assert_int_equal(api_seen_of(fix.api, "GET", "/api/v1/namespaces/lab/pods/u3"), 0);
}

/* As somebody else writes it, and seen. */
static void put_status(const char *text)
{
	kube_store_put(fix.store, "a", NULL, text, NULL);
	assert_int_equal(servers_refresh(fix.r.servers, clock_ms() + 5000, &fix.e), 0);
}

/* A namespace with quota 0: its pods are refused behind us. What it may hold pending is a quarter
 * of the pool, or one pod. */
TEST(test_r12_a_namespace_whose_pods_never_came)
{
	static const char status[] =
		"{'version':1,'gpus':[{'id':'gpu-0','model':'V100','memory':16000000000,'fit':true}"
		","
		"{'id':'gpu-1','model':'V100','memory':16000000000,'fit':true},"
		"{'id':'gpu-2','model':'V100','memory':16000000000,'fit':true},"
		"{'id':'gpu-3','model':'V100','memory':16000000000,'fit':true}],"
		"'claims':[%s],'phantoms':[{'namespace':'%s','since':'2026-11-21T09:30:00Z'}]}";
	char text[2000];
	size_t lists;

	kube_store_server(fix.store, "a", 4, 16000, "");
	(void)snprintf(text, sizeof(text), status, "", "elsewhere");
	kube_store_put(fix.store, "a", NULL, text, NULL);
	ledger_fixture_begin(&fix);
	assert_int_equal(metric_value(fix.r.metrics, M_PHANTOMS, 0, 0), 1);
	/* others are not concerned */
	ledger_must_take(&fix, "u1", "app c 3 100%");
	(void)snprintf(text, sizeof(text), status, "", "lab");
	put_status(text);
	/* one pod, however large; then none */
	ledger_must_take(&fix, "u2", "app c 2 100%");
	lists = ledger_lists(&fix);
	ledger_must_refuse(&fix, "u3", "app c 1 1%", "TooManyPending");
	assert_string_equal(fix.e.msg,
		"pods of namespace lab that were let in never came, so for ten minutes it may "
		"hold at most 16000 MB (25 % of the pool) for pods that are not stored yet: it "
		"holds 32000 MB, and this pod asks for 160 MB; find what refuses its pods (a "
		"ResourceQuota, another webhook, a name that exists), and create the pod again in "
		"a minute");
	/* by a list that is fresh (R4) */
	assert_true(ledger_lists(&fix) > lists);
	ledger_must_take(&fix, "u2", "app c 2 100%");
	/* what is stored does not count, what waits does, up to the bound */
	(void)snprintf(text, sizeof(text), status,
		CLAIM("u2", "u2", "bound", "'a'", WHOLE) "," CLAIM(
			"u4", "u4", "pending", "'a'", "0"),
		"lab");
	put_status(text);
	ledger_must_take(&fix, "u5", "app c 1 99%");
	ledger_must_take(&fix, "u6", "app c 1 1%");
	ledger_must_refuse(&fix, "u7", "app c 1 1%", "TooManyPending");
	assert_int_equal(ledger_take_in(&fix.r, &fix.a, "u8", "u8", "app c 1 1%", 5000, true,
				 &fix.answer, &fix.e),
		ERR_REFUSED);
	/* forgotten */
	(void)snprintf(text, sizeof(text), status, "", "elsewhere");
	put_status(text);
	ledger_must_take(&fix, "u9", "app c 2 100%");
	ledger_must_take(&fix, "u10", "app c 2 100%");
}

#define PHANTOM_OF_LAB(gpus)                                                                       \
	"{'version':1,'gpus':[" gpus "],'claims':[],'phantoms':[{'namespace':'lab',"               \
	"'since':'2026-11-21T09:30:00Z'}]}"
#define ONE_GPU(id) "{'id':'" id "','model':'V100','memory':16000000000,'fit':true}"

/* A review that commits one GPU of two, of which the API server says so after so long: what it has
 * reserved is in no status that this replica knows. */
static void begin_reserved(struct waiting *r, int ms)
{
	kube_store_server(fix.store, "a", 2, 16000, "");
	kube_store_put(
		fix.store, "a", NULL, PHANTOM_OF_LAB(ONE_GPU("gpu-0") "," ONE_GPU("gpu-1")), NULL);
	ledger_fixture_begin(&fix);
	kube_store_fault(fix.store, STORE_SLOW, "PUT", STATUS_OF("a"), ms, 1);
	waiting_begin(r, "u1", 8000);
	assert_true(api_wait(fix.api, "PUT", STATUS_OF("a"), 1));
}

/* What others of this replica are about to commit counts, too: before anything shows it, and once
 * where a list does. */
TEST(test_r12_what_is_about_to_be_committed_counts)
{
	struct waiting r;

	begin_reserved(&r, 2000);
	kube_store_mute(fix.store, true);
	ASSERT_REFUSED(&fix, ledger_take(&fix, "u2", "app c 1 1%", 5000), "TooManyPending");
	assert_non_null(strstr(fix.e.msg, "it holds 16000 MB, and this pod asks for 160 MB"));
	waiting_end(&r);
	assert_int_equal(r.rc, 0);
	assert_int_equal(kube_store_claims(fix.store, "a", "u2"), 0);
}

/* ---- R17 ---- */

/* What a probe has said counts while somebody leads, and counts at once when somebody leads again.
 */
TEST(test_r17_nobody_leads)
{
	kube_store_put(fix.store, "a", "{'address':'a:56001','probe':{'url':'https://a.lab:9443'}}",
		"{'version':1,'gpus':[{'id':'gpu-0','model':'V100','memory':17179869184,'fit':true}"
		"],'claims':[],'conditions':[{'type':'Fresh','status':'True','reason':"
		"'ProbeAnswered','message':'','lastTransitionTime':'2026-11-21T09:30:00Z'}]}",
		"['poolgate.io/claims']");
	kube_store_server(fix.store, "by-hand", 1, 16000, "");
	ledger_fixture_begin(&fix);
	servers_set_leaderless(fix.r.servers, true);
	assert_int_equal(ledger_take(&fix, "u1", "app c 2 10%", 5000), ERR_REFUSED);
	ledger_must_take(&fix, "u2", "app c 1 10%");
	assert_string_equal(fix.answer.parts[0].server, "by-hand");
	servers_set_leaderless(fix.r.servers, false);
	ledger_must_take(&fix, "u1", "app c 2 10%");
}

/* ---- R9, bounds, dry run ---- */

TEST(test_r9_no_finalizer_no_claims)
{
	kube_store_server(fix.store, "a", 1, 16000, "");
	kube_store_put(fix.store, "a", NULL, NULL, "[]");
	ledger_fixture_begin(&fix);
	assert_int_equal(ledger_take(&fix, "u1", "app c 1 10%", 5000), ERR_REFUSED);
	kube_store_put(fix.store, "a", NULL, NULL, "['poolgate.io/claims']");
	ledger_must_take(&fix, "u1", "app c 1 10%");
	/* This replica has not heard of the rest yet; the commit has. */
	kube_store_hush(fix.store);
	kube_store_delete(fix.store, "a");
	assert_int_equal(ledger_take(&fix, "u2", "app c 1 10%", 5000), ERR_REFUSED);
	assert_int_equal(kube_store_claims(fix.store, "a", "u2"), 0);
	assert_int_equal(kube_store_claims(fix.store, "a", "u1"), 1);
}

TEST(test_r9_made_anew)
{
	ledger_fixture_begin_with(&fix, "a");
	kube_store_hush(fix.store);
	kube_store_remove(fix.store, "a");
	ledger_must_refuse(&fix, "u1", "app c 1 10%", "NoServer");
	kube_store_put(fix.store, "a", SPEC, "{}", "[]");
	assert_int_equal(ledger_take(&fix, "u1", "app c 1 10%", 5000), ERR_REFUSED);
	assert_int_equal(kube_store_writes(fix.store), 0);
}

/* ---- R15 ---- */

/* A rename: the new one is made before the old one is gone. Nobody needs to have told this replica
 * so. */
TEST(test_r15_one_machine_under_two_names)
{
	struct pool_view v;

	kube_store_server(fix.store, "b", 1, 16000, CLAIM("x", "x", "bound", "'b'", "8000000000"));
	kube_store_server(fix.store, "a", 2, 16000, "");
	kube_store_put(fix.store, "a", SPEC_AT("B:56001", "2"), NULL, NULL);
	ledger_fixture_begin(&fix);
	ledger_must_refuse(&fix, "u1", "app c 1 60%", "NoCapacity");
	ledger_must_refuse(&fix, "u1", "app c 2 50%", "NoCapacity");
	assert_non_null(strstr(fix.e.msg, "beside 2 that cannot: 2 unfit (a/gpu-0: GPUServer b"));
	ledger_must_take(&fix, "u2", "app c 1 40%");
	assert_string_equal(fix.answer.parts[0].server, "b");
	assert_int_equal(fix.r.ledger->ops->view(fix.r.ledger, true, &fix.a, &v, &fix.e), 0);
	assert_string_equal(v.inventory.servers[0].gpus[1].why,
		"GPUServer b, which came first, has its address");
	/* what the API server hears of the status says so, too, and the old one's end opens the new
	 * one */
	kube_store_put(fix.store, "b", NULL, "{}", "[]");
	kube_store_delete(fix.store, "b");
	ledger_must_take(&fix, "u3", "app c 1 60%");
	assert_string_equal(fix.answer.parts[0].server, "a");
}

/* And a review that waits for room hears of it. */
TEST(test_r15_another_address_opens_it)
{
	kube_store_server(fix.store, "a", 1, 16000, CLAIM("x", "x", "bound", "'a'", WHOLE));
	kube_store_server(fix.store, "b", 1, 16000, "");
	kube_store_put(fix.store, "b", SPEC_AT("a:56001", "1"), NULL, NULL);
	ledger_fixture_begin(&fix);
	ledger_must_refuse(&fix, "u1", "app c 1 60%", "NoCapacity");
	kube_store_put(fix.store, "b", SPEC_AT("c:56001", "1"), NULL, NULL);
	ledger_must_take(&fix, "u1", "app c 1 60%");
	assert_string_equal(fix.answer.parts[0].server, "b");
}

/* Renamed and renamed back while this replica hears nothing: what its commit meets under the name
 * is another server, and of the older one it has not heard. */
TEST(test_r15_what_a_commit_meets_is_hearsay)
{
	ledger_fixture_begin_with(&fix, "a");
	kube_store_hush(fix.store);
	kube_store_remove(fix.store, "a");
	kube_store_server(fix.store, "b", 1, 16000, "");
	kube_store_put(fix.store, "b", SPEC_AT("a:56001", "1"), NULL, NULL);
	kube_store_server(fix.store, "a", 1, 16000, "");
	ledger_must_take(&fix, "u1", "app c 1 60%");
	assert_string_equal(fix.answer.parts[0].server, "b");
	assert_int_equal(kube_store_claims(fix.store, "a", NULL), 0);
}

/* Of a large pool the first servers are enough for an answer, and all of it is looked at where they
 * are not. */
TEST(test_w2_a_large_pool_could_ever)
{
	char name[8];

	for (int i = 0; i < 40; i++) {
		(void)snprintf(name, sizeof(name), "s%02d", i);
		kube_store_server(fix.store, name, 1, 16000,
			i < 39 ? CLAIM("x", "x", "bound", "'s'", WHOLE) : "");
	}
	ledger_fixture_begin(&fix);
	assert_int_equal(ledger_could_ever(&fix, "app c 2 100%", 5000), 0);
	assert_int_equal(ledger_could_ever(&fix, "app c 36 100%", 5000), 0);
	assert_int_equal(ledger_could_ever(&fix, "app c 41 100%", 5000), ERR_REFUSED);
}

TEST(test_256_claims)
{
	struct buf claims;

	buf_init(&claims, 1u << 20);
	for (int i = 0; i < 255; i++)
		buf_fmt(&claims,
			"%s{'uid':'o-%d','namespace':'lab','name':'o','state':'bound','plan':"
			"'0000000000000005','gpus':[{'id':'gpu-0','bytes':1000000}]}",
			i ? "," : "", i);
	kube_store_server(fix.store, "a", 1, 16000, claims.data);
	buf_release(&claims);
	ledger_fixture_begin(&fix);
	/* The last one is a large pod's: more than half of the GPU is free. */
	ledger_must_refuse(&fix, "u1", "app c 1 1", "NoCapacity");
	ledger_must_take(&fix, "u1", "app c 1 9000");
	assert_int_equal(ledger_take(&fix, "u2", "app c 1 1", 5000), ERR_REFUSED);
	assert_int_equal(kube_store_claims(fix.store, "a", NULL), 256);
}

TEST(test_dry_run)
{
	ledger_fixture_begin_with(&fix, "a");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ledger_take_one(&fix, "u1", "u1", true), 0);
		assert_int_equal(fix.answer.ticket, 0);
		assert_int_equal(fix.answer.n_parts, 1);
	}
	assert_int_equal(ledger_puts(&fix), 0);
	ledger_must_take(&fix, "u2", "app c 1 100%");
	assert_int_equal(ledger_take_one(&fix, "u3", "u3", true), ERR_REFUSED);
}

/* It is answered from what stands, which stays the review's that took it. */
TEST(test_dry_run_of_a_claim_that_stands)
{
	uint64_t ticket;
	size_t puts;

	ledger_fixture_begin_with(&fix, "a");
	ledger_must_take(&fix, "u1", "app c 1 100%");
	ticket = fix.answer.ticket;
	puts = ledger_puts(&fix);
	assert_int_equal(ledger_take_one(&fix, "u1", "u1", true), 0);
	assert_int_equal(fix.answer.ticket, 0);
	assert_int_equal(fix.answer.n_parts, 1);
	assert_int_equal(ledger_puts(&fix), puts);
	ledger_undo(&fix, ticket);
	assert_true(kube_store_wait_claims(fix.store, "a", "u1", 0));
}

TEST(test_no_uid_no_right_no_release)
{
	size_t n = 0;

	ledger_fixture_begin_with(&fix, "a");
	assert_int_equal(ledger_take(&fix, "", "app c 1 100%", 1000), ERR_INVALID);
	kube_store_fault(fix.store, STORE_FORBID, "PUT", STATUS_OF("a"), 0, -1);
	ledger_must_refuse(&fix, "u1", "app c 1 100%", "ApiServerAway");
	assert_int_equal(fix.r.ledger->ops->release(
				 fix.r.ledger, SLICE("u1"), SLICE("lab"), SLICE("u1"), &n, &fix.e),
		ERR_INVALID);
}

/* No API server sends these. Such a claim could not be asked for, and would stay; a long one would
 * fill the status' object in etcd. */
TEST(test_names_that_none_can_have)
{
	char longest[300];

	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	const char *const bad[][2] = {{"u1", ""}, {"u1", ".."}, {"u1", "a/b"}, {"u1", "a?x"},
		{"u1", longest}, {longest, "w"}, {"u 1", "w"}, {"\xc3\xa4", "w"}};
	ledger_fixture_begin_with(&fix, "a");
	for (size_t i = 0; i < COUNT(bad); i++)
		assert_int_equal(ledger_take_in(&fix.r, &fix.a, bad[i][0], bad[i][1],
					 "app c 1 100%", 1000, false, &fix.answer, &fix.e),
			ERR_INVALID);
	assert_int_equal(ledger_puts(&fix), 0);
	assert_int_equal(ledger_take_in(&fix.r, &fix.a, "u1", "w.0", "app c 1 100%", 1000, false,
				 &fix.answer, &fix.e),
		0);
}

TEST(test_view)
{
	struct pool_view v;
	size_t n[CLAIM_STATES];

	ledger_fixture_begin_with(&fix, "ab");
	assert_int_equal(fix.r.ledger->ops->view(fix.r.ledger, true, &fix.a, &v, &fix.e), 0);
	assert_int_equal(v.n_claims, 0);
	ledger_must_take(&fix, "u1", "app c 2 50%");
	ledger_must_take(&fix, "u0", "app c 1 25%");
	assert_int_equal(fix.r.ledger->ops->view(fix.r.ledger, true, &fix.a, &v, &fix.e), 0);
	assert_int_equal(v.inventory.n_servers, 2);
	assert_int_equal(v.n_claims, 2);
	assert_string_equal(v.claims[0].key, "u0");
	assert_string_equal(v.claims[1].key, "u1");
	assert_int_equal(v.claims[1].n_parts, 2);
	assert_int_equal(v.claims[0].n_parts, 1);
	assert_int_equal(v.claims[0].parts[0].bytes, 4000 * MB);
	for (size_t i = 0; i < 2; i++) {
		assert_string_equal(v.claims[1].parts[i].server, i == 0 ? "a" : "b");
		assert_string_equal(v.claims[1].parts[i].gpu, v.claims[0].parts[0].gpu);
		assert_int_equal(v.claims[1].parts[i].bytes, 8000 * MB);
	}
	assert_int_equal(v.claims[1].plan_hash, 5);
	assert_int_equal(v.claims[1].state, CLAIM_PENDING);
	assert_int_equal(v.usage.claimed[0] + v.usage.claimed[1], 20000 * MB);
	assert_int_equal(v.usage.pending[0] + v.usage.pending[1], 20000 * MB);
	fix.r.ledger->ops->count(fix.r.ledger, n);
	assert_int_equal(n[CLAIM_PENDING], 3); /* the one on two servers at each */
	assert_int_equal(n[CLAIM_BOUND] + n[CLAIM_ADOPTED], 0);
}

/* ---- W2 ---- */

/* It takes nothing, and a pool that is full now is no reason to refuse it. */
TEST(test_w2_full_and_could_ever)
{
	size_t lists, puts;

	ledger_fixture_begin_with(&fix, "a");
	ledger_must_take(&fix, "u1", "app c 1 100%");
	lists = ledger_lists(&fix);
	puts = ledger_puts(&fix);
	assert_int_equal(ledger_could_ever(&fix, "app c 1 100%", 5000), 0);
	assert_int_equal(ledger_lists(&fix), lists);
	assert_int_equal(ledger_puts(&fix), puts);
}

/* A no rests on a list that was begun after it was asked: the picture may be old. */
TEST(test_w2_never_rests_on_a_fresh_list)
{
	ledger_fixture_begin_with(&fix, "a");
	ASSERT_REFUSED(&fix, ledger_could_ever(&fix, "app c 2 100%", 5000), "NoCapacity");
	kube_store_mute(fix.store, true);
	kube_store_server(fix.store, "b", 2, 16000, "");
	assert_int_equal(ledger_could_ever(&fix, "app c 2 100%", 5000), 0);
}

/* Without a list in time nobody says never. */
TEST(test_w2_no_list_no_never)
{
	ledger_fixture_begin_with(&fix, "a");
	kube_store_fault(fix.store, STORE_FAIL, "GET", STORE_SERVERS, 0, -1);
	ASSERT_REFUSED(&fix, ledger_could_ever(&fix, "app c 2 100%", 600), "ApiServerAway");
}

/* ---- W6 ---- */

/* What is kept for a pod that waits is nobody's, whoever asks; and it is no claim. */
TEST(test_w6_what_is_kept_is_taken)
{
	struct pool_view view;
	char *text;

	ledger_fixture_begin_with(&fix, "a");
	kube_store_put(fix.store, "a", NULL,
		"{'version':1,'gpus':[{'id':'gpu-0','model':'V100','memory':16000000000,'fit':true}"
		"],'claims':[],'kept':[{'uid':'k','namespace':'n','name':'big','since':"
		"'2026-01-01T00:00:00Z','gpus':[{'id':'gpu-0','bytes':12000000000}]}]}",
		NULL);
	ledger_must_refuse(&fix, "u1", "app c 1 50%", "NoCapacity");
	ledger_must_take(&fix, "u2", "app c 1 25%");
	assert_int_equal(fix.r.ledger->ops->view(fix.r.ledger, false, &fix.a, &view, &fix.e), 0);
	assert_int_equal(view.usage.claimed[0], 4000 * MB);
	/* and a claim writes it again */
	text = kube_store_text(fix.store, "a");
	assert_non_null(strstr(text, "\"kept\":[{\"uid\":\"k\""));
	free(text);
}

TESTS_BETWEEN(set_up, tear_down, test_w6_what_is_kept_is_taken, test_w2_full_and_could_ever,
	test_w2_never_rests_on_a_fresh_list, test_w2_no_list_no_never,
	test_r1_same_uid_is_answered_from_its_claim, test_r1_other_replica_answers_from_it_too,
	test_r2_lost_answers, test_r2_second_server_is_full,
	test_r2_second_server_is_full_and_a_third_is_not, test_r2_server_is_broken,
	test_r2_conflict_storm, test_r3_undo_ends_that_take, test_r3_undo_of_nothing,
	test_r3_undo_of_what_is_gone_counts_nothing, test_r3_stopping_takes_back,
	test_r3_deadline_in_the_middle, test_r3_no_deadline, test_r3_deadline_while_another_hangs,
	test_r3_api_server_away, test_r3_write_lands_late,
	test_r3_unknown_write_is_taken_back_when_stopping, test_r4_stale_picture_refuses_nobody,
	test_r14_a_yes_needs_no_list, test_r14_one_500_refuses_nobody,
	test_r14_a_list_outlives_who_wanted_it, test_r14_a_list_that_is_forbidden,
	test_r5_pending_is_not_replaced, test_r6_the_next_pod_of_a_name_waits_for_its_end,
	test_r13_a_claim_that_lingers_is_kept, test_r6_only_the_api_server_says_that_a_pod_is_gone,
	test_r12_a_name_that_is_taken, test_r12_a_name_that_is_not_taken_yet,
	test_r12_a_namespace_whose_pods_never_came, test_r17_nobody_leads,
	test_r9_no_finalizer_no_claims, test_r9_made_anew, test_r15_one_machine_under_two_names,
	test_r15_another_address_opens_it, test_r15_what_a_commit_meets_is_hearsay, test_256_claims,
	test_w2_a_large_pool_could_ever, test_r3_the_last_word_lands_late,
	test_r12_what_is_about_to_be_committed_counts, test_dry_run,
	test_dry_run_of_a_claim_that_stands, test_no_uid_no_right_no_release,
	test_names_that_none_can_have, test_view)
