/* SPDX-License-Identifier: Apache-2.0 */
/* certs/x509, certs/x509_read, certs/ossl: what is made holds what it should, and bad input of
 * every kind is named. */
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "certs/x509.h"
#include "certs/x509_read.h"
#include "test/unit/test.h"

#define NOW INT64_C(1767225600) /* 2026-01-01 */
#define DAY INT64_C(86400)

static struct x509_pair ca;      /* for example.org, localhost, 10.0.0.7 and ::1; 100 days */
static struct x509_pair serving; /* its names, 10 days */
static struct certs_names names;

static struct err err;

/* OpenSSL's queue is per thread: what one call leaves would be blamed on the next. */
#define assert_no_queue() assert_int_equal(ERR_peek_error(), 0)

static struct slice slice(const struct buf *b)
{
	return buf_as_slice(b);
}

FIXTURE(setup)
{
	x509_pair_init(&ca);
	x509_pair_init(&serving);
	return certs_names_dns(&names, SLICE("example.org"), NULL) ||
	       certs_names_dns(&names, SLICE("localhost"), NULL) ||
	       certs_names_ip(&names, SLICE("10.0.0.7"), NULL) ||
	       certs_names_ip(&names, SLICE("::1"), NULL) ||
	       x509_make_ca(&names, NOW, 100 * DAY, &ca, NULL) ||
	       x509_make_serving(&ca, &names, NOW, 10 * DAY, &serving, NULL);
}

FIXTURE(teardown)
{
	x509_pair_release(&ca);
	x509_pair_release(&serving);
	return 0;
}

static struct slice held(BIO *out)
{
	char *data = NULL;
	long len = BIO_get_mem_data(out, &data);

	return (struct slice){data, (size_t)len};
}

static int chain(struct slice trusted, struct slice leaf, int64_t now)
{
	err_clear(&err);
	return x509_check_chain(trusted, leaf, now, &err);
}

static int pair_of(struct slice cert, struct slice key)
{
	err_clear(&err);
	return x509_check_pair(cert, key, &err);
}

static int make_serving(
	const struct x509_pair *by, int64_t now, int64_t valid_s, struct x509_pair *ret)
{
	err_clear(&err);
	return x509_make_serving(by, &names, now, valid_s, ret, &err);
}

static X509 *parse(const struct buf *pem)
{
	BIO *in = BIO_new_mem_buf(pem->data, (int)pem->len);
	X509 *cert = PEM_read_bio_X509(in, NULL, NULL, NULL);

	BIO_free(in);
	assert_non_null(cert);
	return cert;
}

static EVP_PKEY *parse_key(const struct buf *pem)
{
	BIO *in = BIO_new_mem_buf(pem->data, (int)pem->len);
	EVP_PKEY *key = PEM_read_bio_PrivateKey(in, NULL, NULL, NULL);

	BIO_free(in);
	assert_non_null(key);
	return key;
}

static int critical(X509 *cert, int nid)
{
	int at = X509_get_ext_by_NID(cert, nid, -1);

	return at < 0 ? -1 : X509_EXTENSION_get_critical(X509_get_ext(cert, at));
}

/* ---- what is made ---- */

TEST(test_ca)
{
	X509 *cert = parse(&ca.cert);

	assert_int_equal(X509_get_version(cert), X509_VERSION_3);
	assert_int_equal(critical(cert, NID_basic_constraints), 1);
	assert_int_equal(critical(cert, NID_key_usage), 1);
	assert_int_equal(critical(cert, NID_name_constraints), 1);
	assert_int_equal(critical(cert, NID_subject_key_identifier), 0);
	assert_int_equal(X509_check_ca(cert), 1);
	assert_int_equal(X509_get_pathlen(cert), 0);
	assert_int_equal(X509_get_key_usage(cert), KU_KEY_CERT_SIGN | KU_CRL_SIGN);
	assert_int_equal(X509_get_extended_key_usage(cert), XKU_SSL_SERVER);
	assert_int_equal(X509_get_signature_nid(cert), NID_ecdsa_with_SHA256);
	assert_int_equal(X509_self_signed(cert, 1), 1);
	assert_true(strncmp(ca.key.data, "-----BEGIN PRIVATE KEY-----\n", 28) == 0);
	X509_free(cert);
}

TEST(test_serving)
{
	X509 *cert = parse(&serving.cert);

	assert_int_equal(X509_get_version(cert), X509_VERSION_3);
	assert_int_equal(X509_check_ca(cert), 0);
	assert_int_equal(critical(cert, NID_basic_constraints), 1);
	assert_int_equal(X509_get_key_usage(cert), KU_DIGITAL_SIGNATURE);
	assert_int_equal(X509_get_extended_key_usage(cert), XKU_SSL_SERVER);
	assert_non_null(X509_get0_authority_key_id(cert));
	assert_non_null(X509_get0_subject_key_id(cert));
	assert_int_equal(X509_check_host(cert, "example.org", 0, 0, NULL), 1);
	assert_int_equal(X509_check_host(cert, "www.example.org", 0, 0, NULL), 0);
	assert_int_equal(X509_check_ip_asc(cert, "10.0.0.7", 0), 1);
	assert_int_equal(X509_check_ip_asc(cert, "::1", 0), 1);
	assert_int_equal(X509_check_ip_asc(cert, "10.0.0.8", 0), 0);
	X509_free(cert);
}

TEST(test_info)
{
	struct x509_list list = {0};
	const struct x509_info *i = NULL;

	assert_int_equal(x509_list_read(slice(&ca.cert), &list, &err), 0);
	assert_int_equal(list.count, 1);
	i = &list.info[0];
	assert_true(i->is_ca && i->self_issued);
	assert_int_equal(strncmp(i->subject, "CN=poolgate CA ", 15), 0);
	assert_string_equal(i->subject + 23, ",O=poolgate");
	assert_int_equal(i->from, NOW - X509_BACKDATE_S);
	assert_int_equal(i->until, NOW + 100 * DAY);
	assert_string_equal(i->key_type, "ECDSA P-256");
	assert_int_equal(strlen(i->fingerprint), 95);
	assert_true(strlen(i->serial) >= 24 && strlen(i->serial) <= 32);
	assert_int_equal(i->sans.count, 0);
	assert_int_equal(i->may_sign.count, 4);
	assert_string_equal(i->may_sign.at[0], "DNS:example.org");
	assert_string_equal(i->may_sign.at[2], "IP:10.0.0.7/32");
	assert_string_equal(i->may_sign.at[3], "IP:::1/128");
	x509_list_release(&list);

	assert_int_equal(x509_list_read(slice(&serving.cert), &list, &err), 0);
	i = &list.info[0];
	assert_false(i->is_ca || i->self_issued);
	assert_string_equal(i->subject, "CN=example.org,O=poolgate");
	assert_int_equal(i->until, NOW + 10 * DAY);
	assert_int_equal(i->sans.count, 4);
	assert_string_equal(i->sans.at[1], "DNS:localhost");
	assert_string_equal(i->sans.at[3], "IP:::1");
	assert_int_equal(i->may_sign.count, 0);
	x509_list_release(&list);
	x509_list_release(&list);
	assert_no_queue();
}

TEST(test_names)
{
	struct certs_names got = {0};

	assert_int_equal(x509_names_read(slice(&serving.cert), &got, &err), 0);
	assert_int_equal(got.count, names.count);
	for (size_t i = 0; i < got.count; i++) {
		assert_int_equal(got.name[i].kind, names.name[i].kind);
		assert_string_equal(got.name[i].text, names.name[i].text);
	}
	assert_int_equal(x509_names_read(slice(&ca.cert), &got, &err), ERR_NOTFOUND);
	assert_int_equal(x509_names_read(SLICE("x"), &got, &err), ERR_SYNTAX);
	assert_int_equal(got.count, names.count);
	assert_no_queue();
}

/* A kind of which the CA has none is excluded whole, each address family for itself. */
TEST(test_excluded)
{
	static const struct {
		struct slice dns, ip;
		const char *first, *second;
		size_t count;
	} cases[] = {
		{SLICE("a.b"), {NULL, 0}, "not IP:0.0.0.0/0", "not IP:::/0", 3},
		{SLICE("a.b"), SLICE("10.0.0.1"), "IP:10.0.0.1/32", "not IP:::/0", 3},
		{{NULL, 0}, SLICE("::1"), "not DNS:", "not IP:0.0.0.0/0", 3},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct certs_names few = {0};
		struct x509_pair pair;
		struct x509_pair leaf;
		struct x509_list list = {0};

		err_clear(&err);
		x509_pair_init(&pair);
		x509_pair_init(&leaf);
		if (cases[i].dns.at)
			assert_int_equal(certs_names_dns(&few, cases[i].dns, &err), 0);
		if (cases[i].ip.at)
			assert_int_equal(certs_names_ip(&few, cases[i].ip, &err), 0);
		assert_int_equal(x509_make_ca(&few, NOW, DAY, &pair, &err), 0);
		assert_int_equal(x509_list_read(slice(&pair.cert), &list, &err), 0);
		assert_int_equal(list.info[0].may_sign.count, cases[i].count);
		assert_string_equal(list.info[0].may_sign.at[1], cases[i].first);
		assert_string_equal(list.info[0].may_sign.at[2], cases[i].second);
		/* it signs its own names */
		assert_int_equal(x509_make_serving(&pair, &few, NOW, DAY, &leaf, &err), 0);
		x509_list_release(&list);
		x509_pair_release(&pair);
		x509_pair_release(&leaf);
	}
}

/* ---- what may not be made ---- */

TEST(test_may_sign_only)
{
	static const struct {
		const char *dns, *ip;
		bool ok;
	} cases[] = {
		{"example.org", NULL, true},
		{"a.example.org", NULL, true}, /* a subtree, as RFC 5280 has it */
		{"localhost", "10.0.0.7", true},
		{"badexample.org", NULL, false},
		{"org", NULL, false},
		{"kubernetes.default.svc", NULL, false},
		{NULL, "10.0.0.8", false},
		{NULL, "::2", false},
		{"example.org", "127.0.0.1", false},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct certs_names some = {0};
		struct x509_pair pair;
		int code = 0;

		err_clear(&err);
		x509_pair_init(&pair);
		if (cases[i].dns)
			assert_int_equal(certs_names_dns(&some, slice_of(cases[i].dns), &err), 0);
		if (cases[i].ip)
			assert_int_equal(certs_names_ip(&some, slice_of(cases[i].ip), &err), 0);
		code = x509_make_serving(&ca, &some, NOW, DAY, &pair, &err);
		assert_int_equal(code, cases[i].ok ? 0 : ERR_REFUSED);
		if (!cases[i].ok) {
			assert_non_null(strstr(err.msg, "permitted"));
			assert_null(pair.cert.data);
			assert_null(pair.key.data);
		}
		x509_pair_release(&pair);
		assert_no_queue();
	}
}

TEST(test_bad_spec)
{
	static const struct certs_names none;
	static const struct {
		int64_t now, valid;
	} cases[] = {{NOW, 0}, {NOW, -1}, {NOW, X509_VALID_MAX_S + 1}, {-5, DAY}, {INT64_MAX, DAY}};
	struct x509_pair pair;

	x509_pair_init(&pair);
	assert_int_equal(x509_make_ca(&none, NOW, DAY, &pair, &err), ERR_INVALID);
	assert_int_equal(x509_make_serving(&ca, &none, NOW, DAY, &pair, &err), ERR_INVALID);
	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_int_equal(x509_make_ca(&names, cases[i].now, cases[i].valid, &pair, &err),
			ERR_INVALID);
		assert_int_equal(
			make_serving(&ca, cases[i].now, cases[i].valid, &pair), ERR_INVALID);
	}
	assert_null(pair.cert.data);
	/* the longest validity, beyond 2049, comes back as it was */
	assert_int_equal(x509_make_ca(&names, NOW, X509_VALID_MAX_S, &pair, &err), 0);
	{
		struct x509_list list = {0};

		assert_int_equal(x509_list_read(slice(&pair.cert), &list, &err), 0);
		assert_int_equal(list.info[0].until, NOW + X509_VALID_MAX_S);
		x509_list_release(&list);
	}
	x509_pair_release(&pair);
}

TEST(test_bad_ca)
{
	struct x509_pair pair;
	struct x509_pair wrong = {
		ca.cert,
		serving.key,
	};

	x509_pair_init(&pair);
	assert_int_equal(make_serving(&wrong, NOW, DAY, &pair), ERR_CONFLICT);
	assert_int_equal(make_serving(&serving, NOW, DAY, &pair), ERR_REFUSED);
	assert_non_null(strstr(err.msg, "not one of a CA"));
	wrong = (struct x509_pair){ca.key, ca.key};
	assert_int_equal(make_serving(&wrong, NOW, DAY, &pair), ERR_SYNTAX);
	wrong = (struct x509_pair){ca.cert, ca.cert};
	assert_int_equal(make_serving(&wrong, NOW, DAY, &pair), ERR_SYNTAX);
	assert_int_equal(make_serving(&ca, NOW + 100 * DAY, DAY, &pair), ERR_REFUSED);
	assert_non_null(strstr(err.msg, "expired"));
	assert_int_equal(make_serving(&ca, NOW - DAY, DAY, &pair), ERR_REFUSED);
	assert_non_null(strstr(err.msg, "not valid yet"));
	assert_null(pair.cert.data);
	assert_no_queue();
}

/* A serving pair never outlives its CA, nor does it begin before it. */
TEST(test_clamped)
{
	struct x509_pair pair;
	struct x509_list list = {0};

	x509_pair_init(&pair);
	assert_int_equal(make_serving(&ca, NOW - 100, 1000 * DAY, &pair), 0);
	assert_int_equal(x509_list_read(slice(&pair.cert), &list, &err), 0);
	assert_int_equal(list.info[0].from, NOW - X509_BACKDATE_S);
	assert_int_equal(list.info[0].until, NOW + 100 * DAY);
	x509_list_release(&list);
	x509_pair_release(&pair);
}

/* ---- checks ---- */

TEST(test_pair)
{
	assert_int_equal(pair_of(slice(&ca.cert), slice(&ca.key)), 0);
	assert_int_equal(pair_of(slice(&serving.cert), slice(&serving.key)), 0);
	assert_int_equal(pair_of(slice(&serving.cert), slice(&ca.key)), ERR_CONFLICT);
	assert_no_queue();
	assert_int_equal(pair_of(slice(&serving.cert), SLICE("")), ERR_SYNTAX);
	assert_int_equal(pair_of(SLICE("junk"), slice(&ca.key)), ERR_SYNTAX);
	assert_int_equal(pair_of((struct slice){NULL, 0}, slice(&ca.key)), ERR_SYNTAX);
	/* torn in the middle */
	assert_int_equal(pair_of(slice(&serving.cert),
				 (struct slice){serving.key.data, serving.key.len / 2}),
		ERR_SYNTAX);
	assert_no_queue();
}

/* An encrypted key must be named as such, and must never make OpenSSL ask on the terminal. */
TEST(test_encrypted)
{
	EVP_PKEY *key = parse_key(&serving.key);
	BIO *out = BIO_new(BIO_s_mem());

	assert_int_equal(PEM_write_bio_PrivateKey(out, key, EVP_aes_128_cbc(),
				 (const unsigned char *)"pw", 2, NULL, NULL),
		1);
	assert_int_equal(pair_of(slice(&serving.cert), held(out)), ERR_INVALID);
	assert_non_null(strstr(err.msg, "encrypted"));
	BIO_free(out);
	out = BIO_new(BIO_s_mem());
	assert_int_equal(PEM_write_bio_PrivateKey_traditional(out, key, EVP_aes_128_cbc(),
				 (unsigned char[]){"pw"}, 2, NULL, NULL),
		1);
	assert_int_equal(pair_of(slice(&serving.cert), held(out)), ERR_INVALID);
	BIO_free(out);
	EVP_PKEY_free(key);
	assert_no_queue();
}

TEST(test_chain)
{
	struct x509_pair other;
	struct buf both;

	x509_pair_init(&other);
	buf_init(&both, 65536);
	assert_int_equal(x509_make_ca(&names, NOW, 100 * DAY, &other, &err), 0);
	assert_int_equal(chain(slice(&ca.cert), slice(&serving.cert), NOW), 0);
	assert_int_equal(chain(slice(&other.cert), slice(&serving.cert), NOW), ERR_REFUSED);
	/* a bundle of two, as during a rotation, in either order */
	buf_slice(&both, slice(&other.cert));
	buf_slice(&both, slice(&ca.cert));
	assert_int_equal(chain(slice(&both), slice(&serving.cert), NOW), 0);
	/* dates */
	assert_int_equal(chain(slice(&ca.cert), slice(&serving.cert), NOW - 301), ERR_REFUSED);
	assert_non_null(strstr(err.msg, "not yet valid"));
	assert_int_equal(chain(slice(&ca.cert), slice(&serving.cert), NOW + 11 * DAY), ERR_REFUSED);
	assert_non_null(strstr(err.msg, "expired"));
	assert_int_equal(chain(slice(&ca.cert), slice(&serving.cert), X509_ANY_TIME), 0);
	/* a CA is no server */
	assert_int_equal(chain(slice(&ca.cert), slice(&ca.cert), NOW), ERR_REFUSED);
	assert_int_equal(chain(SLICE(""), slice(&serving.cert), NOW), ERR_NOTFOUND);
	assert_int_equal(chain(slice(&ca.cert), slice(&ca.key), NOW), ERR_NOTFOUND);
	assert_int_equal(chain(slice(&ca.cert),
				 (struct slice){serving.cert.data, serving.cert.len / 2}, NOW),
		ERR_SYNTAX);
	buf_release(&both);
	x509_pair_release(&other);
	assert_no_queue();
}

/* A certificate for a name outside the CA's constraints, signed with the CA's own key by somebody
 * else's tool. */
TEST(test_stolen_key)
{
	X509 *issuer = parse(&ca.cert);
	EVP_PKEY *key = parse_key(&ca.key);
	X509 *cert = parse(&serving.cert);
	X509_EXTENSION *san =
		X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "DNS:evil.example");
	BIO *out = BIO_new(BIO_s_mem());

	X509_EXTENSION_free(
		X509_delete_ext(cert, X509_get_ext_by_NID(cert, NID_subject_alt_name, -1)));
	assert_int_equal(X509_add_ext(cert, san, -1), 1);
	assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
	assert_int_equal(X509_verify(cert, X509_get0_pubkey(issuer)), 1);
	assert_int_equal(PEM_write_bio_X509(out, cert), 1);
	assert_int_equal(chain(slice(&ca.cert), held(out), NOW), ERR_REFUSED);
	assert_non_null(strstr(err.msg, "permitted subtree"));
	BIO_free(out);
	X509_EXTENSION_free(san);
	X509_free(cert);
	X509_free(issuer);
	EVP_PKEY_free(key);
}

/* ---- reading what others made ---- */

TEST(test_list)
{
	struct x509_list list = {0};
	struct buf b;

	assert_int_equal(x509_list_read(SLICE(""), &list, &err), ERR_NOTFOUND);
	assert_int_equal(x509_list_read(slice(&ca.key), &list, &err), ERR_NOTFOUND);
	assert_int_equal(x509_list_read((struct slice){ca.cert.data, (size_t)2 << 20}, &list, &err),
		ERR_TOOBIG);
	/* keys and text between certificates are passed over; the second certificate is torn */
	buf_init(&b, 1 << 20);
	buf_slice(&b, slice(&ca.cert));
	buf_str(&b, "some text\n");
	buf_slice(&b, slice(&serving.key));
	buf_slice(&b, slice(&serving.cert));
	assert_int_equal(x509_list_read(slice(&b), &list, &err), 0);
	assert_int_equal(list.count, 2);
	assert_true(list.info[0].is_ca && !list.info[1].is_ca);
	x509_list_release(&list);
	b.len -= 60;
	assert_int_equal(x509_list_read(slice(&b), &list, &err), ERR_SYNTAX);
	assert_non_null(strstr(err.msg, "number 2"));
	assert_int_equal(list.count, 0);
	buf_clear(&b);
	for (int i = 0; i <= X509_LIST_MAX; i++)
		buf_slice(&b, slice(&ca.cert));
	assert_int_equal(x509_list_read(slice(&b), &list, &err), ERR_TOOBIG);
	b.len -= ca.cert.len;
	assert_int_equal(x509_list_read(slice(&b), &list, &err), 0);
	assert_int_equal(list.count, X509_LIST_MAX);
	x509_list_release(&list);
	buf_release(&b);
	assert_no_queue();
}

/* Subject and SANs of a stranger may hold anything; what is shown is printable ASCII. */
TEST(test_escapes)
{
	X509 *cert = parse(&serving.cert);
	EVP_PKEY *key = parse_key(&serving.key);
	GENERAL_NAMES *sans = sk_GENERAL_NAME_new_null();
	GENERAL_NAME *g = GENERAL_NAME_new();
	ASN1_IA5STRING *s = ASN1_IA5STRING_new();
	X509_NAME *name = X509_NAME_new();
	BIO *out = BIO_new(BIO_s_mem());
	struct x509_list list = {0};
	struct certs_names got = {0};

	assert_int_equal(ASN1_STRING_set(s, "a\x1b[31m\0b\xff", 9), 1);
	GENERAL_NAME_set0_value(g, GEN_DNS, s);
	assert_true(sk_GENERAL_NAME_push(sans, g) > 0);
	assert_int_equal(
		X509_add1_ext_i2d(cert, NID_subject_alt_name, sans, 0, X509V3_ADD_REPLACE), 1);
	assert_int_equal(
		X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
			(const unsigned char *)"e\x1b]0;x\x07\n\xc3\xa9\xe2\x80\xae", -1, -1, 0),
		1);
	assert_int_equal(X509_set_subject_name(cert, name), 1);
	assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
	assert_int_equal(PEM_write_bio_X509(out, cert), 1);
	assert_int_equal(x509_list_read(held(out), &list, &err), 0);
	assert_string_equal(list.info[0].sans.at[0], "DNS:a\\1B[31m\\00b\\FF");
	for (const char *p = list.info[0].subject; *p; p++)
		assert_true(*p >= 0x20 && *p < 0x7f);
	assert_non_null(strstr(list.info[0].subject, "\\1B]0"));
	assert_int_equal(x509_names_read(held(out), &got, &err), ERR_INVALID);
	x509_list_release(&list);
	GENERAL_NAMES_free(sans);
	X509_NAME_free(name);
	X509_free(cert);
	EVP_PKEY_free(key);
	BIO_free(out);
}

/* Extensions that cannot be read must not look as if they were not there: a CA would seem to be
 * free to sign, or bound. */
TEST(test_unreadable_extensions)
{
	static const int nids[] = {NID_subject_alt_name, NID_name_constraints};
	EVP_PKEY *key = parse_key(&ca.key);

	for (size_t i = 0; i < 2; i++) {
		X509 *cert = parse(&ca.cert);
		ASN1_OCTET_STRING *junk = ASN1_OCTET_STRING_new();
		X509_EXTENSION *ext = NULL;
		BIO *out = BIO_new(BIO_s_mem());
		struct x509_list list = {0};
		int at = X509_get_ext_by_NID(cert, nids[i], -1);

		if (at >= 0)
			X509_EXTENSION_free(X509_delete_ext(cert, at));
		assert_int_equal(ASN1_OCTET_STRING_set(junk, (const unsigned char *)"junk", 4), 1);
		ext = X509_EXTENSION_create_by_NID(NULL, nids[i], 1, junk);
		assert_int_equal(X509_add_ext(cert, ext, -1), 1);
		assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
		assert_int_equal(PEM_write_bio_X509(out, cert), 1);
		assert_int_equal(x509_list_read(held(out), &list, &err), 0);
		if (nids[i] == NID_subject_alt_name)
			assert_string_equal(list.info[0].sans.at[0], "unreadable");
		else
			assert_string_equal(list.info[0].may_sign.at[0], "unreadable");
		assert_int_equal(chain(held(out), slice(&serving.cert), NOW), ERR_REFUSED);
		assert_no_queue();
		x509_list_release(&list);
		X509_EXTENSION_free(ext);
		ASN1_OCTET_STRING_free(junk);
		X509_free(cert);
		BIO_free(out);
	}
	EVP_PKEY_free(key);
}

/* Every byte of a certificate changed once: refused or read, never worse. */
TEST(test_mangled)
{
	char *copy = malloc(serving.cert.len);
	size_t refused = 0;

	assert_non_null(copy);
	for (size_t i = 0; i < serving.cert.len; i++) {
		struct x509_list list = {0};
		struct certs_names got = {0};
		struct slice pem = {copy, serving.cert.len};

		memcpy(copy, serving.cert.data, serving.cert.len);
		copy[i] = copy[i] == 'A' ? 'B' : 'A';
		if (x509_list_read(pem, &list, &err) == 0)
			x509_list_release(&list);
		(void)x509_names_read(pem, &got, &err);
		refused += chain(slice(&ca.cert), pem, NOW) != 0;
		assert_no_queue();
	}
	free(copy);
	/* all but changes outside the signed bytes: bits of padding, the END line's newline */
	assert_true(refused + 8 >= serving.cert.len);
}

TESTS_WITHIN(setup, teardown, test_ca, test_serving, test_info, test_names, test_excluded,
	test_may_sign_only, test_bad_spec, test_bad_ca, test_clamped, test_pair, test_encrypted,
	test_chain, test_stolen_key, test_list, test_escapes, test_unreadable_extensions,
	test_mangled)
