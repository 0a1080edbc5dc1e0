/* SPDX-License-Identifier: Apache-2.0 */
/* core: hold an object of a pod against what the profile renders. */
#include "webhook/core/rendered.h"

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
	const struct json_node *at = json_first(s.theirs, w);
	bool objects = json_is(json_first(s.ours, v), JSON_OBJECT);

	if (!objects && v->count != w->count)
		return false;
	JSON_EACH(s.ours, v, e)
	{
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

bool rendered_there(
	struct slice ours, const struct json *j, const struct json_node *found, struct arena *a)
{
	struct slice raw = json_raw(j, found), head = {ours.at, ours.len - 1};
	struct json mine = {0};
	char *copy;
	bool good;

	if (!json_is(found, JSON_OBJECT))
		return false;
	/* as it was injected, perhaps with members behind ours: the usual case without an API server's defaults */
	if (slice_starts(raw, head) && (raw.at[head.len] == ',' || raw.at[head.len] == '}'))
		return true;
	if (json_read_copy(&mine, ours.at, ours.len, NODES_MAX, &copy, NULL) < 0) {
		a->failed = true;
		return false;
	}
	good = covers((struct sides){&mine, j, a}, json_root(&mine), found);
	json_release(&mine);
	free(copy);
	return good;
}
