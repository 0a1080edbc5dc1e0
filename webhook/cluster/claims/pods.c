/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the injected pods as the leader's watch shows them. */
#include "webhook/cluster/claims/pods.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/json/json_keys.h"
#include "base/text.h"
#include "webhook/cluster/duty/duty.h"
#include "webhook/core/pod/late.h"
#include "webhook/core/pod/plan.h"
#include "webhook/core/pod/pod.h"

#define BUCKETS_FIRST 256
/* Lost pods that are remembered. One that is forgotten early is asked about within CLAIM_ASK_MS all
 * the same. */
#define LOST_MAX 4096
#define PLAN_SCRATCH ((size_t)PLAN_BYTES_MAX * 2)
/* What is kept of a pod that waits: its plan, read. */
#define WAITING_MAX ((size_t)PLAN_BYTES_MAX * 16)
#define WAITING_USUAL 2048

/* There are as many as claims: members stand by their size. */
struct entry {
	struct entry *next;
	uint64_t plan_hash;
	int64_t since_ms, lost_ms, waits_ms;
	struct pod_waiting *waiting; /* NULL: not for its turn, and no gang wants to know of it */
	char *why;                   /* malloc'ed; NULL: it runs, or has */
	uint32_t hash;               /* of the uid, as much as finds a bucket */
	uint32_t list;               /* number of the list that showed it last */
	uint32_t grace_s;            /* the longest that a delete of it has named (R13) */
	uint16_t namespace_at, name_at, uid_len; /* into text, where the uid stands first */
	uint8_t seen;                            /* enum pod_seen */
	bool ended;                              /* the last that was told of it: it has finished */
	bool waits;                              /* to be told its place */
	bool unplaced;                           /* its delete was told, and it had no node then */
	char text[];
};

struct pods {
	void (*changed)(void *ctx);
	void *ctx;
	bool (*waits)(const struct json *j, const struct json_node *object);
	struct queue_classes classes;
	struct kube_watch *watch;
	pthread_mutex_t lock;
	/* Guarded by lock: */
	struct entry **bucket;
	size_t n_buckets; /* a power of two */
	size_t n, n_lost; /* entries; of these, lost ones */
	size_t n_waiting; /* of these, with `waiting` */
	uint32_t list;    /* counts lists */
	bool listing, synced, connected, missed;
};

/* ---- the table; lock held ---- */

static struct entry **place_of(const struct pods *p, struct slice uid, uint64_t hash)
{
	struct entry **at = &p->bucket[hash & (p->n_buckets - 1)];

	while (*at && ((*at)->hash != (uint32_t)hash || (*at)->uid_len != uid.len ||
			      memcmp((*at)->text, uid.at, uid.len) != 0))
		at = &(*at)->next;
	return at;
}

/* More buckets when there are more pods than these; without memory the chains grow longer. */
static void grow(struct pods *p)
{
	size_t more = p->n_buckets * 2;
	struct entry **bucket;

	if (p->n < p->n_buckets)
		return;
	bucket = calloc(more, sizeof(struct entry *));
	if (!bucket)
		return;
	for (size_t i = 0; i < p->n_buckets; i++)
		for (struct entry *e = p->bucket[i], *next; e; e = next) {
			next = e->next;
			e->next = bucket[e->hash & (more - 1)];
			bucket[e->hash & (more - 1)] = e;
		}
	free(p->bucket);
	p->bucket = bucket;
	p->n_buckets = more;
}

static void let_go(struct pod_waiting *w)
{
	if (!w || --w->users > 0)
		return;
	arena_release(&w->arena);
	free(w);
}

/* The entry has this one from now on, or none. */
static void put_waiting(struct pods *p, struct entry *e, struct pod_waiting *w)
{
	p->n_waiting += (w != NULL) - (size_t)(e->waiting != NULL);
	let_go(e->waiting);
	e->waiting = w;
}

static const char *why_of(const struct entry *e)
{
	return e->why ? e->why : "";
}

static void remove_at(struct pods *p, struct entry **at)
{
	struct entry *e = *at;

	*at = e->next;
	p->n--;
	p->n_lost -= e->seen == POD_NOT_SHOWN;
	put_waiting(p, e, NULL);
	free(e->why);
	free(e);
}

static void forget_lost(struct pods *p, int64_t before_ms)
{
	for (size_t i = 0; i < p->n_buckets; i++)
		for (struct entry **at = &p->bucket[i]; *at;)
			if ((*at)->seen == POD_NOT_SHOWN && (*at)->lost_ms < before_ms)
				remove_at(p, at);
			else
				at = &(*at)->next;
}

static void lose(struct pods *p, struct entry *e, int64_t now)
{
	if (e->seen == POD_NOT_SHOWN)
		return;
	e->seen = POD_NOT_SHOWN;
	e->lost_ms = now;
	p->n_lost++;
	put_waiting(p, e, NULL);
}

static struct entry *new_entry(const struct kube_meta *m, uint64_t hash, int64_t now)
{
	size_t len = m->uid.len + m->namespace.len + m->name.len + 3;
	struct entry *e = len <= UINT16_MAX ? calloc(1, offsetof(struct entry, text) + len) : NULL;

	if (!e)
		return NULL;
	e->hash = (uint32_t)hash;
	e->since_ms = now;
	e->uid_len = (uint16_t)m->uid.len;
	e->namespace_at = (uint16_t)(m->uid.len + 1);
	e->name_at = (uint16_t)(e->namespace_at + m->namespace.len + 1);
	memcpy(e->text, m->uid.at, m->uid.len);
	memcpy(e->text + e->namespace_at, m->namespace.at, m->namespace.len);
	memcpy(e->text + e->name_at, m->name.at, m->name.len);
	return e;
}

/* What one state of a pod says. */
struct told {
	enum pod_seen seen;
	uint64_t plan_hash;
	uint32_t grace_s;
	bool placed, waits;
	struct pod_waiting *waiting; /* becomes the table's */
	char why[POD_WHY_SIZE];
};

/* Does it make a difference to the queue? */
static bool is_other(const struct pod_waiting *a, const struct pod_waiting *b)
{
	return !a != !b ||
	       (a && (a->pod.foreign != b->pod.foreign || a->pod.since_ms != b->pod.since_ms ||
			     a->leaving != b->leaving || a->let_go != b->let_go ||
			     a->ended != b->ended));
}

/* Its age is from the first state that showed it without Kueue's gate, in whole seconds as it will
 * be written. */
static void see_queued(const struct entry *e, struct pod_waiting *w)
{
	int64_t now = clock_wall_ms() / 1000 * 1000;

	if (!w || !w->unmarked)
		return;
	if (e && e->waiting && e->waiting->unmarked)
		now = e->waiting->pod.since_ms;
	if (w->pod.since_ms < now)
		w->pod.since_ms = now;
}

/* Most pods run: nothing is kept for them. */
static void put_why(struct pods *p, struct entry *e, const char *why)
{
	if (strcmp(why_of(e), why) == 0)
		return;
	free(e->why);
	e->why = *why ? strdup(why) : NULL;
	p->missed = p->missed || (*why && !e->why);
}

/* True when what is shown has changed. */
static bool put(struct pods *p, const struct kube_meta *m, struct told *t)
{
	uint64_t hash = text_hash64(m->uid);
	int64_t now = clock_ms();
	struct entry **at = place_of(p, m->uid, hash);
	struct entry *e = *at;
	bool changed;

	see_queued(e, t->waiting);
	changed = !e || e->seen != t->seen || e->waits != t->waits ||
		  is_other(e->waiting, t->waiting) || e->grace_s < t->grace_s ||
		  strcmp(why_of(e), t->why) != 0;

	if (!e) {
		*at = e = new_entry(m, hash, now);
		if (!e) {
			p->missed = true;
			return false;
		}
		p->n++;
		grow(p);
	}
	if (e->lost_ms) { /* its label is back */
		p->n_lost--;
		e->since_ms = now;
		e->lost_ms = 0;
		e->unplaced = false;
	}
	e->seen = (uint8_t)t->seen;
	e->ended = t->seen == POD_FINISHED;
	e->waits = t->waits;
	put_waiting(p, e, t->waiting);
	t->waiting = NULL;
	e->grace_s = t->grace_s > e->grace_s ? t->grace_s : e->grace_s;
	put_why(p, e, t->why);
	e->waits_ms = !*t->why ? 0 : e->waits_ms ? e->waits_ms : now;
	e->plan_hash = t->plan_hash;
	e->list = p->list;
	return changed;
}

/* ---- what the watch calls ---- */

static enum pod_seen phase_of(const struct json *j, const struct json_node *pod)
{
	const struct json_node *phase = json_path(j, pod, "status", "phase", NULL);

	return json_is_str(j, phase, SLICE("Succeeded")) || json_is_str(j, phase, SLICE("Failed"))
		       ? POD_FINISHED
		       : POD_LIVE;
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

static bool read_into(const struct pods *p, struct pod_waiting *w, const struct json *j,
	const struct json_node *object)
{
	struct pod pod;

	pod_glance(j, object, &pod);
	if (plan_read(pod_annotation(&pod, ANN_PLAN, &w->arena), &w->arena, &w->plan, NULL) < 0 ||
		!w->plan.waits || plan_demand(&w->plan, false, &w->arena, &w->demand, NULL) < 0 ||
		!queue_read(j, object, &p->classes, &w->arena, &w->pod, &w->unmarked))
		return false;
	keep_names(&w->pod, &w->arena);
	w->version = arena_slice(&w->arena, kube_meta(j, object).version);
	w->pod.asks = queue_asks(&w->demand, json_seed());
	if (said_of(j, object).at)
		w->said = arena_slice(&w->arena, said_of(j, object));
	w->pod.gang = w->plan.gang;
	w->pod.gang_size = w->plan.gang_size;
	w->pod.gang_job = w->plan.gang.at && w->plan.gang_size == 0;
	if (w->pod.gang_job)
		w->job = arena_slice(&w->arena, queue_job_of(&pod, &w->arena));
	w->pod.demand = &w->demand;
	return !w->arena.failed && (!w->let_go || w->plan.gang.at);
}

/* NULL: it does not wait for its turn, and is in no gang, or there is no memory for it: then what
 * others are told of it is late. */
static struct pod_waiting *read_waiting(const struct pods *p, const struct json *j,
	const struct json_node *object, const struct told *t)
{
	struct pod_waiting *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	arena_init_small(&w->arena, WAITING_MAX, WAITING_USUAL);
	w->users = 1;
	w->plan_hash = t->plan_hash;
	w->let_go = !t->waits;
	w->ended = t->seen == POD_FINISHED;
	w->grace_s = pod_grace(j, object);
	w->leaving = json_path(j, object, "metadata", "deletionTimestamp", NULL) != NULL;
	if (read_into(p, w, j, object))
		return w;
	let_go(w);
	return NULL;
}

/* Does its gang want to know of it? Who has failed is made again with the others. */
static bool shows_gang(const struct json *j, const struct json_node *object, const struct told *t)
{
	struct pod pod;

	pod_glance(j, object, &pod);
	return json_get(j, pod.annotations, SLICE(ANN_GANG)) &&
	       (t->seen == POD_LIVE || json_is_str(j, json_path(j, object, "status", "phase", NULL),
					       SLICE("Succeeded")));
}

static struct told tell_of(
	const struct pods *p, const struct json *j, const struct json_node *object, bool there)
{
	struct told t = {.seen = phase_of(j, object),
		.plan_hash = there ? plan_hash_of(j, object) : 0,
		.grace_s = pod_delete_grace(j, object),
		.placed = json_is(json_path(j, object, "spec", "nodeName", NULL), JSON_STRING),
		.waits = p->waits && p->waits(j, object)};

	pod_waits(j, object, t.why);
	if (there && (t.waits ? t.seen == POD_LIVE : shows_gang(j, object, &t)))
		t.waiting = read_waiting(p, j, object, &t);
	return t;
}

static void on_listing(void *ctx)
{
	struct pods *p = ctx;

	(void)pthread_mutex_lock(&p->lock);
	p->list++;
	p->listing = true;
	p->missed = false;
	(void)pthread_mutex_unlock(&p->lock);
}

static void on_change(
	void *ctx, enum kube_change what, const struct json *j, const struct json_node *object)
{
	struct pods *p = ctx;
	struct kube_meta m = kube_meta(j, object);
	struct told t = tell_of(p, j, object, what == KUBE_PUT);
	bool changed = false;

	(void)pthread_mutex_lock(&p->lock);
	if (m.uid.len == 0 || m.namespace.len == 0 || m.name.len == 0) {
		changed = false;
	} else if (what == KUBE_PUT) {
		changed = put(p, &m, &t);
	} else {
		struct entry *e = *place_of(p, m.uid, text_hash64(m.uid));

		changed = e && e->seen != POD_NOT_SHOWN;
		if (e) {
			e->ended = e->ended || t.seen == POD_FINISHED;
			e->unplaced = !t.placed;
			lose(p, e, clock_ms());
		}
		if (p->n_lost > LOST_MAX)
			forget_lost(p, clock_ms() - CLAIM_RETRY_MS);
	}
	let_go(t.waiting);
	(void)pthread_mutex_unlock(&p->lock);
	if (changed && p->changed)
		p->changed(p->ctx);
}

static void on_listed(void *ctx, const char *version)
{
	struct pods *p = ctx;
	int64_t now = clock_ms();

	(void)version;
	(void)pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < p->n_buckets; i++)
		for (struct entry *e = p->bucket[i]; e; e = e->next)
			if (e->list != p->list)
				lose(p, e, now);
	forget_lost(p, now - PODS_LOST_MS);
	p->listing = false;
	p->synced = p->connected = true;
	(void)pthread_mutex_unlock(&p->lock);
	if (p->changed)
		p->changed(p->ctx);
}

static void on_connected(void *ctx, bool yes)
{
	struct pods *p = ctx;

	(void)pthread_mutex_lock(&p->lock);
	p->connected = yes;
	(void)pthread_mutex_unlock(&p->lock);
}

struct kube_watch_app pods_app(struct pods *p)
{
	return (struct kube_watch_app){.ctx = p,
		.listing = on_listing,
		.change = on_change,
		.listed = on_listed,
		.connected = on_connected};
}

/* ---- for everybody ---- */

struct pods *pods_new(void (*changed)(void *ctx), void *ctx)
{
	struct pods *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->bucket = calloc(BUCKETS_FIRST, sizeof(struct entry *));
	if (!p->bucket) {
		free(p);
		return NULL;
	}
	p->n_buckets = BUCKETS_FIRST;
	p->changed = changed;
	p->ctx = ctx;
	(void)pthread_mutex_init(&p->lock, NULL);
	return p;
}

void pods_see_waiting(struct pods *p,
	bool (*waits)(const struct json *j, const struct json_node *object),
	const struct queue_classes *classes)
{
	p->waits = waits;
	p->classes = *classes;
}

int pods_start(struct pods *p, struct kube *k, const struct log *log, struct err *err)
{
	struct kube_watch_app app = pods_app(p);

	p->watch = kube_watch_start(k, PODS_PATH, &app, log, err);
	return p->watch ? 0 : (int)err->code;
}

void pods_stop(struct pods *p)
{
	if (!p)
		return;
	kube_watch_stop(p->watch);
	p->watch = NULL;
}

void pods_free(struct pods *p)
{
	if (!p)
		return;
	pods_stop(p);
	for (size_t i = 0; i < p->n_buckets; i++)
		for (struct entry *e = p->bucket[i], *next; e; e = next) {
			next = e->next;
			let_go(e->waiting);
			free(e->why);
			free(e);
		}
	free(p->bucket);
	(void)pthread_mutex_destroy(&p->lock);
	free(p);
}

bool pods_synced(struct pods *p)
{
	bool yes;

	(void)pthread_mutex_lock(&p->lock);
	yes = p->synced;
	(void)pthread_mutex_unlock(&p->lock);
	return yes;
}

bool pods_whole(struct pods *p)
{
	bool yes;

	(void)pthread_mutex_lock(&p->lock);
	yes = p->synced && p->connected && !p->missed && !p->listing;
	(void)pthread_mutex_unlock(&p->lock);
	return yes;
}

static struct pod_shown shown(const struct entry *e)
{
	struct pod_shown pod = {.uid = e->text,
		.namespace = e->text + e->namespace_at,
		.name = e->text + e->name_at,
		.seen = e->lost_ms && e->ended ? POD_FINISHED : (enum pod_seen)e->seen,
		.waits = e->waits,
		.queued = e->waiting && !e->waiting->let_go,
		.unplaced = e->unplaced,
		.grace_s = e->grace_s,
		.since_ms = e->since_ms,
		.lost_ms = e->lost_ms,
		.waits_ms = e->seen == POD_LIVE ? e->waits_ms : 0,
		.plan_hash = e->plan_hash};

	memcpy(pod.why, why_of(e), strlen(why_of(e)) + 1);
	return pod;
}

void pods_find(struct pods *p, struct slice uid, struct pod_shown *ret)
{
	const struct entry *e;

	*ret = (struct pod_shown){.seen = POD_NOT_SHOWN};
	(void)pthread_mutex_lock(&p->lock);
	e = uid.len ? *place_of(p, uid, text_hash64(uid)) : NULL;
	if (e)
		*ret = shown(e);
	(void)pthread_mutex_unlock(&p->lock);
	ret->uid = ret->namespace = ret->name = NULL;
}

struct pod_waiting **pods_take_waiting(struct pods *p, size_t *ret_n)
{
	struct pod_waiting **list = NULL;
	size_t n = 0;

	(void)pthread_mutex_lock(&p->lock);
	if (p->n_waiting > 0)
		list = calloc(p->n_waiting, sizeof(struct pod_waiting *));
	for (size_t i = 0; list && n < p->n_waiting; i++)
		for (const struct entry *e = p->bucket[i]; e; e = e->next)
			if (e->waiting) {
				e->waiting->users++;
				list[n++] = e->waiting;
			}
	(void)pthread_mutex_unlock(&p->lock);
	*ret_n = n;
	return list;
}

void pods_give_waiting(struct pods *p, struct pod_waiting **list, size_t n)
{
	(void)pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < n; i++)
		let_go(list[i]);
	(void)pthread_mutex_unlock(&p->lock);
	free(list);
}

void pods_give_one(struct pods *p, struct pod_waiting *one)
{
	(void)pthread_mutex_lock(&p->lock);
	let_go(one);
	(void)pthread_mutex_unlock(&p->lock);
}

struct pod_waiting *pods_take_one(struct pods *p, struct slice uid)
{
	struct pod_waiting *w = NULL;
	const struct entry *e;

	(void)pthread_mutex_lock(&p->lock);
	e = *place_of(p, uid, text_hash64(uid));
	if (e && e->waiting && !e->waiting->let_go) {
		w = e->waiting;
		w->users++;
	}
	(void)pthread_mutex_unlock(&p->lock);
	return w;
}

void pods_each(struct pods *p, pods_each_fn *fn, void *ctx)
{
	bool go_on = true;

	(void)pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < p->n_buckets && go_on; i++)
		for (const struct entry *e = p->bucket[i]; e && go_on; e = e->next) {
			struct pod_shown pod = shown(e);

			if (e->seen != POD_NOT_SHOWN)
				go_on = fn(ctx, &pod);
		}
	(void)pthread_mutex_unlock(&p->lock);
}
