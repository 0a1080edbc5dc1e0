/* SPDX-License-Identifier: Apache-2.0 */
/* test: what a connection's two sides are when bytes begin to be carried; and the bytes without
 * TLS. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "gate/carry.h"
#include "net/listener.h"
#include "test/unit/test.h"

static unsigned unanswered_ms(int fd)
{
	unsigned ms;
	socklen_t len = sizeof(ms);

	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, &len), 0);
	return ms;
}

/* A side that answers and does not read, for however long, is none that is gone. */
TEST(test_who_does_not_read)
{
	int pod = socket(AF_INET, SOCK_STREAM, 0), plain = socket(AF_INET, SOCK_STREAM, 0), on = 0;
	socklen_t len = sizeof(on);
	struct client_socket *s;
	struct carry c;

	assert_int_equal(client_socket_accept(pod, "a pod", NULL, &s, NULL), 0);
	client_socket_keepalive(plain);
	assert_true(unanswered_ms(pod) > 0 && unanswered_ms(plain) > 0);
	carry_begin(&c, s, plain);
	assert_true(unanswered_ms(pod) == 0 && unanswered_ms(plain) == 0);
	assert_int_equal(getsockopt(plain, SOL_SOCKET, SO_KEEPALIVE, &on, &len), 0);
	assert_true(on);
	carry_release(&c);
	client_socket_free(s);
	(void)close(plain);
}

/* ---- without TLS ---- */

#define PATIENCE_MS 30000

/* A connection that is carried, with what the pod and the server have of it. */
static struct {
	int loop, pod, server, plain, spare[2];
	struct client_socket *socket;
	struct carry carry;
	struct loop_watch pod_watch, plain_watch;
	bool over, breaks, broke; /* it may break; it has */
} t;

static void pair(int *ret_outer, int *ret_inner)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int64_t until = clock_ms() + PATIENCE_MS;
	uint16_t port;
	const int on = 1;
	int listener;

	assert_int_equal(listener_open("127.0.0.1:0", 1, 0, &listener, &port, NULL), 0);
	at.sin_port = htons(port);
	*ret_outer = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(*ret_outer, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(fcntl(*ret_outer, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(setsockopt(*ret_outer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), 0);
	do
		*ret_inner = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
	while (*ret_inner < 0 && errno == EAGAIN && clock_ms() < until);
	assert_true(*ret_inner >= 0);
	(void)close(listener);
}

static void go(void)
{
	static char scratch[CLIENT_SOCKET_BURST];
	bool more;
	int rc = carry_turn(&t.carry, scratch, &more, &t.over, NULL);

	t.broke = t.breaks && rc == ERR_IO;
	if (t.broke)
		return;
	assert_int_equal(rc, 0);
	assert_int_equal(carry_ask(&t.carry, t.loop, &t.pod_watch, &t.plain_watch, NULL), 0);
}

static void on_pod(void *ctx, uint32_t events)
{
	(void)ctx;
	carry_told_tls(&t.carry, events);
	go();
}

static void on_plain(void *ctx, uint32_t events)
{
	(void)ctx;
	carry_told_plain(&t.carry, events);
	go();
}

FIXTURE(set_up)
{
	const int some = 65536;
	int fd;

	memset(&t, 0, sizeof(t));
	t.spare[0] = -1;
	t.pod_watch.ready = on_pod;
	t.plain_watch.ready = on_plain;
	pair(&t.pod, &fd);
	pair(&t.server, &t.plain);
	/* Of a size that stays. */
	assert_int_equal(setsockopt(t.server, SOL_SOCKET, SO_RCVBUF, &some, sizeof(some)), 0);
	assert_int_equal(setsockopt(t.plain, SOL_SOCKET, SO_SNDBUF, &some, sizeof(some)), 0);
	assert_int_equal(client_socket_accept(fd, "a pod", NULL, &t.socket, NULL), 0);
	assert_int_equal(loop_open(&t.loop, NULL), 0);
	assert_int_equal(loop_add(t.loop, fd, &t.pod_watch, NULL), 0);
	assert_int_equal(loop_add(t.loop, t.plain, &t.plain_watch, NULL), 0);
	carry_begin(&t.carry, t.socket, t.plain);
	carry_splice(&t.carry, t.spare);
	go();
	return 0;
}

FIXTURE(tear_down)
{
	carry_release(&t.carry);
	carry_close_pipe(t.spare);
	client_socket_free(t.socket);
	(void)close(t.plain);
	(void)close(t.pod);
	(void)close(t.server);
	(void)close(t.loop);
	return 0;
}

/* Until nothing is told any more, so that who waits in the loop spends nothing. */
static void fall_silent(void)
{
	int64_t until = clock_ms() + PATIENCE_MS;

	while (loop_turn(t.loop, 50) > 0)
		assert_true(clock_ms() < until);
}

/* What stands at each place of a stream, so that none of it can be left out or come twice unseen.
 */
static char at(uint64_t place)
{
	return (char)(place % 251);
}

/* One piece, or as much of it as there is room for. */
static size_t put(int fd, uint64_t *place, size_t len)
{
	char piece[65536];
	ssize_t n;

	for (size_t i = 0; i < len; i++)
		piece[i] = at(*place + i);
	n = send(fd, piece, len, MSG_NOSIGNAL);
	assert_true(n > 0 || errno == EAGAIN);
	*place += n > 0 ? (size_t)n : 0;
	return n > 0 ? (size_t)n : 0;
}

/* Until neither it nor the carrier takes any more. */
static void fill(int fd, uint64_t *place)
{
	uint64_t before;

	do {
		before = *place;
		while (put(fd, place, 65536) > 0)
			;
		fall_silent();
	} while (*place > before);
}

/* Up to this place, or until its end. */
static void take(int fd, uint64_t *place, uint64_t until, bool end)
{
	int64_t limit = clock_ms() + PATIENCE_MS;
	char piece[65536];
	ssize_t n = 1;

	while (*place < until || (end && n != 0)) {
		n = recv(fd, piece, sizeof(piece), 0);
		assert_true(n >= 0 || errno == EAGAIN);
		for (ssize_t i = 0; i < n; i++)
			assert_int_equal(piece[i], at(*place + (size_t)i));
		*place += n > 0 ? (size_t)n : 0;
		if (n < 0)
			(void)loop_turn(t.loop, 50);
		assert_true(clock_ms() < limit && (n != 0 || *place == until));
	}
	assert_true(*place == until);
}

/* Of many small ones less is moved at once than there is. */
TEST(test_pieces_of_all_sizes)
{
	static const struct {
		size_t len, times;
	} pieces[] = {{1, 1}, {1, 300}, {65536, 1}, {65536, 3}, {7, 100}, {1, 1}};

	for (size_t i = 0; i < COUNT(pieces) * 2; i++) {
		int from = i % 2 ? t.server : t.pod, to = i % 2 ? t.pod : t.server;
		uint64_t sent = 0, came = 0;
		size_t k = i / 2;

		while (sent < pieces[k].len * pieces[k].times)
			if (put(from, &sent, pieces[k].len) == 0)
				take(to, &came, sent, false);
		take(to, &came, sent, false);
		fall_silent();
	}
	/* Neither way has kept a pipe. */
	assert_true(t.carry.up.pipe[0] < 0 && t.carry.down.pipe[0] < 0);
}

TEST(test_nobody_reads)
{
	uint64_t to_server = 0, to_pod = 0, at_server = 0, at_pod = 0;

	fill(t.pod, &to_server);
	fill(t.server, &to_pod);
	assert_true(t.carry.up.held > 0 && t.carry.down.held > 0);
	take(t.server, &at_server, to_server, false);
	take(t.pod, &at_pod, to_pod, false);
	fall_silent();
	assert_true(t.carry.up.held == 0 && t.carry.down.held == 0);
}

/* A half that has ended while it was stopped up ends behind its last byte, and the other goes on.
 */
TEST(test_end_behind_what_waits)
{
	uint64_t to_server = 0, to_pod = 0, at_server = 0, at_pod = 0;

	fill(t.pod, &to_server);
	assert_int_equal(shutdown(t.pod, SHUT_WR), 0);
	fall_silent();
	assert_int_equal(put(t.server, &to_pod, 1000), 1000);
	take(t.pod, &at_pod, to_pod, false);
	take(t.server, &at_server, to_server, true);
	assert_false(t.over);
	assert_int_equal(put(t.server, &to_pod, 1000), 1000);
	assert_int_equal(shutdown(t.server, SHUT_WR), 0);
	take(t.pod, &at_pod, to_pod, true);
	assert_true(t.over);
}

/* That a side has hung up both ways is always told, and nothing can be done about it before the
 * other side takes what waits. */
TEST(test_both_ends_while_it_waits)
{
	uint64_t to_server = 0, at_server = 0, at_pod = 0;
	int64_t until = clock_ms() + PATIENCE_MS;

	/* No more than is held: else its end would wait behind what it has not got rid of. */
	while (t.carry.down.held == 0) {
		assert_true(clock_ms() < until);
		(void)put(t.pod, &to_server, 4096);
		(void)loop_turn(t.loop, 0);
		if (t.carry.down.held > 0)
			fall_silent();
	}
	assert_int_equal(shutdown(t.server, SHUT_WR), 0);
	take(t.pod, &at_pod, 0, true);
	assert_int_equal(shutdown(t.pod, SHUT_WR), 0);
	fall_silent();
	assert_true(t.carry.down.held > 0 && !t.over);
	take(t.server, &at_server, to_server, true);
	assert_true(t.over);
}

/* An urgent byte is left out, as for whoever does not ask for it, and holds nothing up. */
TEST(test_urgent_byte)
{
	uint64_t to_server = 0, at_server = 0;

	for (int i = 0; i < 3; i++) {
		assert_int_equal(put(t.pod, &to_server, 2), 2);
		assert_int_equal(send(t.pod, "!", 1, MSG_OOB), 1);
		fall_silent();
		assert_int_equal(put(t.pod, &to_server, 1000), 1000);
		take(t.server, &at_server, to_server, false);
		fall_silent();
	}
}

/* Nor does what came behind one, with the end behind it, pass for the end. */
TEST(test_end_behind_an_urgent_byte)
{
	uint64_t to_server = 0, at_server = 0;

	assert_int_equal(send(t.pod, "!", 1, MSG_OOB), 1);
	assert_int_equal(put(t.pod, &to_server, 1000), 1000);
	assert_int_equal(shutdown(t.pod, SHUT_WR), 0);
	take(t.server, &at_server, to_server, true);
	assert_true(t.carry.down.over && !t.over);
}

/* The server, which has got all, would learn of it when it says something. */
TEST(test_pod_that_breaks_behind_its_end)
{
	const struct linger now = {.l_onoff = 1};
	uint64_t to_server = 0, at_server = 0;
	int64_t limit = clock_ms() + PATIENCE_MS;
	int left;

	assert_int_equal(put(t.pod, &to_server, 1000), 1000);
	assert_int_equal(shutdown(t.pod, SHUT_WR), 0);
	take(t.server, &at_server, to_server, true);
	/* That it has got the end, too, is acknowledged later. */
	do {
		fall_silent();
		assert_int_equal(ioctl(t.plain, SIOCOUTQ, &left), 0);
		assert_true(clock_ms() < limit);
	} while (left > 0);
	assert_false(t.over);
	assert_int_equal(setsockopt(t.pod, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
	t.breaks = true;
	(void)close(t.pod);
	t.pod = -1;
	while (!t.broke) {
		(void)loop_turn(t.loop, 50);
		assert_true(clock_ms() < limit);
	}
}

TESTS_BETWEEN(set_up, tear_down, test_who_does_not_read, test_pieces_of_all_sizes,
	test_nobody_reads, test_end_behind_what_waits, test_both_ends_while_it_waits,
	test_urgent_byte, test_end_behind_an_urgent_byte, test_pod_that_breaks_behind_its_end)
