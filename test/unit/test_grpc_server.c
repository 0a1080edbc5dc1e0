/* SPDX-License-Identifier: Apache-2.0 */
/* test: calls and streams of the gRPC server, over real sockets, as a client of another making sees
 * them. */
#include <poll.h>

#include "base/clock.h"
#include "test/unit/grpc_fixture.h"
#include "test/unit/test.h"

/* Of each test; who opens the peer need not close it. */
static struct grpc_fixture *f;
static struct peer p;

FIXTURE(set_up)
{
	int rc = grpc_fixture_start(state);

	f = *state;
	return rc;
}

FIXTURE(tear_down)
{
	if (p.f)
		peer_close(&p);
	return grpc_fixture_end(state);
}

static void assert_status(const struct answer *a, const char *status, const char *message)
{
	assert_true(a->closed && a->ended);
	assert_string_equal(a->http, "200");
	assert_string_equal(a->type, "application/grpc");
	assert_string_equal(a->status, status);
	assert_string_equal(a->message, message);
}

static void assert_text(const struct answer *a, const char *text)
{
	assert_status(a, "0", "");
	assert_int_equal(a->body.len, GRPC_PREFIX + strlen(text));
	assert_int_equal(a->body.data[0], 0);
	assert_int_equal((unsigned char)a->body.data[4], strlen(text) & 255);
	assert_memory_equal(a->body.data + GRPC_PREFIX, text, strlen(text));
	assert_int_equal(a->error, NGHTTP2_NO_ERROR);
}

TEST(a_call)
{
	peer_open(f, &p);
	assert_text(peer_call(&p, "/test.T/Echo", "hello"), "hello");
	assert_text(peer_call(&p, "/test.T/Echo", ""), "");
	assert_int_equal(f->calls, 2);
	peer_close(&p);
	/* the client's end frees all that it had */
	assert_int_equal(grpc_server_load(f->server).connections, 0);
	assert_int_equal(grpc_server_load(f->server).kept, 0);
}

TEST(settings_come_first)
{
	int fd = raw_connect(f);
	uint8_t head[9];

	(void)grpc_server_turn(f->server);
	assert_int_equal(read(fd, head, sizeof(head)), 9);
	assert_int_equal(head[3], NGHTTP2_SETTINGS);
	assert_int_equal(head[4], 0);
	(void)close(fd);
}

TEST(headers_are_not_judged)
{
	static const struct {
		const char *path, *method, *type, *authority, *http, *status, *message;
	} cases[] = {
		{"/test.T/Echo", NULL, NULL, "/var/lib/kubelet/device-plugins/x.sock", "200", "0",
			""},
		{"/test.T/Echo", NULL, NULL, "", "200", "0", ""},
		{"/test.T/Echo", NULL, "application/grpc+proto", NULL, "200", "0", ""},
		{"/test.T/Echo", NULL, "application/grpc; charset=x", NULL, "200", "0", ""},
		{"/test.T/Echo", NULL, "application/grpc-web", NULL, "415", "", ""},
		{"/test.T/Echo", NULL, "application/grpc+json", NULL, "415", "", ""},
		{"/test.T/Echo", NULL, "application/json", NULL, "415", "", ""},
		{"/test.T/Echo", NULL, "", NULL, "415", "", ""},
		{"/test.T/Echo", "GET", NULL, NULL, "405", "", ""},
		{"/test.T/Ech", NULL, NULL, NULL, "200", "12", "there is no such method"},
		{"/test.T/Echo/", NULL, NULL, NULL, "200", "12", "there is no such method"},
		{"", NULL, NULL, NULL, "200", "12", "there is no such method"},
	};
	struct buf body = framed("x", 1);

	peer_open(f, &p);
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct request r = {cases[i].path, cases[i].method, cases[i].type,
			cases[i].authority, buf_as_slice(&body), false};
		struct answer *a = peer_send(&p, &r);

		assert_true(grpc_fixture_turn(f, &p, answer_closed, a, 5000));
		assert_string_equal(a->http, cases[i].http);
		assert_string_equal(a->status, cases[i].status);
		assert_string_equal(a->message, cases[i].message);
	}
	buf_release(&body);
}

TEST(refusals_are_told_in_trailers)
{
	struct answer *a;

	peer_open(f, &p);
	a = peer_call(&p, "/test.T/Fail", "");
	assert_status(a, "9", "d%C3%A9j%C3%A0 100%25 \"so\"");
	assert_int_equal(a->body.len, 0);
	a = peer_call(&p, "/test.T/Deny", "not shown");
	assert_status(a, "14", "not today");
	assert_int_equal(a->body.len, 0);
	assert_int_equal(f->closed, 0);
}

/* Each body, and what is said of it. */
TEST(messages_that_are_none)
{
	static const struct {
		struct slice body;
		const char *status, *message;
	} cases[] = {
		{{"", 0}, "12", "no message"},
		{{"\0\0\0", 3}, "13", "the request ends within its message"},
		{{"\0\0\0\0\5hell", 9}, "13", "the request ends within its message"},
		{{"\0\0\0\0\1a\0\0\0\0\1b", 12}, "12", "more than one message"},
		{{"\0\0\0\0\0\0", 6}, "12", "more than one message"},
		{{"\1\0\0\0\1a", 6}, "12", "compressed messages are not understood"},
		{{"\7\0\0\0\1a", 6}, "13", "a message with unknown flags"},
		{{"\0\0\x40\0\1a", 6}, "8", "the message is longer than 4 MiB"},
		{{"\0\xff\xff\xff\xff", 5}, "8", "the message is longer than 4 MiB"},
	};

	peer_open(f, &p);
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct answer *a = peer_send(
			&p, &(struct request){.path = "/test.T/Echo", .body = cases[i].body});

		assert_true(grpc_fixture_turn(f, &p, answer_closed, a, 5000));
		assert_status(a, cases[i].status, cases[i].message);
	}
	assert_int_equal(f->calls, 0);
	assert_int_equal(grpc_server_load(f->server).kept, 0);
	assert_false(p.gone);
}

/* What is wrong is told while the client still sends; it is asked to stop, and the connection goes
 * on. */
TEST(an_answer_before_the_end)
{
	struct answer *a;

	peer_open(f, &p);
	a = peer_send(&p,
		&(struct request){
			.path = "/test.T/Echo", .body = {"\0\x7f\0\0\0", 5}, .unfinished = true});
	assert_true(grpc_fixture_turn(f, &p, answer_closed, a, 5000));
	assert_status(a, "8", "the message is longer than 4 MiB");
	assert_int_equal(a->error, NGHTTP2_NO_ERROR);
	a = peer_send(&p, &(struct request){.path = "/none", .unfinished = true});
	assert_true(grpc_fixture_turn(f, &p, answer_closed, a, 5000));
	assert_status(a, "12", "there is no such method");
	assert_text(peer_call(&p, "/test.T/Echo", "on"), "on");
}

TEST(long_messages)
{
	static const size_t sizes[] = {16384, 1200000, GRPC_REQUEST_MAX};
	char *text = malloc(GRPC_REQUEST_MAX);

	assert_non_null(text);
	for (size_t i = 0; i < GRPC_REQUEST_MAX; i++)
		text[i] = (char)(i * 31 + i / 4096);
	peer_open(f, &p);
	for (size_t i = 0; i < COUNT(sizes); i++) {
		struct buf body = framed(text, sizes[i]);
		struct answer *a = peer_send(
			&p, &(struct request){.path = "/test.T/Echo", .body = buf_as_slice(&body)});

		assert_true(grpc_fixture_turn(f, &p, answer_closed, a, 20000));
		assert_status(a, "0", "");
		assert_int_equal(a->body.len, body.len);
		assert_memory_equal(a->body.data, body.data, body.len);
		buf_release(&body);
	}
	assert_int_equal(grpc_server_load(f->server).kept, 0);
	/* what comes back must not be longer than clients take */
	assert_status(peer_call(&p, "/test.T/Size", "4194304"), "0", "");
	assert_status(
		peer_call(&p, "/test.T/Size", "4194305"), "8", "the answer is longer than 4 MiB");
	free(text);
}

/* ---- streams ---- */

static struct answer *watch(const char *first)
{
	struct buf body = framed(first, strlen(first));
	struct answer *a = peer_send(
		&p, &(struct request){.path = "/test.T/Watch", .body = buf_as_slice(&body)});

	(void)grpc_fixture_turn(f, &p, NULL, NULL, 0);
	grpc_fixture_settle(f, &p);
	buf_release(&body);
	return a;
}

static void show(size_t i, const char *text)
{
	assert_int_equal(grpc_stream_show(f->open[i], slice_of(text), NULL), 0);
}

static void assert_body(const struct answer *a, const char *framed_text, size_t len)
{
	assert_int_equal(a->body.len, len);
	assert_memory_equal(a->body.data, framed_text, len);
}

TEST(a_stream)
{
	struct pollfd readable = {.events = POLLIN};
	struct answer *a;

	peer_open(f, &p);
	a = watch("a");
	assert_int_equal(f->n_open, 1);
	assert_true(a->headers && !a->ended);
	assert_body(a, "\0\0\0\0\1a", 6);
	/* what is shown from outside of a turn makes the server want one */
	readable.fd = grpc_server_fd(f->server);
	assert_int_equal(poll(&readable, 1, 0), 0);
	show(0, "bc");
	assert_int_equal(poll(&readable, 1, 0), 1);
	grpc_fixture_settle(f, &p);
	assert_body(a, "\0\0\0\0\1a\0\0\0\0\2bc", 13);
	/* of those that nobody could see, the last one counts */
	show(0, "1");
	show(0, "2");
	show(0, "3");
	grpc_fixture_settle(f, &p);
	assert_body(a, "\0\0\0\0\1a\0\0\0\0\2bc\0\0\0\0\0013", 19);
	/* calls go on beside it */
	assert_text(peer_call(&p, "/test.T/Echo", "x"), "x");
	assert_int_equal(nghttp2_submit_rst_stream(p.session, 0, a->id, NGHTTP2_CANCEL), 0);
	grpc_fixture_settle(f, &p);
	assert_int_equal(f->closed, 1);
}

TEST(a_stream_without_a_message)
{
	struct answer *a;

	peer_open(f, &p);
	a = watch("");
	assert_true(a->headers && !a->ended);
	assert_int_equal(a->body.len, 0);
	show(0, "");
	grpc_fixture_settle(f, &p);
	assert_body(a, "\0\0\0\0\0", 5);
	peer_close(&p);
	assert_int_equal(f->closed, 1);
}

/* A window of 100 bytes: what is half sent stays whole, what waits behind it is the newest. */
TEST(a_slow_reader)
{
	char *text = calloc(1, 500001);
	struct answer *a;
	struct err err = {0};

	assert_non_null(text);
	memset(text, 'x', 500000);
	p.window = 100;
	peer_open(f, &p);
	a = watch("");
	p.deaf = true;
	show(0, text);
	grpc_fixture_settle(f, &p);
	/* it has begun to go: what is shown from now on waits behind it */
	for (int i = 0; i < 50; i++)
		show(0, "old");
	show(0, "new");
	p.deaf = false;
	grpc_fixture_settle(f, &p);
	assert_int_equal(a->body.len, 500005 + 8);
	assert_memory_equal(a->body.data + GRPC_PREFIX, text, 500000);
	assert_memory_equal(a->body.data + 500005, "\0\0\0\0\3new", 8);
	assert_int_equal(
		grpc_stream_show(f->open[0], (struct slice){text, GRPC_MESSAGE_MAX + 1}, &err),
		ERR_TOOBIG);
	free(text);
}

static bool answer_ended(void *answer)
{
	const struct answer *a = answer;

	return a->ended;
}

/* The end of the server: what was shown last arrives, then a status, and the socket is gone. */
TEST(the_end)
{
	struct answer *a;

	peer_open(f, &p);
	a = watch("all is well");
	show(0, "all is over");
	grpc_server_free(f->server, 1000);
	f->server = NULL;
	assert_int_equal(f->closed, 1);
	assert_int_not_equal(access(f->path, F_OK), 0);
	f->no_server_turn = true;
	assert_true(grpc_fixture_turn(f, &p, answer_ended, a, 1000));
	assert_status(a, "14", "the device plugin ends");
	assert_memory_equal(a->body.data + a->body.len - 11, "all is over", 11);
	assert_true(grpc_fixture_turn(f, &p, peer_gone, &p, 1000));
	assert_true(p.goaway);
	f->no_server_turn = false;
	assert_int_equal(
		grpc_server_new(f->path, grpc_fixture_methods, f, &f->log, &f->server, NULL), 0);
}

/* An old client that holds its stream does not hold up the end. */
TEST(the_end_waits_for_nobody)
{
	int64_t began;

	p.window = 1;
	p.deaf = true;
	peer_open(f, &p);
	(void)watch("is not read");
	began = clock_ms();
	grpc_server_free(f->server, 200);
	assert_in_range(clock_ms() - began, 190, 15000);
	f->server = NULL;
	assert_int_equal(f->closed, 1);
	assert_int_equal(
		grpc_server_new(f->path, grpc_fixture_methods, f, &f->log, &f->server, NULL), 0);
}

/* Nothing open, or only what waits: nothing to do, for ever. */
TEST(idle)
{
	struct pollfd readable = {.events = POLLIN};

	readable.fd = grpc_server_fd(f->server);
	assert_int_equal(poll(&readable, 1, 50), 1); /* its own socket came to be */
	assert_int_equal(grpc_server_turn(f->server), -1);
	assert_int_equal(poll(&readable, 1, 50), 0);
	peer_open(f, &p);
	(void)watch("a");
	grpc_fixture_settle(f, &p);
	assert_int_equal(grpc_server_turn(f->server), -1);
	assert_int_equal(poll(&readable, 1, 100), 0);
	peer_close(&p);
	assert_int_equal(grpc_server_turn(f->server), -1);
	assert_int_equal(poll(&readable, 1, 50), 0);
}

TESTS_BETWEEN(set_up, tear_down, a_call, settings_come_first, headers_are_not_judged,
	refusals_are_told_in_trailers, messages_that_are_none, an_answer_before_the_end,
	long_messages, a_stream, a_stream_without_a_message, a_slow_reader, the_end,
	the_end_waits_for_nobody, idle)
