/* SPDX-License-Identifier: Apache-2.0 */
/* base: looking into a document that json_read has checked. */
#include "base/json/json_read.h"

#include <stdarg.h>
#include <stdlib.h>

#include "base/json/json_number.h"
#include "base/json/json_string.h"

/* json_get from key k on; for objects with escapes in their keys. */
static __attribute__((noinline)) const struct json_node *get_decoded(const struct json *j,
	const struct json_node *k, const struct json_node *end, struct slice key)
{
	for (; k < end; k = j->node + json_value(k)->next)
		if (json_spells(j, k, key))
			return json_value(k);
	return NULL;
}

/* Calls nothing but in the end, so that it saves no registers: it is asked for everything. */
const struct json_node *json_get(const struct json *j, const struct json_node *v, struct slice key)
{
	const struct json_node *k, *end;

	if (!json_is(v, JSON_OBJECT))
		return NULL;
	end = j->node + v->next;
	for (k = v + 1; k < end; k = j->node + json_value(k)->next) {
		if (k->escaped)
			return get_decoded(j, k, end, key);
		if (json_spells(j, k, key))
			return json_value(k);
	}
	return NULL;
}

/* The element before end, from e on, that could have a member with this key and value, going by
 * their lengths and the value's first byte. *index counts along. Few others can, so that what is
 * left to be compared is little. */
static const struct json_node *candidate(const struct json *j, const struct json_node *e,
	const struct json_node *end, struct slice key, struct slice value, size_t *index)
{
	const struct json_node *k, *at, *last, *node = j->node;
	const char first = value.len > 0 ? *value.at : '"', *text = j->text;

	for (size_t i = *index; e < end; e = last, i++) {
		last = node + e->next;
		if (e->type != JSON_OBJECT)
			continue;
		for (k = e + 1; k < last; k = node + at->next) {
			at = json_value(k);
			if (at->escaped ? k->escaped || k->len == key.len + 2
					: at->len == value.len + 2 && text[at->at + 1] == first) {
				*index = i;
				return e;
			}
		}
	}
	return NULL;
}

const struct json_node *json_find(const struct json *j, const struct json_node *array,
	const char *key, struct slice value, bool last, size_t *ret_index)
{
	const struct json_node *e, *end, *found = NULL;
	struct slice name = slice_of(key);
	size_t i = 0;

	if (!json_is(array, JSON_ARRAY))
		return NULL;
	end = j->node + array->next;
	for (e = array + 1; (e = candidate(j, e, end, name, value, &i)) != NULL;
		e = j->node + e->next, i++) {
		if (!json_is_str(j, json_get(j, e, name), value))
			continue;
		found = e;
		if (ret_index)
			*ret_index = i;
		if (!last)
			break;
	}
	return found;
}

/* Few names, or few elements, are looked through one name after the other, which needs no order of
 * the names. */
#define FEW_NAMES 4
#define FEW_LOOKS 256

/* A name and where it stands among the names that are looked for. */
struct sought {
	struct slice name;
	size_t at;
};

static int by_name(const void *a, const void *b)
{
	const struct slice *x = &((const struct sought *)a)->name;
	const struct slice *y = &((const struct sought *)b)->name;

	/* by length first: what is looked up mostly differs there already */
	if (x->len != y->len)
		return x->len < y->len ? -1 : 1;
	return x->len ? memcmp(x->at, y->at, x->len) : 0;
}

/* Note element e, whose name is this, for all who look for it. */
static void note(const struct sought *order, size_t n, struct slice name, bool last,
	const struct json_node *e, size_t index, struct json_hit *hits)
{
	const struct sought key = {.name = name};
	const struct sought *at = bsearch(&key, order, n, sizeof(*order), by_name);

	/* All who look for the first one of that name have found it: a stranger may send many
	 * names, and all the same. */
	if (!at || (!last && hits[at->at].node))
		return;
	while (at > order && by_name(at - 1, &key) == 0)
		at--;
	for (; at < order + n && by_name(at, &key) == 0; at++)
		hits[at->at] = (struct json_hit){e, index};
}

int json_find_each(const struct json *j, const struct json_node *array, const char *key,
	const struct slice *names, size_t n, bool last, struct arena *a, struct json_hit *hits)
{
	struct sought *order;
	size_t index = 0;
	bool few = n <= FEW_NAMES || !json_is(array, JSON_ARRAY) || n * array->count <= FEW_LOOKS;

	for (size_t i = 0; i < n; i++) {
		hits[i] = (struct json_hit){0};
		if (few)
			hits[i].node = json_find(j, array, key, names[i], last, &hits[i].index);
	}
	if (few)
		return 0;
	order = arena_array(a, n, sizeof(*order));
	if (!order)
		return ERR_NOMEM;
	for (size_t i = 0; i < n; i++)
		order[i] = (struct sought){names[i], i};
	qsort(order, n, sizeof(*order), by_name);
	JSON_EACH(j, array, e)
	{
		struct slice name = json_str(j, json_get(j, e, slice_of(key)), a);

		if (name.at)
			note(order, n, name, last, e, index, hits);
		index++;
	}
	return a->failed ? ERR_NOMEM : 0;
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

bool json_is_str_escaped(const struct json *j, const struct json_node *v, struct slice value)
{
	struct slice inside = json_inside(j, v), piece;
	char room[4];

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
	text = arena_space(a, inside.len + JSON_SLACK, 1);
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
