/* SPDX-License-Identifier: Apache-2.0 */
/* test: many reviews at once, on one replica and on three: exactly what fits is admitted, and the
 * API server is asked as rarely as can be (rules R2, R4). */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "test/unit/ledger_fixture.h"
#include "test/unit/test.h"

#define THREADS_MAX 64

struct crowd {
	struct replica *replicas[3];
	size_t n_replicas;
	const char *demand;
	int tries, ms;
	atomic_uint number, yes, refused, other;
};

static void *one_of_crowd(void *arg)
{
	struct crowd *c = arg;
	unsigned me = atomic_fetch_add(&c->number, 1);
	struct claim_answer answer;
	struct arena a;
	struct err e = {0};
	int rc = ERR_REFUSED;

	arena_init(&a, 1u << 26);
	for (int i = 0; i < c->tries && rc == ERR_REFUSED; i++) {
		char uid[32];

		arena_reset(&a);
		if (i)
			api_nap(50);
		/* Who creates a pod again gets another uid. */
		(void)snprintf(uid, sizeof(uid), "crowd-%u-%d", me, i);
		rc = ledger_take_in(c->replicas[me % c->n_replicas], &a, uid, uid, c->demand, c->ms,
			false, &answer, &e);
	}
	if (rc != 0 && (rc != ERR_REFUSED || strcmp(e.reason, "NoCapacity") != 0)) {
		print_error("%d %s: %s\n", rc, e.reason, e.msg);
		atomic_fetch_add(&c->other, 1);
	}
	atomic_fetch_add(rc == 0 ? &c->yes : &c->refused, 1);
	arena_release(&a);
	return NULL;
}

static void run_crowd(struct crowd *c, size_t n)
{
	pthread_t threads[THREADS_MAX];

	for (size_t i = 0; i < n; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, one_of_crowd, c), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static struct ledger_fixture fix;

FIXTURE(set_up)
{
	ledger_fixture_init(&fix);
	return 0;
}

FIXTURE(tear_down)
{
	ledger_fixture_release(&fix);
	ledger_at_once = 0;
	return 0;
}

TEST(test_r4_refusals_share_lists)
{
	struct crowd c = {.n_replicas = 1, .demand = "app c 1 100%", .tries = 1, .ms = 5000};
	size_t before;
	int64_t began;

	kube_store_server(fix.store, "a", 1, 16000, CLAIM("other", "other", "bound", "'a'", WHOLE));
	ledger_fixture_begin(&fix);
	c.replicas[0] = &fix.r;
	before = ledger_lists(&fix);
	began = api_now_ms();
	run_crowd(&c, 16);
	assert_int_equal(c.refused, 16);
	assert_int_equal(c.other, 0);
	assert_true(ledger_lists(&fix) > before);
	assert_true((int64_t)(ledger_lists(&fix) - before) <= 1 + (api_now_ms() - began) / 250);
	assert_true(ledger_lists(&fix) - before <= 4);
	assert_int_equal(ledger_puts(&fix), 0);
}

/* A review that needs more than this replica's picture has: it has a list made, which takes long to
 * come. */
struct patient {
	pthread_t thread;
	const char *demand;
	struct claim_answer answer;
	struct arena a;
	struct err e;
	int rc;
};

static void *be_patient(void *arg)
{
	struct patient *p = arg;

	p->rc = ledger_take_in(
		&fix.r, &p->a, "patient", "patient", p->demand, 9000, false, &p->answer, &p->e);
	return NULL;
}

static void begin_patient(struct patient *p, int list_ms)
{
	size_t before = ledger_lists(&fix);
	bool asked;

	arena_init(&p->a, 1u << 26);
	kube_store_fault(fix.store, STORE_SLOW, "GET", STORE_SERVERS, list_ms, 1);
	assert_int_equal(pthread_create(&p->thread, NULL, be_patient, p), 0);
	/* It shows what there is now. */
	asked = api_wait(fix.api, "GET", STORE_SERVERS "?limit=*", before + 1);
	if (!asked)
		(void)pthread_join(p->thread, NULL);
	assert_true(asked);
}

static void end_patient(struct patient *p)
{
	assert_int_equal(pthread_join(p->thread, NULL), 0);
	arena_release(&p->a);
}

#define LIST_MS 700

/* The list shows room on a alone. Then b is freed, and this replica fills a: it knows of a what is
 * newer than b's end, of which nothing has told it. False: the machine stood still for so long that
 * the list may have come before. */
static bool refused_by_one_moment(void)
{
	struct patient p = {.demand = "app c 1 100%"};
	int64_t began;
	bool before_it;

	kube_store_server(fix.store, "a", 1, 16000, CLAIM("x", "x", "bound", "'a'", "8000000000"));
	kube_store_server(fix.store, "b", 1, 16000, CLAIM("y", "y", "bound", "'b'", WHOLE));
	ledger_fixture_begin(&fix);
	kube_store_hush(fix.store);
	ledger_set_claims(&fix, "a", "");
	began = api_now_ms();
	begin_patient(&p, LIST_MS);
	ledger_set_claims(&fix, "b", "");
	ledger_must_take(&fix, "u1", "app c 1 50%");
	before_it = api_now_ms() - began < LIST_MS;
	end_patient(&p);
	assert_int_equal(p.rc, 0);
	assert_int_equal(kube_store_claims(fix.store, NULL, "patient"), 1);
	return before_it;
}

TEST(test_r4_refusals_are_of_one_moment)
{
	assert_true(ledger_in_time(&fix, refused_by_one_moment));
}

TEST(test_r4_refusals_on_a_copy_are_of_one_moment)
{
	ledger_at_once = 1;
	assert_true(ledger_in_time(&fix, refused_by_one_moment));
}

/* What the list shows is older than what this replica has written since, and says "no", too: that
 * is the moment. Without it, who writes all the time would refuse nobody. */
TEST(test_r4_refusals_need_no_moment_without_writes)
{
	struct patient p = {.demand = "app c 2 100%"};
	size_t before;

	kube_store_server(fix.store, "a", 2, 16000, "");
	ledger_fixture_begin(&fix);
	kube_store_hush(fix.store);
	before = ledger_lists(&fix);
	ledger_must_take(&fix, "u1", "app c 1 100%");
	begin_patient(&p, LIST_MS);
	ledger_must_take(&fix, "u2", "app c 1 100%");
	end_patient(&p);
	assert_int_equal(p.rc, ERR_REFUSED);
	assert_string_equal(p.e.reason, "NoCapacity");
	assert_int_equal(ledger_lists(&fix), before + 1);
}

TEST(test_group_commit)
{
	struct crowd c = {.n_replicas = 1, .demand = "app c 1 3%", .tries = 1, .ms = 10000};

	ledger_fixture_begin_with(&fix, "a");
	c.replicas[0] = &fix.r;
	kube_store_fault(fix.store, STORE_SLOW, "PUT", STATUS_OF("a"), 20, -1);
	run_crowd(&c, 32);
	assert_int_equal(c.yes, 32);
	assert_int_equal(kube_store_claims(fix.store, "a", NULL), 32);
	assert_true(ledger_puts(&fix) <= 16);
}

TEST(test_group_commit_promises_nothing_twice)
{
	struct crowd c = {.n_replicas = 1, .demand = "app c 1 10%", .tries = 1, .ms = 10000};

	ledger_fixture_begin_with(&fix, "a");
	c.replicas[0] = &fix.r;
	kube_store_fault(fix.store, STORE_SLOW, "PUT", STATUS_OF("a"), 5, -1);
	run_crowd(&c, 32);
	assert_int_equal(c.yes, 10);
	assert_int_equal(c.other, 0);
	assert_int_equal(kube_store_claims(fix.store, "a", NULL), 10);
}

/* Reviews of this replica and of two more. */
static void add_replicas(struct crowd *c, struct replica more[2])
{
	c->replicas[0] = &fix.r;
	for (size_t i = 0; i < 2; i++) {
		replica_init(&more[i], fix.store);
		c->replicas[i + 1] = &more[i];
	}
}

/* Four servers with two GPUs and one with two more, half a GPU for each: room for 20. */
TEST(test_three_replicas_admit_exactly_what_fits)
{
	static const char *const names[] = {"a", "b", "c", "d", "e"};
	struct replica more[2];
	struct crowd c = {.n_replicas = 3, .demand = "app c 1 50%", .tries = 3, .ms = 8000};

	for (size_t i = 0; i < 5; i++)
		kube_store_server(fix.store, names[i], 2, 16000, "");
	ledger_fixture_begin(&fix);
	add_replicas(&c, more);
	kube_store_fault(fix.store, STORE_CUT_AFTER, "PUT", STATUS_OF("a"), 0, 2);
	kube_store_fault(fix.store, STORE_CONFLICT, "PUT", STATUS_OF("b"), 0, 2);
	run_crowd(&c, 60);
	assert_int_equal(c.yes, 20);
	assert_int_equal(c.other, 0);
	assert_int_equal(kube_store_claims(fix.store, NULL, NULL), 20);
	replica_release(&more[0]);
	replica_release(&more[1]);
}

/* Pods that span two servers and get in each other's way: what is left at the end is whole claims
 * of those who were told yes. */
TEST(test_three_replicas_over_two_servers)
{
	struct replica more[2];
	struct crowd c = {.n_replicas = 3, .demand = "app c 2 50%", .tries = 4, .ms = 8000};

	ledger_fixture_begin_with(&fix, "abcd");
	add_replicas(&c, more);
	run_crowd(&c, 24);
	assert_int_equal(c.other, 0);
	assert_true(c.yes >= 3);
	assert_true(kube_store_wait_claims(fix.store, NULL, NULL, 2 * (size_t)c.yes));
	replica_release(&more[0]);
	replica_release(&more[1]);
}

/* Where another replica was first a moment ago nobody goes who finds room elsewhere; who does not
 * goes all the same. */
TEST(test_elsewhere_after_a_conflict)
{
	int64_t began;

	kube_store_server(fix.store, "a", 2, 16000, "");
	ledger_fixture_begin_with(&fix, "b");
	kube_store_fault(fix.store, STORE_CONFLICT, "PUT", STATUS_OF("a"), 0, 1);
	began = api_now_ms();
	ledger_must_take(&fix, "u1", "app c 1 100%");
	ledger_must_take(&fix, "u2", "app c 1 100%");
	assert_int_equal(kube_store_claims(fix.store, "a", "u1"), 1);
	/* The moment may have passed on a slow machine. */
	if (api_now_ms() - began < 400)
		assert_int_equal(kube_store_claims(fix.store, "b", "u2"), 1);
	ledger_must_take(&fix, "u3", "app c 1 100%");
	assert_int_equal(kube_store_claims(fix.store, NULL, NULL), 3);
}

/* ---- the deadline passes in the middle of a decision ---- */

/* In this thread a hundred seconds have passed when it looks at the clock so many more times; 0:
 * they have; negative: they do not. */
static __thread int looks_left = -1;

int __wrap_clock_gettime(clockid_t id, struct timespec *tp);
int __real_clock_gettime(clockid_t id, struct timespec *tp);
int __wrap_clock_gettime(clockid_t id, struct timespec *tp)
{
	int rc = __real_clock_gettime(id, tp);

	if (looks_left > 0)
		looks_left--;
	if (looks_left == 0)
		tp->tv_sec += 100;
	return rc;
}

static void *takes_the_last(void *arg)
{
	struct claim_answer answer;
	struct arena a;

	arena_init(&a, 1u << 26);
	(void)ledger_take_in(&fix.r, &a, "u1", "u1", "app c 1 100%", 100000, false, &answer, arg);
	arena_release(&a);
	return NULL;
}

/* What another review has reserved may come to nothing: also when the time is over, whenever that
 * is, nobody is told that there is no room. */
TEST(test_r4_reserved_at_the_deadline)
{
	struct err other = {0};
	pthread_t thread;
	int at = 0;       /* the first look at which that was not so */
	bool ours = true; /* it is our clock that is looked at */

	kube_store_server(fix.store, "a", 1, 16000, "");
	ledger_fixture_begin(&fix);
	kube_store_fault(fix.store, STORE_FAIL, "PUT", STATUS_OF("a"), 0, -1);
	assert_int_equal(pthread_create(&thread, NULL, takes_the_last, &other), 0);
	assert_true(api_wait(fix.api, "PUT", STATUS_OF("a"), 1));
	/* the first look is for the deadline */
	for (int n = 2; n <= 40 && ours; n++) {
		looks_left = n;
		assert_int_equal(ledger_take(&fix, "u2", "app c 1 100%", 1000), ERR_REFUSED);
		ours = n > 2 || looks_left == 0;
		looks_left = -1;
		if (strcmp(fix.e.reason, "ApiServerAway") != 0 && !at)
			at = n;
	}
	kube_store_heal(fix.store);
	(void)pthread_join(thread, NULL);
	assert_int_equal(other.code, 0);
	assert_int_equal(at, 0);
	if (!ours)
		skip(); /* linked without that --wrap: nothing but a second went by */
}

TESTS_BETWEEN(set_up, tear_down, test_r4_refusals_share_lists, test_r4_reserved_at_the_deadline,
	test_r4_refusals_are_of_one_moment, test_r4_refusals_on_a_copy_are_of_one_moment,
	test_r4_refusals_need_no_moment_without_writes, test_group_commit,
	test_group_commit_promises_nothing_twice, test_three_replicas_admit_exactly_what_fits,
	test_three_replicas_over_two_servers, test_elsewhere_after_a_conflict)
