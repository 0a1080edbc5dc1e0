/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: every replica's serving pair out of a Secret: a watch, and a look every 20 s. */
#include "webhook/cluster/secrets/tls_secret.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "certs/certs_files.h"
#include "kube/kube_watch.h"
#include "webhook/cluster/duty/duty.h"
#include "webhook/cluster/secrets/secret_data.h"
#include "webhook/edge/metrics/metrics.h"

#define LOOK_EVERY_MS 20000
#define PATH_MAX_BYTES 1024
#define NAME_MAX_BYTES 400

struct tls_secret {
	struct tls_secret_config cfg;
	struct duty *look;
	struct kube_watch *watch;
	char cert_name[NAME_MAX_BYTES], key_name[NAME_MAX_BYTES]; /* for messages */
	enum err_code look_failed; /* of the last look; for its thread alone */
	pthread_mutex_t lock;
	/* Guarded by lock: */
	uint64_t version; /* of the last that was loaded or refused */
	bool older;       /* the last look showed an older one than that */
	bool refused;     /* it could not be used */
};

static void note_failure(struct tls_secret *t, const struct err *err)
{
	metric_reloaded(t->cfg.metrics, WHAT_CERTIFICATE, false);
	log_line(t->cfg.log, LOG_LEVEL_ERROR, "certificate cannot be used, the one before stays",
		log_str("secret", t->cfg.name), log_str("error", err->msg));
}

static void note_success(struct tls_secret *t, uint64_t generation_before)
{
	struct tls_info info;

	metric_reloaded(t->cfg.metrics, WHAT_CERTIFICATE, true);
	if (!tls_identity_info(t->cfg.identity, &info))
		return;
	metric_set(t->cfg.metrics, M_CERT_NOT_AFTER, 0, 0, info.not_after);
	if (info.generation == generation_before)
		return;
	log_line(t->cfg.log, LOG_LEVEL_INFO, "certificate in force", log_str("secret", t->cfg.name),
		log_str("sha256", info.fingerprint), log_int("not_after", info.not_after));
	if (info.warning[0])
		log_line(t->cfg.log, LOG_LEVEL_WARN, "certificate",
			log_str("warning", info.warning));
}

static void load(struct tls_secret *t, const struct json *j, const struct json_node *secret,
	bool tried_before)
{
	struct buf cert, key;
	struct err err = {0};
	struct tls_info before;
	int rc;

	tls_identity_info(t->cfg.identity, &before);
	buf_init(&cert, TLS_FILE_MAX);
	buf_init(&key, TLS_FILE_MAX);
	rc = secret_value(j, secret, "tls.crt", &cert, &err);
	if (rc == 0)
		rc = secret_value(j, secret, "tls.key", &key, &err);
	if (rc == 0) {
		struct tls_pem c = {buf_as_slice(&cert), t->cert_name};
		struct tls_pem k = {buf_as_slice(&key), t->key_name};

		rc = tls_identity_load_pem(t->cfg.identity, &c, &k, &err);
	}
	if (rc == 0)
		note_success(t, before.generation);
	else if (!tried_before)
		note_failure(t, &err);
	t->refused = rc != 0;
	buf_release(&cert);
	certs_files_wipe(&key);
}

/* A look and the watch overtake each other, so the higher version counts. Only when two looks in a
 * row show an older one is that the truth: the cluster's data were restored. Called with the lock
 * held. */
static bool news(struct tls_secret *t, uint64_t version, bool looked)
{
	bool older = version < t->version;
	bool again = older && looked && t->older;

	if (looked)
		t->older = older && !again;
	return version > t->version || again;
}

static void take(
	struct tls_secret *t, const struct json *j, const struct json_node *secret, bool looked)
{
	uint64_t version = kube_version_number(kube_meta(j, secret).version);

	pthread_mutex_lock(&t->lock);
	/* What was refused is tried again: it may have been for its date, or for want of memory. */
	if (version != 0 && version == t->version && t->refused && looked) {
		load(t, j, secret, true);
	} else if (version == 0 || news(t, version, looked)) {
		t->version = version;
		load(t, j, secret, false);
	}
	pthread_mutex_unlock(&t->lock);
}

/* ---- the watch ---- */

static void on_listing(void *ctx)
{
	(void)ctx;
}

/* What is gone changes nothing: the pair in force is as good as before. What was refused is looked
 * at again. */
static bool on_change(
	void *ctx, enum kube_change what, const struct json *j, const struct json_node *object)
{
	struct tls_secret *t = ctx;

	if (what == KUBE_PUT && slice_is(kube_meta(j, object).name, t->cfg.name))
		take(t, j, object, false);
	return true;
}

static void on_listed(void *ctx, const char *version)
{
	(void)ctx;
	(void)version;
}

static int start_watch(struct tls_secret *t, struct err *err)
{
	struct kube_watch_app app = {
		.ctx = t, .listing = on_listing, .change = on_change, .listed = on_listed};
	struct buf path;

	buf_init(&path, PATH_MAX_BYTES);
	kube_path(&path, "/api/v1", t->cfg.namespace, "secrets", NULL, NULL);
	/* names of Secrets need no escaping */
	buf_str(&path, "?fieldSelector=metadata.name%3D");
	buf_str(&path, t->cfg.name);
	if (path.failed)
		err_set(err, ERR_NOMEM, "out of memory");
	else
		t->watch = kube_watch_start(t->cfg.kube, path.data, &app, t->cfg.log, err);
	buf_release(&path);
	return t->watch ? 0 : (int)err->code;
}

/* ---- the looks ---- */

static int64_t look(void *ctx, struct duty *d)
{
	struct tls_secret *t = ctx;
	struct kube_answer a;
	struct err err = {0};
	int rc = secret_get(t->cfg.kube, t->cfg.namespace, t->cfg.name, 0, &a, &err);

	(void)d;
	if (rc == 0)
		take(t, &a.json, json_root(&a.json), true);
	else if (err.code != t->look_failed)
		log_line(t->cfg.log, rc == ERR_NOTFOUND ? LOG_LEVEL_INFO : LOG_LEVEL_WARN,
			rc == ERR_NOTFOUND ? "no certificate yet"
					   : "certificate cannot be looked for",
			log_str("secret", t->cfg.name), log_str("error", err.msg));
	t->look_failed = err.code;
	secret_release(&a);
	return t->cfg.look_every_ms ? t->cfg.look_every_ms : LOOK_EVERY_MS;
}

struct tls_secret *tls_secret_start(const struct tls_secret_config *cfg, struct err *err)
{
	struct tls_secret *t = calloc(1, sizeof(*t));

	if (!t) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	t->cfg = *cfg;
	pthread_mutex_init(&t->lock, NULL);
	(void)snprintf(t->cert_name, sizeof(t->cert_name), "Secret %s/%s, tls.crt", cfg->namespace,
		cfg->name);
	(void)snprintf(t->key_name, sizeof(t->key_name), "Secret %s/%s, tls.key", cfg->namespace,
		cfg->name);
	if (start_watch(t, err) == 0)
		t->look = duty_start("tls-secret", look, t, err);
	if (!t->look) {
		tls_secret_stop(t);
		return NULL;
	}
	return t;
}

void tls_secret_stop(struct tls_secret *t)
{
	if (!t)
		return;
	duty_stop(t->look);
	kube_watch_stop(t->watch);
	pthread_mutex_destroy(&t->lock);
	free(t);
}
