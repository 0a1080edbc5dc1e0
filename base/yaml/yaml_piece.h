/* SPDX-License-Identifier: Apache-2.0 */
/* base: YAML and JSON values written anew, for yaml_splice alone, which puts them into a text that
 * stays. */
#ifndef BASE_YAML_YAML_PIECE_H
#define BASE_YAML_YAML_PIECE_H

#include <stdbool.h>

#include "base/yaml/yaml_pen.h"

/* Is it a collection that is written line by line, without brackets? */
bool yaml_piece_is_block(const struct yaml_pen *pen, const struct yaml_node *node);
/* A new line, indented. */
void yaml_piece_line(struct yaml_pen *pen, unsigned column);
/* "&anchor !<tag>" without a blank around it; false when the node has neither. */
bool yaml_piece_properties(struct yaml_pen *pen, const struct yaml_node *node);
/* A scalar, an alias or a collection in brackets. column: that of the line, for the lines of its
 * own that it may have. */
void yaml_piece_inline(
	struct yaml_pen *pen, const struct yaml_node *node, unsigned column, bool in_flow);
/* What stands in a block collection, whose first line has begun in this column (from 0). No newline
 * at the end. */
void yaml_piece_block(struct yaml_pen *pen, const struct yaml_node *node, unsigned column);
/* One unit of a collection: an element, with its dash in block style; or a member, of which `node`
 * is the key. */
void yaml_piece_unit(struct yaml_pen *pen, const struct yaml_node *in, const struct yaml_node *node,
	unsigned column);

#endif
