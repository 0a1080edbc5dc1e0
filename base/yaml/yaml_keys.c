/* SPDX-License-Identifier: Apache-2.0 */
/* base: which keys a config map may have, and which one was probably meant. */
#include <stdarg.h>

#include "base/yaml/yaml_config.h"
#include "base/yaml/yaml_scalar.h"

/* No map of ours has more keys. */
#define KEYS_MAX 64

static void list_words(struct buf *out, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_fmt(out, "%s%s", i == 0 ? "" : ", ", words[i]);
}

static int unknown_key(const struct yaml_node *key, struct slice name, const char *const *keys,
	size_t n, struct err *err)
{
	const char *near = text_nearest(name, keys, n);
	struct buf list;

	buf_init(&list, 380);
	list_words(&list, keys, n);
	yaml_err(key, err, ERR_INVALID, "unknown key \"%.*s\"%s%s%s, known keys: %s",
		(int)text_utf8_cut(name, 60), name.at, near ? " (did you mean \"" : "",
		near ? near : "", near ? "\"?)" : "", list.data ? list.data : "none");
	buf_release(&list);
	return ERR_INVALID;
}

int yaml_known_list(const struct yaml_node *map, const char *const *keys, size_t n, struct err *err)
{
	if (yaml_absent(map))
		return 0;
	if (!yaml_is(map, YAML_MAP))
		return yaml_as_map(map, err);
	YAML_MEMBERS(map, k)
	{
		struct yaml_value v;
		int rc = yaml_key(k, &v, err);
		bool known = false;

		if (rc != 0)
			return rc;
		for (size_t i = 0; i < n && !known; i++)
			known = slice_is(v.text, keys[i]);
		if (!known)
			return unknown_key(k, v.text, keys, n, err);
	}
	return 0;
}

int yaml_known(const struct yaml_node *map, struct err *err, ...)
{
	const char *keys[KEYS_MAX];
	const char *key;
	size_t n = 0;
	va_list list;

	va_start(list, err);
	while ((key = va_arg(list, const char *)) != NULL) {
		if (n < KEYS_MAX)
			keys[n++] = key;
	}
	va_end(list);
	return yaml_known_list(map, keys, n, err);
}
