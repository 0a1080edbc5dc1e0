/* SPDX-License-Identifier: Apache-2.0 */
/* base: one walk over a tree whose nodes know where they were read, copying what stands between the changes.
 *
 * A unit is a member of a map or an element of a sequence, from its key or dash to the end of its value. A collection in
 * which something changed knows the units that were read (`was`) and those that it has now; both are in the order of the
 * text. Runs of units that went and of units that came stand between units that stayed. */
#include "base/yaml_splice.h"

#include <string.h>

#include "base/yaml_find.h"
#include "base/yaml_piece.h"

#define BOM "\xef\xbb\xbf"
/* Wider steps are not imitated. */
#define STEP_MAX 16

struct splicing {
	struct slice text; /* behind the BOM */
	size_t pos;        /* what is in front has been copied or left out */
	struct yaml_pen pen;
	unsigned lines; /* indentation of the document, when it is JSON on several lines */
};

/* ---- the text ---- */

static char at(const struct splicing *s, size_t i)
{
	return i < s->text.len ? s->text.at[i] : '\0';
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool is_break(const struct splicing *s, size_t i)
{
	return i >= s->text.len || s->text.at[i] == '\n' || s->text.at[i] == '\r';
}

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

static size_t line_begin(const struct splicing *s, size_t i)
{
	while (i > 0 && !is_break(s, i - 1))
		i--;
	return i;
}

/* The break behind what follows a unit on its last line: blanks and a comment. Another thing may follow in brackets: then i. */
static size_t line_end(const struct splicing *s, size_t i)
{
	size_t end = i;

	while (is_blank(at(s, end)))
		end++;
	if (at(s, end) == '#' && end > i) {
		while (!is_break(s, end))
			end++;
	}
	return is_break(s, end) ? end : i;
}

/* Behind blanks, breaks and comments, and behind `also` as often as it comes. */
static size_t skip_gap(const struct splicing *s, size_t i, char also)
{
	for (; i < s->text.len; i++) {
		char c = s->text.at[i];

		if (c == '#' && (i == 0 || is_blank(s->text.at[i - 1]) || is_break(s, i - 1))) {
			while (!is_break(s, i))
				i++;
		} else if (!is_blank(c) && !is_break(s, i) && c != also) {
			break;
		}
	}
	return i;
}

/* ---- places of nodes ---- */

static bool was_block(const struct yaml_node *node)
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
static const struct yaml_node *end_node(const struct yaml_node *node)
{
	while (was_block(node) && last_read(node))
		node = last_read(node);
	return node;
}

/* Behind the last byte of a node, without the empty lines that may follow a block scalar. */
static size_t end_of(const struct splicing *s, const struct yaml_node *node)
{
	const struct yaml_node *last = end_node(node);
	size_t end = last->to, head = last->from;

	if (last->style != YAML_LITERAL && last->style != YAML_FOLDED)
		return end;
	while (!is_break(s, head))
		head++;
	bool keep = memchr(s->text.at + last->from, '+', head - last->from) != NULL;

	while (end > head && is_break(s, end - 1)) {
		bool crlf = end > 1 && s->text.at[end - 1] == '\n' && s->text.at[end - 2] == '\r';

		end -= crlf ? 2 : 1;
		if (keep)
			break;
	}
	return end;
}

/* Where the first unit of a collection may begin. */
static size_t inside(const struct splicing *s, const struct yaml_node *in)
{
	size_t i = in->from;

	while (at(s, i) == '&' || (at(s, i) == '!' && (in->tag.at || in->anchor.at))) {
		while (!is_blank(at(s, i)) && !is_break(s, i))
			i++;
		i = skip_gap(s, i, ' ');
	}
	return i + (!was_block(in) && (at(s, i) == '{' || at(s, i) == '[') ? 1 : 0);
}

static size_t per_unit(const struct yaml_node *in)
{
	return in->kind == YAML_MAP ? 2 : 1;
}

static size_t unit_stop(const struct splicing *s, const struct yaml_node *in, size_t unit)
{
	const struct yaml_node *first = in->was[unit * per_unit(in)];
	const struct yaml_node *value = in->was[unit * per_unit(in) + per_unit(in) - 1];

	/* libyaml puts the value that an explicit key lacks where the next token is */
	if (in->kind == YAML_MAP && value->from == value->to && !was_block(value) &&
		at(s, value->from - 1) != ':')
		return end_of(s, first);
	return end_of(s, value);
}

static size_t unit_start(const struct splicing *s, const struct yaml_node *in, size_t unit)
{
	size_t first = in->was[unit * per_unit(in)]->from;
	size_t gap = skip_gap(s, unit > 0 ? unit_stop(s, in, unit - 1) : inside(s, in), ',');
	char mark = in->kind == YAML_MAP ? '?' : '-';

	return gap < first && at(s, gap) == mark ? gap : first;
}

static bool unit_gone(const struct yaml_node *in, size_t unit)
{
	return in->was[unit * per_unit(in)]->gone;
}

/* Does only indentation stand in front of it? */
static bool begins_line(const struct splicing *s, size_t i)
{
	while (i > 0 && is_blank(s->text.at[i - 1]))
		i--;
	return i == 0 || is_break(s, i - 1);
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

/* n new units, first to last. Did they take several lines? */
static bool new_units(
	struct splicing *s, const struct run *r, const struct yaml_node *node, size_t n)
{
	struct buf *out = s->pen.out;
	size_t begin = out->len;

	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			between(s, r);
		yaml_piece_unit(&s->pen, r->in, node, r->column);
		node = per_unit(r->in) == 2 ? yaml_next_key(node) : node->next;
	}
	return out->len > begin && memchr(out->data + begin, '\n', out->len - begin);
}

/* Leave a unit out that is not the first one, with its comma or the line that it begins. */
static void drop(struct splicing *s, const struct run *r, size_t i)
{
	size_t stop = unit_stop(s, r->in, i);
	size_t above = line_begin(s, unit_start(s, r->in, i));

	if (r->flow) {
		copy_to(s, unit_stop(s, r->in, i - 1));
		skip_to(s, stop);
		return;
	}
	above -= above > 0 ? 1 : 0;
	if (at(s, above) == '\n' && above > 0 && at(s, above - 1) == '\r')
		above--;
	copy_to(s, above);
	skip_to(s, line_end(s, stop));
}

/* A block scalar that ends the text without a newline must not get one when something comes behind it. */
static void chomp(struct splicing *s, const struct yaml_node *node)
{
	const struct yaml_node *last = end_node(node);

	if (node->gone || last->to < s->text.len || is_break(s, s->text.len - 1) ||
		(last->style != YAML_LITERAL && last->style != YAML_FOLDED))
		return;
	size_t i = last->from;

	while (at(s, i) != '|' && at(s, i) != '>')
		i++;
	copy_to(s, i + 1);
	if (at(s, i + 1) == '-' || at(s, i + 2) == '-')
		return;
	buf_char(s->pen.out, '-');
	if (at(s, i + 1) == '+')
		skip_to(s, i + 2);
}

/* n new units come between unit `next` - 1 and unit `next` of those that were read. */
static void insert_run(struct splicing *s, const struct run *r, size_t next,
	const struct yaml_node *node, size_t n)
{
	if (n > 0 && next > 0) {
		size_t stop = unit_stop(s, r->in, next - 1);
		size_t end = r->flow ? stop : line_end(s, stop);

		if (end == s->text.len)
			chomp(s, r->in->was[next * per_unit(r->in) - 1]);
		copy_to(s, end);
		between(s, r);
		new_units(s, r, node, n);
	} else if (n > 0) {
		copy_to(s, unit_start(s, r->in, 0));
		new_units(s, r, node, n);
		between(s, r);
	}
}

/* Units from..to of those that were read went, n new ones from `node` on come in their place. */
static void replace_run(struct splicing *s, const struct run *r, size_t from, size_t to,
	const struct yaml_node *node, size_t n)
{
	size_t start = unit_start(s, r->in, from), stop = unit_stop(s, r->in, from);

	if (n > 0) {
		copy_to(s, start);
		/* a comment stays behind what is on one line */
		skip_to(s, new_units(s, r, node, n) && !r->flow ? line_end(s, stop) : stop);
		from++;
	} else if (from == 0 && (r->flow || line_begin(s, start) == 0 || !begins_line(s, start))) {
		copy_to(s, start); /* behind a bracket or a dash: the next one comes here */
		skip_to(s, unit_start(s, r->in, to));
		return;
	}
	for (; from < to; from++)
		drop(s, r, from);
}

/* A blank, if what was written last is none. */
static void apart(struct splicing *s)
{
	const struct buf *out = s->pen.out;

	if (out->len > 0 && !is_blank(out->data[out->len - 1]) && !s->pen.tight)
		buf_char(s->pen.out, ' ');
}

/* A collection in block style below a key, where `old` was on the key's line or began below it. */
static void put_block(struct splicing *s, const struct run *r, const struct yaml_node *old,
	const struct yaml_node *value, size_t colon, bool below)
{
	size_t stop = end_of(s, old), blanks = old->from;

	if (below) {
		copy_to(s, line_end(s, colon));
	} else if (value->anchor.at || value->tag.at) {
		copy_to(s, old->from);
		apart(s);
		yaml_piece_properties(&s->pen, value);
	} else {
		while (is_blank(at(s, blanks - 1)))
			blanks--;
		copy_to(s, blanks);
	}
	skip_to(s, below ? line_end(s, stop) : stop);
	copy_to(s, line_end(s, stop));
	unsigned column = r->column + (value->kind == YAML_MAP ? s->pen.map_step : s->pen.seq_step);

	yaml_piece_line(&s->pen, column);
	yaml_piece_block(&s->pen, value, column);
}

/* Another value for a member whose key stays. */
static void put_value(struct splicing *s, const struct run *r, const struct yaml_node *key,
	const struct yaml_node *old, const struct yaml_node *value)
{
	size_t colon = skip_gap(s, key->to, ' ');
	bool marked = at(s, colon) == ':' && colon <= old->from;
	bool below;

	colon = marked ? colon + 1 : key->to;
	below = line_end(s, colon) < old->from && is_break(s, line_end(s, colon));
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
		copy_to(s, line_end(s, colon));
	if (marked)
		skip_to(s, below ? line_end(s, end_of(s, old)) : end_of(s, old));
}

/* An element of a block sequence, or a root, that is a collection and was opened or emptied. */
static void put_here(struct splicing *s, const struct run *r, const struct yaml_node *node)
{
	copy_to(s, node->from);
	if (!r->flow && yaml_piece_is_block(&s->pen, node)) {
		unsigned column = (unsigned)(node->from - line_begin(s, node->from));

		if (yaml_piece_properties(&s->pen, node))
			yaml_piece_line(&s->pen, column);
		yaml_piece_block(&s->pen, node, column);
	} else {
		yaml_piece_inline(&s->pen, node, r->column, r->flow);
	}
	skip_to(s, end_of(s, node));
}

/* A collection that must be written anew: it had nothing and has something now, or the other way round. */
static bool is_rewritten(const struct yaml_node *node)
{
	return node->was && (node->was_count == 0) != (node->count == 0);
}

static void splice(struct splicing *s, const struct yaml_node *in);

static void keep(struct splicing *s, const struct run *r, size_t i, const struct yaml_node *now)
{
	const struct yaml_node *old = r->in->was[i * per_unit(r->in) + per_unit(r->in) - 1];
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
	struct run r = {.in = in, .units = in->was_count / per_unit(in), .flow = !was_block(in)};
	size_t start = unit_start(s, in, 0), line = line_begin(s, start), i = 0;
	const struct yaml_node *now = in->first;
	unsigned lines = s->pen.lines;

	r.own_lines = begins_line(s, start);
	if (r.flow && !r.own_lines) {
		while (is_blank(at(s, line + r.column)))
			r.column++;
	} else {
		r.column = (unsigned)(start - line);
	}
	s->pen.lines = r.own_lines ? s->lines : 0;
	while (now || i < r.units) {
		const struct yaml_node *came = now;
		size_t from = i, n = 0;

		for (; i < r.units && unit_gone(in, i); i++)
			;
		for (; now && now->line == 0; n++)
			now = in->kind == YAML_MAP ? yaml_next_key(now) : now->next;
		if (from < i)
			replace_run(s, &r, from, i, came, n);
		else
			insert_run(s, &r, i, came, n);
		if (i >= r.units || !now)
			break;
		keep(s, &r, i++, now);
		now = in->kind == YAML_MAP ? yaml_next_key(now) : now->next;
	}
	s->pen.lines = lines;
}

/* ---- how the document is written ---- */

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

static void look_at_style(struct splicing *s, const struct yaml_doc *doc)
{
	const struct yaml_node *root = doc->root, *first = root->was ? root->was[0] : root->first;
	const char *end = s->text.len ? memchr(s->text.at, '\n', s->text.len) : NULL;

	s->pen.newline = end && end > s->text.at && end[-1] == '\r' ? "\r\n" : "\n";
	s->pen.fill = ' ';
	s->pen.map_step = 2;
	s->pen.seq_step = 0;
	s->pen.json = doc->json;
	find_step(root, YAML_MAP, &s->pen.map_step);
	find_step(root, YAML_SEQ, &s->pen.seq_step);
	if (!doc->json || !first)
		return;
	size_t line = line_begin(s, first->from);

	s->pen.tight = at(s, first->to) == ':' && !is_blank(at(s, first->to + 1));
	if (begins_line(s, first->from) && line < first->from) {
		s->lines = (unsigned)(first->from - line);
		s->pen.fill = at(s, line);
	}
}

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

	if (out->failed)
		return err_set(err, ERR_TOOBIG, "%s: more than %zu bytes to write", file, out->max);
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

		look_at_style(&s, doc);
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
