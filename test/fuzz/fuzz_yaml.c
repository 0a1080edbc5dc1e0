/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: any text that is read as YAML must be written back so that reading it gives an equal tree, and equal JSON. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/yaml.h"
#include "base/yaml_emit.h"
#include "base/yaml_find.h"
#include "base/yaml_json.h"
#include "base/yaml_patch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *what, struct slice before, struct slice after)
{
	fprintf(stderr, "%s\n--- read:\n%.*s\n--- written:\n%.*s\n", what, (int)before.len,
		before.at, (int)after.len, after.at);
	abort();
}

/* A patch such as inject's: whatever it does to this tree, no crash, and what was patched can be written and read. */
static void patch(struct arena *arena, struct yaml_stream *docs, struct slice text)
{
	static const char ops[] =
		"[{\"op\":\"add\",\"path\":\"/a\",\"value\":{\"x\":[1,\"yes\",{}],\"a "
		"b\":\"l\\n\"}},"
		"{\"op\":\"add\",\"path\":\"/a/x/0\",\"value\":[]},{\"op\":\"replace\",\"path\":\"/"
		"a/x/1\",\"value\":null},"
		"{\"op\":\"add\",\"path\":\"/b/"
		"-\",\"value\":[{\"c\":\"d\"}]},{\"op\":\"remove\",\"path\":\"/b/0\"},"
		"{\"op\":\"test\",\"path\":\"/b/0\",\"value\":2},{\"op\":\"remove\",\"path\":\"/"
		"spec\"}]";
	struct buf out;
	struct err err = {0};

	buf_init(&out, 16 << 20);
	for (struct yaml_doc *doc = docs->first; doc; doc = doc->next) {
		if (yaml_patch(doc->root, SLICE(ops), &err) != 0 && !err.msg[0])
			fail("a refusal without a message", text, SLICE(""));
	}
	if (yaml_emit(docs, &out, &err) == 0) {
		struct yaml_stream again;

		if (yaml_parse(arena, "patched", buf_as_slice(&out), YAML_ANY, &again, &err) != 0)
			fail(err.msg, text, buf_as_slice(&out));
		if (!yaml_same_streams(docs, &again))
			fail("another tree after a patch", text, buf_as_slice(&out));
	}
	buf_release(&out);
}

/* Directives need the end of the document before them marked, whether it was read so or not. */
static bool directives_follow(const struct yaml_doc *doc)
{
	return doc->next && (doc->next->major != 0 || doc->next->tag_count > 0);
}

static bool same_documents(const struct yaml_stream *a, const struct yaml_stream *b)
{
	const struct yaml_doc *x = a->first, *y = b->first;

	for (; x && y; x = x->next, y = y->next) {
		if (x->start_marked != y->start_marked && x->tag_count == 0 && x->major == 0)
			return false;
		if (x->end_marked != y->end_marked && !directives_follow(x))
			return false;
	}
	return yaml_same_streams(a, b);
}

static void compare_json(const struct yaml_stream *a, const struct yaml_stream *b,
	struct slice before, struct slice after)
{
	const struct yaml_doc *x = a->first, *y = b->first;

	for (; x && y; x = x->next, y = y->next) {
		struct buf left, right;
		struct err err = {0};

		buf_init(&left, 1 << 20);
		buf_init(&right, 1 << 20);
		int rc = yaml_to_json(x->root, YAML_JSON_COMPACT, &left, &err);

		if (yaml_to_json(y->root, YAML_JSON_COMPACT, &right, NULL) != rc)
			fail("one gives JSON, the other not", before, after);
		if (rc != 0 && !err.msg[0])
			fail("a refusal without a message", before, after);
		if (rc == 0 && !x->json && !y->json &&
			!slice_eq(buf_as_slice(&left), buf_as_slice(&right)))
			fail("other JSON", before, after);
		buf_release(&left);
		buf_release(&right);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice text = {size ? (const char *)data : "", size};
	struct arena arena;
	struct yaml_stream before, after;
	struct err err = {0};
	struct buf out;

	arena_init(&arena, YAML_ARENA_MAX);
	buf_init(&out, 16 << 20);
	if (yaml_parse(&arena, "-", text, YAML_ANY, &before, &err) != 0) {
		if (!err.msg[0])
			fail("a refusal without a message", text, SLICE(""));
	} else if (yaml_emit(&before, &out, &err) == 0) {
		struct slice written = buf_as_slice(&out);

		if (yaml_parse(&arena, "again", written, YAML_ANY, &after, &err) != 0)
			fail(err.msg, text, written);
		/* what is read as JSON keeps spellings where YAML has a normal form */
		bool json =
			(before.first && before.first->json) || (after.first && after.first->json);

		if (!json && !same_documents(&before, &after))
			fail("another tree", text, written);
		compare_json(&before, &after, text, written);
		patch(&arena, &before, text);
	}
	buf_release(&out);
	arena_release(&arena);
	return 0;
}
