/* SPDX-License-Identifier: Apache-2.0 */
/* test: net/client_socket as a stream that is carried: a peer that does not read is waited for, one
 * that is gone is told, and one direction ends without the other. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/client_socket.h"
#include "test/unit/make_pair.h"
#include "test/unit/test.h"

#define TRIES 10000
/* More than sockets of this machine hold. */
#define RECORDS_MAX 4096

static char ca_file[] = "/tmp/poolgate-stream-XXXXXX";
static struct tls_identity *identity;
static struct server_tls *server_tls;
static char record[CLIENT_SOCKET_RECORD], got[CLIENT_SOCKET_RECORD];

FIXTURE(begin)
{
	static struct made_pair pair;
	int fd = mkstemp(ca_file);

	make_pair(&pair, MADE_P256, -60, 86400, 1);
	identity = tls_identity_new();
	made_load(&pair, identity);
	server_tls = server_tls_new(identity);
	assert_non_null(server_tls);
	assert_int_equal(write(fd, pair.cert, strlen(pair.cert)), strlen(pair.cert));
	memset(record, 'r', sizeof(record));
	return close(fd);
}

FIXTURE(finish)
{
	server_tls_free(server_tls);
	tls_identity_free(identity);
	return unlink(ca_file);
}

/* Both ends of a connection; far_fd alone where it does not speak TLS. */
struct ends {
	struct client_socket *near, *far;
	int far_fd;
};

static void connect_ends(struct ends *e, bool tls)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	struct client_target target = {.host = "127.0.0.1",
		.tls = tls,
		.ca_file = ca_file,
		.name = tls ? "localhost" : NULL,
		.whole = true};
	int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct err err = {0};

	*e = (struct ends){.far_fd = -1};
	assert_int_equal(bind(server, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(server, 1), 0);
	assert_int_equal(getsockname(server, (struct sockaddr *)&at, &len), 0);
	target.port = ntohs(at.sin_port);
	assert_int_equal(client_socket_open(&target, &e->near, &err), 0);
	e->far_fd = accept4(server, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	assert_true(e->far_fd >= 0);
	(void)close(server);
	if (tls)
		assert_int_equal(
			client_socket_accept(e->far_fd, "far", server_tls, &e->far, &err), 0);
	for (int i = 0; i < TRIES &&
			(!client_socket_ready(e->near) || (tls && !client_socket_ready(e->far)));
		i++, usleep(1000)) {
		assert_int_equal(client_socket_turn(e->near, &err), 0);
		if (tls)
			assert_int_equal(client_socket_turn(e->far, &err), 0);
	}
	assert_true(client_socket_ready(e->near));
}

/* Write until there is no more room; how many bytes were taken. */
static size_t fill(struct client_socket *s)
{
	const struct slice all = {record, sizeof(record)};
	size_t sum = 0, taken = 1;
	struct err err = {0};

	for (int i = 0; i < RECORDS_MAX && taken > 0 && !client_socket_sending(s); i++) {
		assert_int_equal(client_socket_write(s, all, &taken, &err), 0);
		sum += taken;
	}
	assert_true(taken == 0 || client_socket_sending(s));
	/* That there is none is no error, however often one asks. */
	for (int i = 0; i < 3; i++) {
		assert_int_equal(client_socket_turn(s, &err), 0);
		if (!client_socket_sending(s))
			assert_int_equal(client_socket_write(s, all, &taken, &err), 0);
	}
	return sum;
}

/* It does not take long until the peer's end is an error, and that stays so. */
static void must_fail(struct client_socket *s)
{
	const struct slice all = {record, sizeof(record)};
	size_t taken;
	struct err err = {0};
	int rc = 0;

	for (int i = 0; i < TRIES && rc == 0; i++, usleep(1000)) {
		rc = client_socket_turn(s, &err);
		if (rc == 0 && !client_socket_sending(s))
			rc = client_socket_write(s, all, &taken, &err);
	}
	assert_int_equal(rc, ERR_IO);
	assert_true(
		strncmp(err.msg, "localhost: ", 11) == 0 || strncmp(err.msg, "127.0.0.1", 9) == 0);
}

static void close_hard(int fd)
{
	const struct linger now = {.l_onoff = 1};

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
	(void)close(fd);
}

/* Of a plain stream one direction ends, once, and the other goes on. */
TEST(test_the_end_of_a_plain_direction)
{
	struct ends e;
	struct err err = {0};
	size_t n = 0;
	bool end = false;

	connect_ends(&e, false);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(client_socket_shut(e.near, &err), 0);
		assert_int_equal(recv(e.far_fd, got, sizeof(got), 0), 0);
	}
	assert_int_equal(send(e.far_fd, "x", 1, MSG_NOSIGNAL), 1);
	for (int i = 0; i < TRIES && n == 0; i++, usleep(1000))
		assert_int_equal(client_socket_read(e.near, got, sizeof(got), &n, &end, &err), 0);
	assert_int_equal(n, 1);
	assert_false(end);
	(void)close(e.far_fd);
	client_socket_free(e.near);
}

/* What a peer that is gone makes of an end. */
static void must_not_shut(struct client_socket *s)
{
	struct pollfd p = {.fd = client_socket_fd(s), .events = POLLIN};
	struct err err = {0};

	assert_int_equal(poll(&p, 1, 5000), 1);
	for (int i = 0; i < 2; i++) {
		err_clear(&err);
		assert_int_equal(client_socket_shut(s, &err), ERR_IO);
		assert_int_equal(err.code, ERR_IO);
		assert_true(strncmp(err.msg, "localhost: ", 11) == 0 ||
			    strncmp(err.msg, "127.0.0.1: ", 11) == 0);
	}
}

TEST(test_the_end_to_who_is_gone)
{
	struct ends e;

	connect_ends(&e, false);
	close_hard(e.far_fd);
	must_not_shut(e.near);
	client_socket_free(e.near);
	connect_ends(&e, true);
	client_socket_break(e.far);
	client_socket_free(e.far);
	must_not_shut(e.near);
	client_socket_free(e.near);
}

/* Where there is no room for the word of TLS that ends it, it is said later. */
TEST(test_the_end_without_room)
{
	struct err err = {0};
	struct ends e;
	ssize_t n;

	connect_ends(&e, true);
	do
		n = send(client_socket_fd(e.near), record, sizeof(record), MSG_NOSIGNAL);
	while (n > 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(client_socket_shut(e.near, &err), 0);
	client_socket_break(e.far);
	client_socket_free(e.far);
	must_not_shut(e.near);
	client_socket_free(e.near);
}

TEST(test_a_peer_that_does_not_read)
{
	struct ends e;
	struct err err = {0};
	size_t sent, came = 0, len;
	bool end = false;

	connect_ends(&e, true);
	sent = fill(e.near);
	assert_int_equal(client_socket_shut(e.near, &err), 0);
	for (int i = 0; i < TRIES && !end; i += len == 0) {
		assert_int_equal(client_socket_turn(e.near, &err), 0);
		assert_int_equal(client_socket_read(e.far, got, sizeof(got), &len, &end, &err), 0);
		assert_memory_equal(got, record, len);
		came += len;
		if (len == 0)
			usleep(1000);
	}
	assert_true(end);
	assert_int_equal(came, sent);
	assert_false(client_socket_sending(e.near));
	/* The other direction stands. */
	assert_int_equal(client_socket_write(e.far, SLICE("rest"), &len, &err), 0);
	assert_int_equal(len, 4);
	len = 0;
	for (int i = 0; i < TRIES && len == 0; i++, usleep(1000))
		assert_int_equal(client_socket_read(e.near, got, sizeof(got), &len, &end, &err), 0);
	assert_int_equal(len, 4);
	assert_memory_equal(got, "rest", 4);
	client_socket_free(e.near);
	client_socket_free(e.far);
}

/* What is received ahead of TLS comes as it was sent, as much of it as there is and however much
 * one asks for. */
TEST(test_who_reads_ahead)
{
	static const size_t asks[] = {1, 5, 1000, CLIENT_SOCKET_RECORD};
	size_t sent, came, taken, len;
	struct ends e;
	struct err err = {0};
	bool end;

	connect_ends(&e, true);
	client_socket_read_ahead(e.far);
	for (size_t i = 0; i < sizeof(record); i++)
		record[i] = (char)(i * 31 % 251);
	for (size_t i = 0; i < 4 * COUNT(asks); i++) {
		/* a byte; some; two records; more than is received at once */
		const size_t all =
			(const size_t[]){1, 300, 2 * sizeof(record), 40 * sizeof(record)}[i % 4];

		sent = came = 0;
		for (int tries = 0; tries < TRIES && came < all; tries += len == 0) {
			size_t at = sent % sizeof(record), left = all - sent;
			size_t most = sizeof(record) - at;

			assert_int_equal(client_socket_turn(e.near, &err), 0);
			if (left && !client_socket_sending(e.near)) {
				assert_int_equal(client_socket_write(e.near,
							 (struct slice){record + at,
								 left < most ? left : most},
							 &taken, &err),
					0);
				sent += taken;
			}
			assert_int_equal(
				client_socket_read(e.far, got, asks[i / 4], &len, &end, &err), 0);
			assert_false(end);
			for (size_t k = 0; k < len; k++)
				if (got[k] != record[(came + k) % sizeof(record)])
					fail_msg("byte %zu", came + k);
			came += len;
			if (len == 0 && !left)
				usleep(1000);
		}
		assert_int_equal(came, all);
	}
	memset(record, 'r', sizeof(record));
	client_socket_free(e.near);
	client_socket_free(e.far);
}

TEST(test_a_peer_that_is_gone)
{
	struct ends e;

	for (int full = 0; full < 2; full++) {
		connect_ends(&e, true);
		if (full)
			(void)fill(e.near);
		client_socket_break(e.far);
		client_socket_free(e.far);
		must_fail(e.near);
		client_socket_free(e.near);
		connect_ends(&e, false);
		if (full)
			(void)fill(e.near);
		close_hard(e.far_fd);
		must_fail(e.near);
		client_socket_free(e.near);
	}
}

TESTS_WITHIN(begin, finish, test_the_end_of_a_plain_direction, test_the_end_to_who_is_gone,
	test_the_end_without_room, test_a_peer_that_does_not_read, test_who_reads_ahead,
	test_a_peer_that_is_gone)
