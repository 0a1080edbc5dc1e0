/* SPDX-License-Identifier: Apache-2.0 */
/* test: calls to a scripted API server. */
#include <pthread.h>

#include "base/clock.h"
#include "kube/kube.h"
#include "test/unit/api_fixture.h"
#include "test/unit/scratch.h"
#include "test/unit/test.h"

struct fixture {
	struct api *api;
	struct kube_config config;
	struct kube *k;
	struct kube_answer a;
	struct err e;
};

static void fixture_init(struct fixture *f, api_handle *handle, void *ctx)
{
	*f = (struct fixture){0};
	f->api = api_start(handle, ctx);
	api_config(f->api, &f->config);
	if (kube_new(&f->config, &f->k, &f->e) != 0)
		fail_msg("%s", f->e.msg);
}

static void fixture_release(struct fixture *f)
{
	kube_free(f->k);
	api_stop(f->api);
}

static struct fixture fix;

FIXTURE(set_up)
{
	fixture_init(&fix, NULL, NULL);
	return 0;
}

FIXTURE(tear_down)
{
	fixture_release(&fix);
	return 0;
}

TEST(test_get)
{
	const struct json_node *kind;

	fix.config.token = "secret";
	api_expect(fix.api, "GET", "/api/v1/pods/a?x=1", 200, "{\"kind\":\"Pod\"}\n");
	if (kube_get(fix.k, "/api/v1/pods/a?x=1", 1000, &fix.a, &fix.e) != 0)
		fail_msg("%s", fix.e.msg);
	assert_int_equal(fix.a.status, 200);
	kind = json_path(&fix.a.json, json_root(&fix.a.json), "kind", NULL);
	assert_true(json_is_str(&fix.a.json, kind, SLICE("Pod")));
	kube_answer_release(&fix.a);
	assert_string_equal(api_seen(fix.api, 0)->token, "secret");
	assert_string_equal(api_seen(fix.api, 0)->content_type, "");
	/* Nothing to read is fine. */
	api_expect(fix.api, "GET", "/empty", 200, "");
	assert_int_equal(kube_get(fix.k, "/empty", 1000, &fix.a, &fix.e), 0);
	assert_int_equal(fix.a.json.count, 0);
	kube_answer_release(&fix.a);
	api_expect(fix.api, "GET", "/text", 200, "ok");
	assert_int_equal(kube_get(fix.k, "/text", 1000, &fix.a, &fix.e), ERR_SYNTAX);
	assert_non_null(strstr(fix.e.msg, "GET /text"));
	assert_int_equal(fix.a.status, 200);
	kube_answer_release(&fix.a);
}

TEST(test_write)
{
	struct kube_call call = {.method = "PATCH",
		.path = "/a",
		.content_type = KUBE_MERGE_PATCH,
		.body = SLICE("{\"x\":1}")};

	api_expect(fix.api, "PATCH", "/a", 200, "{}");
	assert_int_equal(kube_do(fix.k, &call, NULL, &fix.e), 0);
	assert_string_equal(api_seen(fix.api, 0)->content_type, KUBE_MERGE_PATCH);
	assert_string_equal(api_seen(fix.api, 0)->body, "{\"x\":1}");
	assert_string_equal(api_seen(fix.api, 0)->token, "");
	call.content_type = NULL;
	call.method = "POST";
	api_expect(fix.api, "POST", "/a", 201, "{}");
	assert_int_equal(kube_do(fix.k, &call, &fix.a, NULL), 0);
	assert_int_equal(fix.a.status, 201);
	kube_answer_release(&fix.a);
	assert_string_equal(api_seen(fix.api, 1)->content_type, KUBE_JSON);
}

/* The path is made of a place, the body is what a buffer holds; errors name that path. */
TEST(at_a_place)
{
	struct buf body;
	struct kube_call call = {
		.method = "PUT", .at = {"/api/v1", "a", "pods", "b/c", "status"}, .text = &body};
	const struct kube_place at = {"/api/v1", NULL, "nodes", NULL, NULL};

	buf_init(&body, 10);
	buf_str(&body, "{\"x\":1}");
	api_expect(fix.api, "PUT", "/api/v1/namespaces/a/pods/b%2Fc/status", 200, "{}");
	assert_int_equal(kube_do(fix.k, &call, NULL, &fix.e), 0);
	assert_string_equal(api_seen(fix.api, 0)->body, "{\"x\":1}");
	api_expect(fix.api, "GET", "/api/v1/nodes", 404, "");
	assert_int_equal(kube_get_at(fix.k, at, 1000, NULL, &fix.e), ERR_NOTFOUND);
	assert_non_null(strstr(fix.e.msg, "GET /api/v1/nodes"));
	/* Half a body is nobody's: the API server would not hear of what is missing. */
	buf_str(&body, "more than it holds");
	assert_int_equal(kube_do(fix.k, &call, NULL, &fix.e), ERR_NOMEM);
	assert_string_equal(fix.e.msg,
		"PUT /api/v1/namespaces/a/pods/b%2Fc/status: out of memory for the body");
	buf_release(&body);
}

/* What each status means, with a Status object. */
TEST(test_errors)
{
	static const struct {
		int status, code;
		const char *reason;
	} cases[] = {
		{400, ERR_INVALID, "BadRequest"},
		{401, ERR_REFUSED, "Unauthorized"},
		{403, ERR_REFUSED, "Forbidden"},
		{404, ERR_NOTFOUND, "NotFound"},
		{405, ERR_INVALID, "MethodNotAllowed"},
		{409, ERR_CONFLICT, "Conflict"},
		{409, ERR_CONFLICT, "AlreadyExists"},
		{410, ERR_INVALID, "Expired"},
		{412, ERR_CONFLICT, "Conflict"},
		{413, ERR_TOOBIG, "RequestEntityTooLarge"},
		{415, ERR_INVALID, "UnsupportedMediaType"},
		{422, ERR_INVALID, "Invalid"},
		{429, ERR_IO, "TooManyRequests"},
		{500, ERR_IO, "InternalError"},
		{503, ERR_IO, "ServiceUnavailable"},
		{504, ERR_TIMEOUT, "Timeout"},
		{302, ERR_IO, ""},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct api_reply r = {0};

		api_status(&r, cases[i].status, cases[i].reason, "the \\\"sentence\\\"");
		api_expect_reply(fix.api, "GET", "/a", &r);
		assert_int_equal(kube_get(fix.k, "/a", 1000, &fix.a, &fix.e), cases[i].code);
		assert_int_equal(fix.e.code, cases[i].code);
		assert_int_equal(fix.a.status, cases[i].status);
		assert_string_equal(fix.e.reason, cases[i].reason);
		assert_non_null(strstr(fix.e.msg, "GET /a"));
		assert_non_null(strstr(fix.e.msg, "the \"sentence\""));
		kube_answer_release(&fix.a);
	}
	/* A word that no API server says is none. */
	for (int n = 28; n < 80; n++) {
		struct api_reply r = {0};
		char word[100];

		(void)snprintf(word, sizeof(word), "%0*d", n, 0);
		api_status(&r, 409, word, "x");
		api_expect_reply(fix.api, "GET", "/a", &r);
		assert_int_equal(kube_get(fix.k, "/a", 1000, NULL, &fix.e), ERR_CONFLICT);
		assert_string_equal(fix.e.reason, n < 32 ? word : "");
	}
	/* Plain text, which the API server's filters write. */
	api_expect(fix.api, "GET", "/a", 429, "Too many requests, please try again later.\n");
	assert_int_equal(kube_get(fix.k, "/a", 1000, NULL, &fix.e), ERR_IO);
	assert_non_null(strstr(fix.e.msg, "429 Too many requests, please try again later."));
	api_expect(fix.api, "GET", "/a", 503, "");
	assert_int_equal(kube_get(fix.k, "/a", 1000, NULL, NULL), ERR_IO);
}

static bool never(void *ctx)
{
	(void)ctx;
	return false;
}

TEST(test_no_answer)
{
	struct api_reply late = {.delay_ms = 2500}, cut = {.cut = true};
	struct kube_call call = {.method = "GET", .path = "/never", .go_on = never};
	int64_t began = api_now_ms();

	api_expect_reply(fix.api, "GET", "/a", &late);
	assert_int_equal(kube_get(fix.k, "/a", 200, &fix.a, &fix.e), ERR_TIMEOUT);
	assert_int_equal(fix.a.status, 0);
	kube_answer_release(&fix.a);
	api_expect_reply(fix.api, "GET", "/never", &late);
	assert_int_equal(kube_do(fix.k, &call, NULL, &fix.e), ERR_TIMEOUT);
	assert_true(api_now_ms() - began < 2000);
	/* libcurl asks a second time when an old connection closes. */
	api_expect_reply(fix.api, "GET", "/cut", &cut);
	api_expect_reply(fix.api, "GET", "/cut", &cut);
	assert_int_equal(kube_get(fix.k, "/cut", 1000, NULL, &fix.e), ERR_IO);
	api_down(fix.api);
	assert_int_equal(kube_get(fix.k, "/a", 1000, NULL, &fix.e), ERR_IO);
	api_up(fix.api);
	api_expect(fix.api, "GET", "/b", 200, "{}");
	assert_int_equal(kube_get(fix.k, "/b", 1000, NULL, &fix.e), 0);
}

TEST(test_token_file)
{
	char path[] = "/tmp/poolgate-test-XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	fix.config.token_file = path;
	fix.config.token = "not this";
	write_text(path, " first\n");
	api_expect(fix.api, "GET", "/a", 200, "{}");
	assert_int_equal(kube_get(fix.k, "/a", 1000, NULL, &fix.e), 0);
	assert_string_equal(api_seen(fix.api, 0)->token, "first");
	write_text(path, "second\n");
	api_expect(fix.api, "GET", "/a", 200, "{}");
	assert_int_equal(kube_get(fix.k, "/a", 1000, NULL, &fix.e), 0);
	assert_string_equal(api_seen(fix.api, 1)->token, "second");
	/* one without a token, one that is no file, none */
	write_text(path, " \n");
	api_expect(fix.api, "GET", "/a", 200, "{}");
	assert_int_equal(kube_get(fix.k, "/a", 1000, NULL, &fix.e), 0);
	assert_string_equal(api_seen(fix.api, 2)->token, "");
	fix.config.token_file = "/tmp";
	assert_int_equal(kube_get(fix.k, "/a", 1000, NULL, &fix.e), ERR_IO);
	assert_non_null(strstr(fix.e.msg, "/tmp"));
	fix.config.token_file = path;
	unlink(path);
	assert_int_equal(kube_get(fix.k, "/a", 1000, &fix.a, &fix.e), ERR_NOTFOUND);
	kube_answer_release(&fix.a);
}

/* ---- lists ---- */

struct heard {
	int begun, n, stop_at;
	char names[256];
};

static void on_begin(void *ctx)
{
	struct heard *h = ctx;

	h->begun++;
	h->n = 0;
	h->names[0] = '\0';
}

static bool on_each(void *ctx, const struct json *j, const struct json_node *object)
{
	struct kube_meta meta = kube_meta(j, object);
	struct heard *h = ctx;

	snprintf(h->names + strlen(h->names), sizeof(h->names) - strlen(h->names), "%.*s ",
		(int)meta.name.len, meta.name.at);
	return ++h->n != h->stop_at;
}

#define ITEM(name) "{\"metadata\":{\"name\":\"" name "\"}}"
#define PAGE(more, items)                                                                          \
	"{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"77\",\"continue\":\"" more      \
	"\"},\"items\":[" items "]}"

TEST(test_list)
{
	struct heard h = {0};
	char version[32] = "";

	api_expect(fix.api, "GET", "/p?limit=500", 200, PAGE("a/b=", ITEM("one") "," ITEM("two")));
	api_expect(fix.api, "GET", "/p?limit=500&continue=a%2Fb%3D", 200, PAGE("", ITEM("three")));
	if (kube_list(fix.k, "/p", 2000, on_begin, on_each, &h, version, &fix.e) != 0)
		fail_msg("%s", fix.e.msg);
	assert_string_equal(h.names, "one two three ");
	assert_int_equal(h.begun, 1);
	assert_string_equal(version, "77");
	/* With a query; nothing in it. */
	h = (struct heard){0};
	api_expect(fix.api, "GET", "/p?labelSelector=x&limit=500", 200,
		"{\"metadata\":{\"resourceVersion\":\"78\"},\"items\":null}");
	assert_int_equal(
		kube_list(fix.k, "/p?labelSelector=x", 2000, NULL, on_each, &h, version, &fix.e),
		0);
	assert_int_equal(h.n, 0);
	assert_string_equal(version, "78");
	/* Ended by whoever listens. */
	h = (struct heard){.stop_at = 1};
	api_expect(fix.api, "GET", "/p?limit=500", 200, PAGE("c", ITEM("one") "," ITEM("two")));
	assert_int_equal(
		kube_list(fix.k, "/p", 2000, NULL, on_each, &h, version, &fix.e), ERR_REFUSED);
	assert_int_equal(h.n, 1);
	assert_int_equal(api_left(fix.api), 0);
}

static void expect_gone(struct fixture *f, const char *path)
{
	struct api_reply r = {0};

	api_status(&r, 410, "Expired", "The provided continue parameter is too old");
	api_expect_reply(f->api, "GET", path, &r);
}

TEST(test_list_too_old)
{
	struct heard h = {0};
	char version[32];

	for (int i = 0; i < 2; i++) {
		api_expect(fix.api, "GET", "/p?limit=500", 200, PAGE("c", ITEM("old")));
		expect_gone(&fix, "/p?limit=500&continue=c");
	}
	api_expect(fix.api, "GET", "/p?limit=500", 200, PAGE("c", ITEM("new")));
	api_expect(fix.api, "GET", "/p?limit=500&continue=c", 200, PAGE("", ITEM("last")));
	assert_int_equal(kube_list(fix.k, "/p", 2000, on_begin, on_each, &h, version, &fix.e), 0);
	assert_string_equal(h.names, "new last ");
	assert_int_equal(h.begun, 3);
	assert_int_equal(api_left(fix.api), 0);
	/* Not for ever. */
	h = (struct heard){0};
	for (int i = 0; i < 3; i++) {
		api_expect(fix.api, "GET", "/p?limit=500", 200, PAGE("c", ITEM("old")));
		expect_gone(&fix, "/p?limit=500&continue=c");
	}
	assert_int_equal(
		kube_list(fix.k, "/p", 2000, on_begin, on_each, &h, version, &fix.e), ERR_INVALID);
	assert_string_equal(fix.e.reason, "Expired");
	assert_int_equal(h.begun, 3);
	assert_int_equal(api_left(fix.api), 0);
}

TEST(test_no_list)
{
	static const char *const bad[] = {"{}", "[]", "{\"items\":[]}", "",
		"{\"items\":{},\"metadata\":{\"resourceVersion\":\"1\"}}",
		"{\"items\":[],\"metadata\":{\"resourceVersion\":\"\"}}",
		"{\"items\":[],\"metadata\":{\"resourceVersion\":"
		"\"12345678901234567890123456789012\"}}",
		"no json"};
	struct api_reply late = {.delay_ms = 300, .body = strdup(PAGE("c", ITEM("x")))};
	struct heard h = {0};
	char version[32];

	for (size_t i = 0; i < COUNT(bad); i++) {
		api_expect(fix.api, "GET", "/p?limit=500", 200, bad[i]);
		if (kube_list(fix.k, "/p", 2000, NULL, on_each, &h, version, &fix.e) != ERR_SYNTAX)
			fail_msg("%s", bad[i]);
	}
	/* timeout_ms is for all pages. */
	api_expect_reply(fix.api, "GET", "/p?limit=500", &late);
	late.body = strdup("x");
	api_expect_reply(fix.api, "GET", "/p?limit=500&continue=c", &late);
	assert_int_equal(
		kube_list(fix.k, "/p", 400, NULL, on_each, &h, version, &fix.e), ERR_TIMEOUT);
}

/* ---- the rest ---- */

TEST(test_meta)
{
	static const char text[] =
		"{\"metadata\":{\"name\":\"a\",\"namespace\":\"b\",\"uid\":\"c\","
		"\"resourceVersion\":\"12\",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"}}";
	struct json j = {0};
	struct kube_meta m;
	struct err e = {0};
	char *copy;

	assert_int_equal(json_read_copy(&j, text, strlen(text), 100, &copy, &e), 0);
	m = kube_meta(&j, json_root(&j));
	assert_true(slice_is(m.name, "a") && slice_is(m.namespace, "b") && slice_is(m.uid, "c"));
	assert_true(slice_is(m.version, "12") && m.deleting);
	free(copy);
	assert_int_equal(
		json_read_copy(&j, "{\"metadata\":{\"name\":\"\\u0061\"}}", 30, 100, &copy, &e), 0);
	m = kube_meta(&j, json_root(&j));
	assert_true(!m.name.at && !m.uid.at && !m.deleting);
	free(copy);
	json_release(&j);
	m = kube_meta(&j, NULL);
	assert_null(m.name.at);
	assert_int_equal(kube_version_number(SLICE("123")), 123);
	assert_int_equal(kube_version_number(SLICE("12a")), 0);
	assert_int_equal(kube_version_number((struct slice){0}), 0);
}

TEST(test_date)
{
	static const struct {
		const char *head;
		int64_t s; /* 0: none */
	} cases[] = {
		{"HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n", 784111777},
		{"date:Sun, 06 Nov 1994 08:49:37 GMT", 784111777},
		{"X-Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n", 0},
		{"", 0},
		{"Date:", 0},
		{"Date: Sun, 06 Nov 1994 08:49:37 CET\r\n", 0},
		{"Date: Sun, 06 Nov 1994 08:49:37 GMT x\r\n", 0},
		{"Date: Sun, 06 nov 1994 08:49:37 GMT\r\n", 0},
		{"Date: Sun, 06 anF 1994 08:49:37 GMT\r\n", 0},
		{"Date: Sat, 01 Jan 1994 00:00:00 GMT\r\n", 757382400},
		{"Date: Sat, 31 Dec 1994 23:59:59 GMT\r\n", 788918399},
		{"Date: Sun, 060 Nov 1994 08:49:37 GMT\r\n", 0},
		{"Date: Sun, 06 No 1994 08:49:37 GMT\r\n", 0},
		{"Date: Sun, 06 Nov 19944 08:49:37 GMT\r\n", 0},
		{"Date: Sun, 06 Nov 1994 08:49:370 GMT\r\n", 0},
		{"Date: Sun, 31 Feb 1994 08:49:37 GMT\r\n", 0},
		{"Date: Sun, 06 Nov 1994 25:49:37 GMT\r\n", 0},
		{"Date: Sun, 6 Nov 1994 08:49:37 GMT\r\n", 0},
		{"Date: Sunday, 06-Nov-94 08:49:37 GMT\r\n", 0},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		int64_t s = 0;

		assert_int_equal(kube_date(slice_of(cases[i].head), &s), cases[i].s != 0);
		assert_int_equal(s, cases[i].s);
	}
}

/* Ours, unless it is more than a minute ahead of the API server's. */
TEST(test_clock)
{
	struct api_reply old = {.header = "Date: Thu, 02 Jan 2020 00:00:10 GMT\r\n"},
			 next = {.header = "Date: Thu, 02 Jan 2120 00:00:10 GMT\r\n"};
	const int64_t at = INT64_C(1577923210000) + KUBE_AHEAD_MS;
	int64_t before = clock_wall_ms(), now = kube_wall_ms(fix.k);

	assert_true(now >= before && now <= clock_wall_ms());
	api_expect_reply(fix.api, "GET", "/a", &old);
	assert_int_equal(kube_get(fix.k, "/a", 0, NULL, &fix.e), 0);
	now = kube_wall_ms(fix.k);
	assert_true(now >= at && now < at + 60000);
	/* and goes on */
	api_nap(30);
	assert_true(kube_wall_ms(fix.k) >= now + 20);
	/* an answer without a date changes nothing, a refusal has one, too */
	api_expect(fix.api, "GET", "/a", 200, "{}");
	assert_int_equal(kube_get(fix.k, "/a", 0, NULL, &fix.e), 0);
	assert_true(kube_wall_ms(fix.k) < at + 60000);
	next.status = 404;
	api_expect_reply(fix.api, "GET", "/a", &next);
	assert_int_equal(kube_get(fix.k, "/a", 0, NULL, &fix.e), ERR_NOTFOUND);
	before = clock_wall_ms();
	assert_true(kube_wall_ms(fix.k) >= before);
}

TEST(test_path)
{
	static const struct {
		const char *api, *namespace, *plural, *name, *sub, *path;
	} cases[] = {
		{"/api/v1", NULL, "nodes", NULL, NULL, "/api/v1/nodes"},
		{"/api/v1", "a", "pods", "b", "status", "/api/v1/namespaces/a/pods/b/status"},
		{"/apis/poolgate.io/v1alpha1", NULL, "gpuservers", "g/ 1", "status",
			"/apis/poolgate.io/v1alpha1/gpuservers/g%2F%201/status"},
	};

	for (size_t i = 0; i < 3; i++) {
		struct buf b;

		buf_init(&b, 200);
		kube_path(&b, cases[i].api, cases[i].namespace, cases[i].plural, cases[i].name,
			cases[i].sub);
		assert_string_equal(b.data, cases[i].path);
		buf_release(&b);
	}
	/* Without room for all of it there is none: its beginning would be another one. */
	for (size_t max = 0; max < strlen(cases[1].path); max++) {
		struct buf b;

		buf_init(&b, max);
		kube_path(&b, cases[1].api, cases[1].namespace, cases[1].plural, cases[1].name,
			cases[1].sub);
		assert_null(b.data);
		assert_true(b.failed && b.full);
	}
}

TEST(no_path_is_no_question)
{
	struct kube_answer answer;

	assert_int_equal(kube_get(fix.k, NULL, 0, &answer, &fix.e), ERR_NOMEM);
	assert_string_equal(fix.e.msg, "GET: out of memory for the path");
	kube_answer_release(&answer);
}

TEST(test_tell)
{
	struct kube_event event = {.api_version = "v1",
		.kind = "Pod",
		.namespace = SLICE("ml"),
		.name = SLICE("train"),
		.uid = SLICE("u-1"),
		.type = "Warning",
		.reason = "Adopted",
		.note = "more than \"fits\"",
		.component = "poolgate"};
	const struct api_request *seen;
	char *note = calloc(1, 3000);
	struct json j = {0};

	api_expect(fix.api, "POST", "/api/v1/namespaces/ml/events", 201, "{}");
	assert_int_equal(kube_tell(fix.k, &event, &fix.e), 0);
	seen = api_last(fix.api, "POST", "*");
	assert_int_equal(json_read(&j, seen->body, seen->body_len, 100, &fix.e), 0);
	const struct json_node *o = json_path(&j, json_root(&j), "involvedObject", NULL);
	assert_true(json_is_str(&j, json_get(&j, o, SLICE("uid")), SLICE("u-1")));
	assert_true(json_is_str(&j, json_get(&j, o, SLICE("namespace")), SLICE("ml")));
	assert_non_null(strstr(seen->body, "\"message\":\"more than \\\"fits\\\"\""));
	assert_non_null(strstr(seen->body, "\"generateName\":\"train.\""));
	/* About what has no namespace; a long note is cut. */
	memset(note, 'x', 2999);
	event.namespace = (struct slice){0};
	event.note = note;
	api_expect(fix.api, "POST", "/api/v1/namespaces/default/events", 201, "{}");
	assert_int_equal(kube_tell(fix.k, &event, &fix.e), 0);
	note[1024] = '\0';
	seen = api_last(fix.api, "POST", "/api/v1/namespaces/default/events");
	assert_non_null(strstr(seen->body, note));
	assert_null(strstr(seen->body, "xxxxx,"));
	assert_true(seen->body_len < 1024 + 700);
	assert_int_equal(kube_tell(fix.k, &event, &fix.e), ERR_NOTFOUND);
	json_release(&j);
	free(note);
}

static void *call_often(void *arg)
{
	struct fixture *f = arg;

	for (int i = 0; i < 20; i++) {
		struct err e = {0};

		if (kube_get(f->k, "/slow", 5000, NULL, &e) != 0)
			return arg;
	}
	return NULL;
}

static int slowly(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	(void)ctx, (void)req;
	api_text(reply, 200, "{}");
	reply->delay_ms = 5;
	return 0;
}

/* 8 threads at a time: 160 calls of 5 ms are no 800 ms, and nobody gets another's answer. */
TEST(test_threads)
{
	struct fixture f;
	pthread_t t[8];
	void *failed;

	fixture_init(&f, slowly, NULL);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&t[i], NULL, call_often, &f), 0);
	for (size_t i = 0; i < 8; i++) {
		pthread_join(t[i], &failed);
		assert_null(failed);
	}
	assert_int_equal(api_seen_of(f.api, "GET", "/slow"), 160);
	fixture_release(&f);
	kube_free(NULL);
}

TESTS_BETWEEN(set_up, tear_down, test_get, test_write, at_a_place, test_errors, test_no_answer,
	test_token_file, test_list, test_list_too_old, test_no_list, test_meta, test_date,
	test_clock, test_path, no_path_is_no_question, test_tell, test_threads)
