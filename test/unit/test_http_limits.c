/* SPDX-License-Identifier: Apache-2.0 */
/* test: what a hostile or broken client can cost the server: bytes, time, connections. */
#include <stdlib.h>
#include <sys/socket.h>

#include "net/http_rules.h"
#include "test/unit/http_fixture.h"
#include "test/unit/test.h"

#define JSON "Content-Type: application/json\r\n"

static struct fixture f;

FIXTURE(tear_down)
{
	return fixture_stop(&f, 1000) ? 0 : -1;
}

static char big[2 * 1024 * 1024];

static void post_head(int fd, const char *more)
{
	char head[512];
	(void)snprintf(
		head, sizeof(head), "POST /echo HTTP/1.1\r\nHost: h\r\n" JSON "%s\r\n", more);
	client_text(fd, head);
}

TEST(bodies_at_the_cap)
{
	fixture_start(&f, (struct http_config){.body_max = 50000});
	memset(big, 'x', sizeof(big));
	int fd = client_open(&f);
	client_posts(fd, "/echo", big, 50000, 200);
	assert_int_equal(strlen(strstr(client_reply, "\r\n\r\n") + 4), 50000);
	/* One byte more: the answer comes after the body, and the connection goes on. */
	client_posts(fd, "/echo", big, 50001, 413);
	assert_non_null(strstr(client_reply, "larger than this server reads"));
	client_posts(fd, "/echo", "{}", 2, 200);
	/* The same without a length. */
	post_head(fd, "Transfer-Encoding: chunked\r\n");
	client_text(fd, "c351\r\n");
	client_send(fd, big, 50001);
	client_text(fd, "\r\n0\r\n\r\n");
	client_gets(fd, 413);
	(void)close(fd);
	/* Who asks first is told at once. */
	fd = client_open(&f);
	post_head(fd, "Content-Length: 50001\r\nExpect: 100-continue\r\n");
	client_gets(fd, 413);
	assert_true(client_closed(fd, 1000));
	(void)close(fd);
	/* A promise of a gigabyte is not waited for. */
	fd = client_open(&f);
	post_head(fd, "Content-Length: 1000000000\r\n");
	client_gets(fd, 413);
	assert_true(client_closed(fd, 1000));
	(void)close(fd);
	/* Chunks without end are cut. */
	fd = client_open(&f);
	post_head(fd, "Transfer-Encoding: chunked\r\n");
	client_text(fd, "100000\r\n");
	client_send(fd, big, 0x100000);
	assert_true(client_closed(fd, 1000));
	(void)close(fd);
	assert_true(fixture_idle(&f));
	assert_int_equal(f.handled, 2);
}

TEST(body_growth)
{
	const size_t max = 8388608;
	assert_int_equal(
		http_body_grow(0, 1400, 6400, max), 6400); /* one allocation for a usual review */
	assert_int_equal(http_body_grow(0, 1400, 65536, max), 65536);
	assert_int_equal(
		http_body_grow(0, 1400, 1000000000, max), 65536); /* a promise is not believed */
	assert_int_equal(http_body_grow(65536, 65537, 8388608, max), 131072);
	assert_int_equal(http_body_grow(4194304, 4194305, 5000000, max), 5000000);
	assert_int_equal(http_body_grow(0, 100, 0, max), 8192); /* chunked */
	assert_int_equal(http_body_grow(8192, 8193, 0, max), 16384);
	assert_int_equal(http_body_grow(4194304, 8388608, 0, max), 8388608);
	assert_int_equal(http_body_grow(0, 10, 5, 100), 100);
	for (size_t need = 1, cap = 0; need < max; need += need / 3 + 1) {
		cap = http_body_grow(cap, need > cap ? need : cap, 0, max);
		assert_true(cap >= need && cap <= max);
	}
}

TEST(body_budget)
{
	fixture_start(&f, (struct http_config){.body_total = 100000, .body_small = 1});
	int holder = client_open(&f), fd = client_open(&f);
	post_head(holder, "Content-Length: 60000\r\n");
	client_send(holder, big, 30000);
	nap_ms(100);
	client_posts(fd, "/echo", big, 60000, 500);
	client_send(holder, big, 30000);
	client_gets(holder, 200);
	client_posts(fd, "/echo", big, 60000, 200);
	(void)close(holder);
	(void)close(fd);
}

/* What is small needs no room: so many bytes, and not one more. */
TEST(small_bodies_and_replies)
{
	fixture_start(&f, (struct http_config){.body_total = 60000, .body_small = 1000});
	int holder = client_open(&f), fd = client_open(&f);
	post_head(holder, "Content-Length: 60000\r\n");
	client_send(holder, big, 30000);
	nap_ms(100);
	for (size_t len = 999; len <= 1001; len++) {
		client_posts(fd, "/echo", big, len, len <= 1000 ? 200 : 500);
	}
	/* One that does not say how long it is counts as large. */
	post_head(fd, "Transfer-Encoding: chunked\r\n");
	client_text(fd, "2\r\n{}\r\n0\r\n\r\n");
	client_gets(fd, 500);
	client_send(holder, big, 30000);
	client_gets(holder, 200);
	(void)close(holder);
	(void)close(fd);
}

static int ask_large(void)
{
	int fd = client_open(&f);
	client_text(fd, "GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
	return fd;
}

/* The status, with the rest of the reply left unread. */
static int status_of(int fd)
{
	char head[13] = "";
	assert_int_equal(recv(fd, head, 12, MSG_WAITALL), 12);
	return atoi(head + 9);
}

/* What clients do not read counts over all connections, and no longer once they are gone. */
TEST(replies_that_nobody_reads)
{
	fixture_start(&f, (struct http_config){.body_total = 2 * FIXTURE_LARGE});
	int fd[4];
	for (int i = 0; i < 4; i++) {
		fd[i] = ask_large();
		assert_int_equal(status_of(fd[i]), i < 2 ? 200 : 500);
	}
	(void)close(fd[0]);
	for (int i = 0, status = 500; status != 200; i++) {
		assert_true(i < 60);
		nap_ms(50);
		(void)close(fd[3]);
		fd[3] = ask_large();
		status = status_of(fd[3]);
	}
	for (int i = 1; i < 4; i++)
		(void)close(fd[i]);
	assert_true(fixture_idle(&f));
}

/* One byte every 60 ms never is silence; the total time ends it. */
static void trickle(const char *head, const char *drip, int low_ms, int high_ms)
{
	struct http_stats st;
	int fd = client_open(&f);
	int64_t begin = http_now_ms();
	client_text(fd, head);
	for (size_t i = 0; !client_closed(fd, 60); i++) {
		client_send(fd, &drip[i % strlen(drip)], 1);
		assert_true(http_now_ms() - begin < 3000);
	}
	assert_in_range(http_now_ms() - begin, low_ms, high_ms);
	(void)close(fd);
	assert_true(fixture_idle(&f));
	http_server_stats(f.server, &st);
	assert_int_equal(st.timed_out, 1);
	assert_int_equal(f.handled, 0);
	assert_true(fixture_stop(&f, 1000));
}

TEST(slow_headers)
{
	fixture_start(&f, (struct http_config){.header_ms = 400});
	trickle("POST /echo HTTP/1.1\r\nX: ", "abc", 350, 900);
	fixture_start(&f, (struct http_config){.header_ms = 300});
	trickle("", "\n", 250, 900);
}

TEST(slow_body)
{
	fixture_start(&f, (struct http_config){.body_ms = 400});
	trickle("POST /echo HTTP/1.1\r\nHost: h\r\n" JSON "Content-Length: 1000\r\n\r\n", "abc",
		350, 900);
	fixture_start(&f, (struct http_config){.body_ms = 300});
	trickle("POST /nope HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n", "abc", 250, 900);
}

TEST(stalls)
{
	struct http_stats st;
	fixture_start(
		&f, (struct http_config){
			    .header_ms = 300, .body_ms = 300, .send_ms = 300, .idle_ms = 1000});
	int silent = client_open(&f), body = client_open(&f), idle = client_open(&f);
	post_head(body, "Content-Length: 1000\r\n");
	client_post(idle, "/echo", "{}", 2);
	assert_int_equal(client_read(idle, client_reply, sizeof(client_reply), 500, false), 200);
	assert_true(client_closed(silent, 900));
	assert_true(client_closed(body, 900));
	assert_false(client_closed(idle, 100));
	assert_true(client_closed(idle, 3000));
	(void)close(silent), (void)close(body), (void)close(idle);
	/* Who does not read the reply. */
	int deaf = client_open(&f);
	int small = 4096;
	assert_int_equal(setsockopt(deaf, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
	for (int i = 0; i < 8; i++)
		client_post(deaf, "/echo", big, 1000000);
	assert_true(fixture_idle(&f));
	(void)close(deaf);
	http_server_stats(f.server, &st);
	assert_true(st.timed_out >= 3);
}

TEST(client_vanishes_mid_body)
{
	fixture_start(&f, (struct http_config){.body_total = 200000, .body_small = 1});
	for (int i = 0; i < 50; i++) {
		int fd = client_open(&f);
		post_head(fd, "Content-Length: 60000\r\n");
		client_send(fd, big, 30000);
		(void)close(fd);
		if (i % 2 == 0)
			assert_true(fixture_idle(&f));
	}
	struct http_stats st = {0};
	for (int i = 0; i < 600 && st.accepted < 50; i++) {
		nap_ms(5);
		http_server_stats(f.server, &st);
	}
	assert_int_equal(st.accepted, 50); /* none is left in the backlog */
	assert_true(fixture_idle(&f));
	assert_int_equal(f.handled, 0);
	int fd = client_open(&f); /* all of the budget is back */
	client_posts(fd, "/echo", big, 190000, 200);
	(void)close(fd);
}

TEST(long_headers)
{
	fixture_start(&f, (struct http_config){0});
	int fd = client_open(&f);
	memset(big, 'h', sizeof(big));
	client_text(fd, "GET /livez HTTP/1.1\r\nHost: h\r\nX-Long: ");
	client_send(fd, big, 20000);
	client_text(fd, "\r\n\r\n");
	client_gets(fd, 431);
	(void)close(fd);
	fd = client_open(&f);
	client_text(fd, "GET /");
	client_send(fd, big, 20000);
	client_text(fd, " HTTP/1.1\r\nHost: h\r\n\r\n");
	client_gets(fd, 414);
	(void)close(fd);
	assert_int_equal(f.handled, 0);
}

/* At the limit further clients wait; they are served when a place is free. */
TEST(connection_limit)
{
	int fd[6];
	fixture_start(&f, (struct http_config){.connections = 5});
	for (int i = 0; i < 6; i++)
		fd[i] = client_open(&f);
	client_posts(fd[0], "/echo", "{}", 2, 200);
	client_post(fd[5], "/echo", "{}", 2);
	assert_int_equal(client_read(fd[5], client_reply, sizeof(client_reply), 200, false), -1);
	(void)close(fd[0]);
	client_gets(fd[5], 200);
	for (int i = 1; i < 6; i++)
		(void)close(fd[i]);
}

/* Of a server with room: who does nothing makes room for who comes, the silent ones first. */
TEST(room_for_the_newest)
{
	int kept, fd[100];
	fixture_start(&f, (struct http_config){.connections = 64});
	kept = client_open(&f);
	client_posts(kept, "/echo", "{}", 2, 200);
	for (int i = 0; i < 100; i++)
		fd[i] = client_open(&f);
	client_posts(fd[99], "/echo", "{}", 2, 200);
	assert_true(client_closed(fd[0], 2000));
	client_posts(kept, "/echo", "{}", 2, 200);
	struct http_stats st;
	http_server_stats(f.server, &st);
	assert_int_equal(st.displaced, 101 - 63);
	(void)close(kept);
	for (int i = 0; i < 100; i++)
		(void)close(fd[i]);
	assert_true(fixture_idle(&f));
}

/* Reads the reply to GET /livez, or fails: a newcomer is let in. */
static void gets_in(int fd)
{
	client_text(fd, "GET /livez HTTP/1.1\r\nHost: h\r\n\r\n");
	client_gets(fd, 200);
}

static uint64_t displaced(void)
{
	struct http_stats st;

	http_server_stats(f.server, &st);
	return st.displaced;
}

/* Who is between two requests goes at once, however young its reply is. */
TEST(room_of_the_idle)
{
	int fd[126], newest;

	fixture_start(&f, (struct http_config){.connections = 128});
	for (int i = 0; i < 126; i++)
		fd[i] = client_open(&f);
	for (int i = 0; i < 126; i++)
		client_posts(fd[i], "/echo", "{}", 2, 200);
	newest = client_open(&f);
	gets_in(newest);
	assert_int_equal(displaced(), 1);
	assert_true(client_closed(fd[0], 2000));
	for (int i = 0; i < 126; i++)
		(void)close(fd[i]);
	(void)close(newest);
	assert_true(fixture_idle(&f));
}

/* So many of all[] ask for work that waits at the gate. */
static void make_busy(int *all, int n)
{
	for (int i = 0; i < n; i++) {
		all[i] = client_open(&f);
		client_post(all[i], "/later", "{}", 2);
	}
	assert_true(fixture_wait(&f.handled, n));
}

/* All places are taken, by requests that are being answered and by replies too young to be given
 * up: the last place is not waited for. */
TEST(room_among_the_busy_and_the_deaf)
{
	int busy[60], deaf[3], newest[3];
	fixture_start(
		&f, (struct http_config){
			    .connections = 64, .workers = 1, .body_total = 4 * FIXTURE_LARGE});
	make_busy(busy, 60);
	for (int i = 0; i < 3; i++)
		deaf[i] = ask_large();
	for (int i = 0; i < 3; i++)
		assert_int_equal(status_of(deaf[i]), 200);
	for (int i = 0; i < 3; i++)
		newest[i] = client_open(&f);
	gets_in(newest[2]);
	atomic_store(&f.gate, true);
	for (int i = 0; i < 60; i++) {
		client_gets(busy[i], 200);
		(void)close(busy[i]);
	}
	for (int i = 0; i < 3; i++)
		(void)close(deaf[i]), (void)close(newest[i]);
	assert_true(fixture_idle(&f));
}

/* How many of those go who do not read their replies, when somebody comes so many ms later. */
static uint64_t deaf_that_go(int ms)
{
	int busy[122], deaf[4], newest;
	uint64_t n;

	fixture_start(
		&f, (struct http_config){
			    .connections = 128, .workers = 1, .body_total = 5 * FIXTURE_LARGE});
	make_busy(busy, 122);
	for (int i = 0; i < 4; i++)
		deaf[i] = ask_large();
	for (int i = 0; i < 4; i++)
		assert_int_equal(status_of(deaf[i]), 200);
	nap_ms(ms);
	newest = client_open(&f);
	gets_in(newest);
	n = displaced();
	atomic_store(&f.gate, true);
	for (int i = 0; i < 122; i++) {
		client_gets(busy[i], 200);
		(void)close(busy[i]);
	}
	for (int i = 0; i < 4; i++)
		(void)close(deaf[i]);
	(void)close(newest);
	assert_true(fixture_idle(&f));
	assert_true(fixture_stop(&f, 1000));
	return n;
}

/* Whose reply has been on its way for long goes, but nobody whose reply is young: where the machine
 * stood still meanwhile, that is another try. */
TEST(room_of_the_deaf)
{
	uint64_t n = 1;

	for (int i = 0; i < 10 && n > 0; i++)
		n = deaf_that_go(0);
	assert_int_equal(n, 0);
	assert_int_equal(deaf_that_go(300), 1);
}

/* Nobody could go when the last place was taken, since all were being answered: room is made when
 * the first of them has its answer. */
TEST(room_once_the_busy_are_answered)
{
	int busy[63];
	fixture_start(&f, (struct http_config){.connections = 64, .workers = 1});
	make_busy(busy, 63);
	int last = client_open(&f), outside = client_open(&f);
	client_text(outside, "GET /livez HTTP/1.1\r\nHost: h\r\n\r\n");
	assert_int_equal(client_read(outside, client_reply, sizeof(client_reply), 200, false), -1);
	atomic_store(&f.gate, true);
	client_gets(outside, 200);
	for (int i = 0; i < 63; i++)
		(void)close(busy[i]);
	(void)close(last), (void)close(outside);
	assert_true(fixture_idle(&f));
}

TEST(deadlines)
{
	const struct {
		const char *timeout;
		int64_t ms;
	} cases[] = {
		{NULL, 9500},
		{"5s", 4500},
		{"1s", 500},
		{"30s", 29500},
		{"1h", 29500},
		{"500ms", 250},
		{"2ms", 1},
		{"", 9500},
		{"5", 9500},
		{"-5s", 9500},
		{"0s", 9500},
		{"5s ", 9500},
		{"1.5s", 1000},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		int64_t at = http_deadline(1000, cases[i].timeout, 10000, 30000);
		if (at - 1000 != cases[i].ms)
			fail_msg("timeout %s: %d", cases[i].timeout, (int)(at - 1000));
	}
	assert_true(http_content_length(NULL) == 0);
	assert_true(http_content_length("12") == 12);
	assert_true(http_content_length("99999999999999999999") == UINT64_MAX);
	assert_true(http_content_length("-1") == UINT64_MAX);
}

TEST(media_types)
{
	static const struct {
		const char *header;
		bool is;
	} cases[] = {
		{"application/json", true},
		{" \tApplication/JSON", true},
		{"application/json;charset=utf-8", true},
		{"application/json \t;", true},
		{"application/json \t", true},
		{"application/json x", false},
		{"application/json ,text/plain", false},
		{"application/jsonx", false},
		{"application/jso", false},
		{"text/plain;application/json", false},
		{";application/json", false},
		{"", false},
	};
	char text[128];
	/* What stands before and behind it in memory says nothing. */
	for (size_t i = 0; i < COUNT(cases); i++)
		for (const char *c = "x; "; *c; c++) {
			memset(text, *c, sizeof(text));
			(void)strcpy(text + 48, cases[i].header);
			if (http_media_type_is(text + 48, "application/json") != cases[i].is)
				fail_msg("%s", cases[i].header);
		}
	assert_false(http_media_type_is(NULL, "application/json"));
}

/* Two headers, and whether it is clear where the body ends. */
TEST(framing)
{
	const struct {
		const char *name[2], *value[2];
		bool clear;
	} cases[] = {
		{{"Host", "Content-Length"}, {"x", "5"}, true},
		{{"transfer-encoding", "X"}, {"Chunked", "\xff"}, true},
		{{"Content-Length", "content-length"}, {"5", "5"}, false},
		{{"Content-Length", "Transfer-Encoding"}, {"5", "chunked"}, false},
		{{"Transfer-Encoding", "Transfer-Encoding"}, {"chunked", "chunked"}, false},
		{{"Transfer-Encoding", "X"}, {"identity", ""}, false},
		{{"Transfer-Encoding", "X"}, {"", ""}, false},
		{{"Content-Length ", "X"}, {"5", ""}, false},
		{{"X", "Transfer\tEncoding"}, {"", "5"}, false},
		{{"X", "X\xc2\xa0"}, {"", "5"}, false},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct http_framing framed = {0};
		for (size_t j = 0; j < 2; j++)
			http_framing_add(&framed, cases[i].name[j], cases[i].value[j]);
		if (cases[i].clear != (framed.refusal == NULL))
			fail_msg("%s, %s", cases[i].name[0], cases[i].name[1]);
	}
}

TESTS_BETWEEN(NULL, tear_down, framing, media_types, bodies_at_the_cap, body_growth, body_budget,
	small_bodies_and_replies, replies_that_nobody_reads, slow_headers, slow_body, stalls,
	client_vanishes_mid_body, long_headers, connection_limit, room_for_the_newest,
	room_of_the_idle, room_among_the_busy_and_the_deaf, room_of_the_deaf,
	room_once_the_busy_are_answered, deadlines)
