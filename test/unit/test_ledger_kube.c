/* SPDX-License-Identifier: Apache-2.0 */
/* test: the shared ledger by the rules R1 to R9, against a store that aborts when a GPU is promised twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "test/unit/kube_store.h"
#include "test/unit/pool_fixture.h"
#include "webhook/cluster/ledger_kube.h"
#include "webhook/edge/metrics.h"

#define THREADS_MAX 64
#define STATUS_OF(name) STORE_SERVERS "/" name "/status"
#define SPEC "{'address':'10.0.0.1:56001','gpus':[{'model':'V100','memory':'16000M','count':1}]}"
/* A claim in a status, on gpu-0. */
#define CLAIM(uid, name, state, servers, bytes)                                                    \
	"{'uid':'" uid "','namespace':'lab','name':'" name "','state':'" state                     \
	"','plan':'0000000000000005','since':'2026-01-01T00:00:00Z','take':'00000000000000aa',"    \
	"'servers':[" servers "],'gpus':[{'id':'gpu-0','bytes':" bytes "}]}"
#define WHOLE "16000000000"

/* One replica. */
struct replica {
	struct kube_config config;
	struct kube *kube;
	struct log log;
	struct metrics *metrics;
	struct servers *servers;
	struct ledger *ledger;
};

struct fixture {
	struct kube_store *store;
	struct api *api;
	struct replica r;
	struct arena a;
	struct claim_answer answer;
	struct err e;
};

static void replica_init(struct replica *r, struct kube_store *store)
{
	struct err e = {0};
	int left = 1000;

	*r = (struct replica){0};
	log_init(&r->log, STDERR_FILENO);
	r->log.level = LOG_LEVEL_ERROR;
	api_config(kube_store_api(store), &r->config);
	assert_int_equal(kube_new(&r->config, &r->kube, &e), 0);
	r->metrics = metrics_new(metric_table, M_COUNT);
	r->servers = servers_new(r->kube, &r->log, r->metrics, &e);
	assert_non_null(r->servers);
	assert_int_equal(servers_start(r->servers, NULL, NULL, &e), 0);
	r->ledger = ledger_kube_new(r->servers, r->kube, &r->log, r->metrics, &e);
	assert_non_null(r->ledger);
	while (!servers_synced(r->servers) && left-- > 0)
		api_nap(5);
	assert_true(left > 0);
}

static void replica_release(struct replica *r)
{
	ledger_kube_free(r->ledger, 1000);
	servers_stop(r->servers);
	servers_free(r->servers);
	kube_free(r->kube);
	metrics_free(r->metrics);
}

static void fixture_init(struct fixture *f)
{
	*f = (struct fixture){.store = kube_store_start()};
	f->api = kube_store_api(f->store);
	arena_init(&f->a, 1u << 26);
}

/* Servers are there: begin. */
static void fixture_begin(struct fixture *f)
{
	replica_init(&f->r, f->store);
}

static void fixture_release(struct fixture *f)
{
	replica_release(&f->r);
	kube_store_stop(f->store);
	arena_release(&f->a);
}

static int take_in(struct replica *r, struct arena *a, const char *uid, const char *name,
	const char *demand, int ms, bool dry_run, struct claim_answer *ret, struct err *err)
{
	struct demand d;
	struct claim_ask ask = {.uid = slice_of(uid),
		.namespace = SLICE("lab"),
		.name = slice_of(name),
		.demand = &d,
		.plan_hash = 5,
		.dry_run = dry_run,
		.deadline_ms = api_now_ms() + ms};

	demand_init(&d, a, demand, NULL, NULL, false);
	err_clear(err);
	return r->ledger->ops->take(r->ledger, &ask, a, ret, err);
}

static int take(struct fixture *f, const char *uid, const char *demand, int ms)
{
	return take_in(&f->r, &f->a, uid, uid, demand, ms, false, &f->answer, &f->e);
}

static void undo(struct fixture *f, uint64_t ticket)
{
	f->r.ledger->ops->undo(f->r.ledger, ticket);
}

static void must_take(struct fixture *f, const char *uid, const char *demand)
{
	if (take(f, uid, demand, 5000) != 0)
		fail_msg("%s: %s", f->e.reason, f->e.msg);
}

static void must_refuse(struct fixture *f, const char *uid, const char *demand, const char *reason)
{
	assert_int_equal(take(f, uid, demand, 5000), ERR_REFUSED);
	assert_string_equal(f->e.reason, reason);
}

static size_t lists(struct fixture *f)
{
	return api_seen_of(f->api, "GET", STORE_SERVERS "?limit=*");
}

static size_t put_count(struct fixture *f)
{
	return api_seen_of(f->api, "PUT", STORE_SERVERS "/*");
}

/* A server as somebody else leaves it: claims exactly these, which the replica is not told of when the watches are muted. */
static void set_claims(struct fixture *f, const char *server, const char *claims)
{
	char status[4096];

	(void)snprintf(status, sizeof(status),
		"{'version':1,'gpus':[{'id':'gpu-0','model':'V100','memory':16000000000,'fit':true}"
		"],"
		"'claims':[%s]}",
		claims);
	kube_store_put(f->store, server, SPEC, status, NULL);
}

/* ---- R1 ---- */

static void test_r1_same_uid_is_answered_from_its_claim(void **state)
{
	struct fixture f;
	uint64_t first;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 2, 16000, "");
	fixture_begin(&f);
	assert_true(f.r.ledger->may_wait);
	must_take(&f, "u1", "app c 2 50%");
	first = f.answer.ticket;
	assert_int_not_equal(first, 0);
	assert_int_equal(f.answer.n_parts, 2);
	must_take(&f, "u1", "app c 2 50%");
	assert_int_equal(f.answer.ticket, 0);
	assert_int_equal(f.answer.n_parts, 2);
	assert_string_equal(f.answer.parts[1].server, "a");
	assert_string_equal(f.answer.parts[1].gpu, "gpu-1");
	assert_int_equal(f.answer.parts[1].bytes, 8000 * MB);
	/* The second reply rests on the claim: the first one's undo is too late. */
	undo(&f, first);
	api_nap(300);
	assert_int_equal(kube_store_claims(f.store, "a", "u1"), 1);
	fixture_release(&f);
}

static void test_r1_other_replica_answers_from_it_too(void **state)
{
	struct fixture f;
	struct replica other;
	uint64_t first;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, "");
	fixture_begin(&f);
	must_take(&f, "u1", "app c 1 100%");
	first = f.answer.ticket;
	replica_init(&other, f.store);
	assert_int_equal(
		take_in(&other, &f.a, "u1", "u1", "app c 1 100%", 5000, false, &f.answer, &f.e), 0);
	assert_int_equal(f.answer.ticket, 0);
	undo(&f, first);
	api_nap(300);
	assert_int_equal(kube_store_claims(f.store, "a", "u1"), 1);
	replica_release(&other);
	fixture_release(&f);
}

static void test_r1_half_claim_is_no_claim(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, CLAIM("u1", "u1", "pending", "'a','b'", WHOLE));
	kube_store_server(f.store, "b", 1, 16000, "");
	fixture_begin(&f);
	/* What it holds of the half one does not stand in its own way. Somebody else's reply may rest on it all the same. */
	must_take(&f, "u1", "app c 2 100%");
	assert_int_equal(f.answer.ticket, 0);
	assert_int_equal(f.answer.n_parts, 2);
	assert_int_equal(kube_store_claims(f.store, "a", "u1"), 1);
	assert_int_equal(kube_store_claims(f.store, "b", "u1"), 1);
	must_take(&f, "u1", "app c 2 100%");
	assert_int_equal(f.answer.ticket, 0);
	fixture_release(&f);
}

/* The half that the new claim does not use goes at once, and not only when the leader looks. */
static void test_r1_half_claim_elsewhere_goes(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000,
		CLAIM("u1", "u1", "pending", "'a','c'", "8000000000") "," CLAIM(
			"other", "other", "bound", "'a'", "8000000000"));
	kube_store_server(f.store, "b", 1, 16000, "");
	fixture_begin(&f);
	must_take(&f, "u1", "app c 1 100%");
	assert_string_equal(f.answer.parts[0].server, "b");
	assert_true(kube_store_wait_claims(f.store, "a", "u1", 0));
	assert_int_equal(kube_store_claims(f.store, "a", "other"), 1);
	assert_int_equal(kube_store_claims(f.store, "b", "u1"), 1);
	fixture_release(&f);
}

static void *take_u1(void *arg)
{
	struct fixture *f = arg;

	must_take(f, "u1", "app c 2 100%");
	return NULL;
}

/* A half claim that becomes whole: the other review was only in between. */
static void test_r1_half_claim_is_waited_for(void **state)
{
	struct fixture f;
	pthread_t thread;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, CLAIM("u1", "u1", "pending", "'a','b'", WHOLE));
	kube_store_server(f.store, "b", 1, 16000, "");
	fixture_begin(&f);
	assert_int_equal(pthread_create(&thread, NULL, take_u1, &f), 0);
	api_nap(300);
	assert_int_equal(put_count(&f), 0);
	set_claims(&f, "b", CLAIM("u1", "u1", "pending", "'a','b'", WHOLE));
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(f.answer.ticket, 0);
	assert_int_equal(f.answer.n_parts, 2);
	/* Two parts, taken over. */
	assert_int_equal(put_count(&f), 2);
	fixture_release(&f);
}

/* One uid reviewed by two replicas, and this one has not heard of the other's commit: its own must not take that one's place, or
 * taking it back would end what the other's "allowed" rests on. */
static void test_r1_two_replicas_one_server(void **state)
{
	struct fixture f;
	struct replica other;
	uint64_t first, second;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, "");
	fixture_begin(&f);
	replica_init(&other, f.store);
	api_nap(200);
	kube_store_mute(f.store, true);
	must_take(&f, "u1", "app c 1 100%");
	first = f.answer.ticket;
	assert_int_not_equal(first, 0);
	assert_int_equal(
		take_in(&other, &f.a, "u1", "u1", "app c 1 100%", 5000, false, &f.answer, &f.e), 0);
	second = f.answer.ticket;
	assert_int_equal(second, 0);
	other.ledger->ops->undo(other.ledger, second);
	undo(&f, first);
	api_nap(300);
	assert_int_equal(kube_store_claims(f.store, "a", "u1"), 1);
	replica_release(&other);
	fixture_release(&f);
}

struct unmute {
	struct fixture *f;
	const char *path;
	size_t after;
};

/* Once that PUT is on its way the replicas hear what has happened. */
static void *unmute(void *arg)
{
	struct unmute *u = arg;

	assert_true(api_wait(u->f->api, "PUT", u->path, u->after));
	kube_store_mute(u->f->store, false);
	return NULL;
}

/* Two replicas that see different pools choose different servers for one uid. Whoever hears of it before he answers sees to it that one
 * claim is left, and both choose the one with the first server by name. */
static void two_servers(const char *first, const char *second, const char *stays)
{
	struct fixture f;
	struct replica other;
	struct unmute u = {&f, NULL, 1};
	char path[128];
	pthread_t thread;

	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, "");
	kube_store_server(f.store, "b", 1, 16000, "");
	set_claims(&f, first, CLAIM("x", "x", "bound", "'a'", WHOLE));
	/* This one believes that `first` is full. */
	fixture_begin(&f);
	api_nap(200);
	kube_store_mute(f.store, true);
	set_claims(&f, first, "");
	set_claims(&f, second, CLAIM("y", "y", "bound", "'b'", WHOLE));
	/* And the other that `second` is. */
	replica_init(&other, f.store);
	set_claims(&f, second, "");
	assert_int_equal(
		take_in(&other, &f.a, "u1", "u1", "app c 1 100%", 5000, false, &f.answer, &f.e), 0);
	assert_string_equal(f.answer.parts[0].server, first);
	(void)snprintf(path, sizeof(path), STORE_SERVERS "/%s/status", second);
	u.path = path;
	kube_store_fault(f.store, STORE_SLOW, "PUT", path, 700, -1);
	assert_int_equal(pthread_create(&thread, NULL, unmute, &u), 0);
	must_take(&f, "u1", "app c 1 100%");
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(f.answer.ticket, 0);
	assert_int_equal(f.answer.n_parts, 1);
	assert_string_equal(f.answer.parts[0].server, stays);
	assert_true(kube_store_wait_claims(f.store, NULL, "u1", 1));
	assert_int_equal(kube_store_claims(f.store, stays, "u1"), 1);
	replica_release(&other);
	fixture_release(&f);
}

static void test_r1_two_replicas_the_first_stays(void **state)
{
	(void)state;
	two_servers("a", "b", "a");
}

static void test_r1_two_replicas_the_second_stays(void **state)
{
	(void)state;
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
	t->rc = take_in(t->r, &a, t->uid, t->uid, t->demand, 8000, false, &answer, &e);
	t->ticket = t->rc == 0 ? answer.ticket : 0;
	arena_release(&a);
	return NULL;
}

/* The same uid at both replicas at once, again and again; the reply of one of them is never sent. The other's claim stands, once. */
static void twins(const char *demand, size_t servers)
{
	struct fixture f;
	struct replica other;

	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, "");
	kube_store_server(f.store, "b", 1, 16000, "");
	kube_store_server(f.store, "c", 1, 16000, "");
	fixture_begin(&f);
	replica_init(&other, f.store);
	for (unsigned i = 0; i < 12; i++) {
		char uid[32];
		struct twin t[2] = {{.r = &f.r, .demand = demand}, {.r = &other, .demand = demand}};
		pthread_t threads[2];
		size_t lost = i & 1, have;

		(void)snprintf(uid, sizeof(uid), "twin-%u", i);
		for (size_t k = 0; k < 2; k++) {
			t[k].uid = uid;
			assert_int_equal(pthread_create(&threads[k], NULL, one_twin, &t[k]), 0);
		}
		for (size_t k = 0; k < 2; k++)
			assert_int_equal(pthread_join(threads[k], NULL), 0);
		assert_int_equal(t[0].rc, 0);
		assert_int_equal(t[1].rc, 0);
		t[lost].r->ledger->ops->undo(t[lost].r->ledger, t[lost].ticket);
		api_nap(100);
		have = kube_store_claims(f.store, NULL, uid);
		if (have != servers)
			fail_msg("%s is on %zu servers", uid, have);
	}
	replica_release(&other);
	fixture_release(&f);
}

static void test_r1_twins(void **state)
{
	(void)state;
	twins("app c 1 5%", 1);
}

static void test_r1_twins_on_two_servers(void **state)
{
	(void)state;
	twins("app c 2 5%", 2);
}

/* ---- R2 ---- */

static void test_r2_lost_answers(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, "");
	fixture_begin(&f);
	kube_store_fault(f.store, STORE_CUT_AFTER, "PUT", STATUS_OF("a"), 0, 1);
	must_take(&f, "u1", "app c 1 50%");
	assert_int_equal(kube_store_writes(f.store), 1);
	assert_int_equal(kube_store_claims(f.store, NULL, "u1"), 1);
	kube_store_fault(f.store, STORE_CUT_BEFORE, "PUT", STATUS_OF("a"), 0, 1);
	must_take(&f, "u2", "app c 1 20%");
	assert_int_equal(kube_store_claims(f.store, NULL, "u2"), 1);
	kube_store_fault(f.store, STORE_CUT_LATE, "PUT", STATUS_OF("a"), 50, 1);
	must_take(&f, "u3", "app c 1 20%");
	api_nap(150);
	assert_int_equal(kube_store_claims(f.store, NULL, "u3"), 1);
	assert_int_equal(kube_store_claims(f.store, NULL, NULL), 3);
	fixture_release(&f);
}

static void test_r2_second_server_is_full(void **state)
{
	struct fixture f;
	size_t n;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, "");
	kube_store_server(f.store, "b", 1, 16000, "");
	fixture_begin(&f);
	api_nap(200);
	kube_store_mute(f.store, true);
	set_claims(&f, "b", CLAIM("other", "other", "bound", "'b'", WHOLE));
	must_refuse(&f, "u1", "app c 2 100%", "NoCapacity");
	n = api_seen_count(f.api);
	/* In the order of names. */
	for (size_t i = 0; i < n; i++)
		if (strcmp(api_seen(f.api, i)->method, "PUT") == 0) {
			assert_string_equal(api_seen(f.api, i)->path, STATUS_OF("a"));
			break;
		}
	assert_int_equal(api_seen_of(f.api, "PUT", STATUS_OF("b")), 1);
	assert_true(kube_store_wait_claims(f.store, "a", "u1", 0));
	assert_int_equal(kube_store_claims(f.store, "b", "u1"), 0);
	fixture_release(&f);
}

/* The part that it has already is no reason to refuse it the next try. */
static void test_r2_second_server_is_full_and_a_third_is_not(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, "");
	kube_store_server(f.store, "b", 1, 16000, "");
	kube_store_server(f.store, "c", 1, 16000, "");
	fixture_begin(&f);
	api_nap(200);
	kube_store_mute(f.store, true);
	set_claims(&f, "b", CLAIM("other", "other", "bound", "'b'", WHOLE));
	must_take(&f, "u1", "app c 2 100%");
	assert_string_equal(f.answer.parts[0].server, "a");
	assert_string_equal(f.answer.parts[1].server, "c");
	api_nap(300);
	assert_int_equal(kube_store_claims(f.store, "a", "u1"), 1);
	assert_int_equal(kube_store_claims(f.store, "b", "u1"), 0);
	assert_int_equal(kube_store_claims(f.store, "c", "u1"), 1);
	fixture_release(&f);
}

/* Somebody broke a server's status, and this replica hears of it by its commit: nothing that the pod's user did wrong. */
static void test_r2_server_is_broken(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, "");
	kube_store_server(f.store, "b", 1, 16000, "");
	fixture_begin(&f);
	api_nap(200);
	kube_store_mute(f.store, true);
	kube_store_put(f.store, "a", NULL, "{'claims':7}", NULL);
	must_take(&f, "u1", "app c 1 100%");
	assert_string_equal(f.answer.parts[0].server, "b");
	fixture_release(&f);
}

static void test_r2_conflict_storm(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, "");
	fixture_begin(&f);
	kube_store_fault(f.store, STORE_CONFLICT, "PUT", STATUS_OF("a"), 0, 20);
	must_take(&f, "u1", "app c 1 100%");
	assert_int_equal(put_count(&f), 21);
	assert_int_equal(kube_store_claims(f.store, NULL, "u1"), 1);
	assert_int_equal(metric_value(f.r.metrics, M_COMMITS, COMMIT_CONFLICT, 0), 20);
	fixture_release(&f);
}

/* ---- R3 ---- */

static void test_r3_undo_ends_that_take(void **state)
{
	struct fixture f;
	uint64_t one;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, "");
	kube_store_server(f.store, "b", 1, 16000, "");
	fixture_begin(&f);
	must_take(&f, "u1", "app c 2 50%");
	one = f.answer.ticket;
	must_take(&f, "u2", "app c 2 50%");
	undo(&f, 0);
	undo(&f, 12345);
	undo(&f, one);
	assert_true(kube_store_wait_claims(f.store, NULL, "u1", 0));
	assert_int_equal(kube_store_claims(f.store, NULL, "u2"), 2);
	must_take(&f, "u3", "app c 2 50%");
	/* A claim whose pod has been seen is no longer ours to end. */
	fixture_release(&f);
}

static void test_r3_stopping_takes_back(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, "");
	fixture_begin(&f);
	must_take(&f, "u1", "app c 1 50%");
	must_take(&f, "u2", "app c 1 50%");
	undo(&f, f.answer.ticket);
	replica_release(&f.r);
	assert_int_equal(kube_store_claims(f.store, NULL, "u1"), 1);
	assert_int_equal(kube_store_claims(f.store, NULL, "u2"), 0);
	fixture_begin(&f);
	fixture_release(&f);
}

static void test_r3_deadline_in_the_middle(void **state)
{
	struct fixture f;
	int64_t began;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, "");
	kube_store_server(f.store, "b", 1, 16000, "");
	fixture_begin(&f);
	kube_store_fault(f.store, STORE_SLOW, "PUT", STATUS_OF("b"), 1000, 1);
	began = api_now_ms();
	assert_int_equal(take(&f, "u1", "app c 2 100%", 500), ERR_REFUSED);
	assert_true(api_now_ms() - began < 800);
	assert_string_equal(f.e.reason, "ApiServerAway");
	assert_true(kube_store_wait_claims(f.store, NULL, "u1", 0));
	fixture_release(&f);
}

/* Somebody else's call hangs: who is in a hurry does not wait for it. */
static void *take_slowly(void *arg)
{
	struct fixture *f = arg;
	struct claim_answer answer;
	struct arena a;
	struct err e = {0};

	arena_init(&a, 1u << 24);
	assert_int_equal(
		take_in(&f->r, &a, "slow", "slow", "app c 1 10%", 8000, false, &answer, &e), 0);
	arena_release(&a);
	return NULL;
}

static void test_r3_deadline_while_another_hangs(void **state)
{
	struct fixture f;
	pthread_t thread;
	int64_t began;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, "");
	fixture_begin(&f);
	kube_store_fault(f.store, STORE_SLOW, "PUT", STATUS_OF("a"), 2000, 1);
	assert_int_equal(pthread_create(&thread, NULL, take_slowly, &f), 0);
	assert_true(api_wait(f.api, "PUT", STATUS_OF("a"), 1));
	began = api_now_ms();
	assert_int_equal(take(&f, "u1", "app c 1 10%", 400), ERR_REFUSED);
	assert_true(api_now_ms() - began < 700);
	assert_string_equal(f.e.reason, "ApiServerAway");
	assert_int_equal(pthread_join(thread, NULL), 0);
	api_nap(200);
	assert_int_equal(kube_store_claims(f.store, NULL, "u1"), 0);
	assert_int_equal(kube_store_claims(f.store, NULL, "slow"), 1);
	fixture_release(&f);
}

static void test_r3_api_server_away(void **state)
{
	struct fixture f;
	int64_t began;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, "");
	fixture_begin(&f);
	api_down(f.api);
	began = api_now_ms();
	assert_int_equal(take(&f, "u1", "app c 1 100%", 600), ERR_REFUSED);
	assert_true(api_now_ms() - began < 900);
	assert_string_equal(f.e.reason, "ApiServerAway");
	/* A refusal, too, needs the API server. */
	assert_int_equal(take(&f, "u1", "app c 9 100%", 600), ERR_REFUSED);
	assert_string_equal(f.e.reason, "ApiServerAway");
	api_up(f.api);
	api_nap(300);
	assert_int_equal(kube_store_claims(f.store, NULL, NULL), 0);
	must_take(&f, "u2", "app c 1 100%");
	fixture_release(&f);
}

/* The write lands after the answer was no: it is found and taken back. */
static void test_r3_write_lands_late(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, "");
	fixture_begin(&f);
	kube_store_fault(f.store, STORE_CUT_LATE, "PUT", STATUS_OF("a"), 1500, 1);
	kube_store_fault(f.store, STORE_FAIL, "PUT", STATUS_OF("a"), 0, -1);
	assert_int_equal(take(&f, "u1", "app c 1 100%", 500), ERR_REFUSED);
	assert_string_equal(f.e.reason, "ApiServerAway");
	kube_store_heal(f.store);
	assert_int_equal(kube_store_writes(f.store), 0);
	assert_true(kube_store_wait_claims(f.store, NULL, "u1", 1));
	assert_true(kube_store_wait_claims(f.store, NULL, "u1", 0));
	must_take(&f, "u2", "app c 1 100%");
	fixture_release(&f);
}

/* The same where the watch says nothing either, and this replica stops. */
static void test_r3_unknown_write_is_taken_back_when_stopping(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, "");
	fixture_begin(&f);
	api_nap(100);
	kube_store_mute(f.store, true);
	kube_store_fault(f.store, STORE_SLOW, "PUT", STATUS_OF("a"), 1000, 1);
	assert_int_equal(take(&f, "u1", "app c 1 100%", 300), ERR_REFUSED);
	assert_int_equal(kube_store_claims(f.store, NULL, "u1"), 1);
	replica_release(&f.r);
	assert_int_equal(kube_store_claims(f.store, NULL, "u1"), 0);
	kube_store_mute(f.store, false);
	fixture_begin(&f);
	fixture_release(&f);
}

/* ---- R4 ---- */

static void test_r4_stale_picture_refuses_nobody(void **state)
{
	struct fixture f;
	size_t before;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, CLAIM("other", "other", "bound", "'a'", WHOLE));
	fixture_begin(&f);
	api_nap(200);
	kube_store_mute(f.store, true);
	set_claims(&f, "a", "");
	before = lists(&f);
	must_take(&f, "u1", "app c 1 100%");
	assert_int_equal(lists(&f), before + 1);
	fixture_release(&f);
}

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
		rc = take_in(c->replicas[me % c->n_replicas], &a, uid, uid, c->demand, c->ms, false,
			&answer, &e);
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

static void test_r4_refusals_share_lists(void **state)
{
	struct fixture f;
	struct crowd c = {.n_replicas = 1, .demand = "app c 1 100%", .tries = 1, .ms = 5000};
	size_t before;
	int64_t began;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, CLAIM("other", "other", "bound", "'a'", WHOLE));
	fixture_begin(&f);
	c.replicas[0] = &f.r;
	before = lists(&f);
	began = api_now_ms();
	run_crowd(&c, 16);
	assert_int_equal(c.refused, 16);
	assert_int_equal(c.other, 0);
	assert_true(lists(&f) > before);
	assert_true((int64_t)(lists(&f) - before) <= 1 + (api_now_ms() - began) / 250);
	assert_true(lists(&f) - before <= 4);
	assert_int_equal(put_count(&f), 0);
	fixture_release(&f);
}

/* ---- R5, R6 ---- */

static void test_r5_pending_is_not_replaced(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, CLAIM("old", "web-0", "pending", "'a'", WHOLE));
	fixture_begin(&f);
	assert_int_equal(
		take_in(&f.r, &f.a, "new", "web-0", "app c 1 100%", 5000, false, &f.answer, &f.e),
		ERR_REFUSED);
	assert_string_equal(f.e.reason, "NoCapacity");
	assert_int_equal(kube_store_claims(f.store, "a", "old"), 1);
	assert_int_equal(put_count(&f), 0);
	fixture_release(&f);
}

static void test_r6_bound_is_replaced_when_its_pod_is_gone(void **state)
{
	struct fixture f;
	int rc;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, CLAIM("old", "web-0", "bound", "'a'", WHOLE));
	kube_store_pod(f.store, "lab", "web-0", "old", "Running", NULL);
	fixture_begin(&f);
	rc = take_in(&f.r, &f.a, "new", "web-0", "app c 1 100%", 5000, false, &f.answer, &f.e);
	assert_int_equal(rc, ERR_REFUSED);
	assert_int_equal(kube_store_claims(f.store, "a", "old"), 1);
	kube_store_pod(f.store, "lab", "web-0", NULL, NULL, NULL);
	rc = take_in(
		&f.r, &f.a, "elsewhere", "web-1", "app c 1 100%", 5000, false, &f.answer, &f.e);
	assert_int_equal(rc, ERR_REFUSED);
	rc = take_in(&f.r, &f.a, "new", "web-0", "app c 1 100%", 5000, false, &f.answer, &f.e);
	assert_int_equal(rc, 0);
	/* In the same commit. */
	assert_int_equal(kube_store_writes(f.store), 1);
	assert_int_equal(kube_store_claims(f.store, "a", "old"), 0);
	assert_int_equal(kube_store_claims(f.store, "a", "new"), 1);
	fixture_release(&f);
}

/* What the old pod held elsewhere goes, too. */
static void test_r6_bound_is_replaced_on_all_its_servers(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, CLAIM("old", "web-0", "bound", "'a','b'", WHOLE));
	kube_store_server(f.store, "b", 1, 16000, CLAIM("old", "web-0", "bound", "'a','b'", WHOLE));
	fixture_begin(&f);
	assert_int_equal(
		take_in(&f.r, &f.a, "new", "web-0", "app c 1 100%", 5000, false, &f.answer, &f.e),
		0);
	assert_int_equal(kube_store_claims(f.store, NULL, "new"), 1);
	assert_true(kube_store_wait_claims(f.store, NULL, "old", 0));
	fixture_release(&f);
}

/* ---- R9, bounds, dry run ---- */

static void test_r9_no_finalizer_no_claims(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, "");
	kube_store_put(f.store, "a", NULL, NULL, "[]");
	fixture_begin(&f);
	assert_int_equal(take(&f, "u1", "app c 1 10%", 5000), ERR_REFUSED);
	kube_store_put(f.store, "a", NULL, NULL, "['poolgate.io/claims']");
	must_take(&f, "u1", "app c 1 10%");
	/* This replica has not heard of the rest yet; the commit has. */
	api_nap(200);
	kube_store_mute(f.store, true);
	kube_store_delete(f.store, "a");
	assert_int_equal(take(&f, "u2", "app c 1 10%", 5000), ERR_REFUSED);
	assert_int_equal(kube_store_claims(f.store, "a", "u2"), 0);
	assert_int_equal(kube_store_claims(f.store, "a", "u1"), 1);
	fixture_release(&f);
}

static void test_r9_made_anew(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, "");
	fixture_begin(&f);
	api_nap(200);
	kube_store_mute(f.store, true);
	kube_store_put(f.store, "a", NULL, NULL, "[]");
	kube_store_delete(f.store, "a");
	assert_int_equal(take(&f, "u1", "app c 1 10%", 5000), ERR_REFUSED);
	assert_string_equal(f.e.reason, "NoServer");
	kube_store_put(f.store, "a", SPEC, "{}", "[]");
	assert_int_equal(take(&f, "u1", "app c 1 10%", 5000), ERR_REFUSED);
	assert_int_equal(kube_store_writes(f.store), 0);
	fixture_release(&f);
}

static void test_256_claims(void **state)
{
	struct fixture f;
	struct buf claims;

	(void)state;
	fixture_init(&f);
	buf_init(&claims, 1u << 20);
	for (int i = 0; i < 255; i++)
		buf_fmt(&claims,
			"%s{'uid':'o-%d','namespace':'lab','name':'o','state':'bound','plan':"
			"'0000000000000005','gpus':[{'id':'gpu-0','bytes':1000000}]}",
			i ? "," : "", i);
	kube_store_server(f.store, "a", 1, 16000, claims.data);
	buf_release(&claims);
	fixture_begin(&f);
	must_take(&f, "u1", "app c 1 1");
	assert_int_equal(take(&f, "u2", "app c 1 1", 5000), ERR_REFUSED);
	assert_int_equal(kube_store_claims(f.store, "a", NULL), 256);
	fixture_release(&f);
}

static void test_dry_run(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, "");
	fixture_begin(&f);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(take_in(&f.r, &f.a, "u1", "u1", "app c 1 100%", 5000, true,
					 &f.answer, &f.e),
			0);
		assert_int_equal(f.answer.ticket, 0);
		assert_int_equal(f.answer.n_parts, 1);
	}
	assert_int_equal(put_count(&f), 0);
	must_take(&f, "u2", "app c 1 100%");
	assert_int_equal(
		take_in(&f.r, &f.a, "u3", "u3", "app c 1 100%", 5000, true, &f.answer, &f.e),
		ERR_REFUSED);
	fixture_release(&f);
}

static void test_no_uid_no_right_no_release(void **state)
{
	struct fixture f;
	size_t n = 0;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, "");
	fixture_begin(&f);
	assert_int_equal(take(&f, "", "app c 1 100%", 1000), ERR_INVALID);
	kube_store_fault(f.store, STORE_FORBID, "PUT", STATUS_OF("a"), 0, -1);
	must_refuse(&f, "u1", "app c 1 100%", "ApiServerAway");
	assert_int_equal(f.r.ledger->ops->release(
				 f.r.ledger, SLICE("u1"), SLICE("lab"), SLICE("u1"), &n, &f.e),
		ERR_INVALID);
	fixture_release(&f);
}

/* ---- many at once ---- */

static void test_group_commit(void **state)
{
	struct fixture f;
	struct crowd c = {.n_replicas = 1, .demand = "app c 1 3%", .tries = 1, .ms = 10000};

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, "");
	fixture_begin(&f);
	c.replicas[0] = &f.r;
	kube_store_fault(f.store, STORE_SLOW, "PUT", STATUS_OF("a"), 20, -1);
	run_crowd(&c, 32);
	assert_int_equal(c.yes, 32);
	assert_int_equal(kube_store_claims(f.store, "a", NULL), 32);
	assert_true(put_count(&f) <= 16);
	fixture_release(&f);
}

static void test_group_commit_promises_nothing_twice(void **state)
{
	struct fixture f;
	struct crowd c = {.n_replicas = 1, .demand = "app c 1 10%", .tries = 1, .ms = 10000};

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, "");
	fixture_begin(&f);
	c.replicas[0] = &f.r;
	kube_store_fault(f.store, STORE_SLOW, "PUT", STATUS_OF("a"), 5, -1);
	run_crowd(&c, 32);
	assert_int_equal(c.yes, 10);
	assert_int_equal(c.other, 0);
	assert_int_equal(kube_store_claims(f.store, "a", NULL), 10);
	fixture_release(&f);
}

/* Four servers with two GPUs and one with two more, half a GPU for each: room for 20. */
static void test_three_replicas_admit_exactly_what_fits(void **state)
{
	static const char *const names[] = {"a", "b", "c", "d", "e"};
	struct fixture f;
	struct replica more[2];
	struct crowd c = {.n_replicas = 3, .demand = "app c 1 50%", .tries = 3, .ms = 8000};

	(void)state;
	fixture_init(&f);
	for (size_t i = 0; i < 5; i++)
		kube_store_server(f.store, names[i], 2, 16000, "");
	fixture_begin(&f);
	c.replicas[0] = &f.r;
	for (size_t i = 0; i < 2; i++) {
		replica_init(&more[i], f.store);
		c.replicas[i + 1] = &more[i];
	}
	kube_store_fault(f.store, STORE_CUT_AFTER, "PUT", STATUS_OF("a"), 0, 2);
	kube_store_fault(f.store, STORE_CONFLICT, "PUT", STATUS_OF("b"), 0, 2);
	run_crowd(&c, 60);
	assert_int_equal(c.yes, 20);
	assert_int_equal(c.other, 0);
	assert_int_equal(kube_store_claims(f.store, NULL, NULL), 20);
	replica_release(&more[0]);
	replica_release(&more[1]);
	fixture_release(&f);
}

/* Pods that span two servers and get in each other's way: what is left at the end is whole claims of those who were told yes. */
static void test_three_replicas_over_two_servers(void **state)
{
	struct fixture f;
	struct replica more[2];
	struct crowd c = {.n_replicas = 3, .demand = "app c 2 50%", .tries = 4, .ms = 8000};

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, "");
	kube_store_server(f.store, "b", 1, 16000, "");
	kube_store_server(f.store, "c", 1, 16000, "");
	kube_store_server(f.store, "d", 1, 16000, "");
	fixture_begin(&f);
	c.replicas[0] = &f.r;
	for (size_t i = 0; i < 2; i++) {
		replica_init(&more[i], f.store);
		c.replicas[i + 1] = &more[i];
	}
	run_crowd(&c, 24);
	assert_int_equal(c.other, 0);
	assert_true(c.yes >= 3);
	assert_true(kube_store_wait_claims(f.store, NULL, NULL, 2 * (size_t)c.yes));
	replica_release(&more[0]);
	replica_release(&more[1]);
	fixture_release(&f);
}

static void test_view(void **state)
{
	struct fixture f;
	struct pool_view v;

	(void)state;
	fixture_init(&f);
	kube_store_server(f.store, "a", 1, 16000, "");
	kube_store_server(f.store, "b", 1, 16000, "");
	fixture_begin(&f);
	must_take(&f, "u1", "app c 2 50%");
	must_take(&f, "u0", "app c 1 25%");
	assert_int_equal(f.r.ledger->ops->view(f.r.ledger, true, &f.a, &v, &f.e), 0);
	assert_int_equal(v.inventory.n_servers, 2);
	assert_int_equal(v.n_claims, 2);
	assert_string_equal(v.claims[0].key, "u0");
	assert_string_equal(v.claims[1].key, "u1");
	assert_int_equal(v.claims[1].n_parts, 2);
	assert_int_equal(v.claims[1].plan_hash, 5);
	assert_int_equal(v.claims[1].state, CLAIM_PENDING);
	assert_int_equal(v.usage.claimed[0] + v.usage.claimed[1], 20000 * MB);
	assert_int_equal(v.usage.pending[0] + v.usage.pending[1], 20000 * MB);
	fixture_release(&f);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_r1_same_uid_is_answered_from_its_claim),
		cmocka_unit_test(test_r1_other_replica_answers_from_it_too),
		cmocka_unit_test(test_r1_half_claim_is_no_claim),
		cmocka_unit_test(test_r1_half_claim_elsewhere_goes),
		cmocka_unit_test(test_r1_half_claim_is_waited_for),
		cmocka_unit_test(test_r1_two_replicas_one_server),
		cmocka_unit_test(test_r1_two_replicas_the_first_stays),
		cmocka_unit_test(test_r1_two_replicas_the_second_stays),
		cmocka_unit_test(test_r1_twins),
		cmocka_unit_test(test_r1_twins_on_two_servers),
		cmocka_unit_test(test_r2_lost_answers),
		cmocka_unit_test(test_r2_second_server_is_full),
		cmocka_unit_test(test_r2_second_server_is_full_and_a_third_is_not),
		cmocka_unit_test(test_r2_server_is_broken),
		cmocka_unit_test(test_r2_conflict_storm),
		cmocka_unit_test(test_r3_undo_ends_that_take),
		cmocka_unit_test(test_r3_stopping_takes_back),
		cmocka_unit_test(test_r3_deadline_in_the_middle),
		cmocka_unit_test(test_r3_deadline_while_another_hangs),
		cmocka_unit_test(test_r3_api_server_away),
		cmocka_unit_test(test_r3_write_lands_late),
		cmocka_unit_test(test_r3_unknown_write_is_taken_back_when_stopping),
		cmocka_unit_test(test_r4_stale_picture_refuses_nobody),
		cmocka_unit_test(test_r4_refusals_share_lists),
		cmocka_unit_test(test_r5_pending_is_not_replaced),
		cmocka_unit_test(test_r6_bound_is_replaced_when_its_pod_is_gone),
		cmocka_unit_test(test_r6_bound_is_replaced_on_all_its_servers),
		cmocka_unit_test(test_r9_no_finalizer_no_claims),
		cmocka_unit_test(test_r9_made_anew),
		cmocka_unit_test(test_256_claims),
		cmocka_unit_test(test_dry_run),
		cmocka_unit_test(test_no_uid_no_right_no_release),
		cmocka_unit_test(test_group_commit),
		cmocka_unit_test(test_group_commit_promises_nothing_twice),
		cmocka_unit_test(test_three_replicas_admit_exactly_what_fits),
		cmocka_unit_test(test_three_replicas_over_two_servers),
		cmocka_unit_test(test_view),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
