/* SPDX-License-Identifier: Apache-2.0 */
/* base: new values, and copies of values that aliases stood for, written with a pen that imitates
 * the text around them. */
#include "base/yaml/yaml_piece.h"

#include <string.h>

#include "base/yaml/yaml_place.h"
#include "base/yaml/yaml_scalar.h"

/* ---- the pen ---- */

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

/* ---- pieces ---- */

/* One UTF-8 sequence (the text was checked when it was read). */
static size_t next_char(struct slice s, size_t i, uint32_t *ret)
{
	unsigned char c = (unsigned char)s.at[i];
	size_t len = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
	uint32_t code = len == 1 ? c : c & (0xffu >> (len + 1));

	if (i + len > s.len)
		len = 1;
	for (size_t k = 1; k < len; k++)
		code = code << 6 | ((unsigned char)s.at[i + k] & 0x3fu);
	*ret = code;
	return len;
}

/* What YAML's reader does not let through, or takes for the end of a line. */
static bool must_be_escaped(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == 0xfeff ||
	       (c >= 0xd800 && c < 0xe000) || c == 0xfffe || c == 0xffff;
}

static void quoted(struct yaml_pen *pen, struct slice text)
{
	size_t len;

	buf_char(pen->out, '"');
	for (size_t i = 0; i < text.len; i += len) {
		struct slice one = {text.at + i, 1};
		uint32_t c;

		len = next_char(text, i, &c);
		if (c < 0x80 && c != 0x7f)
			buf_json_esc(pen->out, one);
		else if (must_be_escaped(c))
			buf_fmt(pen->out, "\\u%04X", (unsigned)c);
		else
			buf_add(pen->out, text.at + i, len);
	}
	buf_char(pen->out, '"');
}

/* May these lines stand behind a "|"? Not when a blank in front would count as indentation, nor
 * with empty lines at the end. */
static bool literal_safe(struct slice s)
{
	uint32_t c;

	if (s.len < 2 || strchr(" \t\n", s.at[0]) || s.at[0] == '\0' ||
		(s.at[s.len - 1] == '\n' && s.at[s.len - 2] == '\n'))
		return false;
	for (size_t i = 0; i < s.len; i += next_char(s, i, &c)) {
		next_char(s, i, &c);
		if (c != '\n' && c != '\t' && must_be_escaped(c))
			return false;
	}
	return memchr(s.at, '\n', s.len) != NULL;
}

static void literal(struct yaml_pen *pen, struct slice text, unsigned column)
{
	bool ended = text.at[text.len - 1] == '\n';
	bool line = true;

	buf_str(pen->out, ended ? "|" : "|-");
	for (size_t i = 0; i < text.len - (ended ? 1 : 0); i++) {
		bool empty = text.at[i] == '\n';

		if (line)
			yaml_piece_line(pen, empty ? 0 : column);
		line = empty;
		if (!empty)
			buf_char(pen->out, text.at[i]);
	}
}

/* A plain scalar may have been read from several lines, or outside of brackets. */
static bool plain_stays(struct slice s, bool in_flow)
{
	return s.len > 0 && !memchr(s.at, '\n', s.len) &&
	       !(in_flow && strcspn(s.at, ",[]{}") < s.len);
}

static void scalar(
	struct yaml_pen *pen, const struct yaml_node *node, unsigned column, bool in_flow)
{
	bool plain = node->raw.at ? node->raw.at[0] != '"' : node->style == YAML_PLAIN;
	bool lines = node->style == YAML_LITERAL || node->style == YAML_FOLDED;
	struct slice s = node->text;

	if (pen->json && node->raw.at)
		buf_slice(pen->out, node->raw);
	else if (pen->json)
		buf_json_str(pen->out, s);
	else if (plain && s.len == 0 && !node->tag.at)
		buf_str(pen->out, "null");
	else if (lines && !in_flow && literal_safe(s))
		literal(pen, s, column + 2);
	else if ((yaml_plain_safe(s) && !node->tag.at) || (plain && plain_stays(s, in_flow)))
		buf_slice(pen->out, s);
	else
		quoted(pen, s);
}

bool yaml_piece_is_block(const struct yaml_pen *pen, const struct yaml_node *node)
{
	return (node->kind == YAML_MAP || node->kind == YAML_SEQ) && node->count > 0 &&
	       !pen->json && (node->style == YAML_BLOCK || node->doc->json);
}

void yaml_piece_line(struct yaml_pen *pen, unsigned column)
{
	buf_str(pen->out, pen->newline);
	while (column-- > 0)
		buf_char(pen->out, pen->fill);
}

bool yaml_piece_properties(struct yaml_pen *pen, const struct yaml_node *node)
{
	if (node->anchor.at) {
		buf_char(pen->out, '&');
		buf_slice(pen->out, node->anchor);
	}
	if (node->tag.at) {
		buf_str(pen->out, node->anchor.at ? " !" : "!");
		if (!slice_is(node->tag, "!")) {
			buf_char(pen->out, '<');
			buf_slice(pen->out, node->tag);
			buf_char(pen->out, '>');
		}
	}
	return node->anchor.at || node->tag.at;
}

static void key(struct yaml_pen *pen, const struct yaml_node *node, unsigned column)
{
	yaml_piece_inline(pen, node, column, true);
	buf_char(pen->out, ':');
}

static void brackets(struct yaml_pen *pen, const struct yaml_node *node, unsigned column)
{
	bool map = node->kind == YAML_MAP;
	unsigned inner = column + pen->lines;

	buf_char(pen->out, map ? '{' : '[');
	for (const struct yaml_node *c = node->first; c; c = map ? yaml_next_key(c) : c->next) {
		if (c != node->first)
			buf_char(pen->out, ',');
		if (pen->lines)
			yaml_piece_line(pen, inner);
		else if (c != node->first && !pen->tight)
			buf_char(pen->out, ' ');
		yaml_piece_unit(pen, node, c, inner);
	}
	if (pen->lines && node->count > 0)
		yaml_piece_line(pen, column);
	buf_char(pen->out, map ? '}' : ']');
}

void yaml_piece_inline(
	struct yaml_pen *pen, const struct yaml_node *node, unsigned column, bool in_flow)
{
	if (yaml_piece_properties(pen, node))
		buf_char(pen->out, ' ');
	if (node->kind == YAML_SCALAR) {
		scalar(pen, node, column, in_flow);
	} else if (node->kind == YAML_ALIAS) {
		buf_char(pen->out, '*');
		buf_slice(pen->out, node->text);
	} else {
		brackets(pen, node, column);
	}
}

void yaml_piece_unit(struct yaml_pen *pen, const struct yaml_node *in, const struct yaml_node *node,
	unsigned column)
{
	bool map = in->kind == YAML_MAP, in_flow = !yaml_piece_is_block(pen, in);
	const struct yaml_node *value = map ? node->next : node;
	bool block = !in_flow && yaml_piece_is_block(pen, value);
	bool properties = value->anchor.at || value->tag.at;

	if (map)
		key(pen, node, column);
	else if (!in_flow)
		buf_char(pen->out, '-');
	if (in_flow ? map && !pen->tight : !(map && block) || properties)
		buf_char(pen->out, ' ');
	if (!block) {
		yaml_piece_inline(pen, value, column, in_flow);
		return;
	}
	yaml_piece_properties(pen, value);
	column += !map ? 2 : value->kind == YAML_MAP ? pen->map_step : pen->seq_step;
	if (map || properties) /* on the dash's line they would belong to the first key */
		yaml_piece_line(pen, column);
	yaml_piece_block(pen, value, column);
}

void yaml_piece_block(struct yaml_pen *pen, const struct yaml_node *node, unsigned column)
{
	for (const struct yaml_node *c = node->first; c;
		c = node->kind == YAML_MAP ? yaml_next_key(c) : c->next) {
		if (c != node->first)
			yaml_piece_line(pen, column);
		yaml_piece_unit(pen, node, c, column);
	}
}
