/* SPDX-License-Identifier: Apache-2.0 */
/* core: hold an object of a pod against what the profile renders. */
#include "webhook/core/pod/rendered.h"

#include <stdlib.h>

#include "base/quantity.h"

/* Of one rendered object: profiles are read with fewer. */
#define NODES_MAX 100000

/* Ours and theirs. */
struct sides {
	const struct json *ours, *theirs;
	struct arena *a;
};

static bool covers(struct sides s, const struct json_node *v, const struct json_node *w);

static bool says_nothing(const struct json *j, const struct json_node *v)
{
	int64_t n;

	return v->type == JSON_NULL || v->type == JSON_FALSE ||
	       (v->type == JSON_STRING && v->len == 2) ||
	       (v->type == JSON_ARRAY && v->count == 0) ||
	       (v->type == JSON_NUMBER && json_int(j, v, &n) && n == 0);
}

/* The API server spells quantities in its own way. */
static bool same_scalar(struct sides s, const struct json_node *v, const struct json_node *w)
{
	struct slice x = json_is(v, JSON_STRING) ? json_str(s.ours, v, s.a) : json_raw(s.ours, v);
	struct slice y =
		json_is(w, JSON_STRING) ? json_str(s.theirs, w, s.a) : json_raw(s.theirs, w);
	struct quantity p, q;

	if (v->type == w->type && slice_eq(x, y))
		return true;
	return quantity_parse(x, &p, NULL) == 0 && quantity_parse(y, &q, NULL) == 0 &&
	       quantity_cmp(p, q) == 0;
}

static bool covers_object(struct sides s, const struct json_node *v, const struct json_node *w)
{
	JSON_MEMBERS(s.ours, v, key)
	{
		const struct json_node *mine = json_value(key);
		const struct json_node *found = json_get(s.theirs, w, json_str(s.ours, key, s.a));

		if (found ? !covers(s, mine, found) : !says_nothing(s.ours, mine))
			return false;
	}
	return true;
}

/* Words: the same ones. Objects: each is found, in our order, with others between them or none. */
static bool covers_array(struct sides s, const struct json_node *v, const struct json_node *w)
{
	const struct json_node *at = json_first(s.theirs, w), *first = json_first(s.ours, v);
	bool objects = first && first->type == JSON_OBJECT;

	if (!objects && v->count != w->count)
		return false;
	for (const struct json_node *e = first; e; e = json_next(s.ours, v, e)) {
		while (objects && at && !covers(s, e, at))
			at = json_next(s.theirs, w, at);
		if (!at || !covers(s, e, at))
			return false;
		at = json_next(s.theirs, w, at);
	}
	return true;
}

static bool covers(struct sides s, const struct json_node *v, const struct json_node *w)
{
	if (v->type == JSON_OBJECT)
		return w->type == JSON_OBJECT && covers_object(s, v, w);
	if (v->type == JSON_ARRAY)
		return w->type == JSON_ARRAY && covers_array(s, v, w);
	return w->type != JSON_OBJECT && w->type != JSON_ARRAY && same_scalar(s, v, w);
}

/* The three characters that Go's encoder escapes and ours does not; 0 for anything else at raw. */
static char go_escape(struct slice raw)
{
	if (slice_starts(raw, SLICE("\\u0026")))
		return '&';
	if (slice_starts(raw, SLICE("\\u003c")))
		return '<';
	return slice_starts(raw, SLICE("\\u003e")) ? '>' : '\0';
}

/* Does the object raw begin with all members of ours, spelled as they are? That is the usual case
 * where no API server has added its defaults. */
static bool begins_with(struct slice raw, struct slice ours)
{
	const char *at = raw.at, *end = raw.at + raw.len;

	for (size_t i = 0; i + 1 < ours.len;) {
		size_t left = ours.len - 1 - i,
		       run = (size_t)(end - at) < left ? (size_t)(end - at) : left;
		const char *escape = memchr(at, '\\', run);

		if (escape)
			run = (size_t)(escape - at);
		if (memcmp(at, ours.at + i, run) != 0)
			return false;
		at += run;
		i += run;
		if (!escape || i + 1 >= ours.len) {
			if (run < left)
				return false;
		} else if (ours.at[i] == '\\') {
			/* an escape of ours, and what it escapes */
			if (end - at < 2 || i + 2 >= ours.len || at[1] != ours.at[i + 1])
				return false;
			at += 2;
			i += 2;
		} else {
			if (go_escape((struct slice){at, (size_t)(end - at)}) != ours.at[i])
				return false;
			at += 6;
			i++;
		}
	}
	return at < end && (*at == ',' || *at == '}');
}

bool rendered_there(
	struct slice ours, const struct json *j, const struct json_node *found, struct arena *a)
{
	struct json mine = {0};
	char *copy;
	bool good = false;

	if (!json_is(found, JSON_OBJECT))
		return false;
	if (begins_with(json_raw(j, found), ours))
		return true;
	if (json_read_copy(&mine, ours.at, ours.len, NODES_MAX, &copy, NULL) < 0)
		a->failed = true;
	else
		good = covers((struct sides){&mine, j, a}, json_root(&mine), found);
	json_release(&mine);
	free(copy);
	return good;
}
