/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: pods whose claims stand and that do not run. That is told; of those that no node takes
 * with what the scheduler says, and where the setting says so their claims are given back by
 * evicting them. An eviction is not fenced: who leads no more may still send one. So each names the
 * pod as it was read, by uid and resourceVersion: one that has got its node meanwhile is another
 * one. */
#include <stdio.h>

#include "base/clock.h"
#include "webhook/cluster/claims/claims_impl.h"
#include "webhook/cluster/claims/job_sizes.h"
#include "webhook/core/pod/unplaced.h"
#include "webhook/core/pool/placement_say.h"
#include "webhook/edge/metrics/metrics.h"

/* Of one round: the next is not far. */
#define LOOKS_MAX 64
/* After the pod was another one than was read; after the API server did not take it. */
#define CHANGED_MS 1000
#define EVICT_AGAIN_MS 60000
/* Not by this leader. */
#define NEVER_MS INT64_MAX
#define BODY_BYTES 4096
#define NOTE_BYTES 2048
/* Of the scheduler's message, which an Event has to hold. */
#define MESSAGE_MAX 800
#define KIND_MAX 64
#define SCRATCH_MAX (1u << 20)
#define SCRATCH_USUAL 2048

struct looks {
	struct claims *c;
	struct holder *who[LOOKS_MAX];
	size_t n;
};

/* ---- who does not run ---- */

static void see_unplaced(struct claims *c, struct holder *h, const struct pod_shown *pod)
{
	if (pod->seen != POD_LIVE || strcmp(pod->why, UNPLACED_REASON) != 0) {
		h->rest->unplaced_ms = h->rest->look_ms = 0;
		h->rest->unplaced_tell = false;
		return;
	}
	if (!h->rest->unplaced_ms)
		h->rest->unplaced_ms = clock_ms();
	c->n_unplaced++;
}

/* Bound, and not running for long: most of a pool may hang on a name of an image. What it waited
 * for before it had its claim does not count. */
void unstarted_see(struct claims *c, struct holder *h, const struct pod_shown *pod)
{
	int64_t since = pod->waits_ms > h->sight.since_ms ? pod->waits_ms : h->sight.since_ms;
	int64_t due = since + c->unstarted_ms;
	bool long_ago;

	/* Where memory is short none has waited for long. */
	h->waiting = pod->waits_ms != 0;
	if (h->waiting ? !holder_rest(h) : !h->rest)
		return;
	see_unplaced(c, h, pod);
	if (h->rest->unplaced_ms && h->rest->unplaced_ms + c->unplaced_ms < due)
		due = h->rest->unplaced_ms + c->unplaced_ms;
	long_ago = pod->waits_ms && clock_ms() >= due;
	h->waiting = pod->waits_ms && !long_ago;
	if (h->waiting)
		claims_until(c, due);
	memcpy(h->rest->why, long_ago ? pod->why : "", long_ago ? sizeof(h->rest->why) : 1);
}

void unstarted_tell(struct claims *c, struct holder *h, const char *server)
{
	char note[NOTE_BYTES];

	if (!*holder_why(h) || strcmp(h->rest->why_told, h->rest->why) == 0)
		return;
	memcpy(h->rest->why_told, h->rest->why, sizeof(h->rest->why_told));
	/* The pod alone has the scheduler's own words. */
	h->rest->unplaced_tell = strcmp(h->rest->why, UNPLACED_REASON) == 0;
	(void)snprintf(note, sizeof(note),
		"holds GPUs on %s for more than five minutes and does not run: %s", server,
		h->rest->why);
	if (!h->rest->unplaced_tell)
		warn_pod(c, h, "HoldsUnstarted", note);
	log_line(c->cfg->log, LOG_LEVEL_WARN, "pod holds GPUs and does not run",
		log_str("uid", h->uid), log_str("namespace", h->namespace),
		log_str("name", h->name), log_str("server", server), log_str("why", h->rest->why));
}

/* ---- what is told of those that no node takes ---- */

/* When it is to be looked at: to tell it, or to evict it. */
static int64_t look_at_ms(const struct claims *c, const struct holder *h)
{
	int64_t at = h->rest->unplaced_ms + c->cfg->evict_ms;

	if (h->rest->unplaced_tell)
		return h->rest->look_ms;
	if (!c->cfg->evict_ms)
		return NEVER_MS;
	return at > h->rest->look_ms ? at : h->rest->look_ms;
}

/* "says", with the scheduler's own words. */
static void tell(struct claims *c, const struct holder *h, const char *reason, const char *says,
	const struct unplaced *u)
{
	struct buf note;

	buf_init(&note, NOTE_BYTES);
	buf_str(&note, says);
	buf_str(&note, u->message.len ? ": " : "");
	say_word(&note, u->message, MESSAGE_MAX);
	if (!note.failed)
		warn_pod(c, h, reason, note.data);
	buf_release(&note);
}

/* ---- who may be evicted ---- */

/* 1: its Job ignores it, 0: it counts it; errors of kube_do, as where we may not read Jobs;
 * ERR_CONFLICT: another Job has its name. */
static int ask_job(struct claims *c, const struct holder *h, const struct kube_answer *pod,
	const struct unplaced *u, struct arena *a, struct err *err)
{
	struct kube_answer job;
	int rc = job_get(
		c->cfg->kube, slice_of(h->namespace), u->owner_name, u->owner_uid, &job, err);

	if (rc == 0)
		rc = unplaced_job_ignores(
			&job.json, json_root(&job.json), &pod->json, json_root(&pod->json), a);
	kube_answer_release(&job);
	return rc;
}

/* Said once by each leader: it waits until somebody does something about it. */
static void keep(struct claims *c, struct holder *h, const struct unplaced *u)
{
	struct buf note;

	h->rest->look_ms = NEVER_MS;
	buf_init(&note, NOTE_BYTES);
	buf_str(&note, "holds GPUs, finds no node, and is not evicted: ");
	if (u->owner == OWNER_NONE)
		buf_str(&note, "nobody would make another. Delete it to give its GPUs back");
	else if (u->owner == OWNER_JOB)
		buf_str(&note, "its Job would count that as a failure, as no rule of its "
			       "podFailurePolicy ignores DisruptionTarget");
	else {
		buf_str(&note, "what its controller makes of that is not known: ");
		say_word(&note, u->owner_kind, KIND_MAX);
	}
	if (!note.failed)
		warn_pod(c, h, "NotEvicted", note.data);
	log_line(c->cfg->log, LOG_LEVEL_WARN, "pod finds no node and is not evicted",
		log_str("uid", h->uid), log_str("namespace", h->namespace),
		log_str("name", h->name), log_str("why", note.failed ? "" : note.data));
	buf_release(&note);
}

/* ---- evictions ---- */

static void write_body(const struct kube_answer *pod, struct buf *out)
{
	struct kube_meta m = kube_meta(&pod->json, json_root(&pod->json));

	buf_str(out, "{\"apiVersion\":\"policy/v1\",\"kind\":\"Eviction\",\"metadata\":{\"name\":");
	buf_json_str(out, m.name);
	buf_str(out, ",\"namespace\":");
	buf_json_str(out, m.namespace);
	buf_str(out, "},\"deleteOptions\":{\"preconditions\":{\"uid\":");
	buf_json_str(out, m.uid);
	buf_str(out, ",\"resourceVersion\":");
	buf_json_str(out, m.version);
	buf_str(out, "}}}");
}

static int post(
	struct claims *c, const struct holder *h, const struct kube_answer *pod, struct err *err)
{
	struct buf body;
	const struct kube_call call = {.method = "POST",
		.at = {"/api/v1", h->namespace, "pods", h->name, "eviction"},
		.text = &body,
		.timeout_ms = CLAIMS_CALL_MS};
	int rc;

	buf_init(&body, BODY_BYTES);
	write_body(pod, &body);
	rc = kube_do(c->cfg->kube, &call, NULL, err);
	buf_release(&body);
	return rc;
}

static void settle(
	struct claims *c, struct holder *h, const struct unplaced *u, int rc, const struct err *err)
{
	int64_t again = c->cfg->evict_again_ms ? c->cfg->evict_again_ms : EVICT_AGAIN_MS;
	enum metric_evict result = rc == 0 ? EVICT_DONE
				   : rc == ERR_REFUSED || rc == ERR_INVALID || rc == ERR_TOOBIG
					   ? EVICT_REFUSED
					   : EVICT_LATER;

	h->rest->look_ms =
		clock_ms() + (rc == ERR_CONFLICT || rc == ERR_NOTFOUND ? CHANGED_MS : again);
	if (kube_says_gone(rc, err))
		return;
	metric_add(c->cfg->metrics, M_EVICTIONS, result, 0, 1);
	log_line(c->cfg->log, rc == 0 ? LOG_LEVEL_INFO : LOG_LEVEL_WARN,
		rc == 0 ? "pod is evicted, no node takes it" : "pod cannot be evicted yet",
		log_str("uid", h->uid), log_str("namespace", h->namespace),
		log_str("name", h->name), log_str("why", rc == 0 ? h->rest->why : err->msg));
	if (rc == 0)
		tell(c, h, "EvictedWithoutNode", "gives its GPUs back, as no node took it", u);
}

static void evict(struct claims *c, struct holder *h, const struct kube_answer *pod,
	const struct unplaced *u, struct arena *a)
{
	struct err err = {0};
	int rc = u->owner == OWNER_REPLACES ? 1
		 : u->owner == OWNER_JOB    ? ask_job(c, h, pod, u, a, &err)
					    : 0;

	if (rc == 0) {
		keep(c, h, u);
		return;
	}
	if (rc > 0)
		rc = duty_stopping(c->self) ? (int)err_set(&err, ERR_TIMEOUT,
						      "this replica does not lead any more")
					    : post(c, h, pod, &err);
	settle(c, h, u, rc, &err);
}

/* ---- a round ---- */

static void look_at_one(void *ctx, size_t i)
{
	struct looks *l = ctx;
	struct claims *c = l->c;
	struct holder *h = l->who[i];
	struct kube_answer pod;
	struct unplaced u;
	struct arena a;

	if (duty_stopping(c->self))
		return;
	arena_init_small(&a, SCRATCH_MAX, SCRATCH_USUAL);
	/* The watch may be behind: who has his node is neither told nor evicted. */
	if (claims_ask(c->cfg->kube, h, &pod) == ANSWER_LIVE &&
		unplaced_read(&pod.json, json_root(&pod.json), &a, &u)) {
		if (h->rest->unplaced_tell)
			tell(c, h, "WaitsForNode", "claimed, waits for a node", &u);
		h->rest->unplaced_tell = false;
		if (clock_ms() >= look_at_ms(c, h))
			evict(c, h, &pod, &u, &a);
	} else {
		h->rest->look_ms = clock_ms() + CHANGED_MS;
	}
	kube_answer_release(&pod);
	arena_release(&a);
}

void claims_unplaced(struct claims *c)
{
	struct looks l = {.c = c};
	int64_t now = clock_ms();

	for (size_t i = 0; c->n_unplaced > 0 && i < c->n_buckets && l.n < LOOKS_MAX; i++)
		for (struct holder *h = c->bucket[i]; h && l.n < LOOKS_MAX; h = h->next) {
			if (h->n_records == 0 || !h->rest || !h->rest->unplaced_ms)
				continue;
			if (now >= look_at_ms(c, h))
				l.who[l.n++] = h;
			else
				claims_until(c, look_at_ms(c, h));
		}
	run_side_by_side(l.n, look_at_one, &l);
	for (size_t i = 0; i < l.n; i++)
		claims_until(c, look_at_ms(c, l.who[i]));
}
