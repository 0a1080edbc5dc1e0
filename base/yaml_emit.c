/* SPDX-License-Identifier: Apache-2.0 */
/* base: writing YAML trees. Own code and not libyaml's emitter: that one quotes and escapes every text with an emoji in
 * it, and knows nothing of the indentation that was read. */
#include "base/yaml_emit.h"

#include <string.h>

#include "base/yaml_scalar.h"
#include "base/yaml_text.h"

#define CORE_TAGS "tag:yaml.org,2002:"
/* libyaml takes a key without "?" for one only within 1024 characters of one line. */
#define KEY_MAX 1000
/* Wider steps than this are not kept. */
#define STEP_MAX 16

struct emitting {
	struct buf *out;
	const struct yaml_doc *doc;
	unsigned map_step; /* indentation of new maps */
	unsigned seq_step; /* of new sequences in maps: 0 or more */
	bool space;        /* a blank belongs before the next word of this line */
};

static void block_map(struct emitting *e, const struct yaml_node *map, unsigned column);
static void block_seq(struct emitting *e, const struct yaml_node *seq, unsigned column);
static void flow(struct emitting *e, const struct yaml_node *node, unsigned column);

static void word(struct emitting *e, struct slice s)
{
	if (e->space)
		buf_char(e->out, ' ');
	e->space = false;
	buf_slice(e->out, s);
}

static void new_line(struct emitting *e, unsigned column)
{
	if (e->out->len > 0 && e->out->data[e->out->len - 1] != '\n')
		buf_char(e->out, '\n');
	while (column-- > 0)
		buf_char(e->out, ' ');
	e->space = false;
}

/* ---- tags and anchors ---- */

/* extra: characters that may stand there beside those of every tag */
static void tag_text(struct buf *out, struct slice s, const char *extra)
{
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.at[i];
		bool letter =
			(c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

		if (letter || (c && (strchr("-_;/?:@&=+$.~*'()", c) || strchr(extra, c))))
			buf_char(out, (char)c);
		else
			buf_fmt(out, "%%%02X", c);
	}
}

static bool tag_under(struct buf *out, struct slice tag, struct slice handle, struct slice prefix)
{
	if (!slice_starts(tag, prefix) || tag.len == prefix.len)
		return false;
	buf_slice(out, handle);
	tag_text(out, (struct slice){tag.at + prefix.len, tag.len - prefix.len}, "");
	return true;
}

static void write_tag(struct emitting *e, struct slice tag)
{
	bool core_taken = false, local_taken = false;

	word(e, SLICE(""));
	if (slice_is(tag, "!")) {
		buf_char(e->out, '!');
		return;
	}
	for (size_t i = 0; i < e->doc->tag_count; i++) {
		core_taken = core_taken || slice_is(e->doc->tags[i].handle, "!!");
		local_taken = local_taken || slice_is(e->doc->tags[i].handle, "!");
		if (tag_under(e->out, tag, e->doc->tags[i].handle, e->doc->tags[i].prefix))
			return;
	}
	if (!core_taken && tag_under(e->out, tag, SLICE("!!"), SLICE(CORE_TAGS)))
		return;
	if (!local_taken && tag_under(e->out, tag, SLICE("!"), SLICE("!")))
		return;
	buf_str(e->out, "!<");
	tag_text(e->out, tag, "!,[]");
	buf_char(e->out, '>');
}

/* Anchor and tag; true when there was one. */
static bool properties(struct emitting *e, const struct yaml_node *node)
{
	if (node->anchor.at) {
		word(e, SLICE("&"));
		buf_slice(e->out, node->anchor);
		e->space = true;
	}
	if (node->tag.at)
		write_tag(e, node->tag);
	e->space = e->space || node->tag.at;
	return node->anchor.at || node->tag.at;
}

/* ---- scalars ---- */

static enum yaml_style wanted_style(const struct yaml_node *node)
{
	bool json_string = node->raw.at ? node->raw.at[0] == '"' : node->doc->json;

	if (json_string && node->style == YAML_DOUBLE)
		return yaml_plain_safe(node->text) ? YAML_PLAIN : YAML_DOUBLE;
	return node->style;
}

/* A scalar or an alias at the place where the line stands; column is that of the collection around it. */
static void single(struct emitting *e, const struct yaml_node *node, enum yaml_context context,
	bool in_flow, unsigned indent)
{
	enum yaml_style style;

	if (node->kind == YAML_ALIAS) {
		word(e, SLICE("*"));
		buf_slice(e->out, node->text);
		return;
	}
	bool props = properties(e, node);

	style = yaml_text_style(wanted_style(node), node->text, context);
	if (style == YAML_PLAIN && node->text.len == 0) {
		/* nothing at all is hard to see, and not always allowed, between brackets */
		if (in_flow && !props)
			word(e, SLICE("null"));
		return;
	}
	word(e, SLICE(""));
	yaml_text_write(e->out, style, node->text, indent);
}

/* ---- collections ---- */

static bool is_block(const struct yaml_node *node)
{
	if (node->kind != YAML_MAP && node->kind != YAML_SEQ)
		return false;
	return node->count > 0 && (node->style == YAML_BLOCK || node->doc->json);
}

/* The column, from 1, where the first key or dash of a block collection was read; 0 when nobody knows. */
static unsigned read_column(const struct yaml_node *node)
{
	if (node->line == 0 || node->doc->json || node->style != YAML_BLOCK)
		return 0;
	if (!node->anchor.at && !node->tag.at)
		return node->column;
	/* it began with its anchor or tag, somewhere */
	return node->kind == YAML_MAP && node->first && node->first->line ? node->first->column : 0;
}

/* How far inner was indented in outer, or the default when that is not known or not in least..STEP_MAX. */
static unsigned step(const struct yaml_node *outer, const struct yaml_node *inner, unsigned least,
	unsigned otherwise)
{
	unsigned from = read_column(outer), to = read_column(inner);

	if (from == 0 || to < from + least || to > from + STEP_MAX)
		return otherwise;
	return to - from;
}

/* A key that must be written with "?". */
static bool long_key(const struct yaml_node *key)
{
	return 4 * key->text.len + 3 * key->tag.len + key->anchor.len > KEY_MAX;
}

static void write_key(
	struct emitting *e, const struct yaml_node *key, bool in_flow, unsigned column)
{
	bool explicit = long_key(key);
	struct yaml_node quoted = *key;

	if (explicit) {
		word(e, SLICE("?"));
		e->space = true;
		/* "? a:" would be a mapping; such a text is a string in any style */
		if (key->kind == YAML_SCALAR && key->style == YAML_PLAIN && key->text.len > 0 &&
			key->text.at[key->text.len - 1] == ':')
			quoted.style = YAML_DOUBLE;
	}
	single(e, &quoted, YAML_IN_KEY, in_flow, column + 2);
	if (explicit && in_flow)
		e->space = true; /* "{? key : value}" */
	else if (explicit)
		new_line(e, column);
	word(e, SLICE(":"));
	e->space = true;
}

static void map_value(struct emitting *e, const struct yaml_node *map,
	const struct yaml_node *value, unsigned column)
{
	unsigned inner;

	if (!is_block(value)) {
		flow(e, value, column);
		return;
	}
	properties(e, value);
	if (value->kind == YAML_MAP) {
		inner = column + step(map, value, 1, e->map_step);
		new_line(e, inner);
		block_map(e, value, inner);
	} else {
		inner = column + step(map, value, 0, e->seq_step);
		new_line(e, inner);
		block_seq(e, value, inner);
	}
}

static void block_map(struct emitting *e, const struct yaml_node *map, unsigned column)
{
	YAML_MEMBERS(map, k)
	{
		if (k != map->first)
			new_line(e, column);
		write_key(e, k, false, column);
		map_value(e, map, k->next, column);
	}
}

static void block_seq(struct emitting *e, const struct yaml_node *seq, unsigned column)
{
	YAML_EACH(seq, item)
	{
		unsigned inner = column + step(seq, item, 2, 2);

		if (item != seq->first)
			new_line(e, column);
		word(e, SLICE("-"));
		e->space = true;
		if (!is_block(item)) {
			flow(e, item, column);
			continue;
		}
		if (properties(e, item)) {
			new_line(e, inner); /* on one line they would belong to the first key */
		} else {
			for (unsigned i = column + 1; i < inner; i++)
				buf_char(e->out, ' ');
			e->space = false;
		}
		if (item->kind == YAML_MAP)
			block_map(e, item, inner);
		else
			block_seq(e, item, inner);
	}
}

/* What does not open a block: a scalar, an alias, or a collection in brackets. */
static void flow_inside(
	struct emitting *e, const struct yaml_node *node, unsigned column, bool in_flow)
{
	if (node->kind == YAML_SCALAR || node->kind == YAML_ALIAS) {
		single(e, node, in_flow ? YAML_IN_FLOW : YAML_IN_BLOCK, in_flow, column + 2);
		return;
	}
	properties(e, node);
	word(e, node->kind == YAML_MAP ? SLICE("{") : SLICE("["));
	YAML_MEMBERS(node, k)
	{
		if (k != node->first)
			word(e, SLICE(", "));
		write_key(e, k, true, column);
		flow_inside(e, k->next, column, true);
	}
	YAML_EACH(node, item)
	{
		if (item != node->first)
			word(e, SLICE(", "));
		flow_inside(e, item, column, true);
	}
	word(e, node->kind == YAML_MAP ? SLICE("}") : SLICE("]"));
}

static void flow(struct emitting *e, const struct yaml_node *node, unsigned column)
{
	flow_inside(e, node, column, false);
}

/* ---- documents ---- */

/* New sequences in maps are indented as the first one that is there. */
static bool find_seq_step(const struct yaml_node *node, unsigned *ret)
{
	for (const struct yaml_node *c = is_block(node) ? node->first : NULL; c; c = c->next) {
		if (node->kind == YAML_MAP && c->kind == YAML_SEQ && is_block(c) &&
			read_column(c) && read_column(node)) {
			*ret = step(node, c, 0, 0);
			return true;
		}
		if (find_seq_step(c, ret))
			return true;
	}
	return false;
}

static bool directives(struct emitting *e, const struct yaml_doc *doc)
{
	if (doc->major != 0)
		buf_fmt(e->out, "%%YAML %d.%d\n", doc->major, doc->minor);
	for (size_t i = 0; i < doc->tag_count; i++) {
		buf_str(e->out, "%TAG ");
		buf_slice(e->out, doc->tags[i].handle);
		buf_char(e->out, ' ');
		tag_text(e->out, doc->tags[i].prefix, "!,[]");
		buf_char(e->out, '\n');
	}
	return doc->major != 0 || doc->tag_count > 0;
}

static void document(struct emitting *e, const struct yaml_doc *doc)
{
	const struct yaml_node *root = doc->root;
	bool marked = directives(e, doc) || doc->start_marked;

	e->doc = doc;
	e->map_step = 2;
	e->seq_step = 0;
	e->space = marked;
	find_seq_step(root, &e->seq_step);
	if (marked)
		buf_str(e->out, "---");
	if (is_block(root)) {
		properties(e, root);
		new_line(e, 0);
		if (root->kind == YAML_MAP)
			block_map(e, root, 0);
		else
			block_seq(e, root, 0);
	} else {
		if (marked && (root->kind == YAML_MAP || root->kind == YAML_SEQ) &&
			root->line != doc->line)
			new_line(e, 0);
		flow(e, root, 0);
	}
	new_line(e, 0);
	if (doc->end_marked)
		buf_str(e->out, "...\n");
}

int yaml_emit(const struct yaml_stream *stream, struct buf *out, struct err *err)
{
	struct emitting e = {.out = out};

	for (const struct yaml_doc *doc = stream->first, *last = NULL; doc;
		last = doc, doc = doc->next) {
		/* a plain scalar at the end of the last document would read on through a directive */
		if (last && !last->end_marked && (doc->major != 0 || doc->tag_count > 0))
			buf_str(out, "...\n");
		document(&e, doc);
	}
	if (out->failed)
		return err_set(
			err, ERR_TOOBIG, "the YAML text takes more than %zu bytes", out->max);
	return 0;
}
