/* SPDX-License-Identifier: Apache-2.0 */
/* base: looking keys up through aliases and merge keys, in the order in which goyaml.v2 lets them
 * overwrite each other; and whether two values are the same, to a reader of JSON or as trees. */
#include "base/yaml/yaml_find.h"

#include "base/yaml/yaml_scalar.h"

/* ---- members ---- */

/* Maps that one look-up opens: far more than people nest, far less than an alias bomb. */
#define MAPS_MAX 10000

struct finding {
	struct slice key;
	unsigned maps;
};

static struct yaml_node *look(
	struct finding *f, const struct yaml_node *map, const struct yaml_node **via);

/* In the map (or the alias for one) that a merge key names, or in one of several, of which the
 * first wins. */
static struct yaml_node *look_merged(struct finding *f, const struct yaml_node *from)
{
	const struct yaml_node *map = from->kind == YAML_ALIAS ? from->target : from;
	const struct yaml_node *inner = NULL;

	if (map->kind == YAML_MAP)
		return look(f, map, &inner);
	YAML_EACH(from, e)
	{
		const struct yaml_node *one = e->kind == YAML_ALIAS ? e->target : e;
		struct yaml_node *found = yaml_is(one, YAML_MAP) ? look(f, one, &inner) : NULL;

		if (found)
			return found;
	}
	return NULL;
}

static struct yaml_node *look(
	struct finding *f, const struct yaml_node *map, const struct yaml_node **via)
{
	struct yaml_node *found = NULL;
	const struct yaml_node *through = NULL;

	if (++f->maps > MAPS_MAX)
		return NULL;
	YAML_MEMBERS(map, k)
	{
		struct yaml_value v;

		if (yaml_is_merge(k)) {
			struct yaml_node *merged = look_merged(f, k->next);

			through = merged ? k : through;
			found = merged ? merged : found;
		} else if (yaml_key(k, &v, NULL) == 0 && slice_eq(v.text, f->key)) {
			through = NULL;
			found = k->next;
		}
	}
	if (through)
		*via = through;
	return found;
}

struct yaml_node *yaml_target(struct yaml_node *node, const struct yaml_node **via)
{
	if (!yaml_is(node, YAML_ALIAS))
		return node;
	*via = node;
	return node->target;
}

struct yaml_node *yaml_find(
	const struct yaml_node *node, struct slice key, const struct yaml_node **via)
{
	struct finding f = {.key = key};

	if (yaml_is(node, YAML_ALIAS)) {
		*via = node;
		node = node->target;
	}
	return yaml_is(node, YAML_MAP) ? look(&f, node, via) : NULL;
}

struct yaml_node *yaml_follow(
	const struct yaml_node *node, const char *key, const struct yaml_node **via)
{
	return yaml_target(yaml_find(node, slice_of(key), via), via);
}

/* ---- equal trees ---- */

static bool equal_scalars(const struct yaml_node *a, const struct yaml_node *b)
{
	struct yaml_value x, y;

	if (yaml_meaning(a, &x, NULL) != 0 || yaml_meaning(b, &y, NULL) != 0)
		return false;
	/* numbers that were read as JSON have their spelling there, not the normal form */
	if (a->raw.at && x.type != YAML_STRING)
		yaml_resolve(a->raw, &x);
	if (b->raw.at && y.type != YAML_STRING)
		yaml_resolve(b->raw, &y);
	return (x.type == YAML_STRING) == (y.type == YAML_STRING) && slice_eq(x.text, y.text);
}

static bool same_scalars(const struct yaml_node *a, const struct yaml_node *b)
{
	struct yaml_value v;

	/* what a tag makes unreadable may still be passed through */
	if (yaml_meaning(a, &v, NULL) != 0 && yaml_meaning(b, &v, NULL) != 0)
		return slice_eq(a->text, b->text);
	return equal_scalars(a, b);
}

/* Equal as trees: order, anchors, alias names, tags, and scalars by type and value; styles and
 * places do not count. */
static bool yaml_same(const struct yaml_node *a, const struct yaml_node *b)
{
	if (a->kind != b->kind || a->count != b->count || !slice_eq(a->tag, b->tag) ||
		!slice_eq(a->anchor, b->anchor) || a->aliased != b->aliased)
		return false;
	if (a->kind == YAML_SCALAR)
		return same_scalars(a, b) && yaml_is_merge(a) == yaml_is_merge(b);
	if (a->kind == YAML_ALIAS)
		return slice_eq(a->text, b->text);
	for (a = a->first, b = b->first; a && b; a = a->next, b = b->next) {
		if (!yaml_same(a, b))
			return false;
	}
	return !a && !b;
}

bool yaml_same_streams(const struct yaml_stream *a, const struct yaml_stream *b)
{
	const struct yaml_doc *x = a->first, *y = b->first;

	for (; x && y; x = x->next, y = y->next) {
		if (!yaml_same(x->root, y->root))
			return false;
	}
	return !x && !y;
}
