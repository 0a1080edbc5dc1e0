/* SPDX-License-Identifier: Apache-2.0 */
/* test: certificate pairs made on the spot, with GnuTLS. */
#include "test/unit/make_pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "test/unit/test.h"

static void must(int rc)
{
	if (rc < 0)
		abort();
}

void make_pair(struct made_pair *ret, enum made_key kind, long from_s, long to_s, int san)
{
	static unsigned char serial = 1;
	gnutls_x509_privkey_t key;
	gnutls_x509_crt_t crt;
	time_t now = time(NULL);
	size_t len;
	must(gnutls_x509_privkey_init(&key));
	if (kind == MADE_RSA)
		must(gnutls_x509_privkey_generate(key, GNUTLS_PK_RSA, 2048, 0));
	else if (kind == MADE_ED25519)
		must(gnutls_x509_privkey_generate(key, GNUTLS_PK_EDDSA_ED25519, 256, 0));
	else
		must(gnutls_x509_privkey_generate(
			key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
	must(gnutls_x509_crt_init(&crt));
	must(gnutls_x509_crt_set_version(crt, 3));
	/* Different names, so that two of them do not look like issuer and issued. */
	char dn[32];
	(void)snprintf(dn, sizeof(dn), "CN=localhost-%u", serial);
	must(gnutls_x509_crt_set_dn(crt, dn, NULL));
	must(gnutls_x509_crt_set_key(crt, key));
	must(gnutls_x509_crt_set_activation_time(crt, now + from_s));
	must(gnutls_x509_crt_set_expiration_time(crt, now + to_s));
	must(gnutls_x509_crt_set_serial(crt, &serial, 1));
	serial++;
	if (san)
		must(gnutls_x509_crt_set_subject_alt_name(
			crt, GNUTLS_SAN_DNSNAME, "localhost", 9, GNUTLS_FSAN_SET));
	must(gnutls_x509_crt_sign2(
		crt, crt, key, kind == MADE_ED25519 ? GNUTLS_DIG_SHA512 : GNUTLS_DIG_SHA256, 0));
	memset(ret, 0, sizeof(*ret));
	len = sizeof(ret->cert) - 1;
	must(gnutls_x509_crt_export(crt, GNUTLS_X509_FMT_PEM, ret->cert, &len));
	len = sizeof(ret->key) - 1;
	must(gnutls_x509_privkey_export_pkcs8(
		key, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN, ret->key, &len));
	gnutls_x509_crt_deinit(crt);
	gnutls_x509_privkey_deinit(key);
}

/* A version 3 certificate with a key of its own; the caller adds what makes it what it is, and
 * signs. */
static void begin_cert(gnutls_x509_crt_t *crt, gnutls_x509_privkey_t *key, const char *name,
	long from_s, long to_s)
{
	static unsigned char serial = 1;
	char dn[160];

	must(gnutls_x509_privkey_init(key));
	must(gnutls_x509_privkey_generate(
		*key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
	must(gnutls_x509_crt_init(crt));
	must(gnutls_x509_crt_set_version(*crt, 3));
	(void)snprintf(dn, sizeof(dn), "CN=%s", name);
	must(gnutls_x509_crt_set_dn(*crt, dn, NULL));
	must(gnutls_x509_crt_set_key(*crt, *key));
	must(gnutls_x509_crt_set_activation_time(*crt, time(NULL) + from_s));
	must(gnutls_x509_crt_set_expiration_time(*crt, time(NULL) + to_s));
	must(gnutls_x509_crt_set_serial(*crt, &serial, 1));
	serial++;
}

static void end_cert(struct made_pair *ret, gnutls_x509_crt_t crt, gnutls_x509_privkey_t key)
{
	size_t len = sizeof(ret->cert) - 1;

	memset(ret, 0, sizeof(*ret));
	must(gnutls_x509_crt_export(crt, GNUTLS_X509_FMT_PEM, ret->cert, &len));
	len = sizeof(ret->key) - 1;
	must(gnutls_x509_privkey_export_pkcs8(
		key, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN, ret->key, &len));
	gnutls_x509_crt_deinit(crt);
	gnutls_x509_privkey_deinit(key);
}

void make_ca(struct made_pair *ret, const char *name, long from_s, long to_s)
{
	gnutls_x509_privkey_t key;
	gnutls_x509_crt_t crt;

	begin_cert(&crt, &key, name, from_s, to_s);
	must(gnutls_x509_crt_set_basic_constraints(crt, 1, -1));
	must(gnutls_x509_crt_set_key_usage(crt, GNUTLS_KEY_KEY_CERT_SIGN | GNUTLS_KEY_CRL_SIGN));
	must(gnutls_x509_crt_sign2(crt, crt, key, GNUTLS_DIG_SHA256, 0));
	end_cert(ret, crt, key);
}

static gnutls_datum_t text_datum(const char *text)
{
	union {
		const char *in;
		unsigned char *out;
	} at = {text};
	return (gnutls_datum_t){at.out, (unsigned)strlen(text)};
}

/* san: an alternative name; NULL for none. */
static void make_signed(struct made_pair *ret, const struct made_pair *ca, const char *name,
	const char *san, const char *purpose, long from_s, long to_s)
{
	gnutls_datum_t cert = text_datum(ca->cert), secret = text_datum(ca->key);
	gnutls_x509_privkey_t key, ca_key;
	gnutls_x509_crt_t crt, ca_crt;

	must(gnutls_x509_crt_init(&ca_crt));
	must(gnutls_x509_crt_import(ca_crt, &cert, GNUTLS_X509_FMT_PEM));
	must(gnutls_x509_privkey_init(&ca_key));
	must(gnutls_x509_privkey_import2(ca_key, &secret, GNUTLS_X509_FMT_PEM, NULL, 0));
	begin_cert(&crt, &key, name, from_s, to_s);
	must(gnutls_x509_crt_set_basic_constraints(crt, 0, -1));
	if (purpose)
		must(gnutls_x509_crt_set_key_purpose_oid(crt, purpose, 0));
	if (san)
		must(gnutls_x509_crt_set_subject_alt_name(
			crt, GNUTLS_SAN_DNSNAME, san, (unsigned)strlen(san), GNUTLS_FSAN_SET));
	must(gnutls_x509_crt_sign2(crt, ca_crt, ca_key, GNUTLS_DIG_SHA256, 0));
	end_cert(ret, crt, key);
	gnutls_x509_crt_deinit(ca_crt);
	gnutls_x509_privkey_deinit(ca_key);
}

void make_client(struct made_pair *ret, const struct made_pair *ca, const char *name,
	const char *purpose, long from_s, long to_s)
{
	make_signed(ret, ca, name, NULL, purpose, from_s, to_s);
}

void make_server(struct made_pair *ret, const struct made_pair *ca, const char *purpose,
	long from_s, long to_s)
{
	make_signed(ret, ca, "localhost", "localhost", purpose, from_s, to_s);
}

struct tls_pem made_cert(const struct made_pair *p)
{
	return (struct tls_pem){slice_of(p->cert), "tls.crt"};
}

struct tls_pem made_key(const struct made_pair *p)
{
	return (struct tls_pem){slice_of(p->key), "tls.key"};
}

void made_load(const struct made_pair *p, struct tls_identity *id)
{
	struct tls_pem cert = made_cert(p), key = made_key(p);
	struct err err = {0};

	if (tls_identity_load_pem(id, &cert, &key, &err) != 0)
		fail_msg("%s", err.msg);
}
