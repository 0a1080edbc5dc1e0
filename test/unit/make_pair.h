/* SPDX-License-Identifier: Apache-2.0 */
/* test: certificate pairs made on the spot. */
#ifndef TEST_UNIT_MAKE_PAIR_H
#define TEST_UNIT_MAKE_PAIR_H

#include "net/tls_identity.h"

struct made_pair {
	char cert[16384];
	char key[8192];
};

enum made_key { MADE_P256, MADE_RSA, MADE_ED25519 };

/* A self-signed pair for "localhost" (san false: without any alternative name), valid from now +
 * from_s to now + to_s. */
void make_pair(struct made_pair *ret, enum made_key kind, long from_s, long to_s, int san);

/* A CA of that common name, and a certificate that it signed for a client, P-256, valid as above;
 * "a,CN=b" are two names.
 * purpose: the extended key usage, NULL for none. */
void make_ca(struct made_pair *ret, const char *name, long from_s, long to_s);
void make_client(struct made_pair *ret, const struct made_pair *ca, const char *name,
	const char *purpose, long from_s, long to_s);

/* As a client's, but with the alternative name "localhost": a server's, when purpose says so. */
void make_server(struct made_pair *ret, const struct made_pair *ca, const char *purpose,
	long from_s, long to_s);

struct tls_pem made_cert(const struct made_pair *p);
struct tls_pem made_key(const struct made_pair *p);

/* From now on id has that pair; the test fails where it does not take it. */
void made_load(const struct made_pair *p, struct tls_identity *id);

#endif
