/* SPDX-License-Identifier: Apache-2.0 */
/* base: one walk over a tree whose nodes know where they were read, copying what stands between the
 * changes.
 *
 * A unit is a member of a map or an element of a sequence, from its key or dash to the end of its
 * value. A collection in which something changed knows the units that were read (`was`) and those
 * that it has now; both are in the order of the text. Runs of units that went and of units that
 * came stand between units that stayed. */
#include "base/yaml/yaml_splice.h"

#include <string.h>

#include "base/yaml/yaml_find.h"
#include "base/yaml/yaml_piece.h"
#include "base/yaml/yaml_place.h"

#define BOM "\xef\xbb\xbf"

struct splicing {
	struct slice text; /* behind the BOM */
	size_t pos;        /* what is in front has been copied or left out */
	struct yaml_pen pen;
	unsigned lines; /* of its document, as yaml_pen_imitate says */
};

static void copy_to(struct splicing *s, size_t to)
{
	if (to > s->pos)
		buf_add(s->pen.out, s->text.at + s->pos, to - s->pos);
	s->pos = to > s->pos ? to : s->pos;
}

static void skip_to(struct splicing *s, size_t to)
{
	s->pos = to > s->pos ? to : s->pos;
}

/* ---- changes ---- */

/* One collection at work. */
struct run {
	const struct yaml_node *in;
	size_t units;    /* that were read */
	unsigned column; /* of its units */
	bool flow;
	bool own_lines; /* in brackets: a line for each unit */
};

/* What stands between two units. */
static void between(struct splicing *s, const struct run *r)
{
	if (r->flow)
		buf_char(s->pen.out, ',');
	if (!r->flow || r->own_lines)
		yaml_piece_line(&s->pen, r->column);
	else if (!s->pen.tight)
		buf_char(s->pen.out, ' ');
}

/* The comma on the line of what ends at stop, or 0. */
static size_t comma_behind(const struct splicing *s, size_t stop)
{
	while (yaml_place_is_blank(yaml_place_char(s->text, stop)))
		stop++;
	return yaml_place_char(s->text, stop) == ',' ? stop : 0;
}

/* Where the line of a unit ends, its comma and its comment included. */
static size_t unit_line_end(const struct splicing *s, const struct run *r, size_t stop)
{
	size_t comma = r->flow ? comma_behind(s, stop) : 0;

	return yaml_place_line_end(s->text, comma ? comma + 1 : stop);
}

/* n new units from `node` on, on the line. */
static void add_inline(
	struct splicing *s, const struct run *r, const struct yaml_node *node, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			between(s, r);
		yaml_piece_unit(&s->pen, r->in, node, r->column);
		node = yaml_place_next_unit(r->in, node);
	}
}

/* n new units from `node` on, on lines of their own behind the line of a unit that ends at stop. */
static void add_lines(struct splicing *s, const struct run *r, size_t stop,
	const struct yaml_node *node, size_t n)
{
	bool comma = r->flow && comma_behind(s, stop) > 0;

	if (r->flow && !comma) {
		copy_to(s, stop);
		buf_char(s->pen.out, ',');
	}
	copy_to(s, unit_line_end(s, r, stop));
	for (; n > 0; n--) {
		yaml_piece_line(&s->pen, r->column);
		yaml_piece_unit(&s->pen, r->in, node, r->column);
		if (r->flow && (comma || n > 1))
			buf_char(s->pen.out, ',');
		node = yaml_place_next_unit(r->in, node);
	}
}

/* What follows what went, blanks and a comment, comes behind the first line that was written since
 * begin. */
static void keep_comment(struct splicing *s, size_t begin, size_t stop)
{
	size_t end = yaml_place_line_end(s->text, stop), len = end - stop, to;
	struct buf *out = s->pen.out;
	const char *line =
		out->len > begin ? memchr(out->data + begin, '\n', out->len - begin) : NULL;

	if (!line || len == 0)
		return;
	to = (size_t)(line - out->data) - (s->pen.newline[0] == '\r' ? 1 : 0);
	if (!buf_reserve(out, len))
		return;
	memmove(out->data + to + len, out->data + to, out->len - to + 1);
	memcpy(out->data + to, s->text.at + stop, len);
	out->len += len;
	skip_to(s, end);
}

/* n new units where one was read. */
static void put_units(struct splicing *s, const struct run *r, size_t instead,
	const struct yaml_node *node, size_t n)
{
	size_t stop = yaml_place_unit_stop(s->text, r->in, instead), begin;

	copy_to(s, yaml_place_unit_start(s->text, r->in, instead));
	begin = s->pen.out->len;
	add_inline(s, r, node, r->flow && !r->own_lines ? n : 1);
	skip_to(s, stop);
	if (!r->flow)
		keep_comment(s, begin, stop);
	if (n > 1 && (!r->flow || r->own_lines))
		add_lines(s, r, stop, yaml_place_next_unit(r->in, node), n - 1);
}

/* Leave a unit out that is not alone, with the line that it begins, or with the comma in front of
 * it. */
static void drop(struct splicing *s, const struct run *r, size_t i)
{
	size_t start = yaml_place_unit_start(s->text, r->in, i),
	       stop = yaml_place_unit_stop(s->text, r->in, i);
	size_t above;

	if (r->flow && !yaml_place_begins_line(s->text, start)) {
		copy_to(s, i > 0 ? yaml_place_unit_stop(s->text, r->in, i - 1) : start);
		skip_to(s, stop);
		return;
	}
	above = yaml_place_line_begin(s->text, start);
	above -= above > 0 ? 1 : 0;
	if (yaml_place_char(s->text, above) == '\n' && above > 0 &&
		yaml_place_char(s->text, above - 1) == '\r')
		above--;
	copy_to(s, above);
	skip_to(s, unit_line_end(s, r, stop));
}

/* A block scalar that ends the text without a newline must not get one when something comes behind
 * it. */
static void chomp(struct splicing *s, const struct yaml_node *node)
{
	const struct yaml_node *last = yaml_place_end_node(node);

	if (node->gone || last->to < s->text.len || yaml_place_is_break(s->text, s->text.len - 1) ||
		(last->style != YAML_LITERAL && last->style != YAML_FOLDED))
		return;
	size_t i = last->from;

	while (yaml_place_char(s->text, i) != '|' && yaml_place_char(s->text, i) != '>')
		i++;
	copy_to(s, i + 1);
	if (yaml_place_char(s->text, i + 1) == '-' || yaml_place_char(s->text, i + 2) == '-')
		return;
	buf_char(s->pen.out, '-');
	if (yaml_place_char(s->text, i + 1) == '+')
		skip_to(s, i + 2);
}

/* n new units come between unit `next` - 1 and unit `next` of those that were read. */
static void insert_run(struct splicing *s, const struct run *r, size_t next,
	const struct yaml_node *node, size_t n)
{
	if (n > 0 && next > 0) {
		size_t stop = yaml_place_unit_stop(s->text, r->in, next - 1);

		if (yaml_place_line_end(s->text, stop) == s->text.len)
			chomp(s, r->in->was[next * yaml_place_per_unit(r->in) - 1]);
		if (r->flow && !r->own_lines) {
			copy_to(s, stop);
			between(s, r);
			add_inline(s, r, node, n);
		} else {
			add_lines(s, r, stop, node, n);
		}
	} else if (n > 0) {
		copy_to(s, yaml_place_unit_start(s->text, r->in, 0));
		add_inline(s, r, node, n);
		between(s, r);
	}
}

/* Units from..to of those that were read went, n new ones from `node` on come in their place. */
static void replace_run(struct splicing *s, const struct run *r, size_t from, size_t to,
	const struct yaml_node *node, size_t n)
{
	size_t start = yaml_place_unit_start(s->text, r->in, from);

	if (n > 0) {
		put_units(s, r, from++, node, n);
	} else if (from == 0 && (!yaml_place_begins_line(s->text, start) ||
					yaml_place_line_begin(s->text, start) == 0)) {
		copy_to(s, start); /* behind a bracket or a dash: the next one comes here */
		skip_to(s, yaml_place_unit_start(s->text, r->in, to));
		return;
	}
	if (r->flow && from > 0 && from < to && to == r->units &&
		!comma_behind(s, yaml_place_unit_stop(s->text, r->in, to - 1))) {
		size_t comma = yaml_place_skip_gap(
			s->text, yaml_place_unit_stop(s->text, r->in, from - 1), ' ');

		copy_to(s, comma); /* nothing comes behind it any more */
		skip_to(s, comma + 1);
	}
	for (; from < to; from++)
		drop(s, r, from);
}

/* A blank, if what was written last is none. */
static void apart(struct splicing *s)
{
	const struct buf *out = s->pen.out;

	if (out->len > 0 && !yaml_place_is_blank(out->data[out->len - 1]) && !s->pen.tight)
		buf_char(s->pen.out, ' ');
}

/* A collection in block style below a key, where `old` was on the key's line or began below it. */
static void put_block(struct splicing *s, const struct run *r, const struct yaml_node *old,
	const struct yaml_node *value, size_t colon, bool below)
{
	size_t stop = yaml_place_end(s->text, old), blanks = old->from;

	if (below) {
		copy_to(s, yaml_place_line_end(s->text, colon));
	} else if (value->anchor.at || value->tag.at) {
		copy_to(s, old->from);
		apart(s);
		yaml_piece_properties(&s->pen, value);
	} else {
		while (yaml_place_is_blank(yaml_place_char(s->text, blanks - 1)))
			blanks--;
		copy_to(s, blanks);
	}
	skip_to(s, below ? yaml_place_line_end(s->text, stop) : stop);
	copy_to(s, yaml_place_line_end(s->text, stop));
	unsigned column = r->column + (value->kind == YAML_MAP ? s->pen.map_step : s->pen.seq_step);

	yaml_piece_line(&s->pen, column);
	yaml_piece_block(&s->pen, value, column);
}

/* Another value for a member whose key stays. */
static void put_value(struct splicing *s, const struct run *r, const struct yaml_node *key,
	const struct yaml_node *old, const struct yaml_node *value)
{
	size_t colon = yaml_place_skip_gap(s->text, key->to, ' ');
	bool marked = yaml_place_char(s->text, colon) == ':' && colon <= old->from;
	bool below;

	colon = marked ? colon + 1 : key->to;
	below = yaml_place_line_end(s->text, colon) < old->from &&
		yaml_place_is_break(s->text, yaml_place_line_end(s->text, colon));
	if (!r->flow && yaml_piece_is_block(&s->pen, value)) {
		put_block(s, r, old, value, colon, below);
		return;
	}
	copy_to(s, below || !marked ? colon : old->from);
	if (!marked && !r->flow)
		yaml_piece_line(&s->pen, r->column); /* "? key" was alone */
	if (!marked)
		buf_char(s->pen.out, ':');
	apart(s);
	yaml_piece_inline(&s->pen, value, r->column, r->flow);
	if (below)
		copy_to(s, yaml_place_line_end(s->text, colon));
	if (marked)
		skip_to(s, below ? yaml_place_line_end(s->text, yaml_place_end(s->text, old))
				 : yaml_place_end(s->text, old));
}

/* An element of a block sequence, or a root, that is a collection and was opened or emptied. */
static void put_here(struct splicing *s, const struct run *r, const struct yaml_node *node)
{
	copy_to(s, node->from);
	if (!r->flow && yaml_piece_is_block(&s->pen, node)) {
		unsigned column =
			(unsigned)(node->from - yaml_place_line_begin(s->text, node->from));

		if (yaml_piece_properties(&s->pen, node))
			yaml_piece_line(&s->pen, column);
		yaml_piece_block(&s->pen, node, column);
	} else {
		yaml_piece_inline(&s->pen, node, r->column, r->flow);
	}
	skip_to(s, yaml_place_end(s->text, node));
}

/* A collection that must be written anew: it had nothing and has something now, or the other way
 * round. */
static bool is_rewritten(const struct yaml_node *node)
{
	return node->was && (node->was_count == 0) != (node->count == 0);
}

static void splice(struct splicing *s, const struct yaml_node *in);

static void keep(struct splicing *s, const struct run *r, size_t i, const struct yaml_node *now)
{
	const struct yaml_node *old =
		r->in->was[i * yaml_place_per_unit(r->in) + yaml_place_per_unit(r->in) - 1];
	const struct yaml_node *value = r->in->kind == YAML_MAP ? now->next : now;

	if (value != old || (is_rewritten(value) && r->in->kind == YAML_MAP))
		put_value(s, r, now, old, value);
	else if (is_rewritten(value))
		put_here(s, r, value);
	else if (value->was && value->was_count > 0)
		splice(s, value);
}

static void splice(struct splicing *s, const struct yaml_node *in)
{
	struct run r = {.in = in,
		.units = in->was_count / yaml_place_per_unit(in),
		.flow = !yaml_place_was_block(in)};
	size_t start = yaml_place_unit_start(s->text, in, 0), i = 0;
	const struct yaml_node *now = in->first;
	unsigned lines = s->pen.lines;

	r.own_lines = yaml_place_begins_line(s->text, start);
	if (!r.flow || r.own_lines) /* the line may be a whole file of JSON */
		r.column = (unsigned)(start - yaml_place_line_begin(s->text, start));
	s->pen.lines = r.own_lines ? s->lines : 0;
	while (now || i < r.units) {
		const struct yaml_node *came = now;
		size_t from = i, n = 0;

		for (; i < r.units && yaml_place_unit_gone(in, i); i++)
			;
		for (; now && now->line == 0; n++)
			now = yaml_place_next_unit(in, now);
		if (from < i)
			replace_run(s, &r, from, i, came, n);
		else
			insert_run(s, &r, i, came, n);
		if (i >= r.units || !now)
			break;
		keep(s, &r, i++, now);
		now = yaml_place_next_unit(in, now);
	}
	s->pen.lines = lines;
}

/* ---- whole texts ---- */

/* What was written must read as what was meant: a manifest is no place for a guess. */
static int check(
	const struct yaml_stream *docs, const struct buf *out, size_t begin, struct err *err)
{
	struct slice written = {out->data + begin, out->len - begin};
	const char *file = docs->first ? docs->first->file : "-";
	struct yaml_stream again;
	struct err why = {0};
	struct arena arena;
	bool same;

	if (out->full)
		return err_set(err, ERR_TOOBIG, "%s: more than %zu bytes to write", file, out->max);
	if (out->failed)
		return err_set(err, ERR_NOMEM, "%s: out of memory for the text", file);
	arena_init(&arena, YAML_ARENA_MAX);
	same = yaml_parse(&arena, file, written, YAML_ANY, &again, &why) == 0;
	same = same && yaml_same_streams(docs, &again);
	arena_release(&arena);
	if (same)
		return 0;
	return err_set(err,
		why.code == ERR_NOMEM || why.code == ERR_TOOBIG ? why.code : ERR_INTERNAL,
		"%s: the change cannot be written into this text so that it reads as "
		"meant%s%.200s; "
		"-o json and -o patch can",
		file, why.msg[0] ? ": " : "", why.msg);
}

static int done(const struct yaml_stream *docs, struct buf *out, size_t begin, struct err *err)
{
	int rc = out->len > begin || out->failed ? check(docs, out, begin, err) : 0;

	if (rc != 0 && out->data && !out->failed) {
		out->len = begin;
		out->data[begin] = '\0';
	}
	return rc;
}

int yaml_splice(const struct yaml_stream *docs, struct slice text, struct buf *out, struct err *err)
{
	struct splicing s = {.text = text, .pen.out = out};
	size_t begin = out->len;

	if (slice_starts(text, SLICE(BOM))) {
		buf_str(out, BOM);
		s.text = (struct slice){text.at + strlen(BOM), text.len - strlen(BOM)};
	}
	for (const struct yaml_doc *doc = docs->first; doc; doc = doc->next) {
		struct run root = {.in = doc->root};

		s.lines = yaml_pen_imitate(&s.pen, s.text, doc);
		if (is_rewritten(doc->root))
			put_here(&s, &root, doc->root);
		else if (doc->root->was)
			splice(&s, doc->root);
	}
	copy_to(&s, s.text.len);
	return done(docs, out, begin, err);
}

int yaml_from_json_text(const struct yaml_stream *docs, struct buf *out, struct err *err)
{
	struct yaml_pen pen = {.out = out, .newline = "\n", .map_step = 2, .fill = ' '};
	size_t begin = out->len;

	for (const struct yaml_doc *doc = docs->first; doc; doc = doc->next) {
		if (yaml_piece_is_block(&pen, doc->root))
			yaml_piece_block(&pen, doc->root, 0);
		else
			yaml_piece_inline(&pen, doc->root, 0, false);
		buf_char(out, '\n');
	}
	return done(docs, out, begin, err);
}
