/* SPDX-License-Identifier: Apache-2.0 */
/* certs: what the x509 files share of OpenSSL. Only certs/ includes it; nothing else sees an
 * OpenSSL type. */
#ifndef CERTS_OSSL_H
#define CERTS_OSSL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include "base/err.h"
#include "base/slice.h"

/* As err_set, with the reason of OpenSSL's first queued error behind a colon; empties the queue. */
int ossl_fail(struct err *err, enum err_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* A password callback that knows none: without it OpenSSL would ask on the terminal. */
int ossl_no_password(char *buf, int size, int rwflag, void *data);

/* A BIO that reads the text, which must outlive it; the caller frees it with BIO_free(). ERR_TOOBIG
 * over 1 MiB, ERR_NOMEM. */
int ossl_reader(struct slice pem, BIO **ret, struct err *err);

/* The first certificate of a PEM text; the caller frees it with X509_free(). ERR_SYNTAX, ERR_NOMEM.
 */
int ossl_cert(struct slice pem, const char *what, X509 **ret, struct err *err);

/* The private key of a PEM text (PKCS#8, SEC 1 or PKCS#1, not encrypted); the caller frees it with
 * EVP_PKEY_free(). ERR_SYNTAX, ERR_INVALID (encrypted), ERR_NOMEM. */
int ossl_key(struct slice pem, EVP_PKEY **ret, struct err *err);

/* Seconds since 1970. False for a date that cannot be read. */
bool ossl_time(const ASN1_TIME *t, int64_t *ret);

#endif
