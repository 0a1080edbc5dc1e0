/* SPDX-License-Identifier: Apache-2.0 */
/* base: JSON nodes, which json_read noted in the order of the text, into a YAML tree. */
#include "base/yaml/yaml_from_json.h"

#include <stdlib.h>

/* Lines are counted on the way: nodes come in the order of the text. */
struct json_place {
	const struct json *json;
	size_t at;
	size_t line_start;
	uint32_t line;
};

static void go_to(struct json_place *p, const struct json_node *v, struct yaml_node *node)
{
	for (; p->at < v->at; p->at++) {
		if (p->json->text[p->at] == '\n') {
			p->line++;
			p->line_start = p->at + 1;
		}
	}
	node->line = p->line;
	node->column = (uint32_t)(v->at - p->line_start) + 1;
	node->from = v->at;
	node->to = v->at + v->len;
}

static struct yaml_node *one_node(
	struct yaml_doc *doc, const struct json *j, const struct json_node *v)
{
	bool map = v->type == JSON_OBJECT, seq = v->type == JSON_ARRAY,
	     str = v->type == JSON_STRING;
	enum yaml_style style = map || seq ? YAML_FLOW : str ? YAML_DOUBLE : YAML_PLAIN;
	struct yaml_node *node = yaml_node_new(doc,
		map   ? YAML_MAP
		: seq ? YAML_SEQ
		      : YAML_SCALAR,
		style);

	if (!node || map || seq)
		return node;
	node->plain_meaning = !str;
	node->raw = arena_slice(doc->arena, json_raw(j, v));
	if (!node->raw.at)
		return NULL;
	node->text = node->raw;
	if (str) {
		/* what lies in j's text may not live as long as the tree */
		node->text = v->escaped ? json_str(j, v, doc->arena)
					: (struct slice){node->raw.at + 1, node->raw.len - 2};
	}
	return node->text.at ? node : NULL;
}

/* Make the nodes from *index to the end of the value there. */
static struct yaml_node *build(
	struct yaml_doc *doc, struct json_place *p, uint32_t *index, bool with_lines)
{
	const struct json_node *v = &p->json->node[(*index)++];
	struct yaml_node *node = one_node(doc, p->json, v);

	if (!node)
		return NULL;
	if (with_lines)
		go_to(p, v, node);
	/* json_read lets at most JSON_DEPTH_MAX levels through */
	while (*index < v->next && (node->kind == YAML_MAP || node->kind == YAML_SEQ)) {
		struct yaml_node *child = build(doc, p, index, with_lines);

		if (!child)
			return NULL;
		if (node->kind == YAML_SEQ) {
			yaml_append(node, child);
			continue;
		}
		struct yaml_node *value = build(doc, p, index, with_lines);

		if (!value)
			return NULL;
		yaml_put(node, child, value);
	}
	return node;
}

int yaml_node_from_json(struct yaml_doc *doc, const struct json *j, const struct json_node *value,
	struct yaml_node **ret, struct err *err)
{
	struct json_place p = {.json = j, .line = 1};
	uint32_t index = (uint32_t)(value - j->node);
	struct yaml_node *node = build(doc, &p, &index, false);

	if (!node)
		return doc->arena->failed
			       ? err_set(err, ERR_NOMEM, "out of memory while building YAML")
			       : err_set(err, ERR_TOOBIG, "more than %u values", YAML_NODES_MAX);
	*ret = node;
	return 0;
}

int yaml_from_json(struct arena *arena, const char *file, struct slice text,
	struct yaml_stream *ret, struct err *err)
{
	struct yaml_doc *doc = arena_alloc(arena, sizeof(*doc));
	struct json j;
	char *copy = NULL;
	uint32_t index = 0;
	int rc;

	if (!doc)
		return err_set(err, ERR_NOMEM, "out of memory while reading JSON");
	json_init(&j);
	rc = json_read_copy(&j, text.at, text.len, YAML_NODES_MAX, &copy, err);
	if (rc == 0) {
		struct json_place p = {.json = &j, .line = 1};

		*doc = (struct yaml_doc){.file = file, .arena = arena, .json = true};
		doc->root = build(doc, &p, &index, true);
		if (!doc->root)
			rc = err_set(err, ERR_NOMEM, "out of memory while reading JSON");
	}
	if (rc == 0)
		*ret = (struct yaml_stream){.first = doc, .count = 1};
	free(copy);
	json_release(&j);
	return rc;
}
