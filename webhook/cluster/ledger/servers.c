/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: all GPUServers as this replica knows them: their states, the table of them, its
 * beginning and end. */
#include "webhook/cluster/ledger/servers.h"

#include <stdlib.h>
#include <time.h>

#include "base/list.h"
#include "base/thread.h"
#include "kube/kube_watch.h"
#include "webhook/cluster/ledger/servers_impl.h"

/* A sentence for each GPU of ten thousand servers. */
#define TWINS_ARENA_MAX (64u * 1024 * 1024)
/* One object: 256 claims and 256 GPUs stay far below. */
#define HELD_ARENA_MAX (8u * 1024 * 1024)

/* ---- states ---- */

struct held *held_read(const struct json *j, const struct json_node *object, struct err *err)
{
	struct held *h = calloc(1, sizeof(*h));

	if (!h) {
		err_set(err, ERR_NOMEM, "out of memory for a GPUServer");
		return NULL;
	}
	/* There may be thousands, and each commit makes a new one. What is read is copied: it is
	 * nearly as long as its text. */
	arena_init_small(&h->arena, HELD_ARENA_MAX, object ? object->len : 0);
	if (server_object_read(j, object, &h->arena, &h->object, err) != 0 ||
		server_object_inventory(&h->object, &h->arena, &h->shown, err) != 0) {
		/* To read it once more would not help. */
		if (h->arena.full)
			(void)err_set(err, ERR_TOOBIG, "it is longer than any that is kept");
		held_free(h);
		return NULL;
	}
	h->number = kube_version_number(slice_of(h->object.version));
	return h;
}

void held_free(struct held *h)
{
	if (!h)
		return;
	arena_release(&h->arena);
	free(h);
}

/* ---- the table ---- */

/* Where the name is, or belongs. */
static size_t place_of(const struct servers *s, const char *name)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (strcmp(s->entries[mid]->name, name) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct server_entry *servers_find(const struct servers *s, const char *name)
{
	size_t at = place_of(s, name);

	return at < s->n && strcmp(s->entries[at]->name, name) == 0 ? s->entries[at] : NULL;
}

struct server_entry *servers_add(struct servers *s, const char *name)
{
	size_t at = place_of(s, name);
	struct server_entry *e;

	if (!LIST_ROOM(s->entries, s->n, s->cap))
		return NULL;
	e = calloc(1, sizeof(*e));
	if (e)
		e->name = strdup(name);
	if (!e || !e->name) {
		free(e);
		return NULL;
	}
	e->queue_end = &e->queue;
	memmove(s->entries + at + 1, s->entries + at, (s->n - at) * sizeof(struct server_entry *));
	s->entries[at] = e;
	s->n++;
	return e;
}

/* Nobody has its name any more. */
static void free_entry(struct servers *s, struct server_entry *e)
{
	struct server_entry **at = &s->contended;

	while (*at && *at != e)
		at = &(*at)->next_contended;
	if (*at)
		*at = e->next_contended;
	held_free(e->held);
	free(e->name);
	free(e);
}

static bool is_forgotten(const struct server_entry *e)
{
	return !e->held && !e->queue && !e->busy && !e->reserved && e->users == 0;
}

bool servers_forget_at(struct servers *s, size_t at)
{
	if (!is_forgotten(s->entries[at]))
		return false;
	free_entry(s, s->entries[at]);
	s->n--;
	memmove(s->entries + at, s->entries + at + 1, (s->n - at) * sizeof(struct server_entry *));
	return true;
}

void servers_forget(struct servers *s, const char *name)
{
	size_t at = place_of(s, name);

	if (at < s->n && strcmp(s->entries[at]->name, name) == 0)
		(void)servers_forget_at(s, at);
}

bool servers_wait(struct servers *s, int64_t deadline_ms)
{
	return thread_wait_until(&s->cond, &s->lock, deadline_ms) == 0;
}

/* ---- for everybody ---- */

void servers_tell(struct servers *s)
{
	if (s->changed)
		s->changed(s->changed_ctx);
}

bool servers_synced(struct servers *s)
{
	bool yes;

	(void)pthread_mutex_lock(&s->lock);
	yes = s->synced;
	(void)pthread_mutex_unlock(&s->lock);
	return yes;
}

size_t servers_holders(struct servers *s)
{
	size_t n;

	(void)pthread_mutex_lock(&s->lock);
	n = s->uids.n;
	(void)pthread_mutex_unlock(&s->lock);
	return n;
}

size_t servers_breathe(struct servers *s, size_t at, size_t *work)
{
	struct server_entry *e = s->entries[at];

	*work += 1 + (e->held ? e->held->object.status.n_claims / CLAIMS_A_SERVER : 0);
	if (*work < s->at_once)
		return at;
	*work = 0;
	e->users++;
	(void)pthread_mutex_unlock(&s->lock);
	/* a thread that is woken by the unlocking would find the lock taken again */
	(void)nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
	(void)pthread_mutex_lock(&s->lock);
	e->users--;
	return place_of(s, e->name);
}

bool servers_walk(struct servers *s, servers_walk_fn *fn, void *ctx)
{
	size_t work = 0;
	bool good;

	(void)pthread_mutex_lock(&s->lock);
	good = servers_judge(s);
	for (size_t i = 0; i < s->n; i++) {
		const struct server_entry *e = s->entries[i];

		if (e->held && !fn(ctx, e))
			break;
		i = servers_breathe(s, i, &work);
		/* what has come meanwhile has to be believed, too */
		if (work == 0)
			good = servers_judge(s) && good;
	}
	(void)pthread_mutex_unlock(&s->lock);
	return good;
}

struct each {
	server_each_fn *fn;
	void *ctx;
};

static bool each(void *ctx, const struct server_entry *e)
{
	const struct each *to = ctx;

	return to->fn(to->ctx, &e->held->object);
}

void servers_each(struct servers *s, server_each_fn *fn, void *ctx)
{
	struct each to = {fn, ctx};

	/* without memory what is there may say too little; that nothing is there would be worse */
	(void)servers_walk(s, each, &to);
}

struct servers *servers_new(
	struct kube *k, const struct log *log, struct metrics *metrics, struct err *err)
{
	struct servers *s = calloc(1, sizeof(*s));

	if (!s) {
		err_set(err, ERR_NOMEM, "out of memory for the GPU servers");
		return NULL;
	}
	s->kube = k;
	s->log = log;
	s->metrics = metrics;
	s->at_once = SERVERS_AT_ONCE;
	s->looks_at_once = LOOKS_AT_ONCE;
	arena_init(&s->twins, TWINS_ARENA_MAX);
	(void)pthread_mutex_init(&s->lock, NULL);
	(void)thread_cond_init(&s->cond);
	return s;
}

void servers_at_once(struct servers *s, size_t n)
{
	s->at_once = n;
	s->looks_at_once = n;
}

int servers_start(struct servers *s, void (*changed)(void *ctx), void *ctx, struct err *err)
{
	struct kube_watch_app app = servers_watch_app;

	app.ctx = s;
	s->changed = changed;
	s->changed_ctx = ctx;
	if (servers_list_start(s, err) != 0)
		return (int)err->code;
	s->watch = kube_watch_start(s->kube, SERVERS_PATH, &app, s->log, err);
	return s->watch ? 0 : (int)err->code;
}

void servers_stop(struct servers *s)
{
	kube_watch_stop(s->watch);
	s->watch = NULL;
	(void)pthread_mutex_lock(&s->lock);
	s->stopping = true;
	(void)pthread_cond_broadcast(&s->cond);
	(void)pthread_mutex_unlock(&s->lock);
	duty_stop(s->lister);
	s->lister = NULL;
}

void servers_free(struct servers *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		free_entry(s, s->entries[i]);
	free(s->entries);
	arena_release(&s->twins);
	free(s->inv.servers);
	free(s->claimed);
	free(s->committed);
	free(s->pending);
	free(s->kept);
	free(s->n_claims);
	free(s->order);
	free(s->turn);
	free(s->spare);
	free(s->first);
	free(s->gpus);
	free(s->width);
	free(s->kind);
	server_kinds_release(&s->kinds);
	server_words_release(&s->words);
	free(s->usable);
	free(s->gpu_bytes);
	free(s->most_claimed);
	free(s->most_committed);
	free(s->left_claimed);
	free(s->left_committed);
	room_index_release(&s->index);
	uid_set_release(&s->marks);
	uid_set_release(&s->uids);
	uid_set_release(&s->names);
	uid_set_release(&s->phantoms);
	(void)pthread_cond_destroy(&s->cond);
	(void)pthread_mutex_destroy(&s->lock);
	free(s);
}
