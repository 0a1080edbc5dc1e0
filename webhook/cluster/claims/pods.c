/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the injected pods as the leader's watch shows them: the watch, and who asks. */
#include "webhook/cluster/claims/pods_impl.h"

#include <pthread.h>
#include <stdlib.h>

struct pods {
	void (*changed)(void *ctx);
	void *ctx;
	struct pods_sight sight;
	struct kube_watch *watch;
	pthread_mutex_t lock;
	/* Guarded by lock: */
	struct pods_table table;
	bool listing, synced, connected;
};

/* ---- what the watch calls ---- */

static void on_listing(void *ctx)
{
	struct pods *p = ctx;

	(void)pthread_mutex_lock(&p->lock);
	pods_table_begin_list(&p->table);
	p->listing = true;
	(void)pthread_mutex_unlock(&p->lock);
}

static bool on_change(
	void *ctx, enum kube_change what, const struct json *j, const struct json_node *object)
{
	struct pods *p = ctx;
	struct kube_meta m = kube_meta(j, object);
	struct pod_told t = pod_told_of(&p->sight, j, object, what == KUBE_PUT);
	bool changed = false, missed;

	(void)pthread_mutex_lock(&p->lock);
	p->table.missed = p->table.missed || t.missed;
	if (m.uid.len == 0 || m.namespace.len == 0 || m.name.len == 0) {
		changed = false;
	} else if (what == KUBE_PUT) {
		changed = pods_table_put(&p->table, &m, &t);
	} else {
		changed = pods_table_remove(&p->table, m.uid, &t);
	}
	missed = p->table.missed;
	pod_waiting_release(t.waiting);
	(void)pthread_mutex_unlock(&p->lock);
	if (changed && p->changed)
		p->changed(p->ctx);
	return !missed;
}

static void on_listed(void *ctx, const char *version)
{
	struct pods *p = ctx;

	(void)version;
	(void)pthread_mutex_lock(&p->lock);
	pods_table_end_list(&p->table);
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
	if (!pods_table_init(&p->table)) {
		free(p);
		return NULL;
	}
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
	pods_table_release(&p->table);
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
	yes = p->synced && p->connected && !p->table.missed && !p->listing;
	(void)pthread_mutex_unlock(&p->lock);
	return yes;
}

static struct pod_shown shown(const struct pods_entry *e)
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

	if (e->why)
		memcpy(pod.why, e->why, strlen(e->why) + 1);
	if (e->ips)
		memcpy(pod.ips, e->ips, strlen(e->ips) + 1);
	return pod;
}

void pods_find(struct pods *p, struct slice uid, struct pod_shown *ret)
{
	const struct pods_entry *e;

	*ret = (struct pod_shown){.seen = POD_NOT_SHOWN};
	(void)pthread_mutex_lock(&p->lock);
	e = uid.len ? pods_table_find(&p->table, uid) : NULL;
	if (e)
		*ret = shown(e);
	(void)pthread_mutex_unlock(&p->lock);
	ret->uid = ret->namespace = ret->name = NULL;
}

bool pods_take_waiting(struct pods *p, struct pod_waiting ***ret, size_t *ret_n)
{
	struct pod_waiting **list = NULL;
	size_t n = 0, most;

	(void)pthread_mutex_lock(&p->lock);
	most = p->table.n_waiting;
	if (most > 0)
		list = calloc(most, sizeof(struct pod_waiting *));
	for (size_t i = 0; list && n < most; i++)
		for (const struct pods_entry *e = p->table.bucket[i]; e; e = e->next)
			if (e->waiting) {
				e->waiting->users++;
				list[n++] = e->waiting;
			}
	(void)pthread_mutex_unlock(&p->lock);
	*ret = list;
	*ret_n = n;
	return n == most;
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
	const struct pods_entry *e;

	(void)pthread_mutex_lock(&p->lock);
	e = pods_table_find(&p->table, uid);
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
	for (size_t i = 0; i < p->table.n_buckets && go_on; i++)
		for (const struct pods_entry *e = p->table.bucket[i]; e && go_on; e = e->next) {
			struct pod_shown pod = shown(e);

			if (e->seen != POD_NOT_SHOWN)
				go_on = fn(ctx, &pod);
		}
	(void)pthread_mutex_unlock(&p->lock);
}
