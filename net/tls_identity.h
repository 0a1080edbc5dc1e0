/* SPDX-License-Identifier: Apache-2.0 */
/* net: the server's certificate and key. Built, verified and then published by one pointer swap
 * while handshakes run. GnuTLS is known to net/ alone; its handles cross this header as void
 * pointers. */
#ifndef NET_TLS_IDENTITY_H
#define NET_TLS_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

/* What one file may weigh; a chain of a few certificates has about 8 KB. */
#define TLS_FILE_MAX (1024 * 1024)
/* Certificates in one chain, leaf included. */
#define TLS_CHAIN_MAX 16

struct tls_identity;
struct tls_pair;

/* TLS 1.3 and 1.2, AES-128-GCM first (the cheapest per byte on CPUs with AES), then AES-256-GCM and
 * ChaCha20. X25519 first: clients offer it with their first message; to any other group most of
 * them would be asked to begin again, which costs a round trip and a quarter of the handshake's
 * time. */
extern const char tls_priorities[];

/* What is in force, for logs, metrics and `/readyz`. */
struct tls_info {
	int64_t not_before;  /* the leaf's, seconds since 1970 */
	int64_t not_after;   /* the earliest end in the chain, seconds since 1970 */
	uint64_t generation; /* 1 for the first pair, +1 for each published after it; 0: none yet */
	char fingerprint[65]; /* SHA-256 of the leaf's DER, lower-case hex */
	char warning[256];    /* what works but should be changed (RSA key, no SAN), or "" */
};

/* An identity without a certificate: handshakes fail until a load succeeds. NULL when out of
 * memory. */
struct tls_identity *tls_identity_new(void);

/* Free it. Only after every session that was attached has been detached (http_server_stop does
 * that). NULL-safe. */
void tls_identity_free(struct tls_identity *id);

/* Read both PEM files, build and verify the pair, publish it. The chain has its leaf first and each
 * next certificate issues the one before it; the key is PKCS#8, SEC1 or PKCS#1, not encrypted.
 * Handshakes that begin afterwards get the new pair, running ones finish with the old. On any error
 * the pair in force stays: ERR_NOTFOUND (no such file), ERR_IO, ERR_TOOBIG, ERR_SYNTAX (torn, not
 * PEM, encrypted), ERR_CONFLICT (the key is another certificate's, or the chain is out of order),
 * ERR_INVALID (expired, or valid only later than 5 minutes from now), ERR_NOMEM. The message names
 * the file. Any thread; handshakes may run. A pair equal to the one in force is not published
 * again. */
int tls_identity_load_files(
	struct tls_identity *id, const char *cert_path, const char *key_path, struct err *err);

/* PEM bytes, and the name they go by in messages: a path, or "Secret poolgate/serving, tls.crt". */
struct tls_pem {
	struct slice bytes;
	const char *name;
};

/* As tls_identity_load_files with the bytes at hand. Nothing is borrowed afterwards. */
int tls_identity_load_pem(struct tls_identity *id, const struct tls_pem *cert,
	const struct tls_pem *key, struct err *err);

/* What is in force. False (and all zero) before the first pair. */
bool tls_identity_info(struct tls_identity *id, struct tls_info *ret);

/* One TLS session's hold on the identity; embedded in the connection, zero before use. */
struct tls_session {
	struct tls_identity *identity;
	struct tls_pair *pair; /* what this session's handshake was given */
	/* Called once the client has finished its handshake, in the thread that reads; NULL: nobody
	 * asks. Set before the attach. */
	void (*finished)(void *ctx);
	void *ctx;
	bool ask; /* the client for a certificate, which it need not show: see net/tls_trust.h. Set
		     before the attach */
	void *handle; /* the gnutls_session_t, from the attach to the detach */
};

/* Tie a gnutls_session_t (as void *) to the identity before its handshake begins. s must live until
 * tls_session_detach. */
void tls_session_attach(struct tls_session *s, struct tls_identity *id, void *gnutls_session);

/* Let go of the pair. After the handshake at the earliest; the session must not begin another. Zero
 * s is fine. */
void tls_session_detach(struct tls_session *s);

/* Have a gnutls_certificate_credentials_t (as void *) serve attached sessions. */
void tls_serve_attached(void *credentials);

/* The gnutls_certificate_retrieve_function2 that serves attached sessions, for
 * MHD_OPTION_HTTPS_CERT_CALLBACK. */
void *tls_retrieve_callback(void);

#endif
