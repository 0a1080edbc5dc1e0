/* SPDX-License-Identifier: Apache-2.0 */
/* core: the shape of rendered objects, and their values by it. */
#include "webhook/core/pod/part_shape.h"

#include "base/quantity.h"

#define LOOKS_MAX 1000000
#define DEPTH_MAX 32

static bool key_char(char c)
{
	return c > ' ' && c < 0x7f && !strchr(",;()[]\"\\", c);
}

/* ---- writing ---- */

static bool holds_objects(const struct json *j, const struct json_node *v)
{
	return json_is(v, JSON_ARRAY) && json_is(json_first(j, v), JSON_OBJECT);
}

static bool write_members(const struct json *j, const struct json_node *object, struct buf *out);

static bool write_value(const struct json *j, const struct json_node *v, struct buf *out)
{
	if (v->type == JSON_OBJECT) {
		buf_char(out, '(');
		if (!write_members(j, v, out))
			return false;
		buf_char(out, ')');
	} else if (holds_objects(j, v)) {
		const char *before = "[";

		JSON_EACH(j, v, e)
		{
			buf_str(out, before);
			before = ";";
			if (!json_is(e, JSON_OBJECT) || !write_members(j, e, out))
				return false;
		}
		buf_char(out, ']');
	}
	return true;
}

static bool write_members(const struct json *j, const struct json_node *object, struct buf *out)
{
	bool first = true;

	JSON_MEMBERS(j, object, k)
	{
		struct slice key = json_inside(j, k);

		for (size_t i = 0; i < key.len; i++)
			if (!key_char(key.at[i]))
				return false;
		if (key.len == 0)
			return false;
		if (!first)
			buf_char(out, ',');
		first = false;
		buf_slice(out, key);
		if (!write_value(j, json_value(k), out))
			return false;
	}
	return true;
}

bool shape_write(const struct json *j, const struct json_node *object, struct buf *out)
{
	bool good = json_is(object, JSON_OBJECT) && write_members(j, object, out);

	buf_char(out, ';');
	return good && !out->failed;
}

/* ---- reading ---- */

struct shape_reader shape_reader(struct slice shapes, struct arena *a)
{
	return (struct shape_reader){.left = shapes, .looks = LOOKS_MAX, .a = a};
}

static bool next_is(struct shape_reader *r, char c)
{
	if (r->bad || r->left.len == 0 || r->left.at[0] != c)
		return false;
	r->left.at++;
	r->left.len--;
	return true;
}

static struct slice take_key(struct shape_reader *r)
{
	struct slice key = {r->left.at, 0};

	while (key.len < r->left.len && key_char(key.at[key.len]))
		key.len++;
	r->left.at += key.len;
	r->left.len -= key.len;
	return key;
}

static const struct json_node *look(struct shape_reader *r, const struct json *j,
	const struct json_node *object, struct slice key)
{
	size_t count = object && object->type == JSON_OBJECT ? object->count + 1 : 1;

	if (count > r->looks)
		r->bad = true;
	if (r->bad)
		return NULL;
	r->looks -= count;
	return json_get(j, object, key);
}

static void put_sized(struct buf *out, char kind, struct slice s)
{
	buf_char(out, kind);
	buf_u64(out, s.len);
	buf_char(out, ':');
	buf_slice(out, s);
}

static void put_scalar(
	struct shape_reader *r, const struct json *j, const struct json_node *v, struct buf *out)
{
	struct slice text = json_is(v, JSON_STRING) ? json_str(j, v, r->a) : json_raw(j, v);
	struct quantity q;

	if (v->type == JSON_OBJECT || v->type == JSON_ARRAY)
		r->bad = true;
	else if (v->type == JSON_TRUE || v->type == JSON_FALSE || v->type == JSON_NULL)
		buf_char(out, v->type == JSON_TRUE ? 't' : v->type == JSON_FALSE ? 'f' : '-');
	else if (quantity_parse(text, &q, NULL) == 0)
		put_sized(out, 'q', (struct slice){(const char *)&q.nano, sizeof(q.nano)});
	else
		put_sized(out, 's', text);
}

/* What an API server leaves out of what it stores. */
static bool says_nothing(const struct json *j, const struct json_node *v)
{
	int64_t n;

	return !v || v->type == JSON_NULL || v->type == JSON_FALSE ||
	       (v->type == JSON_STRING && v->len == 2) ||
	       (v->type == JSON_ARRAY && v->count == 0) ||
	       (v->type == JSON_NUMBER && json_int(j, v, &n) && n == 0);
}

static void put_leaf(
	struct shape_reader *r, const struct json *j, const struct json_node *v, struct buf *out)
{
	if (says_nothing(j, v)) {
		buf_char(out, '-');
	} else if (v->type == JSON_ARRAY) {
		buf_char(out, '[');
		JSON_EACH(j, v, e)
		put_scalar(r, j, e, out);
		buf_char(out, ']');
	} else {
		put_scalar(r, j, v, out);
	}
}

static void read_members(struct shape_reader *r, const struct json *j,
	const struct json_node *object, unsigned depth, struct buf *out);

static void read_elements(struct shape_reader *r, const struct json *j,
	const struct json_node *array, unsigned depth, struct buf *out)
{
	const struct json_node *e = json_is(array, JSON_ARRAY) ? json_first(j, array) : NULL;

	do {
		read_members(r, j, e, depth, out);
		e = e ? json_next(j, array, e) : NULL;
	} while (next_is(r, ';'));
}

static void read_members(struct shape_reader *r, const struct json *j,
	const struct json_node *object, unsigned depth, struct buf *out)
{
	struct slice key = take_key(r);

	buf_char(out, json_is(object, JSON_OBJECT) ? '{' : '-');
	if (depth > DEPTH_MAX)
		r->bad = true;
	while (key.len > 0 && !r->bad) {
		const struct json_node *v = look(r, j, object, key);

		if (next_is(r, '(')) {
			read_members(r, j, v, depth + 1, out);
			r->bad |= !next_is(r, ')');
		} else if (next_is(r, '[')) {
			read_elements(r, j, v, depth + 1, out);
			r->bad |= !next_is(r, ']');
		} else {
			put_leaf(r, j, v, out);
		}
		if (!next_is(r, ','))
			return;
		key = take_key(r);
		r->bad |= key.len == 0;
	}
}

void shape_values(struct shape_reader *r, const struct json *j, const struct json_node *object,
	struct buf *out)
{
	read_members(r, j, object, 0, out);
	r->bad |= !next_is(r, ';');
}
