/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: certificate and key bytes of a reload. Whatever they are, a pair that was in force and good
 * stays in force, or is followed by another good one. No key lies in the corpus: a pair is made at
 * the start, and inputs of the second kind are edits of it, so that deep places are reached too. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem */
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "net/tls_identity.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

/* Between certificate and key in an input of the first kind. */
static const char separator[] = "\n--\n";

static struct tls_identity *identity;
static char good_cert[8192], good_key[4096];
static gnutls_session_t session;
static gnutls_certificate_retrieve_function2 *retrieve;

static void must(int ok)
{
	if (!ok)
		abort();
}

static void load_good(void)
{
	struct tls_pem cert = {slice_of(good_cert), "tls.crt"},
		       key = {slice_of(good_key), "tls.key"};
	must(tls_identity_load_pem(identity, &cert, &key, NULL) == 0);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	gnutls_x509_privkey_t key;
	gnutls_x509_crt_t crt;
	size_t len = sizeof(good_cert) - 1;
	void *callback = tls_retrieve_callback();
	memcpy(&retrieve, &callback, sizeof(retrieve));
	must(gnutls_x509_privkey_init(&key) == 0);
	must(gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
		     GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0) == 0);
	must(gnutls_x509_crt_init(&crt) == 0);
	must(gnutls_x509_crt_set_version(crt, 3) == 0);
	must(gnutls_x509_crt_set_dn(crt, "CN=fuzz", NULL) == 0);
	must(gnutls_x509_crt_set_key(crt, key) == 0);
	must(gnutls_x509_crt_set_serial(crt, "\1", 1) == 0);
	must(gnutls_x509_crt_set_activation_time(crt, time(NULL) - 60) == 0);
	must(gnutls_x509_crt_set_expiration_time(crt, time(NULL) + 864000) == 0);
	must(gnutls_x509_crt_sign2(crt, crt, key, GNUTLS_DIG_SHA256, 0) == 0);
	must(gnutls_x509_crt_export(crt, GNUTLS_X509_FMT_PEM, good_cert, &len) == 0);
	len = sizeof(good_key) - 1;
	must(gnutls_x509_privkey_export_pkcs8(
		     key, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN, good_key, &len) == 0);
	gnutls_x509_crt_deinit(crt);
	gnutls_x509_privkey_deinit(key);
	must(gnutls_init(&session, GNUTLS_SERVER) == 0);
	identity = tls_identity_new();
	must(identity != NULL);
	load_good();
	return 0;
}

/* Edits of three bytes each: a place in the text (cert, then key) and what to write there; a place
 * beyond the end cuts. */
static void edit(char *text, size_t len, const unsigned char *data, size_t size)
{
	for (; size >= 3; data += 3, size -= 3) {
		size_t at = ((size_t)data[0] << 8 | data[1]) % (len + 64);
		if (at < len)
			text[at] = (char)data[2];
		else
			text[data[2] % len] = '\0';
	}
}

static int load_edited(const unsigned char *data, size_t size, struct err *err)
{
	char *cert = strdup(good_cert), *key = strdup(good_key);
	must(cert && key);
	size_t half = size / 2;
	edit(cert, strlen(good_cert), data, half);
	edit(key, strlen(good_key), data + half, size - half);
	struct tls_pem c = {slice_of(cert), "tls.crt"}, k = {slice_of(key), "tls.key"};
	int rc = tls_identity_load_pem(identity, &c, &k, err);
	free(cert);
	free(key);
	return rc;
}

static int load_raw(const unsigned char *data, size_t size, struct err *err)
{
	const char *text = (const char *)data;
	const char *cut = memmem(data, size, separator, sizeof(separator) - 1);
	size_t len = cut ? (size_t)(cut - text) : size / 2;
	size_t skip = cut ? sizeof(separator) - 1 : 0;
	struct tls_pem c = {{text, len}, "tls.crt"},
		       k = {{text + len + skip, size - len - skip}, "tls.key"};
	return tls_identity_load_pem(identity, &c, &k, err);
}

/* What a handshake would be given must be one pair. */
static void check_in_force(void)
{
	struct tls_session s = {0};
	gnutls_pcert_st *cert = NULL;
	gnutls_privkey_t key = NULL;
	gnutls_datum_t data = {(unsigned char *)good_key, 32}, signature = {NULL, 0};
	unsigned n = 0;
	tls_session_attach(&s, identity, session);
	must(retrieve(session, NULL, 0, NULL, 0, &cert, &n, &key) == 0 && n > 0);
	if (gnutls_privkey_get_pk_algorithm(key, NULL) == GNUTLS_PK_ECDSA) {
		must(gnutls_privkey_sign_data(key, GNUTLS_DIG_SHA256, 0, &data, &signature) == 0);
		must(gnutls_pubkey_verify_data2(
			     cert[0].pubkey, GNUTLS_SIGN_ECDSA_SHA256, 0, &data, &signature) >= 0);
		gnutls_free(signature.data);
	}
	tls_session_detach(&s);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	struct err err = {0};
	struct tls_info before, after;
	must(tls_identity_info(identity, &before));
	int rc = size > 0 && data[0] == 'E' ? load_edited(data + 1, size - 1, &err)
					    : load_raw(data, size, &err);
	must(tls_identity_info(identity, &after));
	if (rc != 0) {
		must(rc == (int)err.code && err.msg[0] != '\0');
		must(memcmp(&before, &after, sizeof(before)) == 0);
	} else if (after.generation != before.generation) {
		must(after.not_after >= (int64_t)time(NULL) - 1);
		check_in_force();
		load_good();
	}
	return 0;
}
