/* SPDX-License-Identifier: Apache-2.0 */
/* test: which certificates a request accepts: those that its CA signed for a server. */
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "net/http_client.h"
#include "test/unit/test.h"
#include "test/unit/tls_server.h"

static struct made_pair ca, other_ca;
static char ca_file[] = "/tmp/poolgate-client-tls-XXXXXX";

FIXTURE(make_all)
{
	FILE *f;
	int fd = mkstemp(ca_file);

	assert_true(fd >= 0);
	make_ca(&ca, "the cluster's CA", -86400, 86400);
	make_ca(&other_ca, "another CA", -86400, 86400);
	f = fdopen(fd, "w");
	assert_non_null(f);
	assert_true(fputs(ca.cert, f) >= 0);
	assert_int_equal(fclose(f), 0);
	return 0;
}

FIXTURE(remove_all)
{
	return unlink(ca_file);
}

/* Ask a server that shows this certificate, three times: the second would be answered on the
 * connection of the first. */
static void ask_as(const struct made_pair *pair, bool insecure, int expected, const char *words)
{
	struct http_client *c = http_client_new(NULL);
	char url[64];
	struct http_ask req = {.method = "GET",
		.url = url,
		.ca_file = ca_file,
		.insecure = insecure,
		.timeout_ms = 5000,
		.max_bytes = 4096};
	unsigned port;
	struct tls_server *s = tls_server_start(pair, &port);

	assert_non_null(c);
	(void)snprintf(url, sizeof(url), "https://localhost:%u/livez", port);
	for (int i = 0; i < 3; i++) {
		struct http_response res = {0};
		struct err e = {0};

		assert_int_equal(http_client_do(c, &req, &res, &e), expected);
		if (expected == 0)
			assert_int_equal(res.status, 200);
		else
			assert_non_null(strstr(e.msg, words));
		buf_release(&res.body);
	}
	http_client_free(c);
	assert_int_equal(tls_server_stop(s), expected == 0 ? 3 : 0);
}

static void ask(const struct made_pair *pair, int expected, const char *words)
{
	ask_as(pair, false, expected, words);
}

TEST(of_a_server)
{
	struct made_pair p;

	make_server(&p, &ca, GNUTLS_KP_TLS_WWW_SERVER, -60, 86400);
	ask(&p, 0, NULL);
	make_server(&p, &ca, NULL, -60, 86400);
	ask(&p, 0, NULL);
}

/* The API server's CA signs what a client asks for, its names too. */
TEST(of_a_client)
{
	struct made_pair p;

	make_server(&p, &ca, GNUTLS_KP_TLS_WWW_CLIENT, -60, 86400);
	ask(&p, ERR_IO, "not for servers");
}

TEST(of_another)
{
	struct made_pair p;

	make_server(&p, &other_ca, GNUTLS_KP_TLS_WWW_SERVER, -60, 86400);
	ask(&p, ERR_IO, "certificate");
	ask_as(&p, true, 0, NULL);
	make_client(&p, &ca, "another name", GNUTLS_KP_TLS_WWW_SERVER, -60, 86400);
	ask(&p, ERR_IO, "");
	ask_as(&p, true, 0, NULL);
}

TESTS_WITHIN(make_all, remove_all, of_a_server, of_a_client, of_another)
