/* SPDX-License-Identifier: Apache-2.0 */
/* base: changes of a tree's children, for yaml_patch alone; aliases and merge keys are written out
 * where they are in the way. Each returns 0, ERR_TOOBIG (values) or ERR_NOMEM. */
#ifndef BASE_YAML_YAML_OWN_H
#define BASE_YAML_YAML_OWN_H

#include "base/err.h"
#include "base/yaml/yaml.h"

/* The error for a yaml_node_new() that gave none. */
int yaml_no_room(const struct yaml_doc *doc, struct err *err);

/* Remember which children were read, before that changes, and mark the way to them. */
int yaml_remember(struct yaml_node *in, struct err *err);
/* Hang a child into a collection behind another (NULL: at the beginning), and take out the one
 * behind another. Counts and what was read are the caller's. */
void yaml_link_after(struct yaml_node *parent, struct yaml_node *before, struct yaml_node *child);
void yaml_unlink_after(struct yaml_node *parent, struct yaml_node *before);
/* The child in front of one; NULL for the first one, and for none. */
struct yaml_node *yaml_before(const struct yaml_node *child);
/* The aliases in a value that goes away name their anchors no more. */
void yaml_forget_aliases(const struct yaml_node *node);
/* Put a value where another one is. */
int yaml_put_instead(struct yaml_node *old, struct yaml_node *value, struct err *err);
/* Take a member away; b: what is in front of its key. */
int yaml_unlink_member(struct yaml_node *map, struct yaml_node *b, struct err *err);

/* Write what a merge key brings where it stands. */
int yaml_write_out_merge(struct yaml_node *key, struct err *err);
/* Write the value of an alias where the alias is, which is *ret then; or what the merge key brings
 * that the alias belongs to. */
int yaml_write_out(struct yaml_node *alias, struct yaml_node **ret, struct err *err);
/* Before a value changes: write it out where aliases show it. The second one: all that is in a
 * value which has gone. */
int yaml_make_own(const struct yaml_node *node, struct err *err);
int yaml_make_own_below(const struct yaml_node *node, struct err *err);

#endif
