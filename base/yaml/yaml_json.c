/* SPDX-License-Identifier: Apache-2.0 */
/* base: a YAML tree as JSON: aliases expanded, merge keys merged, both within limits. */
#include "base/yaml/yaml_json.h"

#include <stdlib.h>

#include "base/list.h"
#include "base/yaml/yaml_scalar.h"

/* Aliases can nest what is read; the reader of the result takes YAML_DEPTH_MAX levels. */
#define LEVELS_MAX YAML_DEPTH_MAX
/* Comparisons of keys in merges: some tenths of a second. */
#define WORK_MAX 50000000u

struct writing {
	struct buf *out;
	enum yaml_json_form form;
	uint32_t values;
	uint32_t level;
	uint64_t work;
	struct err *err;
};

static int write_value(struct writing *w, const struct yaml_node *node);

static void new_line(struct writing *w)
{
	if (w->form != YAML_JSON_PRETTY)
		return;
	buf_char(w->out, '\n');
	for (uint32_t i = 0; i < w->level; i++)
		buf_str(w->out, "  ");
}

static int no_room(const struct buf *out, const struct yaml_node *node, struct err *err)
{
	return out->full ? err_set(err, ERR_TOOBIG, "%s: more than %zu bytes as JSON",
				   node->doc->file, out->max)
			 : err_set(err, ERR_NOMEM, "out of memory for JSON");
}

static int enter(struct writing *w, const struct yaml_node *node, char bracket)
{
	if (++w->level > LEVELS_MAX)
		return yaml_err(
			node, w->err, ERR_TOOBIG, "nested deeper than %d levels", LEVELS_MAX);
	buf_char(w->out, bracket);
	return 0;
}

static void leave(struct writing *w, bool empty, char bracket)
{
	w->level--;
	if (!empty)
		new_line(w);
	buf_char(w->out, bracket);
}

static int write_scalar(struct writing *w, const struct yaml_node *node)
{
	struct yaml_value v;
	int rc;

	if (node->raw.at) {
		buf_slice(w->out, node->raw);
		return 0;
	}
	rc = yaml_meaning(node, &v, w->err);
	if (rc != 0)
		return rc;
	if (!v.finite) {
		char found[80];

		return yaml_err(node, w->err, ERR_INVALID, "found %s, which JSON cannot say",
			yaml_found(node, found));
	}
	if (v.type == YAML_STRING)
		buf_json_str(w->out, v.text);
	else
		buf_slice(w->out, v.text);
	return 0;
}

static int write_key(struct writing *w, const struct yaml_node *key)
{
	struct yaml_value v;
	int rc;

	if (key->raw.at) {
		buf_slice(w->out, key->raw);
	} else {
		rc = yaml_key(key, &v, w->err);
		if (rc != 0)
			return rc;
		buf_json_str(w->out, v.text);
	}
	buf_str(w->out, w->form == YAML_JSON_PRETTY ? ": " : ":");
	return 0;
}

static int write_member(
	struct writing *w, const struct yaml_node *key, const struct yaml_node *value, bool first)
{
	int rc;

	if (!first)
		buf_char(w->out, ',');
	new_line(w);
	rc = write_key(w, key);
	return rc == 0 ? write_value(w, value) : rc;
}

/* Members after merging: a key keeps its first place and gets its last value, as in goyaml.v2,
 * where `<<` overwrites what stands above it. */
struct members {
	struct {
		const struct yaml_node *key, *value;
		struct slice name;
		char num[YAML_NUMBER_MAX];
	} * at;
	size_t n, cap;
};

static int set_member(struct writing *w, struct members *m, const struct yaml_node *key)
{
	struct yaml_value v;
	int rc = yaml_key(key, &v, w->err);

	if (rc != 0)
		return rc;
	w->work += m->n + 1;
	if (w->work > WORK_MAX)
		return yaml_err(
			key, w->err, ERR_TOOBIG, "the merge keys stand for too many members");
	for (size_t i = 0; i < m->n; i++) {
		struct slice name = m->at[i].name.at ? m->at[i].name : slice_of(m->at[i].num);

		if (slice_eq(name, v.text)) {
			m->at[i].value = key->next;
			return 0;
		}
	}
	if (!LIST_ROOM(m->at, m->n, m->cap))
		return err_set(w->err, ERR_NOMEM, "out of memory while merging YAML maps");
	m->at[m->n].key = key;
	m->at[m->n].value = key->next;
	m->at[m->n].name = v.text.at == v.num ? (struct slice){0} : v.text;
	memcpy(m->at[m->n].num, v.num, sizeof(v.num));
	if (v.text.at == v.num)
		m->at[m->n].num[v.text.len] = '\0';
	m->n++;
	return 0;
}

static int merge_all(
	struct writing *w, struct members *m, const struct yaml_node *map, uint32_t level);

/* The value of a merge key, or an element of it: a map, or an alias for one. */
static int merge_map(
	struct writing *w, struct members *m, const struct yaml_node *from, uint32_t level)
{
	const struct yaml_node *map = from->kind == YAML_ALIAS ? from->target : from;
	char found[80];

	if (!yaml_is(map, YAML_MAP))
		return yaml_err(from, w->err, ERR_INVALID,
			"found %s under a merge key, expected a mapping", yaml_found(map, found));
	return merge_all(w, m, map, level + 1);
}

static int merge_key(
	struct writing *w, struct members *m, const struct yaml_node *from, uint32_t level)
{
	int rc = 0;

	if (from->kind != YAML_SEQ)
		return merge_map(w, m, from, level);
	/* the first of a sequence wins, so it comes last */
	for (size_t i = from->count; rc == 0 && i > 0; i--) {
		w->work += i;
		rc = merge_map(w, m, yaml_at(from, i - 1), level);
	}
	return rc;
}

static int merge_all(
	struct writing *w, struct members *m, const struct yaml_node *map, uint32_t level)
{
	int rc = 0;

	if (level > LEVELS_MAX)
		return yaml_err(map, w->err, ERR_TOOBIG, "merge keys nested deeper than %d levels",
			LEVELS_MAX);
	if (++w->work > WORK_MAX)
		return yaml_err(
			map, w->err, ERR_TOOBIG, "the merge keys stand for too many members");
	for (const struct yaml_node *k = map->first; rc == 0 && k; k = yaml_next_key(k))
		rc = yaml_is_merge(k) ? merge_key(w, m, k->next, level) : set_member(w, m, k);
	return rc;
}

static int write_merged(struct writing *w, const struct yaml_node *map)
{
	struct members m = {0};
	int rc = merge_all(w, &m, map, 0);

	for (size_t i = 0; rc == 0 && i < m.n; i++)
		rc = write_member(w, m.at[i].key, m.at[i].value, i == 0);
	if (rc == 0)
		leave(w, m.n == 0, '}');
	free(m.at);
	return rc;
}

static int write_map(struct writing *w, const struct yaml_node *map)
{
	int rc = enter(w, map, '{');

	YAML_MEMBERS(map, k)
	{
		if (rc == 0 && yaml_is_merge(k))
			return write_merged(w, map);
	}
	YAML_MEMBERS(map, k)
	{
		if (rc == 0)
			rc = write_member(w, k, k->next, k == map->first);
	}
	if (rc == 0)
		leave(w, map->count == 0, '}');
	return rc;
}

static int write_seq(struct writing *w, const struct yaml_node *seq)
{
	int rc = enter(w, seq, '[');

	YAML_EACH(seq, e)
	{
		if (rc != 0)
			break;
		if (e != seq->first)
			buf_char(w->out, ',');
		new_line(w);
		rc = write_value(w, e);
	}
	if (rc == 0)
		leave(w, seq->count == 0, ']');
	return rc;
}

static int write_value(struct writing *w, const struct yaml_node *node)
{
	if (node->kind == YAML_ALIAS)
		node = node->target; /* an anchor is never on an alias */
	if (++w->values > YAML_NODES_MAX)
		return yaml_err(node, w->err, ERR_TOOBIG, "aliases stand for more than %u values",
			YAML_NODES_MAX);
	if (w->out->failed)
		return no_room(w->out, node, w->err);
	switch (node->kind) {
	case YAML_MAP:
		return write_map(w, node);
	case YAML_SEQ:
		return write_seq(w, node);
	case YAML_SCALAR:
	case YAML_ALIAS:
		break;
	}
	return write_scalar(w, node);
}

int yaml_to_json(
	const struct yaml_node *node, enum yaml_json_form form, struct buf *out, struct err *err)
{
	struct writing w = {.out = out, .form = form, .err = err};
	int rc;

	if (!node) {
		buf_str(out, "null");
		return 0;
	}
	rc = write_value(&w, node);
	if (rc == 0 && out->failed)
		rc = no_room(out, node, err);
	return rc;
}
