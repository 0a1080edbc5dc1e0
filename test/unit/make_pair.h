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

/* A self-signed pair for "localhost" (san false: without any alternative name), valid from now + from_s to now + to_s. */
void make_pair(struct made_pair *ret, enum made_key kind, long from_s, long to_s, int san);

struct tls_pem made_cert(const struct made_pair *p);
struct tls_pem made_key(const struct made_pair *p);

#endif
