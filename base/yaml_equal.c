/* SPDX-License-Identifier: Apache-2.0 */
/* base: are two YAML values the same to a reader of JSON? */
#include "base/yaml_find.h"
#include "base/yaml_scalar.h"

static bool equal_scalars(const struct yaml_node *a, const struct yaml_node *b)
{
	struct yaml_value x, y;

	if (yaml_meaning(a, &x, NULL) != 0 || yaml_meaning(b, &y, NULL) != 0)
		return false;
	/* numbers that were read as JSON have their spelling there, not the normal form */
	if (x.type == YAML_INT || x.type == YAML_FLOAT)
		yaml_resolve(x.text, &x);
	if (y.type == YAML_INT || y.type == YAML_FLOAT)
		yaml_resolve(y.text, &y);
	return (x.type == YAML_STRING) == (y.type == YAML_STRING) && slice_eq(x.text, y.text);
}

static bool equal_maps(const struct yaml_node *a, const struct yaml_node *b)
{
	if (a->count != b->count)
		return false;
	YAML_MEMBERS(a, k)
	{
		struct yaml_value v;

		if (yaml_is_merge(k) || yaml_key(k, &v, NULL) != 0 ||
			!yaml_equal(k->next, yaml_get_slice(b, v.text)))
			return false;
	}
	return true;
}

bool yaml_equal(const struct yaml_node *a, const struct yaml_node *b)
{
	a = yaml_is(a, YAML_ALIAS) ? a->target : a;
	b = yaml_is(b, YAML_ALIAS) ? b->target : b;
	if (!a || !b || a->kind != b->kind)
		return a == b;
	if (a->kind == YAML_SCALAR)
		return equal_scalars(a, b);
	if (a->kind == YAML_MAP)
		return equal_maps(a, b);
	if (a->count != b->count)
		return false;
	for (a = a->first, b = b->first; a && b; a = a->next, b = b->next) {
		if (!yaml_equal(a, b))
			return false;
	}
	return true;
}
