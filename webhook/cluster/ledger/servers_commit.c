/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: edits of a server's status: those that wait for the same server go into one
 * compare-and-swap (rule R2). */
#include <stdlib.h>

#include "base/clock.h"
#include "webhook/cluster/ledger/servers_impl.h"
#include "webhook/core/server/usage_record.h"
#include "webhook/edge/metrics/metrics.h"

#define SCRATCH_MAX (8u * 1024 * 1024)
#define BODY_MAX (4u * 1024 * 1024)
/* One call, when nobody is in a hurry. */
#define CALL_MS 10000
/* Between two tries while the API server cannot be asked. */
#define AWAY_PAUSE_MS 100

/* What a commit needs while the lock is not held. */
struct commit {
	struct edit *batch; /* in their order */
	struct arena arena;
	struct buf body, path;
	struct held *after;  /* the state that the API server answered with */
	uint64_t unreadable; /* or its number, when it cannot be read */
	bool gone;           /* there was none at the last look */
	uint64_t base;       /* the number of the state that the PUT was made from */
	uint64_t before; /* the number of the state that was known when the last look began; 0: none
			  */
	int rc;
	struct err err;
};

static void finish(struct edit *e, int rc, const struct err *why)
{
	e->rc = rc;
	if (rc != 0 && e->err && why)
		*e->err = *why;
	e->done = true;
}

static int too_late(struct err *err)
{
	return err_set(
		err, ERR_TIMEOUT, "the claim could not be confirmed by the API server in time");
}

/* Take the edits that are done out of the batch, and tell those who wait for them: the next call
 * may take long. */
static void sweep(struct servers *s, struct commit *c)
{
	struct edit **at = &c->batch;

	while (*at)
		if ((*at)->done)
			*at = (*at)->next;
		else
			at = &(*at)->next;
	(void)pthread_cond_broadcast(&s->cond);
}

/* End every edit that is left. */
static void finish_all(struct commit *c, int rc, const struct err *why)
{
	/* An edit may be freed by its owner as soon as it is done and the lock is let go: not
	 * before. */
	for (struct edit *e = c->batch; e; e = e->next)
		if (!e->done)
			finish(e, rc, why);
	c->batch = NULL;
}

static void drop_late(struct servers *s, struct commit *c)
{
	int64_t now = clock_ms();
	struct err err = {0};

	for (struct edit *e = c->batch; e; e = e->next)
		if (now >= e->deadline_ms || s->stopping)
			finish(e, too_late(&err), &err);
	sweep(s, c);
}

/* A copy of the object whose arrays may be changed; texts are shared. */
static bool copy_object(const struct server_object *o, struct arena *a, struct server_object *ret)
{
	struct server_status *to = &ret->status;
	const struct server_status *from = &o->status;

	*ret = *o;
	to->gpus = arena_copy(a, from->gpus, from->n_gpus, sizeof(*to->gpus));
	to->claims = arena_copy(a, from->claims, from->n_claims, sizeof(*to->claims));
	to->conditions =
		arena_copy(a, from->conditions, from->n_conditions, sizeof(*to->conditions));
	to->phantoms = arena_copy(a, from->phantoms, from->n_phantoms, sizeof(*to->phantoms));
	return to->gpus && to->claims && to->conditions && to->phantoms;
}

/* Apply the edits in their order; what gave up or has nothing to write is done. False: nothing is
 * to be written. */
static bool apply(struct servers *s, const struct server_entry *entry, struct commit *c)
{
	struct server_object o;
	struct err err = {0};
	bool any = false;

	/* Law P7: what was used until now is what stood there until now, whoever changes what. */
	if (!servers_judge(s) || !copy_object(&entry->held->object, &c->arena, &o) ||
		!server_usage_advance(&o, kube_wall_ms(s->kube), &c->arena)) {
		finish_all(c, err_set(&err, ERR_NOMEM, "out of memory"), &err);
		return false;
	}
	for (struct edit *e = c->batch; e; e = e->next) {
		err_clear(&err);
		e->changed = false;
		switch (e->fn(e->ctx, &o, e->again, &c->arena, &err)) {
		case EDIT_CHANGED:
			e->changed = any = true;
			break;
		case EDIT_SAME:
			finish(e, 0, NULL);
			break;
		case EDIT_GIVE_UP:
			finish(e, (int)err.code, &err);
			break;
		}
	}
	sweep(s, c);
	if (!any)
		return false;
	server_object_write(&o, &c->body);
	if (c->arena.failed || c->body.failed) {
		finish_all(c, err_set(&err, ERR_NOMEM, "out of memory"), &err);
		return false;
	}
	return true;
}

/* Milliseconds that the most impatient edit still has. */
static int64_t patience(const struct commit *c)
{
	int64_t now = clock_ms(), least = CALL_MS;

	for (const struct edit *e = c->batch; e; e = e->next)
		if (e->deadline_ms - now < least)
			least = e->deadline_ms - now;
	return least > 1 ? least : 1;
}

static void read_state(struct commit *c, const struct kube_answer *answer)
{
	if (answer->json.count)
		c->after = held_read(&answer->json, json_root(&answer->json), &c->err);
	if (answer->json.count && !c->after && c->err.code != ERR_NOMEM)
		c->unreadable = kube_version_number(
			kube_meta(&answer->json, json_root(&answer->json)).version);
	if (!c->after && c->rc == 0)
		c->rc = c->err.code
				? (int)c->err.code
				: err_set(&c->err, ERR_SYNTAX, "the API server answered nothing");
}

/* Without the lock: PUT the status. */
static void put_status(
	struct servers *s, const struct server_entry *entry, struct commit *c, int64_t timeout_ms)
{
	struct kube_answer answer;
	struct kube_call call = {
		.method = "PUT", .body = buf_as_slice(&c->body), .timeout_ms = timeout_ms};

	buf_clear(&c->path);
	kube_path(
		&c->path, "/apis/poolgate.io/v1alpha1", NULL, "gpuservers", entry->name, "status");
	call.path = c->path.data;
	c->rc = kube_do(s->kube, &call, &answer, &c->err);
	if (c->rc == 0)
		read_state(c, &answer);
	kube_answer_release(&answer);
}

/* Without the lock: what is there now, past every cache. */
static void get_state(
	struct servers *s, const struct server_entry *entry, struct commit *c, int64_t timeout_ms)
{
	struct kube_answer answer;

	err_clear(&c->err);
	buf_clear(&c->path);
	kube_path(&c->path, "/apis/poolgate.io/v1alpha1", NULL, "gpuservers", entry->name, NULL);
	c->rc = kube_get(s->kube, c->path.data, timeout_ms, &answer, &c->err);
	if (c->rc == 0)
		read_state(c, &answer);
	c->gone = kube_says_gone(c->rc, &c->err);
	kube_answer_release(&answer);
}

/* With the lock: what a call brought back. */
static void bring_back(struct servers *s, struct server_entry *entry, struct commit *c)
{
	if (c->after) {
		c->after->known = c->before;
		(void)servers_put(s, c->after);
	}
	c->after = NULL;
	if (c->unreadable)
		servers_put_unreadable(s, entry->name, c->unreadable);
	c->unreadable = 0;
	/* What the watch has told meanwhile may be one made anew. */
	if (c->gone && entry->held && entry->held->number <= c->before)
		servers_drop(s, entry);
	c->gone = false;
}

/* The API server does not let us: for a review that is as if it were away, and no refusal of the
 * pool's. */
static int refused_us(int rc, struct err *err)
{
	if (rc == ERR_REFUSED) {
		err->code = ERR_IO;
		err->reason[0] = '\0';
	}
	return rc == ERR_REFUSED ? ERR_IO : rc;
}

/* To be tried again, in front of those that came meanwhile. tried: they may have been written. */
static void put_back(struct server_entry *entry, struct commit *c, bool tried)
{
	struct edit *last = NULL;

	for (struct edit *e = c->batch; e; e = e->next) {
		e->again = e->again || tried;
		last = e;
	}
	if (!last)
		return;
	last->next = entry->queue;
	if (!entry->queue)
		entry->queue_end = &last->next;
	entry->queue = c->batch;
	c->batch = NULL;
}

/* With the lock, which is let go meanwhile: wait a little, whatever happens, and as long as
 * everybody has time. */
static void rest(struct servers *s, const struct commit *c)
{
	int64_t left = patience(c);
	int64_t until = clock_ms() + (left < AWAY_PAUSE_MS ? left : AWAY_PAUSE_MS);

	while (!s->stopping && clock_ms() < until)
		(void)servers_wait(s, until);
}

/* The outcome of the PUT is not "written": look what is there, and let the edits be tried again on
 * it. */
static void look_again(
	struct servers *s, struct server_entry *entry, struct commit *c, const struct edit *own)
{
	/* Above all an API server that has no time for us is not asked again at once. */
	bool away = c->rc == ERR_IO, conflict = c->rc == ERR_CONFLICT, gone;
	int64_t left;

	drop_late(s, c);
	if (!c->batch)
		return;
	metric_add(s->metrics, M_COMMITS, c->rc == ERR_CONFLICT ? COMMIT_CONFLICT : COMMIT_UNKNOWN,
		0, 1);
	if (c->rc == ERR_CONFLICT)
		servers_contended(s, entry);
	if (own->done) {
		put_back(entry, c, true);
		return;
	}
	left = patience(c);
	c->before = entry_number(entry);
	(void)pthread_mutex_unlock(&s->lock);
	get_state(s, entry, c, left);
	(void)pthread_mutex_lock(&s->lock);
	if (c->rc == ERR_INVALID || c->rc == ERR_SYNTAX || c->rc == ERR_NOMEM ||
		c->rc == ERR_REFUSED) {
		bring_back(s, entry, c);
		finish_all(c, refused_us(c->rc, &c->err), &c->err);
		return;
	}
	gone = c->gone;
	bring_back(s, entry, c);
	/* By rule R16: the next PUT would meet the same conflict. */
	if (away || (c->rc != 0 && !gone) || (conflict && entry_number(entry) == c->base))
		rest(s, c);
	put_back(entry, c, true);
}

/* With the lock, which is let go meanwhile: write what the batch has made of the status. */
static void write_batch(
	struct servers *s, struct server_entry *entry, struct commit *c, const struct edit *own)
{
	int64_t left = patience(c);

	c->base = entry_number(entry);
	(void)pthread_mutex_unlock(&s->lock);
	put_status(s, entry, c, left);
	(void)pthread_mutex_lock(&s->lock);
	if (c->rc == 0) {
		metric_add(s->metrics, M_COMMITS, COMMIT_WRITTEN, 0, 1);
		bring_back(s, entry, c);
		finish_all(c, 0, NULL);
	} else if (c->rc == ERR_CONFLICT || c->rc == ERR_TIMEOUT || c->rc == ERR_IO ||
		   c->rc == ERR_NOTFOUND) {
		look_again(s, entry, c, own);
	} else {
		finish_all(c, refused_us(c->rc, &c->err), &c->err);
	}
}

/* One commit of all edits that wait for this server. Whose own edit is done leaves the others to
 * one of them: he is expected. Lock held, and let go meanwhile. */
static void commit(struct servers *s, struct server_entry *entry, const struct edit *own)
{
	struct commit c = {.batch = entry->queue};
	struct err err = {0};

	entry->busy = true;
	entry->queue = NULL;
	entry->queue_end = &entry->queue;
	arena_init(&c.arena, SCRATCH_MAX);
	buf_init(&c.body, BODY_MAX);
	buf_init(&c.path, 4096);
	drop_late(s, &c);
	if (c.batch && !entry->held)
		finish_all(&c, err_set(&err, ERR_NOTFOUND, "no such GPUServer: %s", entry->name),
			&err);
	if (c.batch && entry->unreadable)
		finish_all(&c,
			err_set(&err, ERR_INVALID, "the GPUServer %s cannot be read", entry->name),
			&err);
	if (own->done || !c.batch || !apply(s, entry, &c) || own->done)
		put_back(entry, &c, false);
	else
		write_batch(s, entry, &c, own);
	entry->busy = false;
	(void)pthread_cond_broadcast(&s->cond);
	buf_release(&c.body);
	buf_release(&c.path);
	arena_release(&c.arena);
}

/* Not begun yet: leave the queue. */
static bool leave(struct server_entry *entry, struct edit *e)
{
	for (struct edit **at = &entry->queue; *at; at = &(*at)->next) {
		if (*at != e)
			continue;
		*at = e->next;
		if (!*at)
			entry->queue_end = at;
		return true;
	}
	return false;
}

/* Somebody else commits: he has this edit with him, and then ends with the most impatient one's
 * time, or it waits for him. */
static void wait_for_others(struct servers *s, struct server_entry *entry, struct edit *e)
{
	int64_t now = clock_ms(), until = now + CALL_MS;
	struct err err = {0};

	if (now >= e->deadline_ms && leave(entry, e)) {
		finish(e, too_late(&err), &err);
		return;
	}
	if (now < e->deadline_ms && e->deadline_ms < until)
		until = e->deadline_ms;
	(void)servers_wait(s, until);
}

int servers_edit(struct servers *s, const char *name, server_edit_fn *fn, void *ctx,
	int64_t deadline_ms, struct err *err)
{
	struct edit e = {.fn = fn, .ctx = ctx, .deadline_ms = deadline_ms, .err = err};
	struct server_entry *entry;

	(void)pthread_mutex_lock(&s->lock);
	entry = servers_find(s, name);
	if (!entry) {
		(void)pthread_mutex_unlock(&s->lock);
		return err_set(err, ERR_NOTFOUND, "no such GPUServer: %s", name);
	}
	entry->users++;
	*entry->queue_end = &e;
	entry->queue_end = &e.next;
	/* Whoever finds nobody at work commits for all. */
	while (!e.done)
		if (entry->busy)
			wait_for_others(s, entry, &e);
		else
			commit(s, entry, &e);
	entry->users--;
	(void)pthread_mutex_unlock(&s->lock);
	if (e.changed && e.rc == 0)
		servers_tell(s);
	return e.rc;
}
