/* SPDX-License-Identifier: Apache-2.0 */
/* test: which addresses can be listened on, what the sockets are like, and how peers are called. */
#include "net/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "test/unit/test.h"

/* What the kernel refuses, and why; 0: nothing. These calls are asked in place of the C library's.
 */
static struct {
	int family, option, name, why;
} refused;

static bool refuses(bool asked)
{
	if (asked)
		errno = refused.why;
	return asked;
}

int socket(int domain, int type, int protocol)
{
	return refuses(refused.family && domain == refused.family)
		       ? -1
		       : (int)syscall(SYS_socket, domain, type, protocol);
}

int setsockopt(int fd, int level, int optname, const void *optval, socklen_t optlen)
{
	return refuses(refused.option && optname == refused.option)
		       ? -1
		       : (int)syscall(SYS_setsockopt, fd, level, optname, optval, optlen);
}

int getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	return refuses(refused.name) ? -1 : (int)syscall(SYS_getsockname, fd, addr, len);
}

TEST(test_what_an_address_is)
{
	static const struct {
		const char *text;
		int rc;
	} rows[] = {
		{"127.0.0.1:8443", 0},
		{"localhost:1", 0},
		{"[::1]:8443", 0},
		{":8443", 0},
		{"0.0.0.0:0", 0},
		{"[::]:0", 0},
		{"example.com:80", ERR_INVALID},
		{"127.0.0.256:80", ERR_INVALID},
		{"127.0.0.1", ERR_INVALID},
		{"127.0.0.1:65536", ERR_INVALID},
		{"", ERR_INVALID},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct err err = {0};
		int rc = listener_check(slice_of(rows[i].text), &err);

		if ((rc == 0) != (rows[i].rc == 0))
			fail_msg("%s: %d, %s", rows[i].text, rc, err.msg);
	}
}

/* An address that is no number is quoted, not all of a long one. */
TEST(test_what_is_said_of_another)
{
	struct err err = {0};
	char text[64 + 4];
	int fd = -1;
	uint16_t port = 0;

	assert_int_equal(listener_check(SLICE("example.com:80"), &err), ERR_INVALID);
	assert_string_equal(err.msg, "cannot listen on \"example.com:80\": give a numeric address "
				     "and a port, such as 127.0.0.1:8443, [::1]:8443 or :8443");
	memset(text, 'a', 60);
	memcpy(text + 60, ":80", 4);
	assert_int_equal(listener_open(text, 5, 0, &fd, &port, &err), ERR_INVALID);
	assert_int_equal(fd, -1);
}

static int number(int fd, int level, int option)
{
	int value = -1;
	socklen_t len = sizeof(value);

	assert_int_equal(getsockopt(fd, level, option, &value, &len), 0);
	return value;
}

static int open_with_room(const char *address, int room, uint16_t *ret_port)
{
	struct err err = {0};
	int fd = -1;

	if (listener_open(address, 5, room, &fd, ret_port, &err) != 0)
		fail_msg("%s", err.msg);
	assert_true(fd >= 0);
	assert_true(*ret_port > 0);
	return fd;
}

static int open_at(const char *address, uint16_t *ret_port)
{
	return open_with_room(address, 0, ret_port);
}

/* Does somebody listen at this port of the loopback? */
static bool answers(int family, uint16_t port)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
		.sin6_port = htons(port),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT};
	bool old = family == AF_INET;
	int fd = socket(family, SOCK_STREAM, 0);
	int rc = connect(fd, old ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6,
		old ? sizeof(v4) : sizeof(v6));

	(void)close(fd);
	return rc == 0;
}

TEST(test_the_socket)
{
	uint16_t port = 0;
	int fd = open_at("localhost:0", &port);

	assert_true(answers(AF_INET, port));
	assert_int_equal(number(fd, SOL_SOCKET, SO_ACCEPTCONN), 1);
	assert_int_equal(number(fd, SOL_SOCKET, SO_REUSEADDR), 1);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	(void)close(fd);
}

/* The kernel takes it twice, and gives it to who is accepted. */
TEST(test_room_for_what_is_not_taken)
{
	uint16_t port = 0;
	int as_it_comes = socket(AF_INET, SOCK_STREAM, 0);
	int none = open_at("localhost:0", &port);
	int some = open_with_room("localhost:0", LISTENER_ROOM, &port), peer;

	assert_int_equal(
		number(none, SOL_SOCKET, SO_SNDBUF), number(as_it_comes, SOL_SOCKET, SO_SNDBUF));
	assert_true(answers(AF_INET, port));
	peer = accept(some, NULL, NULL);
	assert_true(peer >= 0);
	assert_int_equal(number(peer, SOL_SOCKET, SO_SNDBUF), 2 * 65536);
	(void)close(peer);
	(void)close(as_it_comes);
	(void)close(none);
	(void)close(some);
}

/* All addresses are those of both families, where the kernel has both. */
TEST(test_all_addresses)
{
	uint16_t port = 0;
	int fd = open_at(":0", &port), probe = socket(AF_INET6, SOCK_STREAM, 0);

	assert_true(answers(AF_INET, port));
	if (probe >= 0) {
		assert_int_equal(number(fd, IPPROTO_IPV6, IPV6_V6ONLY), 0);
		(void)close(probe);
	}
	(void)close(fd);
}

/* Where the kernel has no IPv6, all addresses are those of IPv4, at the same port. */
TEST(test_all_addresses_without_v6)
{
	static const char *const all[] = {":0", "[::]:0"};
	struct sockaddr_in at = {0};
	socklen_t len;
	uint16_t port = 0, other = 0;
	char again[16], said[96];
	struct err err = {0};
	int fd, second = -1;

	for (size_t i = 0; i < COUNT(all); i++) {
		refused.family = AF_INET6;
		refused.why = EAFNOSUPPORT;
		fd = open_at(all[i], &port);
		(void)snprintf(
			again, sizeof(again), "%.*s%u", (int)strlen(all[i]) - 1, all[i], port);
		assert_int_equal(listener_open(again, 5, 0, &second, &other, &err), ERR_IO);
		refused.family = 0;
		(void)snprintf(
			said, sizeof(said), "cannot listen on %s: Address already in use", again);
		assert_non_null(strstr(err.msg, said));
		len = sizeof(at);
		assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
		assert_int_equal(at.sin_family, AF_INET);
		assert_int_equal(at.sin_addr.s_addr, htonl(INADDR_ANY));
		assert_int_equal(ntohs(at.sin_port), port);
		assert_true(answers(AF_INET, port));
		assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
		assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		(void)close(fd);
	}
}

/* One address of a family that is not there is no other, and no other reason is that one. */
TEST(test_no_socket)
{
	static const struct {
		const char *address;
		int family, why;
	} rows[] = {
		{"[::1]:0", AF_INET6, EAFNOSUPPORT},
		{"[::ffff:0.0.0.0]:0", AF_INET6, EAFNOSUPPORT},
		{"0.0.0.0:0", AF_INET, EAFNOSUPPORT},
		{":0", AF_INET6, EMFILE},
		{":0", AF_INET6, EACCES},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct err err = {0};
		uint16_t port = 7;
		int fd = -1, rc;
		char said[96];

		refused.family = rows[i].family;
		refused.why = rows[i].why;
		rc = listener_open(rows[i].address, 5, 0, &fd, &port, &err);
		refused.family = 0;
		assert_int_equal(rc, ERR_IO);
		(void)snprintf(said, sizeof(said), "cannot listen on %s: %s", rows[i].address,
			strerror(rows[i].why));
		assert_string_equal(err.msg, said);
		assert_int_equal(fd, -1);
		assert_int_equal(port, 7);
	}
}

/* A socket that is not as it should be is closed again. */
TEST(test_no_good_socket)
{
	static const struct {
		const char *address;
		int option, name, good;
	} rows[] = {
		{":0", SO_REUSEADDR, 0, false},
		{"127.0.0.1:0", SO_SNDBUF, 0, false},
		{":0", IPV6_V6ONLY, 0, false},
		{"127.0.0.1:0", IPV6_V6ONLY, 0, true},
		{"127.0.0.1:0", 0, 1, false},
	};
	int next = dup(0);

	(void)close(next);
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct err err = {0};
		uint16_t port = 0;
		int fd = -1, rc, now;

		refused.option = rows[i].option;
		refused.name = rows[i].name;
		refused.why = ENOPROTOOPT;
		rc = listener_open(rows[i].address, 5, LISTENER_ROOM, &fd, &port, &err);
		refused.option = refused.name = 0;
		assert_int_equal(rc, rows[i].good ? 0 : ERR_IO);
		assert_int_equal(fd >= 0, rows[i].good);
		if (fd >= 0)
			(void)close(fd);
		else
			assert_non_null(strstr(err.msg, ": Protocol not available"));
		now = dup(0);
		assert_int_equal(now, next);
		(void)close(now);
	}
}

TEST(test_one_that_is_taken)
{
	uint16_t port = 0, other = 0;
	int fd = open_at("127.0.0.1:0", &port), second = -1;
	struct err err = {0};
	char address[32], said[128];

	(void)snprintf(address, sizeof(address), "127.0.0.1:%u", port);
	assert_int_equal(listener_open(address, 5, 0, &second, &other, &err), ERR_IO);
	(void)snprintf(said, sizeof(said),
		"cannot listen on %s: Address already in use; stop the other program or choose "
		"another port",
		address);
	assert_string_equal(err.msg, said);
	assert_int_equal(second, -1);
	assert_int_equal(other, 0);
	/* for another reason there is no such advice */
	err_clear(&err);
	assert_int_equal(listener_open("192.0.2.1:0", 5, 0, &second, &other, &err), ERR_IO);
	assert_null(strstr(err.msg, "another port"));
	(void)close(fd);
}

TEST(test_what_peers_are_called)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(41234)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(7)};
	struct sockaddr_un other = {.sun_family = AF_UNIX};
	char text[56];

	assert_int_equal(inet_pton(AF_INET, "10.0.0.7", &v4.sin_addr), 1);
	listener_peer_text((struct sockaddr *)&v4, text);
	assert_string_equal(text, "10.0.0.7:41234");
	assert_int_equal(inet_pton(AF_INET6, "2001:db8::7", &v6.sin6_addr), 1);
	listener_peer_text((struct sockaddr *)&v6, text);
	assert_string_equal(text, "[2001:db8::7]:7");
	assert_int_equal(inet_pton(AF_INET6, "::ffff:10.1.2.3", &v6.sin6_addr), 1);
	listener_peer_text((struct sockaddr *)&v6, text);
	assert_string_equal(text, "10.1.2.3:7");
	listener_peer_text((struct sockaddr *)&other, text);
	assert_string_equal(text, "?");
	listener_peer_text(NULL, text);
	assert_string_equal(text, "?");
}

TESTS(test_what_an_address_is, test_what_is_said_of_another, test_the_socket,
	test_room_for_what_is_not_taken, test_all_addresses, test_all_addresses_without_v6,
	test_no_socket, test_no_good_socket, test_one_that_is_taken, test_what_peers_are_called)
