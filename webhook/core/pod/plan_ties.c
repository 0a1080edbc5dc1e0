/* SPDX-License-Identifier: Apache-2.0 */
/* core: the ties of a plan, written and read back. A replica that does not know them admits and
 * carries the pod all the same; it alone does not give them back (rule R11). */
#include "webhook/core/pod/plan_ties.h"

bool plan_ties_none(const struct plan_ties *t)
{
	return !t->node_selector.at && !t->node_affinity.at && !t->runtime_class.at &&
	       t->n_tolerations == 0;
}

static void write_member(struct buf *out, const char *key, struct slice json, const char **sep)
{
	if (!json.at)
		return;
	buf_fmt(out, "%s\"%s\":", *sep, key);
	buf_slice(out, json);
	*sep = ",";
}

void plan_ties_write(const struct plan_ties *t, struct buf *out)
{
	const char *sep = "";

	if (plan_ties_none(t))
		return;
	buf_str(out, ",\"ties\":{");
	write_member(out, "nodeSelector", t->node_selector, &sep);
	write_member(out, "nodeAffinity", t->node_affinity, &sep);
	write_member(out, "runtimeClassName", t->runtime_class, &sep);
	write_member(out, "overhead", t->overhead, &sep);
	if (t->n_tolerations > 0) {
		buf_fmt(out, "%s\"tolerations\":[", sep);
		for (size_t i = 0; i < t->n_tolerations; i++) {
			buf_fmt(out, "%s{\"at\":%u,\"was\":", i ? "," : "", t->tolerations[i].at);
			buf_slice(out, t->tolerations[i].json);
			buf_char(out, '}');
		}
		buf_char(out, ']');
	}
	buf_char(out, '}');
}

static int bad(const struct json_node *v, const char *key, const char *expected, struct err *err)
{
	err_set(err, ERR_INVALID, "found %s, expected %s", json_type_name(v), expected);
	return err_in(err, "ties/%s", key);
}

static int get(const struct json *j, const struct json_node *ties, const char *key,
	enum json_type type, const char *expected, struct slice *ret, struct err *err)
{
	const struct json_node *v = json_get(j, ties, slice_of(key));

	if (v && v->type != type)
		return bad(v, key, expected, err);
	*ret = json_raw(j, v);
	return 0;
}

static int read_tolerations(const struct json *j, const struct json_node *ties, struct arena *a,
	struct plan_ties *ret, struct err *err)
{
	const struct json_node *v = json_get(j, ties, SLICE("tolerations"));
	int64_t last = -1;

	if (!v)
		return 0;
	if (!json_is(v, JSON_ARRAY) || v->count > PLAN_TIES_MAX)
		return bad(v, "tolerations", "an array of at most 256 elements", err);
	ret->tolerations = arena_array(a, v->count, sizeof(*ret->tolerations));
	if (!ret->tolerations)
		return err_set(err, ERR_NOMEM, "out of memory");
	JSON_EACH(j, v, e)
	{
		const struct json_node *was = json_get(j, e, SLICE("was"));
		int64_t at;

		if (!json_int(j, json_get(j, e, SLICE("at")), &at) || at <= last ||
			at > UINT32_MAX || !json_is(was, JSON_OBJECT))
			return bad(e, "tolerations", "{at, was} in rising order", err);
		ret->tolerations[ret->n_tolerations++] =
			(struct plan_toleration){(uint32_t)at, json_raw(j, was)};
		last = at;
	}
	return 0;
}

int plan_ties_read(const struct json *j, const struct json_node *root, struct arena *a,
	struct plan_ties *ret, struct err *err)
{
	const struct json_node *ties = json_get(j, root, SLICE("ties"));

	*ret = (struct plan_ties){0};
	if (!ties)
		return 0;
	if (!json_is(ties, JSON_OBJECT)) {
		err_set(err, ERR_INVALID, "found %s, expected an object", json_type_name(ties));
		return err_in(err, "ties");
	}
	if (get(j, ties, "nodeSelector", JSON_OBJECT, "an object", &ret->node_selector, err) < 0 ||
		get(j, ties, "nodeAffinity", JSON_OBJECT, "an object", &ret->node_affinity, err) <
			0 ||
		get(j, ties, "runtimeClassName", JSON_STRING, "a string", &ret->runtime_class,
			err) < 0 ||
		get(j, ties, "overhead", JSON_OBJECT, "an object", &ret->overhead, err) < 0)
		return err->code;
	return read_tolerations(j, ties, a, ret, err);
}
