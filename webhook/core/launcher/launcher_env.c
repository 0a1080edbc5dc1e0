/* SPDX-License-Identifier: Apache-2.0 */
/* core: env of a profile document: what is set around the program. */
#include "webhook/core/launcher/launcher_env.h"

#include "base/text.h"
#include "base/yaml/yaml_config.h"
#include "webhook/core/launcher/launcher_parts.h"
#include "webhook/core/launcher/launcher_template.h"

/* A name that both the kubelet and every shell take (Kubernetes allows more). */
static bool env_name(struct slice s)
{
	for (size_t i = 0; i < s.len; i++) {
		char c = s.at[i];
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';

		if (!letter && !(i > 0 && c >= '0' && c <= '9'))
			return false;
	}
	return s.len > 0;
}

/* What is put in front must not be empty or bring a separator of its own: an empty element of a
 * library path is the current folder. */
static int check_prepend(const struct yaml_node *node, const struct profile *p,
	const struct profile_env *e, struct arena *a, struct err *err)
{
	size_t sep = e->separator.len;

	for (size_t i = 0; i < p->n_clients; i++) {
		struct launch l = template_sample(p, &p->clients[i]);
		struct slice text = template_expand(e->value, &l, SLICE(""), a), tail;

		if (a->failed)
			return err_set(err, ERR_NOMEM, "out of memory for the launcher profile");
		tail = text;
		if (text.len >= sep)
			tail = (struct slice){text.at + text.len - sep, sep};
		if (text.len == 0 || slice_starts(text, e->separator) ||
			slice_eq(tail, e->separator))
			return yaml_err(node, err, ERR_INVALID,
				"gives \"%.*s\", expected text that is not empty and neither "
				"begins nor "
				"ends with the separator \"%.*s\"",
				(int)text.len, text.at, (int)sep, e->separator.at);
	}
	return 0;
}

/* A key of a Secret, as the API server takes it (IsConfigMapKey). */
static bool secret_key(struct slice s)
{
	for (size_t i = 0; i < s.len; i++) {
		char c = s.at[i];
		bool plain =
			(c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

		if (!plain && c != '-' && c != '_' && c != '.')
			return false;
	}
	return s.len > 0 && s.len <= 253 && !slice_is(s, ".") && !slice_starts(s, SLICE(".."));
}

/* {name, key} */
static int read_secret(
	const struct yaml_node *map, struct arena *a, struct profile_env *e, struct err *err)
{
	struct yaml_node *name, *key;
	struct slice text;
	char found[80];
	int rc;

	if ((rc = yaml_as_map(map, err)) != 0 ||
		(rc = yaml_known(map, err, "name", "key", NULL)) != 0 ||
		(rc = yaml_need(map, "name", &name, err)) != 0 ||
		(rc = yaml_as_str(name, &text, err)) != 0)
		return rc;
	if (!text_dns_subdomain(text))
		return yaml_err(name, err, ERR_INVALID,
			"found %s, expected the name of a Secret: a to z, 0 to 9, '-' and '.'",
			yaml_found(name, found));
	if ((rc = parts_copy(text, a, &e->secret, err)) != 0 ||
		(rc = yaml_need(map, "key", &key, err)) != 0 ||
		(rc = yaml_as_str(key, &text, err)) != 0)
		return rc;
	if (!secret_key(text))
		return yaml_err(key, err, ERR_INVALID,
			"found %s, expected a key of a Secret: letters, digits, '-', '_' and '.'",
			yaml_found(key, found));
	return parts_copy(text, a, &e->secret_key, err);
}

/* A field of the pod that the kubelet puts in, and that is the same in all its containers. */
static int read_field(
	const struct yaml_node *map, struct arena *a, struct profile_env *e, struct err *err)
{
	static const char *const fields[] = {"metadata.uid", "metadata.name", "metadata.namespace"};
	size_t choice = 0;
	int rc = yaml_get_choice(map, "field", fields, 3, &choice, err);

	return rc == 0 ? parts_copy(slice_of(fields[choice]), a, &e->field, err) : rc;
}

static int read_env_value(const struct yaml_node *map, const struct profile *p, struct arena *a,
	struct profile_env *e, struct err *err)
{
	const struct yaml_node *prepend = yaml_get(map, "prepend");
	const struct yaml_node *secret = yaml_get(map, "secret");
	const struct yaml_node *field = yaml_get(map, "field");
	const struct yaml_node *node = yaml_absent(prepend) ? yaml_get(map, "value") : prepend;
	struct slice separator = SLICE(":");
	int n = !yaml_absent(prepend) + !yaml_absent(secret) + !yaml_absent(field) +
		!yaml_absent(yaml_get(map, "value"));
	int rc;

	if (n != 1)
		return yaml_err(map, err, ERR_INVALID,
			"found %s of value, prepend, secret and field, expected exactly one",
			n ? "more than one" : "none");
	e->prepend = !yaml_absent(prepend);
	if (!e->prepend && !yaml_absent(yaml_get(map, "separator")))
		return yaml_err(yaml_get(map, "separator"), err, ERR_INVALID,
			"separator belongs to prepend; all else replaces the container's own");
	if ((rc = template_when(map, &e->when, err)) != 0)
		return rc;
	if (!yaml_absent(secret))
		return read_secret(secret, a, e, err);
	if (!yaml_absent(field))
		return read_field(map, a, e, err);
	if ((rc = template_read(node, e->when, p, a, &e->value, err)) != 0 ||
		(rc = yaml_get_str(map, "separator", &separator, err)) != 0)
		return rc;
	if (!e->prepend)
		return 0;
	if (separator.len == 0)
		return yaml_err(yaml_get(map, "separator"), err, ERR_INVALID,
			"found \"\", expected what stands between two entries, such as \":\"");
	if ((rc = parts_copy(separator, a, &e->separator, err)) != 0)
		return rc;
	return check_prepend(node, p, e, a, err);
}

static int read_env(const struct yaml_node *map, struct arena *a, struct profile *p,
	struct profile_env *e, struct err *err)
{
	struct yaml_node *node;
	struct slice name;
	char found[80];
	int rc;

	if ((rc = yaml_as_map(map, err)) != 0 ||
		(rc = yaml_known(map, err, "name", "value", "prepend", "secret", "field",
			 "separator", "if", NULL)) != 0 ||
		(rc = yaml_need(map, "name", &node, err)) != 0 ||
		(rc = yaml_as_str(node, &name, err)) != 0)
		return rc;
	if (!env_name(name))
		return yaml_err(node, err, ERR_INVALID,
			"found %s, expected the name of an environment variable: letters, digits "
			"and '_'",
			yaml_found(node, found));
	for (size_t i = 0; i < p->n_env; i++)
		if (slice_eq(p->env[i].name, name))
			return yaml_err(node, err, ERR_INVALID,
				"found \"%.*s\" twice, expected each variable once", (int)name.len,
				name.at);
	if ((rc = parts_copy(name, a, &e->name, err)) != 0)
		return rc;
	return read_env_value(map, p, a, e, err);
}

int env_read(const struct yaml_node *spec, struct arena *a, struct profile *p, struct err *err)
{
	const struct yaml_node *seq = yaml_get(spec, "env");
	void *room;
	int rc;

	if ((rc = parts_room(seq, sizeof(*p->env), a, &room, err)) != 0)
		return rc;
	p->env = room;
	YAML_EACH(seq, entry)
	{
		if ((rc = read_env(entry, a, p, &p->env[p->n_env], err)) != 0)
			return rc;
		p->n_env++;
	}
	if (p->n_env == 0 && p->kind != PROFILE_WRAP)
		return yaml_err(spec, err, ERR_INVALID,
			"found no env, expected at least one variable: without a launcher nothing "
			"else "
			"reaches the program");
	return 0;
}
