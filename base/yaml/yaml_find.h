/* SPDX-License-Identifier: Apache-2.0 */
/* base: what a reader that follows aliases and merge keys finds in a YAML tree, and through what it
 * got there. */
#ifndef BASE_YAML_YAML_FIND_H
#define BASE_YAML_YAML_FIND_H

#include "base/slice.h"
#include "base/yaml/yaml.h"

/* The value of a key as yaml_to_json() would have it, or NULL. node may be an alias for a map. When
 * an alias or a merge key led there, *via is that alias or key; else *via stays as it is, so that
 * it can be kept along a path. The value may be an alias itself. Merges nested too deep or too
 * often count as if they held nothing: yaml_to_json() refuses them. */
struct yaml_node *yaml_find(
	const struct yaml_node *node, struct slice key, const struct yaml_node **via);

/* yaml_find for a C string, and then through the alias that the value may be. */
struct yaml_node *yaml_follow(
	const struct yaml_node *node, const char *key, const struct yaml_node **via);

/* The map or sequence behind an alias (then *via is the alias); another node as it is; NULL for
 * NULL. */
struct yaml_node *yaml_target(struct yaml_node *node, const struct yaml_node **via);

/* All documents the same, one by one. */
bool yaml_same_streams(const struct yaml_stream *a, const struct yaml_stream *b);

#endif
