/* SPDX-License-Identifier: Apache-2.0 */
/* certs: checks that key, certificate and CA belong together. */
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include "certs/ossl.h"
#include "certs/x509_read.h"

int x509_check_pair(struct slice cert_pem, struct slice key_pem, struct err *err)
{
	X509 *cert = NULL;
	EVP_PKEY *key = NULL;
	int code = ossl_cert(cert_pem, "it", &cert, err);

	if (code == 0)
		code = ossl_key(key_pem, &key, err);
	if (code == 0 && X509_check_private_key(cert, key) != 1)
		code = err_set(err, ERR_CONFLICT, "the private key belongs to another certificate");
	ERR_clear_error();
	X509_free(cert);
	EVP_PKEY_free(key);
	return code;
}

static void free_certs(STACK_OF(X509) * certs)
{
	sk_X509_pop_free(certs, X509_free);
}

/* All certificates of a PEM text. */
static int read_stack(struct slice pem, const char *what, STACK_OF(X509) * *ret, struct err *err)
{
	BIO *in = NULL;
	STACK_OF(X509) *certs = sk_X509_new_null();
	X509 *cert = NULL;
	unsigned long last = 0;
	int code = ossl_reader(pem, &in, err);

	if (code == 0 && !certs)
		code = ossl_fail(err, ERR_NOMEM, "%s could not be read", what);
	while (code == 0) {
		cert = PEM_read_bio_X509(in, NULL, ossl_no_password, NULL);
		if (!cert)
			break;
		if (sk_X509_num(certs) >= X509_LIST_MAX)
			code = err_set(err, ERR_TOOBIG, "%s: more than %d certificates", what,
				X509_LIST_MAX);
		else if (sk_X509_push(certs, cert) > 0)
			continue;
		else
			code = ossl_fail(err, ERR_NOMEM, "%s could not be read", what);
		X509_free(cert);
	}
	last = ERR_peek_last_error();
	if (code == 0 &&
		!(ERR_GET_LIB(last) == ERR_LIB_PEM && ERR_GET_REASON(last) == PEM_R_NO_START_LINE))
		code = ossl_fail(err, ERR_SYNTAX, "%s: certificate number %d is damaged", what,
			sk_X509_num(certs) + 1);
	if (code == 0 && sk_X509_num(certs) == 0)
		code = err_set(err, ERR_NOTFOUND, "%s: holds no certificate", what);
	ERR_clear_error();
	BIO_free(in);
	if (code != 0)
		free_certs(certs);
	else
		*ret = certs;
	return code;
}

static int verify(STACK_OF(X509) * cas, STACK_OF(X509) * certs, int64_t now, struct err *err)
{
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	X509_VERIFY_PARAM *param = NULL;
	/* a CA that somebody else signed is an anchor too, as it is for Go and GnuTLS */
	unsigned long flags = X509_V_FLAG_PARTIAL_CHAIN;
	bool ok = store && ctx;
	int code = 0;

	for (int i = 0; i < sk_X509_num(cas) && ok; i++)
		ok = X509_STORE_add_cert(store, sk_X509_value(cas, i)) == 1;
	ok = ok && X509_STORE_CTX_init(ctx, store, sk_X509_value(certs, 0), certs) == 1;
	if (!ok) {
		code = ossl_fail(err, ERR_NOMEM, "the chain could not be verified");
		goto out;
	}
	param = X509_STORE_CTX_get0_param(ctx);
	if (now == X509_ANY_TIME)
		flags |= X509_V_FLAG_NO_CHECK_TIME;
	else
		X509_VERIFY_PARAM_set_time(param, (time_t)now);
	(void)X509_VERIFY_PARAM_set_flags(param, flags);
	(void)X509_VERIFY_PARAM_set_purpose(param, X509_PURPOSE_SSL_SERVER);
	if (X509_verify_cert(ctx) != 1)
		code = err_set(err, ERR_REFUSED, "%s",
			X509_verify_cert_error_string(X509_STORE_CTX_get_error(ctx)));
out:
	ERR_clear_error();
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	return code;
}

int x509_check_chain(struct slice ca_pem, struct slice cert_pem, int64_t now, struct err *err)
{
	STACK_OF(X509) *cas = NULL;
	STACK_OF(X509) *certs = NULL;
	int code = 0;

	ERR_clear_error();
	code = read_stack(ca_pem, "the CA", &cas, err);
	if (code == 0)
		code = read_stack(cert_pem, "the certificate", &certs, err);
	if (code == 0)
		code = verify(cas, certs, now, err);
	free_certs(cas);
	free_certs(certs);
	return code;
}
