/* SPDX-License-Identifier: Apache-2.0 */
/* test: the n-th allocation fails, for each n, while a server starts and answers, a pair is loaded,
 * metrics are made. Linked with --wrap for malloc, calloc and realloc. */
#include <stdatomic.h>

#include "base/metric.h"
#include "test/unit/http_fixture.h"
#include "test/unit/make_pair.h"
#include "test/unit/oom_wrap.h"
#include "test/unit/test.h"

static struct made_pair pair;
static char reply[8192];
static char body[200000];
static atomic_int handled, told, done;

FIXTURE(make_all)
{
	make_pair(&pair, MADE_P256, -60, 86400, 1);
	return 0;
}

static enum http_outcome now(void *ctx, struct http_request *req, struct http_reply *r)
{
	(void)ctx, (void)req;
	atomic_fetch_add(&handled, 1);
	http_reply_text(r, 200, "now");
	return HTTP_DONE;
}

static enum http_outcome later(void *ctx, struct http_request *req, struct http_reply *r)
{
	(void)ctx, (void)req, (void)r;
	atomic_fetch_add(&handled, 1);
	return HTTP_LATER;
}

static enum http_outcome slow(void *ctx, struct http_request *req, struct http_reply *r)
{
	(void)ctx, (void)req;
	http_reply_text(r, 200, "later");
	return HTTP_DONE;
}

static void on_queued(void *ctx, struct http_request *req, bool queued)
{
	(void)ctx, (void)req, (void)queued;
	atomic_fetch_add(&told, 1);
}

static void on_done(void *ctx, struct http_request *req)
{
	(void)ctx, (void)req;
	atomic_fetch_add(&done, 1);
}

static const struct http_route routes[] = {
	{"/now", HTTP_POST, false, "application/json", now, NULL, 0, false},
	{"/later", HTTP_POST, false, "application/json", later, slow, 0, false},
};

static const struct http_app app = {routes, 2, NULL, on_queued, on_done, NULL};

static int start(struct http_server **ret, struct err *err)
{
	struct http_config cfg = {.listen = "127.0.0.1:0", .workers = 1};
	return http_server_start(&cfg, &app, ret, err);
}

TEST(server_starts)
{
	bool any = true;
	for (long n = 0; any; n++) {
		struct http_server *s = NULL;
		struct err err = {0};
		oom_begin(n, OOM_ONE);
		int rc = start(&s, &err);
		any = oom_end();
		assert_int_equal(rc, any ? ERR_NOMEM : 0);
		assert_true(any == (err.msg[0] != '\0'));
		assert_true(http_server_stop(s, 1000));
	}
}

/* Whatever fails, the client is answered or cut off, the application is told once, and the next
 * request is served. */
TEST(requests)
{
	const struct {
		const char *path;
		size_t len;
	} cases[] = {{"/now", 10}, {"/now", sizeof(body)}, {"/later", 10}, {"/nope", 10}};
	struct fixture f = {0};
	struct err err = {0};
	memset(body, 'x', sizeof(body));
	assert_int_equal(start(&f.server, &err), 0);
	for (size_t i = 0; i < COUNT(cases); i++) {
		bool any = true;
		for (long n = 0; any; n++) {
			oom_begin(n, OOM_ONE);
			int fd = client_open(&f);
			client_post(fd, cases[i].path, body, cases[i].len);
			int status = client_read(fd, reply, sizeof(reply), 3000, false);
			any = oom_end();
			if (any)
				assert_true(status == 0 || status == 500 || status == 200 ||
					    status == 404);
			else
				assert_int_equal(status, i == 3 ? 404 : 200);
			(void)close(fd);
			assert_true(fixture_idle(&f));
			assert_int_equal(handled, told);
			assert_int_equal(handled, done);
		}
	}
	assert_true(http_server_stop(f.server, 1000));
}

TEST(pairs)
{
	bool any = true;
	for (long n = 0; any; n++) {
		struct err err = {0};
		struct tls_info info;
		struct tls_pem cert = made_cert(&pair), key = made_key(&pair);
		oom_begin(n, OOM_ONE);
		struct tls_identity *id = tls_identity_new();
		int rc = id ? tls_identity_load_pem(id, &cert, &key, &err) : ERR_NOMEM;
		any = oom_end();
		assert_int_equal(rc, any ? ERR_NOMEM : 0);
		if (id)
			assert_true(tls_identity_info(id, &info) == !any);
		tls_identity_free(id);
	}
	struct tls_identity *id = tls_identity_new();
	struct err err = {0};
	oom_begin(0, OOM_ONE);
	assert_int_equal(tls_identity_load_files(id, "tls.crt", "tls.key", &err), ERR_NOMEM);
	(void)oom_end();
	tls_identity_free(id);
}

TEST(metrics)
{
	static const struct metric_desc desc[] = {
		{"x", "X.", METRIC_COUNTER, 1, NULL, {{NULL, NULL}, {NULL, NULL}}}};
	bool any = true;
	for (long n = 0; any; n++) {
		oom_begin(n, OOM_ONE);
		struct metrics *m = metrics_new(desc, 1);
		any = oom_end();
		assert_true((m == NULL) == any);
		metrics_free(m);
	}
}

TESTS_WITHIN(make_all, NULL, server_starts, requests, pairs, metrics)
