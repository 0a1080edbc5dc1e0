/* SPDX-License-Identifier: Apache-2.0 */
/* test: net/tls_hold: what waits leaves with what follows it, whole and in order, also when the
 * socket takes a part only. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <gnutls/gnutls.h>

#include "net/tls_hold.h"
#include "test/unit/test.h"

#define PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.2:-KX-ALL:+ANON-ECDH"
#define BODY ((size_t)5000)

/* Instead of the C library's: a socket that takes only a few bytes at a time. 0: all. */
static size_t takes_at_most;

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	static bool refuse;
	char bytes[256];
	size_t n = 0;

	if (takes_at_most == 0)
		return syscall(SYS_sendmsg, fd, msg, flags);
	refuse = !refuse;
	if (refuse) {
		errno = EAGAIN;
		return -1;
	}
	for (size_t i = 0; i < msg->msg_iovlen; i++)
		for (size_t k = 0; k < msg->msg_iov[i].iov_len && n < takes_at_most; k++)
			bytes[n++] = ((const char *)msg->msg_iov[i].iov_base)[k];
	return send(fd, bytes, n, flags);
}

/* Two ends of one session over a socket pair, neither of which waits. */
struct pair {
	gnutls_session_t server, client;
	gnutls_anon_server_credentials_t server_cred;
	gnutls_anon_client_credentials_t client_cred;
	struct tls_hold hold;
	int fd[2];
};

static void pair_open(struct pair *p)
{
	int server = GNUTLS_E_AGAIN, client = GNUTLS_E_AGAIN;

	memset(p, 0, sizeof(*p));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p->fd), 0);
	assert_int_equal(gnutls_anon_allocate_server_credentials(&p->server_cred), 0);
	assert_int_equal(gnutls_anon_allocate_client_credentials(&p->client_cred), 0);
	assert_int_equal(gnutls_init(&p->server, GNUTLS_SERVER | GNUTLS_NONBLOCK), 0);
	assert_int_equal(gnutls_init(&p->client, GNUTLS_CLIENT | GNUTLS_NONBLOCK), 0);
	assert_int_equal(gnutls_priority_set_direct(p->server, PRIORITIES, NULL), 0);
	assert_int_equal(gnutls_priority_set_direct(p->client, PRIORITIES, NULL), 0);
	assert_int_equal(gnutls_credentials_set(p->server, GNUTLS_CRD_ANON, p->server_cred), 0);
	assert_int_equal(gnutls_credentials_set(p->client, GNUTLS_CRD_ANON, p->client_cred), 0);
	gnutls_transport_set_int(p->server, p->fd[0]);
	gnutls_transport_set_int(p->client, p->fd[1]);
	tls_hold_attach(&p->hold, p->fd[0], p->server);
	for (int i = 0; i < 1000 && (server != 0 || client != 0); i++) {
		client = client == 0 ? 0 : gnutls_handshake(p->client);
		server = server == 0 ? 0 : gnutls_handshake(p->server);
	}
	assert_int_equal(client, 0);
	assert_int_equal(server, 0);
}

static void pair_close(struct pair *p)
{
	gnutls_deinit(p->server);
	gnutls_deinit(p->client);
	gnutls_anon_free_server_credentials(p->server_cred);
	gnutls_anon_free_client_credentials(p->client_cred);
	(void)close(p->fd[0]);
	(void)close(p->fd[1]);
}

/* Bytes that the client's socket has, -1 for none. */
static ssize_t arrived(const struct pair *p)
{
	char bytes[8192];

	return recv(p->fd[1], bytes, sizeof(bytes), MSG_PEEK);
}

static void expect(struct pair *p, const char *text)
{
	char got[1024] = "";
	size_t n = 0;
	ssize_t rc = 0;

	while (n < strlen(text) && rc >= 0) {
		rc = gnutls_record_recv(p->client, got + n, sizeof(got) - 1 - n);
		n += rc > 0 ? (size_t)rc : 0;
	}
	assert_string_equal(got, text);
}

TEST(headers_leave_with_the_body)
{
	struct pair p;

	pair_open(&p);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(gnutls_record_send(p.server, "alone", 5), 5);
		expect(&p, "alone");
		tls_hold_next(&p.hold);
		assert_int_equal(gnutls_record_send(p.server, "headers", 7), 7);
		assert_int_equal(arrived(&p), -1);
		assert_true(p.hold.n > 7);
		assert_int_equal(gnutls_record_send(p.server, "body", 4), 4);
		assert_true(arrived(&p) > 11);
		assert_int_equal(p.hold.n, 0);
		expect(&p, "headersbody");
	}
	pair_close(&p);
}

TEST(what_is_long_does_not_wait)
{
	char text[TLS_HOLD_MAX + 1];
	struct pair p;

	memset(text, 'x', TLS_HOLD_MAX);
	text[TLS_HOLD_MAX] = '\0';
	pair_open(&p);
	tls_hold_next(&p.hold);
	assert_int_equal(gnutls_record_send(p.server, text, TLS_HOLD_MAX), TLS_HOLD_MAX);
	assert_true(arrived(&p) > TLS_HOLD_MAX);
	expect(&p, text);
	/* It was the next one, and no other. */
	assert_int_equal(gnutls_record_send(p.server, "alone", 5), 5);
	expect(&p, "alone");
	pair_close(&p);
}

/* Where something waits, less room is left. */
TEST(what_does_not_fit_beside_it_takes_it_along)
{
	char text[TLS_HOLD_MAX] = "headers", *more = text + 7;
	size_t n;
	struct pair p;

	memset(more, 'x', sizeof(text) - 8);
	pair_open(&p);
	tls_hold_next(&p.hold);
	assert_int_equal(gnutls_record_send(p.server, text, 7), 7);
	assert_int_equal(arrived(&p), -1);
	/* a record that would have had room alone */
	n = TLS_HOLD_MAX - p.hold.n;
	more[n] = '\0';
	tls_hold_next(&p.hold);
	assert_int_equal(gnutls_record_send(p.server, more, n), n);
	assert_true(arrived(&p) > 0);
	expect(&p, text);
	pair_close(&p);
}

/* The closing alert takes along what still waits. */
TEST(a_goodbye_lets_it_go)
{
	struct pair p;

	pair_open(&p);
	tls_hold_next(&p.hold);
	assert_int_equal(gnutls_record_send(p.server, "headers", 7), 7);
	assert_int_equal(gnutls_bye(p.server, GNUTLS_SHUT_WR), 0);
	expect(&p, "headers");
	pair_close(&p);
}

/* A socket that takes so many bytes at a time, and every other time none: headers in several parts,
 * then the body. */
TEST(full_socket)
{
	char *body = malloc(BODY), *got = malloc(BODY + 7);

	assert_non_null(body);
	assert_non_null(got);
	for (size_t i = 0; i < BODY; i++)
		body[i] = (char)(i * 31 % 251);
	for (size_t limit = 1; limit < 120; limit += 3) {
		struct pair p;
		size_t sent = 0, n = 0;

		pair_open(&p);
		takes_at_most = limit;
		tls_hold_next(&p.hold);
		assert_int_equal(gnutls_record_send(p.server, "headers", 7), 7);
		while (n < 7 + BODY) {
			ssize_t rc =
				sent < BODY ? gnutls_record_send(p.server, body + sent, BODY - sent)
					    : 0;

			assert_true(rc >= 0 || rc == GNUTLS_E_AGAIN);
			sent += rc > 0 ? (size_t)rc : 0;
			rc = gnutls_record_recv(p.client, got + n, BODY + 7 - n);
			assert_true(rc > 0 || rc == GNUTLS_E_AGAIN);
			n += rc > 0 ? (size_t)rc : 0;
		}
		takes_at_most = 0;
		assert_memory_equal(got, "headers", 7);
		assert_memory_equal(got + 7, body, BODY);
		pair_close(&p);
	}
	free(body);
	free(got);
}

TESTS(headers_leave_with_the_body, what_is_long_does_not_wait,
	what_does_not_fit_beside_it_takes_it_along, a_goodbye_lets_it_go, full_socket)
