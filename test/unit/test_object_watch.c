/* SPDX-License-Identifier: Apache-2.0 */
/* test: kube/object_watch: ends of connections between answers and within one, who is silent, and
 * who lets nobody in, by a clock that stands still until it is told to go on. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include "kube/object_watch.h"
#include "test/unit/make_pair.h"
#include "test/unit/scratch.h"
#include "test/unit/test.h"

#define LIST                                                                                       \
	"{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"10\"},\"items\":[{"             \
	"\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"3\"}}]}"
#define HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

static int64_t now_ms = 1000000;

/* In place of the C library's: what counts milliseconds stands still. */
int clock_gettime(clockid_t clock_id, struct timespec *tp)
{
	if (clock_id != CLOCK_MONOTONIC)
		return (int)syscall(SYS_clock_gettime, clock_id, tp);
	*tp = (struct timespec){now_ms / 1000, now_ms % 1000 * 1000000};
	return 0;
}

static struct fixture {
	struct object_watch *w;
	int listener, fd; /* of the API server: fd is the connection that it took last */
	char server[64], asked[4096], told[512];
	struct err why; /* of the last break */
} fix;

static void tell(const char *word)
{
	(void)snprintf(
		fix.told + strlen(fix.told), sizeof(fix.told) - strlen(fix.told), "%s ", word);
}

static void listing(void *ctx)
{
	(void)ctx;
	tell("listing");
}

static int change(void *ctx, enum kube_change what, const struct json *j,
	const struct json_node *object, struct err *err)
{
	(void)ctx, (void)what, (void)j, (void)object, (void)err;
	tell("object");
	return 0;
}

static void listed(void *ctx, const char *version)
{
	(void)ctx;
	tell(version);
}

static void connected(void *ctx, bool yes, const struct err *why)
{
	(void)ctx;
	tell(yes ? "up" : "down");
	if (why)
		fix.why = *why;
}

static void begin(const char *scheme, const char *ca_file)
{
	static struct kube_config config;
	static const struct reflector_config what = {.path = "/api/v1/pods",
		.answer_max = 1 << 20,
		.app = {.listing = listing,
			.change = change,
			.listed = listed,
			.connected = connected}};
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	struct err err = {0};

	fix = (struct fixture){.fd = -1};
	fix.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fix.listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fix.listener, 8), 0);
	assert_int_equal(getsockname(fix.listener, (struct sockaddr *)&at, &len), 0);
	(void)snprintf(
		fix.server, sizeof(fix.server), "%s://127.0.0.1:%u", scheme, ntohs(at.sin_port));
	config = (struct kube_config){
		.server = fix.server, .ca_file = ca_file, .ca_fd = -1, .cert_fd = -1, .key_fd = -1};
	if (object_watch_new(&config, &what, "test", &fix.w, &err) != 0)
		fail_msg("%s", err.msg);
}

static void hang_up(void)
{
	if (fix.fd >= 0)
		(void)close(fix.fd);
	fix.fd = -1;
}

static void end(void)
{
	object_watch_free(fix.w);
	hang_up();
	(void)close(fix.listener);
}

/* Turns until something can be read there, or until 5 s have passed. */
static void turn_until(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	for (int i = 0; i < 5000; i++) {
		object_watch_turn(fix.w);
		if (poll(&p, 1, 1) > 0)
			return;
	}
	fail_msg("nothing came");
}

/* Another connection came, on which this is asked for. */
static void asks(const char *target)
{
	size_t n = 0;

	turn_until(fix.listener);
	hang_up();
	fix.fd = accept(fix.listener, NULL, NULL);
	assert_true(fix.fd >= 0);
	do {
		ssize_t got;

		turn_until(fix.fd);
		got = recv(fix.fd, fix.asked + n, sizeof(fix.asked) - 1 - n, 0);
		assert_true(got > 0);
		n += (size_t)got;
		fix.asked[n] = '\0';
	} while (!strstr(fix.asked, "\r\n\r\n"));
	if (strncmp(fix.asked, target, strlen(target)) != 0)
		fail_msg("%s", fix.asked);
}

static void answers(const char *text)
{
	assert_int_equal(send(fix.fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Turns until the other side has hung up. */
static void is_hung_up_on(void)
{
	char rest[64];

	turn_until(fix.fd);
	assert_true(recv(fix.fd, rest, sizeof(rest), 0) <= 0);
}

static int64_t waits(struct pollfd *ret)
{
	return object_watch_poll(fix.w, ret);
}

/* The API server closes what it could have kept: no answer is cut by that. */
TEST(test_end_between_two_answers)
{
	char list[512];

	begin("http", NULL);
	asks("GET /api/v1/pods?limit=");
	(void)snprintf(list, sizeof(list), HEAD "Content-Length: %zu\r\n\r\n" LIST, strlen(LIST));
	answers(list);
	hang_up();
	asks("GET /api/v1/pods?watch=true");
	assert_string_equal(fix.told, "listing object 10 up ");
	assert_int_equal(fix.why.code, ERR_NONE);
	end();
}

/* An answer without a length is over when the connection is. */
TEST(test_end_of_an_answer)
{
	begin("http", NULL);
	asks("GET /api/v1/pods?limit=");
	answers(HEAD "\r\n" LIST);
	for (int i = 0; i < 3; i++)
		object_watch_turn(fix.w);
	assert_string_equal(fix.told, "listing ");
	hang_up();
	asks("GET /api/v1/pods?watch=true");
	assert_string_equal(fix.told, "listing object 10 up ");
	assert_int_equal(fix.why.code, ERR_NONE);
	end();
}

/* A page that does not come, and a watch in which nothing does: each is given up when its time is
 * over, and no sooner. */
TEST(test_silence)
{
	struct pollfd p;

	begin("http", NULL);
	asks("GET /api/v1/pods?limit=");
	assert_int_equal(waits(&p), REFLECTOR_PAGE_MS);
	assert_true(p.fd >= 0);
	assert_int_equal(p.events, POLLIN);
	now_ms += REFLECTOR_PAGE_MS - 1;
	object_watch_turn(fix.w);
	assert_string_equal(fix.told, "listing ");
	assert_int_equal(waits(&p), 1);
	now_ms++;
	assert_int_equal(waits(&p), 0);
	is_hung_up_on();
	assert_string_equal(fix.told, "listing down ");
	assert_non_null(strstr(fix.why.msg, "the page did not come within 60 s"));
	assert_true(waits(&p) <= REFLECTOR_WAIT_FIRST_MS);
	assert_int_equal(p.fd, -1);
	now_ms += REFLECTOR_WAIT_FIRST_MS;
	asks("GET /api/v1/pods?limit=");
	answers(HEAD "\r\n" LIST);
	hang_up();
	asks("GET /api/v1/pods?watch=true");
	answers(HEAD "\r\n");
	for (int i = 0; i < 3; i++)
		object_watch_turn(fix.w);
	now_ms += REFLECTOR_SILENCE_MS - 1;
	object_watch_turn(fix.w);
	assert_string_equal(fix.told, "listing down listing object 10 up ");
	now_ms++;
	is_hung_up_on();
	assert_string_equal(fix.told, "listing down listing object 10 up down ");
	assert_non_null(strstr(fix.why.msg, "nothing came for 90 s"));
	end();
}

/* Who takes the connection and does not say who he is has ten seconds. */
TEST(test_no_connection_in_time)
{
	static struct made_pair pair;
	struct pollfd p;

	make_pair(&pair, MADE_P256, -60, 3600, 1);
	begin("https", scratch_file("ca.crt", pair.cert));
	assert_int_equal(waits(&p), 0);
	assert_int_equal(p.fd, -1);
	turn_until(fix.listener);
	fix.fd = accept(fix.listener, NULL, NULL);
	turn_until(fix.fd); /* his greeting */
	assert_int_equal(waits(&p), 10000);
	assert_true(p.fd >= 0);
	assert_int_equal(p.events, POLLIN);
	now_ms += 9999;
	object_watch_turn(fix.w);
	assert_int_equal(waits(&p), 1);
	assert_string_equal(fix.told, "listing ");
	now_ms++;
	assert_int_equal(waits(&p), 0);
	object_watch_turn(fix.w);
	assert_string_equal(fix.told, "listing down ");
	assert_int_equal(fix.why.code, ERR_TIMEOUT);
	assert_string_equal(
		strstr(fix.why.msg, ": no connection in time"), ": no connection in time");
	assert_non_null(strstr(fix.why.msg, fix.server));
	end();
}

TESTS_WITHIN(scratch_begin, scratch_end, test_end_between_two_answers, test_end_of_an_answer,
	test_silence, test_no_connection_in_time)
