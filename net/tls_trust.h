/* SPDX-License-Identifier: Apache-2.0 */
/* net: which clients a server lets in by their certificates. The TLS library asks for one and has
 * it prove its key, and lets everybody pass; what they are worth is decided here, before a handler
 * sees a request. CAs and names are built, verified and then published by one swap. */
#ifndef NET_TLS_TRUST_H
#define NET_TLS_TRUST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/tls_identity.h"

/* Common names that can be listed. */
#define TLS_TRUST_NAMES_MAX 32

struct tls_trust;

/* What is in force, for logs. */
struct tls_trust_info {
	size_t certificates;
	int64_t not_after;   /* the earliest end of those that have not ended, seconds since 1970 */
	uint64_t generation; /* 1 for the first, +1 for each that is published after it; 0: none yet
			      */
};

/* Whom to let in, as was judged last; embedded in the connection, zero before use. */
struct tls_verdict {
	uint64_t generation; /* of the CAs that judged; 0: not judged yet */
	int64_t until;       /* seconds since 1970: from then on it is judged anew */
	const char *refusal; /* a literal; NULL: let in */
	char name[64]; /* the leaf's common name, cut, what is not printable as '?'; "" when there
			  is none */
};

/* Nobody is let in until a load succeeds. NULL when out of memory. */
struct tls_trust *tls_trust_new(void);

/* Free it, once no server uses it any more. NULL-safe. */
void tls_trust_free(struct tls_trust *t);

/* Read the CA certificates (PEM, in any order; also certificates that are trusted themselves) and
 * publish them together with the common names that are let in; n_names 0: whomever these CAs have
 * signed for. Names are copied. Requests from then on are judged by them, also on connections that
 * are open. On any error what is in force stays: ERR_NOTFOUND (no such file), ERR_IO, ERR_TOOBIG
 * (file, or names), ERR_SYNTAX (no PEM certificate), ERR_INVALID (all of them have expired),
 * ERR_NOMEM. The message names the file. Any thread. */
int tls_trust_load_file(struct tls_trust *t, const char *path, const char *const *names,
	size_t n_names, struct err *err);

/* As tls_trust_load_file with the bytes at hand. */
int tls_trust_load_pem(struct tls_trust *t, const struct tls_pem *ca, const char *const *names,
	size_t n_names, struct err *err);

/* What is in force. False (and all zero) before the first load. */
bool tls_trust_info(struct tls_trust *t, struct tls_trust_info *ret);

/* Why this session's client is not let in, a sentence that lives for ever; NULL: it is. After the
 * handshake. c keeps the answer until other CAs are published, the certificate ends, or a minute is
 * over. A certificate must be signed by one of the CAs, in its time, not reserved for other uses
 * than TLS clients, and its one common name among those that are let in. */
const char *tls_trust_refusal(
	struct tls_trust *t, const struct tls_session *session, struct tls_verdict *c);

#endif
