/* SPDX-License-Identifier: Apache-2.0 */
/* core: the init containers of a profile: places filled, resources taken apart, everything else
 * verbatim. */
#include "webhook/core/launcher/launcher_parts.h"

#include <string.h>

#include "base/yaml/yaml_config.h"
#include "base/yaml/yaml_json.h"
#include "base/yaml/yaml_scalar.h"

#define CLIENT_OPEN SLICE("{client.")

static const char *find(struct slice text, struct slice word)
{
	for (size_t i = 0; word.len && i + word.len <= text.len; i++)
		if (memcmp(text.at + i, word.at, word.len) == 0)
			return text.at + i;
	return NULL;
}

static void replace_first(struct buf *b, struct slice text, struct slice word, struct slice by)
{
	const char *hit = find(text, word);

	if (!hit) {
		buf_json_str(b, text);
		return;
	}
	buf_char(b, '"');
	buf_json_esc(b, (struct slice){text.at, (size_t)(hit - text.at)});
	buf_json_esc(b, by);
	hit += word.len;
	buf_json_esc(b, (struct slice){hit, (size_t)(text.at + text.len - hit)});
	buf_char(b, '"');
}

static const struct slice *value_of(const struct inits_fill *fill, struct slice name)
{
	for (size_t i = 0; i < fill->n_values; i++)
		if (slice_eq(fill->values[i].name, name))
			return &fill->values[i].value;
	return NULL;
}

/* A string with its {client.NAME} places filled. Only these are places: scripts have braces of
 * their own. */
static int put_text(
	const struct yaml_node *node, const struct inits_fill *fill, struct buf *b, struct err *err)
{
	struct slice rest;
	int rc = yaml_as_str(node, &rest, err);

	if (rc != 0)
		return rc;
	buf_char(b, '"');
	while (rest.len) {
		const char *open = find(rest, CLIENT_OPEN);
		const char *end = rest.at + rest.len, *name, *close;
		const struct slice *value;

		if (!open) {
			buf_json_esc(b, rest);
			break;
		}
		name = open + CLIENT_OPEN.len;
		close = memchr(name, '}', (size_t)(end - name));
		value = close ? value_of(fill, (struct slice){name, (size_t)(close - name)}) : NULL;
		if (!value)
			return yaml_err(node, err, ERR_INVALID,
				"found the place \"%.*s\", expected {client.NAME} with a name "
				"that every client of this profile has among its values",
				(int)(close ? close + 1 - open : end - open), open);
		buf_json_esc(b, (struct slice){rest.at, (size_t)(open - rest.at)});
		buf_json_esc(b, *value);
		rest = (struct slice){close + 1, (size_t)(end - close - 1)};
	}
	buf_char(b, '"');
	return 0;
}

/* command or args */
static int put_words(const struct yaml_node *seq, bool command, const struct inits_fill *fill,
	struct buf *b, struct err *err)
{
	size_t i = 0;
	int rc = yaml_as_seq(seq, err);

	if (rc != 0)
		return rc;
	buf_char(b, '[');
	YAML_EACH(seq, word)
	{
		if (i)
			buf_char(b, ',');
		if (command && i == 2 && fill->word.at) {
			struct slice text;

			if ((rc = yaml_as_str(word, &text, err)) != 0)
				return rc;
			replace_first(b, text, fill->word, fill->by);
		} else if ((rc = put_text(word, fill, b, err)) != 0) {
			return rc;
		}
		i++;
	}
	buf_char(b, ']');
	return 0;
}

/* A member as `"key":`, behind a comma where one is needed. */
static int put_key(const struct yaml_node *key, struct buf *b, struct err *err)
{
	struct yaml_value name;
	int rc = yaml_key(key, &name, err);

	if (rc != 0)
		return rc;
	if (b->len && b->data[b->len - 1] != '{' && b->data[b->len - 1] != '[')
		buf_char(b, ',');
	buf_json_str(b, name.text);
	buf_char(b, ':');
	return 0;
}

static int put_env(
	const struct yaml_node *seq, const struct inits_fill *fill, struct buf *b, struct err *err)
{
	int rc = yaml_as_seq(seq, err);
	bool first = true;

	if (rc != 0)
		return rc;
	buf_char(b, '[');
	YAML_EACH(seq, entry)
	{
		if ((rc = yaml_as_map(entry, err)) != 0)
			return rc;
		buf_str(b, first ? "{" : ",{");
		first = false;
		YAML_MEMBERS(entry, key)
		{
			if ((rc = put_key(key, b, err)) != 0)
				return rc;
			rc = yaml_is_str(key, "value")
				     ? put_text(key->next, fill, b, err)
				     : yaml_to_json(key->next, YAML_JSON_COMPACT, b, err);
			if (rc != 0)
				return rc;
		}
		buf_char(b, '}');
	}
	buf_char(b, ']');
	return 0;
}

/* The container as JSON, without resources. */
static int render_init(const struct yaml_node *part, const struct inits_fill *fill, struct arena *a,
	struct slice *ret, struct err *err)
{
	struct buf b;
	int rc = 0;

	buf_init(&b, PROFILE_OBJECT_MAX);
	buf_char(&b, '{');
	YAML_MEMBERS(part, key)
	{
		const struct yaml_node *value = key->next;

		if (yaml_is_str(key, "resources"))
			continue;
		if ((rc = put_key(key, &b, err)) != 0)
			break;
		if (yaml_absent(value))
			buf_str(&b, "null");
		else if (yaml_is_str(key, "command") || yaml_is_str(key, "args"))
			rc = put_words(value, yaml_is_str(key, "command"), fill, &b, err);
		else if (yaml_is_str(key, "env"))
			rc = put_env(value, fill, &b, err);
		else
			rc = yaml_to_json(value, YAML_JSON_COMPACT, &b, err);
		if (rc != 0)
			break;
	}
	if (rc != 0 && !b.failed) {
		buf_release(&b);
		return rc;
	}
	buf_char(&b, '}');
	return parts_finish(&b, part, a, ret, err);
}

/* limits or requests: cpu and memory apart, the others as the inside of a JSON object. */
static int read_amounts(const struct yaml_node *map, struct arena *a, struct slice *cpu,
	struct slice *memory, struct slice *other, struct err *err)
{
	struct buf b;
	int rc = 0;

	if (yaml_absent(map))
		return 0;
	if ((rc = yaml_as_map(map, err)) != 0)
		return rc;
	buf_init(&b, PROFILE_OBJECT_MAX);
	YAML_MEMBERS(map, key)
	{
		struct quantity q;
		struct slice text;

		if ((rc = yaml_as_quantity(key->next, &q, err)) != 0 ||
			(rc = yaml_as_text(key->next, &text, err)) != 0)
			break;
		if (yaml_is_str(key, "cpu")) {
			rc = parts_copy(text, a, cpu, err);
		} else if (yaml_is_str(key, "memory")) {
			rc = parts_copy(text, a, memory, err);
		} else {
			rc = put_key(key, &b, err);
			buf_json_str(&b, text);
		}
		if (rc != 0)
			break;
	}
	if (rc != 0 || (b.len == 0 && !b.failed)) {
		buf_release(&b);
		return rc;
	}
	return parts_finish(&b, map, a, other, err);
}

static int read_resources(
	const struct yaml_node *part, struct arena *a, struct profile_init *init, struct err *err)
{
	const struct yaml_node *res = yaml_get(part, "resources");
	int rc;

	if (yaml_absent(res))
		return 0;
	if ((rc = yaml_known(res, err, "limits", "requests", NULL)) != 0)
		return rc;
	rc = read_amounts(yaml_get(res, "limits"), a, &init->limit_cpu, &init->limit_memory,
		&init->other_limits, err);
	if (rc != 0)
		return rc;
	return read_amounts(yaml_get(res, "requests"), a, &init->request_cpu, &init->request_memory,
		&init->other_requests, err);
}

static int read_init(const struct yaml_node *part, const struct inits_fill *fill,
	const struct profile_volume *volumes, size_t n_volumes, struct arena *a,
	struct profile_init *init, struct err *err)
{
	struct profile_mount *mounts;
	struct yaml_node *image;
	struct slice text;
	size_t n_mounts;
	int rc;

	if ((rc = yaml_need(part, "image", &image, err)) != 0 ||
		(rc = yaml_as_str(image, &text, err)) != 0)
		return rc;
	if (text.len == 0)
		return yaml_err(image, err, ERR_INVALID, "found \"\", expected an image");
	rc = parts_copy(text, a, &init->image, err);
	if (rc != 0)
		return rc;
	rc = parts_mounts(
		yaml_get(part, "volumeMounts"), volumes, n_volumes, a, &mounts, &n_mounts, err);
	if (rc != 0 || (rc = read_resources(part, a, init, err)) != 0)
		return rc;
	return render_init(part, fill, a, &init->json, err);
}

int inits_read(const struct yaml_node *seq, const struct inits_fill *fill,
	const struct profile_volume *volumes, size_t n_volumes, struct arena *a,
	struct profile_init **ret, size_t *ret_n, struct err *err)
{
	struct profile_init *init;
	size_t n = 0;
	void *room;
	int rc;

	if ((rc = parts_room(seq, sizeof(*init), a, &room, err)) != 0)
		return rc;
	init = room;
	YAML_EACH(seq, part)
	{
		struct slice name;

		if ((rc = parts_name(part, "a container", &name, err)) != 0)
			return rc;
		for (size_t i = 0; i < n; i++)
			if (slice_eq(init[i].name, name))
				return yaml_err(yaml_get(part, "name"), err, ERR_INVALID,
					"found \"%.*s\" twice, expected another name for each "
					"container",
					(int)name.len, name.at);
		if ((rc = parts_copy(name, a, &init[n].name, err)) != 0 ||
			(rc = read_init(part, fill, volumes, n_volumes, a, &init[n], err)) != 0)
			return rc;
		n++;
	}
	*ret = init;
	*ret_n = n;
	return 0;
}
