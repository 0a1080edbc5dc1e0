/* SPDX-License-Identifier: Apache-2.0 */
/* core: what a GPUPolicy is told in its status. */
#include "webhook/core/policy/policy_told.h"

#define TIES_SAYS                                                                                  \
	"pods that ask by an accepted key keep what ties them to nodes with GPUs of their own "    \
	"(spec.ties: keep): they wait for such a node though their GPUs are the pool's, and "      \
	"nothing but NVIDIA_VISIBLE_DEVICES=void keeps the node's from them"

static const struct json_node *conditions_of(const struct json *j, const struct json_node *object)
{
	return json_path(j, object, "status", "conditions", NULL);
}

static bool is_told(const struct json *j, const struct json_node *condition)
{
	return json_is_str(j, json_get(j, condition, SLICE("type")), SLICE(TOLD_TIES));
}

static bool is_same(const struct json *j, const struct json_node *c)
{
	return json_is_str(j, json_get(j, c, SLICE("status")), SLICE("True")) &&
	       json_is_str(j, json_get(j, c, SLICE("reason")), SLICE(TIES_KEEPS)) &&
	       json_is_str(j, json_get(j, c, SLICE("message")), SLICE(TIES_SAYS));
}

static void write_others(const struct json *j, const struct json_node *object, struct buf *patch)
{
	const char *comma = "";

	JSON_EACH(j, conditions_of(j, object), c)
	{
		if (is_told(j, c))
			continue;
		buf_str(patch, comma);
		buf_slice(patch, json_raw(j, c));
		comma = ",";
	}
}

bool policy_told(const struct json *j, const struct json_node *object, const struct policy *p,
	const char *now, struct buf *patch)
{
	const struct json_node *there = NULL;
	/* only what is converted has its ties taken out */
	bool keeps = p->keep_ties && p->accepts != 0;
	size_t before;

	JSON_EACH(j, conditions_of(j, object), c)
	if (is_told(j, c))
		there = c;
	if (keeps ? there && is_same(j, there) : !there)
		return false;
	buf_str(patch, "{\"metadata\":{\"resourceVersion\":");
	buf_slice(patch, json_raw(j, json_path(j, object, "metadata", "resourceVersion", NULL)));
	buf_str(patch, "},\"status\":{\"conditions\":[");
	before = patch->len;
	write_others(j, object, patch);
	if (keeps) {
		if (patch->len > before)
			buf_char(patch, ',');
		buf_fmt(patch,
			"{\"type\":\"" TOLD_TIES "\",\"status\":\"True\",\"reason\":\"" TIES_KEEPS
			"\",\"message\":\"" TIES_SAYS "\",\"lastTransitionTime\":\"%s\"}",
			now);
	}
	buf_str(patch, "]}}");
	return true;
}
