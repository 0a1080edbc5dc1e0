// SPDX-License-Identifier: Apache-2.0
// cluster: how the picture of the GPUServers is kept: a watch, and lists that reviews ask for before they are refused.
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "kube/kube_watch.h"
#include "webhook/cluster/servers_impl.h"

/* Rule R4: at most four lists a second. */
#define LIST_EVERY_MS 250
#define NAME_SIZE 256

/* ---- watch ---- */

static void on_listing(void *ctx)
{
	struct servers *s = ctx;

	(void)pthread_mutex_lock(&s->lock);
	s->watch_lists = true;
	for (size_t i = 0; i < s->n; i++) {
		s->entries[i]->listed = false;
		s->entries[i]->known_watch = entry_number(s->entries[i]);
	}
	(void)pthread_mutex_unlock(&s->lock);
}

/* "" for what cannot be a name. */
static void name_text(struct slice name, char to[static NAME_SIZE])
{
	to[0] = '\0';
	if (name.len == 0 || name.len >= NAME_SIZE)
		return;
	memcpy(to, name.at, name.len);
	to[name.len] = '\0';
}

/* A state that nobody here understands. */
static void put_unreadable(struct servers *s, struct kube_meta m, const struct err *err)
{
	char name[NAME_SIZE], message[sizeof(err->path) + sizeof(err->msg)];
	bool due;

	name_text(m.name, name);
	(void)snprintf(message, sizeof(message), "%s %s", err->path, err->msg);
	(void)pthread_mutex_lock(&s->lock);
	/* its pods come and go, and each claim of theirs is an event with the same fault in it */
	due = repeat_due(&s->unreadables, name, message, clock_ms());
	servers_put_unreadable(s, name, kube_version_number(m.version));
	(void)pthread_mutex_unlock(&s->lock);
	if (due)
		log_line(s->log, LOG_LEVEL_ERROR,
			"a GPUServer cannot be read, it takes no new claims",
			log_str("server", name), log_str("path", err->path),
			log_str("error", err->msg));
}

/* The list that runs shows it. Only that counts: a commit says that it was there at its version, not that it is in the list. Lock held. */
static void mark_listed(struct servers *s, struct slice name)
{
	char text[NAME_SIZE];
	struct server_entry *e;

	name_text(name, text);
	e = servers_find(s, text);
	if (e)
		e->listed = true;
}

/* What the watch was told of, or a list. Lock held. */
static void put_told(struct servers *s, struct held *h)
{
	const struct server_entry *e = servers_find(s, h->object.name);

	repeat_forget(&s->unreadables, h->object.name);
	h->known = s->watch_lists && e ? e->known_watch : 0;
	(void)servers_put(s, h);
}

static void on_gone(struct servers *s, struct kube_meta m)
{
	char name[NAME_SIZE];

	name_text(m.name, name);
	(void)pthread_mutex_lock(&s->lock);
	struct server_entry *e = servers_find(s, name);

	/* One that was made anew meanwhile has a later number. */
	if (e && e->held && slice_is(m.uid, e->held->object.uid) &&
		kube_version_number(m.version) >= e->held->number)
		servers_drop(s, e);
	servers_forget(s);
	(void)pthread_mutex_unlock(&s->lock);
	servers_tell(s);
}

static void on_change(
	void *ctx, enum kube_change what, const struct json *j, const struct json_node *object)
{
	struct servers *s = ctx;
	struct err err = {0};
	struct held *h;

	if (what == KUBE_GONE) {
		on_gone(s, kube_meta(j, object));
		return;
	}
	h = held_read(j, object, &err);
	if (!h)
		put_unreadable(s, kube_meta(j, object), &err);
	(void)pthread_mutex_lock(&s->lock);
	if (h)
		put_told(s, h);
	mark_listed(s, kube_meta(j, object).name);
	(void)pthread_mutex_unlock(&s->lock);
	servers_tell(s);
}

/* What a whole list, at this version, did not show is gone; but not what a commit has brought since. By rule R16 what was known when the list
 * began is, whatever its number. */
static void drop_unlisted(struct servers *s, uint64_t version)
{
	for (size_t i = 0; i < s->n; i++) {
		struct server_entry *e = s->entries[i];

		if (!e->listed && e->held &&
			(e->held->number <= version || e->held->number == e->known_watch))
			servers_drop(s, e);
	}
	servers_forget(s);
}

static void on_listed(void *ctx, const char *version)
{
	struct servers *s = ctx;

	(void)pthread_mutex_lock(&s->lock);
	drop_unlisted(s, kube_version_number(slice_of(version)));
	s->watch_lists = false;
	s->synced = true;
	(void)pthread_cond_broadcast(&s->cond);
	(void)pthread_mutex_unlock(&s->lock);
	servers_tell(s);
}

const struct kube_watch_app servers_watch_app = {
	.listing = on_listing,
	.change = on_change,
	.listed = on_listed,
};

/* ---- lists past the cache ---- */

struct fresh {
	struct servers *s;
	struct held **list;
	size_t n, cap;
	bool failed;
};

static void fresh_begin(void *ctx)
{
	struct fresh *f = ctx;

	for (size_t i = 0; i < f->n; i++)
		held_free(f->list[i]);
	f->n = 0;
}

static bool fresh_each(void *ctx, const struct json *j, const struct json_node *object)
{
	struct fresh *f = ctx;
	struct err err = {0};
	struct held *h;

	if (f->n == f->cap) {
		size_t cap = f->cap ? 2 * f->cap : 64;
		struct held **grown = realloc(f->list, cap * sizeof(struct held *));

		if (!grown) {
			f->failed = true;
			return false;
		}
		f->list = grown;
		f->cap = cap;
	}
	h = held_read(j, object, &err);
	/* A list without it would say that it is gone. */
	f->failed = !h && err.code == ERR_NOMEM;
	if (h)
		f->list[f->n++] = h;
	else if (!f->failed)
		put_unreadable(f->s, kube_meta(j, object), &err);
	return !f->failed;
}

static int by_name(const void *a, const void *b)
{
	const struct held *const *x = a, *const *y = b;

	return strcmp((*x)->object.name, (*y)->object.name);
}

static int name_of(const void *name, const void *b)
{
	const struct held *const *y = b;

	return strcmp(name, (*y)->object.name);
}

/* A whole list has been read: bring it into the picture. The marks of a list that the watch is reading are left alone. */
static void bring_in(struct servers *s, struct fresh *f, uint64_t version)
{
	if (f->n > 1)
		qsort(f->list, f->n, sizeof(struct held *), by_name);
	for (size_t i = 0; i < s->n; i++) {
		struct server_entry *e = s->entries[i];

		if (!e->unreadable && e->held &&
			(e->held->number <= version || e->held->number == e->known_list) &&
			!(f->n && bsearch(e->name, f->list, f->n, sizeof(struct held *), name_of)))
			servers_drop(s, e);
	}
	for (size_t i = 0; i < f->n; i++) {
		const struct server_entry *e = servers_find(s, f->list[i]->object.name);

		f->list[i]->known = e ? e->known_list : 0;
		(void)servers_put(s, f->list[i]);
	}
	f->n = 0;
	servers_forget(s);
}

/* One list, by the thread that came first. Lock held at the call and the return. */
static void make_list(struct servers *s, int64_t deadline_ms)
{
	struct fresh f = {.s = s};
	struct err err = {0};
	char version[32] = "";
	uint64_t mine = ++s->lists_begun;
	int64_t left;
	int rc;

	s->listing = true;
	for (size_t i = 0; i < s->n; i++)
		s->entries[i]->known_list = entry_number(s->entries[i]);
	s->list_began_ms = clock_ms();
	left = deadline_ms - s->list_began_ms;
	(void)pthread_mutex_unlock(&s->lock);
	rc = kube_list(s->kube, SERVERS_PATH, left > 1 ? left : 1, fresh_begin, fresh_each, &f,
		version, &err);
	if (f.failed)
		rc = err_set(&err, ERR_NOMEM, "out of memory for a list of GPUServers");
	(void)pthread_mutex_lock(&s->lock);
	if (rc == 0)
		bring_in(s, &f, kube_version_number(slice_of(version)));
	fresh_begin(&f);
	free(f.list);
	s->list_rc = rc;
	s->list_err = err;
	s->lists_done = mine;
	s->listing = false;
	(void)pthread_cond_broadcast(&s->cond);
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int servers_refresh(struct servers *s, int64_t deadline_ms, struct err *err)
{
	uint64_t need;
	int rc = 0;

	(void)pthread_mutex_lock(&s->lock);
	need = s->lists_begun + 1;
	while (s->lists_done < need && rc == 0) {
		int64_t now = clock_ms();

		if (now >= deadline_ms || s->stopping)
			rc = err_set(err, ERR_TIMEOUT,
				"the API server gave no list of GPUServers in time");
		else if (s->listing)
			(void)servers_wait(s, deadline_ms);
		else if (now - s->list_began_ms < LIST_EVERY_MS)
			(void)servers_wait(
				s, earlier(s->list_began_ms + LIST_EVERY_MS, deadline_ms));
		else
			make_list(s, deadline_ms);
		/* It ended with the time of whoever made it, which need not be ours. */
		if (s->lists_done >= need && s->list_rc == ERR_TIMEOUT && clock_ms() < deadline_ms)
			need = s->lists_begun + 1;
	}
	if (rc == 0 && s->list_rc != 0) {
		rc = s->list_rc;
		if (err)
			*err = s->list_err;
	}
	(void)pthread_mutex_unlock(&s->lock);
	if (rc == 0)
		servers_tell(s);
	return rc;
}
