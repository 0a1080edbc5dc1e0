/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: gives a claim to a live injected pod that has none, or not a whole one (rule R7). */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/text.h"
#include "webhook/cluster/claims/claims_impl.h"
#include "webhook/core/pod/late.h"
#include "webhook/core/validate/validate.h"
#include "webhook/edge/metrics/metrics.h"

#define ADOPT_AFTER_MS 2000
#define ADOPT_AGAIN_MS 60000
/* One adoption: a picture of 1000 servers with 8 GPUs each takes about 3 MB. */
#define SCRATCH_MAX (64u << 20)
#define NOTE_BYTES 900

struct candidate {
	struct holder *who;
	int64_t since_ms;
	uint64_t plan_hash;
	bool due;
};

struct candidates {
	struct claims *c;
	int64_t now_ms, after_ms;
	struct candidate *list;
	size_t n, cap, n_due;
	int64_t open_ms; /* the first that was seen of those that were not looked at */
	bool failed;
};

/* ---- who is without ---- */

/* What it holds is of another plan than the pod shows: worth a look, but the pod has its claim. */
static bool other_plan(const struct holder *h, uint64_t plan_hash)
{
	return plan_hash != 0 && h->plan_hash != plan_hash;
}

static bool was_tried(const struct claims *c, const struct holder *h, int64_t now)
{
	return h->rest->tried && h->rest->adopt_pool == c->now.pool && now < h->rest->adopt_ms;
}

static bool see_pod(void *ctx, const struct pod_shown *pod)
{
	struct candidates *list = ctx;
	struct claims *c = list->c;
	struct holder *h = claims_find(c, slice_of(pod->uid));
	bool whole = h && holder_complete(h);
	struct candidate *one;
	int64_t due;

	/* Nothing of a pod that waits runs: it is given GPUs before it starts, not behind its back.
	 */
	if (pod->seen != POD_LIVE || pod->waits || (whole && !other_plan(h, pod->plan_hash))) {
		if (h && h->rest)
			h->rest->tried = h->rest->told = false;
		if (h && !pod->waits)
			holder_tidy(h);
		return true;
	}
	h = claims_holder(c, pod->uid, pod->namespace, pod->name);
	if (!h || !holder_rest(h) || !LIST_ROOM(list->list, list->n, list->cap)) {
		list->failed = true;
		return false;
	}
	one = &list->list[list->n++];
	*one = (struct candidate){h, pod->since_ms, pod->plan_hash, false};
	if (was_tried(c, h, list->now_ms)) {
		claims_until(c, h->rest->adopt_ms);
		return true;
	}
	if (!whole && pod->since_ms < list->open_ms)
		list->open_ms = pod->since_ms;
	due = pod->since_ms + list->after_ms;
	due = due > h->rest->adopt_away_ms ? due : h->rest->adopt_away_ms;
	one->due = list->now_ms >= due;
	list->n_due += one->due;
	if (!one->due)
		claims_until(c, due);
	return true;
}

/* ---- one pod ---- */

void warn_pod(struct claims *c, const struct holder *h, const char *reason, const char *note)
{
	struct kube_event event = {.api_version = "v1",
		.kind = "Pod",
		.namespace = slice_of(h->namespace),
		.name = slice_of(h->name),
		.uid = slice_of(h->uid),
		.type = "Warning",
		.reason = reason,
		.note = note,
		.component = "poolgate"};

	(void)kube_tell(c->cfg->kube, &event, NULL);
}

/* It cannot be given one now. Said once; tried again when the pool is another one, or after a
 * while. */
static void not_adopted(struct adoption *a, const char *why)
{
	struct claims *c = a->c;
	struct holder *h = a->who;
	char note[NOTE_BYTES];

	h->rest->tried = true;
	h->rest->adopt_pool = c->now.pool;
	h->rest->adopt_ms =
		clock_ms() + (c->cfg->adopt_again_ms ? c->cfg->adopt_again_ms : ADOPT_AGAIN_MS);
	claims_until(c, h->rest->adopt_ms);
	if (h->rest->told)
		return;
	h->rest->told = true;
	(void)snprintf(note, sizeof(note),
		"runs without a claim on GPUs, and cannot be given one: %s", why);
	warn_pod(c, h, "NotAccounted", note);
	log_line(c->cfg->log, LOG_LEVEL_WARN, "pod runs without a claim", log_str("uid", h->uid),
		log_str("namespace", h->namespace), log_str("name", h->name), log_str("why", why));
}

static void adopted(struct adoption *a)
{
	struct claims *c = a->c;
	struct holder *h = a->who;
	char note[NOTE_BYTES];

	h->rest->tried = h->rest->told = false;
	(void)snprintf(note, sizeof(note), "ran without a whole claim; holds one on %s%s now%s",
		a->servers[0], a->n_servers > 1 ? " and others" : "",
		a->full ? ", beyond what its GPUs have: they take nothing new until it fits" : "");
	warn_pod(c, h, "ClaimAdopted", note);
	metric_add(c->cfg->metrics, M_ADOPTIONS, 0, 0, 1);
	log_line(c->cfg->log, LOG_LEVEL_WARN, "claim adopted", log_str("uid", h->uid),
		log_str("namespace", h->namespace), log_str("name", h->name),
		log_str("server", a->servers[0]), log_int("servers", (int64_t)a->n_servers),
		log_bool("over_full", a->full));
}

static bool holds_whole_servers(const struct claims *c, const struct plan *plan)
{
	const struct config_source *from = &c->cfg->source;
	const struct config *now = from->acquire ? from->acquire(from->ctx) : NULL;
	bool yes = validate_whole_servers(now, plan);

	if (now)
		from->release(from->ctx, now);
	return yes;
}

/* What takes the place of another record says what that said of its gang; else which that is. */
static void find_gang(struct adoption *a, const struct pod *pod)
{
	const struct json_node *owner = json_get(pod->j, pod_controller(pod), SLICE("uid"));
	const struct queue_pod of = {.namespace = slice_of(a->who->namespace),
		.gang = a->plan.gang,
		.gang_size = a->plan.gang_size,
		.gang_job = a->plan.gang_size == 0,
		.owner = json_inside(pod->j, owner)};

	if (a->who->n_records > 0)
		a->began = a->who->began;
	if (a->plan.gang.at && !a->began.key)
		a->began.key = queue_gang_key(&of);
}

/* What the pod that is there now says it needs. */
static int read_plan(struct adoption *a, struct err *err)
{
	struct pod pod;
	struct slice text;

	pod_glance(&a->pod.json, json_root(&a->pod.json), &pod);
	text = pod_annotation(&pod, ANN_PLAN, &a->arena);
	if (!text.at)
		return err_set(err, ERR_INVALID, "it has no annotation " ANN_PLAN);
	if (plan_read(text, &a->arena, &a->plan, err) < 0)
		return err->code;
	find_gang(a, &pod);
	a->plan_hash = text_hash64(text);
	a->grace_s = pod_grace(&a->pod.json, json_root(&a->pod.json));
	if (plan_demand(&a->plan, holds_whole_servers(a->c, &a->plan), &a->arena, &a->demand, err) <
		0)
		return err->code;
	/* It uses what it was told, wherever else there is room. */
	return a->plan.late.values ? late_servers(&pod, &a->arena, &a->demand.servers,
					     &a->demand.n_servers, err)
				   : 0;
}

/* It could not be written: nothing is known, and the next round looks again, or one in a while. */
static void try_again(struct claims *c, struct holder *h, int rc, const struct err *err)
{
	if (rc == ERR_CONFLICT)
		return;
	h->rest->adopt_away_ms = clock_ms() + CLAIMS_AWAY_MS;
	log_line(c->cfg->log, LOG_LEVEL_WARN, "claim cannot be adopted yet", log_str("uid", h->uid),
		log_str("namespace", h->namespace), log_str("name", h->name),
		log_str("error", err->msg));
}

/* A whole claim of another plan stays as it is, unless it holds more than the plan can need. */
static bool plan_is_covered(struct adoption *a)
{
	if (!holder_complete(a->who) || adopt_exceeds(&a->pool, &a->demand))
		return false;
	a->who->rest->tried = true;
	a->who->rest->adopt_pool = a->c->now.pool;
	a->who->rest->adopt_ms = INT64_MAX;
	return true;
}

/* The list of servers is new, and shows no whole claim. True when it has one now, or cannot have
 * one. */
static bool judge_pod(struct adoption *a)
{
	struct holder *h = a->who;
	struct err err = {0};
	int rc = read_plan(a, &err);

	if (rc == 0)
		rc = adopt_pool_read(
			a->c->cfg->servers, slice_of(h->uid), &a->arena, &a->pool, &err);
	if (rc == 0 && plan_is_covered(a))
		return true;
	if (rc == 0 && !holder_complete(h) && adopt_has_whole(a)) {
		rc = adopt_drop_elsewhere(a, &err);
		if (rc < 0)
			try_again(a->c, h, rc, &err);
		else
			log_line(a->c->cfg->log, LOG_LEVEL_WARN, "claim trimmed",
				log_str("uid", h->uid), log_str("namespace", h->namespace),
				log_str("name", h->name));
		return rc == 0;
	}
	if (rc == 0)
		rc = adopt_place(&a->pool, &a->demand, &a->arena, &a->where, &a->full, &err);
	if (rc == ERR_NOMEM) {
		try_again(a->c, h, rc, &err);
		return false;
	}
	if (rc < 0) {
		not_adopted(a, err.msg);
		return true;
	}
	rc = adopt_write(a, &err);
	/* The API server refuses this status: it will not take it a second later either. */
	if (rc == ERR_INVALID || rc == ERR_REFUSED) {
		not_adopted(a, err.msg);
		return true;
	}
	if (rc < 0) {
		try_again(a->c, h, rc, &err);
		return false;
	}
	adopted(a);
	return true;
}

/* The watch will say so, too: until then it is asked about as seldom as a claim's pod that the
 * watch does not show. */
static bool leave_to_watch(struct claims *c, struct holder *h)
{
	h->rest->tried = true;
	h->rest->adopt_pool = c->now.pool;
	h->rest->adopt_ms = clock_ms() + c->pace.ask_ms;
	return true;
}

static bool adopt_one(struct claims *c, struct holder *h)
{
	struct adoption a = {.c = c, .who = h};
	bool done;

	arena_init(&a.arena, SCRATCH_MAX);
	switch (claims_ask(c->cfg->kube, h, &a.pod)) {
	case ANSWER_LIVE:
		/* Who stands behind its gate again, as after a restore of etcd, does not run: it
		 * has its turn. */
		done = c->carrier->waits(&a.pod.json, json_root(&a.pod.json)) ? leave_to_watch(c, h)
									      : judge_pod(&a);
		break;
	case ANSWER_GONE:
	case ANSWER_FINISHED:
		done = leave_to_watch(c, h);
		break;
	case ANSWER_NONE:
	default:
		h->rest->adopt_away_ms = clock_ms() + CLAIMS_AWAY_MS;
		done = false;
		break;
	}
	kube_answer_release(&a.pod);
	arena_release(&a.arena);
	return done;
}

/* ---- all of them ---- */

/* Those who are still without a claim on a list that was made after they were seen. */
static void adopt_due(struct claims *c, struct candidates *list)
{
	if (!claims_look_anew(c))
		return;
	list->open_ms = INT64_MAX;
	for (size_t i = 0; i < list->n; i++) {
		struct candidate *one = &list->list[i];
		bool whole = holder_complete(one->who);
		bool tried = was_tried(c, one->who, list->now_ms);
		bool done = tried || (whole && !other_plan(one->who, one->plan_hash));

		if (!done && one->due && !duty_stopping(c->self))
			done = adopt_one(c, one->who);
		if (!done && !whole && one->since_ms < list->open_ms)
			list->open_ms = one->since_ms;
	}
	claims_until(c, clock_ms());
}

void claims_adopt(struct claims *c)
{
	struct candidates list = {.c = c,
		.now_ms = clock_ms(),
		.after_ms = c->cfg->adopt_after_ms ? c->cfg->adopt_after_ms : ADOPT_AFTER_MS,
		.open_ms = INT64_MAX};
	bool whole = pods_whole(c->pods);

	if (!pods_synced(c->pods))
		return;
	pods_each(c->pods, see_pod, &list);
	if (list.n_due > 0)
		adopt_due(c, &list);
	if (whole && !list.failed && list.open_ms > c->began_ms)
		list.open_ms = c->began_ms;
	if (whole && !list.failed && !c->now.failed)
		atomic_store(&c->cfg->settled_ms, list.open_ms);
	free(list.list);
}
