/* SPDX-License-Identifier: Apache-2.0 */
/* test: what the cluster's parts and the leader's duties do that cannot begin for want of memory:
 * they say so, and leave nothing. What they do once they run is the simulator's (make sim LEAN=1).
 * Linked with --wrap for malloc, calloc and realloc. */
#include "test/unit/oom_wrap.h"
#include "test/unit/test.h"
#include "webhook/cluster/claims/claims.h"
#include "webhook/cluster/claims/job_sizes.h"
#include "webhook/cluster/claims/pods.h"
#include "webhook/cluster/leader/leader.h"
#include "webhook/cluster/ledger/ledger_kube.h"
#include "webhook/cluster/ledger/policy_accounts.h"
#include "webhook/cluster/ledger/servers.h"
#include "webhook/cluster/policy/policy_look.h"
#include "webhook/cluster/reconcile/hook_look.h"
#include "webhook/cluster/reconcile/policy_keeper.h"
#include "webhook/cluster/reconcile/policy_teller.h"
#include "webhook/cluster/reconcile/pool_keeper.h"
#include "webhook/cluster/reconcile/probe_poll.h"
#include "webhook/cluster/reconcile/server_keeper.h"
#include "webhook/cluster/reconcile/usage_keeper.h"
#include "webhook/cluster/secrets/cert_keeper.h"
#include "webhook/cluster/secrets/plan_key_secret.h"
#include "webhook/cluster/secrets/secret_gate.h"
#include "webhook/cluster/secrets/secret_sync.h"
#include "webhook/cluster/secrets/tls_secret.h"
#include "webhook/cluster/usage_count.h"
#include "webhook/edge/metrics/metrics.h"

static struct metrics *metrics;
static struct servers *servers;
static struct accounts *accounts;

FIXTURE(set_up)
{
	metrics = metrics_new(metric_table, M_COUNT);
	servers = servers_new(NULL, NULL, metrics, NULL);
	accounts = servers ? accounts_new(NULL, servers, NULL, NULL) : NULL;
	return accounts ? 0 : -1;
}

FIXTURE(tear_down)
{
	accounts_free(accounts);
	servers_free(servers);
	metrics_free(metrics);
	return 0;
}

/* ---- duties ---- */

/* From the n-th allocation on all fail, so that no thread is begun. */
static void does_not_start(const struct leader_duty *d, long n)
{
	struct err err = {0};
	void *running = NULL;
	int rc;

	oom_begin(n, OOM_ALL_AFTER);
	rc = d->start(d->ctx, &running, &err);
	assert_true(oom_end());
	if (rc != ERR_NOMEM || err.code != ERR_NOMEM || err.msg[0] == '\0' || running)
		fail_msg("%s, %ld: %d, \"%s\"", d->name, n, rc, err.msg);
}

TEST(duties_that_cannot_start)
{
	static struct claims_config claims;
	static struct server_keeper_config server_keeper;
	static struct pool_keeper_config pool_keeper;
	static struct policy_keeper_config policy_keeper;
	static struct policy_teller_config policy_teller;
	static struct usage_keeper_config usage_keeper;
	static struct probe_poll_config probe_poll, gate_poll;
	static struct cert_keeper_config cert_keeper = {.service = "s", .namespace = "n"};
	static struct plan_key_config plan_key;
	static struct secret_sync_config secret_sync = {.source = "n/s"};
	const struct leader_duty duties[] = {claims_duty(&claims),
		server_keeper_duty(&server_keeper), pool_keeper_duty(&pool_keeper),
		policy_keeper_duty(&policy_keeper), policy_teller_duty(&policy_teller),
		usage_keeper_duty(&usage_keeper), probe_poll_duty(&probe_poll),
		gate_poll_duty(&gate_poll), cert_keeper_duty(&cert_keeper),
		plan_key_duty(&plan_key), secret_sync_duty(&secret_sync)};

	claims.metrics = probe_poll.metrics = gate_poll.metrics = secret_sync.metrics = metrics;
	policy_keeper.accounts = accounts;
	for (size_t i = 0; i < COUNT(duties); i++)
		for (long n = 0; n < 2; n++)
			does_not_start(&duties[i], n);
}

/* Of the parts that claims are made of one is missing, or the duty or the watch of pods, which are
 * begun last. */
TEST(claims_without_a_part)
{
	static struct claims_config cfg;
	const struct leader_duty duty = claims_duty(&cfg);

	cfg.metrics = metrics;
	cfg.servers = servers;
	for (long n = 0; n < 7; n++) {
		struct err err = {0};
		void *running = NULL;

		oom_begin_here(n, OOM_ONE);
		assert_int_equal(duty.start(duty.ctx, &running, &err), ERR_NOMEM);
		assert_true(oom_end());
		assert_non_null(strstr(err.msg, "out of memory"));
		assert_null(running);
	}
}

/* ---- what each replica looks at ---- */

static bool look_at_hook(struct err *err)
{
	const struct hook_look_config cfg = {0};

	return hook_look_start(&cfg, err) != NULL;
}

static bool look_at_keys(struct err *err)
{
	const struct plan_key_config cfg = {0};

	return plan_key_look_start(&cfg, err) != NULL;
}

static bool look_at_certificate(struct err *err)
{
	const struct tls_secret_config cfg = {.namespace = "n", .name = "s"};

	return tls_secret_start(&cfg, err) != NULL;
}

static bool look_at_lease(struct err *err)
{
	const struct leader_config cfg = {.n_duties = 1};

	return leader_start(&cfg, err) != NULL;
}

TEST(looks_that_cannot_start)
{
	bool (*const looks[])(struct err * err) = {
		look_at_hook, look_at_keys, look_at_certificate, look_at_lease};

	for (size_t i = 0; i < COUNT(looks); i++)
		for (long n = 0; n < 2; n++) {
			struct err err = {0};
			bool started;

			oom_begin(n, OOM_ALL_AFTER);
			started = looks[i](&err);
			assert_true(oom_end());
			if (started || err.code != ERR_NOMEM || err.msg[0] == '\0')
				fail_msg("look %zu, %ld: %d, \"%s\"", i, n, err.code, err.msg);
		}
}

/* Of the two that a look at policies watches the first has no memory: the second is not begun. */
TEST(a_look_at_policies_that_cannot_start)
{
	const struct policy_look_config cfg = {0};
	struct err err = {0};
	struct policy_look *l = policy_look_new(&cfg, &err);
	int rc;

	assert_non_null(l);
	oom_begin(0, OOM_ONE);
	rc = policy_look_start(l, &err);
	assert_true(oom_end());
	assert_int_equal(rc, ERR_NOMEM);
	policy_look_free(l);
}

/* ---- parts ---- */

/* Make one, and free it. NULL-safe. */
static bool make_pods(struct err *err)
{
	struct pods *p = pods_new(NULL, NULL);

	(void)err;
	pods_free(p);
	return p != NULL;
}

static bool make_jobs(struct err *err)
{
	struct job_sizes *j = job_sizes_new(NULL, NULL);

	(void)err;
	job_sizes_free(j);
	return j != NULL;
}

static bool make_gate(struct err *err)
{
	struct secret_gate *g = secret_gate_new(NULL, NULL, "n/s", "a");

	(void)err;
	secret_gate_free(g);
	return g != NULL;
}

static bool make_servers(struct err *err)
{
	struct servers *s = servers_new(NULL, NULL, NULL, err);

	servers_free(s);
	return s != NULL;
}

static bool make_accounts(struct err *err)
{
	struct accounts *a = accounts_new(NULL, servers, NULL, err);

	accounts_free(a);
	return a != NULL;
}

static bool make_ledger(struct err *err)
{
	struct ledger *l = ledger_kube_new(servers, NULL, 25, NULL, NULL, err);

	if (l)
		ledger_kube_free(l, 0);
	return l != NULL;
}

static bool make_look(struct err *err)
{
	const struct policy_look_config cfg = {0};
	struct policy_look *l = policy_look_new(&cfg, err);

	policy_look_free(l);
	return l != NULL;
}

static bool make_count(struct err *err)
{
	const struct usage_count_config cfg = {.servers = servers};
	struct usage_count *u = usage_count_new(&cfg, err);

	usage_count_free(u);
	return u != NULL;
}

TEST(parts_that_cannot_be_made)
{
	static const struct {
		const char *name;
		bool (*make)(struct err *err);
		bool says; /* why not */
	} parts[] = {{"pods", make_pods, false}, {"jobs", make_jobs, false},
		{"gate", make_gate, false}, {"servers", make_servers, true},
		{"accounts", make_accounts, true}, {"ledger", make_ledger, true},
		{"look", make_look, true}, {"count", make_count, true}};

	for (size_t i = 0; i < COUNT(parts); i++) {
		bool failed = true;

		for (long n = 0; failed; n++) {
			struct err err = {0};
			bool made;

			oom_begin(n, OOM_ONE);
			made = parts[i].make(&err);
			failed = oom_end();
			/* The ledger's thread may be the one that has none. */
			if ((!made && !failed) ||
				(!made && parts[i].says && err.code != ERR_NOMEM) ||
				(!made && parts[i].says && err.msg[0] == '\0'))
				fail_msg("%s, %ld: %s", parts[i].name, n, err.msg);
		}
	}
}

TESTS_BETWEEN(set_up, tear_down, duties_that_cannot_start, claims_without_a_part,
	looks_that_cannot_start, a_look_at_policies_that_cannot_start, parts_that_cannot_be_made)
