/* SPDX-License-Identifier: Apache-2.0 */
/* test: net/client_socket: it connects to any of a host's addresses, says what came and when
 * nothing more will, and why it cannot. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* accept4 */
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "net/client_socket.h"
#include "net/tls_identity.h"
#include "test/unit/make_pair.h"
#include "test/unit/test.h"

#define WAIT_MS 20000

/* A port of 127.0.0.1 that is listened on, or (closed) on which nobody listens. */
static int listening_for(int waiting, uint16_t *ret_port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(fd, waiting), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	*ret_port = ntohs(at.sin_port);
	return fd;
}

static int listening(uint16_t *ret_port)
{
	return listening_for(8, ret_port);
}

/* Goes on until it is connected, or an error. */
static int connected(struct client_socket *s, struct err *err)
{
	int rc = 0;

	while (rc == 0 && !client_socket_ready(s)) {
		struct pollfd p = {client_socket_fd(s), client_socket_events(s), 0};

		assert_int_equal(poll(&p, 1, WAIT_MS), 1);
		/* What an earlier call has left there says nothing of this one. */
		errno = EPROTO;
		rc = client_socket_turn(s, err);
	}
	return rc;
}

static void assert_is(int fd, int level, int option, int want)
{
	int got = -1;
	socklen_t len = sizeof(got);

	assert_int_equal(getsockopt(fd, level, option, &got, &len), 0);
	if (want == 0)
		assert_true(got > 0);
	else
		assert_int_equal(got, want);
}

TEST(any_address_counted_around)
{
	uint16_t port;
	int server = listening(&port);

	for (unsigned first = 0; first < 5; first++) {
		const struct client_target target = {
			.host = "127.0.0.1", .port = port, .first = first};
		struct client_socket *s;
		struct err err = {0};

		assert_int_equal(client_socket_open(&target, &s, &err), 0);
		assert_int_equal(connected(s, &err), 0);
		assert_is(client_socket_fd(s), IPPROTO_TCP, TCP_NODELAY, 1);
		assert_is(client_socket_fd(s), SOL_SOCKET, SO_KEEPALIVE, 1);
		assert_is(client_socket_fd(s), IPPROTO_TCP, TCP_USER_TIMEOUT, 0);
		client_socket_free(s);
	}
	(void)close(server);
}

TEST(what_comes_and_its_end)
{
	uint16_t port;
	int server = listening(&port), peer;
	const struct client_target target = {.host = "127.0.0.1", .port = port};
	struct client_socket *s;
	struct err err = {0};
	char text[16];
	size_t len = 99;
	bool end = true;

	assert_int_equal(client_socket_open(&target, &s, &err), 0);
	/* Not connected: nothing is there. */
	assert_int_equal(client_socket_read(s, text, sizeof(text), &len, &end, &err), 0);
	assert_int_equal(len, 0);
	assert_false(end);
	assert_int_equal(client_socket_send(s, SLICE("ping"), &err), 0);
	assert_int_equal(connected(s, &err), 0);
	assert_int_equal(client_socket_turn(s, &err), 0);
	peer = accept(server, NULL, NULL);
	assert_true(peer >= 0);
	assert_int_equal(recv(peer, text, sizeof(text), 0), 4);
	assert_memory_equal(text, "ping", 4);
	/* Connected, and nothing has come: that is no end. */
	assert_int_equal(client_socket_read(s, text, sizeof(text), &len, &end, &err), 0);
	assert_int_equal(len, 0);
	assert_false(end);
	assert_int_equal(send(peer, "pong", 4, 0), 4);
	assert_int_equal(shutdown(peer, SHUT_WR), 0);
	for (size_t got = 0; !end; got += len) {
		struct pollfd p = {client_socket_fd(s), POLLIN, 0};

		assert_int_equal(poll(&p, 1, WAIT_MS), 1);
		assert_int_equal(client_socket_read(s, text, 2, &len, &end, &err), 0);
		assert_true(len <= 2 && (len > 0) != end);
		assert_memory_equal(text, "pong" + got, len);
		assert_true(!end || got == 4);
	}
	client_socket_free(s);
	(void)close(peer);
	(void)close(server);
}

/* While nobody lets it in it is no error, and nothing is there. */
TEST(waits_until_it_is_let_in)
{
	uint16_t port;
	int server = listening_for(0, &port);
	const struct client_target target = {.host = "127.0.0.1", .port = port};
	struct client_socket *s[3];
	struct err err = {0};

	/* One is let in, and the others' first packets are dropped. */
	for (size_t i = 0; i < COUNT(s); i++)
		assert_int_equal(client_socket_open(&target, &s[i], &err), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(client_socket_turn(s[2], &err), 0);
		assert_false(client_socket_ready(s[2]));
		assert_int_equal(client_socket_events(s[2]), POLLOUT);
	}
	for (int i = 0; i < WAIT_MS / 10 && !client_socket_ready(s[2]); i++) {
		struct pollfd p = {server, POLLIN, 0};

		if (poll(&p, 1, 10) > 0)
			(void)close(accept(server, NULL, NULL));
		assert_int_equal(client_socket_turn(s[2], &err), 0);
	}
	assert_true(client_socket_ready(s[2]));
	for (size_t i = 0; i < COUNT(s); i++)
		client_socket_free(s[i]);
	(void)close(server);
}

TEST(says_why_not)
{
	uint16_t port;
	int server = listening(&port);
	struct client_target target = {.host = "127.0.0.1", .port = port};
	struct client_socket *s = NULL;
	struct err err = {0};

	/* Nobody listens: that is said at once, or when it is connected. */
	(void)close(server);
	if (client_socket_open(&target, &s, &err) == 0)
		assert_int_equal(connected(s, &err), ERR_IO);
	assert_int_equal(err.code, ERR_IO);
	assert_non_null(strstr(err.msg, "127.0.0.1"));
	assert_non_null(strstr(err.msg, "Connection refused"));
	client_socket_free(s);
	/* No way there, of any address: known before anything is sent. */
	target.host = "255.255.255.255";
	assert_int_equal(client_socket_open(&target, &s, &err), ERR_IO);
	assert_non_null(strstr(err.msg, "255.255.255.255 port"));
	target.host = "no-address.invalid.";
	assert_int_equal(client_socket_open(&target, &s, &err), ERR_NOTFOUND);
	assert_non_null(strstr(err.msg, target.host));
}

/* More than the sockets hold is sent in pieces, as the peer takes it. */
TEST(sends_as_there_is_room)
{
	static char piece[1 << 19], some[1 << 16];
	uint16_t port;
	int server = listening(&port), peer;
	struct client_target target = {.host = "127.0.0.1", .port = port};
	struct client_socket *s = NULL;
	struct err err = {0};
	size_t sum = 0, taken = 0;

	assert_int_equal(client_socket_open(&target, &s, &err), 0);
	peer = accept4(server, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	assert_true(peer >= 0);
	memset(piece, 'p', sizeof(piece));
	while (!client_socket_sending(s) && sum < (size_t)1 << 28) {
		assert_int_equal(
			client_socket_send(s, (struct slice){piece, sizeof(piece)}, &err), 0);
		sum += sizeof(piece);
		for (int i = 0; i < 3; i++)
			assert_int_equal(client_socket_turn(s, &err), 0);
	}
	assert_true(client_socket_sending(s));
	assert_int_equal(client_socket_events(s), POLLIN | POLLOUT);
	for (int i = 0; i < WAIT_MS && taken < sum;) {
		ssize_t n = recv(peer, some, sizeof(some), 0);

		assert_int_equal(client_socket_turn(s, &err), 0);
		if (n > 0) {
			taken += (size_t)n;
			continue;
		}
		(void)poll(NULL, 0, 1);
		i++;
	}
	assert_int_equal(taken, sum);
	assert_int_equal(client_socket_events(s), POLLIN);
	(void)close(peer);
	(void)close(server);
	client_socket_free(s);
}

/* ---- whom it believes ---- */

#define SERVERS "1.3.6.1.5.5.7.3.1"
#define CLIENTS "1.3.6.1.5.5.7.3.2"

/* The handshake with a server that has this certificate: 0, or the client's error. */
static int met(const struct made_pair *has, const char *ca_file, const char *name, struct err *err)
{
	struct tls_identity *identity = tls_identity_new();
	struct server_tls *tls = server_tls_new(identity);
	uint16_t port;
	int server = listening(&port), rc = 0;
	const struct client_target target = {
		.host = "127.0.0.1", .port = port, .tls = true, .ca_file = ca_file, .name = name};
	struct client_socket *client, *ours;
	struct err theirs = {0};

	made_load(has, identity);
	assert_int_equal(client_socket_open(&target, &client, err), 0);
	assert_int_equal(
		client_socket_accept(accept4(server, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC),
			"peer", tls, &ours, &theirs),
		0);
	for (int i = 0; i < WAIT_MS && rc == 0 && !client_socket_ready(client); i++) {
		rc = client_socket_turn(client, err);
		(void)client_socket_turn(ours, &theirs);
		(void)poll(NULL, 0, 1);
	}
	assert_true(rc != 0 || client_socket_ready(client));
	client_socket_free(client);
	client_socket_free(ours);
	server_tls_free(tls);
	tls_identity_free(identity);
	(void)close(server);
	return rc;
}

/* A certificate that its CA has signed for a server of that name. */
TEST(whom_it_believes)
{
	static struct made_pair ca, other, good, client, self, middle, below;
	static const struct {
		const struct made_pair *has;
		const char *name, *says;
	} rows[] = {{&good, "localhost", NULL}, {&good, "other", "name in the certificate"},
		{&client, "localhost", "purpose"}, {&self, "localhost", "issuer is unknown"},
		{&below, "localhost", "issuer is not a CA"}};
	static char file[] = "/tmp/poolgate-ca-XXXXXX";
	int fd = mkstemp(file);

	make_ca(&ca, "ca", -60, 86400);
	make_ca(&other, "other", -60, 86400);
	make_server(&good, &ca, SERVERS, -60, 3600);
	make_server(&client, &ca, CLIENTS, -60, 3600);
	make_server(&self, &other, SERVERS, -60, 3600);
	/* whom a server signs for */
	make_server(&middle, &ca, SERVERS, -60, 3600);
	make_server(&below, &middle, SERVERS, -60, 3600);
	assert_true(strlen(below.cert) + strlen(middle.cert) < sizeof(below.cert));
	strcat(below.cert, middle.cert);
	assert_int_equal(write(fd, ca.cert, strlen(ca.cert)), strlen(ca.cert));
	(void)close(fd);
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct err err = {0};
		int rc = met(rows[i].has, file, rows[i].name, &err);

		if (rc != (rows[i].says ? ERR_IO : 0) ||
			(rows[i].says && !strstr(err.msg, rows[i].says)))
			fail_msg("row %zu: %d %s", i, rc, err.msg);
	}
	(void)unlink(file);
}

/* A certificate of our own that cannot be read is said, by its file, before anything is sent; one
 * file may hold it and its key. */
TEST(our_own_certificate)
{
	static struct made_pair pair;
	static char both[] = "/tmp/poolgate-both-XXXXXX", cert[] = "/tmp/poolgate-cert-XXXXXX";
	static const struct {
		const char *cert, *key;
		int rc;
	} rows[] = {
		{both, NULL, 0},
		{cert, both, 0},
		{both, both, 0},
		{cert, NULL, ERR_IO},
		{cert, "/nonexistent/key", ERR_IO},
		{"/nonexistent/cert", both, ERR_IO},
	};
	uint16_t port;
	int server = listening(&port), fd = mkstemp(both), fd_cert = mkstemp(cert);
	struct client_target target = {.host = "127.0.0.1", .port = port, .tls = true};

	make_pair(&pair, MADE_P256, -60, 3600, 1);
	assert_int_equal(write(fd, pair.cert, strlen(pair.cert)), strlen(pair.cert));
	assert_int_equal(write(fd, pair.key, strlen(pair.key)), strlen(pair.key));
	assert_int_equal(write(fd_cert, pair.cert, strlen(pair.cert)), strlen(pair.cert));
	(void)close(fd);
	(void)close(fd_cert);
	target.ca_file = cert;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct client_socket *s = NULL;
		struct err err = {0};

		target.cert_file = rows[i].cert;
		target.key_file = rows[i].key;
		assert_int_equal(client_socket_open(&target, &s, &err), rows[i].rc);
		assert_int_equal(s != NULL, rows[i].rc == 0);
		if (rows[i].rc != 0 && strncmp(err.msg, rows[i].cert, strlen(rows[i].cert)) != 0)
			fail_msg("row %zu: %s", i, err.msg);
		client_socket_free(s);
	}
	(void)close(server);
	(void)unlink(both);
	(void)unlink(cert);
}

/* ---- of an accepted one ---- */

/* We, accepted, and a peer that is GnuTLS itself. */
struct accepted {
	struct tls_identity *identity;
	struct server_tls *tls;
	struct client_socket *ours;
	gnutls_certificate_credentials_t trust;
	gnutls_session_t peer;
	int fd; /* the peer's */
};

/* The handshake is over. record: what the peer takes in one, 0: all that the protocol knows. */
static void meet(struct accepted *a, const char *priorities, size_t record)
{
	struct made_pair pair;
	struct err err = {0};
	int fd[2], rc = -1;

	make_pair(&pair, MADE_P256, -60, 3600, 1);
	a->identity = tls_identity_new();
	made_load(&pair, a->identity);
	a->tls = server_tls_new(a->identity);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
	assert_int_equal(client_socket_accept(fd[0], "peer", a->tls, &a->ours, &err), 0);
	a->fd = fd[1];
	assert_int_equal(gnutls_certificate_allocate_credentials(&a->trust), 0);
	assert_int_equal(
		gnutls_init(&a->peer, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL), 0);
	assert_int_equal(gnutls_priority_set_direct(a->peer, priorities, NULL), 0);
	assert_int_equal(gnutls_credentials_set(a->peer, GNUTLS_CRD_CERTIFICATE, a->trust), 0);
	gnutls_transport_set_int(a->peer, a->fd);
	if (record)
		assert_int_equal(gnutls_record_set_max_size(a->peer, record), 0);
	for (int i = 0; i < 100 && (rc != 0 || !client_socket_ready(a->ours)); i++) {
		rc = rc == 0 ? 0 : gnutls_handshake(a->peer);
		assert_true(rc == 0 || !gnutls_error_is_fatal(rc));
		assert_int_equal(client_socket_turn(a->ours, &err), 0);
	}
	assert_int_equal(rc, 0);
	assert_true(client_socket_ready(a->ours));
}

static void part(struct accepted *a)
{
	gnutls_deinit(a->peer);
	gnutls_certificate_free_credentials(a->trust);
	(void)close(a->fd);
	client_socket_free(a->ours);
	server_tls_free(a->tls);
	tls_identity_free(a->identity);
}

static const char *const versions[] = {
	"NORMAL:-VERS-ALL:+VERS-TLS1.2", "NORMAL:-VERS-ALL:+VERS-TLS1.3"};

/* Who takes small records alone gets all of it in such; also where there is no room at once. */
TEST(small_records)
{
	static char sent[CLIENT_SOCKET_BURST], got[CLIENT_SOCKET_BURST];
	const int little = 4096;

	for (size_t i = 0; i < sizeof(sent); i++)
		sent[i] = (char)(i * 31 >> 3);
	for (size_t i = 0; i < 4 * COUNT(versions); i++) {
		struct accepted a;
		struct err err = {0};
		size_t taken, len = 0;
		ssize_t n;

		meet(&a, versions[i / 4], i % 2 ? 512 : 0);
		if (i % 4 > 1)
			assert_int_equal(setsockopt(client_socket_fd(a.ours), SOL_SOCKET, SO_SNDBUF,
						 &little, sizeof(little)),
				0);
		assert_int_equal(client_socket_write(
					 a.ours, (struct slice){sent, sizeof(sent)}, &taken, &err),
			0);
		assert_int_equal(taken, sizeof(sent));
		for (int k = 0; len < sizeof(got) && k < 4000; k++) {
			n = gnutls_record_recv(a.peer, got + len, sizeof(got) - len);
			assert_true(n > 0 || !gnutls_error_is_fatal((int)n));
			len += n > 0 ? (size_t)n : 0;
			assert_int_equal(client_socket_turn(a.ours, &err), 0);
		}
		assert_int_equal(len, sizeof(sent));
		assert_memory_equal(got, sent, sizeof(sent));
		assert_false(client_socket_sending(a.ours));
		part(&a);
	}
}

/* A peer that says much without a byte of the stream keeps nobody at work: after a few such records
 * it has broken off. */
TEST(records_of_nothing)
{
	struct accepted a;
	struct err err = {0};
	char text[16];
	size_t len;
	bool end;
	int calls = 0, rc = 0;

	meet(&a, versions[0], 0);
	for (int i = 0; i < 200; i++)
		assert_int_equal(
			gnutls_alert_send(a.peer, GNUTLS_AL_WARNING, GNUTLS_A_USER_CANCELED), 0);
	while (rc == 0 && calls++ < 200)
		rc = client_socket_read(a.ours, text, sizeof(text), &len, &end, &err);
	assert_int_equal(rc, ERR_IO);
	assert_true(calls > 4 && calls < 100);
	part(&a);
	/* A few between bytes are none too many. */
	meet(&a, versions[0], 0);
	for (int i = 0; i < 200; i++) {
		assert_int_equal(
			gnutls_alert_send(a.peer, GNUTLS_AL_WARNING, GNUTLS_A_USER_CANCELED), 0);
		assert_int_equal(gnutls_record_send(a.peer, "x", 1), 1);
		assert_int_equal(
			client_socket_read(a.ours, text, sizeof(text), &len, &end, &err), 0);
		assert_int_equal(len, 0);
		assert_false(client_socket_dry(a.ours));
		assert_int_equal(
			client_socket_read(a.ours, text, sizeof(text), &len, &end, &err), 0);
		assert_int_equal(len, 1);
	}
	part(&a);
}

TESTS(any_address_counted_around, what_comes_and_its_end, waits_until_it_is_let_in, says_why_not,
	sends_as_there_is_room, whom_it_believes, our_own_certificate, small_records,
	records_of_nothing)
