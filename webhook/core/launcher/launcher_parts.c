/* SPDX-License-Identifier: Apache-2.0 */
/* core: the Kubernetes objects of a profile: checked where we rely on them, otherwise as the
 * operator wrote them; its templates, and the conditions under which they are written. */
#include "webhook/core/launcher/launcher_parts.h"

#include <string.h>

#include "base/text.h"
#include "base/yaml/yaml_config.h"
#include "base/yaml/yaml_json.h"

/* ---- objects ---- */

int parts_copy(struct slice s, struct arena *a, struct slice *ret, struct err *err)
{
	struct slice copy = arena_slice(a, s.at ? s : SLICE(""));

	if (!copy.at)
		return err_set(err, ERR_NOMEM, "out of memory for the configuration");
	*ret = copy;
	return 0;
}

int parts_text(const struct yaml_node *map, const char *key, bool (*good)(struct slice),
	const char *expected, struct arena *a, struct slice *ret, struct err *err)
{
	struct yaml_node *node;
	struct slice text;
	int rc;

	if ((rc = yaml_need(map, key, &node, err)) != 0 ||
		(rc = yaml_as_str(node, &text, err)) != 0)
		return rc;
	if (!good(text))
		return yaml_unexpected(node, err, "%s", expected);
	return parts_copy(text, a, ret, err);
}

int parts_arch(const struct yaml_node *map, const char *key, struct arena *a, struct slice *ret,
	struct err *err)
{
	if (yaml_absent(yaml_get(map, key)))
		return 0;
	return parts_text(map, key, text_dns_label,
		"an architecture as nodes name it in their label kubernetes.io/arch, such as amd64 "
		"or arm64",
		a, ret, err);
}

int parts_room(
	const struct yaml_node *seq, size_t size, struct arena *a, void **ret, struct err *err)
{
	size_t n = 0;
	void *room;

	if (!yaml_absent(seq)) {
		if (yaml_as_seq(seq, err) != 0)
			return (int)err->code;
		if (seq->count > PROFILE_PARTS_MAX)
			return yaml_err(seq, err, ERR_INVALID,
				"found %u entries, expected at most %d", seq->count,
				PROFILE_PARTS_MAX);
		n = seq->count;
	}
	room = arena_array(a, n, size);
	if (!room)
		return err_set(err, ERR_NOMEM, "out of memory for the configuration");
	*ret = room;
	return 0;
}

int parts_finish(struct buf *b, const struct yaml_node *at, struct arena *a, struct slice *ret,
	struct err *err)
{
	int rc = 0;

	if (b->full)
		rc = yaml_err(at, err, ERR_TOOBIG, "the object is over %d bytes as JSON",
			PROFILE_OBJECT_MAX);
	else if (b->failed)
		rc = err_set(err, ERR_NOMEM, "out of memory for the configuration");
	else
		rc = parts_copy(buf_as_slice(b), a, ret, err);
	buf_release(b);
	return rc;
}

static int render(const struct yaml_node *node, struct arena *a, struct slice *ret, struct err *err)
{
	struct buf b;
	int rc;

	buf_init(&b, PROFILE_OBJECT_MAX);
	rc = yaml_to_json(node, YAML_JSON_COMPACT, &b, err);
	if (rc != 0 && !b.failed) {
		buf_release(&b);
		return rc;
	}
	return parts_finish(&b, node, a, ret, err);
}

int parts_name(const struct yaml_node *part, const char *what, struct slice *ret, struct err *err)
{
	struct yaml_node *node;
	int rc;

	if ((rc = yaml_as_map(part, err)) != 0 || (rc = yaml_need(part, "name", &node, err)) != 0 ||
		(rc = yaml_as_str(node, ret, err)) != 0)
		return rc;
	if (!text_dns_label(*ret))
		return yaml_unexpected(
			node, err, "the name of %s: a to z, 0 to 9 and '-', at most 63", what);
	return 0;
}

int parts_volumes(const struct yaml_node *seq, struct arena *a, struct profile_volume **ret,
	size_t *ret_n, struct err *err)
{
	struct profile_volume *v;
	size_t n = 0;
	void *room;
	int rc;

	if ((rc = parts_room(seq, sizeof(*v), a, &room, err)) != 0)
		return rc;
	v = room;
	YAML_EACH(seq, part)
	{
		struct slice name;

		if ((rc = parts_name(part, "a volume", &name, err)) != 0)
			return rc;
		for (size_t i = 0; i < n; i++)
			if (slice_eq(v[i].name, name))
				return yaml_err(yaml_get(part, "name"), err, ERR_INVALID,
					"found \"%.*s\" twice, expected another name for each "
					"volume",
					(int)name.len, name.at);
		if ((rc = parts_copy(name, a, &v[n].name, err)) != 0 ||
			(rc = render(part, a, &v[n].json, err)) != 0)
			return rc;
		n++;
	}
	*ret = v;
	*ret_n = n;
	return 0;
}

static int check_mount(const struct yaml_node *part, const struct profile_volume *volumes,
	size_t n_volumes, struct slice *ret_path, struct err *err)
{
	struct yaml_node *node;
	struct slice name;
	int rc;

	if ((rc = parts_name(part, "a volume of this file", &name, err)) != 0)
		return rc;
	for (size_t i = 0;; i++) {
		if (i == n_volumes)
			return yaml_err(yaml_get(part, "name"), err, ERR_INVALID,
				"found \"%.*s\", expected the name of one of this file's volumes",
				(int)name.len, name.at);
		if (slice_eq(volumes[i].name, name))
			break;
	}
	if ((rc = yaml_need(part, "mountPath", &node, err)) != 0 ||
		(rc = yaml_as_str(node, ret_path, err)) != 0)
		return rc;
	if (ret_path->len == 0 || ret_path->at[0] != '/' ||
		memchr(ret_path->at, ':', ret_path->len))
		return yaml_unexpected(node, err, "an absolute path without ':'");
	return 0;
}

int parts_mounts(const struct yaml_node *seq, const struct profile_volume *volumes,
	size_t n_volumes, struct arena *a, struct profile_mount **ret, size_t *ret_n,
	struct err *err)
{
	struct profile_mount *m;
	size_t n = 0;
	void *room;
	int rc;

	if ((rc = parts_room(seq, sizeof(*m), a, &room, err)) != 0)
		return rc;
	m = room;
	YAML_EACH(seq, part)
	{
		struct slice path;

		if ((rc = check_mount(part, volumes, n_volumes, &path, err)) != 0)
			return rc;
		for (size_t i = 0; i < n; i++)
			if (slice_eq(m[i].path, path))
				return yaml_err(yaml_get(part, "mountPath"), err, ERR_INVALID,
					"found \"%.*s\" twice, expected each path once",
					(int)path.len, path.at);
		if ((rc = parts_copy(path, a, &m[n].path, err)) != 0 ||
			(rc = render(part, a, &m[n].json, err)) != 0)
			return rc;
		n++;
	}
	*ret = m;
	*ret_n = n;
	return 0;
}

void parts_add_name(struct slice *io, size_t *io_n, struct slice name)
{
	for (size_t i = 0; i < *io_n; i++)
		if (slice_eq(io[i], name))
			return;
	io[(*io_n)++] = name;
}

static int add_secret(const struct yaml_node *map, const char *key, struct arena *a,
	struct slice *io, size_t *io_n, struct err *err)
{
	struct slice name = {0};
	int rc;

	if ((rc = yaml_get_str(map, key, &name, err)) != 0 || !name.len)
		return rc;
	if ((rc = parts_copy(name, a, &name, err)) != 0)
		return rc;
	parts_add_name(io, io_n, name);
	return 0;
}

/* How many names the volumes can give at most. */
static size_t count_sources(const struct yaml_node *volumes)
{
	size_t n = 0;

	YAML_EACH(volumes, v)
	{
		struct yaml_node *sources = yaml_path(v, "projected", "sources", NULL);

		n += 1 + (yaml_is(sources, YAML_SEQ) ? sources->count : 0);
	}
	return n;
}

int parts_secrets(const struct yaml_node *volumes, struct arena *a, struct slice **io, size_t *io_n,
	struct err *err)
{
	size_t n = *io_n;
	struct slice *names = arena_array(a, n + count_sources(volumes), sizeof(*names));
	int rc;

	if (!names)
		return err_set(err, ERR_NOMEM, "out of memory for the configuration");
	for (size_t i = 0; i < n; i++)
		names[i] = (*io)[i];
	YAML_EACH(volumes, v)
	{
		rc = add_secret(yaml_get(v, "secret"), "secretName", a, names, &n, err);
		if (rc != 0)
			return rc;
		YAML_EACH(yaml_path(v, "projected", "sources", NULL), s)
		{
			rc = add_secret(yaml_get(s, "secret"), "name", a, names, &n, err);
			if (rc != 0)
				return rc;
		}
	}
	*io = names;
	*io_n = n;
	return 0;
}

/* ---- templates and their conditions ---- */

/* A request that fills every place, to see what templates give for each client. */
static const struct slice sample_words[] = {{"host:1", 6}};

struct launch template_sample(const struct profile *p, const struct profile_client *c)
{
	return (struct launch){.profile = p,
		.client = c,
		.amount = 1,
		.percent = 100,
		.memory_mb = 1,
		.filters = sample_words,
		.n_filters = 1,
		.servers = sample_words,
		.n_servers = 1};
}

/* {fraction} says something only when a request is by percent, {memory_mb} only when it is by
 * memory. */
static int check_when(
	const struct yaml_node *node, struct slice text, enum word_when when, struct err *err)
{
	static const struct {
		const char *place;
		enum word_when when;
		const char *advice;
	} rules[] = {
		{"fraction", WORD_FRACTION, "if: fraction"},
		{"percent", WORD_FRACTION, "if: fraction"},
		{"memory_mb", WORD_MEMORY, "if: memory"},
		{"memory_gib", WORD_MEMORY, "if: memory"},
	};

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (template_has(text, rules[i].place) && when != rules[i].when)
			return yaml_err(node, err, ERR_INVALID,
				"found {%s}, which has no value for every request: put it into an "
				"entry of argv or env with \"%s\"",
				rules[i].place, rules[i].advice);
	return 0;
}

int template_read(const struct yaml_node *node, enum word_when when, const struct profile *p,
	struct arena *a, struct slice *ret, struct err *err)
{
	struct err why = {0};
	struct slice text;
	int rc = yaml_as_str(node, &text, err);

	if (rc != 0)
		return rc;
	if (memchr(text.at, '\0', text.len))
		return yaml_err(node, err, ERR_INVALID, "found a NUL byte, expected text without");
	/* Every client has the names of the first. */
	rc = template_check(text, when, p->clients[0].values, p->clients[0].n_values, &why);
	if (rc != 0)
		return yaml_err(node, err, ERR_INVALID, "%s", why.msg);
	if ((rc = check_when(node, text, when, err)) != 0)
		return rc;
	return parts_copy(text, a, ret, err);
}

int template_when(const struct yaml_node *map, enum word_when *io, struct err *err)
{
	static const char *const conditions[] = {"fraction", "memory", "filter"};
	static const enum word_when meaning[] = {WORD_FRACTION, WORD_MEMORY, WORD_ANY_FILTER};
	size_t choice = 0;
	int rc;

	if (yaml_absent(yaml_get(map, "if")))
		return 0;
	if ((rc = yaml_get_choice(map, "if", conditions, 3, &choice, err)) != 0)
		return rc;
	*io = meaning[choice];
	return 0;
}

bool profile_has(const struct profile *p, const char *place)
{
	for (size_t i = 0; i < p->n_argv; i++)
		for (size_t k = 0; k < p->argv[i].n; k++)
			if (template_has(p->argv[i].word[k], place))
				return true;
	for (size_t i = 0; i < p->n_env; i++)
		if (template_has(p->env[i].value, place))
			return true;
	return false;
}
