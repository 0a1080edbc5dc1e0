/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the settings of registries that may be asked what images start: the config file's key
 * `registries`. */
#include "base/yaml/yaml.h"
#include "base/yaml/yaml_config.h"
#include "net/address.h"
#include "net/http_head.h"
#include "webhook/core/image/image.h"
#include "webhook/edge/settings/settings_file.h"

static int out_of_memory(struct err *err)
{
	return err_set(err, ERR_NOMEM, "out of memory for the settings");
}

/* A list of words that are all `good`. */
static int read_list(const struct yaml_node *map, const char *key, size_t max,
	bool (*good)(struct slice), const char *expected, struct settings *s, struct slice **ret,
	size_t *ret_n, struct err *err)
{
	struct yaml_node *seq;
	int rc = yaml_get_seq(map, key, &seq, err);

	if (rc != 0 || !seq)
		return rc;
	if (seq->count > max)
		return yaml_err(
			seq, err, ERR_INVALID, "found %u, expected at most %zu", seq->count, max);
	*ret = arena_array(&s->arena, seq->count, sizeof(**ret));
	if (!*ret)
		return out_of_memory(err);
	YAML_EACH(seq, node)
	{
		struct slice text;

		if ((rc = yaml_as_str(node, &text, err)) != 0)
			return rc;
		if (!good(text))
			return yaml_err(node, err, ERR_INVALID, "found \"%.*s\", expected %s",
				text.len > 80 ? 80 : (int)text.len, text.at, expected);
		(*ret)[*ret_n] = arena_slice(&s->arena, text);
		if (!(*ret)[(*ret_n)++].at)
			return out_of_memory(err);
	}
	return 0;
}

static int read_one(const struct yaml_node *map, struct settings *s, const char *config,
	struct registry *ret, struct err *err)
{
	static const char hosts[] = "a host as it stands in https URLs, in small letters, with its "
				    "port unless that is 443: ghcr.io, registry.example:5000";
	struct slice host;
	struct yaml_node *node;
	int rc;

	if ((rc = yaml_as_map(map, err)) != 0 ||
		(rc = yaml_known(map, err, "host", "tokens", "manifests", "storage", "addresses",
			 "ca", NULL)) != 0 ||
		(rc = yaml_need(map, "host", &node, err)) != 0 ||
		(rc = yaml_as_str(node, &host, err)) != 0)
		return rc;
	if (!https_host_good(host))
		return yaml_err(node, err, ERR_INVALID, "found \"%.*s\", expected %s",
			host.len > 80 ? 80 : (int)host.len, host.at, hosts);
	for (size_t i = 0; i < s->n_registries; i++)
		if (slice_eq(s->registries[i].host, host))
			return yaml_err(
				node, err, ERR_INVALID, "the same registry stands here twice");
	ret->host = arena_slice(&s->arena, host);
	if (!ret->host.at)
		return out_of_memory(err);
	if ((rc = read_list(map, "tokens", SETTINGS_REGISTRY_NAMES_MAX, https_host_good, hosts, s,
		     &ret->tokens, &ret->n_tokens, err)) != 0 ||
		(rc = read_list(map, "manifests", SETTINGS_REGISTRY_NAMES_MAX, https_host_good,
			 hosts, s, &ret->manifests, &ret->n_manifests, err)) != 0 ||
		(rc = read_list(map, "storage", SETTINGS_REGISTRY_NAMES_MAX, https_host_good, hosts,
			 s, &ret->storage, &ret->n_storage, err)) != 0 ||
		(rc = read_list(map, "addresses", SETTINGS_REGISTRY_NAMES_MAX, address_range_good,
			 "addresses: 10.2.0.0/16, 10.2.0.7, fd00:1::/32", s, &ret->addresses,
			 &ret->n_addresses, err)) != 0)
		return rc;
	return settings_path(map, "ca", s, config, &ret->ca, err);
}

int settings_registries(
	const struct yaml_node *root, struct settings *s, const char *config, struct err *err)
{
	struct yaml_node *seq;
	int rc = yaml_get_seq(root, "registries", &seq, err);

	if (rc != 0 || !seq)
		return rc;
	if (seq->count > SETTINGS_REGISTRIES_MAX)
		return yaml_err(seq, err, ERR_INVALID, "found %u, expected at most %d registries",
			seq->count, SETTINGS_REGISTRIES_MAX);
	s->registries = arena_array(&s->arena, seq->count, sizeof(*s->registries));
	s->n_registries = 0;
	if (!s->registries)
		return out_of_memory(err);
	YAML_EACH(seq, node)
	{
		if ((rc = read_one(node, s, config, &s->registries[s->n_registries], err)) != 0)
			return rc;
		s->n_registries++;
	}
	return 0;
}
