/* SPDX-License-Identifier: Apache-2.0 */
/* base: looking into a document that json_read has checked. */
#include "base/json_read.h"

#include <stdarg.h>
#include <string.h>

#include "base/json_number.h"
#include "base/json_string.h"

const struct json_node *json_root(const struct json *j)
{
	return j->count > 0 ? j->node : NULL;
}

bool json_is(const struct json_node *v, enum json_type type)
{
	return v && v->type == type;
}

bool json_absent(const struct json_node *v)
{
	return !v || v->type == JSON_NULL;
}

const struct json_node *json_first(const struct json *j, const struct json_node *v)
{
	if (!v || (v->type != JSON_ARRAY && v->type != JSON_OBJECT) || v->count == 0)
		return NULL;
	return &j->node[v - j->node + 1];
}

const struct json_node *json_next(
	const struct json *j, const struct json_node *parent, const struct json_node *at)
{
	return at->next < parent->next ? &j->node[at->next] : NULL;
}

const struct json_node *json_value(const struct json_node *key)
{
	return key + 1;
}

/* A string without escapes: most differ in their length or first byte. */
static inline bool is_plain(const struct json *j, const struct json_node *v, struct slice value)
{
	const char *at = j->text + v->at + 1;

	if (v->len != value.len + 2)
		return false;
	return value.len == 0 || (*at == *value.at && memcmp(at, value.at, value.len) == 0);
}

const struct json_node *json_get(const struct json *j, const struct json_node *v, struct slice key)
{
	JSON_MEMBERS(j, v, k)
	{
		if (k->escaped ? json_is_str(j, k, key) : is_plain(j, k, key))
			return json_value(k);
	}
	return NULL;
}

const struct json_node *json_path(const struct json *j, const struct json_node *v, ...)
{
	const char *key;
	va_list args;

	va_start(args, v);
	while (v && (key = va_arg(args, const char *)) != NULL)
		v = json_get(j, v, slice_of(key));
	va_end(args);
	return v;
}

struct slice json_raw(const struct json *j, const struct json_node *v)
{
	return v ? (struct slice){j->text + v->at, v->len} : (struct slice){NULL, 0};
}

struct slice json_inside(const struct json *j, const struct json_node *v)
{
	if (!json_is(v, JSON_STRING))
		return (struct slice){NULL, 0};
	return (struct slice){j->text + v->at + 1, v->len - 2};
}

bool json_is_str(const struct json *j, const struct json_node *v, struct slice value)
{
	struct slice inside, piece;
	char room[4];

	if (!v || v->type != JSON_STRING)
		return false;
	if (!v->escaped)
		return is_plain(j, v, value);
	inside = json_inside(j, v);
	while (json_piece(&inside, room, &piece)) {
		if (!slice_starts(value, piece))
			return false;
		value = (struct slice){value.at + piece.len, value.len - piece.len};
	}
	return value.len == 0;
}

void json_decode(const struct json *j, const struct json_node *v, struct buf *out)
{
	struct slice inside = json_inside(j, v), piece;
	char room[4];

	if (!inside.at)
		return;
	if (!v->escaped) {
		buf_slice(out, inside);
		return;
	}
	while (json_piece(&inside, room, &piece))
		buf_slice(out, piece);
}

struct slice json_str(const struct json *j, const struct json_node *v, struct arena *a)
{
	struct slice inside = json_inside(j, v);
	char *text;

	if (!inside.at || !v->escaped)
		return inside;
	text = arena_alloc(a, inside.len + JSON_SLACK);
	if (!text)
		return (struct slice){NULL, 0};
	return (struct slice){text, json_unescape(inside.at, inside.at + inside.len, text)};
}

bool json_int(const struct json *j, const struct json_node *v, int64_t *ret)
{
	struct slice raw = json_raw(j, v);

	return json_is(v, JSON_NUMBER) && json_number_int(raw.at, raw.at + raw.len, ret);
}

const char *json_type_name(const struct json_node *v)
{
	static const char *const names[] = {
		[JSON_NULL] = "null",
		[JSON_FALSE] = "false",
		[JSON_TRUE] = "true",
		[JSON_NUMBER] = "number",
		[JSON_STRING] = "string",
		[JSON_ARRAY] = "array",
		[JSON_OBJECT] = "object",
	};

	return v ? names[v->type & 7] : "nothing";
}
