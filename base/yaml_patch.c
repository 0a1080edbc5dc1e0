/* SPDX-License-Identifier: Apache-2.0 */
/* base: RFC 6902 on YAML trees. */
#include "base/yaml_patch.h"

#include <stdlib.h>

#include "base/text.h"
#include "base/yaml_find.h"
#include "base/yaml_from_json.h"
#include "base/yaml_scalar.h"

/* Operations and their values: a patch of ours has some tens. */
#define PATCH_NODES_MAX 100000
/* Aliases that are written out because what they show changes. */
#define ALIASES_MAX 1000

/* Where an operation takes place. */
struct place {
	struct yaml_node *parent; /* NULL when the place is the base itself */
	struct yaml_node *at;     /* the value there, NULL when there is none */
	struct yaml_node *
		before; /* of a map: the value before the key; of a sequence: the element before. NULL: none */
	struct slice name; /* the last segment of the pointer */
};

struct patching {
	struct yaml_node *base;
	struct json json;
	struct slice path; /* of the operation at hand */
	struct err *err;
};

#define SHOWN(p) (int)text_utf8_cut((p)->path, 120), (p)->path.at

static int no_memory(const struct patching *p)
{
	return p->base->doc->arena->failed
		       ? err_set(p->err, ERR_NOMEM, "out of memory while patching")
		       : err_set(p->err, ERR_TOOBIG, "%s: more than %u values", p->base->doc->file,
				 YAML_NODES_MAX);
}

/* ---- changing what a collection holds ---- */

/* Remember which children were read, before that changes, and mark the way to them. */
static int remember(const struct patching *p, struct yaml_node *in)
{
	uint32_t n = 0;

	if (in->was || in->line == 0)
		return 0;
	for (const struct yaml_node *c = in->first; c; c = c->next)
		n++;
	in->was = arena_array(in->doc->arena, n + 1, sizeof(void *));
	if (!in->was)
		return no_memory(p);
	for (struct yaml_node *c = in->first; c; c = c->next)
		in->was[in->was_count++] = c;
	return in->parent ? remember(p, in->parent) : 0;
}

static void link_after(struct yaml_node *parent, struct yaml_node *before, struct yaml_node *child)
{
	struct yaml_node **link = before ? &before->next : &parent->first;

	child->parent = parent;
	child->next = *link;
	*link = child;
	if (!child->next)
		parent->last = child;
}

static void unlink_after(struct yaml_node *parent, struct yaml_node *before)
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
static struct yaml_node *before(const struct yaml_node *child)
{
	struct yaml_node *b = NULL;

	for (struct yaml_node *c = child ? child->parent->first : NULL; c && c != child;
		c = c->next)
		b = c;
	return b;
}

/* The aliases in a value that goes away name their anchors no more. */
static void forget_aliases(const struct yaml_node *node)
{
	if (node->kind == YAML_ALIAS)
		node->target->aliased--;
	for (const struct yaml_node *c = node->first; c; c = c->next)
		forget_aliases(c);
}

/* Put a value where another one is. */
static int put_instead(const struct patching *p, struct yaml_node *old, struct yaml_node *value)
{
	struct yaml_node *in = old->parent, *b = before(old);
	int rc = remember(p, in);

	if (rc != 0)
		return rc;
	forget_aliases(old);
	unlink_after(in, b);
	link_after(in, b, value);
	return 0;
}

/* ---- aliases and merge keys, written out ---- */

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
	key = in && in->kind == YAML_MAP ? before(value) : NULL;
	return key && yaml_is_merge(key) && key->next == value ? key : NULL;
}

/* Take a member away; b: what is in front of its key. */
static int unlink_member(const struct patching *p, struct yaml_node *map, struct yaml_node *b)
{
	struct yaml_node *value = (b ? b->next : map->first)->next;
	int rc = remember(p, map);

	if (rc != 0)
		return rc;
	forget_aliases(value);
	unlink_after(map, b);
	unlink_after(map, b);
	map->count--;
	return 0;
}

/* Put the members that a merge brings into map, as far as they count there, behind *at. */
static int spell_members(const struct patching *p, struct yaml_node *map, struct yaml_node *from,
	struct yaml_node **at)
{
	const struct yaml_node *via = NULL;
	int rc = 0;

	from = yaml_target(from, &via);
	for (struct yaml_node *e = yaml_is(from, YAML_SEQ) ? from->first : NULL; rc == 0 && e;
		e = e->next)
		rc = spell_members(p, map, e, at);
	for (struct yaml_node *k = yaml_is(from, YAML_MAP) ? from->first : NULL; rc == 0 && k;
		k = yaml_next_key(k)) {
		struct yaml_value v;
		struct yaml_node *own, *key, *value;

		if (yaml_is_merge(k)) {
			rc = spell_members(p, map, k->next, at);
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
			return no_memory(p);
		if (own && *at == own)
			*at = before(before(own));
		if (own) /* above the merge key, which overwrites it */
			rc = unlink_member(p, map, before(before(own)));
		link_after(map, *at, key);
		link_after(map, key, value);
		map->count++;
		*at = value;
	}
	return rc;
}

static int write_out_merge(const struct patching *p, struct yaml_node *key)
{
	struct yaml_node *map = key->parent, *at = before(key);
	int rc = remember(p, map);

	if (rc == 0)
		rc = spell_members(p, map, key->next, &at);
	return rc == 0 ? unlink_member(p, map, before(key)) : rc;
}

/* Write the value of an alias where the alias is, or what a merge key brings where that is. */
static int write_out(const struct patching *p, struct yaml_node *alias, struct yaml_node **ret)
{
	struct yaml_node *merge = merge_key_of(alias), *copy;

	if (merge)
		return write_out_merge(p, merge);
	copy = copy_of(alias->target, alias->parent && alias->parent->style == YAML_BLOCK);
	*ret = copy;
	return copy ? put_instead(p, alias, copy) : no_memory(p);
}

static struct yaml_node *find_alias(struct yaml_node *in, const struct yaml_node *target)
{
	struct yaml_node *found = NULL;

	for (struct yaml_node *c = in->first; c && !found; c = c->next)
		found = c->kind == YAML_ALIAS && c->target == target ? c : find_alias(c, target);
	return found;
}

/* Before a value changes: no alias elsewhere shows it any more. */
static int make_own(const struct patching *p, const struct yaml_node *node)
{
	struct yaml_node *alias, *ignored;
	int rc = 0;

	if (node->aliased > ALIASES_MAX)
		return yaml_err(node, p->err, ERR_TOOBIG,
			"must be changed, and more than %d aliases show it elsewhere", ALIASES_MAX);
	while (rc == 0 && node->aliased > 0 &&
		(alias = find_alias(p->base->doc->root, node)) != NULL)
		rc = write_out(p, alias, &ignored);
	return rc;
}

/* The same for all that is in a value which has gone. */
static int make_own_below(const struct patching *p, const struct yaml_node *node)
{
	int rc = make_own(p, node);

	for (const struct yaml_node *c = node->first; rc == 0 && c; c = c->next)
		rc = make_own_below(p, c);
	return rc;
}

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
		rc = write_out_merge(p, merge);
		value = yaml_find(map, place->name, &via);
	}
	place->at = value;
	place->before = value ? before(before(value)) : NULL;
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
		rc = make_own(p, up);
	while (rc == 0 && rest.len > 0) {
		struct yaml_node *into = place.at;

		if (yaml_is(into, YAML_ALIAS))
			rc = write_out(p, into, &into);
		if (rc != 0)
			return rc;
		if (!yaml_is(into, YAML_MAP) && !yaml_is(into, YAML_SEQ))
			return err_set(p->err, ERR_NOTFOUND,
				"patch path \"%.*s\": there is nothing at \"%.*s\" to go into",
				SHOWN(p), (int)(rest.at - p->path.at), p->path.at);
		rc = make_own(p, into);
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

/* Is what stands in this collection written in block style? "{}" and "[]" are opened when something comes in. */
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
	int rc = put_instead(p, old, value);

	return rc == 0 ? make_own_below(p, old) : rc;
}

/* Behind which value a new key comes: where the first member that was read went, else at the end. */
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
	int rc = remember(p, in);

	if (rc == 0)
		rc = new_value(p, op, place, &value);
	if (rc != 0)
		return rc;
	if (place->at && in->kind == YAML_MAP)
		return replace_with(p, place->at, value);
	if (in->kind == YAML_SEQ) {
		link_after(in, place->before, value);
		in->count++;
		return 0;
	}
	key = new_key(p, place->name);
	if (!key)
		return no_memory(p);
	at = hole(in);
	link_after(in, at, key);
	link_after(in, key, value);
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
	int rc = gone ? remember(p, place->parent) : missing(p);

	if (rc == 0 && place->parent->kind == YAML_SEQ) {
		forget_aliases(gone);
		unlink_after(place->parent, place->before);
		place->parent->count--;
	}
	/* a merge key may have the same behind it */
	while (rc == 0 && place->parent->kind == YAML_MAP && place->at) {
		rc = unlink_member(p, place->parent, place->before);
		if (rc == 0)
			rc = find_member(p, place);
	}
	return rc == 0 ? make_own_below(p, gone) : rc;
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
