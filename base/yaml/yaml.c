/* SPDX-License-Identifier: Apache-2.0 */
/* base: walking a YAML tree, naming places in it, and hanging new nodes into it. */
#include "base/yaml/yaml.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/yaml/yaml_scalar.h"

/* A tree that was read is YAML_DEPTH_MAX deep; a patch may put as much below. */
#define CHAIN_MAX (2 * YAML_DEPTH_MAX + 2)

bool yaml_is(const struct yaml_node *node, enum yaml_kind kind)
{
	return node && node->kind == kind;
}

bool yaml_absent(const struct yaml_node *node)
{
	struct yaml_value v;

	if (!node)
		return true;
	return node->kind == YAML_SCALAR && yaml_meaning(node, &v, NULL) == 0 &&
	       v.type == YAML_NULL;
}

bool yaml_is_merge(const struct yaml_node *key)
{
	return yaml_is(key, YAML_SCALAR) && slice_is(key->text, "<<") && !key->raw.at &&
	       (key->plain_meaning || slice_is(key->tag, "tag:yaml.org,2002:merge"));
}

bool yaml_is_str(const struct yaml_node *node, const char *value)
{
	struct yaml_value v;

	return yaml_is(node, YAML_SCALAR) && yaml_meaning(node, &v, NULL) == 0 &&
	       v.type == YAML_STRING && slice_eq(v.text, slice_of(value));
}

struct yaml_node *yaml_get_slice(const struct yaml_node *node, struct slice key)
{
	YAML_MEMBERS(node, k)
	{
		struct yaml_value v;

		if (!yaml_is_merge(k) && yaml_key(k, &v, NULL) == 0 && slice_eq(v.text, key))
			return k->next;
	}
	return NULL;
}

struct yaml_node *yaml_get(const struct yaml_node *node, const char *key)
{
	return yaml_get_slice(node, slice_of(key));
}

struct yaml_node *yaml_path(const struct yaml_node *node, ...)
{
	struct yaml_node *at = NULL;
	const char *key;
	va_list keys;

	va_start(keys, node);
	for (bool first = true; (key = va_arg(keys, const char *)) != NULL; first = false) {
		at = yaml_get(first ? node : at, key);
		if (!at)
			break;
	}
	va_end(keys);
	return at;
}

struct yaml_node *yaml_at(const struct yaml_node *node, size_t i)
{
	YAML_EACH(node, e)
	{
		if (i-- == 0)
			return e;
	}
	return NULL;
}

const char *yaml_found(const struct yaml_node *node, char out[static 80])
{
	struct yaml_value v;
	const char *fixed = NULL;

	if (!node)
		fixed = "nothing";
	else if (node->kind == YAML_MAP)
		fixed = "a mapping";
	else if (node->kind == YAML_SEQ)
		fixed = "a sequence";
	else if (node->kind == YAML_ALIAS)
		fixed = "an alias";
	if (fixed || !node) {
		snprintf(out, 80, "%s", fixed ? fixed : "nothing");
		return out;
	}
	/* not yaml_meaning(), which reports its own errors with this function */
	yaml_resolve(node->text, &v);
	bool quoted = node->raw.at ? node->raw.at[0] == '"'
				   : v.type == YAML_STRING || !node->plain_meaning;
	size_t n = text_utf8_cut(node->text, 60);
	const char *more = n < node->text.len ? "..." : "";

	if (!quoted && node->text.len == 0)
		snprintf(out, 80, "nothing");
	else
		snprintf(out, 80, quoted ? "\"%.*s%s\"" : "%.*s%s", (int)n, node->text.at, more);
	return out;
}

/* one segment: the key of a member (or the key itself), the index of an element */
static void segment(const struct yaml_node *node, struct buf *out)
{
	const struct yaml_node *parent = node->parent;
	struct yaml_value v;
	size_t i = 0;

	buf_char(out, '/');
	if (parent->kind == YAML_SEQ) {
		YAML_EACH(parent, e)
		{
			if (e == node)
				break;
			i++;
		}
		buf_u64(out, i);
		return;
	}
	YAML_MEMBERS(parent, k)
	{
		if (k != node && k->next != node)
			continue;
		if (k->kind == YAML_SCALAR && yaml_key(k, &v, NULL) == 0)
			buf_pointer_seg(out, v.text);
		else
			buf_char(out, '?');
		return;
	}
}

void yaml_pointer(const struct yaml_node *node, struct buf *out)
{
	const struct yaml_node *chain[CHAIN_MAX];
	size_t n = 0;

	for (; node && node->parent && n < CHAIN_MAX; node = node->parent)
		chain[n++] = node;
	while (n > 0)
		segment(chain[--n], out);
}

int yaml_err(
	const struct yaml_node *node, struct err *err, enum err_code code, const char *fmt, ...)
{
	char message[512];
	const struct yaml_node *up = node;
	struct buf path;
	va_list args;

	if (!err)
		return code;
	va_start(args, fmt);
	vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	if (!node)
		return err_set(err, code, "%s", message);
	while (up->line == 0 && up->parent) /* a patch made it */
		up = up->parent;
	buf_init(&path, 400);
	yaml_pointer(node, &path);
	err_set(err, code, "%s:%u: %s%s%s", node->doc->file, up->line, path.len ? path.data : "",
		path.len ? ": " : "", message);
	buf_release(&path);
	return code;
}

int yaml_unexpected(const struct yaml_node *node, struct err *err, const char *fmt, ...)
{
	char found[80], expected[400];
	va_list args;

	va_start(args, fmt);
	vsnprintf(expected, sizeof(expected), fmt, args);
	va_end(args);
	return yaml_err(
		node, err, ERR_INVALID, "found %s, expected %s", yaml_found(node, found), expected);
}

struct yaml_node *yaml_node_new(struct yaml_doc *doc, enum yaml_kind kind, enum yaml_style style)
{
	struct yaml_node *node;

	if (doc->nodes >= YAML_NODES_MAX)
		return NULL;
	node = arena_alloc(doc->arena, sizeof(*node));
	if (!node)
		return NULL;
	doc->nodes++;
	node->kind = kind;
	node->style = style;
	node->doc = doc;
	return node;
}

static void link_last(struct yaml_node *parent, struct yaml_node *child)
{
	child->parent = parent;
	child->next = NULL;
	if (parent->last)
		parent->last->next = child;
	else
		parent->first = child;
	parent->last = child;
}

void yaml_append(struct yaml_node *seq, struct yaml_node *child)
{
	link_last(seq, child);
	seq->count++;
}

void yaml_put(struct yaml_node *map, struct yaml_node *key, struct yaml_node *value)
{
	link_last(map, key);
	link_last(map, value);
	map->count++;
}
