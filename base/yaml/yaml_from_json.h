/* SPDX-License-Identifier: Apache-2.0 */
/* base: JSON text into the same tree, for yaml_parse and yaml_patch. */
#ifndef BASE_YAML_YAML_FROM_JSON_H
#define BASE_YAML_YAML_FROM_JSON_H

#include "base/json/json_read.h"
#include "base/yaml/yaml.h"

/* Read one JSON text as a stream of one document; collections have flow style, strings double
 * quotes, scalars their raw spelling. file must outlive the tree. ERR_SYNTAX, ERR_TOOBIG or
 * ERR_NOMEM. */
int yaml_from_json(struct arena *arena, const char *file, struct slice text,
	struct yaml_stream *ret, struct err *err);

/* A JSON value as a new tree of doc, which *ret points to, without parent. It stays raw: what
 * yaml_patch makes of it is its matter. ERR_TOOBIG (too many nodes) or ERR_NOMEM. */
int yaml_node_from_json(struct yaml_doc *doc, const struct json *j, const struct json_node *value,
	struct yaml_node **ret, struct err *err);

#endif
