// SPDX-License-Identifier: Apache-2.0
// core: which Secrets the conditions of the validating hook know. CEL is not evaluated: `poolgate
// hooks` writes names as literals.
#include "webhook/core/launcher/hook_cover.h"

#include <string.h>

#define HOOK "validate.poolgate.io"
#define BEGINS "startsWith("

const char *hook_conditions(const struct json *j, struct arena *a)
{
	const char *all = NULL;

	JSON_EACH(j, json_get(j, json_root(j), SLICE("webhooks")), hook)
	{
		if (!json_is_str(j, json_get(j, hook, SLICE("name")), SLICE(HOOK)))
			continue;
		JSON_EACH(j, json_get(j, hook, SLICE("matchConditions")), c)
		{
			struct slice one = json_str(j, json_get(j, c, SLICE("expression")), a);

			all = arena_fmt(
				a, "%s\n%.*s", all ? all : "", (int)one.len, one.at ? one.at : "");
		}
	}
	return all;
}

bool hook_covers(const char *conditions, struct slice secret)
{
	for (const char *at = conditions; (at = strchr(at, '\''));) {
		const char *text = at + 1, *end = strchr(text, '\'');
		size_t len = end ? (size_t)(end - text) : 0;
		size_t before = (size_t)(at - conditions);
		bool begins = before >= sizeof(BEGINS) - 1 &&
			      strncmp(at - (sizeof(BEGINS) - 1), BEGINS, sizeof(BEGINS) - 1) == 0;

		if (!end)
			return false;
		if (len > 0 && len <= secret.len && memcmp(text, secret.at, len) == 0 &&
			(begins || len == secret.len))
			return true;
		at = end + 1;
	}
	return false;
}
