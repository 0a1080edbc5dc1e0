/* SPDX-License-Identifier: Apache-2.0 */
/* test: the n-th allocation of the gRPC server fails, for each n, while it starts and while it
 * answers. nghttp2's own do not. Linked with --wrap for malloc, calloc and realloc. */
#include "test/unit/grpc_fixture.h"
#include "test/unit/oom_wrap.h"
#include "test/unit/test.h"

TEST(start)
{
	struct grpc_fixture *f = *state;
	struct err err = {0};
	int rc;
	long n;

	grpc_server_free(f->server, 0);
	f->server = NULL;
	for (n = 0;; n++) {
		oom_begin(n, OOM_ONE);
		rc = grpc_server_new(f->path, grpc_fixture_methods, f, &f->log, &f->server, &err);
		if (!oom_end())
			break;
		assert_int_equal(rc, ERR_NOMEM);
		assert_null(f->server);
		assert_int_not_equal(access(f->path, F_OK), 0);
	}
	assert_int_equal(rc, 0);
	assert_true(n > 0);
}

/* A call, and a stream on which something else is shown. */
static void conversation(struct buf *b)
{
	raw_hello(b);
	raw_headers(b, 1, "/test.T/Echo", 0);
	raw_frame(b, NGHTTP2_DATA, 0, 1, "\0\0\0\0\5he", 7);
	raw_frame(b, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "llo", 3);
	raw_headers(b, 3, "/test.T/Watch", 0);
	raw_frame(b, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 3, "\0\0\0\0\0", 5);
}

TEST(answers)
{
	struct grpc_fixture *f = *state;
	struct buf b;
	long n;
	int calls = 0, streams = 0;

	buf_init(&b, 100000);
	conversation(&b);
	for (n = 0;; n++) {
		struct peer p = {0};
		int fd = raw_connect(f), rc = 0;
		bool hit;

		oom_begin(n, OOM_ONE);
		(void)raw_write(f, fd, &b);
		grpc_fixture_settle(f, NULL);
		if (f->n_open > 0)
			rc = grpc_stream_show(f->open[0], SLICE("more"), NULL);
		grpc_fixture_settle(f, NULL);
		streams += (int)f->n_open;
		hit = oom_end();
		assert_true(rc == 0 || (rc == ERR_NOMEM && hit));
		(void)close(fd);
		grpc_fixture_settle(f, NULL);
		assert_int_equal(f->n_open, 0);
		assert_int_equal(grpc_server_load(f->server).kept, 0);
		if (!hit)
			break;
		calls = f->calls;
		peer_open(f, &p);
		assert_string_equal(peer_call(&p, "/test.T/Echo", "x")->status, "0");
		peer_close(&p);
	}
	assert_in_range(n, 5, 100);
	/* one that fails does not take the other with it, but when it is the connection's own */
	assert_true(calls > n / 2 && streams > n / 2);
	buf_release(&b);
}

TESTS_BETWEEN(grpc_fixture_start, grpc_fixture_end, start, answers)
