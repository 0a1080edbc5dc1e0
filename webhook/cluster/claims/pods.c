/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the injected pods as the leader's watch shows them: the table, and who asks it. */
#include "webhook/cluster/claims/pods_impl.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"

#define BUCKETS_FIRST 256
/* Lost pods that are remembered. One that is forgotten early is asked about within CLAIM_ASK_MS all
 * the same. */
#define LOST_MAX 4096

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
	struct pods_sight sight;
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

/* The entry has this one from now on, or none. */
static void put_waiting(struct pods *p, struct entry *e, struct pod_waiting *w)
{
	p->n_waiting += (w != NULL) - (size_t)(e->waiting != NULL);
	pod_waiting_release(e->waiting);
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
static bool put(struct pods *p, const struct kube_meta *m, struct pod_told *t)
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
	struct pod_told t = pod_told_of(&p->sight, j, object, what == KUBE_PUT);
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
	pod_waiting_release(t.waiting);
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
	p->sight = (struct pods_sight){waits, *classes};
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
			pod_waiting_release(e->waiting);
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
		pod_waiting_release(list[i]);
	(void)pthread_mutex_unlock(&p->lock);
	free(list);
}

void pods_give_one(struct pods *p, struct pod_waiting *one)
{
	(void)pthread_mutex_lock(&p->lock);
	pod_waiting_release(one);
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
