/* SPDX-License-Identifier: Apache-2.0 */
/* base: libyaml's events, one by one, into a tree; limits first, since libyaml has none of its own.
 */
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/text.h"
#include "base/yaml/yaml.h"
#include "base/yaml/yaml_from_json.h"
#include "base/yaml/yaml_scalar.h"

/* What is being built. */
struct reading {
	yaml_parser_t parser;
	struct arena *arena;
	const char *file;
	enum yaml_flags flags;
	bool parser_failed;
	struct yaml_stream out;
	struct yaml_doc *last;
	struct yaml_node *open; /* the collection that is being filled */
	uint32_t depth;         /* how many collections are open */
	uint32_t nodes;         /* of all documents */
	struct slice text;
	size_t chars, bytes; /* libyaml counts characters: so many are so many bytes */
	struct yaml_node *anchors[YAML_ANCHORS_MAX];
	size_t anchor_count;
};

static int no_memory(struct err *err)
{
	return err_set(err, ERR_NOMEM, "out of memory while reading YAML");
}

static struct slice copy(struct reading *r, const void *bytes, size_t len)
{
	if (!bytes)
		return (struct slice){0};
	return arena_slice(r->arena, (struct slice){bytes, len});
}

static struct slice copy_str(struct reading *r, const yaml_char_t *s)
{
	return copy(r, s, s ? strlen((const char *)s) : 0);
}

/* libyaml's own refusal, as one sentence */
static int parser_error(const struct reading *r, struct err *err)
{
	const yaml_parser_t *p = &r->parser;
	size_t line = p->problem_mark.line + 1;
	const char *problem = p->problem ? p->problem : "not readable";

	if (p->error == YAML_MEMORY_ERROR)
		return no_memory(err);
	if (p->error == YAML_READER_ERROR)
		return err_set(err, ERR_SYNTAX, "%s: byte %zu: %s; YAML files must be UTF-8 text",
			r->file, p->problem_offset, problem);
	if (p->context && p->context_mark.line + 1 != line)
		return err_set(err, ERR_SYNTAX, "%s:%zu: %s (%s that began in line %zu)", r->file,
			line, problem, p->context, p->context_mark.line + 1);
	return err_set(err, ERR_SYNTAX, "%s:%zu: %s%s%s%s", r->file, line, problem,
		p->context ? " (" : "", p->context ? p->context : "", p->context ? ")" : "");
}

static int start_document(struct reading *r, const yaml_event_t *e, struct err *err)
{
	struct yaml_doc *doc = arena_alloc(r->arena, sizeof(*doc));

	if (!doc)
		return no_memory(err);
	doc->file = r->file;
	doc->arena = r->arena;
	doc->start_marked = !e->data.document_start.implicit;
	doc->directives = e->data.document_start.version_directive ||
			  e->data.document_start.tag_directives.start !=
				  e->data.document_start.tag_directives.end;
	if (r->last)
		r->last->next = doc;
	else
		r->out.first = doc;
	r->last = doc;
	r->out.count++;
	r->open = NULL;
	r->anchor_count = 0;
	return 0;
}

/* Give a node its name; a name used before now means this one. */
static int add_anchor(
	struct reading *r, struct yaml_node *node, const yaml_char_t *name, struct err *err)
{
	if (!name)
		return 0;
	if (r->flags & YAML_NO_ALIASES)
		return yaml_err(node, err, ERR_REFUSED,
			"found the anchor &%s; anchors and aliases are not accepted here, write "
			"the value out",
			(const char *)name);
	if (r->anchor_count == YAML_ANCHORS_MAX)
		return yaml_err(node, err, ERR_TOOBIG, "more than %d anchors in one document",
			YAML_ANCHORS_MAX);
	node->anchor = copy_str(r, name);
	r->anchors[r->anchor_count++] = node;
	return 0;
}

static int set_alias(
	struct reading *r, struct yaml_node *alias, const yaml_char_t *name, struct err *err)
{
	if (r->flags & YAML_NO_ALIASES)
		return yaml_err(alias, err, ERR_REFUSED,
			"found the alias *%s; anchors and aliases are not accepted here, write the "
			"value out",
			(const char *)name);
	alias->text = copy_str(r, name);
	for (size_t i = r->anchor_count; i > 0 && !alias->target; i--) {
		if (slice_eq(r->anchors[i - 1]->anchor, alias->text))
			alias->target = r->anchors[i - 1];
	}
	if (!alias->target)
		return yaml_err(alias, err, ERR_SYNTAX, "the alias *%s has no anchor &%s above it",
			(const char *)name, (const char *)name);
	for (const struct yaml_node *up = alias->parent; up; up = up->parent) {
		if (up == alias->target)
			return yaml_err(alias, err, ERR_SYNTAX,
				"the alias *%s stands inside the value that it names",
				(const char *)name);
	}
	alias->target->aliased++;
	return 0;
}

/* Where a mark is in the text, in bytes. Marks come in the order of the text. */
static uint32_t offset_of(struct reading *r, const yaml_mark_t *mark)
{
	for (; r->chars < mark->index && r->bytes < r->text.len; r->chars++) {
		do
			r->bytes++;
		while (r->bytes < r->text.len && (r->text.at[r->bytes] & 0xc0) == 0x80);
	}
	return (uint32_t)r->bytes;
}

/* Make a node and hang it into the open collection, or make it the root. */
static struct yaml_node *add_node(struct reading *r, const yaml_event_t *e, enum yaml_kind kind,
	enum yaml_style style, struct err *err)
{
	struct yaml_node *node;

	if (++r->nodes > YAML_NODES_MAX) {
		err_set(err, ERR_TOOBIG, "%s:%zu: more than %u values", r->file,
			e->start_mark.line + 1, YAML_NODES_MAX);
		return NULL;
	}
	node = yaml_node_new(r->last, kind, style);
	if (!node) {
		no_memory(err);
		return NULL;
	}
	node->line = (uint32_t)e->start_mark.line + 1;
	node->column = (uint32_t)e->start_mark.column + 1;
	node->from = offset_of(r, &e->start_mark);
	if (kind == YAML_SCALAR || kind == YAML_ALIAS)
		node->to = offset_of(r, &e->end_mark);
	if (r->open)
		yaml_append(r->open, node);
	else
		r->last->root = node;
	return node;
}

static int open_collection(struct reading *r, const yaml_event_t *e, bool map, struct err *err)
{
	bool flow = map ? e->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE
			: e->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE;
	struct yaml_node *node =
		add_node(r, e, map ? YAML_MAP : YAML_SEQ, flow ? YAML_FLOW : YAML_BLOCK, err);

	if (!node)
		return err->code;
	if (++r->depth > YAML_DEPTH_MAX)
		return yaml_err(
			node, err, ERR_TOOBIG, "nested deeper than %d levels", YAML_DEPTH_MAX);
	node->tag = copy_str(r, map ? e->data.mapping_start.tag : e->data.sequence_start.tag);
	r->open = node;
	return add_anchor(
		r, node, map ? e->data.mapping_start.anchor : e->data.sequence_start.anchor, err);
}

struct key_at {
	struct slice key;
	const struct yaml_node *node;
};

static int by_key(const void *left, const void *right)
{
	const struct key_at *a = left, *b = right;
	int order = slice_order(a->key, b->key);

	/* qsort is not stable; a message should name the later of two equal keys */
	if (order == 0)
		order = (a->node->line > b->node->line) - (a->node->line < b->node->line);
	return order;
}

/* Collect what the keys of a map mean; how many there are without merge keys in *ret_n. */
static int collect_keys(struct reading *r, const struct yaml_node *map, struct key_at *keys,
	size_t *ret_n, struct err *err)
{
	size_t n = 0;

	YAML_MEMBERS(map, k)
	{
		struct yaml_value v;

		if (yaml_is_merge(k)) {
			if (r->flags & YAML_NO_ALIASES)
				return yaml_err(k, err, ERR_REFUSED,
					"found the merge key <<, which is not accepted here; write "
					"the values out");
			continue;
		}
		int rc = yaml_key(k, &v, err);

		if (rc != 0)
			return rc;
		if (v.text.at == v.num)
			v.text = arena_slice(r->arena, v.text);
		if (!v.text.at)
			return no_memory(err);
		keys[n++] = (struct key_at){v.text, k};
	}
	*ret_n = n;
	return 0;
}

static int check_keys(struct reading *r, const struct yaml_node *map, struct err *err)
{
	struct key_at *keys = calloc(map->count + 1, sizeof(keys[0]));
	size_t n = 0;
	int rc;

	if (!keys)
		return no_memory(err);
	rc = collect_keys(r, map, keys, &n, err);
	if (rc == 0)
		qsort(keys, n, sizeof(keys[0]), by_key);
	for (size_t i = 1; rc == 0 && i < n; i++) {
		if (slice_eq(keys[i - 1].key, keys[i].key))
			rc = yaml_err(keys[i].node, err, ERR_SYNTAX,
				"the key \"%.*s\" is there twice, first in line %u; remove one",
				(int)text_utf8_cut(keys[i].key, 60), keys[i].key.at,
				keys[i - 1].node->line);
	}
	free(keys);
	return rc;
}

static int close_collection(struct reading *r, const yaml_event_t *e, struct err *err)
{
	struct yaml_node *node = r->open;

	if (node->style == YAML_FLOW)
		node->to = offset_of(r, &e->end_mark);
	r->open = node->parent;
	r->depth--;
	if (node->kind != YAML_MAP)
		return 0;
	node->count /= 2; /* yaml_append counted keys and values */
	return check_keys(r, node, err);
}

static int add_scalar(struct reading *r, const yaml_event_t *e, struct err *err)
{
	enum yaml_style style = YAML_PLAIN;
	struct yaml_node *node;

	switch (e->data.scalar.style) {
	case YAML_SINGLE_QUOTED_SCALAR_STYLE:
		style = YAML_SINGLE;
		break;
	case YAML_DOUBLE_QUOTED_SCALAR_STYLE:
		style = YAML_DOUBLE;
		break;
	case YAML_LITERAL_SCALAR_STYLE:
		style = YAML_LITERAL;
		break;
	case YAML_FOLDED_SCALAR_STYLE:
		style = YAML_FOLDED;
		break;
	case YAML_ANY_SCALAR_STYLE:
	case YAML_PLAIN_SCALAR_STYLE:
		break;
	}
	node = add_node(r, e, YAML_SCALAR, style, err);
	if (!node)
		return err->code;
	node->plain_meaning = e->data.scalar.plain_implicit;
	node->text = copy(r, e->data.scalar.value, e->data.scalar.length);
	node->tag = copy_str(r, e->data.scalar.tag);
	return add_anchor(r, node, e->data.scalar.anchor, err);
}

static int take_event(struct reading *r, const yaml_event_t *e, struct err *err)
{
	struct yaml_node *node;

	switch (e->type) {
	case YAML_DOCUMENT_START_EVENT:
		return start_document(r, e, err);
	case YAML_ALIAS_EVENT:
		node = add_node(r, e, YAML_ALIAS, YAML_PLAIN, err);
		return node ? set_alias(r, node, e->data.alias.anchor, err) : err->code;
	case YAML_SCALAR_EVENT:
		return add_scalar(r, e, err);
	case YAML_SEQUENCE_START_EVENT:
		return open_collection(r, e, false, err);
	case YAML_MAPPING_START_EVENT:
		return open_collection(r, e, true, err);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		return close_collection(r, e, err);
	case YAML_NO_EVENT:
	case YAML_STREAM_START_EVENT:
	case YAML_STREAM_END_EVENT:
	case YAML_DOCUMENT_END_EVENT:
		break;
	}
	return 0;
}

static int read_events(struct reading *r, struct err *err)
{
	bool end = false;
	int rc = 0;

	while (rc == 0 && !end) {
		yaml_event_t e;

		if (!yaml_parser_parse(&r->parser, &e)) {
			r->parser_failed = true;
			return parser_error(r, err);
		}
		end = e.type == YAML_STREAM_END_EVENT;
		rc = take_event(r, &e, err);
		yaml_event_delete(&e);
	}
	return rc == 0 && r->arena->failed ? no_memory(err) : rc;
}

static int read_yaml(struct reading *r, struct slice text, struct err *err)
{
	int rc;

	if (!yaml_parser_initialize(&r->parser))
		return no_memory(err);
	yaml_parser_set_encoding(&r->parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r->parser, (const unsigned char *)text.at, text.len);
	rc = read_events(r, err);
	yaml_parser_delete(&r->parser);
	return rc;
}

/* Does it look like UTF-16, with a byte order mark or (ASCII in it) without? */
static bool is_utf16(struct slice text)
{
	return slice_starts(text, SLICE("\xff\xfe")) || slice_starts(text, SLICE("\xfe\xff")) ||
	       (text.len >= 2 && ((text.at[0] == '\0') != (text.at[1] == '\0')));
}

static bool starts_like_json(struct slice text)
{
	size_t i = 0;

	while (i < text.len && strchr(" \t\r\n", text.at[i]) && text.at[i])
		i++;
	return i < text.len && text.at[i] == '{';
}

int yaml_parse(struct arena *arena, const char *file, struct slice text, enum yaml_flags flags,
	struct yaml_stream *ret, struct err *err)
{
	struct err local, json = {0};
	struct reading *r;
	const char *name;
	int rc;

	if (!err)
		err = &local;
	if (strcmp(file, "-") == 0)
		file = "standard input";
	if (text.len > YAML_BYTES_MAX)
		return err_set(err, ERR_TOOBIG, "%s: %zu bytes, at most %u are read", file,
			text.len, YAML_BYTES_MAX);
	if (is_utf16(text))
		return err_set(err, ERR_SYNTAX,
			"%s: found UTF-16, expected UTF-8; convert it with iconv", file);
	if (slice_starts(text, SLICE("\xef\xbb\xbf"))) {
		text.at += 3;
		text.len -= 3;
	}
	name = arena_strdup(arena, slice_of(file));
	if (!name)
		return no_memory(err);
	if (starts_like_json(text)) {
		rc = yaml_from_json(arena, name, text, ret, &json);
		if (rc == 0)
			return 0;
		if (rc == ERR_NOMEM)
			return no_memory(err);
		/* a flow mapping begins in the same way: what libyaml says decides */
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return no_memory(err);
	r->arena = arena;
	r->file = name;
	r->flags = flags;
	r->text = text;
	rc = read_yaml(r, text, err);
	if (rc == 0)
		*ret = r->out;
	/* libyaml cannot say what is wrong with JSON */
	if (r->parser_failed && err->code == ERR_SYNTAX && json.msg[0]) {
		struct err yaml = *err;

		rc = err_set(err, ERR_SYNTAX, "%.300s; and as JSON: %.300s", yaml.msg, json.msg);
	}
	free(r);
	return rc;
}
