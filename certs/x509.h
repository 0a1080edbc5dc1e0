/* SPDX-License-Identifier: Apache-2.0 */
/* certs: makes a CA that may sign only this server's names, and serving pairs signed by it (RFC
 * 5280; P-256, SHA-256).
 *
 * "Only this" is written into the CA in four ways, so that its key, once stolen, is of little use:
 * nameConstraints permit exactly the names and addresses it was made for (DNS, IPv4, IPv6: a kind
 * of which there is none is excluded whole), pathlen 0 lets it sign no other CA, keyUsage lets it
 * sign certificates and CRLs alone, extendedKeyUsage lets those serve TLS alone. A permitted DNS
 * name covers the names below it too, as RFC 5280 section 4.2.1.10 has it. OpenSSL, GnuTLS and Go
 * check all four.
 *
 * Nothing here reads a clock or a file. Every function may be called from any thread. */
#ifndef CERTS_X509_H
#define CERTS_X509_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "certs/certs_names.h"

/* notBefore lies this far back, for clients whose clock is behind. */
#define X509_BACKDATE_S 300
/* The longest validity that is made: a hundred years. */
#define X509_VALID_MAX_S ((int64_t)36500 * 86400)

/* A certificate and its private key in PEM, NUL-terminated. */
struct x509_pair {
	struct buf cert;
	struct buf key; /* PKCS#8, not encrypted */
};

/* An empty pair. */
void x509_pair_init(struct x509_pair *pair);

/* Overwrite the key, free both, make it empty. */
void x509_pair_release(struct x509_pair *pair);

/* Make a CA for these names: self-signed, subject "O=poolgate, CN=poolgate CA <eight hex digits>",
 * valid from now (Unix seconds) less X509_BACKDATE_S for valid_s from now. ret must be inited and
 * empty; the caller releases it. ERR_INVALID: no names, valid_s not within 1 to X509_VALID_MAX_S.
 * ERR_NOMEM, ERR_INTERNAL: OpenSSL failed. */
int x509_make_ca(const struct certs_names *names, int64_t now, int64_t valid_s,
	struct x509_pair *ret, struct err *err);

/* Make a serving pair for these names with a new key, signed by the first certificate of ca->cert
 * with ca->key. It ends no later than its CA. The result has been verified against the CA at `now`.
 * As above, and ERR_SYNTAX: the CA's certificate or key cannot be read; ERR_CONFLICT: they do not
 * belong together; ERR_REFUSED: the CA is no CA, is not valid now, or may not sign one of the
 * names. */
int x509_make_serving(const struct x509_pair *ca, const struct certs_names *names, int64_t now,
	int64_t valid_s, struct x509_pair *ret, struct err *err);

#endif
