/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the parts of a replica in a cluster, in the order in which they need each other. */
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "webhook/cluster/cluster_impl.h"
#include "webhook/cluster/ledger/ledger_kube.h"
#include "webhook/cluster/policy/policy_look.h"
#include "webhook/cluster/reconcile/hook_look.h"
#include "webhook/cluster/secrets/pull_secrets.h"
#include "webhook/cluster/secrets/secret_gate.h"
#include "webhook/cluster/secrets/tls_secret.h"
#include "webhook/cluster/usage_count.h"

/* What was taken in vain is given back within this time of the end; the leader sees to the rest. */
#define GIVE_BACK_MS 3000

/* Unique to this process: a pod that is started again must not take itself for the one before. */
static const char *make_identity(const char *pod, struct arena *a)
{
	char host[256] = "poolgate";
	unsigned random = 0;

	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		random = (unsigned)getpid();
	if (!pod || !*pod) {
		(void)gethostname(host, sizeof(host) - 1);
		pod = host;
	}
	return arena_fmt(a, "%s_%08x", pod, random);
}

static int find_api(struct cluster *c, struct err *err)
{
	const struct cluster_settings *st = c->cfg.settings;
	int rc = st->kubeconfig ? kube_config_load(st->kubeconfig, &c->api, err)
				: kube_config_in_cluster(c->cfg.api_host, c->cfg.api_port,
					  KUBE_ACCOUNT_DIR, &c->api, err);

	if (rc != 0 || kube_config_verifies(&c->api, err) != 0)
		return err->code;
	c->namespace = st->namespace ? st->namespace : c->api.namespace;
	c->identity = make_identity(c->cfg.pod_name, &c->arena);
	if (!c->identity)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (!c->namespace)
		return err_set(err, ERR_INVALID,
			"found no namespace for our Lease and Secrets, expected --namespace, or "
			"cluster.namespace in the config file");
	return 0;
}

/* The account's name is that of the manifests; it only stands in messages. */
static int make_gate(struct cluster *c, struct err *err)
{
	const char *account = arena_fmt(&c->arena, "%s:poolgate", c->namespace);

	if (account)
		c->gate = secret_gate_new(
			c->kube, c->cfg.log, c->cfg.settings->secrets_source, account);
	return c->gate ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

/* Where the settings want them. */
static int make_looks(struct cluster *c, const struct cluster_settings *st, struct err *err)
{
	if (st->policies)
		c->policies = policy_look_new(
			&(struct policy_look_config){c->kube, c->cfg.log, st->policies_required},
			err);
	if (st->policies && !c->policies)
		return (int)err->code;
	if (st->usage_listen)
		c->count = usage_count_new(&(struct usage_count_config){c->kube, c->servers,
						   c->policies, c->cfg.log, 0},
			err);
	return st->usage_listen && !c->count ? (int)err->code : 0;
}

int cluster_new(const struct cluster_config *cfg, struct cluster **ret, struct err *err)
{
	struct cluster *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return err_set(err, ERR_NOMEM, "out of memory");
	c->cfg = *cfg;
	arena_init(&c->arena, 4096);
	(void)pthread_mutex_init(&c->lock, NULL);
	waiting_look_init(&c->waiting);
	rc = find_api(c, err);
	if (rc == 0)
		rc = kube_new(&c->api, &c->kube, err);
	if (rc == 0) {
		c->servers = servers_new(c->kube, cfg->log, cfg->metrics, err);
		rc = c->servers ? 0 : (int)err->code;
	}
	if (rc == 0 && cfg->servers_at_once)
		servers_at_once(c->servers, cfg->servers_at_once);
	if (rc == 0) {
		c->ledger = ledger_kube_new(c->servers, c->kube,
			(unsigned)cfg->settings->pending_share, cfg->log, cfg->metrics, err);
		rc = c->ledger ? 0 : (int)err->code;
	}
	if (rc == 0)
		rc = make_looks(c, cfg->settings, err);
	c->quotas = (struct quota_look){.kube = c->kube, .servers = c->servers, .log = cfg->log};
	c->waiting.kube = c->kube;
	if (rc == 0 && cfg->settings->secrets_sync)
		rc = make_gate(c, err);
	if (rc != 0) {
		cluster_free(c);
		return rc;
	}
	cluster_list_duties(c);
	*ret = c;
	return 0;
}

static void on_servers_changed(void *ctx)
{
	struct cluster *c = ctx;

	(void)pthread_mutex_lock(&c->lock);
	if (c->leader)
		leader_servers_changed(c->leader);
	(void)pthread_mutex_unlock(&c->lock);
}

/* Put another leader (or none) in the place; the one before. */
static struct leader *swap_leader(struct cluster *c, struct leader *to)
{
	struct leader *from;

	(void)pthread_mutex_lock(&c->lock);
	from = c->leader;
	c->leader = to;
	(void)pthread_mutex_unlock(&c->lock);
	return from;
}

int cluster_start(struct cluster *c, struct err *err)
{
	struct leader *l;
	struct leader_config leader = {.kube = c->kube,
		.log = c->cfg.log,
		.metrics = c->cfg.metrics,
		.servers = c->servers,
		.namespace = c->namespace,
		.lease = c->cfg.settings->lease,
		.identity = c->identity,
		.duties = c->duties,
		.n_duties = c->n_duties};
	struct tls_secret_config tls = {.kube = c->kube,
		.log = c->cfg.log,
		.metrics = c->cfg.metrics,
		.identity = c->cfg.identity,
		.namespace = c->namespace,
		.name = c->cfg.settings->tls_secret};
	struct hook_look_config hooks = {.kube = c->kube,
		.log = c->cfg.log,
		.metrics = c->cfg.metrics,
		.configuration = c->cfg.settings->webhooks};

	log_line(c->cfg.log, LOG_LEVEL_INFO, "cluster", log_str("api", c->api.server),
		log_str("namespace", c->namespace), log_str("identity", c->identity),
		log_int("duties", (int64_t)c->n_duties));
	if (hooks.configuration) {
		c->hooks = hook_look_start(&hooks, err);
		if (!c->hooks)
			return (int)err->code;
	}
	if (c->policies && policy_look_start(c->policies, err) != 0)
		return (int)err->code;
	if (c->count && usage_count_start(c->count, err) != 0)
		return (int)err->code;
	c->plan_key_look = plan_key_look_start(&c->plan_keys, err);
	if (!c->plan_key_look)
		return (int)err->code;
	if (!c->cfg.own_certificate) {
		c->tls = tls_secret_start(&tls, err);
		if (!c->tls)
			return (int)err->code;
	}
	l = leader_start(&leader, err);
	if (!l)
		return (int)err->code;
	(void)swap_leader(c, l);
	return servers_start(c->servers, on_servers_changed, c, err);
}

struct ledger *cluster_ledger(struct cluster *c)
{
	return c->ledger;
}

struct secrets_check cluster_secrets(struct cluster *c)
{
	return (struct secrets_check){c->gate, c->gate ? secret_gate_check : NULL};
}

struct quotas_check cluster_quotas(struct cluster *c)
{
	return (struct quotas_check){&c->quotas, quota_look_check};
}

struct waiters cluster_waiters(struct cluster *c)
{
	return (struct waiters){&c->waiting, waiting_look_count};
}

struct pool_waiting_source cluster_waiting(struct cluster *c)
{
	return (struct pool_waiting_source){&c->waiting, waiting_look_tell};
}

static bool look_any(void *ctx, const struct config *config)
{
	(void)ctx, (void)config;
	return true;
}

static int look_of(void *ctx, const struct config *config, struct slice namespace, bool picks,
	int64_t deadline_ms, struct arena *a, const struct policy **ret, struct err *err)
{
	struct cluster *c = ctx;

	(void)config;
	return policy_look_of(c->policies, namespace, picks, deadline_ms, a, ret, err);
}

struct policies_known cluster_policies(struct cluster *c)
{
	return c->cfg.settings->policies ? (struct policies_known){c, look_any, look_of}
					 : (struct policies_known){0};
}

struct login_source cluster_logins(struct cluster *c)
{
	return (struct login_source){c->kube, pull_secrets_find};
}

static uint64_t heard_version(void *ctx)
{
	struct cluster *c = ctx;

	return c->hooks ? hook_look_version(c->hooks) : 0;
}

static bool heard_covers(void *ctx, struct slice secret)
{
	struct cluster *c = ctx;

	return !c->hooks || hook_look_covers(c->hooks, secret);
}

struct secrets_heard cluster_heard(struct cluster *c)
{
	return (struct secrets_heard){c, heard_version, heard_covers};
}

struct usage_page *cluster_usage(struct cluster *c)
{
	return c->count ? usage_count_page(c->count) : NULL;
}

const char *cluster_unready(struct cluster *c)
{
	if (!servers_synced(c->servers))
		return "starting: the GPUServers have not been read yet";
	return !c->policies || policy_look_synced(c->policies)
		       ? NULL
		       : "starting: the GPUPolicies and namespaces have not been read yet";
}

void cluster_stop(struct cluster *c)
{
	if (!c)
		return;
	leader_stop(swap_leader(c, NULL));
}

void cluster_free(struct cluster *c)
{
	if (!c)
		return;
	cluster_stop(c);
	tls_secret_stop(c->tls);
	hook_look_stop(c->hooks);
	usage_count_free(c->count);
	policy_look_free(c->policies);
	plan_key_look_stop(c->plan_key_look);
	ledger_kube_free(c->ledger, GIVE_BACK_MS);
	if (c->servers)
		servers_stop(c->servers);
	servers_free(c->servers);
	secret_gate_free(c->gate);
	waiting_look_release(&c->waiting);
	kube_free(c->kube);
	kube_config_release(&c->api);
	arena_release(&c->arena);
	(void)pthread_mutex_destroy(&c->lock);
	free(c);
}
