/* SPDX-License-Identifier: Apache-2.0 */
/* test: what a hostile or broken client can cost the gRPC server: bytes, time, connections. After
 * each the others are served. */
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "test/unit/grpc_fixture.h"
#include "test/unit/test.h"

#define MB 1000000u

/* Of each test: the server, and what a client writes, which begins as it should. */
static struct grpc_fixture *f;
static struct buf b;

FIXTURE(set_up)
{
	int rc = grpc_fixture_start(state);

	f = *state;
	buf_init(&b, 32 * MB);
	raw_hello(&b);
	return rc;
}

FIXTURE(tear_down)
{
	buf_release(&b);
	return grpc_fixture_end(state);
}

static void assert_served(void)
{
	struct peer p = {0};

	peer_open(f, &p);
	assert_string_equal(peer_call(&p, "/test.T/Echo", "x")->status, "0");
	peer_close(&p);
}

static void assert_log(const char *what)
{
	char *log = grpc_fixture_log(f);

	if (!strstr(log, what))
		fail_msg("no \"%s\" in:\n%s", what, log);
	free(log);
}

/* Write that and see the server hang up, with this in its log. */
static void assert_dropped(const char *why)
{
	int fd = raw_connect(f);

	assert_false(b.failed);
	if (raw_write(f, fd, &b))
		assert_true(raw_ends(f, fd, 5000));
	(void)close(fd);
	grpc_fixture_settle(f, NULL);
	assert_int_equal(grpc_server_load(f->server).connections, 0);
	assert_int_equal(grpc_server_load(f->server).kept, 0);
	assert_log(why);
	assert_served();
}

TEST(no_http2)
{
	buf_clear(&b);
	buf_str(&b, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
	assert_dropped("it speaks no HTTP/2");
}

TEST(wrong_frames)
{
	static const struct {
		uint8_t type, flags;
		uint32_t stream;
		const char *payload;
		size_t len;
	} cases[] = {
		{NGHTTP2_DATA, 0, 0, "x", 1},           /* of no stream */
		{NGHTTP2_DATA, 0, 1, "x", 1},           /* of one that was not opened */
		{NGHTTP2_HEADERS, 5, 2, "", 0},         /* an even number */
		{NGHTTP2_HEADERS, 5, 1, "\xff\xff", 2}, /* no HPACK */
		{NGHTTP2_CONTINUATION, 4, 1, "", 0},    /* of nothing */
		{NGHTTP2_PING, 0, 0, "1234567", 7},     /* too short */
		{NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\0\0\0", 4},
		{NGHTTP2_PUSH_PROMISE, 4, 1, "\0\0\0\2", 4}, {NGHTTP2_SETTINGS, 0, 0, "12345", 5},
		{NGHTTP2_SETTINGS, 0, 0, "\0\4\xff\xff\xff\xff", 6}, /* too large a window */
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		int fd = raw_connect(f);

		buf_clear(&b);
		raw_hello(&b);
		raw_frame(&b, cases[i].type, cases[i].flags, cases[i].stream, cases[i].payload,
			cases[i].len);
		assert_true(raw_write(f, fd, &b));
		assert_true(raw_ends(f, fd, 5000));
		(void)close(fd);
	}
	assert_served();
	/* not one line for each */
	assert_log("a client was dropped");
}

/* Frames that this server does not know are passed over. */
TEST(unknown_frames)
{
	int fd = raw_connect(f);

	for (unsigned type = 10; type < 256; type++)
		raw_frame(&b, (uint8_t)type, 0xff, type, "what is this", 12);
	raw_headers(&b, 1, "/test.T/Echo", 0);
	raw_frame(&b, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "\0\0\0\0\1x", 6);
	assert_true(raw_write(f, fd, &b));
	assert_false(raw_ends(f, fd, 50));
	assert_int_equal(f->calls, 1);
	(void)close(fd);
}

/* Of two paths none is called. */
TEST(two_paths)
{
	static const char block[] = "\x83\x86\0\5:path\014/test.T/Echo\0\5:path\014/test.T/Echo"
				    "\x0f\x10\x10"
				    "application/grpc";
	int fd = raw_connect(f);
	char bytes[4096];
	ssize_t n;

	raw_frame(&b, NGHTTP2_HEADERS, 4, 1, block, sizeof(block) - 1);
	raw_frame(&b, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "\0\0\0\0\1x", 6);
	assert_true(raw_write(f, fd, &b));
	grpc_fixture_settle(f, NULL);
	n = recv(fd, bytes, sizeof(bytes), 0);
	assert_true(n > 0 && f->calls == 0);
	(void)close(fd);
}

/* ---- floods ---- */

static void many(int n, uint8_t type, const char *payload, size_t len)
{
	for (int i = 0; i < n; i++)
		raw_frame(&b, type, 0, 0, payload, len);
}

TEST(ping_flood)
{
	many(50000, NGHTTP2_PING, "12345678", 8);
	assert_dropped("a flood of frames");
}

TEST(settings_flood)
{
	many(50000, NGHTTP2_SETTINGS, "", 0);
	assert_dropped("a flood of frames");
}

TEST(long_settings)
{
	char entries[6 * 2000] = {0};

	raw_frame(&b, NGHTTP2_SETTINGS, 0, 0, entries, sizeof(entries));
	assert_dropped("ENHANCE_YOUR_CALM");
}

TEST(continuation_flood)
{
	char block[4096];

	memset(block, 0x82, sizeof(block)); /* ":method: GET", again and again */
	raw_frame(&b, NGHTTP2_HEADERS, 0, 1, "", 0);
	for (int i = 0; i < 500; i++)
		raw_frame(&b, NGHTTP2_CONTINUATION, 0, 1, i < 9 ? "" : block, i < 9 ? 0 : 4096);
	assert_dropped("CONTINUATION");
}

/* One header of 4 kB in HPACK's table, named again by one byte each. */
TEST(header_bomb)
{
	char refer[4000];
	struct buf block;

	buf_init(&block, MB);
	buf_add(&block, "\x40\1x\x7f\x81\x1e", 6); /* to be kept: x: 4000 bytes */
	for (int i = 0; i < 4000; i++)
		buf_char(&block, 'x');
	memset(refer, 0xbe, sizeof(refer)); /* 62: the newest of the table */
	buf_add(&block, refer, sizeof(refer));
	raw_frame(&b, NGHTTP2_HEADERS, 5, 1, block.data, block.len);
	assert_dropped("headers over 16 KiB");
	buf_release(&block);
}

/* Headers, and trailers for ever. */
TEST(trailer_flood)
{
	raw_headers(&b, 1, "/test.T/Echo", 0);
	for (int i = 0; i < 1000; i++)
		raw_headers(&b, 1, "/test.T/Echo", 0);
	assert_dropped("headers over 16 KiB");
}

TEST(rapid_reset)
{
	size_t before;

	for (uint32_t i = 0; i < 20000; i++) {
		raw_headers(&b, 2 * i + 1, "/test.T/Echo", 0);
		raw_frame(&b, NGHTTP2_RST_STREAM, 0, 2 * i + 1, "\0\0\0\10", 4);
	}
	before = grpc_fixture_memory();
	assert_dropped("a client was dropped");
	assert_true(grpc_fixture_memory() < before + MB / 2);
}

/* Frames that make us reset our own streams, so that they do not count as the client's. */
TEST(wrong_updates)
{
	for (uint32_t i = 0; i < 20000; i++) {
		raw_headers(&b, 2 * i + 1, "/test.T/Echo", 0);
		raw_frame(&b, NGHTTP2_WINDOW_UPDATE, 0, 2 * i + 1, "\0\0\0\0", 4);
	}
	assert_dropped("a client was dropped");
}

/* ---- who does not read ---- */

/* 100 000 calls, and no answer is ever read: the server stops to listen to it. */
TEST(calls_without_end)
{
	int fd = raw_connect(f);
	size_t before;

	for (uint32_t i = 0; i < 100000; i++) {
		raw_headers(&b, 2 * i + 1, "/none", NGHTTP2_FLAG_END_STREAM);
	}
	before = grpc_fixture_memory();
	assert_false(raw_write(f, fd, &b));
	assert_true(grpc_fixture_memory() < before + MB / 2);
	assert_served();
	(void)close(fd);
}

/* Whatever is shown to those who do not read: one message that they began, and one that waits,
 * shared. */
TEST(listeners_that_do_not_read)
{
	struct peer p[2] = {{.window = 10}, {.window = 10}};
	char *text = calloc(1, 1000001);
	struct buf empty = framed("", 0);
	size_t before;

	assert_non_null(text);
	for (size_t k = 0; k < 2; k++) {
		peer_open(f, &p[k]);
		for (int i = 0; i < 10; i++)
			(void)peer_send(&p[k], &(struct request){.path = "/test.T/Watch",
						       .body = buf_as_slice(&empty)});
		grpc_fixture_settle(f, &p[k]);
		p[k].deaf = true;
	}
	assert_int_equal(f->n_open, GRPC_OPEN_MAX);
	/* those above the limit were told */
	assert_string_equal(p[1].answer[9].status, "8");
	assert_string_equal(p[1].answer[9].message, "too many clients listen already");
	before = grpc_fixture_memory();
	for (int round = 0; round < 50; round++) {
		memset(text, 'a' + round % 26, 1000000);
		for (size_t i = 0; i < f->n_open; i++)
			assert_int_equal(
				grpc_stream_show(f->open[i], (struct slice){text, 1000000}, NULL),
				0);
		grpc_fixture_settle(f, NULL);
	}
	assert_true(grpc_fixture_memory() < before + 2 * MB + MB / 2);
	assert_int_equal(grpc_server_turn(f->server), -1);
	peer_close(&p[0]);
	peer_close(&p[1]);
	assert_true(grpc_fixture_memory() <= before);
	buf_release(&empty);
	free(text);
}

/* Half a message on each of all the streams that there can be. */
TEST(requests_that_pile_up)
{
	static struct peer p[6];
	char *half = calloc(1, 2 * MB);
	size_t refused = 0;

	assert_non_null(half);
	memcpy(half, "\0\0\x3f\0\0", 5);
	for (size_t k = 0; k < 6; k++) {
		peer_open(f, &p[k]);
		for (int i = 0; i < 4; i++)
			(void)peer_send(&p[k], &(struct request){.path = "/test.T/Echo",
						       .body = {half, 2 * MB},
						       .unfinished = true});
		grpc_fixture_settle(f, &p[k]);
		assert_true(grpc_server_load(f->server).kept <= GRPC_KEPT_MAX);
	}
	for (size_t k = 0; k < 6; k++)
		for (size_t i = 0; i < 4; i++)
			refused += strcmp(p[k].answer[i].message,
					   "too much is being sent at a time") == 0;
	assert_true(refused >= 24 - 2 * 3);
	for (size_t k = 0; k < 6; k++)
		peer_close(&p[k]);
	assert_int_equal(grpc_server_load(f->server).kept, 0);
	assert_served();
	free(half);
}

/* ---- time ---- */

TEST(half_a_request)
{
	struct buf empty = framed("", 0);
	struct peer p = {0};
	int64_t began = clock_ms();
	int fd[4];

	grpc_server_patience(f->server, 300);
	/* a listener has all the time that it wants */
	peer_open(f, &p);
	(void)peer_send(
		&p, &(struct request){.path = "/test.T/Watch", .body = buf_as_slice(&empty)});
	grpc_fixture_settle(f, &p);
	buf_clear(&b);
	for (int i = 0; i < 4; i++) {
		fd[i] = raw_connect(f);
		assert_true(raw_write(f, fd[i], &b)); /* first nothing, then more and more */
		if (i == 0)
			raw_hello(&b);
		else if (i == 1)
			raw_frame(&b, NGHTTP2_HEADERS, 0, 1, "\x83", 1);
	}
	buf_clear(&b);
	raw_hello(&b);
	raw_headers(&b, 1, "/test.T/Echo", 0);
	raw_frame(&b, NGHTTP2_DATA, 0, 1, "\0\0\0\0\2x", 6);
	assert_true(raw_write(f, fd[3], &b) || true);
	assert_true(raw_ends(f, fd[0], 5000));
	assert_true(raw_ends(f, fd[2], 5000));
	assert_true(raw_ends(f, fd[3], 5000));
	assert_in_range(clock_ms() - began, 290, 15000);
	/* one that asks nothing may stay */
	assert_false(raw_ends(f, fd[1], 400));
	assert_false(p.gone);
	assert_int_equal(f->n_open, 1);
	for (int i = 0; i < 4; i++)
		(void)close(fd[i]);
	assert_log("a request that took too long");
	buf_release(&empty);
	peer_close(&p);
}

/* An answer that nobody takes is given up. */
TEST(an_answer_that_is_not_read)
{
	struct peer p = {.window = 10};
	struct buf body = framed("1000000", 7);

	peer_open(f, &p);
	(void)peer_send(&p, &(struct request){.path = "/test.T/Size", .body = buf_as_slice(&body)});
	p.deaf = true;
	grpc_fixture_settle(f, &p);
	assert_int_equal(grpc_server_load(f->server).kept, 1000000 + GRPC_PREFIX);
	grpc_server_patience(f->server, 100);
	(void)grpc_fixture_turn(f, &p, NULL, NULL, 300);
	assert_int_equal(grpc_server_load(f->server).kept, 0);
	assert_int_equal(grpc_server_load(f->server).connections, 0);
	buf_release(&body);
	peer_close(&p);
}

/* ---- numbers ---- */

TEST(streams_of_one)
{
	struct peer p = {0};
	struct answer *last = NULL;

	peer_open(f, &p);
	for (int i = 0; i <= GRPC_STREAMS_MAX; i++)
		last = peer_send(&p, &(struct request){.path = "/test.T/Echo", .unfinished = true});
	grpc_fixture_settle(f, &p);
	/* it did not know yet */
	assert_true(last->closed);
	assert_int_equal(last->error, NGHTTP2_REFUSED_STREAM);
	assert_false(p.answer[GRPC_STREAMS_MAX - 1].closed);
	peer_close(&p);
	assert_served();
}

TEST(connections)
{
	struct buf call;
	int fd[GRPC_CONNECTIONS_MAX + 3];

	buf_init(&call, MB);
	raw_hello(&call);
	raw_headers(&call, 1, "/test.T/Echo", 0);
	/* one that asks nothing makes room, the oldest of these first */
	for (int i = 0; i < GRPC_CONNECTIONS_MAX; i++) {
		fd[i] = raw_connect(f);
		assert_true(raw_write(f, fd[i], i == 3 || i == 7 ? &b : &call));
	}
	fd[GRPC_CONNECTIONS_MAX] = raw_connect(f);
	assert_true(raw_write(f, fd[GRPC_CONNECTIONS_MAX], &call));
	assert_true(raw_ends(f, fd[3], 1000));
	assert_false(raw_ends(f, fd[7], 50));
	fd[GRPC_CONNECTIONS_MAX + 1] = raw_connect(f);
	assert_true(raw_write(f, fd[GRPC_CONNECTIONS_MAX + 1], &call));
	assert_true(raw_ends(f, fd[7], 1000));
	grpc_fixture_settle(f, NULL);
	/* all are busy: the new one goes */
	fd[GRPC_CONNECTIONS_MAX + 2] = raw_connect(f);
	assert_true(raw_ends(f, fd[GRPC_CONNECTIONS_MAX + 2], 1000));
	assert_log("too many clients");
	for (int i = 0; i < GRPC_CONNECTIONS_MAX + 3; i++)
		(void)close(fd[i]);
	grpc_fixture_settle(f, NULL);
	assert_served();
	buf_release(&call);
}

/* Without descriptors nobody is let in, no time is lost, and later all is well. */
TEST(no_descriptors)
{
	struct pollfd readable = {.fd = grpc_server_fd(f->server), .events = POLLIN};
	int fd = raw_connect(f), due, last;
	struct rlimit before, none;

	last = dup(fd); /* the lowest that is free */
	(void)close(last);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = (rlim_t)last;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	for (int i = 0; i < 3; i++)
		due = grpc_server_turn(f->server);
	assert_in_range(due, 1, GRPC_RETRY_MS);
	assert_int_equal(poll(&readable, 1, 0), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_log("Too many open files");
	(void)grpc_fixture_turn(f, NULL, NULL, NULL, GRPC_RETRY_MS + 200);
	assert_true(raw_write(f, fd, &b));
	assert_false(raw_ends(f, fd, 50));
	assert_true(grpc_server_load(f->server).connections > 0);
	assert_served();
	(void)close(fd);
}

/* The log is bounded too. */
TEST(lines)
{
	char *log;
	size_t n = 0;

	buf_clear(&b);
	buf_str(&b, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
	for (int i = 0; i < 100; i++) {
		int fd = raw_connect(f);

		(void)raw_write(f, fd, &b);
		assert_true(raw_ends(f, fd, 1000));
		(void)close(fd);
	}
	log = grpc_fixture_log(f);
	for (const char *at = log; (at = strchr(at, '\n')); at++)
		n++;
	assert_in_range(n, 5, 12);
	free(log);
}

TESTS_BETWEEN(set_up, tear_down, no_http2, wrong_frames, unknown_frames, two_paths, ping_flood,
	settings_flood, long_settings, continuation_flood, header_bomb, trailer_flood, rapid_reset,
	wrong_updates, calls_without_end, listeners_that_do_not_read, requests_that_pile_up,
	half_a_request, an_answer_that_is_not_read, streams_of_one, connections, no_descriptors,
	lines)
