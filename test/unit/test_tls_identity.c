/* SPDX-License-Identifier: Apache-2.0 */
/* test: certificate pairs: what is accepted, what is refused, and that a refused one leaves the old
 * in force. */
#include <sys/stat.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "test/unit/make_pair.h"
#include "test/unit/test.h"

static struct made_pair good, other, rsa, ed, expired, future, skewed, no_san;

FIXTURE(make_all)
{
	make_pair(&good, MADE_P256, -60, 86400, 1);
	make_pair(&other, MADE_P256, -60, 2 * 86400, 1);
	make_pair(&rsa, MADE_RSA, -60, 86400, 1);
	make_pair(&ed, MADE_ED25519, -60, 86400, 1);
	make_pair(&expired, MADE_P256, -86400, -60, 1);
	make_pair(&future, MADE_P256, 3600, 86400, 1);
	make_pair(&skewed, MADE_P256, 120, 86400, 1);
	make_pair(&no_san, MADE_P256, -60, 86400, 0);
	return 0;
}

static int load(struct tls_identity *id, const char *cert, const char *key, struct err *err)
{
	struct tls_pem c = {slice_of(cert), "tls.crt"}, k = {slice_of(key), "tls.key"};
	err_clear(err);
	return tls_identity_load_pem(id, &c, &k, err);
}

TEST(accepts)
{
	const struct {
		const struct made_pair *pair;
		const char *warning; /* a part of it, or "" for none */
	} cases[] = {
		{&good, ""},
		{&rsa, "RSA"},
		{&ed, ""},
		{&skewed, ""},
		{&no_san, "subjectAltName"},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct tls_identity *id = tls_identity_new();
		struct tls_info info;
		struct err err;
		assert_non_null(id);
		assert_false(tls_identity_info(id, &info));
		assert_int_equal(info.generation, 0);
		assert_int_equal(load(id, cases[i].pair->cert, cases[i].pair->key, &err), 0);
		assert_true(tls_identity_info(id, &info));
		assert_int_equal(info.generation, 1);
		assert_int_equal(strlen(info.fingerprint), 64);
		assert_true(info.not_before < info.not_after);
		if (cases[i].warning[0])
			assert_non_null(strstr(info.warning, cases[i].warning));
		else
			assert_string_equal(info.warning, "");
		tls_identity_free(id);
	}
	tls_identity_free(NULL);
}

static void text_join(char *ret, size_t size, const char *a, const char *b)
{
	assert_true((size_t)snprintf(ret, size, "%s%s", a, b) < size);
}

TEST(refuses_and_keeps)
{
	static char torn_cert[16384], torn_key[8192], chain[32768], swapped[32768], many[400000];
	text_join(torn_cert, sizeof(torn_cert), good.cert, "");
	torn_cert[strlen(torn_cert) / 2] = '\0';
	text_join(torn_key, sizeof(torn_key), good.key, "");
	torn_key[strlen(torn_key) / 2] = '\0';
	text_join(chain, sizeof(chain), good.cert, other.cert);
	text_join(swapped, sizeof(swapped), good.cert, torn_cert);
	many[0] = '\0';
	for (int i = 0; i <= TLS_CHAIN_MAX; i++)
		strncat(many, good.cert, sizeof(many) - strlen(many) - 1);
	const struct {
		const char *cert, *key;
		int code;
		const char *says;
	} cases[] = {
		{other.cert, good.key, ERR_CONFLICT, "not the key of"},
		{rsa.cert, good.key, ERR_CONFLICT, "not the key of"},
		{good.cert, rsa.key, ERR_CONFLICT, "not the key of"},
		{expired.cert, expired.key, ERR_INVALID, "expired at 20"},
		{future.cert, future.key, ERR_INVALID, "valid only from 20"},
		{torn_cert, good.key, ERR_SYNTAX, "tls.crt"},
		{good.cert, torn_key, ERR_SYNTAX, "tls.key"}, {"", good.key, ERR_SYNTAX, "tls.crt"},
		{good.cert, "", ERR_SYNTAX, "tls.key"},
		{"no certificate\n", good.key, ERR_SYNTAX, "tls.crt"},
		{good.key, good.cert, ERR_SYNTAX, "tls.crt"},
		{good.cert, good.cert, ERR_SYNTAX, "tls.key"},
		{chain, good.key, ERR_CONFLICT, "out of order"},
		{swapped, good.key, ERR_SYNTAX, "tls.crt"},
		{many, good.key, 0, NULL}, /* too many, or unsorted: refused either way */
	};
	struct tls_identity *id = tls_identity_new();
	struct tls_info before, after;
	struct err err;
	assert_int_equal(load(id, good.cert, good.key, &err), 0);
	assert_true(tls_identity_info(id, &before));
	for (size_t i = 0; i < COUNT(cases); i++) {
		int rc = load(id, cases[i].cert, cases[i].key, &err);
		if (cases[i].says && (rc != cases[i].code || !strstr(err.msg, cases[i].says)))
			fail_msg("case %zu: %d %s", i, rc, err.msg);
		assert_true(rc < 0);
		assert_int_equal(err.code, rc);
		assert_true(tls_identity_info(id, &after));
		assert_memory_equal(&before, &after, sizeof(before));
	}
	tls_identity_free(id);
}

TEST(publishes_only_what_is_new)
{
	struct tls_identity *id = tls_identity_new();
	struct tls_info one, two;
	struct err err;
	assert_int_equal(load(id, good.cert, good.key, &err), 0);
	assert_int_equal(load(id, good.cert, good.key, &err), 0);
	assert_true(tls_identity_info(id, &one));
	assert_int_equal(one.generation, 1);
	assert_int_equal(load(id, other.cert, other.key, &err), 0);
	assert_true(tls_identity_info(id, &two));
	assert_int_equal(two.generation, 2);
	assert_string_not_equal(one.fingerprint, two.fingerprint);
	assert_true(two.not_after > one.not_after);
	tls_identity_free(id);
}

TEST(too_big)
{
	struct tls_identity *id = tls_identity_new();
	char *big = calloc(1, TLS_FILE_MAX + 2), *most;
	struct err err = {0};
	assert_non_null(big);
	memset(big, '\n', TLS_FILE_MAX + 1);
	assert_int_equal(load(id, big, good.key, &err), ERR_TOOBIG);
	assert_non_null(strstr(err.msg, "tls.crt"));
	assert_int_equal(load(id, good.cert, big, &err), ERR_TOOBIG);
	assert_non_null(strstr(err.msg, "tls.key"));
	/* beside what is just as large as may be */
	memcpy(big, good.cert, strlen(good.cert));
	big[TLS_FILE_MAX] = '\0';
	most = strdup(big);
	assert_non_null(most);
	big[TLS_FILE_MAX] = '\n';
	assert_int_equal(load(id, most, big, &err), ERR_TOOBIG);
	assert_non_null(strstr(err.msg, "tls.key"));
	free(most);
	free(big);
	tls_identity_free(id);
}

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* The text with empty lines behind it, `size` bytes in all. */
static void put_padded(const char *path, const char *text, size_t size)
{
	char *bytes = malloc(size + 1);

	assert_non_null(bytes);
	memset(bytes, '\n', size);
	bytes[size] = '\0';
	memcpy(bytes, text, strlen(text));
	put(path, bytes);
	free(bytes);
}

TEST(files)
{
	char dir[] = "/tmp/tls_identity.XXXXXX", cert[64], key[64], none[64], fifo[64];
	struct tls_info info;
	struct err err = {0};
	struct tls_identity *id = tls_identity_new();
	assert_non_null(mkdtemp(dir));
	(void)snprintf(cert, sizeof(cert), "%s/tls.crt", dir);
	(void)snprintf(key, sizeof(key), "%s/tls.key", dir);
	(void)snprintf(none, sizeof(none), "%s/none", dir);
	(void)snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	put(cert, good.cert);
	put(key, good.key);
	assert_int_equal(tls_identity_load_files(id, cert, key, &err), 0);
	assert_int_equal(tls_identity_load_files(id, none, key, &err), ERR_NOTFOUND);
	assert_non_null(strstr(err.msg, none));
	assert_int_equal(tls_identity_load_files(id, cert, none, &err), ERR_NOTFOUND);
	assert_int_equal(tls_identity_load_files(id, dir, key, &err), ERR_IO);
	assert_int_equal(tls_identity_load_files(id, fifo, key, &err), ERR_IO);
	/* As large as may be, and a byte larger. */
	put_padded(cert, good.cert, TLS_FILE_MAX);
	assert_int_equal(tls_identity_load_files(id, cert, key, &err), 0);
	put_padded(cert, good.cert, TLS_FILE_MAX + 1);
	assert_int_equal(tls_identity_load_files(id, cert, key, &err), ERR_TOOBIG);
	assert_non_null(strstr(err.msg, cert));
	put(cert, good.cert);
	assert_int_equal(tls_identity_load_files(id, cert, key, &err), 0);
	/* The moment between two writes: a new certificate beside the old key. */
	put(cert, other.cert);
	assert_int_equal(tls_identity_load_files(id, cert, key, &err), ERR_CONFLICT);
	assert_non_null(strstr(err.msg, cert));
	assert_non_null(strstr(err.msg, key));
	assert_true(tls_identity_info(id, &info));
	assert_int_equal(info.generation, 1);
	put(key, other.key);
	assert_int_equal(tls_identity_load_files(id, cert, key, &err), 0);
	assert_true(tls_identity_info(id, &info));
	assert_int_equal(info.generation, 2);
	(void)unlink(cert), (void)unlink(key), (void)unlink(fifo), (void)rmdir(dir);
	tls_identity_free(id);
}

/* The callback as GnuTLS would call it: a session keeps its pair over a swap, a later one gets the
 * new pair. */
TEST(sessions_keep_their_pair)
{
	gnutls_certificate_retrieve_function2 *retrieve;
	void *callback = tls_retrieve_callback();
	memcpy(&retrieve, &callback, sizeof(retrieve));
	gnutls_session_t handle[3];
	struct tls_session s[2] = {{0}, {0}};
	gnutls_pcert_st *cert[2];
	gnutls_privkey_t key[2];
	unsigned n = 0;
	struct err err;
	struct tls_identity *id = tls_identity_new();
	for (int i = 0; i < 3; i++)
		assert_int_equal(gnutls_init(&handle[i], GNUTLS_SERVER), 0);
	tls_session_attach(&s[0], id, handle[0]);
	tls_session_attach(&s[1], id, handle[1]);
	assert_true(retrieve(handle[0], NULL, 0, NULL, 0, &cert[0], &n, &key[0]) <
		    0); /* nothing loaded */
	assert_true(retrieve(handle[2], NULL, 0, NULL, 0, &cert[0], &n, &key[0]) <
		    0); /* not attached */
	assert_int_equal(load(id, good.cert, good.key, &err), 0);
	assert_int_equal(retrieve(handle[0], NULL, 0, NULL, 0, &cert[0], &n, &key[0]), 0);
	assert_int_equal(n, 1);
	assert_int_equal(load(id, other.cert, other.key, &err), 0);
	assert_int_equal(retrieve(handle[0], NULL, 0, NULL, 0, &cert[1], &n, &key[1]), 0);
	assert_ptr_equal(cert[0], cert[1]);
	assert_int_equal(retrieve(handle[1], NULL, 0, NULL, 0, &cert[1], &n, &key[1]), 0);
	assert_ptr_not_equal(cert[0], cert[1]);
	assert_true(cert[0]->cert.size > 0);
	tls_session_detach(&s[0]);
	tls_session_detach(&s[0]);
	tls_session_detach(&s[1]);
	for (int i = 0; i < 3; i++)
		gnutls_deinit(handle[i]);
	tls_identity_free(id);
}

TESTS_WITHIN(make_all, NULL, accepts, refuses_and_keeps, publishes_only_what_is_new, too_big, files,
	sessions_keep_their_pair)
