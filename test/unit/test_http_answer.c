/* SPDX-License-Identifier: Apache-2.0 */
/* test: HTTP/1.1 answers, whole and in pieces of every size. */
#include "base/buf.h"
#include "net/http_answer.h"
#include "test/unit/test.h"

struct reading {
	struct http_answer a;
	struct buf body;
	bool enough;
	struct err err;
};

static bool on_body(void *ctx, struct slice piece)
{
	struct reading *r = ctx;

	buf_slice(&r->body, piece);
	return !r->enough;
}

/* Read text in pieces of `step` bytes: the result, and what was left behind the answer. */
static int read_in(struct reading *r, const char *text, size_t step, size_t *ret_left)
{
	size_t len = strlen(text);
	int rc = 0;

	memset(&r->a, 0x5a, sizeof(r->a));
	buf_init(&r->body, 4096);
	err_clear(&r->err);
	http_answer_init(&r->a, on_body, r);
	assert_int_equal(r->a.status, 0);
	*ret_left = 0;
	for (size_t at = 0; at < len && rc == 0 && !r->a.done; at += step) {
		struct slice piece = {text + at, len - at < step ? len - at : step};

		rc = http_answer_read(&r->a, &piece, &r->err);
		*ret_left = len - at - step < len ? len - at - step + piece.len : piece.len;
	}
	return rc;
}

struct good {
	const char *text;
	long status;
	const char *body;
	bool keep, done;
	size_t left;
};

TEST(test_answers)
{
	static const struct good cases[] = {
		{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef", 200, "abc", true, true, 3},
		{"HTTP/1.1 200\r\ncontent-length:0\r\n\r\n", 200, "", true, true, 0},
		{"HTTP/1.1 204 No\r\n\r\nx", 204, "", true, true, 1},
		{"HTTP/1.1 304 No\r\nContent-Length: 5\r\n\r\n", 304, "", true, true, 0},
		{"HTTP/1.1 404 Not Found\nConnection: Close\nContent-Length: 1\n\nx", 404, "x",
			false, true, 0},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: "
		 "Chunked\r\n\r\n3\r\nabc\r\n0A;x=y\r\n0123456789"
		 "\r\n0\r\nTrailer: t\r\n\r\nrest",
			200, "abc0123456789", true, true, 4},
		{"HTTP/1.1 100 Continue\r\nX: y\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: "
		 "1\r\n\r\nz",
			200, "z", true, true, 0},
		{"HTTP/1.1 200 OK\r\n\r\nto the end", 200, "to the end", false, false, 0},
		{"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, "x", false, true, 0},
		{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nxy", 200, "xy",
			true, true, 0},
	};

	for (size_t i = 0; i < COUNT(cases); i++)
		for (size_t step = 1; step < 300; step = step < 8 ? step + 1 : step * 5) {
			const struct good *c = &cases[i];
			struct reading r = {.enough = false};
			size_t left;

			if (read_in(&r, c->text, step, &left) != 0)
				fail_msg("%zu in %zu: %s", i, step, r.err.msg);
			assert_int_equal(r.a.status, c->status);
			assert_true(r.a.headed);
			assert_int_equal(r.a.keep, c->keep);
			assert_int_equal(r.a.done, c->done);
			assert_int_equal(left, c->left);
			assert_string_equal(r.body.data ? r.body.data : "", c->body);
			assert_int_equal(http_answer_end(&r.a, &r.err), 0);
			assert_true(r.a.done);
			buf_release(&r.body);
		}
}

TEST(test_what_is_none)
{
	static const char *const bad[] = {
		"HTTP/2 200 OK\r\n",
		"HTTP/1.2 200 OK\r\n",
		"HTTP/1.1 20 OK\r\n",
		"HTTP/1.1 2000 OK\r\n",
		"HTTP/1.1 099 OK\r\n",
		"HTTP/1.1  200 OK\r\n",
		"\r\n",
		"\x16\x03\x01\r\n",
		"HTTP/1.1 200 OK\r\nno colon\r\n",
		"HTTP/1.1 200 OK\r\n: x\r\n",
		"HTTP/1.1 200 OK\r\nA : x\r\n",
		"HTTP/1.1 200 OK\r\nA\t: x\r\n",
		"HTTP/1.1 200 OK\r\n\tA: x\r\n",
		"HTTP/1.1 20\r\n",
		"HTTP/1.1 2000\r\n",
		"HTTP/1.1 200 OK\r\nA: x\r\n folded\r\n",
		"HTTP/1.1 200 OK\r\nA: x\ry\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
		"HTTP/1.1 101 Switching\r\n\r\n",
		"HTTP/1.1 100 Continue\r\nContent-Length: 1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1x\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11111111111111111\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
	};

	for (size_t i = 0; i < COUNT(bad); i++)
		for (size_t step = 1; step < 300; step += 149) {
			struct reading r = {.enough = false};
			size_t left;

			if (read_in(&r, bad[i], step, &left) != ERR_SYNTAX)
				fail_msg("taken: %s", bad[i]);
			buf_release(&r.body);
		}
}

TEST(test_bounds)
{
	struct reading r = {.enough = false};
	struct buf text;
	size_t left, chunks;

	buf_init(&text, 1 << 20);
	/* A line of as many bytes as may be, its end aside, and of one more. */
	for (size_t more = 0; more < 2; more++) {
		buf_clear(&text);
		buf_str(&text, "HTTP/1.1 204 OK\r\nA: ");
		for (size_t i = 3; i < HTTP_ANSWER_LINE_MAX + more; i++)
			buf_char(&text, 'x');
		buf_str(&text, "\n\n");
		assert_int_equal(read_in(&r, text.data, 100, &left), more ? ERR_TOOBIG : 0);
		buf_release(&r.body);
	}
	/* The first line and the empty one count. */
	for (size_t more = 0; more < 2; more++) {
		buf_clear(&text);
		buf_str(&text, "HTTP/1.1 204 OK\r\n");
		for (size_t i = 2; i < HTTP_ANSWER_LINES_MAX + more; i++)
			buf_str(&text, "A: x\r\n");
		buf_str(&text, "\r\n");
		assert_int_equal(read_in(&r, text.data, 100, &left), more ? ERR_TOOBIG : 0);
		buf_release(&r.body);
	}
	/* Trailers, too; but not chunks, of which there is no end. */
	buf_clear(&text);
	buf_str(&text, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	for (int i = 0; i < 1000; i++)
		buf_str(&text, "1\r\nx\r\n");
	assert_int_equal(read_in(&r, text.data, 100, &left), 0);
	assert_int_equal(r.body.len, 1000);
	buf_release(&r.body);
	buf_str(&text, "0\r\n");
	chunks = text.len;
	/* the empty line counts */
	for (size_t more = 0; more < 2; more++) {
		text.len = chunks;
		for (size_t i = 1; i < HTTP_ANSWER_LINES_MAX + more; i++)
			buf_str(&text, "A: x\r\n");
		buf_str(&text, "\r\n");
		assert_int_equal(read_in(&r, text.data, 100, &left), more ? ERR_TOOBIG : 0);
		buf_release(&r.body);
	}
	buf_release(&text);
}

TEST(test_ends)
{
	static const char *const early[] = {"", "HTTP/1.1 200 OK\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
		"HTTP/1.1 100 Continue\r\n\r\n"};
	struct reading r = {.enough = true};
	size_t left;

	for (size_t i = 0; i < COUNT(early); i++) {
		r.enough = false;
		assert_int_equal(read_in(&r, early[i], 10, &left), 0);
		assert_int_equal(http_answer_end(&r.a, &r.err), ERR_IO);
		buf_release(&r.body);
	}
	r.enough = true;
	assert_int_equal(read_in(&r, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nxy", 99, &left),
		ERR_REFUSED);
	buf_release(&r.body);
}

TESTS(test_answers, test_what_is_none, test_bounds, test_ends)
