/* SPDX-License-Identifier: Apache-2.0 */
/* base: how a text of YAML or JSON is written, so that what comes into it is written alike. For
 * yaml_splice and yaml_piece alone. */
#ifndef BASE_YAML_YAML_PEN_H
#define BASE_YAML_YAML_PEN_H

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

#endif
