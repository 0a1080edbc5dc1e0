/* SPDX-License-Identifier: Apache-2.0 */
/* base: are two YAML values the same, to a reader of JSON or as trees? */
#include "base/yaml/yaml_find.h"
#include "base/yaml/yaml_scalar.h"

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
