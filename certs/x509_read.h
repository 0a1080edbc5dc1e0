/* SPDX-License-Identifier: Apache-2.0 */
/* certs: reads certificates into plain facts, and checks that key, certificate and CA belong
 * together. Nothing here reads a clock or a file; every function may be called from any thread. */
#ifndef CERTS_X509_READ_H
#define CERTS_X509_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "certs/certs_names.h"

/* Certificates in one PEM text. */
#define X509_LIST_MAX 64
/* For x509_check_chain: look at no dates. */
#define X509_ANY_TIME INT64_MIN

struct x509_texts {
	const char **at;
	size_t count;
};

/* One certificate. All texts are printable ASCII: whatever else was in the certificate is escaped,
 * \XX. */
struct x509_info {
	const char *subject; /* RFC 2253: "CN=poolgate CA 3f2a9c01,O=poolgate" */
	const char *issuer;
	const char *serial;      /* hex */
	const char *key_type;    /* "ECDSA P-256", "RSA 2048", … */
	const char *fingerprint; /* SHA-256 of the DER, "AB:CD:…" */
	/* "DNS:host", "IP:10.0.0.7"; of other kinds "URI:…", "email:…", "other" */
	struct x509_texts sans;
	/* a CA's nameConstraints: "DNS:host", "IP:10.0.0.7/32", "not IP:0.0.0.0/0"; none: it may
	 * sign any name. In both lists "unreadable" stands for an extension that is there and
	 * damaged. */
	struct x509_texts may_sign;
	int64_t from; /* Unix seconds */
	int64_t until;
	bool is_ca;
	bool self_issued; /* issuer and subject are the same name */
};

/* The certificates of a PEM text, in its order. Owns everything in it. */
struct x509_list {
	struct arena arena;
	struct x509_info *info;
	size_t count;
};

/* Read all certificates of a PEM text; other PEM blocks (keys, parameters) are passed over.
 * ERR_NOTFOUND: none in it; ERR_SYNTAX: number i is damaged; ERR_TOOBIG: more than X509_LIST_MAX,
 * or over 1 MiB; ERR_NOMEM. ret is written only on success and released by the caller. */
int x509_list_read(struct slice pem, struct x509_list *ret, struct err *err);
void x509_list_release(struct x509_list *list);

/* Does the key belong to the first certificate? ERR_CONFLICT: no; ERR_SYNTAX, ERR_INVALID: one
 * cannot be read. */
int x509_check_pair(struct slice cert_pem, struct slice key_pem, struct err *err);

/* Would a TLS client that trusts ca_pem (one or several certificates) accept the first certificate
 * of cert_pem as a server's at `now`, the others of cert_pem being intermediates? Signatures,
 * dates, usages, name constraints; not whether a certain name is in it. ERR_REFUSED: no, with
 * OpenSSL's reason; ERR_SYNTAX, ERR_NOTFOUND: unreadable. */
int x509_check_chain(struct slice ca_pem, struct slice cert_pem, int64_t now, struct err *err);

/* The SANs of the first certificate. ERR_NOTFOUND: it has none; ERR_INVALID: one that certs_names
 * does not take. */
int x509_names_read(struct slice cert_pem, struct certs_names *ret, struct err *err);

#endif
