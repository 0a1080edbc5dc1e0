/* SPDX-License-Identifier: Apache-2.0 */
/* base: a tree's children changed so that yaml_splice finds what was read, and so that no alias
 * shows what it should not. */
#include "base/yaml/yaml_own.h"

#include "base/yaml/yaml_find.h"
#include "base/yaml/yaml_scalar.h"

/* Aliases that are written out because what they show changes. */
#define ALIASES_MAX 1000

int yaml_no_room(const struct yaml_doc *doc, struct err *err)
{
	return doc->arena->failed ? err_set(err, ERR_NOMEM, "out of memory while patching")
				  : err_set(err, ERR_TOOBIG, "%s: more than %u values", doc->file,
					    YAML_NODES_MAX);
}

/* Remember which children were read, before that changes, and mark the way to them. */
int yaml_remember(struct yaml_node *in, struct err *err)
{
	uint32_t n = 0;

	if (in->was || in->line == 0)
		return 0;
	for (const struct yaml_node *c = in->first; c; c = c->next)
		n++;
	in->was = arena_array(in->doc->arena, n + 1, sizeof(void *));
	if (!in->was)
		return yaml_no_room(in->doc, err);
	for (struct yaml_node *c = in->first; c; c = c->next)
		in->was[in->was_count++] = c;
	return in->parent ? yaml_remember(in->parent, err) : 0;
}

void yaml_link_after(struct yaml_node *parent, struct yaml_node *before, struct yaml_node *child)
{
	struct yaml_node **link = before ? &before->next : &parent->first;

	child->parent = parent;
	child->next = *link;
	*link = child;
	if (!child->next)
		parent->last = child;
}

void yaml_unlink_after(struct yaml_node *parent, struct yaml_node *before)
{
	struct yaml_node **link = before ? &before->next : &parent->first;
	struct yaml_node *gone = *link;

	if (!gone)
		return;
	*link = gone->next;
	gone->gone = true;
	if (!gone->next)
		parent->last = before;
}

/* The child in front of one; NULL for the first one, and for none. */
struct yaml_node *yaml_before(const struct yaml_node *child)
{
	struct yaml_node *b = NULL;

	for (struct yaml_node *c = child ? child->parent->first : NULL; c && c != child;
		c = c->next)
		b = c;
	return b;
}

/* The aliases in a value that goes away name their anchors no more. */
void yaml_forget_aliases(const struct yaml_node *node)
{
	if (node->kind == YAML_ALIAS)
		node->target->aliased--;
	for (const struct yaml_node *c = node->first; c; c = c->next)
		yaml_forget_aliases(c);
}

/* Put a value where another one is. */
int yaml_put_instead(struct yaml_node *old, struct yaml_node *value, struct err *err)
{
	struct yaml_node *in = old->parent, *b = yaml_before(old);
	int rc = in ? yaml_remember(in, err)
		    : err_set(err, ERR_INTERNAL, "a document's root cannot be replaced");

	if (rc != 0 || !in)
		return rc;
	yaml_forget_aliases(old);
	yaml_unlink_after(in, b);
	yaml_link_after(in, b, value);
	return 0;
}

/* A copy without anchors. Aliases in it stay. */
static struct yaml_node *copy_of(const struct yaml_node *from, bool in_block)
{
	bool scalar = from->kind == YAML_SCALAR || from->kind == YAML_ALIAS;
	bool block = in_block && from->style == YAML_BLOCK;
	struct yaml_node *node = yaml_node_new(from->doc, from->kind,
		scalar  ? from->style
		: block ? YAML_BLOCK
			: YAML_FLOW);

	if (!node)
		return NULL;
	node->plain_meaning = from->plain_meaning;
	node->text = from->text;
	node->tag = from->tag;
	node->target = from->target;
	if (node->target)
		node->target->aliased++;
	for (const struct yaml_node *c = from->first; c; c = c->next) {
		struct yaml_node *child = copy_of(c, block);

		if (!child)
			return NULL;
		yaml_append(node, child);
	}
	node->count = from->count;
	return node;
}

/* The merge key that a value belongs to, alone or in a sequence; or NULL. */
static struct yaml_node *merge_key_of(const struct yaml_node *value)
{
	const struct yaml_node *in = value->parent;
	struct yaml_node *key;

	if (in && in->kind == YAML_SEQ && in->parent) {
		value = in;
		in = in->parent;
	}
	key = in && in->kind == YAML_MAP ? yaml_before(value) : NULL;
	return key && yaml_is_merge(key) && key->next == value ? key : NULL;
}

/* Take a member away; b: what is in front of its key. */
int yaml_unlink_member(struct yaml_node *map, struct yaml_node *b, struct err *err)
{
	struct yaml_node *value = (b ? b->next : map->first)->next;
	int rc = yaml_remember(map, err);

	if (rc != 0)
		return rc;
	yaml_forget_aliases(value);
	yaml_unlink_after(map, b);
	yaml_unlink_after(map, b);
	map->count--;
	return 0;
}

/* Put the members that a merge brings into map, as far as they count there, behind *at. */
static int spell_members(
	struct yaml_node *map, struct yaml_node *from, struct yaml_node **at, struct err *err)
{
	const struct yaml_node *via = NULL;
	int rc = 0;

	from = yaml_target(from, &via);
	for (struct yaml_node *e = yaml_is(from, YAML_SEQ) ? from->first : NULL; rc == 0 && e;
		e = e->next)
		rc = spell_members(map, e, at, err);
	for (struct yaml_node *k = yaml_is(from, YAML_MAP) ? from->first : NULL; rc == 0 && k;
		k = yaml_next_key(k)) {
		struct yaml_value v;
		struct yaml_node *own, *key, *value;

		if (yaml_is_merge(k)) {
			rc = spell_members(map, k->next, at, err);
			continue;
		}
		if (yaml_key(k, &v, NULL) != 0 || yaml_find(map, v.text, &via) != k->next)
			continue;
		own = yaml_get_slice(map, v.text);
		if (own && own->line == 0)
			continue; /* spelled already */
		key = copy_of(k, false);
		value = copy_of(k->next, map->style == YAML_BLOCK);
		if (!key || !value)
			return yaml_no_room(map->doc, err);
		if (own && *at == own)
			*at = yaml_before(yaml_before(own));
		if (own) /* above the merge key, which overwrites it */
			rc = yaml_unlink_member(map, yaml_before(yaml_before(own)), err);
		yaml_link_after(map, *at, key);
		yaml_link_after(map, key, value);
		map->count++;
		*at = value;
	}
	return rc;
}

int yaml_write_out_merge(struct yaml_node *key, struct err *err)
{
	struct yaml_node *map = key->parent, *at = yaml_before(key);
	int rc = yaml_remember(map, err);

	if (rc == 0)
		rc = spell_members(map, key->next, &at, err);
	return rc == 0 ? yaml_unlink_member(map, yaml_before(key), err) : rc;
}

/* Write the value of an alias where the alias is, or what a merge key brings where that is. */
int yaml_write_out(struct yaml_node *alias, struct yaml_node **ret, struct err *err)
{
	struct yaml_node *merge = merge_key_of(alias), *copy;

	if (merge)
		return yaml_write_out_merge(merge, err);
	copy = copy_of(alias->target, alias->parent && alias->parent->style == YAML_BLOCK);
	*ret = copy;
	return copy ? yaml_put_instead(alias, copy, err) : yaml_no_room(alias->doc, err);
}

static struct yaml_node *find_alias(struct yaml_node *in, const struct yaml_node *target)
{
	struct yaml_node *found = NULL;

	for (struct yaml_node *c = in->first; c && !found; c = c->next)
		found = c->kind == YAML_ALIAS && c->target == target ? c : find_alias(c, target);
	return found;
}

/* Before a value changes: no alias elsewhere shows it any more. */
int yaml_make_own(const struct yaml_node *node, struct err *err)
{
	struct yaml_node *alias, *ignored;
	int rc = 0;

	if (node->aliased > ALIASES_MAX)
		return yaml_err(node, err, ERR_TOOBIG,
			"must be changed, and more than %d aliases show it elsewhere", ALIASES_MAX);
	while (rc == 0 && node->aliased > 0 && (alias = find_alias(node->doc->root, node)) != NULL)
		rc = yaml_write_out(alias, &ignored, err);
	return rc;
}

/* The same for all that is in a value which has gone. */
int yaml_make_own_below(const struct yaml_node *node, struct err *err)
{
	int rc = yaml_make_own(node, err);

	for (const struct yaml_node *c = node->first; rc == 0 && c; c = c->next)
		rc = yaml_make_own_below(c, err);
	return rc;
}
