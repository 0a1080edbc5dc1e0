/* SPDX-License-Identifier: Apache-2.0 */
/* test: the server behind TLS: swaps under load, old protocols, clients that never finish a
 * handshake. */
#include <errno.h>
#include <sys/resource.h>

#include <gnutls/gnutls.h>

#include "test/unit/http_fixture.h"
#include "test/unit/make_pair.h"
#include "test/unit/test.h"

#define HALF_OPEN 300

static struct made_pair first, second;
static gnutls_certificate_credentials_t trust_nobody;
static char reply[65536];
static struct fixture f; /* of a test, with this pair */
static struct tls_identity *id;

struct tls_client {
	gnutls_session_t session;
	int fd;
	unsigned char fingerprint[32];
};

FIXTURE(make_all)
{
	make_pair(&first, MADE_P256, -60, 86400, 1);
	make_pair(&second, MADE_P256, -60, 86400, 1);
	struct rlimit files;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < 2048) {
		files.rlim_cur = files.rlim_max < 2048 ? files.rlim_max : 2048;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	return gnutls_certificate_allocate_credentials(&trust_nobody);
}

FIXTURE(free_all)
{
	gnutls_certificate_free_credentials(trust_nobody);
	return 0;
}

FIXTURE(set_up)
{
	id = tls_identity_new();
	return id ? 0 : -1;
}

FIXTURE(tear_down)
{
	bool clean = fixture_stop(&f, 1000);
	tls_identity_free(id);
	return clean ? 0 : -1;
}

static void load(const struct made_pair *pair)
{
	made_load(pair, id);
}

/* A server with the first pair. */
static void start(struct http_config cfg)
{
	load(&first);
	cfg.identity = id;
	fixture_start(&f, cfg);
}

/* Connect and shake hands; 0 or GnuTLS's error. */
static int tls_open(struct tls_client *c, const char *priorities)
{
	c->fd = client_open(&f);
	assert_int_equal(gnutls_init(&c->session, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL), 0);
	assert_int_equal(gnutls_priority_set_direct(c->session, priorities, NULL), 0);
	assert_int_equal(
		gnutls_credentials_set(c->session, GNUTLS_CRD_CERTIFICATE, trust_nobody), 0);
	gnutls_transport_set_int(c->session, c->fd);
	gnutls_handshake_set_timeout(c->session, 3000);
	gnutls_record_set_timeout(c->session, 3000);
	int rc;
	do {
		rc = gnutls_handshake(c->session);
	} while (rc < 0 && !gnutls_error_is_fatal(rc));
	if (rc < 0)
		return rc;
	unsigned n = 0;
	size_t len = sizeof(c->fingerprint);
	const gnutls_datum_t *chain = gnutls_certificate_get_peers(c->session, &n);
	assert_non_null(chain);
	assert_int_equal(gnutls_fingerprint(GNUTLS_DIG_SHA256, &chain[0], c->fingerprint, &len), 0);
	return 0;
}

static void tls_close(struct tls_client *c)
{
	gnutls_deinit(c->session);
	(void)close(c->fd);
}

/* One POST of a small document; the reply's status, or 0. */
static int tls_post(struct tls_client *c, const char *path)
{
	char request[512];
	int len = snprintf(request, sizeof(request),
		"POST %s HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: "
		"2\r\n\r\n{}",
		path);
	if (gnutls_record_send(c->session, request, (size_t)len) != len)
		return 0;
	size_t have = 0;
	do {
		ssize_t n = gnutls_record_recv(c->session, reply + have, sizeof(reply) - 1 - have);
		if (n == GNUTLS_E_INTERRUPTED || n == GNUTLS_E_AGAIN)
			continue;
		if (n <= 0)
			return 0;
		have += (size_t)n;
		reply[have] = '\0';
	} while (!strstr(reply, "\r\n\r\n{}"));
	return (int)strtol(reply + 9, NULL, 10);
}

TEST(serves)
{
	const char *const versions[] = {
		"NORMAL", "NORMAL:-VERS-ALL:+VERS-TLS1.2", "NORMAL:-VERS-ALL:+VERS-TLS1.3"};
	start((struct http_config){.workers = 1});
	atomic_store(&f.gate, true);
	for (size_t i = 0; i < COUNT(versions); i++) {
		struct tls_client c;
		assert_int_equal(tls_open(&c, versions[i]), 0);
		if (i == 0) {
			assert_int_equal(gnutls_protocol_get_version(c.session), GNUTLS_TLS1_3);
			assert_int_equal(gnutls_cipher_get(c.session), GNUTLS_CIPHER_AES_128_GCM);
		}
		for (int k = 0; k < 20; k++)
			assert_int_equal(tls_post(&c, k % 2 ? "/later" : "/echo"), 200);
		tls_close(&c);
	}
	assert_true(fixture_idle(&f));
	assert_int_equal(f.queued, 60);
}

TEST(refuses_old_protocols)
{
	const char *const old[] = {"NORMAL:-VERS-ALL:+VERS-TLS1.1", "NORMAL:-VERS-ALL:+VERS-TLS1.0",
		"NORMAL:-VERS-ALL:+VERS-TLS1.2:-CIPHER-ALL:+AES-128-CBC"};
	start((struct http_config){0});
	for (size_t i = 0; i < COUNT(old); i++) {
		struct tls_client c;
		assert_true(tls_open(&c, old[i]) < 0);
		tls_close(&c);
	}
	assert_true(fixture_idle(&f));
}

/* New handshakes get the new pair, open connections go on, a refused pair changes nothing. */
TEST(swaps_while_serving)
{
	struct tls_client before, after, still;
	struct tls_pem cert = made_cert(&second), key = made_key(&second), wrong = made_key(&first);
	start((struct http_config){0});
	assert_int_equal(tls_open(&before, "NORMAL"), 0);
	assert_int_equal(tls_post(&before, "/echo"), 200);
	assert_int_equal(tls_identity_load_pem(id, &cert, &wrong, NULL), ERR_CONFLICT);
	assert_int_equal(tls_open(&still, "NORMAL"), 0);
	assert_memory_equal(before.fingerprint, still.fingerprint, 32);
	assert_int_equal(tls_identity_load_pem(id, &cert, &key, NULL), 0);
	assert_int_equal(tls_open(&after, "NORMAL"), 0);
	assert_memory_not_equal(before.fingerprint, after.fingerprint, 32);
	assert_int_equal(tls_post(&before, "/echo"), 200);
	assert_int_equal(tls_post(&still, "/echo"), 200);
	assert_int_equal(tls_post(&after, "/echo"), 200);
	tls_close(&before), tls_close(&still), tls_close(&after);
	assert_true(fixture_idle(&f));
}

static void *swap_for_a_while(void *arg)
{
	for (int i = 0; i < 60; i++) {
		const struct made_pair *pair = i % 2 ? &first : &second;
		struct tls_pem cert = made_cert(pair), key = made_key(pair);
		if (tls_identity_load_pem(arg, &cert, &key, NULL) != 0)
			abort();
		nap_ms(2);
	}
	return NULL;
}

TEST(swaps_under_handshakes)
{
	pthread_t swapper;
	struct tls_info info;
	start((struct http_config){0});
	assert_int_equal(pthread_create(&swapper, NULL, swap_for_a_while, id), 0);
	for (int i = 0; i < 40; i++) {
		struct tls_client c;
		assert_int_equal(
			tls_open(&c, i % 2 ? "NORMAL" : "NORMAL:-VERS-ALL:+VERS-TLS1.2"), 0);
		assert_int_equal(tls_post(&c, "/echo"), 200);
		tls_close(&c);
	}
	assert_int_equal(pthread_join(swapper, NULL), 0);
	assert_true(tls_identity_info(id, &info));
	assert_int_equal(info.generation, 61);
	assert_true(fixture_idle(&f));
}

TEST(plain_http_on_the_tls_port)
{
	struct http_stats st;
	start((struct http_config){0});
	for (int i = 0; i < 40; i++) {
		int fd = client_open(&f);
		client_text(fd, "GET /livez HTTP/1.1\r\nHost: h\r\n\r\n");
		assert_true(client_closed(fd, 1000));
		(void)close(fd);
	}
	assert_true(fixture_idle(&f));
	/* Each of them makes the transport complain; the log gets ten a second, and the count of
	 * the rest. */
	http_server_stats(f.server, &st);
	assert_in_range(f.logged, 1, 30);
	assert_true(st.log_suppressed > 0);
	assert_true((unsigned)f.logged + st.log_suppressed >= 40);
	nap_ms(1000);
	int fd = client_open(&f);
	client_text(fd, "GET /livez HTTP/1.1\r\nHost: h\r\n\r\n");
	assert_true(client_closed(fd, 1000));
	(void)close(fd);
	assert_int_equal(f.handled, 0);
	assert_true(fixture_stop(&f, 1000));
	assert_null(strchr(f.last_log, '\n'));
	assert_memory_equal(f.last_log, "127.0.0.1:", 10);
	assert_non_null(strstr(f.last_log, ": the TLS handshake did not succeed (plain HTTP, "));
}

/* Who and why: an old version, no request at all, and a request that stops in its body. */
TEST(says_how_connections_ended)
{
	static const char half[] = "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Type: "
				   "application/json\r\nContent-Length: 100\r\n\r\n{";
	static const struct {
		const char *priorities, *sends, *said;
	} cases[] = {
		{"NORMAL:-VERS-ALL:+VERS-TLS1.1:%COMPAT", NULL, "a TLS version before 1.2"},
		{"NORMAL", NULL, "without a request once it had the certificate"},
		{"NORMAL", half, "went away in the middle of its request"},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct tls_client c;
		start((struct http_config){0});
		bool open = tls_open(&c, cases[i].priorities) == 0;
		assert_int_equal(open, i > 0);
		if (cases[i].sends)
			assert_true(gnutls_record_send(
					    c.session, cases[i].sends, strlen(cases[i].sends)) > 0);
		nap_ms(50);
		tls_close(&c);
		assert_true(fixture_idle(&f));
		assert_true(fixture_stop(&f, 1000));
		assert_memory_equal(f.last_log, "127.0.0.1:", 10);
		assert_non_null(strstr(f.last_log, cases[i].said));
		assert_int_equal(f.logged, 1);
	}
}

static int64_t cpu_us(void)
{
	struct rusage r;
	assert_int_equal(getrusage(RUSAGE_SELF, &r), 0);
	return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000 + r.ru_utime.tv_usec +
	       r.ru_stime.tv_usec;
}

/* The first bytes of a handshake, and then nothing, 300 times: others are served, and no core is
 * burnt. */
TEST(half_open_handshakes)
{
	struct http_stats st;
	struct tls_client c;
	int fd[HALF_OPEN];
	/* Long enough for a machine that has other things to do: what follows must be over before
	 * the first of them is. */
	start((struct http_config){.header_ms = 4000});
	for (int i = 0; i < HALF_OPEN; i++) {
		fd[i] = client_open(&f);
		client_send(fd[i], "\x16\x03\x01\x02\x00\x01\x00\x01", i % 2 ? 8 : 3);
	}
	assert_int_equal(tls_open(&c, "NORMAL"), 0);
	assert_int_equal(tls_post(&c, "/echo"), 200);
	/* served beside all of them, not after they had gone */
	http_server_stats(f.server, &st);
	assert_int_equal(st.connections, HALF_OPEN + 1);
	int64_t cpu = cpu_us();
	nap_ms(500);
	assert_true(cpu_us() - cpu < 100000); /* a burnt core would be 500 000 */
	assert_int_equal(tls_post(&c, "/echo"), 200);
	for (int i = 0; i < HALF_OPEN; i++) {
		assert_true(client_closed(fd[i], 15000));
		(void)close(fd[i]);
	}
	assert_int_equal(tls_post(&c, "/echo"), 200);
	tls_close(&c);
	assert_true(fixture_idle(&f));
	http_server_stats(f.server, &st);
	assert_int_equal(st.timed_out, HALF_OPEN);
	assert_true(fixture_stop(&f, 1000));
	assert_memory_equal(f.last_log, "127.0.0.1:", 10);
	assert_non_null(strstr(f.last_log, ": closed after 4 s without a request"));
}

/* An API server opens connections that it does not need at once, and uses them later. What begins a
 * request must end it. */
TEST(unused_connection_is_kept)
{
	static const char line[] = "POST /echo HTTP/1.1\r\n";
	struct tls_client used, unused, slow;
	struct http_stats st;
	start((struct http_config){.header_ms = 300});
	assert_int_equal(tls_open(&used, "NORMAL"), 0);
	assert_int_equal(tls_open(&unused, "NORMAL:-VERS-ALL:+VERS-TLS1.2"), 0);
	assert_int_equal(tls_open(&slow, "NORMAL"), 0);
	nap_ms(800);
	assert_int_equal(tls_post(&used, "/echo"), 200);
	http_server_stats(f.server, &st);
	assert_int_equal(st.connections, 3);
	tls_close(&unused);
	assert_true(gnutls_record_send(slow.session, line, sizeof(line) - 1) > 0);
	assert_true(client_closed(slow.fd, 3000));
	tls_close(&slow);
	tls_close(&used);
	assert_true(fixture_idle(&f));
	http_server_stats(f.server, &st);
	assert_int_equal(st.timed_out, 1);
	assert_true(fixture_stop(&f, 1000));
	assert_int_equal(f.logged, 1);
}

/* Without a pair the server stands, and serves as soon as there is one. */
TEST(waits_for_a_pair)
{
	struct tls_client c;
	fixture_start(&f, (struct http_config){.identity = id});
	assert_true(tls_open(&c, "NORMAL") < 0);
	tls_close(&c);
	load(&first);
	assert_int_equal(tls_open(&c, "NORMAL"), 0);
	assert_int_equal(tls_post(&c, "/echo"), 200);
	tls_close(&c);
}

TESTS_ALL(make_all, free_all, set_up, tear_down, serves, refuses_old_protocols, swaps_while_serving,
	swaps_under_handshakes, plain_http_on_the_tls_port, says_how_connections_ended,
	half_open_handshakes, unused_connection_is_kept, waits_for_a_pair)
