/* SPDX-License-Identifier: Apache-2.0 */
/* base: lines, gaps and the ends of nodes in the text that a tree was read from. */
#include "base/yaml/yaml_place.h"

#include <string.h>

char yaml_place_char(struct slice text, size_t i)
{
	return i < text.len ? text.at[i] : '\0';
}

bool yaml_place_is_blank(char c)
{
	return c == ' ' || c == '\t';
}

bool yaml_place_is_break(struct slice text, size_t i)
{
	return i >= text.len || text.at[i] == '\n' || text.at[i] == '\r';
}

size_t yaml_place_line_begin(struct slice text, size_t i)
{
	while (i > 0 && !yaml_place_is_break(text, i - 1))
		i--;
	return i;
}

/* The break behind what follows a unit on its last line: blanks and a comment. Another thing may
 * follow in brackets: then i. */
size_t yaml_place_line_end(struct slice text, size_t i)
{
	size_t end = i;

	while (yaml_place_is_blank(yaml_place_char(text, end)))
		end++;
	if (yaml_place_char(text, end) == '#' && end > i) {
		while (!yaml_place_is_break(text, end))
			end++;
	}
	return yaml_place_is_break(text, end) ? end : i;
}

/* Behind blanks, breaks and comments, and behind `also` as often as it comes. */
size_t yaml_place_skip_gap(struct slice text, size_t i, char also)
{
	for (; i < text.len; i++) {
		char c = text.at[i];

		if (c == '#' && (i == 0 || yaml_place_is_blank(text.at[i - 1]) ||
					yaml_place_is_break(text, i - 1))) {
			while (!yaml_place_is_break(text, i))
				i++;
		} else if (!yaml_place_is_blank(c) && !yaml_place_is_break(text, i) && c != also) {
			break;
		}
	}
	return i;
}

bool yaml_place_was_block(const struct yaml_node *node)
{
	return (node->kind == YAML_MAP || node->kind == YAML_SEQ) && node->to == 0;
}

static struct yaml_node *last_read(const struct yaml_node *node)
{
	if (!node->was)
		return node->last;
	return node->was_count > 0 ? node->was[node->was_count - 1] : NULL;
}

/* The scalar, alias or bracket that ends a node. */
const struct yaml_node *yaml_place_end_node(const struct yaml_node *node)
{
	while (yaml_place_was_block(node) && last_read(node))
		node = last_read(node);
	return node;
}

/* Behind the last byte of a node, without the empty lines that may follow a block scalar. */
size_t yaml_place_end(struct slice text, const struct yaml_node *node)
{
	const struct yaml_node *last = yaml_place_end_node(node);
	size_t end = last->to, head = last->from;

	if (last->style != YAML_LITERAL && last->style != YAML_FOLDED)
		return end;
	while (!yaml_place_is_break(text, head))
		head++;
	bool keep = memchr(text.at + last->from, '+', head - last->from) != NULL;

	while (end > head && yaml_place_is_break(text, end - 1)) {
		bool crlf = end > 1 && text.at[end - 1] == '\n' && text.at[end - 2] == '\r';

		end -= crlf ? 2 : 1;
		if (keep)
			break;
	}
	return end;
}

/* Where the first unit of a collection may begin. */
static size_t inside(struct slice text, const struct yaml_node *in)
{
	size_t i = in->from;

	while (yaml_place_char(text, i) == '&' ||
		(yaml_place_char(text, i) == '!' && (in->tag.at || in->anchor.at))) {
		while (!yaml_place_is_blank(yaml_place_char(text, i)) &&
			!yaml_place_is_break(text, i))
			i++;
		i = yaml_place_skip_gap(text, i, ' ');
	}
	return i + (!yaml_place_was_block(in) && (yaml_place_char(text, i) == '{' ||
							 yaml_place_char(text, i) == '[')
				   ? 1
				   : 0);
}

size_t yaml_place_per_unit(const struct yaml_node *in)
{
	return in->kind == YAML_MAP ? 2 : 1;
}

const struct yaml_node *yaml_place_next_unit(
	const struct yaml_node *in, const struct yaml_node *unit)
{
	return in->kind == YAML_MAP ? yaml_next_key(unit) : unit->next;
}

size_t yaml_place_unit_stop(struct slice text, const struct yaml_node *in, size_t unit)
{
	const struct yaml_node *first = in->was[unit * yaml_place_per_unit(in)];
	const struct yaml_node *value =
		in->was[unit * yaml_place_per_unit(in) + yaml_place_per_unit(in) - 1];

	/* libyaml puts the value that an explicit key lacks where the next token is */
	if (in->kind == YAML_MAP && value->from == value->to && !yaml_place_was_block(value) &&
		yaml_place_char(text, value->from - 1) != ':')
		return yaml_place_end(text, first);
	return yaml_place_end(text, value);
}

size_t yaml_place_unit_start(struct slice text, const struct yaml_node *in, size_t unit)
{
	size_t first = in->was[unit * yaml_place_per_unit(in)]->from;
	size_t gap = yaml_place_skip_gap(
		text, unit > 0 ? yaml_place_unit_stop(text, in, unit - 1) : inside(text, in), ',');
	char mark = in->kind == YAML_MAP ? '?' : '-';

	return gap < first && yaml_place_char(text, gap) == mark ? gap : first;
}

bool yaml_place_unit_gone(const struct yaml_node *in, size_t unit)
{
	return in->was[unit * yaml_place_per_unit(in)]->gone;
}

/* Does only indentation stand in front of it? */
bool yaml_place_begins_line(struct slice text, size_t i)
{
	while (i > 0 && yaml_place_is_blank(text.at[i - 1]))
		i--;
	return i == 0 || yaml_place_is_break(text, i - 1);
}
