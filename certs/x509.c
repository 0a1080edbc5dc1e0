/* SPDX-License-Identifier: Apache-2.0 */
/* certs: makes keys and certificates with OpenSSL's libcrypto. */
#include "certs/x509.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <openssl/bn.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "certs/ossl.h"
#include "certs/x509_read.h"

/* A PEM certificate with CERTS_NAMES_MAX names of full length stays below it. */
#define PEM_MAX 65536
#define ORGANISATION "poolgate"
/* ub-common-name of RFC 5280. */
#define CN_MAX 64

void x509_pair_init(struct x509_pair *pair)
{
	buf_init(&pair->cert, PEM_MAX);
	buf_init(&pair->key, PEM_MAX);
}

void x509_pair_release(struct x509_pair *pair)
{
	if (pair->key.data)
		OPENSSL_cleanse(pair->key.data, pair->key.cap);
	buf_release(&pair->key);
	buf_release(&pair->cert);
}

/* ---- names ---- */

/* A name as a SAN (mask false), or as the subtree of a constraint: an address is then followed by
 * its mask. */
static GENERAL_NAME *general_name(const struct certs_name *name, bool mask)
{
	GENERAL_NAME *g = GENERAL_NAME_new();
	ASN1_STRING *s = ASN1_STRING_type_new(
		name->kind == CERTS_NAME_DNS ? V_ASN1_IA5STRING : V_ASN1_OCTET_STRING);
	uint8_t octets[32];
	int ok = 0;

	if (g && s && name->kind == CERTS_NAME_DNS) {
		ok = ASN1_STRING_set(s, name->text, (int)strlen(name->text));
	} else if (g && s) {
		memcpy(octets, name->ip, name->ip_len);
		memset(octets + name->ip_len, 0xff, name->ip_len);
		ok = ASN1_STRING_set(s, octets, mask ? name->ip_len * 2 : name->ip_len);
	}
	if (!ok) {
		GENERAL_NAME_free(g);
		ASN1_STRING_free(s);
		return NULL;
	}
	GENERAL_NAME_set0_value(g, name->kind == CERTS_NAME_DNS ? GEN_DNS : GEN_IPADD, s);
	return g;
}

static bool add_sans(X509 *cert, const struct certs_names *names)
{
	GENERAL_NAMES *sans = sk_GENERAL_NAME_new_null();
	bool ok = sans != NULL;

	for (size_t i = 0; i < names->count && ok; i++) {
		GENERAL_NAME *g = general_name(&names->name[i], false);

		ok = g && sk_GENERAL_NAME_push(sans, g) > 0;
		if (!ok)
			GENERAL_NAME_free(g);
	}
	ok = ok && X509_add1_ext_i2d(cert, NID_subject_alt_name, sans, 0, X509V3_ADD_DEFAULT) == 1;
	GENERAL_NAMES_free(sans);
	return ok;
}

static bool add_subtree(STACK_OF(GENERAL_SUBTREE) * *trees, GENERAL_NAME *base)
{
	GENERAL_SUBTREE *tree = base ? GENERAL_SUBTREE_new() : NULL;

	if (!*trees)
		*trees = sk_GENERAL_SUBTREE_new_null();
	if (!tree || !*trees || sk_GENERAL_SUBTREE_push(*trees, tree) <= 0) {
		GENERAL_SUBTREE_free(tree);
		GENERAL_NAME_free(base);
		return false;
	}
	GENERAL_NAME_free(tree->base);
	tree->base = base;
	return true;
}

/* Exclude all of a kind: a permitted list of one kind leaves the others free. ip_len 0: DNS, of
 * which every name lies below the empty one. */
static bool exclude_all(STACK_OF(GENERAL_SUBTREE) * *trees, size_t ip_len)
{
	static const uint8_t zero[32] = {0};
	GENERAL_NAME *g = GENERAL_NAME_new();
	ASN1_STRING *s = ASN1_STRING_type_new(ip_len > 0 ? V_ASN1_OCTET_STRING : V_ASN1_IA5STRING);

	if (!g || !s || !ASN1_STRING_set(s, zero, (int)ip_len * 2)) {
		GENERAL_NAME_free(g);
		ASN1_STRING_free(s);
		return false;
	}
	GENERAL_NAME_set0_value(g, ip_len > 0 ? GEN_IPADD : GEN_DNS, s);
	return add_subtree(trees, g);
}

static bool add_constraints(X509 *cert, const struct certs_names *names)
{
	/* IPv4 and IPv6 are kinds of their own: GnuTLS 3.7 lets a CA with IPv4 addresses alone sign
	 * any IPv6 address */
	static const size_t kinds[] = {0, 4, 16};
	NAME_CONSTRAINTS *nc = NAME_CONSTRAINTS_new();
	bool ok = nc != NULL;

	for (size_t i = 0; i < names->count && ok; i++)
		ok = add_subtree(&nc->permittedSubtrees, general_name(&names->name[i], true));
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]) && ok; k++) {
		bool some = false;

		for (size_t i = 0; i < names->count; i++)
			some = some || names->name[i].ip_len == kinds[k];
		ok = some || exclude_all(&nc->excludedSubtrees, kinds[k]);
	}
	ok = ok && X509_add1_ext_i2d(cert, NID_name_constraints, nc, 1, X509V3_ADD_DEFAULT) == 1;
	NAME_CONSTRAINTS_free(nc);
	return ok;
}

/* ---- parts of a certificate ---- */

struct ext {
	int nid;
	const char *value; /* OpenSSL's configuration syntax; constants only */
};

static const struct ext ca_exts[] = {
	{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
	{NID_key_usage, "critical,keyCertSign,cRLSign"},
	{NID_ext_key_usage, "serverAuth"},
	{NID_subject_key_identifier, "hash"},
};

static const struct ext serving_exts[] = {
	{NID_basic_constraints, "critical,CA:FALSE"},
	{NID_key_usage, "critical,digitalSignature"},
	{NID_ext_key_usage, "serverAuth"},
	{NID_subject_key_identifier, "hash"},
	{NID_authority_key_identifier, "keyid:always"},
};

static bool add_exts(X509 *cert, X509 *issuer, const struct ext *exts, size_t n)
{
	X509V3_CTX ctx;

	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	X509V3_set_ctx_nodb(&ctx);
	for (size_t i = 0; i < n; i++) {
		X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, &ctx, exts[i].nid, exts[i].value);
		bool ok = ext && X509_add_ext(cert, ext, -1) == 1;

		X509_EXTENSION_free(ext);
		if (!ok)
			return false;
	}
	return true;
}

/* 128 random bits, never zero; *ret_tag gets eight hex digits of it. */
static bool set_serial(X509 *cert, char ret_tag[9])
{
	BIGNUM *n = BN_new();
	bool ok = n && BN_rand(n, 128, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ODD) == 1 &&
		  BN_to_ASN1_INTEGER(n, X509_get_serialNumber(cert)) != NULL;

	if (ok)
		(void)snprintf(ret_tag, 9, "%08lx", (unsigned long)BN_mod_word(n, 0xfffffffb));
	BN_free(n);
	return ok;
}

static bool add_word(X509_NAME *name, const char *type, const char *word)
{
	return X509_NAME_add_entry_by_txt(
		       name, type, MBSTRING_UTF8, (const unsigned char *)word, -1, -1, 0) == 1;
}

/* A new v3 certificate for the key, with serial, dates and subject. cn NULL: "poolgate CA <tag>";
 * "": none. */
static X509 *new_cert(EVP_PKEY *key, const char *cn, int64_t from, int64_t until)
{
	X509 *cert = X509_new();
	char tag[9] = "";
	char ca_cn[32];
	X509_NAME *subject = NULL;

	if (!cert || X509_set_version(cert, X509_VERSION_3) != 1 || !set_serial(cert, tag) ||
		!ASN1_TIME_set(X509_getm_notBefore(cert), (time_t)from) ||
		!ASN1_TIME_set(X509_getm_notAfter(cert), (time_t)until) ||
		X509_set_pubkey(cert, key) != 1)
		goto fail;
	if (!cn) {
		/* two CAs stand in one bundle during a rotation: different names keep them apart */
		(void)snprintf(ca_cn, sizeof(ca_cn), "poolgate CA %s", tag);
		cn = ca_cn;
	}
	subject = X509_get_subject_name(cert);
	if (!add_word(subject, "O", ORGANISATION) || (*cn && !add_word(subject, "CN", cn)))
		goto fail;
	return cert;
fail:
	X509_free(cert);
	return NULL;
}

/* Move what a BIO holds into an empty buffer of exactly that size. */
static bool bio_to_buf(BIO *bio, struct buf *out)
{
	char *data = NULL;
	long len = BIO_get_mem_data(bio, &data);

	if (len <= 0 || !buf_reserve(out, (size_t)len))
		return false;
	buf_add(out, data, (size_t)len);
	return !out->failed;
}

/* Write both in PEM. OpenSSL's memory BIO wipes what it frees. */
static int write_pair(X509 *cert, EVP_PKEY *key, struct x509_pair *ret, struct err *err)
{
	BIO *cert_out = BIO_new(BIO_s_mem());
	BIO *key_out = BIO_new(BIO_s_mem());
	bool ok = cert_out && key_out && PEM_write_bio_X509(cert_out, cert) == 1 &&
		  PEM_write_bio_PrivateKey(key_out, key, NULL, NULL, 0, NULL, NULL) == 1 &&
		  bio_to_buf(cert_out, &ret->cert) && bio_to_buf(key_out, &ret->key);

	BIO_free(cert_out);
	BIO_free(key_out);
	if (ok)
		return 0;
	x509_pair_release(ret);
	return ossl_fail(err, ERR_NOMEM, "the certificate and its key could not be written");
}

static int check_spec(
	const struct certs_names *names, int64_t now, int64_t valid_s, struct err *err)
{
	if (names->count == 0)
		return err_set(err, ERR_INVALID,
			"no names: a certificate needs at least one DNS name or address");
	if (valid_s < 1 || valid_s > X509_VALID_MAX_S)
		return err_set(err, ERR_INVALID, "valid for %lld seconds; 1 to %lld are accepted",
			(long long)valid_s, (long long)X509_VALID_MAX_S);
	/* with valid_s this stays within the year 9999, the last one a certificate can hold */
	if (now < X509_BACKDATE_S || now > INT64_C(240000000000))
		return err_set(err, ERR_INVALID,
			"the clock says %lld, which is no date for a certificate", (long long)now);
	return 0;
}

/* ---- the two kinds ---- */

int x509_make_ca(const struct certs_names *names, int64_t now, int64_t valid_s,
	struct x509_pair *ret, struct err *err)
{
	int code = check_spec(names, now, valid_s, err);
	EVP_PKEY *key = NULL;
	X509 *cert = NULL;

	if (code != 0)
		return code;
	ERR_clear_error();
	key = EVP_EC_gen("P-256");
	cert = key ? new_cert(key, NULL, now - X509_BACKDATE_S, now + valid_s) : NULL;
	if (cert && X509_set_issuer_name(cert, X509_get_subject_name(cert)) == 1 &&
		add_exts(cert, cert, ca_exts, sizeof(ca_exts) / sizeof(ca_exts[0])) &&
		add_constraints(cert, names) && X509_sign(cert, key, EVP_sha256()) > 0)
		code = write_pair(cert, key, ret, err);
	else
		code = ossl_fail(err, ERR_INTERNAL, "a CA could not be made");
	ERR_clear_error(); /* OpenSSL may queue an error and succeed nevertheless */
	X509_free(cert);
	EVP_PKEY_free(key);
	return code;
}

/* Read the CA and check that it can sign now. */
static int open_ca(const struct x509_pair *pair, int64_t now, X509 **ret_ca, EVP_PKEY **ret_key,
	struct err *err)
{
	X509 *ca = NULL;
	EVP_PKEY *key = NULL;
	int64_t from = 0;
	int64_t until = 0;
	int code = ossl_cert(buf_as_slice(&pair->cert), "the CA's certificate", &ca, err);

	if (code == 0)
		code = ossl_key(buf_as_slice(&pair->key), &key, err);
	if (code == 0 && X509_check_private_key(ca, key) != 1)
		code = ossl_fail(
			err, ERR_CONFLICT, "the CA's key does not belong to the CA's certificate");
	if (code == 0 && X509_check_ca(ca) != 1)
		code = err_set(err, ERR_REFUSED, "the CA's certificate is not one of a CA");
	if (code == 0 && (!ossl_time(X509_get0_notBefore(ca), &from) ||
				 !ossl_time(X509_get0_notAfter(ca), &until)))
		code = err_set(err, ERR_SYNTAX, "the CA's certificate has unreadable dates");
	if (code == 0 && until <= now)
		code = err_set(err, ERR_REFUSED, "the CA has expired; make a new one");
	if (code == 0 && from > now)
		code = err_set(err, ERR_REFUSED, "the CA is not valid yet; check the clock");
	ERR_clear_error();
	if (code != 0) {
		X509_free(ca);
		EVP_PKEY_free(key);
		return code;
	}
	*ret_ca = ca;
	*ret_key = key;
	return 0;
}

/* The first DNS name, for eyes only: clients look at the SANs. */
static const char *common_name(const struct certs_names *names)
{
	for (size_t i = 0; i < names->count; i++)
		if (names->name[i].kind == CERTS_NAME_DNS && strlen(names->name[i].text) <= CN_MAX)
			return names->name[i].text;
	return "";
}

int x509_make_serving(const struct x509_pair *ca, const struct certs_names *names, int64_t now,
	int64_t valid_s, struct x509_pair *ret, struct err *err)
{
	int code = check_spec(names, now, valid_s, err);
	X509 *issuer = NULL;
	EVP_PKEY *issuer_key = NULL;
	EVP_PKEY *key = NULL;
	X509 *cert = NULL;
	int64_t from = 0;
	int64_t until = 0;

	if (code != 0)
		return code;
	ERR_clear_error();
	code = open_ca(ca, now, &issuer, &issuer_key, err);
	if (code != 0)
		return code;
	/* within the CA's own dates, which open_ca has read once */
	(void)ossl_time(X509_get0_notBefore(issuer), &from);
	(void)ossl_time(X509_get0_notAfter(issuer), &until);
	if (from < now - X509_BACKDATE_S)
		from = now - X509_BACKDATE_S;
	if (until > now + valid_s)
		until = now + valid_s;
	key = EVP_EC_gen("P-256");
	cert = key ? new_cert(key, common_name(names), from, until) : NULL;
	if (cert && X509_set_issuer_name(cert, X509_get_subject_name(issuer)) == 1 &&
		add_exts(cert, issuer, serving_exts,
			sizeof(serving_exts) / sizeof(serving_exts[0])) &&
		add_sans(cert, names) && X509_sign(cert, issuer_key, EVP_sha256()) > 0)
		code = write_pair(cert, key, ret, err);
	else
		code = ossl_fail(err, ERR_INTERNAL, "a serving certificate could not be made");
	if (code == 0)
		code = x509_check_chain(
			buf_as_slice(&ca->cert), buf_as_slice(&ret->cert), now, err);
	if (code != 0)
		x509_pair_release(ret);
	ERR_clear_error();
	X509_free(cert);
	X509_free(issuer);
	EVP_PKEY_free(key);
	EVP_PKEY_free(issuer_key);
	return code;
}
