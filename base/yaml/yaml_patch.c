/* SPDX-License-Identifier: Apache-2.0 */
/* base: RFC 6902 on YAML trees. */
#include "base/yaml/yaml_patch.h"

#include <stdlib.h>

#include "base/text.h"
#include "base/yaml/yaml_find.h"
#include "base/yaml/yaml_from_json.h"
#include "base/yaml/yaml_own.h"
#include "base/yaml/yaml_scalar.h"

/* Operations and their values: a patch of ours has some tens. */
#define PATCH_NODES_MAX 100000

/* Where an operation takes place. */
struct place {
	struct yaml_node *parent; /* NULL when the place is the base itself */
	struct yaml_node *at;     /* the value there, NULL when there is none */
	struct yaml_node *before; /* of a map: the value before the key; of a sequence: the element
				     before. NULL: none */
	struct slice name;        /* the last segment of the pointer */
};

struct patching {
	struct yaml_node *base;
	struct json json;
	struct slice path; /* of the operation at hand */
	struct err *err;
};

#define SHOWN(p) (int)text_utf8_cut((p)->path, 120), (p)->path.at

/* ---- pointers ---- */

/* The next segment of a pointer, decoded into the arena. */
static int next_segment(const struct patching *p, struct slice *rest, struct slice *ret)
{
	char *out = arena_alloc(p->base->doc->arena, rest->len + 1);
	size_t n = 0, i = 1;

	if (!out)
		return err_set(p->err, ERR_NOMEM, "out of memory while patching");
	for (; i < rest->len && rest->at[i] != '/'; i++) {
		char c = rest->at[i];

		if (c == '~') {
			char code = i + 1 < rest->len ? rest->at[++i] : '\0';

			if (code != '0' && code != '1')
				return err_set(p->err, ERR_INVALID,
					"patch path \"%.*s\": \"~\" must be followed by 0 or 1",
					SHOWN(p));
			c = code == '0' ? '~' : '/';
		}
		out[n++] = c;
	}
	*ret = (struct slice){out, n};
	rest->at += i;
	rest->len -= i;
	return 0;
}

static int find_member(const struct patching *p, struct place *place)
{
	const struct yaml_node *via = NULL;
	struct yaml_node *map = place->parent, *value = yaml_find(map, place->name, &via);
	int rc = 0;

	while (rc == 0 && via) {
		struct yaml_node *merge = map->first;

		while (merge != via)
			merge = yaml_next_key(merge);
		via = NULL;
		rc = yaml_write_out_merge(merge, p->err);
		value = yaml_find(map, place->name, &via);
	}
	place->at = value;
	place->before = value ? yaml_before(yaml_before(value)) : NULL;
	return rc;
}

static int find_element(const struct patching *p, struct place *place)
{
	uint64_t index = place->parent->count;
	bool zeros = place->name.len > 1 && place->name.at[0] == '0';

	if (!slice_is(place->name, "-") &&
		(zeros || !text_u64(place->name, place->parent->count, &index)))
		return err_set(p->err, ERR_NOTFOUND,
			"patch path \"%.*s\": the sequence has %u elements", SHOWN(p),
			place->parent->count);
	place->at = place->parent->first;
	place->before = NULL;
	for (; index > 0; index--) {
		place->before = place->at;
		place->at = place->at->next;
	}
	return 0;
}

static int find_place(const struct patching *p, struct place *ret)
{
	struct slice rest = p->path;
	struct place place = {.at = p->base};
	int rc = 0;

	if (rest.len > 0 && rest.at[0] != '/')
		return err_set(p->err, ERR_INVALID, "patch path \"%.*s\" does not begin with \"/\"",
			SHOWN(p));
	for (const struct yaml_node *up = p->base; rc == 0 && up; up = up->parent)
		rc = yaml_make_own(up, p->err);
	while (rc == 0 && rest.len > 0) {
		struct yaml_node *into = place.at;

		if (yaml_is(into, YAML_ALIAS))
			rc = yaml_write_out(into, &into, p->err);
		if (rc != 0)
			return rc;
		if (!yaml_is(into, YAML_MAP) && !yaml_is(into, YAML_SEQ))
			return err_set(p->err, ERR_NOTFOUND,
				"patch path \"%.*s\": there is nothing at \"%.*s\" to go into",
				SHOWN(p), (int)(rest.at - p->path.at), p->path.at);
		rc = yaml_make_own(into, p->err);
		if (rc != 0)
			return rc;
		place.parent = into;
		rc = next_segment(p, &rest, &place.name);
		if (rc == 0)
			rc = into->kind == YAML_MAP ? find_member(p, &place)
						    : find_element(p, &place);
	}
	*ret = place;
	return rc;
}

/* ---- new values ---- */

static uint32_t levels_above(const struct yaml_node *node)
{
	uint32_t n = 0;

	for (; node; node = node->parent)
		n++;
	return n;
}

static uint32_t levels_below(const struct yaml_node *node)
{
	uint32_t most = 0;

	for (const struct yaml_node *c = node->first; c; c = c->next) {
		uint32_t n = levels_below(c);

		most = n > most ? n : most;
	}
	return most + 1;
}

static void give_style(struct yaml_node *node, bool block)
{
	if (node->kind == YAML_MAP || node->kind == YAML_SEQ)
		node->style = block && node->count > 0 ? YAML_BLOCK : YAML_FLOW;
	for (struct yaml_node *c = node->first; c; c = c->next)
		give_style(c, block);
}

/* Is what stands in this collection written in block style? "{}" and "[]" are opened when something
 * comes in. */
static bool open_block(struct yaml_node *parent)
{
	if (!parent || parent->style == YAML_BLOCK)
		return true;
	if (parent->count == 0 && parent->was_count == 0 &&
		(!parent->parent || parent->parent->style == YAML_BLOCK)) {
		parent->style = YAML_BLOCK;
		parent->column = 0; /* where the bracket was is no indentation */
	}
	return parent->style == YAML_BLOCK;
}

static int new_value(const struct patching *p, const struct json_node *op,
	const struct place *place, struct yaml_node **ret)
{
	const struct json_node *value = json_get(&p->json, op, SLICE("value"));
	struct yaml_node *node;
	int rc;

	if (!value)
		return err_set(p->err, ERR_INVALID,
			"patch path \"%.*s\": the operation has no value", SHOWN(p));
	rc = yaml_node_from_json(p->base->doc, &p->json, value, &node, p->err);
	if (rc != 0)
		return rc;
	if (levels_above(place->parent) + levels_below(node) > YAML_DEPTH_MAX + 1)
		return err_set(p->err, ERR_TOOBIG,
			"patch path \"%.*s\": nested deeper than %d levels", SHOWN(p),
			YAML_DEPTH_MAX);
	if (!p->base->doc->json)
		give_style(node, open_block(place->parent));
	*ret = node;
	return 0;
}

static struct yaml_node *new_key(const struct patching *p, struct slice name)
{
	bool plain = !p->base->doc->json && yaml_plain_safe(name);
	struct yaml_node *key =
		yaml_node_new(p->base->doc, YAML_SCALAR, plain ? YAML_PLAIN : YAML_DOUBLE);

	if (!key)
		return NULL;
	key->plain_meaning = plain;
	key->text = name;
	return key;
}

/* ---- operations ---- */

static int replace_with(const struct patching *p, struct yaml_node *old, struct yaml_node *value)
{
	int rc = yaml_put_instead(old, value, p->err);

	return rc == 0 ? yaml_make_own_below(old, p->err) : rc;
}

/* Behind which value a new key comes: where the first member that was read went, else at the end.
 */
static struct yaml_node *hole(const struct yaml_node *map)
{
	struct yaml_node *at = NULL, *next;
	uint32_t i = 0;

	for (; i < map->was_count && !map->was[i]->gone; i += 2)
		at = map->was[i];
	if (i >= map->was_count)
		return map->last;
	at = at ? at->next : NULL; /* its value of now */
	while ((next = at ? at->next : map->first) != NULL && next->line == 0)
		at = next->next;
	return at;
}

static int add(const struct patching *p, const struct json_node *op, const struct place *place)
{
	struct yaml_node *in = place->parent, *value, *key, *at;
	int rc = yaml_remember(in, p->err);

	if (rc == 0)
		rc = new_value(p, op, place, &value);
	if (rc != 0)
		return rc;
	if (place->at && in->kind == YAML_MAP)
		return replace_with(p, place->at, value);
	if (in->kind == YAML_SEQ) {
		yaml_link_after(in, place->before, value);
		in->count++;
		return 0;
	}
	key = new_key(p, place->name);
	if (!key)
		return yaml_no_room(p->base->doc, p->err);
	at = hole(in);
	yaml_link_after(in, at, key);
	yaml_link_after(in, key, value);
	in->count++;
	return 0;
}

static int missing(const struct patching *p)
{
	return err_set(
		p->err, ERR_NOTFOUND, "patch path \"%.*s\": there is nothing there", SHOWN(p));
}

static int take_away(const struct patching *p, struct place *place)
{
	struct yaml_node *gone = place->at;
	int rc = gone ? yaml_remember(place->parent, p->err) : missing(p);

	if (rc == 0 && place->parent->kind == YAML_SEQ) {
		yaml_forget_aliases(gone);
		yaml_unlink_after(place->parent, place->before);
		place->parent->count--;
	}
	/* a merge key may have the same behind it */
	while (rc == 0 && place->parent->kind == YAML_MAP && place->at) {
		rc = yaml_unlink_member(place->parent, place->before, p->err);
		if (rc == 0)
			rc = find_member(p, place);
	}
	return rc == 0 ? yaml_make_own_below(gone, p->err) : rc;
}

static int replace(const struct patching *p, const struct json_node *op, const struct place *place)
{
	struct yaml_node *value;
	int rc;

	if (!place->at)
		return missing(p);
	rc = new_value(p, op, place, &value);
	return rc == 0 ? replace_with(p, place->at, value) : rc;
}

static int operate(struct patching *p, const struct json_node *op)
{
	const struct json_node *name = json_get(&p->json, op, SLICE("op"));
	const struct json_node *path = json_get(&p->json, op, SLICE("path"));
	struct place place = {0};
	int rc;

	if (!json_is(op, JSON_OBJECT) || !json_is(name, JSON_STRING) || !json_is(path, JSON_STRING))
		return err_set(p->err, ERR_INVALID,
			"an operation of a JSON patch needs \"op\" and \"path\"");
	p->path = json_str(&p->json, path, p->base->doc->arena);
	if (!p->path.at)
		return err_set(p->err, ERR_NOMEM, "out of memory while patching");
	rc = find_place(p, &place);
	if (rc != 0)
		return rc;
	if (!place.parent)
		return err_set(p->err, ERR_INVALID, "a patch cannot change the whole document");
	if (json_is_str(&p->json, name, SLICE("add")))
		return add(p, op, &place);
	if (json_is_str(&p->json, name, SLICE("replace")))
		return replace(p, op, &place);
	if (json_is_str(&p->json, name, SLICE("remove")))
		return take_away(p, &place);
	return err_set(p->err, ERR_INVALID,
		"patch path \"%.*s\": found another operation than add, replace and remove",
		SHOWN(p));
}

int yaml_patch(struct yaml_node *base, struct slice patch, struct err *err)
{
	struct patching p = {.base = base, .err = err};
	const struct json_node *ops;
	char *copy = NULL;
	int rc;

	json_init(&p.json);
	rc = json_read_copy(&p.json, patch.at, patch.len, PATCH_NODES_MAX, &copy, err);
	ops = json_root(&p.json);
	if (rc == 0 && !json_is(ops, JSON_ARRAY))
		rc = err_set(err, ERR_INVALID, "a JSON patch must be an array");
	JSON_EACH(&p.json, ops, op)
	{
		if (rc == 0)
			rc = operate(&p, op);
	}
	json_release(&p.json);
	free(copy);
	return rc;
}
