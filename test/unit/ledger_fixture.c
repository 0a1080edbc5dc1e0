/* SPDX-License-Identifier: Apache-2.0 */
/* test: replicas with the shared ledger over one kube_store. */
#include "test/unit/ledger_fixture.h"
#include "test/unit/test.h"

size_t ledger_at_once;

void replica_init(struct replica *r, struct kube_store *store)
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
	if (ledger_at_once)
		servers_at_once(r->servers, ledger_at_once);
	assert_int_equal(servers_start(r->servers, NULL, NULL, &e), 0);
	r->ledger = ledger_kube_new(r->servers, r->kube, 25, &r->log, r->metrics, &e);
	assert_non_null(r->ledger);
	while (!servers_synced(r->servers) && left-- > 0)
		api_nap(5);
	assert_true(left > 0);
}

void replica_release(struct replica *r)
{
	ledger_kube_free(r->ledger, 1000);
	servers_stop(r->servers);
	servers_free(r->servers);
	kube_free(r->kube);
	metrics_free(r->metrics);
}

void ledger_fixture_init(struct ledger_fixture *f)
{
	*f = (struct ledger_fixture){.store = kube_store_start()};
	f->api = kube_store_api(f->store);
	arena_init(&f->a, 1u << 26);
}

void ledger_fixture_begin(struct ledger_fixture *f)
{
	replica_init(&f->r, f->store);
}

void ledger_fixture_begin_with(struct ledger_fixture *f, const char *letters)
{
	for (; *letters; letters++)
		kube_store_server(f->store, (char[]){*letters, '\0'}, 1, 16000, "");
	ledger_fixture_begin(f);
}

void ledger_fixture_release(struct ledger_fixture *f)
{
	replica_release(&f->r);
	kube_store_stop(f->store);
	arena_release(&f->a);
}

bool ledger_in_time(struct ledger_fixture *f, bool (*tried)(void))
{
	bool in_time = tried();

	for (int i = 1; i < 5 && !in_time; i++) {
		ledger_fixture_release(f);
		ledger_fixture_init(f);
		in_time = tried();
	}
	return in_time;
}

int ledger_take_in(struct replica *r, struct arena *a, const char *uid, const char *name,
	const char *demand, int ms, bool dry_run, struct claim_answer *ret, struct err *err)
{
	struct demand d;
	struct claim_ask ask = {.uid = slice_of(uid),
		.namespace = SLICE("lab"),
		.name = slice_of(name),
		.demand = &d,
		.plan_hash = 5,
		.grace_s = 7,
		.dry_run = dry_run,
		.deadline_ms = ms ? api_now_ms() + ms : 0};

	demand_init(&d, a, demand, NULL, NULL, false);
	err_clear(err);
	return r->ledger->ops->take(r->ledger, &ask, a, ret, err);
}

int ledger_take(struct ledger_fixture *f, const char *uid, const char *demand, int ms)
{
	return ledger_take_in(&f->r, &f->a, uid, uid, demand, ms, false, &f->answer, &f->e);
}

int ledger_take_one(struct ledger_fixture *f, const char *uid, const char *name, bool dry_run)
{
	return ledger_take_in(
		&f->r, &f->a, uid, name, "app c 1 100%", 5000, dry_run, &f->answer, &f->e);
}

int ledger_could_ever(struct ledger_fixture *f, const char *demand, int ms)
{
	struct demand d;
	struct claim_ask ask = {.uid = SLICE("u"),
		.namespace = SLICE("lab"),
		.name = SLICE("u"),
		.demand = &d,
		.deadline_ms = ms ? api_now_ms() + ms : 0};

	demand_init(&d, &f->a, demand, NULL, NULL, false);
	err_clear(&f->e);
	return f->r.ledger->ops->could_ever(f->r.ledger, &ask, &f->a, &f->e);
}

void ledger_undo(struct ledger_fixture *f, uint64_t ticket)
{
	f->r.ledger->ops->undo(f->r.ledger, ticket);
}

void ledger_must_take(struct ledger_fixture *f, const char *uid, const char *demand)
{
	if (ledger_take(f, uid, demand, 5000) != 0)
		fail_msg("%s: %s", f->e.reason, f->e.msg);
}

void ledger_must_refuse(
	struct ledger_fixture *f, const char *uid, const char *demand, const char *reason)
{
	ASSERT_REFUSED(f, ledger_take(f, uid, demand, 5000), reason);
}

size_t ledger_lists(struct ledger_fixture *f)
{
	return api_seen_of(f->api, "GET", STORE_SERVERS "?limit=*");
}

size_t ledger_puts(struct ledger_fixture *f)
{
	return api_seen_of(f->api, "PUT", STORE_SERVERS "/*");
}

void ledger_set_claims(struct ledger_fixture *f, const char *server, const char *claims)
{
	char status[4096];

	(void)snprintf(status, sizeof(status),
		"{'version':1,'gpus':[{'id':'gpu-0','model':'V100','memory':16000000000,'fit':true}"
		"],"
		"'claims':[%s]}",
		claims);
	kube_store_put(f->store, server, NULL, status, NULL);
}
