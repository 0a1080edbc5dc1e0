/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: was a namespace opened for the client's Secrets? Asked of the API server, remembered for
 * a while. */
#include "webhook/cluster/secrets/secret_gate.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "webhook/cluster/secrets/secret_sync_impl.h"

#define REVIEWS "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
#define ASK_MS 1000
/* After the API server did not answer: reviews do not all wait for it. */
#define UNKNOWN_MS 1000
/* Where namespaces share a slot, the later one is remembered. */
#define SLOTS 1024

struct answer {
	char namespace[64];
	bool open;
	int64_t until_ms;
};

struct secret_gate {
	struct kube *kube;
	const struct log *log;
	const char *source, *account;
	pthread_mutex_t lock; /* guards slot and told; nothing is called with it held */
	struct answer slot[SLOTS];
	bool told; /* that it cannot be asked */
};

struct secret_gate *secret_gate_new(
	struct kube *k, const struct log *log, const char *source, const char *account)
{
	struct secret_gate *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->kube = k;
	g->log = log;
	g->source = source;
	g->account = account;
	(void)pthread_mutex_init(&g->lock, NULL);
	return g;
}

void secret_gate_free(struct secret_gate *g)
{
	if (!g)
		return;
	(void)pthread_mutex_destroy(&g->lock);
	free(g);
}

static bool is_copied(const struct slice *secrets, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < SECRET_KINDS; k++)
			if (slice_is(secrets[i], secret_kinds[k].copy))
				return true;
	return false;
}

/* ---- what is remembered ---- */

static bool recall(struct secret_gate *g, struct slice namespace, bool *ret_open)
{
	const struct answer *a = &g->slot[text_hash64(namespace) % SLOTS];
	bool known;

	(void)pthread_mutex_lock(&g->lock);
	known = slice_is(namespace, a->namespace) && clock_ms() < a->until_ms;
	*ret_open = a->open;
	(void)pthread_mutex_unlock(&g->lock);
	return known;
}

static void remember(struct secret_gate *g, struct slice namespace, bool open, int64_t ms)
{
	struct answer *a = &g->slot[text_hash64(namespace) % SLOTS];

	(void)pthread_mutex_lock(&g->lock);
	memcpy(a->namespace, namespace.at, namespace.len);
	a->namespace[namespace.len] = '\0';
	a->open = open;
	a->until_ms = clock_ms() + ms;
	(void)pthread_mutex_unlock(&g->lock);
}

/* True when it was not told before. */
static bool set_told(struct secret_gate *g, bool told)
{
	bool before;

	(void)pthread_mutex_lock(&g->lock);
	before = g->told;
	g->told = told;
	(void)pthread_mutex_unlock(&g->lock);
	return told && !before;
}

/* ---- asking ---- */

static int read_answer(const struct kube_answer *a, bool *ret_open, struct err *err)
{
	const struct json_node *v =
		json_path(&a->json, json_root(&a->json), "status", "allowed", NULL);

	if (!json_is(v, JSON_TRUE) && !json_is(v, JSON_FALSE))
		return err_set(err, ERR_SYNTAX, "a SelfSubjectAccessReview without status.allowed");
	*ret_open = json_is(v, JSON_TRUE);
	return 0;
}

/* The right to create is what a RoleBinding to the ClusterRole poolgate-secrets gives, whatever the
 * names. */
static int ask(const struct secret_gate *g, struct slice namespace, int64_t ms, bool *ret_open,
	struct err *err)
{
	struct buf body;
	const struct kube_call call = {
		.method = "POST", .path = REVIEWS, .text = &body, .timeout_ms = ms};
	struct kube_answer a;
	int rc;

	buf_init(&body, SECRET_ASK_MAX);
	buf_str(&body,
		"{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SelfSubjectAccessReview\","
		"\"spec\":{\"resourceAttributes\":{\"verb\":\"create\",\"resource\":\"secrets\","
		"\"namespace\":");
	buf_json_str(&body, namespace);
	buf_str(&body, "}}}");
	rc = kube_do(g->kube, &call, &a, err);
	if (rc == 0)
		rc = read_answer(&a, ret_open, err);
	kube_answer_release(&a);
	buf_release(&body);
	return rc;
}

static bool is_open(struct secret_gate *g, struct slice namespace, int64_t deadline_ms)
{
	int64_t ms = deadline_ms ? (deadline_ms - clock_ms()) / 2 : ASK_MS;
	struct err err = {0};
	bool open = true;
	int rc;

	if (recall(g, namespace, &open))
		return open;
	open = true;
	if (ms <= 0)
		return true;
	rc = ask(g, namespace, ms < ASK_MS ? ms : ASK_MS, &open, &err);
	if (set_told(g, rc != 0))
		log_line(g->log, LOG_LEVEL_WARN,
			"cannot ask whether namespaces are open for the client's Secrets: taken "
			"for "
			"open",
			log_str("error", err.msg));
	if (rc != 0)
		open = true;
	remember(g, namespace, open,
		rc != 0 ? UNKNOWN_MS
		: open  ? SECRET_GATE_OPEN_MS
			: SECRET_GATE_CLOSED_MS);
	return open;
}

int secret_gate_check(void *ctx, struct slice namespace, const struct slice *secrets, size_t n,
	int64_t deadline_ms, struct err *err)
{
	struct secret_gate *g = ctx;

	/* the source's own namespace gets no copies */
	if (!is_copied(secrets, n) || !text_dns_label(namespace) ||
		slice_eq(namespace, secret_source_namespace(g->source)) ||
		is_open(g, namespace, deadline_ms))
		return 0;
	return err_reason(err, ERR_REFUSED, "NamespaceNotOpen",
		"the namespace %.*s is not open for the Secrets of the remote-GPU client, which "
		"this "
		"pod mounts; ask the cluster's operator to open it (kubectl -n %.*s create "
		"rolebinding poolgate-secrets --clusterrole=poolgate-secrets "
		"--serviceaccount=%s), then create the pod again",
		(int)namespace.len, namespace.at, (int)namespace.len, namespace.at, g->account);
}
