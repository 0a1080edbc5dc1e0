/* SPDX-License-Identifier: Apache-2.0 */
/* test: whom a server lets in by client certificates. The TLS library lets everybody through its
 * handshake, so each of these clients reaches the server's own decision; who must not come in gets
 * a 403 and no handler. */
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "net/tls_trust.h"
#include "test/unit/http_fixture.h"
#include "test/unit/make_pair.h"
#include "test/unit/scratch.h"
#include "test/unit/test.h"

#define YEAR (365L * 86400)

static struct made_pair server, ca, other_ca, old_ca, right, second, foreign, expired, future,
	for_servers, any_use, of_old_ca, self_signed;
static char reply[65536];

FIXTURE(make_all)
{
	make_pair(&server, MADE_P256, -60, 86400, 1);
	make_ca(&ca, "the pool's CA", -YEAR, YEAR);
	make_ca(&other_ca, "another CA", -YEAR, YEAR);
	make_ca(&old_ca, "a CA of old", -YEAR, -60);
	make_client(&right, &ca, "kube-apiserver", GNUTLS_KP_TLS_WWW_CLIENT, -60, 86400);
	make_client(&second, &ca, "somebody", GNUTLS_KP_TLS_WWW_CLIENT, -60, 86400);
	make_client(&foreign, &other_ca, "kube-apiserver", GNUTLS_KP_TLS_WWW_CLIENT, -60, 86400);
	make_client(&expired, &ca, "kube-apiserver", GNUTLS_KP_TLS_WWW_CLIENT, -86400, -60);
	make_client(&future, &ca, "kube-apiserver", GNUTLS_KP_TLS_WWW_CLIENT, 3600, 86400);
	make_client(&for_servers, &ca, "kube-apiserver", GNUTLS_KP_TLS_WWW_SERVER, -60, 86400);
	make_client(&any_use, &ca, "kube-apiserver", NULL, -60, 86400);
	make_client(&of_old_ca, &old_ca, "kube-apiserver", GNUTLS_KP_TLS_WWW_CLIENT, -60, 86400);
	make_pair(&self_signed, MADE_P256, -60, 86400, 1);
	return 0;
}

/* ---- a server that asks, and its clients ---- */

/* Of each test that starts it. */
static struct fixture f;
static struct tls_identity *id;
static struct tls_trust *trust;

static int load(struct tls_trust *t, const char *pem, const char *name, struct err *err)
{
	struct tls_pem p = {slice_of(pem), "ca.crt"};
	const char *const names[] = {name};
	return tls_trust_load_pem(t, &p, names, name ? 1 : 0, err);
}

static void start(void)
{
	id = tls_identity_new();
	trust = tls_trust_new();
	assert_non_null(id);
	assert_non_null(trust);
	made_load(&server, id);
	assert_int_equal(load(trust, ca.cert, NULL, NULL), 0);
	fixture_start(&f, (struct http_config){.workers = 1, .identity = id, .clients = trust});
	atomic_store(&f.gate, true);
}

FIXTURE(stop)
{
	bool clean = !f.server || (fixture_idle(&f) && fixture_stop(&f, 1000));
	tls_trust_free(trust);
	tls_identity_free(id);
	trust = NULL;
	id = NULL;
	return clean ? 0 : -1;
}

struct tls_end {
	gnutls_session_t session;
	gnutls_certificate_credentials_t own;
	int fd;
};

static gnutls_datum_t datum(const char *text)
{
	union {
		const char *in;
		unsigned char *out;
	} at = {text};
	return (gnutls_datum_t){at.out, (unsigned)strlen(text)};
}

/* chain NULL: without a certificate. */
static void come(struct tls_end *c, const char *chain, const char *key, const char *priorities)
{
	int rc;

	c->fd = client_open(&f);
	assert_int_equal(gnutls_certificate_allocate_credentials(&c->own), 0);
	if (chain) {
		gnutls_datum_t cert = datum(chain), secret = datum(key);
		assert_int_equal(gnutls_certificate_set_x509_key_mem(
					 c->own, &cert, &secret, GNUTLS_X509_FMT_PEM),
			0);
	}
	assert_int_equal(gnutls_init(&c->session, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL), 0);
	assert_int_equal(gnutls_priority_set_direct(c->session, priorities, NULL), 0);
	assert_int_equal(gnutls_credentials_set(c->session, GNUTLS_CRD_CERTIFICATE, c->own), 0);
	gnutls_transport_set_int(c->session, c->fd);
	gnutls_handshake_set_timeout(c->session, 3000);
	gnutls_record_set_timeout(c->session, 3000);
	do {
		rc = gnutls_handshake(c->session);
	} while (rc < 0 && !gnutls_error_is_fatal(rc));
	assert_int_equal(rc, 0);
}

static void go(struct tls_end *c)
{
	gnutls_deinit(c->session);
	gnutls_certificate_free_credentials(c->own);
	(void)close(c->fd);
}

/* The status of the reply, which lies in `reply`. */
static int ask(struct tls_end *c, const char *method, const char *path)
{
	char request[256];
	size_t have = 0;
	const char *body;
	int len = snprintf(request, sizeof(request),
		"%s %s HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
		"Content-Length: %d\r\n\r\n%s",
		method, path, method[0] == 'P' ? 2 : 0, method[0] == 'P' ? "{}" : "");

	if (gnutls_record_send(c->session, request, (size_t)len) != len)
		return 0;
	for (;;) {
		ssize_t n = gnutls_record_recv(c->session, reply + have, sizeof(reply) - 1 - have);
		const char *length;

		if (n == GNUTLS_E_INTERRUPTED || n == GNUTLS_E_AGAIN)
			continue;
		if (n <= 0)
			return 0;
		have += (size_t)n;
		reply[have] = '\0';
		body = strstr(reply, "\r\n\r\n");
		length = strstr(reply, "Content-Length: ");
		if (body && length && strlen(body + 4) >= (size_t)strtol(length + 16, NULL, 10))
			return (int)strtol(reply + 9, NULL, 10);
	}
}

static int ask_as(const struct made_pair *who, const char *priorities)
{
	struct tls_end c;
	int status;

	come(&c, who ? who->cert : NULL, who ? who->key : NULL, priorities);
	status = ask(&c, "POST", "/echo");
	go(&c);
	return status;
}

/* ---- */

TEST(who_comes_in)
{
	static const char *const versions[] = {
		"NORMAL:-VERS-ALL:+VERS-TLS1.2", "NORMAL:-VERS-ALL:+VERS-TLS1.3"};
	const struct {
		const struct made_pair *who;
		const char *says; /* NULL: it comes in */
	} cases[] = {{&right, NULL}, {&second, NULL}, {&any_use, NULL},
		{NULL, "a client certificate is asked for"},
		{&foreign, "of no CA that is trusted here"}, {&expired, "has expired"},
		{&future, "not valid yet"}, {&for_servers, "not one for TLS clients"},
		{&self_signed, "of no CA that is trusted here"},
		{&of_old_ca, "of no CA that is trusted here"}};
	int handled = 0;

	start();
	for (size_t v = 0; v < 2; v++) {
		for (size_t i = 0; i < COUNT(cases); i++) {
			int status = ask_as(cases[i].who, versions[v]);

			handled += !cases[i].says;
			if (status != (cases[i].says ? 403 : 200) ||
				(cases[i].says && !strstr(reply, cases[i].says)))
				fail_msg("case %zu: %s", i, reply);
			assert_int_equal(f.handled, handled);
		}
	}
}

/* What is there is not told, what is open is open, and who came in is asked once a connection. */
TEST(routes)
{
	struct tls_end c;

	start();
	come(&c, NULL, NULL, "NORMAL");
	assert_int_equal(ask(&c, "GET", "/open"), 200);
	assert_int_equal(ask(&c, "GET", "/none"), 403);
	assert_int_equal(ask(&c, "DELETE", "/echo"), 403);
	assert_int_equal(ask(&c, "POST", "/later"), 403);
	assert_int_equal(ask(&c, "GET", "/open"), 200);
	go(&c);
	come(&c, right.cert, right.key, "NORMAL");
	assert_int_equal(ask(&c, "POST", "/later"), 200);
	assert_int_equal(ask(&c, "GET", "/none"), 404);
	assert_int_equal(ask(&c, "DELETE", "/echo"), 405);
	assert_int_equal(ask(&c, "POST", "/echo"), 200);
	go(&c);
}

TEST(names)
{
	start();
	assert_int_equal(load(trust, ca.cert, "kube-apiserver", NULL), 0);
	assert_int_equal(ask_as(&right, "NORMAL"), 200);
	assert_int_equal(ask_as(&second, "NORMAL"), 403);
	assert_non_null(strstr(reply, "common name is not one that is let in"));
	/* the name alone is nothing */
	assert_int_equal(ask_as(&foreign, "NORMAL"), 403);
	assert_non_null(strstr(reply, "of no CA"));
	assert_int_equal(load(trust, ca.cert, "kube-apiserve", NULL), 0);
	assert_int_equal(ask_as(&right, "NORMAL"), 403);
	assert_true(fixture_idle(&f));
	assert_true(fixture_stop(&f, 1000));
	assert_non_null(strstr(f.last_log, "(kube-apiserver): "));
}

#define N16 "nnnnnnnnnnnnnnnn"
#define N63 N16 N16 N16 "nnnnnnnnnnnnnnn"

/* Who has two has none, and people are told the first 63 bytes, of which some cannot be shown. */
TEST(names_of_any_kind)
{
	static const struct {
		const char *name, *let_in, *told;
		int status;
	} cases[] = {{"a b~", "x", "(a b~)", 403}, {"\x1f \x7f\xc3\xa9", "x", "(? ??\?)", 403},
		{N63, N63, "(" N63 ")", 200}, {N63 "n", N63 "n", "(" N63 ")", 200},
		{N63 "n", N63, "(" N63 ")", 403}, {"a,CN=b", "a", "", 403},
		{"a,CN=b", "b", "", 403}, {"a,CN=a", "a", "", 403}};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct made_pair who;
		int status;

		make_client(&who, &ca, cases[i].name, GNUTLS_KP_TLS_WWW_CLIENT, -60, 86400);
		start();
		assert_int_equal(load(trust, ca.cert, cases[i].let_in, NULL), 0);
		status = ask_as(&who, "NORMAL");
		assert_true(fixture_idle(&f));
		assert_true(fixture_stop(&f, 1000));
		if (status != cases[i].status ||
			(status == 403 && !strstr(f.last_log, cases[i].told)))
			fail_msg("%s: %d, %s", cases[i].name, status, f.last_log);
		assert_int_equal(stop(NULL), 0);
	}
}

/* Other CAs count from the next request on, also for a client that is there; a file that is refused
 * changes nothing. */
TEST(other_cas)
{
	struct tls_end c, d;
	struct err err = {0};
	char both[sizeof(ca.cert) * 2];

	start();
	come(&c, right.cert, right.key, "NORMAL");
	come(&d, foreign.cert, foreign.key, "NORMAL");
	assert_int_equal(ask(&c, "POST", "/echo"), 200);
	assert_int_equal(ask(&d, "POST", "/echo"), 403);
	assert_int_equal(load(trust, "no certificate", NULL, &err), ERR_SYNTAX);
	assert_int_equal(ask(&c, "POST", "/echo"), 200);
	assert_int_equal(load(trust, other_ca.cert, NULL, NULL), 0);
	assert_int_equal(ask(&c, "POST", "/echo"), 403);
	assert_int_equal(ask(&d, "POST", "/echo"), 200);
	(void)snprintf(both, sizeof(both), "%s%s", other_ca.cert, ca.cert);
	assert_int_equal(load(trust, both, NULL, NULL), 0);
	assert_int_equal(ask(&c, "POST", "/echo"), 200);
	assert_int_equal(ask(&d, "POST", "/echo"), 200);
	go(&c);
	go(&d);
}

/* A certificate without its key cannot be shown. */
TEST(stolen_certificate)
{
	struct tls_end c = {0};
	gnutls_datum_t cert = datum(right.cert), key = datum(second.key);

	start();
	c.fd = client_open(&f);
	assert_int_equal(gnutls_certificate_allocate_credentials(&c.own), 0);
	gnutls_certificate_set_flags(c.own, GNUTLS_CERTIFICATE_SKIP_KEY_CERT_MATCH);
	assert_int_equal(
		gnutls_certificate_set_x509_key_mem(c.own, &cert, &key, GNUTLS_X509_FMT_PEM), 0);
	assert_int_equal(gnutls_init(&c.session, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL), 0);
	assert_int_equal(gnutls_set_default_priority(c.session), 0);
	assert_int_equal(gnutls_credentials_set(c.session, GNUTLS_CRD_CERTIFICATE, c.own), 0);
	gnutls_transport_set_int(c.session, c.fd);
	gnutls_handshake_set_timeout(c.session, 3000);
	gnutls_record_set_timeout(c.session, 3000);
	if (gnutls_handshake(c.session) ==
		0) /* with TLS 1.3 it ends before the server has looked */
		assert_int_equal(ask(&c, "POST", "/echo"), 0);
	go(&c);
	assert_int_equal(f.handled, 0);
}

TEST(what_is_loaded)
{
	static char big[TLS_FILE_MAX + 2];
	struct tls_trust *t = tls_trust_new();
	struct tls_trust_info info;
	struct tls_session none = {0};
	struct tls_verdict c = {0};
	struct err err = {0};
	const char *file;
	const char *many[TLS_TRUST_NAMES_MAX + 1];
	struct tls_pem pem = {slice_of(ca.cert), "ca.crt"};
	FILE *out;

	assert_false(tls_trust_info(t, &info));
	assert_non_null(tls_trust_refusal(t, &none, &c));
	assert_int_equal(load(t, "", NULL, &err), ERR_SYNTAX);
	assert_non_null(strstr(err.msg, "ca.crt"));
	assert_int_equal(load(t, ca.key, NULL, &err), ERR_SYNTAX);
	assert_int_equal(load(t, old_ca.cert, NULL, &err), ERR_INVALID);
	assert_non_null(strstr(err.msg, "every certificate in ca.crt has expired"));
	assert_int_equal(load(t, ca.cert, "", &err), ERR_TOOBIG);
	memset(big, '\n', sizeof(big) - 1);
	assert_int_equal(load(t, big, NULL, &err), ERR_TOOBIG);
	for (size_t i = 0; i <= TLS_TRUST_NAMES_MAX; i++)
		many[i] = "a";
	assert_int_equal(
		tls_trust_load_pem(t, &pem, many, TLS_TRUST_NAMES_MAX + 1, &err), ERR_TOOBIG);
	assert_false(tls_trust_info(t, &info));
	assert_int_equal(load(t, ca.cert, NULL, &err), 0);
	assert_int_equal(load(t, ca.cert, NULL, &err), 0);
	assert_true(tls_trust_info(t, &info));
	assert_int_equal(info.generation, 1);
	assert_int_equal(info.certificates, 1);
	assert_true(info.not_after > 0);
	assert_int_equal(load(t, ca.cert, "a", &err), 0);
	assert_true(tls_trust_info(t, &info));
	assert_int_equal(info.generation, 2);
	assert_int_equal(scratch_begin(NULL), 0);
	file = scratch("ca.crt");
	assert_int_equal(tls_trust_load_file(t, file, NULL, 0, &err), ERR_NOTFOUND);
	assert_non_null(strstr(err.msg, file));
	assert_int_equal(tls_trust_load_file(t, scratch(""), NULL, 0, &err), ERR_IO);
	out = fopen(file, "w");
	assert_non_null(out);
	assert_true(fprintf(out, "%s%s", old_ca.cert, ca.cert) > 0);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(tls_trust_load_file(t, file, NULL, 0, &err), 0);
	assert_true(tls_trust_info(t, &info));
	assert_int_equal(info.certificates, 2);
	assert_int_equal(info.generation, 3);
	assert_int_equal(scratch_end(NULL), 0);
	tls_trust_free(t);
	tls_trust_free(NULL);
}

/* What was judged is believed until its time, of the same CAs, and by a clock that goes forward. */
TEST(what_is_believed)
{
	struct tls_trust *t = tls_trust_new();
	struct tls_session none = {0};
	struct tls_verdict c = {0};
	struct err err = {0};
	const struct {
		int64_t until;
		bool others, anew;
	} rows[] = {{1, false, false}, {30, false, false}, {60, false, false}, {30, true, true},
		{0, false, true}, {-1, false, true}, {-1000, false, true}, {120, false, true},
		{1000000, false, true}};

	assert_int_equal(load(t, ca.cert, NULL, &err), 0);
	assert_non_null(tls_trust_refusal(t, &none, &c));
	assert_int_equal(c.generation, 1);
	for (size_t i = 0; i < COUNT(rows); i++) {
		time_t now = time(NULL);
		bool anew;

		c = (struct tls_verdict){
			.generation = rows[i].others ? 2 : 1, .until = now + rows[i].until};
		anew = tls_trust_refusal(t, &none, &c) != NULL;
		/* the second may have ended in between */
		if (anew != rows[i].anew && time(NULL) != now) {
			i--;
			continue;
		}
		if (anew != rows[i].anew)
			fail_msg("row %zu", i);
		if (anew)
			assert_in_range(c.until, now + 60, time(NULL) + 60);
	}
	tls_trust_free(t);
}

TEST(not_without_tls)
{
	struct tls_trust *t = tls_trust_new();
	struct http_config cfg = {.listen = "127.0.0.1:0", .clients = t};
	struct http_app app = {0};
	struct http_server *s = NULL;
	struct err err = {0};

	assert_int_equal(http_server_start(&cfg, &app, &s, &err), ERR_INVALID);
	assert_null(s);
	tls_trust_free(t);
}

TESTS_ALL(make_all, NULL, NULL, stop, who_comes_in, routes, names, names_of_any_kind, other_cas,
	stolen_certificate, what_is_loaded, what_is_believed, not_without_tls)
