/* SPDX-License-Identifier: Apache-2.0 */
/* base: a narrow door to cJSON: strict texts only, exact keys, exact whole numbers. */
#include "base/json_doc.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_read.h"

/* Whole numbers up to here are exact in a double. */
#define EXACT_MAX 9007199254740992.0

static cJSON *in(const struct json_doc *doc)
{
	union {
		const struct json_doc *ours;
		cJSON *theirs;
	} u = {.ours = doc};

	return u.theirs;
}

static struct json_doc *out_of(cJSON *item)
{
	return (struct json_doc *)item;
}

int json_doc_parse(struct slice text, struct json_doc **ret, struct err *err)
{
	struct json strict;
	const char *end = NULL;
	char *copy = NULL;
	cJSON *item = NULL;
	int rc;

	json_init(&strict);
	rc = json_read_copy(&strict, text.at, text.len, JSON_DOC_NODES_MAX, &copy, err);
	if (rc == 0) {
		item = cJSON_ParseWithLengthOpts(copy, text.len, &end, 0);
		if (!item)
			rc = err_set(err, ERR_NOMEM, "out of memory while reading JSON");
	}
	json_release(&strict);
	free(copy);
	if (rc == 0)
		*ret = out_of(item);
	return rc;
}

void json_doc_free(struct json_doc *doc)
{
	cJSON_Delete(in(doc));
}

struct json_doc *json_doc_object(void)
{
	return out_of(cJSON_CreateObject());
}

struct json_doc *json_doc_array(void)
{
	return out_of(cJSON_CreateArray());
}

static cJSON *text_item(struct slice s, bool raw)
{
	cJSON *item;
	char *copy;

	if (!s.at || memchr(s.at, '\0', s.len))
		return NULL;
	copy = strndup(s.at, s.len);
	if (!copy)
		return NULL;
	item = raw ? cJSON_CreateRaw(copy) : cJSON_CreateString(copy);
	free(copy);
	return item;
}

static cJSON *int_item(int64_t value)
{
	char digits[24];
	double d = (double)value;

	if (fabs(d) < EXACT_MAX)
		return cJSON_CreateNumber(d);
	snprintf(digits, sizeof(digits), "%lld", (long long)value);
	return cJSON_CreateRaw(digits);
}

static bool set(struct json_doc *object, const char *key, cJSON *value)
{
	if (value && cJSON_IsObject(in(object)) && cJSON_AddItemToObject(in(object), key, value))
		return true;
	cJSON_Delete(value);
	return false;
}

static bool push(struct json_doc *array, cJSON *value)
{
	if (value && cJSON_IsArray(in(array)) && cJSON_AddItemToArray(in(array), value))
		return true;
	cJSON_Delete(value);
	return false;
}

bool json_doc_set(struct json_doc *object, const char *key, struct json_doc *value)
{
	return set(object, key, in(value));
}

bool json_doc_set_str(struct json_doc *object, const char *key, struct slice value)
{
	return set(object, key, text_item(value, false));
}

bool json_doc_set_int(struct json_doc *object, const char *key, int64_t value)
{
	return set(object, key, int_item(value));
}

bool json_doc_set_bool(struct json_doc *object, const char *key, bool value)
{
	return set(object, key, cJSON_CreateBool(value));
}

bool json_doc_set_null(struct json_doc *object, const char *key)
{
	return set(object, key, cJSON_CreateNull());
}

bool json_doc_set_raw(struct json_doc *object, const char *key, struct slice json)
{
	return set(object, key, text_item(json, true));
}

bool json_doc_push(struct json_doc *array, struct json_doc *value)
{
	return push(array, in(value));
}

bool json_doc_push_str(struct json_doc *array, struct slice value)
{
	return push(array, text_item(value, false));
}

bool json_doc_push_int(struct json_doc *array, int64_t value)
{
	return push(array, int_item(value));
}

bool json_doc_push_raw(struct json_doc *array, struct slice json)
{
	return push(array, text_item(json, true));
}

struct json_doc *json_doc_get(const struct json_doc *object, const char *key)
{
	if (!cJSON_IsObject(in(object)))
		return NULL;
	return out_of(cJSON_GetObjectItemCaseSensitive(in(object), key));
}

struct json_doc *json_doc_first(const struct json_doc *of)
{
	if (!cJSON_IsObject(in(of)) && !cJSON_IsArray(in(of)))
		return NULL;
	return out_of(in(of)->child);
}

struct json_doc *json_doc_next(const struct json_doc *item)
{
	return item ? out_of(in(item)->next) : NULL;
}

size_t json_doc_count(const struct json_doc *of)
{
	size_t n = 0;

	for (const struct json_doc *item = json_doc_first(of); item; item = json_doc_next(item))
		n++;
	return n;
}

const char *json_doc_key(const struct json_doc *member)
{
	return member ? in(member)->string : NULL;
}

bool json_doc_is_object(const struct json_doc *v)
{
	return cJSON_IsObject(in(v));
}

bool json_doc_is_array(const struct json_doc *v)
{
	return cJSON_IsArray(in(v));
}

bool json_doc_absent(const struct json_doc *v)
{
	return !v || cJSON_IsNull(in(v));
}

bool json_doc_str(const struct json_doc *v, struct slice *ret)
{
	if (!cJSON_IsString(in(v)))
		return false;
	*ret = slice_of(in(v)->valuestring);
	return true;
}

bool json_doc_int(const struct json_doc *v, int64_t *ret)
{
	double d;

	if (!cJSON_IsNumber(in(v)))
		return false;
	d = in(v)->valuedouble;
	if (!(fabs(d) <= EXACT_MAX) || floor(d) != d)
		return false;
	*ret = (int64_t)d;
	return true;
}

bool json_doc_bool(const struct json_doc *v, bool *ret)
{
	if (!cJSON_IsBool(in(v)))
		return false;
	*ret = cJSON_IsTrue(in(v)) != 0;
	return true;
}

int json_doc_print(const struct json_doc *doc, struct buf *out, struct err *err)
{
	char *text = doc ? cJSON_PrintUnformatted(in(doc)) : NULL;

	if (!text)
		return err_set(err, ERR_NOMEM, "out of memory while writing JSON");
	buf_str(out, text);
	cJSON_free(text);
	return out->failed ? err_set(err, ERR_TOOBIG, "the JSON text takes more than %zu bytes",
				     out->max)
			   : 0;
}
