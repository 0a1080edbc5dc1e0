/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the settings of a server that runs with a cluster: the config file's key `cluster`. */
#include <string.h>

#include "base/text.h"
#include "base/yaml/yaml.h"
#include "base/yaml/yaml_config.h"
#include "webhook/edge/settings/settings_file.h"

#define DAY_MS INT64_C(86400000)
#define VALID_MAX_MS (100 * 366 * DAY_MS)
#define WAIT_MAX_MS (30 * DAY_MS)

void settings_cluster_defaults(struct cluster_settings *c)
{
	*c = (struct cluster_settings){.service = "poolgate",
		.lease = "poolgate-leader",
		.webhooks = "poolgate",
		.tls_secret = "poolgate-tls",
		.ca_secret = "poolgate-ca",
		.tls_manage = true,
		.ca_valid_ms = 3650 * DAY_MS,
		.serving_valid_ms = 90 * DAY_MS,
		.publish_wait_ms = 60000,
		.drop_wait_ms = 60000,
		.secrets_source = "kube-system/bitfusion-secret",
		.probe_every_ms = 10000,
		.reserve_ms = 600000,
		.evict_after_ms = 600000,
		.pending_share = 25,
		.max_grace_ms = 3600000};
}

/* An object's name: it goes into paths of the API. */
static bool is_name(struct slice s)
{
	if (s.len == 0 || s.len > 253)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		char c = s.at[i];

		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.'))
			return false;
	}
	return true;
}

static int read_name(const struct yaml_node *map, const char *key, bool slash, struct settings *s,
	const char **ret, struct err *err)
{
	struct slice text = {0}, front, back = {0};
	const char *at, *copy;
	int rc = yaml_get_str(map, key, &text, err);

	if (rc != 0 || !text.at)
		return rc;
	front = text;
	at = memchr(text.at, '/', text.len);
	if (slash && at) {
		front.len = (size_t)(at - text.at);
		back = (struct slice){at + 1, text.len - front.len - 1};
	}
	if (!is_name(front) || (slash && !is_name(back)))
		return yaml_err(yaml_get(map, key), err, ERR_INVALID, "found \"%.*s\", expected %s",
			text.len > 80 ? 80 : (int)text.len, text.at,
			slash ? "NAMESPACE/NAME" : "an object's name: a-z, 0-9, '-' and '.'");
	copy = arena_strdup(&s->arena, text);
	if (!copy)
		return err_set(err, ERR_NOMEM, "out of memory for the settings");
	*ret = copy;
	return 0;
}

static int read_tls(const struct yaml_node *map, struct settings *s, struct err *err)
{
	struct cluster_settings *c = &s->cluster;
	const struct yaml_node *tls = yaml_get(map, "tls");
	int rc;

	if (yaml_absent(tls))
		return 0;
	if ((rc = yaml_as_map(tls, err)) != 0 ||
		(rc = yaml_known(tls, err, "secret", "caSecret", "manage", "caValidity", "validity",
			 "publishWait", "dropWait", NULL)) != 0 ||
		(rc = read_name(tls, "secret", false, s, &c->tls_secret, err)) != 0 ||
		(rc = read_name(tls, "caSecret", false, s, &c->ca_secret, err)) != 0 ||
		(rc = yaml_get_bool(tls, "manage", &c->tls_manage, err)) != 0 ||
		(rc = yaml_get_duration(
			 tls, "caValidity", 1000, VALID_MAX_MS, &c->ca_valid_ms, err)) != 0 ||
		(rc = yaml_get_duration(
			 tls, "validity", 1000, VALID_MAX_MS, &c->serving_valid_ms, err)) != 0 ||
		(rc = yaml_get_duration(
			 tls, "publishWait", 0, WAIT_MAX_MS, &c->publish_wait_ms, err)) != 0)
		return rc;
	return yaml_get_duration(tls, "dropWait", 0, WAIT_MAX_MS, &c->drop_wait_ms, err);
}

/* In the order of enum when_full. */
static const char *const when_fulls[] = {"owned", "wait", "refuse"};

/* Whose pods go before others', whatever their tenants name. */
static int read_classes(const struct yaml_node *waiting, struct settings *s, struct err *err)
{
	struct cluster_settings *c = &s->cluster;
	struct slice *names = NULL, *copy;
	size_t n = 0;
	int rc = yaml_get_strs(waiting, "priorityClasses", &names, &n, err);

	if (rc != 0)
		return rc;
	copy = arena_array(&s->arena, n, sizeof(*copy));
	for (size_t i = 0; copy && i < n; i++) {
		if (!is_name(names[i]))
			return yaml_err(yaml_get(waiting, "priorityClasses"), err, ERR_INVALID,
				"found \"%.*s\", expected names of PriorityClasses",
				names[i].len > 80 ? 80 : (int)names[i].len, names[i].at);
		copy[i] = arena_slice(&s->arena, names[i]);
	}
	if (s->arena.failed)
		return err_set(err, ERR_NOMEM, "out of memory for the settings");
	c->priority_classes = copy;
	c->n_priority_classes = n;
	return 0;
}

static int read_waiting(const struct yaml_node *waiting, struct settings *s, struct err *err)
{
	struct cluster_settings *c = &s->cluster;
	size_t when_full = c->when_full;
	int rc;

	if ((rc = yaml_as_map(waiting, err)) != 0 ||
		(rc = yaml_known(waiting, err, "enabled", "whenFull", "reserveAfter",
			 "priorityClasses", NULL)) != 0 ||
		(rc = yaml_get_bool(waiting, "enabled", &c->waiting, err)) != 0 ||
		(rc = yaml_get_choice(
			 waiting, "whenFull", when_fulls, WHEN_FULLS, &when_full, err)) != 0 ||
		(rc = yaml_get_duration(
			 waiting, "reserveAfter", 1000, WAIT_MAX_MS, &c->reserve_ms, err)) != 0)
		return rc;
	c->when_full = (enum when_full)when_full;
	return read_classes(waiting, s, err);
}

static int read_eviction(
	const struct yaml_node *eviction, struct cluster_settings *c, struct err *err)
{
	int rc;

	if (yaml_absent(eviction))
		return 0;
	if ((rc = yaml_as_map(eviction, err)) != 0 ||
		(rc = yaml_known(eviction, err, "enabled", "after", NULL)) != 0 ||
		(rc = yaml_get_bool(eviction, "enabled", &c->eviction, err)) != 0)
		return rc;
	return yaml_get_duration(eviction, "after", 1000, WAIT_MAX_MS, &c->evict_after_ms, err);
}

static int read_policies(
	const struct yaml_node *policies, struct cluster_settings *c, struct err *err)
{
	int rc;

	if (yaml_absent(policies))
		return 0;
	if ((rc = yaml_as_map(policies, err)) != 0 ||
		(rc = yaml_known(policies, err, "enabled", "required", NULL)) != 0 ||
		(rc = yaml_get_bool(policies, "enabled", &c->policies, err)) != 0)
		return rc;
	return yaml_get_bool(policies, "required", &c->policies_required, err);
}

static int read_usage(const struct yaml_node *usage, struct settings *s, struct err *err)
{
	int rc;

	if (yaml_absent(usage))
		return 0;
	if ((rc = yaml_as_map(usage, err)) != 0 ||
		(rc = yaml_known(usage, err, "enabled", "listen", NULL)) != 0 ||
		(rc = yaml_get_bool(usage, "enabled", &s->cluster.usage, err)) != 0)
		return rc;
	return settings_listen(usage, "listen", true, s, &s->cluster.usage_listen, err);
}

static int read_parts(const struct yaml_node *map, struct settings *s, struct err *err)
{
	struct cluster_settings *c = &s->cluster;
	const struct yaml_node *secrets = yaml_get(map, "secrets"), *probe = yaml_get(map, "probe");
	const struct yaml_node *waiting = yaml_get(map, "waiting");
	int rc;

	if (!yaml_absent(waiting) && (rc = read_waiting(waiting, s, err)) != 0)
		return rc;
	if ((rc = read_eviction(yaml_get(map, "eviction"), c, err)) != 0 ||
		(rc = read_usage(yaml_get(map, "usage"), s, err)) != 0)
		return rc;
	if (!yaml_absent(secrets)) {
		if ((rc = yaml_as_map(secrets, err)) != 0 ||
			(rc = yaml_known(secrets, err, "sync", "source", NULL)) != 0 ||
			(rc = yaml_get_bool(secrets, "sync", &c->secrets_sync, err)) != 0 ||
			(rc = read_name(secrets, "source", true, s, &c->secrets_source, err)) != 0)
			return rc;
	}
	if (!yaml_absent(probe)) {
		if ((rc = yaml_as_map(probe, err)) != 0 ||
			(rc = yaml_known(probe, err, "interval", NULL)) != 0 ||
			(rc = yaml_get_duration(
				 probe, "interval", 1000, DAY_MS, &c->probe_every_ms, err)) != 0)
			return rc;
	}
	return 0;
}

int settings_cluster(
	const struct yaml_node *root, struct settings *s, const char *config, struct err *err)
{
	struct cluster_settings *c = &s->cluster;
	const struct yaml_node *map = yaml_get(root, "cluster");
	int rc;

	if (yaml_absent(map))
		return 0;
	c->on = true;
	if ((rc = yaml_as_map(map, err)) != 0 ||
		(rc = yaml_known(map, err, "kubeconfig", "namespace", "service", "lease",
			 "webhooks", "tls", "secrets", "probe", "waiting", "eviction", "policies",
			 "usage", "pendingShare", "maxGracePeriod", NULL)) != 0 ||
		(rc = yaml_get_int(map, "pendingShare", 1, 100, &c->pending_share, err)) != 0 ||
		(rc = yaml_get_duration(
			 map, "maxGracePeriod", 1000, DAY_MS, &c->max_grace_ms, err)) != 0 ||
		(rc = settings_path(map, "kubeconfig", s, config, &s->cluster.kubeconfig, err)) !=
			0 ||
		(rc = read_name(map, "namespace", false, s, &c->namespace, err)) != 0 ||
		(rc = read_name(map, "service", false, s, &c->service, err)) != 0 ||
		(rc = read_name(map, "lease", false, s, &c->lease, err)) != 0 ||
		(rc = read_name(map, "webhooks", false, s, &c->webhooks, err)) != 0 ||
		(rc = read_tls(map, s, err)) != 0 ||
		(rc = read_policies(yaml_get(map, "policies"), c, err)) != 0)
		return rc;
	return read_parts(map, s, err);
}

static bool differ(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) != 0 : a != b;
}

static bool classes_differ(const struct cluster_settings *a, const struct cluster_settings *b)
{
	if (a->n_priority_classes != b->n_priority_classes)
		return true;
	for (size_t i = 0; i < a->n_priority_classes; i++)
		if (!slice_eq(a->priority_classes[i], b->priority_classes[i]))
			return true;
	return false;
}

bool settings_cluster_differ(const struct cluster_settings *a, const struct cluster_settings *b)
{
	return a->on != b->on || differ(a->kubeconfig, b->kubeconfig) ||
	       differ(a->namespace, b->namespace) || differ(a->service, b->service) ||
	       differ(a->lease, b->lease) || differ(a->webhooks, b->webhooks) ||
	       differ(a->tls_secret, b->tls_secret) || differ(a->ca_secret, b->ca_secret) ||
	       a->tls_manage != b->tls_manage || a->ca_valid_ms != b->ca_valid_ms ||
	       a->serving_valid_ms != b->serving_valid_ms ||
	       a->publish_wait_ms != b->publish_wait_ms || a->drop_wait_ms != b->drop_wait_ms ||
	       a->waiting != b->waiting || a->reserve_ms != b->reserve_ms || classes_differ(a, b) ||
	       a->policies != b->policies || a->policies_required != b->policies_required ||
	       a->eviction != b->eviction || a->evict_after_ms != b->evict_after_ms ||
	       a->usage != b->usage || differ(a->usage_listen, b->usage_listen) ||
	       a->secrets_sync != b->secrets_sync || differ(a->secrets_source, b->secrets_source) ||
	       a->probe_every_ms != b->probe_every_ms || a->pending_share != b->pending_share ||
	       a->max_grace_ms != b->max_grace_ms;
}
