/* SPDX-License-Identifier: Apache-2.0 */
/* cli: a pod's patch as a patch of the document that the pod is in. */
#include <stdlib.h>

#include "base/json/json_read.h"
#include "webhook/cli/inject/inject.h"

/* Nodes of one patch. */
#define PATCH_NODES_MAX 100000

static void write_operation(
	const struct json *j, const struct json_node *op, struct slice pointer, struct buf *out)
{
	bool first = true;

	buf_char(out, '{');
	JSON_MEMBERS(j, op, k)
	{
		const struct json_node *v = json_value(k);

		if (!first)
			buf_char(out, ',');
		first = false;
		buf_slice(out, json_raw(j, k));
		buf_char(out, ':');
		if (json_is_str(j, k, SLICE("path")) && json_is(v, JSON_STRING)) {
			buf_char(out, '"');
			buf_json_esc(out, pointer);
			buf_slice(out, json_inside(j, v));
			buf_char(out, '"');
		} else {
			buf_slice(out, json_raw(j, v));
		}
	}
	buf_char(out, '}');
}

int inject_prefix_patch(struct slice patch, struct slice pointer, struct buf *out, struct err *err)
{
	struct json j;
	char *copy = NULL;
	bool first = true;
	int rc;

	json_init(&j);
	rc = json_read_copy(&j, patch.at, patch.len, PATCH_NODES_MAX, &copy, err);
	JSON_EACH(&j, json_root(&j), op)
	{
		if (!first)
			buf_char(out, ',');
		first = false;
		write_operation(&j, op, pointer, out);
	}
	json_release(&j);
	free(copy);
	return rc;
}
