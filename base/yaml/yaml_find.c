/* SPDX-License-Identifier: Apache-2.0 */
/* base: looking keys up through aliases and merge keys, in the order in which goyaml.v2 lets them
 * overwrite each other. */
#include "base/yaml/yaml_find.h"

#include "base/yaml/yaml_scalar.h"

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
