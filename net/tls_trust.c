/* SPDX-License-Identifier: Apache-2.0 */
/* net: judges clients' certificates. With GnuTLS, as tls_identity.c. */
#include "net/tls_trust.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/text.h"

/* An answer is believed so long. */
#define BELIEVED_S 60
#define NAME_SIZE 256

/* Never changed once it is published; goes with its last holder. */
struct trust_set {
	unsigned refs; /* under the trust's lock */
	gnutls_x509_trust_list_t list;
	char names[TLS_TRUST_NAMES_MAX][NAME_SIZE];
	size_t n_names;
	uint64_t hash; /* of all that was given */
	struct tls_trust_info info;
};

struct tls_trust {
	pthread_mutex_t lock; /* current and every set's refs */
	struct trust_set *current;
	uint64_t generation;
};

struct tls_trust *tls_trust_new(void)
{
	struct tls_trust *t = calloc(1, sizeof(*t));

	if (t && pthread_mutex_init(&t->lock, NULL) != 0) {
		free(t);
		return NULL;
	}
	return t;
}

static void set_free(struct trust_set *set)
{
	if (set && set->list)
		gnutls_x509_trust_list_deinit(set->list, 1);
	free(set);
}

static void set_drop(struct tls_trust *t, struct trust_set *set)
{
	if (!set)
		return;
	pthread_mutex_lock(&t->lock);
	bool last = --set->refs == 0;
	pthread_mutex_unlock(&t->lock);
	if (last)
		set_free(set);
}

static struct trust_set *set_hold(struct tls_trust *t)
{
	pthread_mutex_lock(&t->lock);
	struct trust_set *set = t->current;
	if (set)
		set->refs++;
	pthread_mutex_unlock(&t->lock);
	return set;
}

void tls_trust_free(struct tls_trust *t)
{
	if (!t)
		return;
	set_drop(t, t->current);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

/* ---- load ---- */

static int out_of_memory(const struct tls_pem *ca, struct err *err)
{
	return err_set(err, ERR_NOMEM, "out of memory while reading %s", ca->name);
}

static int copy_names(struct trust_set *set, const char *const *names, size_t n, struct err *err)
{
	if (n > TLS_TRUST_NAMES_MAX)
		return err_set(err, ERR_TOOBIG, "%zu names of clients, expected at most %d", n,
			TLS_TRUST_NAMES_MAX);
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(names[i]);

		if (len == 0 || len >= NAME_SIZE)
			return err_set(err, ERR_TOOBIG,
				"found a client's name of %zu bytes, expected 1 to %d", len,
				NAME_SIZE - 1);
		memcpy(set->names[i], names[i], len + 1);
		set->hash = set->hash * 31 + text_hash64(slice_of(names[i]));
	}
	set->n_names = n;
	return 0;
}

/* At least one must be good for something: else nobody could come in, and nobody would know why. */
static int note_dates(struct trust_set *set, const gnutls_x509_crt_t *crt, unsigned n,
	const struct tls_pem *ca, struct err *err)
{
	time_t now = time(NULL);

	set->info.certificates = n;
	for (unsigned i = 0; i < n; i++) {
		int64_t end = (int64_t)gnutls_x509_crt_get_expiration_time(crt[i]);

		if (end > (int64_t)now && (set->info.not_after == 0 || end < set->info.not_after))
			set->info.not_after = end;
	}
	return set->info.not_after
		       ? 0
		       : err_set(err, ERR_INVALID, "every certificate in %s has expired", ca->name);
}

static int read_cas(struct trust_set *set, const struct tls_pem *ca, struct err *err)
{
	union { /* GnuTLS reads it only; its type has no const */
		const char *in;
		unsigned char *out;
	} at = {ca->bytes.at};
	gnutls_datum_t d = {at.out, (unsigned)ca->bytes.len};
	gnutls_x509_crt_t *crt = NULL;
	unsigned n = 0;
	int rc = gnutls_x509_trust_list_init(&set->list, 0);

	if (rc < 0) {
		set->list = NULL;
		return out_of_memory(ca, err);
	}
	rc = gnutls_x509_crt_list_import2(&crt, &n, &d, GNUTLS_X509_FMT_PEM, 0);
	if (rc == GNUTLS_E_MEMORY_ERROR)
		return out_of_memory(ca, err);
	if (rc < 0 || n == 0)
		return err_set(err, ERR_SYNTAX,
			"%s holds no PEM certificates that can be read (%s)", ca->name,
			rc < 0 ? gnutls_strerror(rc) : "there are none");
	rc = note_dates(set, crt, n, ca, err);
	/* The list owns those that it took, all of them. */
	unsigned taken = 0;
	if (rc == 0) {
		int added = gnutls_x509_trust_list_add_cas(set->list, crt, n, 0);

		taken = added > 0 ? (unsigned)added : 0;
		if (taken < n)
			rc = out_of_memory(ca, err);
	}
	for (unsigned i = taken; i < n; i++)
		gnutls_x509_crt_deinit(crt[i]);
	gnutls_free(crt);
	return rc;
}

static void publish(struct tls_trust *t, struct trust_set *set)
{
	pthread_mutex_lock(&t->lock);
	struct trust_set *old = t->current;
	bool same = old && old->hash == set->hash;
	if (!same) {
		set->info.generation = ++t->generation;
		t->current = set;
	}
	pthread_mutex_unlock(&t->lock);
	set_drop(t, same ? set : old);
}

int tls_trust_load_pem(struct tls_trust *t, const struct tls_pem *ca, const char *const *names,
	size_t n_names, struct err *err)
{
	struct trust_set *set;
	int rc;

	if (ca->bytes.len > TLS_FILE_MAX)
		return err_set(
			err, ERR_TOOBIG, "%s is larger than %d bytes", ca->name, TLS_FILE_MAX);
	set = calloc(1, sizeof(*set));
	if (!set)
		return out_of_memory(ca, err);
	set->refs = 1;
	set->hash = text_hash64(ca->bytes);
	rc = copy_names(set, names, n_names, err);
	if (rc == 0)
		rc = read_cas(set, ca, err);
	if (rc != 0) {
		set_free(set);
		return rc;
	}
	publish(t, set);
	return 0;
}

bool tls_trust_info(struct tls_trust *t, struct tls_trust_info *ret)
{
	struct trust_set *set = set_hold(t);

	*ret = (struct tls_trust_info){0};
	if (!set)
		return false;
	*ret = set->info;
	set_drop(t, set);
	return true;
}

/* ---- judge ---- */

static const char *reason_of(unsigned status)
{
	if (status & GNUTLS_CERT_EXPIRED)
		return "the client certificate, or one of its issuers, has expired";
	if (status & GNUTLS_CERT_NOT_ACTIVATED)
		return "the client certificate is not valid yet";
	if (status & GNUTLS_CERT_PURPOSE_MISMATCH)
		return "the certificate is not one for TLS clients (extended key usage)";
	if (status & (GNUTLS_CERT_SIGNER_NOT_FOUND | GNUTLS_CERT_SIGNER_NOT_CA))
		return "the client certificate is of no CA that is trusted here";
	return "the client certificate cannot be verified";
}

/* The leaf's common name: for people into c, and whether it is the only one, among those that are
 * let in. A NUL within it is no end. */
static bool name_fits(const struct trust_set *set, gnutls_x509_crt_t leaf, struct tls_verdict *c)
{
	char name[NAME_SIZE];
	size_t len = sizeof(name), none = 0;
	int rc = gnutls_x509_crt_get_dn_by_oid(leaf, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name, &len);
	bool one = gnutls_x509_crt_get_dn_by_oid(leaf, GNUTLS_OID_X520_COMMON_NAME, 1, 0, NULL,
			   &none) == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE;

	for (size_t i = 0; rc == 0 && i < len && i + 1 < sizeof(c->name); i++)
		c->name[i] = name[i] >= ' ' && name[i] <= '~' ? name[i] : '?';
	if (set->n_names == 0)
		return true;
	for (size_t i = 0; rc == 0 && one && i < set->n_names; i++)
		if (slice_eq((struct slice){name, len}, slice_of(set->names[i])))
			return true;
	return false;
}

static const char *judge_chain(
	const struct trust_set *set, gnutls_x509_crt_t *crt, unsigned n, struct tls_verdict *c)
{
	static const char purpose[] = GNUTLS_KP_TLS_WWW_CLIENT;
	union { /* read only, as above */
		const char *in;
		unsigned char *out;
	} at = {purpose};
	gnutls_typed_vdata_st wanted = {.type = GNUTLS_DT_KEY_PURPOSE_OID, .data = at.out};
	bool fits = name_fits(set, crt[0], c);
	unsigned status = GNUTLS_CERT_INVALID;

	for (unsigned i = 0; i < n; i++) {
		int64_t end = (int64_t)gnutls_x509_crt_get_expiration_time(crt[i]);

		if (end < c->until)
			c->until = end;
	}
	if (gnutls_x509_trust_list_verify_crt2(set->list, crt, n, &wanted, 1, 0, &status, NULL) < 0)
		return "the client certificate cannot be verified";
	if (status != 0)
		return reason_of(status);
	return fits ? NULL : "the client certificate's common name is not one that is let in";
}

static const char *judge(
	const struct trust_set *set, gnutls_session_t session, struct tls_verdict *c)
{
	gnutls_x509_crt_t crt[TLS_CHAIN_MAX];
	unsigned sent = 0, n = 0;
	const gnutls_datum_t *raw = gnutls_certificate_get_peers(session, &sent);
	const char *refusal = NULL;

	if (!raw || sent == 0)
		return "a client certificate is asked for";
	if (sent > TLS_CHAIN_MAX)
		return "the client certificate has too many issuers with it";
	for (; n < sent && !refusal; n++) {
		if (gnutls_x509_crt_init(&crt[n]) < 0) {
			refusal = "the client certificate cannot be verified";
			break;
		}
		if (gnutls_x509_crt_import(crt[n], &raw[n], GNUTLS_X509_FMT_DER) < 0)
			refusal = "the client certificate cannot be read";
	}
	if (!refusal)
		refusal = judge_chain(set, crt, n, c);
	for (unsigned i = 0; i < n; i++)
		gnutls_x509_crt_deinit(crt[i]);
	return refusal;
}

const char *tls_trust_refusal(
	struct tls_trust *t, const struct tls_session *session, struct tls_verdict *c)
{
	int64_t now = (int64_t)time(NULL);
	struct trust_set *set = set_hold(t);

	if (!set)
		return c->refusal = "no client is trusted here yet";
	if (c->generation != set->info.generation || now >= c->until ||
		now < c->until - BELIEVED_S) {
		*c = (struct tls_verdict){
			.generation = set->info.generation, .until = now + BELIEVED_S};
		c->refusal = session->handle ? judge(set, session->handle, c)
					     : "a client certificate is asked for";
	}
	set_drop(t, set);
	return c->refusal;
}
