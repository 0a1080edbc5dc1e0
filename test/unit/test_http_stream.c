/* SPDX-License-Identifier: Apache-2.0 */
/* test: answers that are taken piece by piece, and clients with a certificate. */
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include "net/http_client.h"
#include "test/unit/api_fixture.h"
#include "test/unit/make_pair.h"
#include "test/unit/scratch.h"
#include "test/unit/test.h"

struct stream {
	struct api *api;
	struct http_client *c;
	struct http_ask req;
	struct http_stream to;
	struct err e;
	char url[256];
	/* What came. */
	long status;
	int heads, lines, asked;
	struct buf got;
	/* What to do. */
	bool refuse_head;
	size_t stop_at; /* bytes */
	int64_t stop_after_ms;
	int64_t began_ms;
};

static bool on_head(void *ctx, long status)
{
	struct stream *s = ctx;

	/* the status, two or three fields, the end */
	assert_true(s->lines >= 4);
	s->heads++;
	s->status = status;
	return !s->refuse_head;
}

static void on_line(void *ctx, struct slice line)
{
	struct stream *s = ctx;

	assert_int_equal(s->heads, 0);
	assert_true(line.len > 0);
	s->lines++;
}

static bool on_data(void *ctx, struct slice bytes)
{
	struct stream *s = ctx;

	assert_int_equal(s->heads, 1);
	buf_slice(&s->got, bytes);
	return !s->stop_at || s->got.len < s->stop_at;
}

static bool go_on(void *ctx)
{
	struct stream *s = ctx;

	s->asked++;
	return !s->stop_after_ms || api_now_ms() - s->began_ms < s->stop_after_ms;
}

static void stream_init(struct stream *s)
{
	*s = (struct stream){0};
	s->api = api_start(NULL, NULL);
	s->c = http_client_new(&s->e);
	assert_non_null(s->c);
	buf_init(&s->got, 1 << 20);
	s->to = (struct http_stream){on_head, on_data, go_on, s, on_line};
	snprintf(s->url, sizeof(s->url), "%s/watch", api_url(s->api));
	s->req = (struct http_ask){.method = "GET", .url = s->url, .timeout_ms = 5000};
}

static int stream_run(struct stream *s)
{
	s->began_ms = api_now_ms();
	s->heads = s->lines = s->asked = 0;
	s->status = 0;
	buf_clear(&s->got);
	return http_client_stream(s->c, &s->req, &s->to, &s->e);
}

static void stream_release(struct stream *s)
{
	http_client_free(s->c);
	api_stop(s->api);
	buf_release(&s->got);
}

static void expect_stream(struct stream *s, const char *first)
{
	struct api_reply r = {.stream = true, .body = strdup(first)};

	api_expect_reply(s->api, "GET", "/watch", &r);
}

static void *feed(void *arg)
{
	struct stream *s = arg;

	assert_true(api_wait_streams(s->api, "/watch", 1));
	for (int i = 0; i < 4; i++) {
		api_nap(500);
		api_push(s->api, "/watch", "tick ");
	}
	api_nap(500);
	api_end(s->api, "/watch");
	return NULL;
}

/* 2.5 s in all, though timeout_ms is 1.5 s: neither that nor max_bytes counts. */
TEST(test_slow)
{
	struct stream s;
	pthread_t t;

	stream_init(&s);
	s.req.timeout_ms = 1500;
	s.req.max_bytes = 1;
	expect_stream(&s, "first ");
	assert_int_equal(pthread_create(&t, NULL, feed, &s), 0);
	if (stream_run(&s) != 0)
		fail_msg("%s", s.e.msg);
	pthread_join(t, NULL);
	assert_int_equal(s.status, 200);
	assert_int_equal(s.heads, 1);
	assert_string_equal(s.got.data, "first tick tick tick tick ");
	assert_true(s.asked >= 2);
	assert_true(api_now_ms() - s.began_ms >= 2500);
	/* The connection is good for the next request. */
	api_expect(s.api, "GET", "/watch", 200, "whole");
	assert_int_equal(stream_run(&s), 0);
	assert_string_equal(s.got.data, "whole");
	stream_release(&s);
}

TEST(test_ends)
{
	struct stream s;

	stream_init(&s);
	/* in silence */
	expect_stream(&s, "first ");
	s.stop_after_ms = 100;
	assert_int_equal(stream_run(&s), 0);
	assert_true(api_now_ms() - s.began_ms < 100 + 1500);
	assert_string_equal(s.got.data, "first ");
	s.stop_after_ms = 0;
	/* at some data */
	expect_stream(&s, "first ");
	s.stop_at = 3;
	assert_int_equal(stream_run(&s), 0);
	assert_true(api_now_ms() - s.began_ms < 1000);
	s.stop_at = 0;
	/* at the head */
	expect_stream(&s, "first ");
	s.refuse_head = true;
	assert_int_equal(stream_run(&s), 0);
	assert_int_equal(s.status, 200);
	assert_int_equal(s.got.len, 0);
	stream_release(&s);
}

TEST(test_status_and_cuts)
{
	struct api_reply cut = {.stream = true, .cut = true, .body = strdup("some")},
			 none = {.cut = true}, half = {.half = true, .body = strdup("12345678")};
	struct stream s;

	stream_init(&s);
	api_expect(s.api, "GET", "/watch", 410, "{\"code\":410}");
	assert_int_equal(stream_run(&s), 0);
	assert_int_equal(s.status, 410);
	assert_string_equal(s.got.data, "{\"code\":410}");
	api_expect_reply(s.api, "GET", "/watch", &cut);
	assert_int_equal(stream_run(&s), ERR_IO);
	assert_int_equal(s.status, 200);
	assert_string_equal(s.got.data, "some");
	/* What came before an error was handed over. */
	api_expect_reply(s.api, "GET", "/watch", &half);
	assert_int_equal(stream_run(&s), ERR_IO);
	assert_string_equal(s.got.data, "1234");
	s.req.fresh = true;
	api_expect_reply(s.api, "GET", "/watch", &none);
	assert_int_equal(stream_run(&s), ERR_IO);
	assert_int_equal(s.heads, 0);
	api_down(s.api);
	assert_int_equal(stream_run(&s), ERR_IO);
	s.req.url = "http://127.0.0.1/\n";
	assert_int_equal(stream_run(&s), ERR_INVALID);
	stream_release(&s);
}

static bool not_after(void *ctx)
{
	return api_now_ms() < *(int64_t *)ctx;
}

/* http_client_do is given up too. */
TEST(test_given_up)
{
	struct api_reply mute = {.delay_ms = 3000};
	int64_t until = api_now_ms() + 100;
	struct http_response res = {0};
	struct stream s;

	stream_init(&s);
	s.req.go_on = not_after;
	s.req.go_on_ctx = &until;
	s.req.max_bytes = 100;
	api_expect_reply(s.api, "GET", "/watch", &mute);
	assert_int_equal(http_client_do(s.c, &s.req, &res, &s.e), ERR_TIMEOUT);
	assert_true(api_now_ms() < until + 1500);
	until += 100000;
	api_expect(s.api, "GET", "/watch", 200, "yes");
	assert_int_equal(http_client_do(s.c, &s.req, &res, &s.e), 0);
	assert_string_equal(res.body.data, "yes");
	buf_release(&res.body);
	stream_release(&s);
}

/* ---- a server that wants a certificate, and answers with its fingerprint's verdict ---- */

struct secure {
	gnutls_certificate_credentials_t credentials;
	const struct made_pair *client; /* the only one that is welcome */
	int fd;
};

static const char *verdict(gnutls_session_t session, const struct made_pair *client)
{
	unsigned n = 0;
	const gnutls_datum_t *chain = gnutls_certificate_get_peers(session, &n);
	gnutls_datum_t pem = {0};
	const char *word = "stranger";

	if (!chain || n == 0)
		return "nobody";
	assert_int_equal(gnutls_pem_base64_encode2("CERTIFICATE", &chain[0], &pem), 0);
	if (strncmp((const char *)pem.data, client->cert, 200) == 0)
		word = "welcome";
	gnutls_free(pem.data);
	return word;
}

static void *serve_secure(void *arg)
{
	struct secure *sec = arg;

	for (;;) {
		int fd = accept(sec->fd, NULL, NULL);
		gnutls_session_t session;
		char text[4096], reply[200];

		if (fd < 0)
			return NULL;
		assert_int_equal(gnutls_init(&session, GNUTLS_SERVER | GNUTLS_NO_SIGNAL), 0);
		assert_int_equal(gnutls_set_default_priority(session), 0);
		gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, sec->credentials);
		gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUEST);
		gnutls_transport_set_int(session, fd);
		if (gnutls_handshake(session) == 0 &&
			gnutls_record_recv(session, text, sizeof(text)) > 0) {
			const char *word = verdict(session, sec->client);

			snprintf(reply, sizeof(reply),
				"HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: "
				"close\r\n\r\n%s",
				strlen(word), word);
			gnutls_record_send(session, reply, strlen(reply));
			gnutls_bye(session, GNUTLS_SHUT_WR);
		}
		gnutls_deinit(session);
		close(fd);
	}
}

TEST(test_client_certificate)
{
	const char *ca, *cert, *key;
	char url[64];
	struct made_pair server, client;
	struct sockaddr_in addr = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(addr);
	struct secure sec = {.client = &client};
	struct http_response res = {0};
	struct err e = {0};
	struct http_client *c = http_client_new(&e);
	pthread_t t;

	make_pair(&server, MADE_P256, -60, 3600, 1);
	make_pair(&client, MADE_P256, -60, 3600, 1);
	assert_int_equal(scratch_begin(NULL), 0);
	ca = scratch_file("ca", server.cert);
	cert = scratch_file("cert", client.cert);
	key = scratch_file("key", client.key);
	gnutls_datum_t sc = {(unsigned char *)server.cert, (unsigned)strlen(server.cert)},
		       sk = {(unsigned char *)server.key, (unsigned)strlen(server.key)};
	gnutls_certificate_allocate_credentials(&sec.credentials);
	assert_int_equal(
		gnutls_certificate_set_x509_key_mem(sec.credentials, &sc, &sk, GNUTLS_X509_FMT_PEM),
		0);
	sec.fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(sec.fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(sec.fd, 4), 0);
	assert_int_equal(getsockname(sec.fd, (struct sockaddr *)&addr, &len), 0);
	assert_int_equal(pthread_create(&t, NULL, serve_secure, &sec), 0);
	snprintf(url, sizeof(url), "https://localhost:%d/", ntohs(addr.sin_port));
	struct http_ask req = {.method = "GET",
		.url = url,
		.ca_file = ca,
		.cert_file = cert,
		.key_file = key,
		.timeout_ms = 5000,
		.max_bytes = 100};
	if (http_client_do(c, &req, &res, &e) != 0)
		fail_msg("%s", e.msg);
	assert_string_equal(res.body.data, "welcome");
	buf_release(&res.body);
	req.cert_file = req.key_file = NULL;
	assert_int_equal(http_client_do(c, &req, &res, &e), 0);
	assert_string_equal(res.body.data, "nobody");
	buf_release(&res.body);
	req.cert_file = "/nonexistent/cert";
	req.key_file = key;
	assert_int_equal(http_client_do(c, &req, &res, &e), ERR_IO);
	shutdown(sec.fd, SHUT_RDWR);
	pthread_join(t, NULL);
	close(sec.fd);
	gnutls_certificate_free_credentials(sec.credentials);
	http_client_free(c);
	assert_int_equal(scratch_end(NULL), 0);
}

TESTS(test_slow, test_ends, test_status_and_cuts, test_given_up, test_client_certificate)
