/* SPDX-License-Identifier: Apache-2.0 */
/* test: base/json/json_read on the documents of test/unit/json: y_ accepted and equal to what cJSON
 * reads, n_ refused, i_ left to the implementation by RFC 8259 and accepted by ours. Run from the
 * repository's root. */
#include <dirent.h>

#include <cjson/cJSON.h>

#include "base/json/json_read.h"
#include "base/text.h"
#include "test/unit/test.h"

#define FOLDER "test/unit/json"
#define NODES 1000000

static struct slice load(const char *name)
{
	char path[512];
	FILE *f;
	struct buf b;
	char part[4096];
	struct slice s;
	size_t n;

	snprintf(path, sizeof(path), FOLDER "/%s", name);
	f = fopen(path, "rb");
	if (!f)
		fail_msg("cannot open %s", path);
	buf_init(&b, 10 << 20);
	while ((n = fread(part, 1, sizeof(part), f)) > 0)
		buf_add(&b, part, n);
	fclose(f);
	assert_false(b.failed);
	s.at = buf_take(&b, &s.len);
	return s;
}

/* cJSON takes numbers for doubles; its keys are compared in order. */
static void same(const struct json *j, const struct json_node *v, const cJSON *c, const char *name)
{
	const cJSON *child = c->child;
	struct slice raw = json_raw(j, v);
	struct arena a;

	arena_init(&a, 1 << 20);
	switch ((enum json_type)v->type) {
	case JSON_NULL:
		assert_true(cJSON_IsNull(c));
		break;
	case JSON_FALSE:
		assert_true(cJSON_IsFalse(c));
		break;
	case JSON_TRUE:
		assert_true(cJSON_IsTrue(c));
		break;
	case JSON_NUMBER:
		assert_true(cJSON_IsNumber(c));
		if (strtod(raw.at, NULL) != c->valuedouble)
			fail_msg("%s: a number differs", name);
		break;
	case JSON_STRING:
		assert_true(cJSON_IsString(c));
		assert_true(slice_is(json_str(j, v, &a), c->valuestring));
		break;
	case JSON_ARRAY:
		assert_true(cJSON_IsArray(c));
		assert_int_equal(v->count, cJSON_GetArraySize(c));
		JSON_EACH(j, v, e)
		{
			same(j, e, child, name);
			child = child->next;
		}
		break;
	case JSON_OBJECT:
		assert_true(cJSON_IsObject(c));
		assert_int_equal(v->count, cJSON_GetArraySize(c));
		JSON_MEMBERS(j, v, k)
		{
			assert_true(json_is_str(j, k, slice_of(child->string)));
			assert_ptr_equal(json_get(j, v, slice_of(child->string)), json_value(k));
			same(j, json_value(k), child, name);
			child = child->next;
		}
		break;
	}
	arena_release(&a);
}

static void accepts(const char *name, struct slice s)
{
	struct json j = {0};
	struct err err = {0};
	cJSON *c = cJSON_ParseWithLength(s.at, s.len);
	char *copy;

	if (json_read_copy(&j, s.at, s.len, NODES, &copy, &err) != 0)
		fail_msg("%s is refused: %s", name, err.msg);
	if (!c)
		fail_msg("%s is refused by cJSON", name);
	same(&j, json_root(&j), c, name);
	cJSON_Delete(c);
	json_release(&j);
	free(copy);
}

static void refuses(const char *name, struct slice s)
{
	struct json j = {0};
	struct err err = {0};
	char *copy;

	if (json_read_copy(&j, s.at, s.len, NODES, &copy, &err) == 0)
		fail_msg("%s is accepted", name);
	if (err.code != ERR_SYNTAX && err.code != ERR_TOOBIG)
		fail_msg("%s: code %d", name, (int)err.code);
	if (strncmp(err.msg, "at byte ", 8) != 0 || !text_utf8(slice_of(err.msg)))
		fail_msg("%s: %s", name, err.msg);
	assert_true(strtoul(err.msg + 8, NULL, 10) <= s.len);
	assert_null(copy);
	json_release(&j);
}

static size_t for_files(char kind, void (*check)(const char *name, struct slice s))
{
	DIR *dir = opendir(FOLDER);
	struct dirent *entry;
	size_t n = 0;

	if (!dir)
		fail_msg("no folder " FOLDER ": run from the root of the repository");
	while ((entry = readdir(dir)) != NULL) {
		struct slice s;
		union {
			const char *in;
			void *out;
		} bytes;

		if (entry->d_name[0] != kind)
			continue;
		s = load(entry->d_name);
		check(entry->d_name, s);
		bytes.in = s.at;
		free(bytes.out);
		n++;
	}
	closedir(dir);
	return n;
}

TEST(valid_documents_read_as_cjson_reads_them)
{
	assert_true(for_files('y', accepts) >= 60);
}

TEST(invalid_documents_are_refused)
{
	assert_true(for_files('n', refuses) >= 200);
}

TEST(documents_left_to_the_implementation)
{
	assert_true(for_files('i', accepts) >= 10);
}

TESTS(valid_documents_read_as_cjson_reads_them, invalid_documents_are_refused,
	documents_left_to_the_implementation)
