/* SPDX-License-Identifier: Apache-2.0 */
/* sim: patches of pods as an API server applies them: JSON patches (RFC 6902: test, add, replace,
 * remove), and the strategic merge of a status's conditions, which are one by type. */
#include <stdlib.h>
#include <string.h>

#include "test/sim/sim_api.h"

/* ---- JSON patch ---- */

static cJSON *child_of(cJSON *at, const char *key)
{
	return cJSON_IsArray(at) ? cJSON_GetArrayItem(at, atoi(key))
				 : cJSON_GetObjectItemCaseSensitive(at, key);
}

/* The next segment of a pointer, decoded. NULL: there is none, or it is too long. */
static const char *segment(const char *path, char *out, size_t size)
{
	size_t n = 0;

	if (*path++ != '/')
		return NULL;
	while (*path && *path != '/' && n + 1 < size) {
		char c = *path++;

		if (c == '~')
			c = *path++ == '1' ? '/' : '~';
		out[n++] = c;
	}
	out[n] = '\0';
	return n + 1 < size ? path : NULL;
}

static bool apply_one(cJSON *doc, const cJSON *op)
{
	const char *what = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(op, "op"));
	const char *path = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(op, "path"));
	cJSON *value = cJSON_GetObjectItemCaseSensitive(op, "value"), *at = doc, *there;
	char key[256];

	path = what && path ? segment(path, key, sizeof(key)) : NULL;
	while (path && *path && at) {
		at = child_of(at, key);
		path = segment(path, key, sizeof(key));
	}
	if (!path || !at)
		return false;
	there = child_of(at, key);
	if (strcmp(what, "test") == 0)
		return there && cJSON_Compare(there, value, true);
	if (strcmp(what, "add") != 0 && !there)
		return false;
	if (cJSON_IsArray(at) && strcmp(what, "remove") != 0)
		return strcmp(key, "-") == 0 &&
		       cJSON_AddItemToArray(at, cJSON_Duplicate(value, true));
	if (there)
		cJSON_Delete(cJSON_DetachItemViaPointer(at, there));
	return strcmp(what, "remove") == 0 ||
	       cJSON_AddItemToObject(at, key, cJSON_Duplicate(value, true));
}

cJSON *patch_apply(const cJSON *doc, const cJSON *ops)
{
	cJSON *to = cJSON_Duplicate(doc, true);
	const cJSON *op;

	cJSON_ArrayForEach(op, ops)
	{
		if (!apply_one(to, op)) {
			cJSON_Delete(to);
			return NULL;
		}
	}
	return to;
}

/* ---- conditions ---- */

static cJSON *of_type(cJSON *conditions, const cJSON *like)
{
	cJSON *one, *type = cJSON_GetObjectItemCaseSensitive(like, "type");

	cJSON_ArrayForEach(one, conditions)
	{
		if (cJSON_Compare(cJSON_GetObjectItemCaseSensitive(one, "type"), type, true))
			return one;
	}
	return NULL;
}

cJSON *patch_conditions(const cJSON *was, const cJSON *patch)
{
	cJSON *to = was ? cJSON_Duplicate(was, true) : cJSON_CreateArray();
	const cJSON *one, *member;

	cJSON_ArrayForEach(one, patch)
	{
		cJSON *there = of_type(to, one);

		if (!there) {
			there = cJSON_CreateObject();
			cJSON_AddItemToArray(to, there);
		}
		cJSON_ArrayForEach(member, one)
		{
			cJSON_DeleteItemFromObjectCaseSensitive(there, member->string);
			cJSON_AddItemToObject(there, member->string, cJSON_Duplicate(member, true));
		}
	}
	return to;
}
