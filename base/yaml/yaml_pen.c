/* SPDX-License-Identifier: Apache-2.0 */
/* base: see yaml_pen.h. */
#include "base/yaml/yaml_pen.h"

#include <string.h>

#include "base/yaml/yaml_place.h"

/* Wider steps are not imitated. */
#define STEP_MAX 16

/* The column of the units of a block collection that was read, from 1; 0 when nobody knows. */
static unsigned column_of(const struct yaml_node *node)
{
	if (node->style != YAML_BLOCK || !(node->anchor.at || node->tag.at))
		return node->style == YAML_BLOCK ? node->column : 0;
	return node->kind == YAML_MAP && node->first ? node->first->column : 0;
}

/* How far the first collection of this kind is indented in the map that it stands in. */
static bool find_step(const struct yaml_node *node, enum yaml_kind kind, unsigned *ret)
{
	unsigned from = node->kind == YAML_MAP ? column_of(node) : 0;

	for (const struct yaml_node *c = node->first; c; c = c->next) {
		unsigned to = c->kind == kind ? column_of(c) : 0;

		if (from && to >= from + (kind == YAML_MAP ? 1 : 0) && to <= from + STEP_MAX) {
			*ret = to - from;
			return true;
		}
		if (find_step(c, kind, ret))
			return true;
	}
	return false;
}

unsigned yaml_pen_imitate(struct yaml_pen *pen, struct slice text, const struct yaml_doc *doc)
{
	const struct yaml_node *root = doc->root, *first = root->was ? root->was[0] : root->first;
	const char *end = text.len ? memchr(text.at, '\n', text.len) : NULL;

	pen->newline = end && end > text.at && end[-1] == '\r' ? "\r\n" : "\n";
	pen->fill = ' ';
	pen->map_step = 2;
	pen->seq_step = 0;
	pen->json = doc->json;
	find_step(root, YAML_MAP, &pen->map_step);
	find_step(root, YAML_SEQ, &pen->seq_step);
	if (!doc->json || !first)
		return 0;
	size_t line = yaml_place_line_begin(text, first->from);

	pen->tight = yaml_place_char(text, first->to) == ':' &&
		     !yaml_place_is_blank(yaml_place_char(text, first->to + 1));
	if (!yaml_place_begins_line(text, first->from) || line >= first->from)
		return 0;
	pen->fill = yaml_place_char(text, line);
	return (unsigned)(first->from - line);
}
