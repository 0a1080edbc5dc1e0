/* SPDX-License-Identifier: Apache-2.0 */
/* net/status_server: one answer for each connection, and who does not ask keeps nobody out. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "net/status_server.h"
#include "net/tls_identity.h"
#include "test/unit/make_pair.h"
#include "test/unit/test.h"

static const char *why;
static size_t large; /* bytes of the page */

static const char *unready(void *ctx)
{
	assert_ptr_equal(ctx, &large);
	return why;
}

static void metrics(void *ctx, struct buf *out)
{
	assert_ptr_equal(ctx, &large);
	buf_str(out, "a_metric 1\n");
}

static void page(void *ctx, struct buf *out)
{
	assert_ptr_equal(ctx, &large);
	for (size_t i = 0; i < large; i++)
		buf_char(out, '[');
}

static const struct status_app app = {.ctx = &large,
	.unready = unready,
	.metrics = metrics,
	.page = "/usage",
	.write_page = page};

static bool may(void *ctx, struct slice token)
{
	(void)ctx;
	return slice_is(token, "secret");
}

static struct status_server *serve_app(const char *at, const struct status_app *what)
{
	struct status_server *s = NULL;
	struct err err = {0};

	if (status_server_new(at, what, &s, &err) != 0)
		fail_msg("%s", err.msg);
	assert_true(status_server_port(s) > 0);
	why = NULL;
	large = 2;
	return s;
}

static struct status_server *serve(const char *at)
{
	return serve_app(at, &app);
}

static int dial_from(const struct status_server *s, bool v6, unsigned last)
{
	const struct sockaddr_in from = {
		.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK - 1 + last)}};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6,
		.sin6_port = htons(status_server_port(s)),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr_in four = {.sin_family = AF_INET,
		.sin_port = htons(status_server_port(s)),
		.sin_addr = {htonl(INADDR_LOOPBACK)}};
	int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
	int rc = v6 ? 0 : bind(fd, (const struct sockaddr *)&from, sizeof(from));

	assert_int_equal(rc, 0);
	rc = connect(fd, v6 ? (struct sockaddr *)&six : (struct sockaddr *)&four,
		v6 ? sizeof(six) : sizeof(four));

	assert_int_equal(rc, 0);
	return fd;
}

static int dial(const struct status_server *s, bool v6)
{
	return dial_from(s, v6, 1);
}

static void put(int fd, const char *text, size_t len)
{
	assert_int_equal(send(fd, text, len, MSG_NOSIGNAL), (ssize_t)len);
}

/* All that is said until the other end says no more. */
static const char *heard(struct status_server *s, int fd)
{
	static char text[128 * 1024];
	size_t n = 0;
	int64_t until = clock_ms() + 20000;

	for (;;) {
		struct pollfd all[STATUS_POLL_MAX + 1];
		int64_t ms;
		size_t count = status_server_poll(s, all, &ms);
		ssize_t got;

		all[count] = (struct pollfd){.fd = fd, .events = POLLIN};
		(void)poll(all, count + 1, ms < 0 || ms > 1000 ? 1000 : (int)ms);
		status_server_turn(s);
		got = recv(fd, text + n, sizeof(text) - 1 - n, MSG_DONTWAIT);
		assert_true(got >= 0 || errno == EAGAIN || errno == ECONNRESET);
		assert_true(clock_ms() < until);
		if (got > 0)
			n += (size_t)got;
		if (got == 0 || (got < 0 && errno == ECONNRESET))
			break;
	}
	text[n] = '\0';
	(void)close(fd);
	return text;
}

static const char *asked(struct status_server *s, const char *text)
{
	int fd = dial(s, false);

	put(fd, text, strlen(text));
	return heard(s, fd);
}

/* An answer, whole. */
static const char *said(const char *status, const char *type, const char *body)
{
	static char text[512];

	(void)snprintf(text, sizeof(text),
		"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: "
		"close\r\n\r\n%s",
		status, type, strlen(body), body);
	return text;
}

#define TEXT "text/plain; charset=utf-8"
#define WRONG "400 Bad Request", TEXT, "expected GET /livez, /readyz or /metrics\n"

TEST(answers)
{
	static const struct {
		const char *request, *status, *type, *body;
	} cases[] = {
		{"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n", "200 OK", TEXT, "ok\n"},
		{"GET /readyz?verbose=1 HTTP/1.0\n\n", "200 OK", TEXT, "ok\n"},
		{"GET /usage HTTP/1.1\r\n\r\n", "200 OK", "application/json", "[["},
		{"GET /usage? HTTP/1.1\r\n\r\n", "200 OK", "application/json", "[["},
		{"GET /usages HTTP/1.1\r\n\r\n", "404 Not Found", TEXT,
			"here are /livez, /readyz and /metrics\n"},
		{"HEAD /livez HTTP/1.1\r\n\r\n", "405 Method Not Allowed", TEXT,
			"only GET is answered here\n"},
		{"GET /livez HTTP/2\r\n\r\n", WRONG},
		{"GET /livez\r\n\r\n", WRONG},
		{"GET\r\n\r\n", WRONG},
		{"\r\n\r\n", WRONG},
	};
	struct status_server *s = serve("127.0.0.1:0");

	for (size_t i = 0; i < COUNT(cases); i++)
		assert_string_equal(asked(s, cases[i].request),
			said(cases[i].status, cases[i].type, cases[i].body));
	assert_non_null(strstr(asked(s, "GET /metrics HTTP/1.1\r\n\r\n"), "\r\n\r\na_metric 1\n"));
	why = "it is too early";
	assert_string_equal(asked(s, "GET /readyz HTTP/1.1\r\n\r\n"),
		said("503 Service Unavailable", TEXT, "it is too early\n"));
	status_server_free(s);
}

TEST(requests_in_pieces_and_wrong_ones)
{
	struct status_server *s = serve("127.0.0.1:0");
	char text[8192];
	int fd = dial(s, false);

	status_server_turn(s);
	put(fd, "GET /livez HT", 13);
	status_server_turn(s);
	put(fd, "TP/1.1\r\n\r", 9);
	status_server_turn(s);
	put(fd, "\n", 1);
	assert_non_null(strstr(heard(s, fd), "200 OK"));
	fd = dial(s, false);
	put(fd, "GET /livez\0 HTTP/1.1\r\n\r\n", 24);
	assert_non_null(strstr(heard(s, fd), "400 Bad Request"));
	/* Longer than a request may be. */
	memset(text, 'a', sizeof(text));
	fd = dial(s, false);
	put(fd, text, 4096);
	assert_non_null(strstr(heard(s, fd), "431 Request Header Fields Too Large"));
	/* Who ends before he has asked gets nothing. */
	fd = dial(s, false);
	put(fd, "GET ", 4);
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	assert_string_equal(heard(s, fd), "");
	status_server_free(s);
}

TEST(pages_as_long_as_may_be)
{
	struct status_server *s = serve("127.0.0.1:0");
	const char *got;

	large = 30000;
	got = asked(s, "GET /usage HTTP/1.1\r\n\r\n");
	assert_non_null(strstr(got, "Content-Length: 30000\r\n"));
	assert_int_equal(strlen(strstr(got, "\r\n\r\n") + 4), 30000);
	large = 300000;
	assert_string_equal(asked(s, "GET /usage HTTP/1.1\r\n\r\n"),
		said("500 Internal Server Error", TEXT, "out of memory\n"));
	status_server_free(s);
}

TEST(addresses)
{
	static const struct {
		const char *at;
		bool four, six;
	} cases[] = {{"127.0.0.1:0", true, false}, {"[::1]:0", false, true}, {":0", true, true},
		{"0.0.0.0:0", true, false}};
	struct status_server *s, *second = NULL;
	struct err err = {0};
	char at[32];

	for (size_t i = 0; i < COUNT(cases); i++) {
		s = serve(cases[i].at);
		for (int six = 0; six < 2; six++) {
			int fd;

			if (!(six ? cases[i].six : cases[i].four))
				continue;
			fd = dial(s, six);
			put(fd, "GET /livez HTTP/1.1\n\n", 21);
			assert_non_null(strstr(heard(s, fd), "200 OK"));
		}
		status_server_free(s);
	}
	s = serve("127.0.0.1:0");
	(void)snprintf(at, sizeof(at), "127.0.0.1:%u", status_server_port(s));
	assert_int_equal(status_server_new(at, &app, &second, &err), ERR_IO);
	assert_non_null(strstr(err.msg, at));
	assert_int_equal(status_server_new("localhost:0", &app, &second, &err), ERR_IO);
	assert_int_equal(status_server_new("127.0.0.1", &app, &second, &err), ERR_INVALID);
	assert_null(second);
	status_server_free(s);
	status_server_free(NULL);
}

/* What a client of TLS hears until the end that TLS itself tells. */
static size_t heard_by_tls(
	struct status_server *s, const struct client_target *target, char *to, size_t max)
{
	int64_t until = clock_ms() + 20000;
	struct client_socket *c;
	struct err err = {0};
	size_t n = 0, more;
	bool end = false;

	assert_int_equal(client_socket_open(target, &c, &err), 0);
	assert_int_equal(client_socket_send(c, SLICE("GET /usage HTTP/1.1\r\n\r\n"), &err), 0);
	while (!end) {
		struct pollfd all[STATUS_POLL_MAX + 1];
		int64_t ms;
		size_t count = status_server_poll(s, all, &ms);

		all[count] = (struct pollfd){
			.fd = client_socket_fd(c), .events = client_socket_events(c)};
		(void)poll(all, count + 1, 1000);
		status_server_turn(s);
		assert_int_equal(client_socket_turn(c, &err), 0);
		assert_int_equal(client_socket_read(c, to + n, max - n, &more, &end, &err), 0);
		n += more;
		assert_true(clock_ms() < until);
	}
	client_socket_free(c);
	return n;
}

TEST(answers_over_tls)
{
	static struct made_pair pair;
	static char file[] = "/tmp/poolgate-status-XXXXXX", text[64 * 1024];
	struct tls_identity *identity = tls_identity_new();
	struct server_tls *tls = server_tls_new(identity);
	struct client_target target = {.host = "127.0.0.1",
		.tls = true,
		.ca_file = file,
		.name = "localhost",
		.whole = true};
	struct status_app over = app;
	int fd = mkstemp(file), silent;
	struct status_server *s;

	make_pair(&pair, MADE_P256, -60, 86400, 1);
	made_load(&pair, identity);
	assert_int_equal(write(fd, pair.cert, strlen(pair.cert)), strlen(pair.cert));
	(void)close(fd);
	over.tls = tls;
	s = serve_app("127.0.0.1:0", &over);
	target.port = status_server_port(s);
	/* who does not speak TLS gets no answer, and keeps nobody out */
	silent = dial(s, false);
	put(silent, "GET /livez HTTP/1.1\n\n", 21);
	for (size_t i = 0; i < 2; i++) {
		large = i == 0 ? 2 : 60000;
		assert_int_equal(heard_by_tls(s, &target, text, sizeof(text)),
			strlen(said("200 OK", "application/json", "")) + large + (i == 0 ? 0 : 4));
		assert_memory_equal(text, "HTTP/1.1 200 OK\r\n", 17);
	}
	assert_null(strstr(heard(s, silent), "200 OK"));
	status_server_free(s);
	server_tls_free(tls);
	tls_identity_free(identity);
	(void)unlink(file);
}

/* Connections that the server has. */
static size_t places(struct status_server *s)
{
	struct pollfd all[STATUS_POLL_MAX];
	int64_t ms;

	return status_server_poll(s, all, &ms) - 1;
}

/* Turns until so many places are taken. */
static void places_become(struct status_server *s, size_t n)
{
	for (int i = 0; i < 5000 && places(s) != n; i++) {
		status_server_turn(s);
		(void)poll(NULL, 0, 1);
	}
	assert_int_equal(places(s), n);
}

/* A client of TLS that has been let in. */
static struct client_socket *let_in(struct status_server *s, const struct client_target *target)
{
	struct client_socket *c;
	struct err err = {0};

	assert_int_equal(client_socket_open(target, &c, &err), 0);
	for (int i = 0; i < 5000 && !client_socket_ready(c); i++) {
		assert_int_equal(client_socket_turn(c, &err), 0);
		status_server_turn(s);
		(void)poll(NULL, 0, 1);
	}
	assert_true(client_socket_ready(c));
	places_become(s, 1);
	return c;
}

/* Who breaks TLS, or goes away before his answer, is hung up on at once. */
TEST(broken_tls)
{
	static struct made_pair pair;
	static char file[] = "/tmp/poolgate-status-XXXXXX";
	struct tls_identity *identity = tls_identity_new();
	struct server_tls *tls = server_tls_new(identity);
	struct client_target target = {
		.host = "127.0.0.1", .tls = true, .ca_file = file, .name = "localhost"};
	struct status_app over = app;
	int fd = mkstemp(file);
	struct status_server *s;
	struct client_socket *c;
	struct err err = {0};

	make_pair(&pair, MADE_P256, -60, 86400, 1);
	made_load(&pair, identity);
	assert_int_equal(write(fd, pair.cert, strlen(pair.cert)), strlen(pair.cert));
	(void)close(fd);
	over.tls = tls;
	s = serve_app("127.0.0.1:0", &over);
	target.port = status_server_port(s);
	c = let_in(s, &target);
	put(client_socket_fd(c), "\x17\x03\x03\x00\x18 no record of this stream", 29);
	places_become(s, 0);
	client_socket_free(c);
	c = let_in(s, &target);
	assert_int_equal(client_socket_send(c, SLICE("GET /usage HTTP/1.1\r\n\r\n"), &err), 0);
	assert_int_equal(client_socket_turn(c, &err), 0);
	client_socket_break(c);
	client_socket_free(c);
	places_become(s, 0);
	status_server_free(s);
	server_tls_free(tls);
	tls_identity_free(identity);
	(void)unlink(file);
}

/* Nobody says anything: all places are taken, and whoever came first makes place. */
TEST(the_silent_make_place)
{
	struct status_server *s = serve("127.0.0.1:0");
	int fd[STATUS_CONNECTIONS_MAX + 3];
	struct pollfd all[STATUS_POLL_MAX];
	int64_t ms;
	char byte;

	assert_int_equal(status_server_poll(s, all, &ms), 1);
	assert_int_equal(ms, -1);
	for (size_t i = 0; i < COUNT(fd); i++) {
		fd[i] = dial(s, false);
		/* Each is older than the next. */
		(void)usleep(3000);
		status_server_turn(s);
		assert_int_equal(status_server_poll(s, all, &ms),
			1 + (i < STATUS_CONNECTIONS_MAX ? i + 1 : STATUS_CONNECTIONS_MAX));
		assert_true(ms >= 0 && ms <= 5000);
	}
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(recv(fd[i], &byte, 1, 0), 0);
	for (size_t i = 3; i < COUNT(fd); i++)
		assert_true(recv(fd[i], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
	assert_non_null(strstr(asked(s, "GET /livez HTTP/1.1\n\n"), "200 OK"));
	for (size_t i = 0; i < COUNT(fd); i++)
		(void)close(fd[i]);
	status_server_free(s);
}

/* Whoever has most places gives one up: a newcomer who was here before all of them stays. */
TEST(the_crowd_makes_place)
{
	struct status_server *s = serve("127.0.0.1:0");
	int first = dial_from(s, false, 2), fd[2 * STATUS_CONNECTIONS_MAX];

	status_server_turn(s);
	for (size_t i = 0; i < COUNT(fd); i++) {
		(void)usleep(2000);
		fd[i] = dial(s, false);
		status_server_turn(s);
	}
	put(first, "GET /livez HTTP/1.1\n\n", 21);
	assert_non_null(strstr(heard(s, first), "200 OK"));
	for (size_t i = 0; i < COUNT(fd); i++)
		(void)close(fd[i]);
	status_server_free(s);
}

/* Two have as many places each: whoever of them came first gives one up. */
TEST(two_crowds)
{
	struct status_server *s = serve("127.0.0.1:0");
	int fd[STATUS_CONNECTIONS_MAX], newest;
	struct pollfd first;
	char byte;

	assert_int_equal(COUNT(fd) % 2, 0);
	for (size_t i = 0; i < COUNT(fd); i++) {
		fd[i] = dial_from(s, false, i % 2 ? 2 : 1);
		(void)usleep(3000);
		status_server_turn(s);
	}
	newest = dial_from(s, false, 3);
	status_server_turn(s);
	first = (struct pollfd){.fd = fd[0], .events = POLLIN};
	assert_int_equal(poll(&first, 1, 2000), 1);
	assert_int_equal(recv(fd[0], &byte, 1, 0), 0);
	for (size_t i = 1; i < COUNT(fd); i++)
		assert_true(recv(fd[i], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
	for (size_t i = 0; i < COUNT(fd); i++)
		(void)close(fd[i]);
	(void)close(newest);
	status_server_free(s);
}

/* Where a token is asked for, who has none may try so often; who has it may, as often as he likes,
 * and another address, too. */
TEST(tries_without_a_token)
{
	static const char good[] = "GET /readyz HTTP/1.1\r\nAuthorization: Bearer secret\r\n\r\n";
	struct status_app closed = app;
	struct status_server *s;
	int fd;

	closed.may = may;
	s = serve_app("127.0.0.1:0", &closed);
	for (size_t i = 0; i < 2 * STATUS_TRIES; i++)
		assert_non_null(strstr(asked(s, good), "200 OK"));
	for (size_t i = 0; i < STATUS_TRIES; i++)
		assert_non_null(strstr(
			asked(s, i % 2 ? "GET /livez HTTP/1.1\n\n" : "GET /usage HTTP/1.1\n\n"),
			i % 2 ? "200 OK" : "401 Unauthorized"));
	assert_string_equal(asked(s, good), "");
	fd = dial_from(s, false, 2);
	put(fd, good, strlen(good));
	assert_non_null(strstr(heard(s, fd), "200 OK"));
	status_server_free(s);
}

/* All who wait are taken in one turn, and answered, for they have asked already; one who may not
 * come in keeps nobody out, and who says nothing stays where he is. */
TEST(one_turn_takes_all_who_wait)
{
	struct status_app closed = app;
	struct status_server *s;
	int turned_away, fd[3], silent[STATUS_CONNECTIONS_MAX - 1];
	struct pollfd all[STATUS_POLL_MAX];
	int64_t ms;
	char byte;

	closed.may = may;
	s = serve_app("127.0.0.1:0", &closed);
	for (size_t i = 0; i < STATUS_TRIES; i++)
		(void)asked(s, "GET /usage HTTP/1.1\n\n");
	for (size_t i = 0; i < COUNT(silent); i++) {
		silent[i] = dial_from(s, false, 2);
		status_server_turn(s);
	}
	turned_away = dial(s, false);
	for (size_t i = 0; i < COUNT(fd); i++) {
		fd[i] = dial_from(s, false, 3);
		put(fd[i], "GET /livez HTTP/1.1\n\n", 21);
	}
	status_server_turn(s);
	assert_int_equal(recv(turned_away, &byte, 1, MSG_DONTWAIT), 0);
	(void)close(turned_away);
	for (size_t i = 0; i < COUNT(fd); i++) {
		assert_int_equal(recv(fd[i], &byte, 1, MSG_DONTWAIT), 1);
		(void)close(fd[i]);
	}
	/* for one place at a time: nobody had to go */
	for (size_t i = 0; i < COUNT(silent); i++) {
		assert_true(recv(silent[i], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
		(void)close(silent[i]);
	}
	/* nobody waits: that is no reason to look less */
	status_server_turn(s);
	assert_int_equal(status_server_poll(s, all, &ms), 1);
	assert_int_equal(ms, -1);
	status_server_free(s);
}

/* Where no descriptor is free nobody can be taken: it is looked again in a second, not before. */
TEST(no_descriptor_is_free)
{
	struct status_server *s = serve("127.0.0.1:0");
	int fd = dial(s, false), next = dup(fd);
	struct pollfd all[STATUS_POLL_MAX];
	struct rlimit before, few;
	int64_t ms, began = clock_ms();

	assert_true(next > fd);
	(void)close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = (rlim_t)next;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	status_server_turn(s);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(status_server_poll(s, all, &ms), 0);
	assert_true(ms > 0 && ms <= 1000);
	put(fd, "GET /livez HTTP/1.1\n\n", 21);
	assert_non_null(strstr(heard(s, fd), "200 OK"));
	assert_true(clock_ms() - began >= 1000);
	status_server_free(s);
}

TEST(the_silent_are_hung_up_on)
{
	struct status_server *s = serve("127.0.0.1:0");
	int64_t began = clock_ms();

	assert_string_equal(heard(s, dial(s, false)), "");
	assert_true(clock_ms() - began >= 4900);
	status_server_free(s);
}

TESTS(answers, requests_in_pieces_and_wrong_ones, pages_as_long_as_may_be, addresses,
	answers_over_tls, broken_tls, the_silent_make_place, the_crowd_makes_place, two_crowds,
	tries_without_a_token, one_turn_takes_all_who_wait, no_descriptor_is_free,
	the_silent_are_hung_up_on)
