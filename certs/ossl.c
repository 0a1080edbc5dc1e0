/* SPDX-License-Identifier: Apache-2.0 */
/* certs: OpenSSL's errors, PEM texts and dates in our own terms. */
#include "certs/ossl.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/pem.h>

#define PEM_BYTES_MAX ((size_t)1 << 20)

int ossl_fail(struct err *err, enum err_code code, const char *fmt, ...)
{
	/* the first error is the cause, later ones are where it passed through */
	unsigned long first = ERR_get_error();
	const char *reason = first ? ERR_reason_error_string(first) : NULL;
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	ERR_clear_error();
	if (first && ERR_GET_REASON(first) == ERR_R_MALLOC_FAILURE)
		code = ERR_NOMEM;
	return err_set(err, code, "%s%s%s", text, reason ? ": " : "", reason ? reason : "");
}

/* NOLINTNEXTLINE(readability-non-const-parameter): OpenSSL's type of callback */
int ossl_no_password(char *buf, int size, int rwflag, void *data)
{
	(void)buf;
	(void)size;
	(void)rwflag;
	(void)data;
	return -1;
}

int ossl_reader(struct slice pem, BIO **ret, struct err *err)
{
	BIO *in = NULL;

	if (pem.len > PEM_BYTES_MAX)
		return err_set(err, ERR_TOOBIG, "%zu bytes of PEM; at most %zu are read", pem.len,
			PEM_BYTES_MAX);
	in = BIO_new_mem_buf(pem.at ? pem.at : "", (int)pem.len);
	if (!in)
		return ossl_fail(err, ERR_NOMEM, "no memory for reading PEM");
	*ret = in;
	return 0;
}

int ossl_cert(struct slice pem, const char *what, X509 **ret, struct err *err)
{
	BIO *in = NULL;
	X509 *cert = NULL;
	int code = ossl_reader(pem, &in, err);

	if (code != 0)
		return code;
	cert = PEM_read_bio_X509(in, NULL, ossl_no_password, NULL);
	BIO_free(in);
	if (!cert)
		return ossl_fail(err, ERR_SYNTAX,
			"%s is not a readable PEM certificate (-----BEGIN CERTIFICATE-----)", what);
	ERR_clear_error();
	*ret = cert;
	return 0;
}

int ossl_key(struct slice pem, EVP_PKEY **ret, struct err *err)
{
	BIO *in = NULL;
	EVP_PKEY *key = NULL;
	unsigned long first = 0;
	unsigned long last = 0;
	int code = ossl_reader(pem, &in, err);

	if (code != 0)
		return code;
	key = PEM_read_bio_PrivateKey(in, NULL, ossl_no_password, NULL);
	first = ERR_peek_error();
	last = ERR_peek_last_error();
	BIO_free(in);
	if (!key && (ERR_GET_REASON(last) == PEM_R_BAD_PASSWORD_READ ||
			    ERR_GET_REASON(first) == PEM_R_BAD_PASSWORD_READ ||
			    ERR_GET_REASON(first) == ERR_R_INTERRUPTED_OR_CANCELLED)) {
		ERR_clear_error();
		return err_set(err, ERR_INVALID,
			"the private key is encrypted; a key without a password is expected");
	}
	if (!key)
		return ossl_fail(err, ERR_SYNTAX,
			"not a readable PEM private key (-----BEGIN PRIVATE KEY-----)");
	ERR_clear_error();
	*ret = key;
	return 0;
}

bool ossl_time(const ASN1_TIME *t, int64_t *ret)
{
	struct tm tm = {0};

	if (!t || ASN1_TIME_to_tm(t, &tm) != 1) {
		ERR_clear_error();
		return false;
	}
	*ret = (int64_t)timegm(&tm);
	return true;
}
