/* SPDX-License-Identifier: Apache-2.0 */
/* test: requests and replies, deferred handlers, deadlines, vanishing clients and draining, over
 * real sockets. */
#include <sys/socket.h>

#include "test/unit/http_fixture.h"
#include "test/unit/test.h"

#define JSON "Content-Type: application/json\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n"

static struct fixture f;

FIXTURE(tear_down)
{
	return fixture_stop(&f, 1000) ? 0 : -1;
}

TEST(answers)
{
	const struct {
		const char *request;
		int status;
		const char *has, *hasnot; /* in the reply */
	} cases[] = {
		{"POST /echo HTTP/1.1\r\nHost: h\r\n" JSON "Content-Length: 2\r\n\r\n{}", 200,
			"\r\n\r\n{}", NULL},
		{"POST /echo HTTP/1.1\r\nHost: h\r\n" JSON "Content-Length: 2\r\n\r\n{}", 200,
			"X-Test: yes", "lose"},
		{"POST /echo HTTP/1.1\r\nHost: h\r\ncontent-type: Application/JSON ; "
		 "charset=utf-8\r\n"
		 "Content-Length: 2\r\n\r\n{}",
			200, "application/json", NULL},
		{"POST /echo HTTP/1.1\r\nHost: h\r\n" JSON CHUNKED
		 "\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
			200, "\r\n\r\nabcde", NULL},
		{"POST /echo HTTP/1.1\r\nHost: h\r\n" JSON "Content-Length: 0\r\n\r\n", 400,
			"Empty body", NULL},
		{"POST /echo HTTP/1.1\r\nHost: h\r\n" JSON "\r\n", 400, "Empty body", NULL},
		{"POST /echo HTTP/1.1\r\nHost: h\r\n" JSON CHUNKED
		 "Content-Length: 2\r\n\r\n0\r\n\r\n",
			400, "give one Content-Length", NULL},
		{"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Type: text/plain\r\nContent-Length: "
		 "2\r\n\r\n{}",
			415, "text/plain; charset=utf-8", NULL},
		{"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Type: "
		 "application/jsonx\r\nContent-Length: 2\r\n\r\n{}",
			415, "Content-Type", NULL},
		{"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}", 415,
			"Content-Type", NULL},
		{"GET /echo HTTP/1.1\r\nHost: h\r\n\r\n", 405, "\r\nAllow: POST\r\n", NULL},
		{"PUT /livez HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", 405,
			"\r\nAllow: GET, HEAD, DELETE\r\n", NULL},
		{"POST /nope HTTP/1.1\r\nHost: h\r\n" JSON "Content-Length: 2\r\n\r\n{}", 404,
			"nothing at this path", NULL},
		{"GET / HTTP/1.1\r\nHost: h\r\n\r\n", 404, "nothing", NULL},
		{"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n", 200, "Content-Length: 0", NULL},
		{"DELETE /livez HTTP/1.1\r\nHost: h\r\n\r\n", 200, NULL, NULL},
		{"GET /livez/x HTTP/1.1\r\nHost: h\r\n\r\n", 404, NULL, NULL},
		{"GET /v1/pool HTTP/1.1\r\nHost: h\r\n\r\n", 200, NULL, NULL},
		{"GET /v1 HTTP/1.1\r\nHost: h\r\n\r\n", 404, NULL, NULL},
		{"GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n", 500, "could not answer", NULL},
		{"POST /noslow HTTP/1.1\r\nHost: h\r\n\r\n", 500, "could not answer", NULL},
		{"GET /livez HTTP/1.0\r\n\r\n", 200, NULL, NULL},
	};
	fixture_start(&f, (struct http_config){.workers = 1});
	for (size_t i = 0; i < COUNT(cases); i++) {
		int fd = client_open(&f);
		client_text(fd, cases[i].request);
		int status = client_read(fd, client_reply, sizeof(client_reply), 2000, false);
		if (status != cases[i].status ||
			(cases[i].has && !strstr(client_reply, cases[i].has)) ||
			(cases[i].hasnot && strstr(client_reply, cases[i].hasnot)))
			fail_msg("case %zu: %d\n%s", i, status, client_reply);
		(void)close(fd);
	}
	assert_true(fixture_idle(&f));
	assert_int_equal(f.handled, f.done);
	assert_int_equal(f.handled, f.queued + f.undone);
	assert_int_equal(f.undone, 0);
}

TEST(keeps_the_connection)
{
	struct http_stats st;
	fixture_start(&f, (struct http_config){.workers = 1});
	int fd = client_open(&f);
	for (int i = 0; i < 20; i++) {
		client_post(fd, i % 2 ? "/echo?name=a%20b&timeout=5s" : "/nope", "{\"a\":1}", 7);
		client_gets(fd, i % 2 ? 200 : 404);
	}
	assert_true(fixture_saw(&f, "/echo|a b|127.0.0.1:"));
	assert_true(fixture_saw(&f, "|4500"));
	client_text(fd, "HEAD /livez HTTP/1.1\r\nHost: h\r\n\r\n");
	assert_int_equal(client_read(fd, client_reply, sizeof(client_reply), 2000, true), 200);
	/* Two at once: answered in order. */
	client_text(
		fd, "GET /livez HTTP/1.1\r\nHost: h\r\n\r\nGET /nope HTTP/1.1\r\nHost: h\r\n\r\n");
	client_gets(fd, 200);
	if (!strstr(client_reply, " 404 "))
		client_gets(fd, 404);
	http_server_stats(f.server, &st);
	assert_int_equal(st.connections, 1);
	assert_int_equal(st.accepted, 1);
	assert_int_equal(st.replies[2], 12);
	assert_int_equal(st.replies[4], 11);
	(void)close(fd);
}

TEST(deferred)
{
	for (unsigned workers = 0; workers < 3; workers++) {
		fixture_start(&f, (struct http_config){.workers = workers});
		atomic_store(&f.gate, true);
		int fd = client_open(&f);
		for (int i = 0; i < 50; i++) {
			client_posts(fd, "/later", "{\"deferred\":true}", 17, 200);
			assert_non_null(strstr(client_reply, "\r\n\r\n{\"deferred\":true}"));
		}
		assert_true(fixture_wait(&f.done, 50));
		assert_int_equal(f.queued, 50);
		assert_int_equal(f.undone, 0);
		assert_int_equal(f.slow, 50);
		(void)close(fd);
		assert_true(fixture_stop(&f, 1000));
	}
}

/* A slow handler holds neither the I/O thread nor other workers. */
TEST(deferred_beside_others)
{
	struct http_stats st;
	fixture_start(&f, (struct http_config){.workers = 2});
	int fd[5];
	for (int i = 0; i < 4; i++) {
		fd[i] = client_open(&f);
		client_post(fd[i], "/later", "1", 1);
	}
	assert_true(fixture_wait(&f.slow, 2));
	fd[4] = client_open(&f);
	client_post(fd[4], "/echo", "2", 1);
	assert_int_equal(client_read(fd[4], client_reply, sizeof(client_reply), 500, false), 200);
	assert_true(fixture_wait(&f.handled, 5));
	http_server_stats(f.server, &st);
	assert_int_equal(st.deferred, 4);
	assert_true(st.in_flight >= 4);
	atomic_store(&f.gate, true);
	for (int i = 0; i < 4; i++)
		client_gets(fd[i], 200);
	for (int i = 0; i < 5; i++)
		(void)close(fd[i]);
	assert_true(fixture_idle(&f));
	assert_int_equal(f.queued, 5);
}

/* It hung up, or no client of an admission hook any more: what its request took is given back, and
 * nothing is sent. */
TEST(client_vanishes_while_deferred)
{
	for (int half = 0; half <= 1; half++) {
		fixture_start(&f, (struct http_config){.workers = 1});
		int fd = client_open(&f);
		client_post(fd, "/later", "{}", 2);
		assert_true(fixture_wait(&f.slow, 1));
		(void)(half ? shutdown(fd, SHUT_WR) : close(fd));
		nap_ms(50);
		assert_int_equal(f.undone, 0);
		atomic_store(&f.gate, true);
		assert_true(fixture_wait(&f.done, 1));
		assert_int_equal(f.undone, 1);
		assert_int_equal(f.queued, 0);
		assert_true(fixture_idle(&f));
		if (half)
			(void)close(fd);
		assert_true(fixture_stop(&f, 1000));
	}
}

TEST(deadline_passes)
{
	struct http_stats st;
	fixture_start(&f, (struct http_config){.workers = 1});
	int fd = client_open(&f);
	int64_t begin = http_now_ms();
	client_posts(fd, "/later?timeout=400ms", "{}", 2, 500);
	assert_in_range(http_now_ms() - begin, 190, 390);
	assert_int_equal(f.done, 0); /* slow() still works with the request */
	/* A second one waits behind it and is given up before a worker saw it. */
	client_posts(fd, "/later?timeout=200ms", "{}", 2, 500);
	client_posts(fd, "/echo", "{}", 2, 200);
	(void)close(fd);
	atomic_store(&f.gate, true);
	assert_true(fixture_wait(&f.done, 3));
	assert_int_equal(f.slow, 1);
	assert_int_equal(f.undone, 2);
	assert_int_equal(f.queued, 1);
	http_server_stats(f.server, &st);
	assert_int_equal(st.deadlines, 2);
}

/* Without workers slow() holds the I/O thread; an answer that comes too late is not given all the
 * same. */
TEST(answers_too_late)
{
	struct http_stats st;
	fixture_start(&f, (struct http_config){0});
	int fd = client_open(&f);
	client_post(fd, "/later?timeout=100ms", "{}", 2);
	assert_true(fixture_wait(&f.slow, 1));
	nap_ms(80);
	atomic_store(&f.gate, true);
	client_gets(fd, 500);
	assert_int_equal(f.undone, 1);
	assert_int_equal(f.status, 500);
	/* A body that comes after the deadline is not looked at. */
	client_text(fd, "POST /echo?timeout=100ms HTTP/1.1\r\nHost: h\r\n" JSON
			"Content-Length: 2\r\n\r\n");
	nap_ms(80);
	client_text(fd, "{}");
	client_gets(fd, 500);
	(void)close(fd);
	assert_true(fixture_idle(&f));
	assert_int_equal(f.handled, 1);
	assert_int_equal(f.queued, 0);
	http_server_stats(f.server, &st);
	assert_int_equal(st.deadlines, 2);
}

static void *open_gate_soon(void *arg)
{
	nap_ms(200);
	atomic_store(&f.gate, true);
	return arg;
}

TEST(drains)
{
	pthread_t opener;
	fixture_start(&f, (struct http_config){.workers = 1});
	int waiting = client_open(&f), fd = client_open(&f);
	client_post(waiting, "/later", "{\"w\":1}", 7);
	assert_true(fixture_wait(&f.slow, 1));
	client_posts(fd, "/echo", "{}", 2, 200);
	assert_null(strstr(client_reply, "Connection: close"));
	http_server_drain_begin(f.server);
	client_posts(fd, "/echo", "{}", 2, 200);
	assert_non_null(strstr(client_reply, "Connection: close"));
	assert_true(client_closed(fd, 1000));
	(void)close(fd);
	fd = client_open(&f); /* still served */
	client_posts(fd, "/echo", "{}", 2, 200);
	(void)close(fd);
	assert_int_equal(pthread_create(&opener, NULL, open_gate_soon, NULL), 0);
	assert_true(fixture_stop(&f, 3000));
	assert_int_equal(pthread_join(opener, NULL), 0);
	assert_int_equal(
		client_read(waiting, client_reply, sizeof(client_reply), 1000, false), 200);
	assert_non_null(strstr(client_reply, "{\"w\":1}"));
	assert_int_equal(f.queued, 4);
	assert_int_equal(f.undone, 0);
	assert_int_equal(f.done, 4);
	(void)close(waiting);
}

/* Requests that outlast the drain: answered 500, given back, and the process lives on. */
TEST(stops_with_suspended_requests)
{
	pthread_t opener;
	int fd[4];
	fixture_start(&f, (struct http_config){.workers = 1});
	for (int i = 0; i < 4; i++) {
		fd[i] = client_open(&f);
		client_post(fd[i], "/later", "{}", 2);
	}
	assert_true(fixture_wait(&f.handled, 4));
	assert_true(fixture_wait(&f.slow, 1));
	assert_int_equal(pthread_create(&opener, NULL, open_gate_soon, NULL), 0);
	assert_false(fixture_stop(&f, 0));
	assert_int_equal(pthread_join(opener, NULL), 0);
	int answered = 0;
	for (int i = 0; i < 4; i++) {
		int status = client_read(fd[i], client_reply, sizeof(client_reply), 1000, false);
		assert_true(status == 500 || status == 200);
		answered += status == 200;
		(void)close(fd[i]);
	}
	assert_int_equal(f.queued, answered);
	assert_int_equal(f.undone, 4 - answered);
	assert_int_equal(f.done, 4);
}

static void *open_gate_late(void *arg)
{
	nap_ms(650);
	atomic_store(&f.gate, true);
	return arg;
}

/* Work that goes on behind the moment that a stop gives is taken from the worker, and what waits
 * for one is not begun: each is answered while the worker still is at it. */
TEST(stops_beside_work_that_does_not_end)
{
	pthread_t opener;
	int fd[3];

	fixture_start(&f, (struct http_config){.workers = 1});
	for (int i = 0; i < 3; i++) {
		fd[i] = client_open(&f);
		client_post(fd[i], "/later", "{}", 2);
	}
	assert_true(fixture_wait(&f.handled, 3));
	assert_true(fixture_wait(&f.slow, 1));
	assert_int_equal(pthread_create(&opener, NULL, open_gate_late, NULL), 0);
	assert_false(fixture_stop(&f, 0));
	assert_int_equal(pthread_join(opener, NULL), 0);
	for (int i = 0; i < 3; i++) {
		client_gets(fd[i], 500);
		(void)close(fd[i]);
	}
	assert_int_equal(f.queued, 0);
	assert_int_equal(f.undone, 3);
	assert_int_equal(f.done, 3);
}

static void *send_the_rest_soon(void *arg)
{
	nap_ms(100);
	client_text(*(const int *)arg, "}");
	return NULL;
}

/* A body that comes to its end while the server stops: its work is not begun, and who would have it
 * is told that it was not. */
TEST(begins_no_work_while_it_stops)
{
	pthread_t sender;
	fixture_start(&f, (struct http_config){.workers = 1});
	int fd = client_open(&f);
	client_text(fd, "POST /later HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
			"Content-Length: 2\r\n\r\n{");
	nap_ms(100);
	assert_int_equal(pthread_create(&sender, NULL, send_the_rest_soon, &fd), 0);
	(void)fixture_stop(&f, 0);
	assert_int_equal(pthread_join(sender, NULL), 0);
	assert_int_equal(client_read(fd, client_reply, sizeof(client_reply), 1000, false), 500);
	assert_non_null(strstr(client_reply, "Connection: close"));
	(void)close(fd);
	assert_int_equal(f.slow, 0);
	assert_int_equal(f.queued, 0);
	assert_int_equal(f.undone, 1);
}

/* What its client no longer waits for keeps its place in the queue. When that is full, who comes is
 * told at once. */
TEST(full_queue)
{
	int fd[3];
	fixture_start(&f, (struct http_config){.workers = 1, .connections = 4});
	for (int i = 0; i < 3; i++)
		fd[i] = client_open(&f);
	/* One is the worker's, eight are twice as many as there may be connections. */
	for (int i = 0; i < 9; i++) {
		if (i % 3 == 0)
			for (int j = 0; j < 3; j++)
				client_post(fd[j], "/later?timeout=100ms", "{}", 2);
		client_gets(fd[i % 3], 500);
	}
	client_posts(fd[0], "/later?timeout=20s", "{}", 2, 500);
	assert_non_null(strstr(client_reply, "could not answer"));
	atomic_store(&f.gate, true);
	assert_true(fixture_wait(&f.done, 10));
	client_posts(fd[0], "/later", "{}", 2, 200);
	for (int i = 0; i < 3; i++)
		(void)close(fd[i]);
}

TEST(idle_connections_do_not_hold_a_stop)
{
	fixture_start(&f, (struct http_config){.workers = 1});
	int idle = client_open(&f), half = client_open(&f);
	client_text(half, "POST /echo HTTP/1.1\r\nHost: h\r\n");
	int64_t begin = http_now_ms();
	assert_true(fixture_stop(&f, 5000));
	assert_true(http_now_ms() - begin < 1000);
	assert_true(client_closed(idle, 500));
	assert_true(client_closed(half, 500));
	(void)close(idle);
	(void)close(half);
	assert_true(http_server_stop(NULL, 0));
}

TEST(listens)
{
	struct http_server *s = NULL;
	struct http_app app = {0};
	struct err err = {0};
	char in_use[64];
	fixture_start(&f, (struct http_config){.listen = "[::1]:0"});
	assert_int_not_equal(http_server_port(f.server), 0);
	(void)snprintf(in_use, sizeof(in_use), "[::1]:%u", http_server_port(f.server));
	assert_int_equal(
		http_server_start(&(struct http_config){.listen = in_use}, &app, &s, &err), ERR_IO);
	assert_non_null(strstr(err.msg, in_use));
	assert_null(s);
	const char *bad[] = {
		"nonsense", "1.2.3.4.5:80", "127.0.0.1:99999", "example:80", "203.0.113.1:0"};
	for (size_t i = 0; i < COUNT(bad); i++) {
		err_clear(&err);
		assert_true(http_server_start(
				    &(struct http_config){.listen = bad[i]}, &app, &s, &err) < 0);
		assert_string_not_equal(err.msg, "");
	}
	assert_true(fixture_stop(&f, 1000));
	fixture_start(&f, (struct http_config){.listen = ":0"});
	int fd = client_open(&f); /* IPv4 on the socket of both families */
	client_posts(fd, "/echo", "{}", 2, 200);
	assert_true(fixture_saw(&f, "|127.0.0.1:"));
	(void)close(fd);
}

TESTS_BETWEEN(NULL, tear_down, answers, keeps_the_connection, deferred, deferred_beside_others,
	client_vanishes_while_deferred, deadline_passes, answers_too_late, drains,
	stops_with_suspended_requests, stops_beside_work_that_does_not_end,
	begins_no_work_while_it_stops, full_queue, idle_connections_do_not_hold_a_stop, listens)
