/* SPDX-License-Identifier: Apache-2.0 */
/* test: the n-th allocation fails, for each n, while what people and registries write is read: it
 * is read as ever, or there is no memory. The texts are seeds of the fuzz targets. Linked with
 * --wrap for malloc, calloc and realloc. Runs where the tree is. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem */
#endif
#include "base/files.h"
#include "base/json/json_read.h"
#include "base/yaml/yaml.h"
#include "base/yaml/yaml_from_json.h"
#include "base/yaml/yaml_patch.h"
#include "base/yaml/yaml_splice.h"
#include "test/unit/document_fixture.h"
#include "test/unit/oom_wrap.h"
#include "test/unit/test.h"
#include "webhook/core/image/image_doc.h"
#include "webhook/core/image/pull_config.h"
#include "webhook/core/launcher/launcher_bitfusion.h"
#include "webhook/core/server/usage_meter.h"

#define CORPUS "test/fuzz/corpus/"
#define TEXT_MAX (1u << 20)

static int out_of_memory(struct err *err)
{
	return err_set(err, ERR_NOMEM, "out of memory");
}

static int bitfusion(struct slice text, struct arena *a, struct err *err)
{
	struct yaml_stream clients = {0}, sidecar = {0};
	const char *between = memmem(text.at, text.len, "\n%%\n", 4);
	size_t len = (size_t)(between - text.at) + 1;
	struct slice rest = {between + 4, text.len - len - 3};
	struct profile p;
	int rc = yaml_parse(
		a, "clients.yaml", (struct slice){text.at, len}, YAML_NO_ALIASES, &clients, err);

	if (rc == 0)
		rc = yaml_parse(a, "sidecar.yaml", rest, YAML_NO_ALIASES, &sidecar, err);
	return rc == 0 ? launcher_bitfusion(
				 clients.first->root, sidecar.first->root, SLICE("sh"), a, &p, err)
		       : rc;
}

/* As `poolgate inject -w` does. */
static int patched(struct slice text, struct arena *a, struct err *err)
{
	static const char patch[] =
		"[{\"op\":\"add\",\"path\":\"/x y\",\"value\":{\"a\":[1,\"yes\",{}],\"b\":\"l\\n\"}"
		"},{\"op\":\"add\",\"path\":\"/spec/containers/0/env\",\"value\":[{\"name\":\"A\"}]"
		"},{\"op\":\"add\",\"path\":\"/spec/containers/-\",\"value\":{\"name\":\"z\"}},{"
		"\"op\":\"replace\",\"path\":\"/spec/containers/0/name\",\"value\":\"\\u0061\"},{"
		"\"op\":\"remove\",\"path\":\"/kind\"}]";
	struct yaml_stream docs = {0};
	struct buf out;
	int rc = yaml_parse(a, "pod.yaml", text, YAML_ANY, &docs, err);

	buf_init(&out, TEXT_MAX);
	if (rc == 0)
		rc = yaml_patch(docs.first->root, SLICE(patch), err);
	if (rc == 0)
		rc = yaml_splice(&docs, text, &out, err);
	if (rc == 0 && docs.first->json)
		rc = yaml_from_json_text(&docs, &out, err);
	buf_release(&out);
	return rc;
}

/* JSON that is read into a. */
static int of_json(struct slice text, struct arena *a, struct err *err,
	int (*read)(const struct json *j, struct arena *a, struct err *err))
{
	int rc = document_of_json(text, a, err, read);

	return rc == 0 && a->failed ? out_of_memory(err) : rc;
}

static int read_index(const struct json *j, struct arena *a, struct err *err)
{
	struct image_manifest m;

	return image_manifest_read(
		j, SLICE("application/vnd.oci.image.index.v1+json"), ~0u, a, &m, err);
}

static int image_index(struct slice text, struct arena *a, struct err *err)
{
	return of_json(text, a, err, read_index);
}

static int read_image_config(const struct json *j, struct arena *a, struct err *err)
{
	struct image_config c;
	struct image_start copy;
	int rc = image_config_read(j, a, &c, err);

	return rc == 0 && image_start_copy(a, &c.start, &copy) != 0 ? out_of_memory(err) : rc;
}

static int image_config(struct slice text, struct arena *a, struct err *err)
{
	return of_json(text, a, err, read_image_config);
}

static int read_logins(const struct json *j, struct arena *a, struct err *err)
{
	const struct image_name here = {.host = SLICE("r.x"), .repository = SLICE("a/b")};
	struct pull_logins got = {0};

	(void)err;
	pull_config_find(j, json_root(j), &here, a, &got);
	assert_true(a->failed || got.n == 2);
	return 0;
}

static int logins(struct slice text, struct arena *a, struct err *err)
{
	return of_json(text, a, err, read_logins);
}

static const struct row {
	const char *file;
	document_reader *read;
	size_t words; /* so many allocations are for messages alone, which may stay out */
} rows[] = {
	{"config/settings-all", document_settings, 8},
	{"config/settings-cluster", document_settings, 8},
	{"config/launcher-all", document_launcher, 1},
	{"config/launcher-lupine", document_launcher, 0},
	{"config/bitfusion", bitfusion, 0},
	{"pool/two.yaml", document_pool, 0},
	{"pool/list.yaml", document_pool, 0},
	{"pool/one.json", document_pool, 0},
	{"policy/all.json", document_policy, 0},
	{"server_profile/lupine.yaml", document_server_profile, 0},
	{"yaml/pod", patched, 0},
	{"yaml/json_pod", patched, 0},
	{"image/index", image_index, 0},
	{"image/config", image_config, 0},
	{"image/auths", logins, 0},
};

static void each_allocation(const struct row *r, struct slice text, enum oom_extent extent)
{
	bool any = true;
	size_t words = 0;
	long n;

	for (n = 0; any; n++) {
		struct err err = {0};
		struct arena a;
		int rc;

		arena_init(&a, 64u << 20);
		oom_begin(n, extent);
		rc = r->read(text, &a, &err);
		any = oom_end();
		arena_release(&a);
		if (rc == 0 && any && ++words <= r->words)
			continue;
		if (rc != (any ? ERR_NOMEM : 0) || (rc != 0 && !err.msg[0]))
			fail_msg("%s: allocation %ld: %d, %s", r->file, n, rc, err.msg);
	}
	if (n < 2)
		fail_msg("%s needs no memory", r->file);
}

/* The same JSON, with the last character of each text that is no member's name as an escape: such a
 * text is copied where others are not. Of images none is read that is spelled so. */
static void escape_texts(struct slice text, struct buf *out)
{
	for (size_t i = 0, n; i < text.len; i += n) {
		const char *at = text.at + i, *end = at + 1;

		while (*at == '"' && *end != '"')
			end += *end == '\\' ? 2 : 1;
		n = (size_t)(end - at) + (*at == '"');
		if (n > 2 && at[n] != ':' && !memchr(at, '\\', n)) {
			buf_add(out, at, n - 2);
			buf_fmt(out, "\\u%04x\"", (unsigned)(unsigned char)at[n - 2]);
		} else {
			buf_add(out, at, n);
		}
	}
}

TEST(what_is_read_from_files)
{
	for (size_t i = 0; i < COUNT(rows); i++) {
		/* The first letter of these says what the rest is. */
		size_t skip = strncmp(rows[i].file, "config/", 7) == 0;
		struct slice text;
		char path[128];
		struct buf b;

		(void)snprintf(path, sizeof(path), CORPUS "%s", rows[i].file);
		buf_init(&b, TEXT_MAX);
		if (files_read(path, &b, NULL) != 0)
			fail_msg("%s: run me where the tree is", path);
		text = (struct slice){b.data + skip, b.len - skip};
		each_allocation(&rows[i], text, OOM_ONE);
		each_allocation(&rows[i], text, OOM_ALL_AFTER);
		if (strstr(rows[i].file, ".json")) {
			struct buf escaped;

			buf_init(&escaped, TEXT_MAX);
			escape_texts(text, &escaped);
			each_allocation(&rows[i], buf_as_slice(&escaped), OOM_ONE);
			buf_release(&escaped);
		}
		buf_release(&b);
	}
}

static const char *no_policy(void *ctx, const char *namespace)
{
	(void)ctx, (void)namespace;
	return "-";
}

/* A look without memory is none: the next one counts all that has come since. */
TEST(what_is_used)
{
	static const char *const texts[] = {
		"closed 2026-11-24T00:00:00Z 2026-11-25T00:00:00Z 9 8 7 6\n a 1 2 m\n"
		"open 2026-11-25T00:00:00Z 2026-11-25T01:00:00Z 1 2 3 4\n a 5 6 m\n",
		"open 2026-11-25T00:00:00Z 2026-11-25T02:00:00Z 11 2 3 4\n a 15 16 m\n b 1 1 m\n"};
	bool any = true;
	long n;

	for (n = 0; any; n++) {
		struct usage_meter *m = usage_meter_new();

		assert_non_null(m);
		for (size_t i = 0; i < 3; i++) {
			/* A server without GPUs: time adds nothing. */
			const struct server_object o = {
				.name = "s", .uid = "u", .status = {.usage = texts[i > 0]}};
			bool seen;

			if (i == 1)
				oom_begin(n, OOM_ONE);
			/* three o'clock: there is something to count on to */
			seen = usage_meter_see(m, &o, INT64_C(1795564800) + 10800);
			assert_true(i != 1 || seen == !oom_failed());
			usage_meter_end(m, no_policy, NULL);
			if (i == 1)
				any = oom_end();
			assert_true(seen || i == 1);
			if (!seen)
				assert_int_equal(usage_meter_totals(m)->n, 0);
		}
		assert_int_equal(usage_meter_totals(m)->capacity, 10);
		assert_int_equal(usage_meter_totals(m)->at[0].sum.byte_s +
					 usage_meter_totals(m)->others.sum.byte_s +
					 (usage_meter_totals(m)->n > 1
							 ? usage_meter_totals(m)->at[1].sum.byte_s
							 : 0),
			11);
		usage_meter_free(m);
	}
	assert_true(n > 5);
}

TESTS(what_is_read_from_files, what_is_used)
