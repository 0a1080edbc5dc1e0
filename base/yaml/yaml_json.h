/* SPDX-License-Identifier: Apache-2.0 */
/* base: a YAML tree as JSON, with the meaning that kubectl gives to it. */
#ifndef BASE_YAML_YAML_JSON_H
#define BASE_YAML_YAML_JSON_H

#include "base/buf.h"
#include "base/err.h"
#include "base/yaml/yaml.h"

enum yaml_json_form {
	YAML_JSON_COMPACT,
	YAML_JSON_PRETTY /* two blanks per level, ": " after keys, no final newline */
};

/* Append node (NULL gives null) as JSON. Order is kept; aliases are expanded, merge keys are merged
 * as goyaml.v2 does; numbers are in normal form (0600 is 384), but numbers and strings that were
 * read as JSON keep their spelling. At most YAML_NODES_MAX values come out. ERR_INVALID with the
 * place (.inf, bad tags, a merge of a scalar), ERR_TOOBIG (nodes, out->max, depth of expanded
 * aliases) or ERR_NOMEM. On error out holds a part. */
int yaml_to_json(
	const struct yaml_node *node, enum yaml_json_form form, struct buf *out, struct err *err);

#endif
