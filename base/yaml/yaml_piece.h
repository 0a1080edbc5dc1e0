/* SPDX-License-Identifier: Apache-2.0 */
/* base: YAML and JSON values written anew, for yaml_splice alone, which puts them into a text that
 * stays. */
#ifndef BASE_YAML_YAML_PIECE_H
#define BASE_YAML_YAML_PIECE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/yaml/yaml.h"

/* How the text around the pieces is written. */
struct yaml_pen {
	struct buf *out;
	const char *newline;
	unsigned map_step; /* columns from a map to a map in it */
	unsigned seq_step; /* from a map to a sequence in it: 0 or more */
	bool json;         /* keys and strings in double quotes, nothing in block style */
	bool tight;        /* no blanks behind commas and colons */
	char fill;         /* indentation: blanks or tabs */
	unsigned lines;    /* in brackets, a line for each value, indented by so much; 0: all on one
			      line */
};

/* Let the pen, whose `out` and `lines` stay, write as this document is written in its text (behind
 * a BOM). Indentation of its lines where it is JSON on several lines, 0 else. */
unsigned yaml_pen_imitate(struct yaml_pen *pen, struct slice text, const struct yaml_doc *doc);

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
