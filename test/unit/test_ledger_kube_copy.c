/* SPDX-License-Identifier: Apache-2.0 */
/* test: decisions that take longer than others may wait for the lock: they are made on a copy of
 * the picture, one at a time: who comes next waits until the one before has let the copy go. Here
 * every search does. */
#include <pthread.h>

#include "test/unit/ledger_fixture.h"
#include "test/unit/test.h"
#include "webhook/cluster/ledger/servers_picture.h"

static struct ledger_fixture fix;

static int set_up(void **state)
{
	(void)state;
	ledger_at_once = 1;
	ledger_fixture_init(&fix);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	ledger_fixture_release(&fix);
	ledger_at_once = 0;
	return 0;
}

TEST(what_is_found_is_taken)
{
	kube_store_server(fix.store, "b", 2, 16000, "");
	kube_store_server(fix.store, "a", 1, 16000, "");
	kube_store_server(fix.store, "c", 4, 16000, "");
	ledger_fixture_begin(&fix);
	ledger_must_take(&fix, "u1", "app c 1 60%");
	assert_string_equal(fix.answer.parts[0].server, "a");
	/* the best fit for what is left */
	ledger_must_take(&fix, "u2", "app c 1 40%; app d 2 50%");
	assert_int_equal(fix.answer.n_parts, 2);
	assert_string_equal(fix.answer.parts[0].server, "b");
	ledger_must_take(&fix, "u3", "app c 4 100%");
	assert_string_equal(fix.answer.parts[3].server, "c");
	/* and answered from what stands */
	ledger_must_take(&fix, "u3", "app c 4 100%");
	assert_int_equal(ledger_puts(&fix) > 0, 1);
	ledger_must_take(&fix, "u4", "app c 1 50%");
}

/* Rule R4: only after a list, which shows what the watch has not told. */
TEST(a_no_rests_on_a_fresh_list)
{
	ledger_fixture_begin_with(&fix, "a");
	ledger_must_take(&fix, "u1", "app c 1 60%");
	ledger_must_refuse(&fix, "u2", "app c 1 60%", "NoCapacity");
	assert_non_null(strstr(fix.e.msg, "now would fit: 1 GPU with 40 %"));
	assert_int_equal(ledger_lists(&fix) > 1, 1);
	kube_store_mute(fix.store, true);
	ledger_set_claims(&fix, "a", "");
	ledger_must_take(&fix, "u2", "app c 1 60%");
	ledger_must_take(&fix, "u3", "app c 1 40%");
}

struct one_take {
	pthread_t thread;
	char uid[16];
	int rc;
};

static void *take_one(void *arg)
{
	struct one_take *r = arg;
	struct claim_answer answer;
	struct err e = {0};
	struct arena a;

	arena_init(&a, 1u << 26);
	r->rc = ledger_take_in(&fix.r, &a, r->uid, r->uid, "app c 2 100%", 0, false, &answer, &e);
	arena_release(&a);
	return NULL;
}

/* Each on a copy of its own, one after the other: what others have chosen meanwhile is seen before
 * it is taken. */
TEST(many_at_once_get_exactly_what_there_is)
{
	struct one_take takes[24];
	unsigned yes = 0;

	for (int i = 0; i < 8; i++)
		kube_store_server(fix.store, (char[]){(char)('a' + i), 0}, 4, 16000, "");
	ledger_fixture_begin(&fix);
	for (size_t i = 0; i < COUNT(takes); i++) {
		(void)snprintf(takes[i].uid, sizeof(takes[i].uid), "u%zu", i);
		assert_int_equal(pthread_create(&takes[i].thread, NULL, take_one, &takes[i]), 0);
	}
	for (size_t i = 0; i < COUNT(takes); i++) {
		assert_int_equal(pthread_join(takes[i].thread, NULL), 0);
		assert_true(takes[i].rc == 0 || takes[i].rc == ERR_REFUSED);
		yes += takes[i].rc == 0;
	}
	assert_int_equal(yes, 16);
}

static bool holds_now(const struct pool_view *then)
{
	struct servers *s = fix.r.servers;
	struct hold hold = {.bytes = 1000};
	struct placement p = {.holds = &hold, .n_holds = 1};
	bool yes;

	(void)pthread_mutex_lock(&s->lock);
	yes = servers_judge(s) && copy_holds_now(s, then, &p);
	(void)pthread_mutex_unlock(&s->lock);
	return yes;
}

/* What was chosen by the pod's launcher and its token is nothing on a server that has become one
 * for others meanwhile. */
TEST(a_server_for_others_is_chosen_anew)
{
	static const char *const specs[] = {
		"'gate':{'profile':'p','url':'https://a','tokenSecret':'t','mode':'address'}",
		"'launchers':['another']",
	};
	struct pool_view then;

	kube_store_server(fix.store, "a", 1, 16000, "");
	kube_store_put(fix.store, "a", SPEC, NULL, NULL);
	ledger_fixture_begin(&fix);
	assert_int_equal(servers_view(fix.r.servers, false, &fix.a, &then, &fix.e), 0);
	assert_true(holds_now(&then));
	for (size_t i = 0; i < COUNT(specs); i++) {
		uint64_t before = servers_version(fix.r.servers, "a");
		char spec[400];

		(void)snprintf(spec, sizeof(spec),
			"{'address':'10.0.0.1:56001','gpus':[{'model':'V100','memory':'16000M',"
			"'count':1}],%s}",
			specs[i]);
		kube_store_put(fix.store, "a", spec, NULL, NULL);
		for (int k = 0; k < 1000 && servers_version(fix.r.servers, "a") == before; k++)
			api_nap(5);
		assert_false(holds_now(&then));
	}
}

/* Law W2, by all servers since there is a filter. */
TEST(never_is_said_of_all_servers)
{
	ledger_fixture_begin_with(&fix, "a");
	assert_int_equal(ledger_could_ever(&fix, "app c 1 100%", 5000), 0);
	assert_int_equal(ledger_could_ever(&fix, "app c 2 100%", 5000), ERR_REFUSED);
	ledger_must_take(&fix, "u1", "app c 1 100%");
}

TESTS_BETWEEN(set_up, tear_down, what_is_found_is_taken, a_no_rests_on_a_fresh_list,
	many_at_once_get_exactly_what_there_is, a_server_for_others_is_chosen_anew,
	never_is_said_of_all_servers)
