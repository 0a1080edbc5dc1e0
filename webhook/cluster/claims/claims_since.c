/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: since when a pod that Kueue has let go waits for us (law W7 of waiting), written on it
 * by the leader that saw it first: nothing else says it, and the next leader would take it for
 * younger than it is. */
#include "base/clock.h"
#include "base/rfc3339.h"
#include "webhook/cluster/claims/claims_impl.h"
#include "webhook/core/pod/late.h"

#define BODY_BYTES 1024
/* Of one round: the next writes more. */
#define SINCE_MAX 64
/* Until the watch shows what was written; after a failure. */
#define AGAIN_MS 1000
/* After it was refused, which it will be until somebody changes a policy. */
#define REFUSED_MS 60000

struct sighting {
	struct claims *c;
	struct holder *who[SINCE_MAX];
	const struct pod_waiting *pod[SINCE_MAX];
	size_t n;
};

/* Of this state of this pod alone: where another leader has written it since, or the pod is another
 * one, it is a conflict. */
static void write_body(const struct pod_waiting *pod, struct buf *out)
{
	char since[RFC3339_SIZE];

	rfc3339_write(pod->pod.since_ms, since);
	buf_str(out, "{\"metadata\":{\"uid\":");
	buf_json_str(out, pod->pod.uid);
	buf_str(out, ",\"resourceVersion\":");
	buf_json_str(out, pod->version);
	buf_fmt(out, ",\"annotations\":{\"" ANN_QUEUED_SINCE "\":\"%s\"}}}", since);
}

static void write_one(void *ctx, size_t i)
{
	struct sighting *s = ctx;
	struct claims *c = s->c;
	struct holder *h = s->who[i];
	struct buf body;
	const struct kube_call call = {.method = "PATCH",
		.at = {"/api/v1", h->namespace, "pods", h->name, NULL},
		.content_type = KUBE_MERGE_PATCH,
		.text = &body,
		.timeout_ms = CLAIMS_CALL_MS};
	struct err err = {0};
	int rc;

	if (duty_stopping(c->self))
		return;
	buf_init(&body, BODY_BYTES);
	write_body(s->pod[i], &body);
	rc = kube_do(c->cfg->kube, &call, NULL, &err);
	buf_release(&body);
	h->rest->since_ms = clock_ms() + (rc == ERR_REFUSED ? REFUSED_MS : AGAIN_MS);
	if (rc < 0 && rc != ERR_CONFLICT && !kube_says_gone(rc, &err))
		log_line(c->cfg->log, LOG_LEVEL_WARN, "cannot write on a pod since when it waits",
			log_str("uid", h->uid), log_str("namespace", h->namespace),
			log_str("name", h->name), log_str("error", err.msg));
}

void since_write(struct claims *c, struct holder *const *who, struct pod_waiting *const *list,
	const bool *started, size_t n)
{
	struct sighting s = {.c = c};

	for (size_t i = 0; i < n; i++) {
		if (!list[i]->unmarked || started[i])
			continue;
		if (clock_ms() < who[i]->rest->since_ms || s.n == SINCE_MAX) {
			claims_until(c, clock_ms() < who[i]->rest->since_ms ? who[i]->rest->since_ms
									    : clock_ms());
			continue;
		}
		s.who[s.n] = who[i];
		s.pod[s.n++] = list[i];
	}
	run_side_by_side(s.n, write_one, &s);
}
