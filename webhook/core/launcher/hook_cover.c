/* SPDX-License-Identifier: Apache-2.0 */
/* core: which Secrets the conditions of the validating hook know. CEL is not evaluated: `poolgate
 * hooks` writes names as literals. */
#include "webhook/core/launcher/hook_cover.h"

#include <string.h>

#define HOOK "validate.poolgate.io"
/* Of namespaces that pick a policy, which the other one does not hear of then. */
#define HOOK_POLICY "validate-policy.poolgate.io"
#define BEGINS "startsWith("
/* Between the conditions of two hooks, each of which has to know a Secret. No expression has one.
 */
#define NEXT_HOOK '\f'

static const char *conditions_of(
	const struct json *j, const char *name, const char *all, struct arena *a)
{
	JSON_EACH(j, json_get(j, json_root(j), SLICE("webhooks")), hook)
	{
		if (!json_is_str(j, json_get(j, hook, SLICE("name")), slice_of(name)))
			continue;
		if (all)
			all = arena_fmt(a, "%s%c", all, NEXT_HOOK);
		JSON_EACH(j, json_get(j, hook, SLICE("matchConditions")), c)
		{
			struct slice one = json_str(j, json_get(j, c, SLICE("expression")), a);

			all = arena_fmt(
				a, "%s\n%.*s", all ? all : "", (int)one.len, one.at ? one.at : "");
		}
	}
	return all;
}

const char *hook_conditions(const struct json *j, struct arena *a)
{
	const char *all = conditions_of(j, HOOK, NULL, a);

	return all ? conditions_of(j, HOOK_POLICY, all, a) : NULL;
}

static bool one_covers(struct slice conditions, struct slice secret)
{
	const char *end = conditions.at + conditions.len, *text, *close;

	for (const char *at = conditions.at; (at = memchr(at, '\'', (size_t)(end - at)));
		at = close + 1) {
		size_t before = (size_t)(at - conditions.at), len;
		bool begins = before >= sizeof(BEGINS) - 1 &&
			      strncmp(at - (sizeof(BEGINS) - 1), BEGINS, sizeof(BEGINS) - 1) == 0;

		text = at + 1;
		close = memchr(text, '\'', (size_t)(end - text));
		if (!close)
			return false;
		len = (size_t)(close - text);
		if (len > 0 && len <= secret.len && memcmp(text, secret.at, len) == 0 &&
			(begins || len == secret.len))
			return true;
	}
	return false;
}

bool hook_covers(const char *conditions, struct slice secret)
{
	const char *next;

	while ((next = strchr(conditions, NEXT_HOOK))) {
		if (!one_covers((struct slice){conditions, (size_t)(next - conditions)}, secret))
			return false;
		conditions = next + 1;
	}
	return one_covers(slice_of(conditions), secret);
}
