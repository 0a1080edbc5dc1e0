/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what one state of an injected pod says. */
#include <stdlib.h>

#include "base/json/json_keys.h"
#include "base/text.h"
#include "webhook/cluster/claims/pods_impl.h"
#include "webhook/core/pod/late.h"

#define PLAN_SCRATCH ((size_t)PLAN_BYTES_MAX * 2)
/* What is kept of a pod that waits: its plan, read. */
#define WAITING_MAX ((size_t)PLAN_BYTES_MAX * 16)
#define WAITING_USUAL 2048

void pod_waiting_release(struct pod_waiting *w)
{
	if (!w || --w->users > 0)
		return;
	arena_release(&w->arena);
	free(w);
}

/* 0 without a plan, or without memory: then the claim's hash is not compared. */
static uint64_t plan_hash_of(const struct json *j, const struct json_node *object)
{
	struct arena a;
	struct pod pod;
	struct slice plan;
	uint64_t hash;

	arena_init(&a, PLAN_SCRATCH);
	pod_glance(j, object, &pod);
	plan = pod_annotation(&pod, ANN_PLAN, &a);
	hash = plan.at ? text_hash64(plan) : 0;
	arena_release(&a);
	return hash;
}

/* The text that it is read from goes with the call. */
static void keep_names(struct queue_pod *pod, struct arena *a)
{
	pod->uid = arena_slice(a, pod->uid);
	pod->namespace = arena_slice(a, pod->namespace);
	pod->name = arena_slice(a, pod->name);
	if (pod->owner.at)
		pod->owner = arena_slice(a, pod->owner);
}

/* Why it waits, as its condition says. */
static struct slice said_of(const struct json *j, const struct json_node *object)
{
	const struct json_node *c = json_find(j, json_path(j, object, "status", "conditions", NULL),
		"type", SLICE(LATE_CONDITION), false, NULL);

	return json_inside(j, json_get(j, c, SLICE("reason")));
}

static bool read_into(const struct pods_sight *s, struct pod_waiting *w, const struct json *j,
	const struct json_node *object, struct err *err)
{
	struct pod pod;

	pod_glance(j, object, &pod);
	if (plan_read(pod_annotation(&pod, ANN_PLAN, &w->arena), &w->arena, &w->plan, err) < 0 ||
		!w->plan.waits || plan_demand(&w->plan, false, &w->arena, &w->demand, err) < 0 ||
		!queue_read(j, object, &s->classes, &w->arena, &w->pod, &w->unmarked))
		return false;
	keep_names(&w->pod, &w->arena);
	w->version = arena_slice(&w->arena, kube_meta(j, object).version);
	w->pod.asks = queue_asks(&w->demand, json_seed());
	if (said_of(j, object).at)
		w->said = arena_slice(&w->arena, said_of(j, object));
	w->pod.gang = w->plan.gang;
	w->pod.gang_size = w->plan.gang_size;
	w->pod.gang_job = w->plan.gang.at && w->plan.gang_size == 0;
	if (w->plan.gang.at)
		w->pod.gang_began.key = queue_gang_key(&w->pod);
	if (w->pod.gang_job)
		w->job = arena_slice(&w->arena, queue_job_of(&pod, &w->arena));
	w->pod.demand = &w->demand;
	return !w->arena.failed && (!w->let_go || w->plan.gang.at);
}

/* NULL: it does not wait for its turn, and is in no gang, or there is no memory for it; one that is
 * longer than any of ours waits for nothing. */
static struct pod_waiting *read_waiting(const struct pods_sight *s, const struct json *j,
	const struct json_node *object, struct pod_told *t)
{
	struct pod_waiting *w = calloc(1, sizeof(*w));
	struct err err = {0};

	if (!w) {
		t->missed = true;
		return NULL;
	}
	arena_init_small(&w->arena, WAITING_MAX, WAITING_USUAL);
	w->users = 1;
	w->plan_hash = t->plan_hash;
	w->let_go = !t->waits;
	w->ended = t->seen == POD_FINISHED;
	w->grace_s = pod_grace(j, object);
	w->leaving = json_path(j, object, "metadata", "deletionTimestamp", NULL) != NULL;
	if (read_into(s, w, j, object, &err))
		return w;
	t->missed = (err.code == ERR_NOMEM || w->arena.failed) && !w->arena.full;
	pod_waiting_release(w);
	return NULL;
}

/* Does its gang want to know of it? Who has failed is made again with the others. */
static bool shows_gang(
	const struct json *j, const struct json_node *object, const struct pod_told *t)
{
	struct pod pod;

	pod_glance(j, object, &pod);
	return json_get(j, pod.annotations, SLICE(ANN_GANG_SIZE)) &&
	       (t->seen == POD_LIVE || pod_succeeded(j, object));
}

struct pod_told pod_told_of(const struct pods_sight *s, const struct json *j,
	const struct json_node *object, bool there)
{
	struct pod_told t = {.seen = pod_finished(j, object) ? POD_FINISHED : POD_LIVE,
		.plan_hash = there ? plan_hash_of(j, object) : 0,
		.grace_s = pod_delete_grace(j, object),
		.placed = json_is(json_path(j, object, "spec", "nodeName", NULL), JSON_STRING),
		.waits = s->waits && s->waits(j, object)};

	pod_waits(j, object, t.why);
	pod_ips(j, object, t.ips);
	if (there && (t.waits ? t.seen == POD_LIVE : shows_gang(j, object, &t)))
		t.waiting = read_waiting(s, j, object, &t);
	return t;
}
