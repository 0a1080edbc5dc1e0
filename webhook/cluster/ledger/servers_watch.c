/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: how the picture of the GPUServers is kept: a watch. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "kube/kube_watch.h"
#include "webhook/cluster/ledger/servers_impl.h"

#define NAME_SIZE 256

/* ---- watch ---- */

static void on_listing(void *ctx)
{
	struct servers *s = ctx;

	(void)pthread_mutex_lock(&s->lock);
	s->watch_lists = true;
	s->lists[LIST_WATCH]++;
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

void servers_put_broken(struct servers *s, struct kube_meta m, const struct err *err)
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

/* The list that runs shows it. Only that counts: a commit says that it was there at its version,
 * not that it is in the list. Lock held. */
static void mark_listed(struct servers *s, struct slice name)
{
	char text[NAME_SIZE];
	struct server_entry *e;

	name_text(name, text);
	e = servers_find(s, text);
	if (e)
		e->listed = s->lists[LIST_WATCH];
}

/* What the watch was told of, or a list. By rule R15 a server that a list brings is hearsay until
 * the list is whole: an older one of the same machine may be on a later page. False: out of memory.
 * Lock held. */
static bool put_told(struct servers *s, struct held *h)
{
	const struct server_entry *e = servers_find(s, h->object.name);

	repeat_forget(&s->unreadables, h->object.name);
	h->known = s->watch_lists && e ? servers_known(s, e, LIST_WATCH) : 0;
	h->told = !s->watch_lists;
	if (h->told && (!e || !e->held) && h->number <= s->list_version) {
		held_free(h);
		return true;
	}
	return servers_put(s, h);
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
	servers_forget(s, name);
	(void)pthread_mutex_unlock(&s->lock);
	servers_tell(s);
}

static bool on_change(
	void *ctx, enum kube_change what, const struct json *j, const struct json_node *object)
{
	struct servers *s = ctx;
	struct err err = {0};
	struct held *h;
	bool held = true;

	if (what == KUBE_GONE) {
		on_gone(s, kube_meta(j, object));
		return true;
	}
	h = held_read(j, object, &err);
	if (!h && err.code == ERR_NOMEM)
		return false;
	if (!h)
		servers_put_broken(s, kube_meta(j, object), &err);
	(void)pthread_mutex_lock(&s->lock);
	if (h)
		held = put_told(s, h);
	mark_listed(s, kube_meta(j, object).name);
	(void)pthread_mutex_unlock(&s->lock);
	servers_tell(s);
	return held;
}

/* A whole list, at this version, is there. What it did not show is gone; but not what a commit has
 * brought since. By rule R16 what was known when the list began is, whatever its number. What it
 * showed is known, and every older server with it. What a commit has brought since is for the watch
 * to tell. */
static void judge_listed(struct servers *s, struct server_entry *e, uint64_t version)
{
	if (!e->held)
		return;
	if (e->listed != s->lists[LIST_WATCH]) {
		if (e->held->number <= version ||
			e->held->number == servers_known(s, e, LIST_WATCH))
			servers_drop(s, e);
	} else if ((e->held->object.hearsay || e->ahead) && e->held->number <= version) {
		e->held->object.hearsay = false;
		servers_set_ahead(s, e, false);
		servers_recount(s, e);
	}
}

static void on_listed(void *ctx, const char *version)
{
	struct servers *s = ctx;
	uint64_t number = kube_version_number(slice_of(version));

	size_t work = 0;

	(void)pthread_mutex_lock(&s->lock);
	/* Meanwhile what counts as shown is of two moments. */
	if (s->n_ahead)
		s->list_owed = s->lists[LIST_REVIEWS] + 1;
	for (size_t i = 0; i < s->n;) {
		judge_listed(s, s->entries[i], number);
		i = servers_breathe(s, i, &work);
		i += !servers_forget_at(s, i);
	}
	s->watch_lists = false;
	s->synced = true;
	/* From before a restore (R16), or out of a cache that is behind: then nothing is known of
	 * that. */
	if (number < s->list_version)
		s->list_version = 0;
	(void)pthread_cond_broadcast(&s->cond);
	(void)pthread_mutex_unlock(&s->lock);
	servers_tell(s);
}

const struct kube_watch_app servers_watch_app = {
	.listing = on_listing,
	.change = on_change,
	.listed = on_listed,
};
