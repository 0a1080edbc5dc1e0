/* SPDX-License-Identifier: Apache-2.0 */
/* test: an end that the leader asks over TLS, a probe or a gate: it answers each connection once.
 */
#ifndef TEST_UNIT_TLS_END_H
#define TEST_UNIT_TLS_END_H

#include <pthread.h>
#include <stdatomic.h>

#include <gnutls/gnutls.h>

#include "certs/x509.h"

struct tls_end {
	struct x509_pair ca, pair;
	gnutls_certificate_credentials_t cred;
	int listener;
	pthread_t thread;
	char url[64];
	pthread_mutex_t lock;
	const char *answer; /* under the lock; NULL: 503 */
	char head[4096];    /* of the first request; once answered > 0 */
	char client[8192];  /* the certificate that the client showed then, PEM; "": none */
	atomic_uint answered;
};

/* At 127.0.0.1, with a certificate of its own CA; the text is borrowed. */
void tls_end_start(struct tls_end *e, const char *answer);
void tls_end_say(struct tls_end *e, const char *answer);
void tls_end_stop(struct tls_end *e);

#endif
