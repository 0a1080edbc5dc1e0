/* SPDX-License-Identifier: Apache-2.0 */
/* test: what the shared ledger (ledger_kube, servers_commit, servers_picture, servers_room) answers
 * where one allocation fails: what it would have answered with memory, or that it has none, and
 * then nothing of it stands. The store aborts when a GPU is promised twice. Only the caller's
 * allocations fail. Linked with --wrap for malloc, calloc and realloc. */
#include "base/clock.h"
#include "test/unit/ledger_fixture.h"
#include "test/unit/oom_wrap.h"
#include "test/unit/test.h"

/* Two whole GPUs of two servers. */
#define BOTH "app c 2 16000"

static struct ledger_fixture fix;
/* Of the call whose allocations fail. */
static struct arena used;
static struct demand demand;
static struct claim_ask ask;

FIXTURE(set_up)
{
	ledger_fixture_init(&fix);
	arena_init(&used, 1 << 22);
	return 0;
}

FIXTURE(tear_down)
{
	arena_release(&used);
	ledger_fixture_release(&fix);
	return 0;
}

static void begin_call(void)
{
	arena_release(&used);
	arena_init(&used, 1 << 22);
	fix.answer = (struct claim_answer){0};
	err_clear(&fix.e);
}

static void asks(const char *uid, const char *text)
{
	demand_init(&demand, &fix.a, text, NULL, NULL, false);
	ask = (struct claim_ask){.uid = slice_of(uid),
		.namespace = SLICE("lab"),
		.name = slice_of(uid),
		.demand = &demand,
		.plan_hash = 5,
		.grace_s = 7,
		.deadline_ms = clock_ms() + 5000};
	begin_call();
}

/* One call whose n-th allocation fails. */
static int take(long n, bool *ret_failed)
{
	struct ledger *l = fix.r.ledger;
	int rc;

	oom_begin_here(n, OOM_ONE);
	rc = l->ops->take(l, &ask, &used, &fix.answer, &fix.e);
	*ret_failed = oom_end();
	return rc;
}

/* A yes is whole; a no says why, and only that there is no memory. */
static void check(long n, int rc, bool failed)
{
	if (rc == 0)
		for (size_t i = 0; i < 2; i++) {
			const struct claim_part *p = &fix.answer.parts[i];

			assert_int_equal(fix.answer.n_parts, 2);
			assert_string_equal(p->server, i == 0 ? "a" : "b");
			assert_string_equal(p->gpu, "gpu-0");
			assert_int_equal(p->bytes, 16000 * MB);
		}
	else if (rc != ERR_NOMEM || (int)fix.e.code != rc || fix.e.msg[0] == '\0' || !failed)
		fail_msg("%ld: %d, \"%s\"", n, rc, fix.e.msg);
}

TEST(a_claim_that_is_taken)
{
	bool failed = true;

	ledger_fixture_begin_with(&fix, "ab");
	for (long n = 0; failed; n++) {
		char uid[32];
		int rc;

		(void)snprintf(uid, sizeof(uid), "u%ld", n);
		asks(uid, BOTH);
		rc = take(n, &failed);
		check(n, rc, failed);
		if (rc == 0) {
			assert_int_equal(kube_store_claims(fix.store, "a", uid), 1);
			assert_int_equal(kube_store_claims(fix.store, "b", uid), 1);
			ledger_undo(&fix, fix.answer.ticket);
		}
		if (!kube_store_wait_claims(fix.store, NULL, NULL, 0))
			fail_msg("%ld: a claim stays", n);
	}
}

TEST(a_claim_that_stands)
{
	bool failed = true;

	ledger_fixture_begin_with(&fix, "ab");
	ledger_must_take(&fix, "u1", BOTH);
	for (long n = 0; failed; n++) {
		asks("u1", BOTH);
		check(n, take(n, &failed), failed);
		assert_int_equal(fix.answer.ticket, 0);
		assert_int_equal(kube_store_claims(fix.store, "a", "u1"), 1);
		assert_int_equal(kube_store_claims(fix.store, "b", "u1"), 1);
	}
}

/* A refusal may say less. */
TEST(a_pool_that_is_full)
{
	bool failed = true;

	ledger_fixture_begin_with(&fix, "ab");
	ledger_must_take(&fix, "u1", BOTH);
	for (long n = 0; failed; n++) {
		int rc;

		asks("u2", BOTH);
		rc = take(n, &failed);
		if (rc != ERR_NOMEM || !failed)
			ASSERT_REFUSED(&fix, rc, "NoCapacity");
		assert_true(fix.e.msg[0] != '\0');
		assert_int_equal(kube_store_claims(fix.store, NULL, "u2"), 0);
	}
}

TEST(whether_it_could_ever)
{
	struct ledger *l;
	bool failed = true;

	ledger_fixture_begin_with(&fix, "ab");
	l = fix.r.ledger;
	ledger_must_take(&fix, "u1", BOTH);
	for (size_t i = 0; i < 2; i++, failed = true)
		for (long n = 0; failed; n++) {
			int rc;

			asks("u2", i == 0 ? BOTH : "app c 3 16000");
			oom_begin_here(n, OOM_ONE);
			rc = l->ops->could_ever(l, &ask, &used, &fix.e);
			failed = oom_end();
			if (rc != (i == 0 ? 0 : ERR_REFUSED) && !(failed && rc == ERR_NOMEM))
				fail_msg("%ld: %d, \"%s\"", n, rc, fix.e.msg);
			assert_true(rc == 0 || fix.e.msg[0] != '\0');
		}
}

static void check_view(const struct pool_view *v, bool with_claims)
{
	assert_int_equal(v->inventory.n_servers, 2);
	assert_int_equal(v->inventory.n_gpus, 2);
	assert_string_equal(v->inventory.servers[0].name, "a");
	assert_string_equal(v->inventory.servers[1].name, "b");
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(v->usage.claimed[i], 16000 * MB);
		assert_int_equal(v->usage.pending[i], 16000 * MB);
		assert_int_equal(v->usage.n_claims[i], 1);
	}
	assert_int_equal(v->n_claims, with_claims ? 1 : 0);
	if (with_claims) {
		assert_string_equal(v->claims[0].key, "u1");
		assert_int_equal(v->claims[0].n_parts, 2);
	}
}

TEST(a_picture_of_the_pool)
{
	struct ledger *l;

	ledger_fixture_begin_with(&fix, "ab");
	l = fix.r.ledger;
	ledger_must_take(&fix, "u1", BOTH);
	for (int with_claims = 0; with_claims < 2; with_claims++) {
		bool failed = true;

		for (long n = 0; failed; n++) {
			struct pool_view v;
			int rc;

			begin_call();
			oom_begin_here(n, OOM_ONE);
			rc = l->ops->view(l, with_claims, &used, &v, &fix.e);
			failed = oom_end();
			if (rc == 0)
				check_view(&v, with_claims);
			else if (rc != ERR_NOMEM || !failed || fix.e.msg[0] == '\0')
				fail_msg("%ld: %d, \"%s\"", n, rc, fix.e.msg);
		}
	}
}

/* ---- what the watch tells ---- */

/* The picture is as it should be: u1 holds a and b, and of server 0, which has so many GPUs, there
 * may be nothing yet. */
static void look(size_t others, size_t gpus, bool exactly)
{
	struct ledger *l = fix.r.ledger;
	struct pool_view v;
	int rc;

	begin_call();
	rc = l->ops->view(l, true, &used, &v, &fix.e);
	if (rc != 0 && !exactly) {
		assert_int_equal(rc, ERR_NOMEM);
		return;
	}
	assert_int_equal(rc, 0);
	if (exactly)
		assert_int_equal(v.inventory.n_gpus, others + gpus);
	for (size_t i = 0; i < v.inventory.n_servers; i++) {
		const struct gpu_server *server = &v.inventory.servers[i];
		bool comes = *server->name == '0';

		if (i > 0 && strcmp(server[-1].name, server->name) >= 0)
			fail_msg("%s stands before %s", server[-1].name, server->name);
		if (comes ? exactly : *server->name != 'i')
			assert_int_equal(server->n_gpus, comes ? gpus : 1);
		for (size_t k = 0; k < server->n_gpus; k++)
			assert_int_equal(v.usage.claimed[server->first_gpu + k],
				!comes && *server->name <= 'b' ? 16000 * MB : 0);
	}
}

static bool tell(enum kube_change what, const char *text, long n, bool *io_failed)
{
	struct json j = {0};
	char *copy = NULL;
	bool good;

	assert_int_equal(json_read_copy(&j, text, strlen(text), 10000, &copy, &fix.e), 0);
	oom_begin_here(n, OOM_ONE);
	good = servers_watch_app.change(fix.r.servers, what, &j, json_root(&j));
	*io_failed = oom_end() || *io_failed;
	json_release(&j);
	free(copy);
	return good;
}

/* Told again, as when the list is made anew, it is all there. */
static void told(enum kube_change what, const char *text, size_t others, size_t gpus, long n,
	bool *io_failed)
{
	bool good = tell(what, text, n, io_failed), again = false;

	look(others, gpus, false);
	if (!good && !tell(what, text, -1, &again))
		fail_msg("%ld: not taken again", n);
	/* A review looks at what is there first. */
	if (others > 0)
		ledger_must_take(&fix, "u1", BOTH);
	look(others, gpus, true);
}

static char *server_text(unsigned gpus)
{
	char *text;

	kube_store_server(fix.store, "0", gpus, 16000, "");
	text = kube_store_text(fix.store, "0");
	assert_non_null(text);
	return text;
}

static void begin_told(const char *letters)
{
	ledger_fixture_begin_with(&fix, letters);
	if (*letters)
		ledger_must_take(&fix, "u1", BOTH);
	kube_store_hush(fix.store);
}

/* Another replica, over these servers and i, which has so many small GPUs; 0: it is not there. */
static void begin_anew(const char *letters, unsigned small)
{
	ledger_fixture_release(&fix);
	ledger_fixture_init(&fix);
	if (small > 0)
		kube_store_server(fix.store, "i", small, 100, "");
	begin_told(letters);
}

TEST(a_server_that_comes_and_goes)
{
	bool failed = true;
	char *one, *three;

	begin_told("ab");
	for (long n = 0; failed; n++) {
		failed = false;
		one = server_text(1);
		three = server_text(3);
		told(KUBE_PUT, one, 2, 1, n, &failed);
		told(KUBE_PUT, three, 2, 3, n, &failed);
		told(KUBE_GONE, three, 2, 0, n, &failed);
		kube_store_remove(fix.store, "0");
		free(one);
		free(three);
	}
}

/* A replica of its own for each allocation that fails, until none does. */
static void come(const char *letters, unsigned small)
{
	bool failed = true;

	for (long n = 0; failed; n++) {
		char *text;

		failed = false;
		begin_anew(letters, small);
		text = server_text(1);
		told(KUBE_PUT, text, strlen(letters) + small, 1, n, &failed);
		free(text);
	}
}

TEST(the_first_server)
{
	ledger_fixture_begin(&fix);
	come("", 0);
}

/* There may have been no room for the first server, and memory lacks again where a look would make
 * it, behind the list of servers and the arena that has it. False: it does not lack where the watch
 * tells of that server. */
static bool comes_without(long n)
{
	bool lacked = false;

	for (long m = 2; m < 4; m++) {
		bool failed;
		char *text;
		struct pool_view v;
		bool good;
		int rc;

		begin_anew("", 0);
		text = server_text(2);
		lacked = false;
		good = tell(KUBE_PUT, text, n, &lacked);
		free(text);
		if (!good || !lacked)
			return lacked;
		begin_call();
		oom_begin_here(m, OOM_ONE);
		rc = fix.r.ledger->ops->view(fix.r.ledger, true, &used, &v, &fix.e);
		failed = oom_end();
		if (rc == 0)
			assert_int_equal(v.inventory.n_gpus, 2);
		else if (rc != ERR_NOMEM || !failed)
			fail_msg("%ld, %ld: %d", n, m, rc);
		look(0, 2, true);
	}
	return lacked;
}

TEST(a_look_for_which_memory_lacks_too)
{
	long n = 0;

	ledger_fixture_begin(&fix);
	while (comes_without(n))
		n++;
	assert_true(n > 0);
}

/* Nine servers and 65 GPUs fill the first lists: each of them grows. */
TEST(lists_that_grow)
{
	ledger_fixture_begin(&fix);
	come("abcdefgh", 57);
}

TESTS_BETWEEN(set_up, tear_down, a_claim_that_is_taken, a_claim_that_stands, a_pool_that_is_full,
	whether_it_could_ever, a_picture_of_the_pool, a_server_that_comes_and_goes,
	the_first_server, a_look_for_which_memory_lacks_too, lists_that_grow)
