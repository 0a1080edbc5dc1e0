/* SPDX-License-Identifier: Apache-2.0 */
/* core: see plan_get.h. */
#include "webhook/core/pod/plan_get.h"

#include "webhook/core/pod/plan.h"

int plan_bad(
	struct plan_reader *r, const struct json_node *v, const char *key, const char *expected)
{
	struct slice raw = json_is(v, JSON_ARRAY) || json_is(v, JSON_OBJECT)
				   ? slice_of(json_type_name(v))
				   : json_raw(r->j, v);

	err_set(r->err, ERR_INVALID, "found %.*s, expected %s",
		raw.at ? (int)(raw.len > 60 ? 60 : raw.len) : 7, raw.at ? raw.at : "nothing",
		expected);
	return err_in(r->err, "%s", key);
}

int plan_get_str(struct plan_reader *r, const struct json_node *obj, struct slice key,
	bool required, struct slice *ret)
{
	const struct json_node *v = json_get(r->j, obj, key);

	*ret = (struct slice){0};
	if (!v && !required)
		return 0;
	if (!json_is(v, JSON_STRING))
		return plan_bad(r, v, key.at, "a string");
	*ret = json_str(r->j, v, r->a);
	return ret->at ? 0 : err_set(r->err, ERR_NOMEM, "out of memory");
}

int plan_get_uint(struct plan_reader *r, const struct json_node *obj, struct slice key, int64_t min,
	int64_t max, uint64_t *ret)
{
	const struct json_node *v = json_get(r->j, obj, key);
	int64_t n = 0;

	*ret = 0;
	if (!v)
		return 0;
	if (!json_int(r->j, v, &n) || n < min || n > max)
		return plan_bad(r, v, key.at, "a whole number in its range");
	*ret = (uint64_t)n;
	return 0;
}

int plan_get_bool(
	struct plan_reader *r, const struct json_node *obj, struct slice key, bool so, bool *ret)
{
	const struct json_node *v = json_get(r->j, obj, key);

	if (v && !json_is(v, JSON_TRUE) && !json_is(v, JSON_FALSE))
		return plan_bad(r, v, key.at, "true or false");
	*ret = json_is(v, so ? JSON_TRUE : JSON_FALSE);
	return 0;
}

int plan_get_array(struct plan_reader *r, const struct json_node *obj, struct slice key, size_t max,
	const struct json_node **ret)
{
	const struct json_node *v = json_get(r->j, obj, key);

	*ret = v;
	if (!v)
		return 0;
	if (!json_is(v, JSON_ARRAY))
		return plan_bad(r, v, key.at, "an array");
	if (v->count <= max)
		return 0;
	err_set(r->err, ERR_INVALID, "found %u elements, expected at most %zu", v->count, max);
	return err_in(r->err, "%s", key.at);
}

int plan_get_list(struct plan_reader *r, const struct json_node *obj, struct slice key, size_t max,
	struct slice **ret, size_t *ret_n)
{
	const struct json_node *v;
	size_t n = 0;

	*ret = NULL;
	*ret_n = 0;
	if (plan_get_array(r, obj, key, max, &v) < 0)
		return r->err->code;
	if (!v)
		return 0;
	*ret = arena_array(r->a, v->count, sizeof(**ret));
	if (!*ret)
		return err_set(r->err, ERR_NOMEM, "out of memory");
	JSON_EACH(r->j, v, e)
	{
		if (!json_is(e, JSON_STRING))
			return plan_bad(r, e, key.at, "a string");
		(*ret)[n++] = json_str(r->j, e, r->a);
	}
	*ret_n = n;
	return 0;
}

int plan_get_names(struct plan_reader *r, const struct json_node *obj, struct slice key,
	struct slice **ret, size_t *ret_n)
{
	if (plan_get_list(r, obj, key, PLAN_NAMES_MAX, ret, ret_n) < 0)
		return r->err->code;
	for (size_t i = 0; i < *ret_n; i++)
		for (size_t k = 0; k < i; k++)
			if (slice_eq((*ret)[i], (*ret)[k])) {
				err_set(r->err, ERR_INVALID, "the same name stands here twice");
				return err_in(r->err, "%s/%zu", key.at, i);
			}
	return 0;
}

int plan_get_made(struct plan_reader *r, const struct json_node *obj, const char *const *names,
	bool **made, size_t n)
{
	struct slice *list;
	size_t len;

	if (plan_get_list(r, obj, SLICE("made"), PLAN_NAMES_MAX, &list, &len) < 0)
		return r->err->code;
	for (size_t i = 0; i < len; i++)
		for (size_t k = 0; k < n; k++)
			if (slice_is(list[i], names[k]))
				*made[k] = true;
	return 0;
}

int plan_get_word(struct plan_reader *r, const struct json_node *obj, struct slice key,
	const char *const *words, size_t n, const char *expected, size_t *ret)
{
	const struct json_node *v = json_get(r->j, obj, key);

	for (size_t i = 0; i < n; i++)
		if (json_is_str(r->j, v, slice_of(words[i]))) {
			*ret = i;
			return 0;
		}
	return plan_bad(r, v, key.at, expected);
}

int plan_get_object(
	struct plan_reader *r, const struct json_node *obj, struct slice key, struct slice *ret)
{
	const struct json_node *v = json_get(r->j, obj, key);

	*ret = (struct slice){0};
	if (v && !json_is(v, JSON_OBJECT))
		return plan_bad(r, v, key.at, "an object");
	*ret = json_raw(r->j, v);
	return 0;
}
