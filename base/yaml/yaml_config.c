/* SPDX-License-Identifier: Apache-2.0 */
/* base: typed values out of a YAML tree; the wording of every config error is here. */
#include "base/yaml/yaml_config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/yaml/yaml_scalar.h"

/* No map of ours has more keys. */
#define KEYS_MAX 64

/* The value of an optional key: false when there is nothing to read. */
static bool given(const struct yaml_node *map, const char *key, struct yaml_node **ret)
{
	struct yaml_node *value = yaml_get(map, key);

	if (yaml_absent(value))
		return false;
	*ret = value;
	return true;
}

static void list_words(struct buf *out, const char *const *words, size_t n, const char *last)
{
	for (size_t i = 0; i < n; i++)
		buf_fmt(out, "%s%s", i == 0 ? "" : i + 1 == n ? last : ", ", words[i]);
}

/* The key that somebody wrote for this one: the same letters in another case. */
static const struct yaml_node *misspelt(const struct yaml_node *map, const char *key)
{
	YAML_MEMBERS(map, k)
	{
		if (text_ieq(k->text, slice_of(key)))
			return k;
	}
	return NULL;
}

/* A key that is not in its map, or whose value is null (value). */
static int missing(const struct yaml_node *map, const struct yaml_node *value, const char *key,
	const char *expected, struct err *err)
{
	const struct yaml_node *other = value ? NULL : misspelt(map, key);
	char message[256];
	struct buf path;

	if (expected)
		(void)snprintf(message, sizeof(message), "found nothing, expected %s", expected);
	else
		(void)snprintf(message, sizeof(message),
			value ? "the key \"%s\" is required, its value is empty"
			      : "the key \"%s\" is missing",
			key);
	if (value)
		return yaml_err(value, err, ERR_INVALID, "%s", message);
	buf_init(&path, 400);
	yaml_pointer(map, &path);
	(void)err_set(err, ERR_INVALID, "%s:%u: %s/%s: %s", map->doc->file,
		other ? other->line : map->line, path.len ? path.data : "", key, message);
	buf_release(&path);
	if (other && err)
		(void)err_set(err, ERR_INVALID, "%s; \"%.*s\" is another key: write \"%s\"",
			err->msg, (int)other->text.len, other->text.at, key);
	return ERR_INVALID;
}

int yaml_need_as(const struct yaml_node *map, const char *key, const char *expected,
	struct yaml_node **ret, struct err *err)
{
	struct yaml_node *value = yaml_get(map, key);

	if (yaml_is(map, YAML_MAP) && yaml_absent(value))
		return missing(map, value, key, expected, err);
	if (!value)
		return map ? yaml_unexpected(map, err, "a mapping")
			   : err_set(err, ERR_INVALID, "the key \"%s\" is missing", key);
	*ret = value;
	return 0;
}

int yaml_need(const struct yaml_node *map, const char *key, struct yaml_node **ret, struct err *err)
{
	return yaml_need_as(map, key, NULL, ret, err);
}

int yaml_need_word(const struct yaml_node *map, const char *key, const char *word, struct err *err)
{
	struct yaml_node *node;
	int rc = yaml_need_as(map, key, word, &node, err);

	return rc == 0 && !yaml_is_str(node, word) ? yaml_unexpected(node, err, "%s", word) : rc;
}

int yaml_as_map(const struct yaml_node *node, struct err *err)
{
	return yaml_is(node, YAML_MAP) ? 0 : yaml_unexpected(node, err, "a mapping");
}

int yaml_as_seq(const struct yaml_node *node, struct err *err)
{
	return yaml_is(node, YAML_SEQ) ? 0 : yaml_unexpected(node, err, "a sequence");
}

static int get_kind(const struct yaml_node *map, const char *key, enum yaml_kind kind,
	struct yaml_node **ret, struct err *err)
{
	struct yaml_node *value = NULL;

	if (given(map, key, &value) && value->kind != kind)
		return yaml_unexpected(value, err, kind == YAML_MAP ? "a mapping" : "a sequence");
	*ret = value;
	return 0;
}

int yaml_get_map(
	const struct yaml_node *map, const char *key, struct yaml_node **ret, struct err *err)
{
	return get_kind(map, key, YAML_MAP, ret, err);
}

int yaml_get_seq(
	const struct yaml_node *map, const char *key, struct yaml_node **ret, struct err *err)
{
	return get_kind(map, key, YAML_SEQ, ret, err);
}

int yaml_as_str(const struct yaml_node *node, struct slice *ret, struct err *err)
{
	struct yaml_value v;
	int rc;

	if (!yaml_is(node, YAML_SCALAR) || yaml_absent(node))
		return yaml_unexpected(node, err, "a string");
	rc = yaml_meaning(node, &v, err);
	if (rc != 0)
		return rc;
	if (v.type != YAML_STRING)
		return yaml_unexpected(node, err, "a string; put it in quotes");
	*ret = v.text;
	return 0;
}

int yaml_get_str(const struct yaml_node *map, const char *key, struct slice *ret, struct err *err)
{
	struct yaml_node *value;

	return given(map, key, &value) ? yaml_as_str(value, ret, err) : 0;
}

int yaml_as_cstr(const struct yaml_node *node, const char **ret, struct err *err)
{
	struct slice s;
	char *copy;
	int rc = yaml_as_str(node, &s, err);

	if (rc != 0)
		return rc;
	if (memchr(s.at, '\0', s.len))
		return yaml_err(node, err, ERR_INVALID, "found a NUL byte, expected text");
	copy = arena_strdup(node->doc->arena, s);
	if (!copy)
		return err_set(err, ERR_NOMEM, "%s: out of memory", node->doc->file);
	*ret = copy;
	return 0;
}

int yaml_get_cstr(const struct yaml_node *map, const char *key, const char **ret, struct err *err)
{
	struct yaml_node *value;

	return given(map, key, &value) ? yaml_as_cstr(value, ret, err) : 0;
}

int yaml_as_text(const struct yaml_node *node, struct slice *ret, struct err *err)
{
	if (!yaml_is(node, YAML_SCALAR) || yaml_absent(node))
		return yaml_unexpected(node, err, "a single value");
	*ret = node->text;
	return 0;
}

/* a whole number that fits int64, in decimal normal form */
static bool small_int(const struct yaml_node *node, int64_t *ret)
{
	struct yaml_value v;
	struct slice digits;
	uint64_t n;
	bool minus;

	if (!yaml_is(node, YAML_SCALAR) || yaml_meaning(node, &v, NULL) != 0 || v.type != YAML_INT)
		return false;
	minus = v.text.at[0] == '-';
	digits = (struct slice){v.text.at + minus, v.text.len - minus};
	if (!text_u64(digits, INT64_MAX, &n))
		return false;
	*ret = minus ? -(int64_t)n : (int64_t)n;
	return true;
}

int yaml_as_int(
	const struct yaml_node *node, int64_t min, int64_t max, int64_t *ret, struct err *err)
{
	int64_t n;

	if (!small_int(node, &n) || n < min || n > max)
		return yaml_unexpected(node, err, "a whole number from %lld to %lld",
			(long long)min, (long long)max);
	*ret = n;
	return 0;
}

int yaml_get_int(const struct yaml_node *map, const char *key, int64_t min, int64_t max,
	int64_t *ret, struct err *err)
{
	struct yaml_node *value;

	return given(map, key, &value) ? yaml_as_int(value, min, max, ret, err) : 0;
}

int yaml_as_bool(const struct yaml_node *node, bool *ret, struct err *err)
{
	struct yaml_value v;

	if (!yaml_is(node, YAML_SCALAR) || yaml_meaning(node, &v, NULL) != 0 || v.type != YAML_BOOL)
		return yaml_unexpected(node, err, "true or false");
	*ret = slice_is(v.text, "true");
	return 0;
}

int yaml_get_bool(const struct yaml_node *map, const char *key, bool *ret, struct err *err)
{
	struct yaml_node *value;

	return given(map, key, &value) ? yaml_as_bool(value, ret, err) : 0;
}

/* "90s", "250ms": the largest unit that says it exactly */
static const char *duration_text(int64_t ms, char out[static 32])
{
	if (ms % 3600000 == 0 && ms != 0)
		snprintf(out, 32, "%lldh", (long long)(ms / 3600000));
	else if (ms % 1000 == 0)
		snprintf(out, 32, "%llds", (long long)(ms / 1000));
	else
		snprintf(out, 32, "%lldms", (long long)ms);
	return out;
}

int yaml_as_duration(const struct yaml_node *node, int64_t min_ms, int64_t max_ms, int64_t *ret_ms,
	struct err *err)
{
	char low[32], high[32];
	int64_t ms;

	if (!yaml_is(node, YAML_SCALAR) || !text_duration_ms(node->text, &ms))
		return yaml_unexpected(node, err, "a duration such as 90s");
	if (ms < min_ms || ms > max_ms)
		return yaml_unexpected(node, err, "a duration from %s to %s",
			duration_text(min_ms, low), duration_text(max_ms, high));
	*ret_ms = ms;
	return 0;
}

int yaml_get_duration(const struct yaml_node *map, const char *key, int64_t min_ms, int64_t max_ms,
	int64_t *ret_ms, struct err *err)
{
	struct yaml_node *value;

	return given(map, key, &value) ? yaml_as_duration(value, min_ms, max_ms, ret_ms, err) : 0;
}

int yaml_as_quantity(const struct yaml_node *node, struct quantity *ret, struct err *err)
{
	struct yaml_value v;
	struct quantity q;

	if (!yaml_is(node, YAML_SCALAR) || yaml_meaning(node, &v, NULL) != 0)
		return yaml_unexpected(node, err, "a quantity such as 16Gi");
	/* a number is read in its normal form, as the API server sees it: 0x10 is 16 */
	if (quantity_parse(v.text, &q, NULL) != 0)
		return yaml_unexpected(node, err, "a quantity such as 16Gi");
	*ret = q;
	return 0;
}

int yaml_as_choice(const struct yaml_node *node, const char *const *words, size_t n, size_t *ret,
	struct err *err)
{
	struct buf list;

	/* by the spelling: a word such as `off` means a boolean and is meant as itself */
	for (size_t i = 0; i < n && yaml_is(node, YAML_SCALAR); i++) {
		if (slice_is(node->text, words[i])) {
			*ret = i;
			return 0;
		}
	}
	buf_init(&list, 380);
	list_words(&list, words, n, " or ");
	yaml_unexpected(node, err, "%s", list.data ? list.data : "another word");
	buf_release(&list);
	return ERR_INVALID;
}

int yaml_get_choice(const struct yaml_node *map, const char *key, const char *const *words,
	size_t n, size_t *ret, struct err *err)
{
	struct yaml_node *value;

	return given(map, key, &value) ? yaml_as_choice(value, words, n, ret, err) : 0;
}

int yaml_as_strs(const struct yaml_node *node, struct slice **ret, size_t *ret_n, struct err *err)
{
	struct slice *all;
	size_t n = 0;

	if (!yaml_is(node, YAML_SEQ))
		return yaml_unexpected(node, err, "a sequence of strings");
	all = arena_array(node->doc->arena, node->count, sizeof(all[0]));
	if (!all)
		return err_set(err, ERR_NOMEM, "%s: out of memory", node->doc->file);
	YAML_EACH(node, e)
	{
		int rc = yaml_as_str(e, &all[n++], err);

		if (rc != 0)
			return rc;
	}
	*ret = all;
	*ret_n = n;
	return 0;
}

int yaml_get_strs(const struct yaml_node *map, const char *key, struct slice **ret, size_t *ret_n,
	struct err *err)
{
	struct yaml_node *value;

	return given(map, key, &value) ? yaml_as_strs(value, ret, ret_n, err) : 0;
}

/* ---- which keys there may be, and which one was probably meant ---- */

static int unknown_key(const struct yaml_node *key, struct slice name, const char *const *keys,
	size_t n, struct err *err)
{
	const char *near = text_nearest(name, keys, n);
	struct buf list;

	buf_init(&list, 380);
	list_words(&list, keys, n, ", ");
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
