/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the settings of registries that may be asked what images start: the config file's key
 * `registries`. */
#include "base/yaml/yaml_config.h"
#include "net/address.h"
#include "net/http_head.h"
#include "webhook/core/image/image.h"
#include "webhook/edge/settings/settings_table.h"

#define HOSTS                                                                                      \
	"a host as it stands in https URLs, in small letters, with its port unless that is 443: "  \
	"ghcr.io, registry.example:5000"
/* Lists of words that are all good. */
#define WORDS(member, good_, expected_)                                                            \
	{                                                                                          \
		.key = #member, .kind = SETTING_SLICES, .at = offsetof(struct registry, member),   \
		.n_at = offsetof(struct registry, n_##member), .max = SETTINGS_REGISTRY_NAMES_MAX, \
		.good = (good_), .expected = (expected_)                                           \
	}

static const struct setting rows[] = {
	{.key = "host",
		.kind = SETTING_SLICE,
		.at = offsetof(struct registry, host),
		.good = https_host_good,
		.expected = HOSTS},
	WORDS(tokens, https_host_good, HOSTS),
	WORDS(manifests, https_host_good, HOSTS),
	WORDS(storage, https_host_good, HOSTS),
	WORDS(addresses, address_range_good, "addresses: 10.2.0.0/16, 10.2.0.7, fd00:1::/32"),
	{.key = "ca", .kind = SETTING_PATH, .at = offsetof(struct registry, ca)},
};

int settings_registries(struct settings_reader *r, const struct yaml_node *seq)
{
	struct settings *s = r->s;
	struct yaml_node *host;
	int rc = yaml_as_seq(seq, r->err);

	if (rc != 0)
		return rc;
	if (seq->count > SETTINGS_REGISTRIES_MAX)
		return yaml_err(seq, r->err, ERR_INVALID,
			"found %u, expected at most %d registries", seq->count,
			SETTINGS_REGISTRIES_MAX);
	s->registries = arena_array(&s->arena, seq->count, sizeof(*s->registries));
	s->n_registries = 0;
	if (!s->registries)
		return err_set(r->err, ERR_NOMEM, "out of memory for the settings");
	YAML_EACH(seq, node)
	{
		struct registry *one = &s->registries[s->n_registries];

		if ((rc = settings_read_map(r, node, rows, sizeof(rows) / sizeof(rows[0]), one)) !=
				0 ||
			(rc = yaml_need(node, "host", &host, r->err)) != 0)
			return rc;
		for (size_t i = 0; i < s->n_registries; i++)
			if (slice_eq(s->registries[i].host, one->host))
				return yaml_err(host, r->err, ERR_INVALID,
					"the same registry stands here twice");
		s->n_registries++;
	}
	return 0;
}
