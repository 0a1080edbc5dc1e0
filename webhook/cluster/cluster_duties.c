/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what this replica does while it leads, as the settings want it, and what each of these
 * duties works on. */
#include "base/clock.h"
#include "webhook/cluster/cluster_impl.h"
#include "webhook/cluster/ledger/ledger_kube.h"
#include "webhook/cluster/policy/policy_look.h"

/* The leader waits so long for a namespace, or a policy, that its picture does not show yet. */
#define POLICY_MS 1000

static int ask_policy(void *ctx, struct slice namespace, struct arena *a, const struct policy **ret,
	struct err *err)
{
	return policy_look_of(ctx, namespace, false, clock_ms() + POLICY_MS, a, ret, err);
}

static int show_policy(void *ctx, struct slice namespace, struct arena *a,
	const struct policy **ret, struct err *err)
{
	return policy_look_of(ctx, namespace, false, 0, a, ret, err);
}

/* What the leader does by policies. */
static void list_policies(struct cluster *c)
{
	if (!c->policies)
		return;
	c->policies_asked = (struct policy_source){c->policies, ask_policy};
	c->policies_shown = (struct policy_source){c->policies, show_policy};
	c->claims.policies = &c->policies_asked;
	c->claims.accounts = ledger_kube_accounts(c->ledger);
	accounts_set_policies(c->claims.accounts, &c->policies_shown);
	c->accounts = (struct policy_keeper_config){.kube = c->kube,
		.servers = c->servers,
		.accounts = c->claims.accounts,
		.log = c->cfg.log};
	c->duties[c->n_duties++] = policy_keeper_duty(&c->accounts);
	c->told = (struct policy_teller_config){.kube = c->kube, .log = c->cfg.log};
	c->duties[c->n_duties++] = policy_teller_duty(&c->told);
}

void cluster_list_duties(struct cluster *c)
{
	const struct cluster_settings *st = c->cfg.settings;

	c->claims = (struct claims_config){.kube = c->kube,
		.servers = c->servers,
		.log = c->cfg.log,
		.metrics = c->cfg.metrics,
		.source = c->cfg.source,
		.carrier = c->cfg.carrier,
		.waiting = &c->waiting,
		.max_grace_ms = st->max_grace_ms,
		.classes = {st->priority_classes, st->n_priority_classes},
		.reserve_ms = st->reserve_ms,
		.evict_ms = st->eviction ? st->evict_after_ms : 0};
	c->keeper = (struct server_keeper_config){.kube = c->kube,
		.servers = c->servers,
		.log = c->cfg.log,
		.adopted = claims_adopted_since,
		.adopted_ctx = &c->claims};
	c->pool = (struct pool_keeper_config){
		.kube = c->kube, .servers = c->servers, .ledger = c->ledger, .log = c->cfg.log};
	c->usage = (struct usage_keeper_config){.kube = c->kube,
		.servers = c->servers,
		.log = c->cfg.log,
		.metrics = c->cfg.metrics,
		.enabled = st->usage};
	c->probes = (struct probe_poll_config){.kube = c->kube,
		.servers = c->servers,
		.log = c->cfg.log,
		.metrics = c->cfg.metrics,
		.namespace = c->namespace,
		.every_ms = st->probe_every_ms};
	c->gates = c->probes;
	c->certs = (struct cert_keeper_config){.kube = c->kube,
		.log = c->cfg.log,
		.metrics = c->cfg.metrics,
		.namespace = c->namespace,
		.service = st->service,
		.configuration = st->webhooks,
		.ca_secret = st->ca_secret,
		.tls_secret = st->tls_secret,
		.ca_valid_s = st->ca_valid_ms / 1000,
		.serving_valid_s = st->serving_valid_ms / 1000,
		.policy = {st->publish_wait_ms / 1000, st->drop_wait_ms / 1000}};
	c->secrets = (struct secret_sync_config){.kube = c->kube,
		.servers = c->servers,
		.log = c->cfg.log,
		.metrics = c->cfg.metrics,
		.namespace = c->namespace,
		.source = st->secrets_source};
	c->plan_keys = (struct plan_key_config){.kube = c->kube,
		.log = c->cfg.log,
		.metrics = c->cfg.metrics,
		.namespace = c->namespace,
		.keys = c->cfg.keys};
	c->duties[c->n_duties++] = claims_duty(&c->claims);
	c->duties[c->n_duties++] = server_keeper_duty(&c->keeper);
	c->duties[c->n_duties++] = probe_poll_duty(&c->probes);
	c->duties[c->n_duties++] = gate_poll_duty(&c->gates);
	c->duties[c->n_duties++] = pool_keeper_duty(&c->pool);
	c->duties[c->n_duties++] = usage_keeper_duty(&c->usage);
	c->duties[c->n_duties++] = plan_key_duty(&c->plan_keys);
	if (st->tls_manage && !c->cfg.own_certificate)
		c->duties[c->n_duties++] = cert_keeper_duty(&c->certs);
	if (st->secrets_sync)
		c->duties[c->n_duties++] = secret_sync_duty(&c->secrets);
	list_policies(c);
}
