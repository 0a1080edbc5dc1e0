/* SPDX-License-Identifier: Apache-2.0 */
/* core: a launcher profile out of its document: head, clients, objects, and the rules that bind
 * them to each other. */
#include "webhook/core/launcher/launcher_load.h"

#include <string.h>

#include "base/text.h"
#include "base/yaml/yaml_config.h"
#include "webhook/core/launcher/launcher_parts.h"
#include "webhook/core/pool/placement.h"

#define CLIENTS_MAX 1024

static int out_of_memory(struct err *err)
{
	return err_set(err, ERR_NOMEM, "out of memory for the launcher profile");
}

static int read_head(const struct yaml_node *root, struct arena *a, struct profile *p,
	struct yaml_node **ret_spec, struct err *err)
{
	struct yaml_node *metadata;
	int rc;

	if ((rc = yaml_as_map(root, err)) != 0 ||
		(rc = yaml_need_word(root, "apiVersion", POOLGATE_API_VERSION, err)) != 0 ||
		(rc = yaml_need_word(root, "kind", LAUNCHER_KIND, err)) != 0 ||
		(rc = yaml_known(root, err, "apiVersion", "kind", "metadata", "spec", NULL)) != 0 ||
		(rc = yaml_need(root, "metadata", &metadata, err)) != 0 ||
		(rc = yaml_known(metadata, err, "name", "labels", "annotations", NULL)) != 0 ||
		(rc = parts_text(metadata, "name", text_dns_label,
			 "a name for the annotation poolgate.io/launcher: a to z, 0 to 9 and '-', "
			 "at most 63",
			 a, &p->name, err)) != 0 ||
		(rc = yaml_need(root, "spec", ret_spec, err)) != 0)
		return rc;
	return yaml_known(*ret_spec, err, "kind", "argv", "separator", "launcher", "options",
		"shell", "env", "initContainers", "volumes", "volumeMounts", "secrets", "can",
		"placement", "granularity", "addressFamilies", "clients", "gate", NULL);
}

static int read_kind(const struct yaml_node *spec, struct profile *p, struct err *err)
{
	static const char *const kinds[] = {"wrap", "preload", "libpath", "env"};
	static const enum profile_kind meaning[] = {
		PROFILE_WRAP, PROFILE_PRELOAD, PROFILE_LIBPATH, PROFILE_ENV};
	struct yaml_node *node;
	size_t choice = 0;
	int rc;

	if ((rc = yaml_need(spec, "kind", &node, err)) != 0 ||
		(rc = yaml_as_choice(node, kinds, 4, &choice, err)) != 0)
		return rc;
	p->kind = meaning[choice];
	return 0;
}

/* ---- clients ---- */

static int read_values(
	const struct yaml_node *map, struct arena *a, struct profile_client *c, struct err *err)
{
	int rc;

	if (yaml_absent(map))
		return 0;
	if ((rc = yaml_as_map(map, err)) != 0)
		return rc;
	c->values = arena_array(a, map->count, sizeof(*c->values));
	if (!c->values)
		return out_of_memory(err);
	YAML_MEMBERS(map, key)
	{
		struct profile_value *v = &c->values[c->n_values];
		struct slice text;

		/* A name stands between "{client." and "}". */
		if (!text_dns_label(key->text))
			return yaml_unexpected(key, err, "a name of a to z, 0 to 9 and '-'");
		if ((rc = yaml_as_str(key->next, &text, err)) != 0)
			return rc;
		if (text.len == 0 || memchr(text.at, '\0', text.len))
			return yaml_unexpected(
				key->next, err, "text that is not empty and holds no NUL");
		if ((rc = parts_copy(key->text, a, &v->name, err)) != 0 ||
			(rc = parts_copy(text, a, &v->value, err)) != 0)
			return rc;
		c->n_values++;
	}
	return 0;
}

/* Templates are checked against one client's names: all must have the same. */
static int same_names(const struct yaml_node *node, const struct profile_client *first,
	const struct profile_client *c, struct err *err)
{
	for (size_t i = 0; i < first->n_values; i++) {
		struct slice name = first->values[i].name;
		size_t k = 0;

		while (k < c->n_values && !slice_eq(c->values[k].name, name))
			k++;
		if (k == c->n_values)
			return yaml_err(node, err, ERR_INVALID,
				"the client has no value \"%.*s\", which the first client has: "
				"expected the "
				"same names in all",
				(int)name.len, name.at);
	}
	if (c->n_values != first->n_values)
		return yaml_err(node, err, ERR_INVALID,
			"the client has %zu values and the first client %zu: expected the same "
			"names in "
			"all",
			c->n_values, first->n_values);
	return 0;
}

static int read_client(const struct yaml_node *map, bool chosen, const struct profile *p,
	struct arena *a, struct profile_client *c, struct err *err)
{
	int rc;

	if ((rc = yaml_as_map(map, err)) != 0 ||
		(rc = yaml_known(map, err, "os", "version", "arch", "values", NULL)) != 0 ||
		(rc = parts_arch(map, "arch", a, &c->arch, err)) != 0)
		return rc;
	if (chosen) {
		struct yaml_node *node;
		struct slice os, version;

		if ((rc = yaml_need(map, "os", &node, err)) != 0 ||
			(rc = yaml_as_str(node, &os, err)) != 0 ||
			(rc = yaml_need(map, "version", &node, err)) != 0 ||
			(rc = yaml_as_str(node, &version, err)) != 0)
			return rc;
		if (os.len == 0 || version.len == 0)
			return yaml_err(map, err, ERR_INVALID,
				"found an empty os or version, expected what pods write into %s",
				"bitfusion-client/os and bitfusion-client/version");
		for (size_t i = 0; i < p->n_clients; i++)
			if (slice_eq(p->clients[i].os, os) &&
				slice_eq(p->clients[i].version, version))
				return yaml_err(map, err, ERR_INVALID,
					"found os \"%.*s\" with version \"%.*s\" twice, expected "
					"each pair once",
					(int)os.len, os.at, (int)version.len, version.at);
		if ((rc = parts_copy(os, a, &c->os, err)) != 0 ||
			(rc = parts_copy(version, a, &c->version, err)) != 0)
			return rc;
	}
	if ((rc = read_values(yaml_get(map, "values"), a, c, err)) != 0)
		return rc;
	return p->n_clients ? same_names(map, &p->clients[0], c, err) : 0;
}

/* No clients: one without values. A single one without os and version: its values. Else pods
 * choose. */
static int read_clients(
	const struct yaml_node *spec, struct arena *a, struct profile *p, struct err *err)
{
	const struct yaml_node *seq = yaml_get(spec, "clients");
	int rc;

	if (!yaml_absent(seq)) {
		if ((rc = yaml_as_seq(seq, err)) != 0)
			return rc;
		if (seq->count == 0 || seq->count > CLIENTS_MAX)
			return yaml_err(seq, err, ERR_INVALID, "found %u clients, expected 1 to %d",
				seq->count, CLIENTS_MAX);
		p->by_client = seq->count > 1 || !yaml_absent(yaml_get(seq->first, "os")) ||
			       !yaml_absent(yaml_get(seq->first, "version"));
	}
	p->clients = arena_array(a, yaml_absent(seq) ? 1 : seq->count, sizeof(*p->clients));
	if (!p->clients)
		return out_of_memory(err);
	YAML_EACH(seq, map)
	{
		rc = read_client(map, p->by_client, p, a, &p->clients[p->n_clients], err);
		if (rc != 0)
			return rc;
		p->n_clients++;
	}
	if (p->n_clients == 0)
		p->n_clients = 1;
	return 0;
}

/* ---- objects ---- */

static int read_objects(
	const struct yaml_node *spec, struct arena *a, struct profile *p, struct err *err)
{
	const struct yaml_node *inits = yaml_get(spec, "initContainers");
	int rc;

	rc = parts_volumes(yaml_get(spec, "volumes"), a, &p->volumes, &p->n_volumes, err);
	if (rc != 0)
		return rc;
	rc = parts_mounts(yaml_get(spec, "volumeMounts"), p->volumes, p->n_volumes, a, &p->mounts,
		&p->n_mounts, err);
	if (rc != 0)
		return rc;
	for (size_t i = 0; i < p->n_clients; i++) {
		struct profile_client *c = &p->clients[i];
		struct inits_fill fill = {.values = c->values, .n_values = c->n_values};

		rc = inits_read(
			inits, &fill, p->volumes, p->n_volumes, a, &c->inits, &c->n_inits, err);
		if (rc != 0)
			return rc;
	}
	return 0;
}

/* Those listed (an init container can read one into its environment), and those that variables and
 * volumes name. */
static int read_secrets(
	const struct yaml_node *spec, struct arena *a, struct profile *p, struct err *err)
{
	const struct yaml_node *node = yaml_get(spec, "secrets");
	struct slice *listed = NULL;
	size_t n = 0;
	int rc;

	if ((rc = yaml_get_strs(spec, "secrets", &listed, &n, err)) != 0)
		return rc;
	p->secrets = arena_array(a, n + p->n_env, sizeof(*p->secrets));
	if (!p->secrets)
		return out_of_memory(err);
	for (size_t i = 0; i < n; i++) {
		struct slice name;

		if (listed[i].len == 0)
			return yaml_err(yaml_at(node, i), err, ERR_INVALID,
				"found \"\", expected the name of a Secret");
		if ((rc = parts_copy(listed[i], a, &name, err)) != 0)
			return rc;
		parts_add_name(p->secrets, &p->n_secrets, name);
	}
	for (size_t i = 0; i < p->n_env; i++)
		if (p->env[i].secret.at)
			parts_add_name(p->secrets, &p->n_secrets, p->env[i].secret);
	return parts_secrets(yaml_get(spec, "volumes"), a, &p->secrets, &p->n_secrets, err);
}

/* ---- promises ---- */

static int read_can(
	const struct yaml_node *can, const char *key, bool told, enum can *ret, struct err *err)
{
	/* `yes` without quotes is a boolean. */
	static const char *const words[] = {"yes", "no", "bookkeeping", "gate"};
	static const enum can meaning[] = {CAN_YES, CAN_NO, CAN_BOOKKEEPING, CAN_GATE};
	const struct yaml_node *node = yaml_get(can, key);
	size_t choice = told ? 0 : 1;
	bool yes, plain = false;
	int rc;

	if (!yaml_absent(node)) {
		struct err unused = {0};

		plain = yaml_as_bool(node, &yes, &unused) == 0;
		if (plain)
			choice = yes ? 0 : 1;
	}
	if (!plain && (rc = yaml_get_choice(can, key, words, 4, &choice, err)) != 0)
		return rc;
	if (meaning[choice] == CAN_YES && !told)
		return yaml_err(node, err, ERR_INVALID,
			"found yes, but no place of argv or env tells the client the %s: expected "
			"no, or "
			"bookkeeping when it shall only be counted, or gate when its GPU servers' "
			"gates hold it to that",
			key);
	*ret = meaning[choice];
	return 0;
}

static int read_promises(const struct yaml_node *spec, struct profile *p, struct err *err)
{
	const struct yaml_node *can = yaml_get(spec, "can");
	bool fraction = profile_has(p, "fraction") || profile_has(p, "percent");
	bool memory = profile_has(p, "memory_mb") || profile_has(p, "memory_gib");
	int64_t max = profile_has(p, "amount") || profile_has(p, "servers") ||
				      profile_has(p, "gpus") || profile_has(p, "gpu_indexes")
			      ? GPU_AMOUNT_MAX
			      : 1;
	int rc;

	if (!yaml_absent(can) &&
		(rc = yaml_known(can, err, "fraction", "memory", "maxAmount", NULL)) != 0)
		return rc;
	if ((rc = read_can(can, "fraction", fraction, &p->can_fraction, err)) != 0 ||
		(rc = read_can(can, "memory", memory, &p->can_memory, err)) != 0 ||
		(rc = yaml_get_int(can, "maxAmount", 1, GPU_AMOUNT_MAX, &max, err)) != 0)
		return rc;
	p->max_amount = (uint32_t)max;
	return 0;
}

/* A gate gives a claim a server process with the GPUs that it holds, and no others. */
static int check_guarded(const struct yaml_node *spec, const struct profile *p, struct err *err)
{
	bool gated = p->gate.port || p->gate.by_address;

	if (!profile_guarded(p) || (gated && !p->whole_servers))
		return 0;
	return yaml_err(yaml_get(spec, "can"), err, ERR_INVALID,
		"found gate, expected %s beside it",
		gated ? "\"granularity: gpu\""
		      : "a gate through which the client reaches its servers (spec.gate)");
}

/* None listed: the client can use both. */
static int read_families(const struct yaml_node *spec, struct profile *p, struct err *err)
{
	static const char *const families[] = {"IPv4", "IPv6"};
	const struct yaml_node *list = yaml_get(spec, "addressFamilies");
	bool can[2] = {false, false};
	int rc;

	if (yaml_absent(list))
		return 0;
	if ((rc = yaml_as_seq(list, err)) != 0)
		return rc;
	if (list->count == 0)
		return yaml_err(
			list, err, ERR_INVALID, "found an empty list, expected IPv4, IPv6 or both");
	YAML_EACH(list, node)
	{
		size_t choice;

		if ((rc = yaml_as_choice(node, families, 2, &choice, err)) != 0)
			return rc;
		can[choice] = true;
	}
	p->no_ipv4 = !can[0];
	p->no_ipv6 = !can[1];
	return 0;
}

static int read_placement(const struct yaml_node *spec, struct profile *p, struct err *err)
{
	static const char *const placements[] = {"client", "servers"};
	static const char *const granularities[] = {"gpu", "server"};
	bool told;
	size_t placement = 0, granularity = 0;
	int rc;

	for (size_t v = 0; v < LATE_VALUES; v++)
		if (profile_has(p, late_value_name((enum late_value)v)))
			p->values |= 1u << v;
	told = p->values != 0;
	p->needs_late = p->values & (1u << LATE_GPUS | 1u << LATE_GPU_INDEXES);
	if ((rc = yaml_get_choice(spec, "placement", placements, 2, &placement, err)) != 0 ||
		(rc = yaml_get_choice(spec, "granularity", granularities, 2, &granularity, err)) !=
			0)
		return rc;
	p->servers_placed = placement == 1;
	p->whole_servers = granularity == 1;
	p->one_server = profile_has(p, "server_host");
	if (p->servers_placed && !told)
		return yaml_err(yaml_get(spec, "placement"), err, ERR_INVALID,
			"found servers, but no place {servers}, {server_host}, {gpus} or "
			"{gpu_indexes} in argv or env tells the "
			"client which: expected client, or such a place");
	if (told && !p->servers_placed)
		return yaml_err(spec, err, ERR_INVALID,
			"argv or env holds {servers}, {server_host}, {gpus} or {gpu_indexes}, "
			"expected \"placement: "
			"servers\" "
			"beside it");
	return 0;
}

int launcher_load(
	const struct yaml_node *root, struct arena *a, struct profile *ret, struct err *err)
{
	struct profile p = {0};
	struct yaml_node *spec;
	int rc;

	if ((rc = read_head(root, a, &p, &spec, err)) != 0 ||
		(rc = read_kind(spec, &p, err)) != 0 ||
		(rc = read_clients(spec, a, &p, err)) != 0 ||
		(rc = argv_read(spec, a, &p, err)) != 0 || (rc = env_read(spec, a, &p, err)) != 0 ||
		(rc = read_objects(spec, a, &p, err)) != 0 ||
		(rc = read_secrets(spec, a, &p, err)) != 0 ||
		(rc = read_promises(spec, &p, err)) != 0 ||
		(rc = read_placement(spec, &p, err)) != 0 ||
		(rc = read_families(spec, &p, err)) != 0 ||
		(rc = gate_read(spec, a, &p, err)) != 0 ||
		(rc = check_guarded(spec, &p, err)) != 0 || (rc = profile_seal(&p, err)) != 0)
		return rc;
	*ret = p;
	return 0;
}
