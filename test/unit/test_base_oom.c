/* SPDX-License-Identifier: Apache-2.0 */
/* test: the n-th allocation fails, for each n, in every function of the lowest modules that
 * allocates. Linked with
 * --wrap for malloc, calloc and realloc. */
#include "base/arena.h"
#include "base/buf.h"
#include "base/json/json_read.h"
#include "base/list.h"
#include "test/unit/oom_wrap.h"
#include "test/unit/test.h"

TEST(buffers)
{
	bool any = true;

	for (long n = 0; any; n++) {
		struct buf b;
		size_t before;
		char *s;

		buf_init(&b, 100000);
		oom_begin(n, OOM_ONE);
		for (int i = 0; i < 1000 && !b.failed; i++) {
			before = b.len;
			buf_fmt(&b, "%d ", i);
			if (b.failed)
				assert_int_equal(b.len, before);
		}
		s = buf_take(&b, NULL);
		any = oom_end();
		assert_int_equal(s == NULL, any);
		free(s);
		buf_release(&b);
	}
}

TEST(an_empty_buffer_that_is_taken)
{
	struct buf b;

	buf_init(&b, 10);
	oom_begin(0, OOM_ONE);
	assert_null(buf_take(&b, NULL));
	assert_true(oom_end());
}

TEST(arenas)
{
	bool any = true;

	for (long n = 0; any; n++) {
		struct arena a;
		void *last = NULL;

		arena_init(&a, 100 << 20);
		oom_begin(n, OOM_ONE);
		for (int i = 0; i < 100; i++)
			last = arena_alloc(&a, 50000);
		any = oom_end();
		assert_int_equal(a.failed, any);
		assert_int_equal(last == NULL, any);
		arena_reset(&a);
		assert_non_null(arena_alloc(&a, 10));
		arena_release(&a);
	}
}

/* A list that cannot move is what it was, and grows on when there is memory. */
TEST(lists)
{
	bool any = true;

	for (long n = 0; any; n++) {
		long *list = NULL;
		size_t len = 0, cap = 0;

		oom_begin(n, OOM_ONE);
		while (len < 100 && LIST_ROOM(list, len, cap)) {
			list[len] = (long)len;
			len++;
		}
		any = oom_end();
		assert_true(any ? len == cap : len == 100);
		assert_true(LIST_ROOM(list, len, cap));
		for (size_t i = 0; i < len; i++)
			assert_int_equal(list[i], i);
		free(list);
	}
}

/* Nodes, hashes, the room for escaped keys and the table of a wide object must grow. */
TEST(json_documents)
{
	struct buf b;
	bool any = true;
	long n;

	buf_init(&b, 1 << 20);
	buf_str(&b, "{\"outer\":{");
	for (int i = 0; i < 600; i++)
		buf_fmt(&b, "\"\\u006bey%d\":%d,", i, i);
	buf_fmt(&b, "\"%0500d\\n\":[]}}", 1);
	assert_false(b.failed);
	for (n = 0; any; n++) {
		struct json j = {0};
		struct err err = {0};
		char *copy = NULL;
		int rc;

		oom_begin(n, OOM_ONE);
		rc = json_read_copy(&j, b.data, b.len, 10000, &copy, &err);
		any = oom_end();
		assert_int_equal(rc, any ? ERR_NOMEM : 0);
		assert_int_equal(err.code, rc);
		assert_int_equal(copy == NULL, any);
		assert_int_equal(j.count == 0, any);
		assert_int_equal(err.msg[0] != '\0', any);
		free(copy);
		/* The reader serves on. */
		assert_int_equal(json_read_copy(&j, "[1]", 3, 10, &copy, NULL), 0);
		assert_int_equal(j.count, 2);
		free(copy);
		json_release(&j);
	}
	assert_true(n > 6);
	buf_release(&b);
}

/* To compare two keys of equal hashes, a key with escapes is decoded. */
TEST(a_duplicate_key)
{
	static const char text[] = "{\"a\":1,\"\\u0061\":2}";
	bool any = true;

	for (long n = 0; any; n++) {
		struct json j = {0};
		char *copy = NULL;
		int rc;

		oom_begin(n, OOM_ONE);
		rc = json_read_copy(&j, text, sizeof(text) - 1, 10, &copy, NULL);
		any = oom_end();
		assert_int_equal(rc, any ? ERR_NOMEM : ERR_SYNTAX);
		assert_null(copy);
		json_release(&j);
	}
}

TESTS(buffers, an_empty_buffer_that_is_taken, arenas, lists, json_documents, a_duplicate_key)
