/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: any text that is read as YAML is written back byte for byte while nothing changes; a change
 * is either refused with a sentence or written so that reading it gives the tree and the JSON that
 * were meant. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/yaml/yaml.h"
#include "base/yaml/yaml_find.h"
#include "base/yaml/yaml_json.h"
#include "base/yaml/yaml_patch.h"
#include "base/yaml/yaml_splice.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *what, struct slice before, struct slice after)
{
	fprintf(stderr, "%s\n--- read:\n%.*s\n--- written:\n%.*s\n", what, (int)before.len,
		before.at, (int)after.len, after.at);
	abort();
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

static void write_back(
	struct arena *arena, const struct yaml_stream *docs, struct slice text, bool changed)
{
	struct yaml_stream again;
	struct err err = {0};
	struct buf out;

	buf_init(&out, 16 << 20);
	if (yaml_splice(docs, text, &out, &err) != 0) {
		if (!err.msg[0] || !changed)
			fail("a refusal", text, slice_of(err.msg));
	} else {
		struct slice written = out.len ? buf_as_slice(&out) : SLICE("");

		if (!changed && !slice_eq(written, text))
			fail("not as it was", text, written);
		if (yaml_parse(arena, "again", written, YAML_ANY, &again, &err) != 0)
			fail(err.msg, text, written);
		if (!yaml_same_streams(docs, &again))
			fail("another tree", text, written);
		compare_json(docs, &again, text, written);
	}
	if (docs->first && docs->first->json && yaml_from_json_text(docs, &out, &err) != 0 &&
		!err.msg[0])
		fail("a refusal without a message", text, SLICE(""));
	buf_release(&out);
}

/* Changes such as inject's, at places that the dictionary knows. */
static void patch(struct yaml_stream *docs, struct slice text)
{
	static const char ops[] =
		"[{\"op\":\"add\",\"path\":\"/a\",\"value\":{\"x\":[1,\"yes\",{}],\"a "
		"b\":\"l\\n\"}},"
		"{\"op\":\"add\",\"path\":\"/a/x/0\",\"value\":[]},{\"op\":\"replace\",\"path\":\"/"
		"a/x/1\",\"value\":null},"
		"{\"op\":\"add\",\"path\":\"/b/"
		"-\",\"value\":[{\"c\":\"d\"}]},{\"op\":\"remove\",\"path\":\"/b/0\"},"
		"{\"op\":\"add\",\"path\":\"/c/d\",\"value\":{\"e\":1}},"
		"{\"op\":\"remove\",\"path\":\"/c/a\"},{\"op\":\"remove\",\"path\":\"/"
		"spec\"}]";
	/* from each operation on, so that a refusal of the first ones does not end all */
	for (const char *from = ops; from; from = strstr(from + 2, ",{\"op\"")) {
		for (struct yaml_doc *doc = docs->first; doc; doc = doc->next) {
			struct err err = {0};
			struct buf rest;

			buf_init(&rest, 4096);
			buf_fmt(&rest, "[%s", from + 1);
			if (yaml_patch(doc->root, buf_as_slice(&rest), &err) != 0 && !err.msg[0])
				fail("a refusal without a message", text, SLICE(""));
			buf_release(&rest);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice text = {size ? (const char *)data : "", size};
	struct arena arena;
	struct yaml_stream docs;
	struct err err = {0};

	arena_init(&arena, YAML_ARENA_MAX);
	if (yaml_parse(&arena, "-", text, YAML_ANY, &docs, &err) != 0) {
		if (!err.msg[0])
			fail("a refusal without a message", text, SLICE(""));
	} else {
		write_back(&arena, &docs, text, false);
		patch(&docs, text);
		write_back(&arena, &docs, text, true);
	}
	arena_release(&arena);
	return 0;
}
