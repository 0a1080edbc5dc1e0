/* SPDX-License-Identifier: Apache-2.0 */
/* net: builds, verifies and publishes certificate pairs, with GnuTLS. */
#include "net/tls_identity.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/clock.h"

/* GnuTLS's own NORMAL accepts TLS 1.0, exchanges keys without forward secrecy where the certificate
 * is RSA, and signs with SHA-1 for who asks; and AES-256 before AES-128 costs 4 % more per request.
 */
const char tls_priorities[] =
	"NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA"
	":-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305:-SIGN-ECDSA-SHA1:-SIGN-RSA-SHA1"
	":-GROUP-ALL:+GROUP-X25519:+GROUP-SECP256R1:+GROUP-SECP384R1:+GROUP-SECP521R1"
	":%SERVER_PRECEDENCE";

/* A certificate made a moment ago by a machine whose clock runs ahead is not refused. */
#define CLOCK_SKEW_S 300

/* A published pair is never changed: handshakes read it without a lock. It goes with its last
 * holder. */
struct tls_pair {
	unsigned refs; /* under the identity's lock */
	unsigned ncerts;
	gnutls_pcert_st cert[TLS_CHAIN_MAX];
	gnutls_privkey_t key;
	struct tls_info info;
};

struct tls_identity {
	pthread_mutex_t lock; /* current and every pair's refs */
	struct tls_pair *current;
	uint64_t generation;
};

struct tls_identity *tls_identity_new(void)
{
	struct tls_identity *id = calloc(1, sizeof(*id));
	if (!id)
		return NULL;
	if (pthread_mutex_init(&id->lock, NULL) != 0) {
		free(id);
		return NULL;
	}
	return id;
}

static void pair_free(struct tls_pair *pair)
{
	if (!pair)
		return;
	for (unsigned i = 0; i < pair->ncerts; i++)
		gnutls_pcert_deinit(&pair->cert[i]);
	if (pair->key)
		gnutls_privkey_deinit(pair->key);
	free(pair);
}

/* Drop one hold; the caller has none of its own afterwards. */
static void pair_drop(struct tls_identity *id, struct tls_pair *pair)
{
	if (!pair)
		return;
	pthread_mutex_lock(&id->lock);
	bool last = --pair->refs == 0;
	pthread_mutex_unlock(&id->lock);
	if (last)
		pair_free(pair);
}

static struct tls_pair *pair_hold(struct tls_identity *id)
{
	pthread_mutex_lock(&id->lock);
	struct tls_pair *pair = id->current;
	if (pair)
		pair->refs++;
	pthread_mutex_unlock(&id->lock);
	return pair;
}

void tls_identity_free(struct tls_identity *id)
{
	if (!id)
		return;
	pair_drop(id, id->current);
	pthread_mutex_destroy(&id->lock);
	free(id);
}

static gnutls_datum_t datum(struct slice s)
{
	/* GnuTLS reads it only; its type has no const. */
	union {
		const char *in;
		unsigned char *out;
	} at = {s.at};
	return (gnutls_datum_t){at.out, (unsigned)s.len};
}

static int refuse_cert(const struct tls_pem *pem, int rc, struct err *err)
{
	switch (rc) {
	case GNUTLS_E_MEMORY_ERROR:
		return err_set(err, ERR_NOMEM, "out of memory while reading %s", pem->name);
	case GNUTLS_E_NO_CERTIFICATE_FOUND:
		return err_set(err, ERR_SYNTAX,
			"%s holds no PEM certificate (\"-----BEGIN CERTIFICATE-----\")", pem->name);
	case GNUTLS_E_SHORT_MEMORY_BUFFER:
		return err_set(err, ERR_TOOBIG,
			"%s holds more than %d certificates; give the leaf "
			"and its intermediates only",
			pem->name, TLS_CHAIN_MAX);
	case GNUTLS_E_CERTIFICATE_LIST_UNSORTED:
		return err_set(err, ERR_CONFLICT,
			"the certificates in %s are out of order; the server's own "
			"comes first, then each one's issuer",
			pem->name);
	default:
		return err_set(err, ERR_SYNTAX,
			"the certificates in %s cannot be read (%s); is the file complete?",
			pem->name, gnutls_strerror(rc));
	}
}

static int refuse_key(const struct tls_pem *pem, int rc, struct err *err)
{
	if (rc == GNUTLS_E_MEMORY_ERROR)
		return err_set(err, ERR_NOMEM, "out of memory while reading %s", pem->name);
	if (rc == GNUTLS_E_DECRYPTION_FAILED)
		return err_set(err, ERR_SYNTAX,
			"the private key in %s is encrypted; give it without a password",
			pem->name);
	return err_set(err, ERR_SYNTAX,
		"the private key in %s cannot be read (%s); accepted are PEM keys in PKCS#8, SEC1 "
		"or "
		"PKCS#1, not encrypted",
		pem->name, gnutls_strerror(rc));
}

/* Dates of every certificate of the chain: a client refuses the whole when one has ended. */
static int check_dates(gnutls_x509_crt_t *crt, unsigned n, const struct tls_pem *pem,
	struct tls_info *info, struct err *err)
{
	time_t now = time(NULL);
	char when[CLOCK_TEXT_SIZE];
	info->not_before = (int64_t)gnutls_x509_crt_get_activation_time(crt[0]);
	info->not_after = INT64_MAX;
	for (unsigned i = 0; i < n; i++) {
		time_t begin = gnutls_x509_crt_get_activation_time(crt[i]);
		time_t end = gnutls_x509_crt_get_expiration_time(crt[i]);
		if (begin == (time_t)-1 || end == (time_t)-1)
			return err_set(err, ERR_SYNTAX,
				"certificate %u in %s has no readable dates", i + 1, pem->name);
		if (end < now)
			return err_set(err, ERR_INVALID,
				"certificate %u in %s expired at %s; renew it", i + 1, pem->name,
				clock_text(end, when));
		if (begin > now + CLOCK_SKEW_S)
			return err_set(err, ERR_INVALID,
				"certificate %u in %s is valid only from %s; check the clocks",
				i + 1, pem->name, clock_text(begin, when));
		if ((int64_t)end < info->not_after)
			info->not_after = (int64_t)end;
	}
	return 0;
}

static void note_warnings(gnutls_x509_crt_t leaf, struct tls_info *info)
{
	unsigned bits = 0;
	int alg = gnutls_x509_crt_get_pk_algorithm(leaf, &bits);
	char name[256];
	size_t len = sizeof(name);
	/* 0..: the type of the first alternative name; too short a buffer still means that there is
	 * one. */
	int san = gnutls_x509_crt_get_subject_alt_name(leaf, 0, name, &len, NULL);
	if (san == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
		(void)snprintf(info->warning, sizeof(info->warning),
			"the certificate has no subjectAltName, so the API server will refuse it; "
			"the common "
			"name is not looked at");
	else if (alg == GNUTLS_PK_RSA || alg == GNUTLS_PK_RSA_PSS)
		(void)snprintf(info->warning, sizeof(info->warning),
			"the key is RSA (%u bits): every handshake costs five times one with ECDSA "
			"P-256, and "
			"delays the requests beside it",
			bits);
}

static int note_fingerprint(gnutls_x509_crt_t leaf, struct tls_info *info)
{
	unsigned char digest[32];
	size_t len = sizeof(digest);
	int rc = gnutls_x509_crt_get_fingerprint(leaf, GNUTLS_DIG_SHA256, digest, &len);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < len; i++)
		(void)snprintf(info->fingerprint + 2 * i, 3, "%02x", digest[i]);
	return 0;
}

/* Fill the pair's chain and what is known about it. */
static int read_chain(struct tls_pair *pair, const struct tls_pem *pem, struct err *err)
{
	gnutls_datum_t d = datum(pem->bytes);
	gnutls_x509_crt_t crt[TLS_CHAIN_MAX];
	unsigned n = TLS_CHAIN_MAX;
	int rc = gnutls_x509_crt_list_import(crt, &n, &d, GNUTLS_X509_FMT_PEM,
		GNUTLS_X509_CRT_LIST_IMPORT_FAIL_IF_EXCEED | GNUTLS_X509_CRT_LIST_FAIL_IF_UNSORTED);
	if (rc < 0)
		return refuse_cert(pem, rc, err);
	n = (unsigned)rc;
	int ret = n > 0 ? check_dates(crt, n, pem, &pair->info, err)
			: refuse_cert(pem, GNUTLS_E_NO_CERTIFICATE_FOUND, err);
	for (unsigned i = 0; i < n && ret == 0; i++) {
		rc = gnutls_pcert_import_x509(&pair->cert[i], crt[i], 0);
		if (rc < 0)
			ret = refuse_cert(pem, rc, err);
		else
			pair->ncerts = i + 1;
	}
	if (ret == 0) {
		note_warnings(crt[0], &pair->info);
		rc = note_fingerprint(crt[0], &pair->info);
		if (rc < 0)
			ret = refuse_cert(pem, rc, err);
	}
	for (unsigned i = 0; i < n; i++)
		gnutls_x509_crt_deinit(crt[i]);
	return ret;
}

static int read_key(struct tls_pair *pair, const struct tls_pem *pem, struct err *err)
{
	gnutls_datum_t d = datum(pem->bytes);
	int rc = gnutls_privkey_init(&pair->key);
	if (rc < 0) {
		pair->key = NULL;
		return refuse_key(pem, rc, err);
	}
	rc = gnutls_privkey_import_x509_raw(pair->key, &d, GNUTLS_X509_FMT_PEM, NULL, 0);
	return rc < 0 ? refuse_key(pem, rc, err) : 0;
}

/* Does the key belong to the leaf? Nothing at handshake time asks again: a wrong pair would fail
 * every client. */
static int check_match(const struct tls_pair *pair, const struct tls_pem *cert,
	const struct tls_pem *key, struct err *err)
{
	static const char probe[] = "poolgate: do these two belong together?";
	gnutls_datum_t data = datum((struct slice){probe, sizeof(probe)});
	gnutls_datum_t signature = {NULL, 0};
	int pk = gnutls_pubkey_get_pk_algorithm(pair->cert[0].pubkey, NULL);
	int rc = GNUTLS_E_CERTIFICATE_KEY_MISMATCH;
	if (pk == gnutls_privkey_get_pk_algorithm(pair->key, NULL)) {
		gnutls_digest_algorithm_t hash = GNUTLS_DIG_SHA256;
		unsigned mandatory = 0;
		rc = gnutls_pubkey_get_preferred_hash_algorithm(
			pair->cert[0].pubkey, &hash, &mandatory);
		gnutls_sign_algorithm_t sign =
			rc < 0 ? GNUTLS_SIGN_UNKNOWN
			       : gnutls_pk_to_sign((gnutls_pk_algorithm_t)pk, hash);
		if (rc >= 0)
			rc = gnutls_privkey_sign_data2(pair->key, sign, 0, &data, &signature);
		if (rc >= 0)
			rc = gnutls_pubkey_verify_data2(
				pair->cert[0].pubkey, sign, 0, &data, &signature);
		gnutls_free(signature.data);
	}
	if (rc >= 0)
		return 0;
	if (rc == GNUTLS_E_MEMORY_ERROR)
		return err_set(err, ERR_NOMEM, "out of memory while checking %s", key->name);
	if (rc == GNUTLS_E_CERTIFICATE_KEY_MISMATCH || rc == GNUTLS_E_PK_SIG_VERIFY_FAILED)
		return err_set(err, ERR_CONFLICT,
			"the key in %s is not the key of the certificate in %s", key->name,
			cert->name);
	return err_set(
		err, ERR_SYNTAX, "the key in %s cannot sign (%s)", key->name, gnutls_strerror(rc));
}

static int pair_build(const struct tls_pem *cert, const struct tls_pem *key, struct tls_pair **ret,
	struct err *err)
{
	struct tls_pair *pair = calloc(1, sizeof(*pair));
	if (!pair)
		return err_set(err, ERR_NOMEM, "out of memory while reading %s", cert->name);
	int rc = read_chain(pair, cert, err);
	if (rc == 0)
		rc = read_key(pair, key, err);
	if (rc == 0)
		rc = check_match(pair, cert, key, err);
	if (rc != 0) {
		pair_free(pair);
		return rc;
	}
	pair->refs = 1;
	*ret = pair;
	return 0;
}

/* The same certificates: the key belongs to the leaf, so it is the same too. */
static bool same_chain(const struct tls_pair *a, const struct tls_pair *b)
{
	bool same = a->ncerts == b->ncerts;
	for (unsigned i = 0; same && i < a->ncerts; i++)
		same = a->cert[i].cert.size == b->cert[i].cert.size &&
		       memcmp(a->cert[i].cert.data, b->cert[i].cert.data, a->cert[i].cert.size) ==
			       0;
	return same;
}

/* The swap. The old pair goes when its last handshake lets go of it. */
static void publish(struct tls_identity *id, struct tls_pair *pair)
{
	pthread_mutex_lock(&id->lock);
	struct tls_pair *old = id->current;
	bool same = old && same_chain(old, pair);
	if (!same) {
		pair->info.generation = ++id->generation;
		id->current = pair;
	}
	pthread_mutex_unlock(&id->lock);
	pair_drop(id, same ? pair : old);
}

int tls_identity_load_pem(struct tls_identity *id, const struct tls_pem *cert,
	const struct tls_pem *key, struct err *err)
{
	if (cert->bytes.len > TLS_FILE_MAX || key->bytes.len > TLS_FILE_MAX)
		return err_set(err, ERR_TOOBIG, "%s is larger than %d bytes",
			cert->bytes.len > TLS_FILE_MAX ? cert->name : key->name, TLS_FILE_MAX);
	struct tls_pair *pair = NULL;
	int rc = pair_build(cert, key, &pair, err);
	if (rc == 0)
		publish(id, pair);
	return rc;
}

bool tls_identity_info(struct tls_identity *id, struct tls_info *ret)
{
	*ret = (struct tls_info){0};
	struct tls_pair *pair = pair_hold(id);
	if (!pair)
		return false;
	*ret = pair->info;
	pair_drop(id, pair);
	return true;
}

static int on_finished(gnutls_session_t session, unsigned int htype, unsigned int when,
	unsigned int incoming, const gnutls_datum_t *msg)
{
	const struct tls_session *s = gnutls_db_get_ptr(session);
	(void)htype, (void)when, (void)msg;
	if (incoming && s && s->finished)
		s->finished(s->ctx);
	return 0;
}

/* GnuTLS hands a retrieve function nothing of ours but the session, and the session's one user
 * pointer is the HTTP library's. The pointer of the resumption store is free: no store is
 * installed. */
void tls_session_attach(struct tls_session *s, struct tls_identity *id, void *gnutls_session)
{
	s->identity = id;
	s->pair = NULL;
	s->handle = gnutls_session;
	gnutls_db_set_ptr(gnutls_session, s);
	/* Without names of CAs: they may change, and clients send what they have. */
	if (s->ask)
		gnutls_certificate_server_set_request(gnutls_session, GNUTLS_CERT_REQUEST);
	if (s->finished)
		gnutls_handshake_set_hook_function(
			gnutls_session, GNUTLS_HANDSHAKE_FINISHED, GNUTLS_HOOK_POST, on_finished);
}

void tls_session_detach(struct tls_session *s)
{
	if (s->identity)
		pair_drop(s->identity, s->pair);
	s->identity = NULL;
	s->pair = NULL;
	s->handle = NULL;
}

static int retrieve(gnutls_session_t session, const gnutls_datum_t *req_ca_rdn, int nreqs,
	const gnutls_pk_algorithm_t *pk_algos, int pk_algos_length, gnutls_pcert_st **ret_cert,
	unsigned int *ret_ncerts, gnutls_privkey_t *ret_key)
{
	(void)req_ca_rdn, (void)nreqs, (void)pk_algos, (void)pk_algos_length;
	struct tls_session *s = gnutls_db_get_ptr(session);
	if (!s || !s->identity)
		return -1;
	/* Asked twice in one handshake, the second answer must be the first. */
	if (!s->pair)
		s->pair = pair_hold(s->identity);
	if (!s->pair)
		return -1;
	*ret_cert = s->pair->cert;
	*ret_ncerts = s->pair->ncerts;
	*ret_key = s->pair->key;
	return 0;
}

void tls_serve_attached(void *credentials)
{
	gnutls_certificate_set_retrieve_function2(credentials, retrieve);
}

void *tls_retrieve_callback(void)
{
	/* ISO C has no cast from function to object pointer; POSIX has (dlsym), and the option is
	 * passed as one. */
	union {
		gnutls_certificate_retrieve_function2 *in;
		void *out;
	} f = {retrieve};
	return f.out;
}
