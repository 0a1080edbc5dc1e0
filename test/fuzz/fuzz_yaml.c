/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: any text that is read as YAML must be written back so that reading it gives an equal tree, and equal JSON. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/yaml.h"
#include "base/yaml_emit.h"
#include "base/yaml_json.h"
#include "base/yaml_scalar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *what, struct slice before, struct slice after)
{
	fprintf(stderr, "%s\n--- read:\n%.*s\n--- written:\n%.*s\n", what, (int)before.len,
		before.at, (int)after.len, after.at);
	abort();
}

/* By type and text: a plain scalar with, say, a BOM in it comes back in quotes, an empty one between brackets as null. */
static bool same_meaning(const struct yaml_node *a, const struct yaml_node *b)
{
	struct yaml_value x, y;
	int rc = yaml_meaning(a, &x, NULL);

	if (yaml_meaning(b, &y, NULL) != rc)
		return false;
	if (rc != 0)
		return slice_eq(a->text, b->text);
	return x.type == y.type &&
	       (x.type == YAML_STRING ? slice_eq(a->text, b->text) : slice_eq(x.text, y.text));
}

static bool same(const struct yaml_node *a, const struct yaml_node *b)
{
	if (a->kind != b->kind || a->count != b->count || !slice_eq(a->tag, b->tag) ||
		!slice_eq(a->anchor, b->anchor) || a->aliased != b->aliased)
		return false;
	if (a->kind == YAML_SCALAR)
		return same_meaning(a, b);
	if (a->kind == YAML_ALIAS)
		return slice_eq(a->text, b->text);
	for (a = a->first, b = b->first; a && b; a = a->next, b = b->next) {
		if (!same(a, b))
			return false;
	}
	return !a && !b;
}

static bool same_documents(const struct yaml_stream *a, const struct yaml_stream *b)
{
	const struct yaml_doc *x = a->first, *y = b->first;

	for (; x && y; x = x->next, y = y->next) {
		if (x->start_marked != y->start_marked && x->tag_count == 0 && x->major == 0)
			return false;
		if (x->end_marked != y->end_marked || !same(x->root, y->root))
			return false;
	}
	return !x && !y;
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
	}
	buf_release(&out);
	arena_release(&arena);
	return 0;
}
