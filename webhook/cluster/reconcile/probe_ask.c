/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: one question to one probe or gate: its CA and token out of Secrets, its answer read. */
#include "webhook/cluster/reconcile/probe_ask.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "certs/certs_files.h"
#include "net/http_client.h"
#include "webhook/cluster/secrets/secret_data.h"
#include "webhook/core/server/server_keep.h"

/* So long a Secret counts as read; so long at least, when a probe refuses us. */
#define SECRET_KEEP_MS 60000
#define SECRET_DOUBT_MS 5000
#define TOKEN_MAX 65536
#define URL_MAX 4096
#define ANSWER_MAX (1024u * 1024)
#define ANSWER_NODES_MAX 100000

struct kept {
	struct kept *next;
	char *secret;
	const char *key; /* a literal */
	struct buf value;
	int64_t read_ms;
};

struct probe_secrets {
	struct kube *kube;
	const char *namespace;
	pthread_mutex_t lock;
	struct kept *first; /* guarded by lock */
};

struct probe_secrets *probe_secrets_new(struct kube *k, const char *namespace)
{
	struct probe_secrets *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->kube = k;
	s->namespace = namespace;
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

static void kept_free(struct kept *k)
{
	certs_files_wipe(&k->value);
	free(k->secret);
	free(k);
}

void probe_secrets_free(struct probe_secrets *s)
{
	if (!s)
		return;
	for (struct kept *k = s->first, *next; k; k = next) {
		next = k->next;
		kept_free(k);
	}
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* ---- Secrets ---- */

static struct kept **find(struct probe_secrets *s, const char *secret, const char *key)
{
	struct kept **at = &s->first;

	while (*at && (strcmp((*at)->secret, secret) != 0 || strcmp((*at)->key, key) != 0))
		at = &(*at)->next;
	return at;
}

/* Append what is remembered, if that is recent. */
static bool remembered(struct probe_secrets *s, const char *secret, const char *key, bool doubtful,
	struct buf *out)
{
	int64_t oldest = clock_ms() - (doubtful ? SECRET_DOUBT_MS : SECRET_KEEP_MS);
	const struct kept *k;
	bool hit;

	pthread_mutex_lock(&s->lock);
	k = *find(s, secret, key);
	hit = k && k->read_ms > oldest;
	if (hit)
		buf_slice(out, buf_as_slice(&k->value));
	pthread_mutex_unlock(&s->lock);
	return hit;
}

/* Without memory it is read again the next time. */
static void remember(
	struct probe_secrets *s, const char *secret, const char *key, const struct buf *value)
{
	struct kept *k = calloc(1, sizeof(*k)), **at, *old;

	if (!k)
		return;
	k->secret = strdup(secret);
	k->key = key;
	k->read_ms = clock_ms();
	buf_init(&k->value, value->max);
	buf_slice(&k->value, buf_as_slice(value));
	if (!k->secret || k->value.failed) {
		kept_free(k);
		return;
	}
	pthread_mutex_lock(&s->lock);
	at = find(s, secret, key);
	old = *at;
	k->next = old ? old->next : NULL;
	*at = k;
	pthread_mutex_unlock(&s->lock);
	if (old)
		kept_free(old);
}

static int get_value(struct probe_secrets *s, const char *secret, const char *key, bool doubtful,
	struct buf *out, struct err *err)
{
	struct kube_answer a;
	struct err why = {0};
	int rc;

	if (remembered(s, secret, key, doubtful, out))
		return out->failed ? err_set(err, ERR_NOMEM, "out of memory") : 0;
	rc = secret_get(s->kube, s->namespace, secret, 0, &a, &why);
	if (rc == ERR_NOTFOUND)
		err_reason(err, why.code, FRESH_SECRET_MISSING, "Secret %s/%s is missing",
			s->namespace, secret);
	else if (rc != 0)
		*err = why;
	/* Who may write GPUServers must not get at Secrets that were made for something else, by an
	 * address of his own. */
	if (rc == 0 && !secret_is_plain(&a.json, json_root(&a.json))) {
		rc = err_reason(err, ERR_REFUSED, FRESH_SECRET_KEPT,
			"Secret %s/%s: its type is neither Opaque nor kubernetes.io/tls",
			s->namespace, secret);
	} else if (rc == 0) {
		rc = secret_value(&a.json, json_root(&a.json), key, out, &why);
		if (rc != 0)
			err_reason(err, why.code, rc == ERR_NOTFOUND ? FRESH_SECRET_MISSING : "",
				"Secret %s/%s: %s", s->namespace, secret, why.msg);
	}
	secret_release(&a);
	if (rc == 0)
		remember(s, secret, key, out);
	return rc;
}

/* ---- the question ---- */

/* What a question takes out of Secrets. libcurl (the flavour in use) reads PEM from files: here
 * from files in memory. */
struct secrets {
	struct buf ca, cert, key, token;
	int fds[3];
	char paths[3][FILES_MEMORY_PATH]; /* of ca, cert and key; "" for none */
};

static void trim(struct buf *token)
{
	while (token->len > 0 && strchr(" \t\r\n", token->data[token->len - 1]))
		token->data[--token->len] = '\0';
}

static const char *or_null(const char *path)
{
	return path[0] ? path : NULL;
}

/* A client of its own: libcurl may remember CAs by the name of their file, and names of files in
 * memory come again. */
static int send(const struct probe_question *q, const struct secrets *s, struct http_response *ret,
	struct err *err)
{
	struct http_client *client = http_client_new(err);
	struct buf url;
	size_t len = strlen(q->end.url);
	int rc;

	if (!client)
		return err->code;
	while (len > 0 && q->end.url[len - 1] == '/')
		len--;
	buf_init(&url, URL_MAX);
	buf_add(&url, q->end.url, len);
	buf_str(&url, q->path);
	if (url.failed) {
		rc = err_set(err, ERR_NOMEM, "out of memory");
	} else {
		struct http_ask req = {.method = "GET",
			.url = url.data,
			.bearer = s->token.len > 0 ? s->token.data : NULL,
			.ca_file = or_null(s->paths[0]),
			.cert_file = or_null(s->paths[1]),
			.key_file = or_null(s->paths[2]),
			.timeout_ms = q->timeout_ms,
			.max_bytes = ANSWER_MAX,
			.go_on = q->go_on,
			.go_on_ctx = q->go_on_ctx};

		rc = http_client_do(client, &req, ret, err);
	}
	buf_release(&url);
	http_client_free(client);
	return rc;
}

static int read_answer(const struct probe_question *q, const struct http_response *answer,
	struct arena *a, void *ret, struct err *err)
{
	struct json j = {0};
	char *text = NULL;
	int rc;

	if (answer->status != 200)
		return err_set(
			err, ERR_REFUSED, "the %s answers with HTTP %ld", q->who, answer->status);
	rc = json_read_copy(&j, answer->body.data, answer->body.len, ANSWER_NODES_MAX, &text, err);
	if (rc == 0)
		rc = q->read(&j, a, ret, err);
	json_release(&j);
	free(text);
	return rc;
}

static int get_secrets(struct probe_secrets *s, const struct probe_question *q, struct secrets *ret,
	struct err *err)
{
	struct buf *pem[3] = {&ret->ca, &ret->cert, &ret->key};
	int rc = 0;

	if (q->end.ca_secret)
		rc = get_value(s, q->end.ca_secret, "ca.crt", q->doubtful, &ret->ca, err);
	if (rc == 0 && q->end.token_secret)
		rc = get_value(s, q->end.token_secret, "token", q->doubtful, &ret->token, err);
	if (rc == 0 && q->end.client_secret)
		rc = get_value(s, q->end.client_secret, "tls.crt", q->doubtful, &ret->cert, err);
	if (rc == 0 && q->end.client_secret)
		rc = get_value(s, q->end.client_secret, "tls.key", q->doubtful, &ret->key, err);
	trim(&ret->token);
	for (size_t i = 0; rc == 0 && i < 3; i++) {
		if (i == 0 ? !q->end.ca_secret : !q->end.client_secret)
			continue;
		ret->fds[i] = files_in_memory(buf_as_slice(pem[i]), ret->paths[i], err);
		rc = ret->fds[i] < 0 ? (int)err->code : 0;
	}
	return rc;
}

static void drop_secrets(struct secrets *s)
{
	for (size_t i = 0; i < 3; i++)
		if (s->fds[i] >= 0)
			close(s->fds[i]);
	buf_release(&s->ca);
	buf_release(&s->cert);
	certs_files_wipe(&s->key);
	certs_files_wipe(&s->token);
}

int probe_ask(struct probe_secrets *s, const struct probe_question *q, struct arena *a, void *ret,
	struct err *err)
{
	struct secrets own = {.fds = {-1, -1, -1}};
	struct http_response answer = {0};
	int rc;

	if (q->end.token_secret && strncasecmp(q->end.url, "https://", strlen("https://")) != 0)
		return err_reason(err, ERR_REFUSED, FRESH_TOKEN_KEPT,
			"a token would cross the network in the clear: give the %s an https URL, "
			"or leave tokenSecret out",
			q->who);
	buf_init(&own.ca, CERTS_FILE_MAX);
	buf_init(&own.cert, CERTS_FILE_MAX);
	buf_init(&own.key, CERTS_FILE_MAX);
	buf_init(&own.token, TOKEN_MAX);
	rc = get_secrets(s, q, &own, err);
	if (rc == 0)
		rc = send(q, &own, &answer, err);
	if (rc == 0)
		rc = read_answer(q, &answer, a, ret, err);
	buf_release(&answer.body);
	drop_secrets(&own);
	return rc;
}
