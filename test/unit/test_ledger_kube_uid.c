/* SPDX-License-Identifier: Apache-2.0 */
/* test: one uid at two replicas, or after a half claim: one claim, once, and nobody's "allowed"
 * loses what it rests on (rules R1, R3). */
#include <pthread.h>
#include <stdlib.h>

#include "test/unit/ledger_fixture.h"
#include "test/unit/test.h"

#define PART_OF(take) CLAIM_OF("u1", "u1", "pending", "'a','b'", WHOLE, take)
#define PART PART_OF("aa")
#define OPEN                                                                                       \
	"{'uid':'u1','namespace':'lab','name':'u1','state':'pending','plan':'0000000000000005',"   \
	"'since':'2026-01-01T00:00:00Z','take':'00000000000000aa','servers':['a','b'],"            \
	"'open':true,'gpus':[{'id':'gpu-0','bytes':16000000000}]}"

static struct ledger_fixture fix;

FIXTURES(ledger_fixture_init, ledger_fixture_release)

/* Servers a and b with these claims; then the replica begins. */
static void begin_with_claims(const char *a, const char *b)
{
	kube_store_server(fix.store, "a", 1, 16000, a);
	kube_store_server(fix.store, "b", 1, 16000, b);
	ledger_fixture_begin(&fix);
}

TEST(test_r1_half_claim_is_no_claim)
{
	begin_with_claims(PART, "");
	/* What it holds of the half one does not stand in its own way. Somebody else's reply may
	 * rest on it all the same. */
	ledger_must_take(&fix, "u1", "app c 2 100%");
	assert_int_equal(fix.answer.ticket, 0);
	assert_int_equal(fix.answer.n_parts, 2);
	assert_int_equal(kube_store_claims(fix.store, "a", "u1"), 1);
	assert_int_equal(kube_store_claims(fix.store, "b", "u1"), 1);
	ledger_must_take(&fix, "u1", "app c 2 100%");
	assert_int_equal(fix.answer.ticket, 0);
}

/* A review that has little time waits half of that, and has the rest for its claim: on a machine
 * that stands still, at the second try or the third. */
TEST(test_r1_half_claim_and_little_time)
{
	int rc = ERR_REFUSED;

	begin_with_claims(PART, "");
	for (int i = 0; i < 5 && rc != 0; i++)
		rc = ledger_take(&fix, "u1", "app c 2 100%", 1900);
	assert_int_equal(rc, 0);
}

/* The half that the new claim does not use goes at once, and not only when the leader looks. */
TEST(test_r1_half_claim_elsewhere_goes)
{
	kube_store_server(fix.store, "a", 1, 16000,
		CLAIM("u1", "u1", "pending", "'a','c'", "8000000000") "," CLAIM(
			"other", "other", "bound", "'a'", "8000000000"));
	ledger_fixture_begin_with(&fix, "b");
	ledger_must_take(&fix, "u1", "app c 1 100%");
	assert_string_equal(fix.answer.parts[0].server, "b");
	assert_true(kube_store_wait_claims(fix.store, "a", "u1", 0));
	assert_int_equal(kube_store_claims(fix.store, "a", "other"), 1);
	assert_int_equal(kube_store_claims(fix.store, "b", "u1"), 1);
}

static void *take_u1(void *arg)
{
	(void)arg;
	ledger_must_take(&fix, "u1", "app c 2 100%");
	return NULL;
}

/* A half claim that becomes whole: the other review was only in between. */
TEST(test_r1_half_claim_is_waited_for)
{
	pthread_t thread;

	begin_with_claims(PART, "");
	assert_int_equal(pthread_create(&thread, NULL, take_u1, NULL), 0);
	api_nap(300);
	assert_int_equal(ledger_puts(&fix), 0);
	ledger_set_claims(&fix, "b", PART);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(fix.answer.ticket, 0);
	assert_int_equal(fix.answer.n_parts, 2);
	/* Two parts, taken over. */
	assert_int_equal(ledger_puts(&fix), 2);
}

/* All parts are there, and their owner has not said yet that they are all: another review waits for
 * that word. */
TEST(test_r19_open_claim_is_waited_for)
{
	pthread_t thread;

	begin_with_claims(OPEN, PART);
	assert_int_equal(pthread_create(&thread, NULL, take_u1, NULL), 0);
	api_nap(300);
	assert_int_equal(ledger_puts(&fix), 0);
	ledger_set_claims(&fix, "a", PART);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(fix.answer.ticket, 0);
	assert_int_equal(ledger_puts(&fix), 2);
}

/* Nobody says it: another claim takes its place, the first part before all others; and is whole in
 * its turn. */
TEST(test_r19_open_claim_is_replaced)
{
	char *text;

	begin_with_claims(OPEN, PART);
	ledger_must_take(&fix, "u1", "app c 2 100%");
	assert_int_equal(fix.answer.n_parts, 2);
	/* The old one goes from a; a, b and the word on a again. */
	assert_int_equal(ledger_puts(&fix), 4);
	text = kube_store_text(fix.store, "a");
	assert_null(strstr(text, "open"));
	free(text);
}

static void *take_slowly(void *arg)
{
	(void)arg;
	assert_int_equal(ledger_take(&fix, "u1", "app c 2 100%", 20000), 0);
	return NULL;
}

/* An answer that waits for api_let_go(). */
#define HELD_MS 30000

static bool said_while_it_is_replaced(void)
{
	pthread_t thread;
	size_t lists;
	bool well;
	char *text;

	begin_with_claims(OPEN, PART);
	lists = ledger_lists(&fix);
	kube_store_fault(fix.store, STORE_SLOW, "GET", STORE_SERVERS, HELD_MS, 1);
	assert_int_equal(pthread_create(&thread, NULL, take_slowly, NULL), 0);
	well = api_wait(fix.api, "GET", STORE_SERVERS "?limit=*", lists + 1);
	kube_store_mute(fix.store, true);
	ledger_set_claims(&fix, "a", PART);
	api_let_go(fix.api, "GET", STORE_SERVERS "?*");
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(fix.answer.ticket, 0);
	assert_int_equal(fix.answer.n_parts, 2);
	text = kube_store_text(fix.store, "a");
	if (well)
		assert_non_null(strstr(text, "2026-01-01T00:00:00Z"));
	free(text);
	text = kube_store_text(fix.store, "b");
	assert_non_null(strstr(text, "2026-01-01T00:00:00Z"));
	free(text);
	return well;
}

/* The word that its parts are all comes behind the list by which another review is about to replace
 * it: the first part stays, and that review is answered from what is whole now. */
TEST(test_r19_said_while_it_is_replaced)
{
	assert_true(ledger_in_time(&fix, said_while_it_is_replaced));
}

/* A claim ends while a review takes it over, part by part: what bears that review's take by then
 * goes, also where it is answered from another claim of its uid. */
TEST(test_r1_ends_while_it_is_taken_over)
{
	static const char first[] = PART;
	static const char second[] = CLAIM_OF("u1", "u1", "pending", "'c','d'", WHOLE, "bb");

	kube_store_server(fix.store, "a", 1, 16000, first);
	kube_store_server(fix.store, "b", 1, 16000, first);
	kube_store_server(fix.store, "c", 1, 16000, second);
	kube_store_server(fix.store, "d", 1, 16000, second);
	ledger_fixture_begin(&fix);
	kube_store_hush(fix.store);
	ledger_set_claims(&fix, "b", "");
	ledger_must_take(&fix, "u1", "app c 2 100%");
	assert_string_equal(fix.answer.parts[0].server, "c");
	assert_true(kube_store_wait_claims(fix.store, "a", "u1", 0));
	assert_int_equal(kube_store_claims(fix.store, NULL, "u1"), 2);
}

/* Until this replica knows the server's last state; false after 5 s. */
static bool told_of(const char *server)
{
	char *text = kube_store_text(fix.store, server);
	char *at = strstr(text, "\"resourceVersion\":\"");
	uint64_t version;
	bool told = false;

	assert_non_null(at);
	version = strtoull(at + strlen("\"resourceVersion\":\""), NULL, 10);
	free(text);
	for (int i = 0; i < 1000 && !told; i++) {
		if (i)
			api_nap(5);
		told = servers_version(fix.r.servers, server) >= version;
	}
	return told;
}

static bool replaced_while_it_is_taken_over(void)
{
	static const char anew[] = PART_OF("bb");
	pthread_t thread;
	bool well;

	begin_with_claims(PART, PART);
	kube_store_fault(fix.store, STORE_SLOW, "PUT", STATUS_OF("a"), HELD_MS, 1);
	assert_int_equal(pthread_create(&thread, NULL, take_slowly, NULL), 0);
	assert_true(api_wait(fix.api, "PUT", STATUS_OF("a"), 1));
	ledger_set_claims(&fix, "a", OPEN);
	ledger_set_claims(&fix, "b", anew);
	well = told_of("b") && api_seen_of(fix.api, "PUT", STATUS_OF("b")) == 0;
	api_let_go(fix.api, "PUT", STATUS_OF("a"));
	api_nap(500);
	ledger_set_claims(&fix, "a", anew);
	well = well && ledger_puts(&fix) == 1;
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(fix.answer.ticket, 0);
	return well;
}

/* Behind the first part that a review takes over another review puts a claim of its own over the
 * same servers in the place of that one: it is not whole until its owner says so. */
TEST(test_r19_replaced_while_it_is_taken_over)
{
	assert_true(ledger_in_time(&fix, replaced_while_it_is_taken_over));
}

/* Servers a and b with so many GPUs; c is about to take something back, and what else is to be
 * waits for it so long. */
static void begin_busy(unsigned gpus, int ms)
{
	kube_store_server(fix.store, "a", gpus, 16000, "");
	kube_store_server(fix.store, "b", gpus, 16000, "");
	kube_store_server(fix.store, "c", 1, 8000, "");
	ledger_fixture_begin(&fix);
	ledger_must_take(&fix, "busy", "app c 1 8000");
	assert_string_equal(fix.answer.parts[0].server, "c");
	kube_store_fault(fix.store, STORE_SLOW, "PUT", STATUS_OF("c"), ms, 1);
	ledger_undo(&fix, fix.answer.ticket);
	assert_true(api_wait(fix.api, "PUT", STATUS_OF("c"), 2));
}

static bool taken_over_while_it_is_given_back(void)
{
	static const char theirs[] = PART_OF("cc");
	pthread_t thread;
	size_t lists;
	bool well;
	char *text;

	begin_busy(1, HELD_MS);
	kube_store_fault(fix.store, STORE_SLOW, "PUT", STATUS_OF("a"), 1, 1);
	kube_store_fault(fix.store, STORE_SLOW, "PUT", STATUS_OF("a"), HELD_MS, 1);
	assert_int_equal(pthread_create(&thread, NULL, take_slowly, NULL), 0);
	assert_true(api_wait(fix.api, "PUT", STATUS_OF("a"), 2));
	lists = ledger_lists(&fix);
	kube_store_fault(fix.store, STORE_SLOW, "GET", STORE_SERVERS, HELD_MS, 1);
	ledger_set_claims(&fix, "a", theirs);
	well = told_of("a");
	api_let_go(fix.api, "PUT", STATUS_OF("a"));
	well = well && api_wait(fix.api, "GET", STORE_SERVERS "?limit=*", lists + 1);
	kube_store_mute(fix.store, true);
	ledger_set_claims(&fix, "b", theirs);
	well = well && api_seen_of(fix.api, "PUT", STATUS_OF("b")) == 1;
	api_let_go(fix.api, "GET", STORE_SERVERS "?*");
	assert_int_equal(pthread_join(thread, NULL), 0);
	api_let_go(fix.api, "PUT", STATUS_OF("c"));
	well = well && fix.answer.ticket == 0;
	text = kube_store_text(fix.store, "a");
	if (well)
		assert_non_null(strstr(text, "2026-01-01T00:00:00Z"));
	free(text);
	return well;
}

/* Another review takes this one's claim over before it has heard that it is whole, so that it gives
 * its own parts back; and has just the first when this one is about to put another claim in the
 * place of what looks like a half one. */
TEST(test_r19_taken_over_while_it_is_given_back)
{
	assert_true(ledger_in_time(&fix, taken_over_while_it_is_given_back));
}

/* A claim on one server needs no word; one on two is open until its last part stands. */
TEST(test_r19_two_servers_take_one_more_write)
{
	ledger_fixture_begin_with(&fix, "abc");
	ledger_must_take(&fix, "u1", "app c 1 100%");
	assert_int_equal(ledger_puts(&fix), 1);
	ledger_must_take(&fix, "u2", "app c 2 100%");
	assert_int_equal(ledger_puts(&fix), 4);
	assert_int_equal(fix.answer.n_parts, 2);
}

/* Its owner has given up that half, and is about to make another one whole: so long as he is at
 * work nothing of his is replaced. */
TEST(test_r1_half_claim_made_anew_is_waited_for)
{
	static const char anew[] = PART_OF("bb");
	pthread_t thread;

	begin_with_claims(PART, "");
	assert_int_equal(pthread_create(&thread, NULL, take_u1, NULL), 0);
	api_nap(1500);
	ledger_set_claims(&fix, "a", anew);
	api_nap(1000);
	assert_int_equal(ledger_puts(&fix), 0);
	ledger_set_claims(&fix, "b", anew);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(fix.answer.ticket, 0);
	assert_int_equal(ledger_puts(&fix), 2);
}

/* The same by a picture that lags: by a list alone it is half. */
TEST(test_r1_half_by_a_stale_picture)
{
	kube_store_server(fix.store, "a", 1, 16000, PART);
	kube_store_server(fix.store, "b", 1, 16000, "");
	kube_store_server(fix.store, "c", 2, 16000, "");
	ledger_fixture_begin(&fix);
	kube_store_hush(fix.store);
	ledger_set_claims(&fix, "b", PART);
	assert_int_equal(ledger_take(&fix, "u1", "app c 2 100%", 9000), 0);
	assert_int_equal(fix.answer.ticket, 0);
	assert_string_equal(fix.answer.parts[0].server, "a");
	assert_string_equal(fix.answer.parts[1].server, "b");
	assert_int_equal(kube_store_claims(fix.store, "c", "u1"), 0);
}

static void *take_other(void *ret_rc)
{
	struct claim_answer answer;
	struct arena a;
	struct err e = {0};

	arena_init(&a, 1u << 24);
	*(int *)ret_rc = ledger_take_in(
		&fix.r, &a, "other", "other", "app c 1 100%", 9000, false, &answer, &e);
	arena_release(&a);
	return NULL;
}

/* What another review of this replica tries to commit may come to nothing: it is waited for also
 * where the rest of the room is what the pod holds itself, by halves. */
TEST(test_r4_half_claim_and_a_reservation_refuse_nobody)
{
	/* After a half claim was waited for, and before the time is over. */
	const struct api_reply no = {.status = 422, .delay_ms = 3200};
	pthread_t thread;
	int rc = 0;

	kube_store_server(fix.store, "a", 1, 16000, CLAIM("u1", "u1", "pending", "'a','c'", WHOLE));
	ledger_fixture_begin_with(&fix, "b");
	api_expect_reply(fix.api, "PUT", STATUS_OF("b"), &no);
	assert_int_equal(pthread_create(&thread, NULL, take_other, &rc), 0);
	assert_true(api_wait(fix.api, "PUT", STATUS_OF("b"), 1));
	assert_int_equal(ledger_take(&fix, "u1", "app c 2 100%", 8000), 0);
	assert_int_equal(fix.answer.n_parts, 2);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(rc, ERR_REFUSED);
}

#define TWO_GPUS                                                                                   \
	"{'version':1,'gpus':["                                                                    \
	"{'id':'gpu-0','model':'V100','memory':16000000000,'fit':true},"                           \
	"{'id':'gpu-1','model':'V100','memory':16000000000,'fit':true}],'claims':["                \
	"{'uid':'u1','namespace':'lab','name':'u1','state':'pending',"                             \
	"'plan':'0000000000000005','since':'2026-01-01T00:00:00Z','take':'00000000000000aa',"      \
	"'servers':['a','b'],'gpus':["
#define HELD(gpu) "{'id':'" gpu "','bytes':" WHOLE "}"

static void *take_three(void *arg)
{
	(void)arg;
	ledger_must_take(&fix, "u1", "app c 3 100%");
	return NULL;
}

/* Another review of this uid waited for long, and puts its own parts in the place of ours, on the
 * same servers, but one GPU on the first and two on the second. What is ours on the second and its
 * on the first are no claim: they are two GPUs of three. */
TEST(test_r1_parts_of_two_reviews_are_no_claim)
{
	pthread_t thread;

	begin_busy(2, 1500);
	kube_store_fault(fix.store, STORE_SLOW, "PUT", STATUS_OF("a"), 300, 1);
	assert_int_equal(pthread_create(&thread, NULL, take_three, NULL), 0);
	assert_true(kube_store_wait_claims(fix.store, "a", "u1", 1));
	kube_store_put(fix.store, "a", NULL, TWO_GPUS HELD("gpu-0") "]}]}", NULL);
	assert_true(kube_store_wait_claims(fix.store, "b", "u1", 1));
	api_nap(500);
	kube_store_put(fix.store, "b", NULL, TWO_GPUS HELD("gpu-0") "," HELD("gpu-1") "]}]}", NULL);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(fix.answer.n_parts, 3);
	assert_int_equal(fix.answer.ticket, 0);
}

/* One uid reviewed by two replicas, and this one has not heard of the other's commit: its own must
 * not take that one's place, or taking it back would end what the other's "allowed" rests on. */
TEST(test_r1_two_replicas_one_server)
{
	struct replica other;
	uint64_t first, second;

	ledger_fixture_begin_with(&fix, "a");
	replica_init(&other, fix.store);
	kube_store_hush(fix.store);
	ledger_must_take(&fix, "u1", "app c 1 100%");
	first = fix.answer.ticket;
	assert_int_not_equal(first, 0);
	assert_int_equal(ledger_take_in(&other, &fix.a, "u1", "u1", "app c 1 100%", 5000, false,
				 &fix.answer, &fix.e),
		0);
	second = fix.answer.ticket;
	assert_int_equal(second, 0);
	other.ledger->ops->undo(other.ledger, second);
	ledger_undo(&fix, first);
	api_nap(300);
	assert_int_equal(kube_store_claims(fix.store, "a", "u1"), 1);
	replica_release(&other);
}

/* Once that PUT is on its way the replicas hear what has happened. */
static void *unmute(void *path)
{
	assert_true(api_wait(fix.api, "PUT", path, 1));
	kube_store_mute(fix.store, false);
	return NULL;
}

/* Two replicas that see different pools choose different servers for one uid. Whoever hears of it
 * before he answers sees to it that one claim is left, and both choose the one with the first
 * server by name. */
static void two_servers(const char *first, const char *second, const char *stays)
{
	struct replica other;
	char path[128];
	pthread_t thread;

	kube_store_server(fix.store, "a", 1, 16000, "");
	kube_store_server(fix.store, "b", 1, 16000, "");
	ledger_set_claims(&fix, first, CLAIM("x", "x", "bound", "'a'", WHOLE));
	/* This one believes that `first` is full. */
	ledger_fixture_begin(&fix);
	kube_store_hush(fix.store);
	ledger_set_claims(&fix, first, "");
	ledger_set_claims(&fix, second, CLAIM("y", "y", "bound", "'b'", WHOLE));
	/* And the other that `second` is. */
	replica_init(&other, fix.store);
	ledger_set_claims(&fix, second, "");
	assert_int_equal(ledger_take_in(&other, &fix.a, "u1", "u1", "app c 1 100%", 5000, false,
				 &fix.answer, &fix.e),
		0);
	assert_string_equal(fix.answer.parts[0].server, first);
	(void)snprintf(path, sizeof(path), STORE_SERVERS "/%s/status", second);
	kube_store_fault(fix.store, STORE_SLOW, "PUT", path, 700, -1);
	assert_int_equal(pthread_create(&thread, NULL, unmute, path), 0);
	ledger_must_take(&fix, "u1", "app c 1 100%");
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(fix.answer.ticket, 0);
	assert_int_equal(fix.answer.n_parts, 1);
	assert_string_equal(fix.answer.parts[0].server, stays);
	assert_true(kube_store_wait_claims(fix.store, NULL, "u1", 1));
	assert_int_equal(kube_store_claims(fix.store, stays, "u1"), 1);
	replica_release(&other);
}

TEST(test_r1_two_replicas_the_first_stays)
{
	two_servers("a", "b", "a");
}

TEST(test_r1_two_replicas_the_second_stays)
{
	two_servers("b", "a", "a");
}

struct twin {
	struct replica *r;
	const char *uid, *demand;
	uint64_t ticket;
	int rc;
};

static void *one_twin(void *arg)
{
	struct twin *t = arg;
	struct claim_answer answer;
	struct arena a;
	struct err e = {0};

	arena_init(&a, 1u << 24);
	t->rc = ledger_take_in(t->r, &a, t->uid, t->uid, t->demand, 8000, false, &answer, &e);
	t->ticket = t->rc == 0 ? answer.ticket : 0;
	arena_release(&a);
	return NULL;
}

/* What a sent "allowed" rests on stands at every moment, whole. What is more than that goes soon,
 * as nobody's reply rests on it. */
static void one_claim_is_left(const char *uid, size_t servers)
{
	int64_t end = api_now_ms() + 10000;
	size_t have;

	while ((have = kube_store_claims(fix.store, NULL, uid)) > servers && api_now_ms() < end)
		api_nap(5);
	if (have == servers) {
		api_nap(50);
		have = kube_store_claims(fix.store, NULL, uid);
	}
	if (have != servers)
		fail_msg("%s is on %zu servers", uid, have);
}

/* The same uid at both replicas at once, again and again. Of two in three the reply of one is never
 * sent: the other's claim stands, once. Where both are sent, both claims may stand, on servers of
 * their own: neither replica heard of the other in time, and only the leader, who sees the pod and
 * its plan, may say which one is too many. */
static void twins(const char *demand, size_t servers)
{
	struct replica other;

	ledger_fixture_begin_with(&fix, "abc");
	replica_init(&other, fix.store);
	for (unsigned i = 0; i < 12; i++) {
		char uid[32];
		struct twin t[2] = {
			{.r = &fix.r, .demand = demand}, {.r = &other, .demand = demand}};
		pthread_t threads[2];
		size_t lost = i % 3, have;

		(void)snprintf(uid, sizeof(uid), "twin-%u", i);
		for (size_t k = 0; k < 2; k++) {
			t[k].uid = uid;
			assert_int_equal(pthread_create(&threads[k], NULL, one_twin, &t[k]), 0);
		}
		for (size_t k = 0; k < 2; k++)
			assert_int_equal(pthread_join(threads[k], NULL), 0);
		assert_int_equal(t[0].rc, 0);
		assert_int_equal(t[1].rc, 0);
		if (lost < 2) {
			t[lost].r->ledger->ops->undo(t[lost].r->ledger, t[lost].ticket);
			one_claim_is_left(uid, servers);
			continue;
		}
		api_nap(100);
		have = kube_store_claims(fix.store, NULL, uid);
		if (have < servers || have > 2 * servers)
			fail_msg("%s is on %zu servers", uid, have);
	}
	replica_release(&other);
}

TEST(test_r1_twins)
{
	twins("app c 1 5%", 1);
}

TEST(test_r1_twins_on_two_servers)
{
	twins("app c 2 5%", 2);
}

TESTS_BETWEEN(set_up, tear_down, test_r1_half_claim_is_no_claim, test_r1_half_claim_and_little_time,
	test_r1_half_claim_elsewhere_goes, test_r1_half_claim_is_waited_for,
	test_r19_open_claim_is_waited_for, test_r19_open_claim_is_replaced,
	test_r19_said_while_it_is_replaced, test_r1_ends_while_it_is_taken_over,
	test_r19_replaced_while_it_is_taken_over, test_r19_taken_over_while_it_is_given_back,
	test_r19_two_servers_take_one_more_write, test_r1_half_claim_made_anew_is_waited_for,
	test_r1_half_by_a_stale_picture, test_r4_half_claim_and_a_reservation_refuse_nobody,
	test_r1_parts_of_two_reviews_are_no_claim, test_r1_two_replicas_one_server,
	test_r1_two_replicas_the_first_stays, test_r1_two_replicas_the_second_stays, test_r1_twins,
	test_r1_twins_on_two_servers)
