/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: lists of the GPUServers past every cache, on a thread of their own, for those whose "no"
 * rests on one (rules R4, R14). */
#include <stdlib.h>

#include "base/clock.h"
#include "base/list.h"
#include "webhook/cluster/ledger/servers_impl.h"

/* Rule R4: at most four lists a second, and after one that took long as long a rest, up to a
 * second. One that fails is made again. */
#define LIST_EVERY_MS 250
#define LIST_REST_MS 1000
#define LIST_MS 10000
#define IDLE_MS 60000
#define NAMES_MAX (64u << 20)

/* One server of a list. What the picture knows already is not kept twice: of ten thousand servers
 * that would be as much as the picture itself. */
struct shown {
	const char *name;
	uint64_t number;   /* of the state that is known */
	struct held *held; /* NULL: it is known */
};

struct fresh {
	struct servers *s;
	struct arena arena; /* the names */
	struct shown *list;
	size_t n, cap;
	bool failed, partly; /* partly: one could not be read */
};

static void fresh_begin(void *ctx)
{
	struct fresh *f = ctx;

	for (size_t i = 0; i < f->n; i++)
		held_free(f->list[i].held);
	f->n = 0;
	f->partly = false;
	arena_reset(&f->arena);
}

/* Does the picture have it just so, and believe it? What is ahead is to be shown. */
static bool is_known(struct servers *s, const char *name, uint64_t number)
{
	const struct server_entry *e;
	bool yes;

	(void)pthread_mutex_lock(&s->lock);
	e = servers_find(s, name);
	yes = e && e->held && e->held->number == number && !e->held->object.hearsay && !e->ahead &&
	      e->unreadable <= number;
	(void)pthread_mutex_unlock(&s->lock);
	return yes;
}

static bool fresh_each(void *ctx, const struct json *j, const struct json_node *object)
{
	struct fresh *f = ctx;
	struct kube_meta m = kube_meta(j, object);
	struct shown at = {
		.name = arena_strdup(&f->arena, m.name), .number = kube_version_number(m.version)};
	struct err err = {0};

	/* A list without it would say that it is gone. */
	f->failed = !at.name || !LIST_ROOM(f->list, f->n, f->cap);
	if (f->failed)
		return false;
	if (is_known(f->s, at.name, at.number)) {
		f->list[f->n++] = at;
		return true;
	}
	at.held = held_read(j, object, &err);
	f->failed = !at.held && err.code == ERR_NOMEM;
	if (at.held)
		f->list[f->n++] = at;
	else if (!f->failed)
		servers_put_broken(f->s, m, &err);
	f->partly = f->partly || !at.held;
	return !f->failed;
}

static int by_name(const void *a, const void *b)
{
	const struct shown *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* One server of the list, which the picture has under this entry, or not. False: what was known is
 * not there any more, and is none that came later; or there is no memory for what is new. */
static bool bring_one(struct servers *s, const struct server_entry *e, struct shown *at)
{
	struct held *h = at->held;

	/* one that was known and is gone: the watch has told so since */
	if (!h)
		return !e || !e->held || e->held->number >= at->number;
	if (e && e->held && e->held->number == h->number && !e->held->object.hearsay && !e->ahead &&
		e->unreadable <= h->number)
		return true;
	h->known = e ? servers_known(s, e, LIST_REVIEWS) : 0;
	h->listed = s->lists[LIST_REVIEWS];
	at->held = NULL;
	return servers_put(s, h);
}

/* By rule R15 what the list showed is hearsay until all of it has come in: an older server of the
 * same machine may come later. */
static void believe_listed(struct servers *s)
{
	size_t work = 0;

	for (size_t i = 0; i < s->n; i++) {
		struct held *h = s->entries[i]->held;

		if (!h || !h->object.hearsay || h->listed != s->lists[LIST_REVIEWS])
			continue;
		h->object.hearsay = false;
		servers_recount(s, s->entries[i]);
		i = servers_breathe(s, i, &work);
	}
}

/* A whole list has been read: bring it into the picture. The marks of a list that the watch is
 * reading are left alone. Lock held, and let go every now and then. False: it does not fit what was
 * known while it was read. */
static bool bring_in(struct servers *s, struct fresh *f, uint64_t version)
{
	size_t work = 0;
	bool fits = true, went_back;

	went_back = s->list_version > version;
	s->list_comes_in = true;
	s->list_version = version;
	for (size_t i = 0, j = 0; i < s->n || j < f->n;) {
		struct server_entry *e = i < s->n ? s->entries[i] : NULL;
		int order = !e ? 1 : j < f->n ? strcmp(e->name, f->list[j].name) : -1;

		if (order > 0) {
			/* it comes before this entry, unless memory ran out */
			size_t before = s->n;

			fits = bring_one(s, NULL, &f->list[j++]) && fits;
			if (s->n > before)
				i = servers_breathe(s, i, &work) + 1;
			continue;
		}
		went_back = went_back ||
			    (!e->unreadable && servers_known(s, e, LIST_REVIEWS) > version);
		if (order == 0)
			fits = bring_one(s, e, &f->list[j++]) && fits;
		else if (!e->unreadable && e->held &&
			 (e->held->number <= version ||
				 e->held->number == servers_known(s, e, LIST_REVIEWS)))
			servers_drop(s, e);
		i = servers_breathe(s, i, &work);
		i += !servers_forget_at(s, i);
	}
	believe_listed(s);
	s->list_comes_in = false;
	/* By rule R16: the watches may wait for versions that are yet to come. */
	if (went_back)
		(void)kube_restored(s->kube);
	if (!fits)
		s->list_version = 0;
	return fits;
}

/* Lock held, and let go meanwhile. */
static void make_list(struct servers *s)
{
	struct fresh f = {.s = s};
	struct err err = {0};
	char version[32] = "";
	uint64_t mine = ++s->lists[LIST_REVIEWS];
	int64_t began = clock_ms(), now;
	int rc;

	arena_init(&f.arena, NAMES_MAX);
	(void)pthread_mutex_unlock(&s->lock);
	rc = kube_list(s->kube, SERVERS_PATH, LIST_MS, fresh_begin, fresh_each, &f, version, &err);
	if (f.failed)
		rc = err_set(&err, ERR_NOMEM, "out of memory for a list of GPUServers");
	if (f.n > 1)
		qsort(f.list, f.n, sizeof(*f.list), by_name);
	now = clock_ms();
	(void)pthread_mutex_lock(&s->lock);
	s->list_due_ms = began + LIST_EVERY_MS;
	if (now + (now - began) > s->list_due_ms)
		s->list_due_ms = now + (now - began < LIST_REST_MS ? now - began : LIST_REST_MS);
	if (rc == 0 && !bring_in(s, &f, kube_version_number(slice_of(version))))
		rc = err_set(&err, ERR_CONFLICT,
			"GPUServers went back, or memory ran out, while they were listed");
	if (rc == 0) {
		s->list_good = mine;
		s->list_partly = f.partly;
	} else {
		s->list_failed = mine;
		s->list_err = err;
	}
	(void)pthread_cond_broadcast(&s->cond);
	(void)pthread_mutex_unlock(&s->lock);
	fresh_begin(&f);
	arena_release(&f.arena);
	free(f.list);
	(void)pthread_mutex_lock(&s->lock);
}

static int64_t list_tick(void *ctx, struct duty *d)
{
	struct servers *s = ctx;
	int64_t wait = IDLE_MS, now = clock_ms();
	bool made = false;

	(void)d;
	(void)pthread_mutex_lock(&s->lock);
	if (!s->stopping && s->list_wanted > s->list_good && now < s->list_wanted_ms) {
		wait = s->list_due_ms - now;
		if (wait <= 0) {
			make_list(s);
			made = s->list_good == s->lists[LIST_REVIEWS];
			now = clock_ms();
			wait = s->list_wanted <= s->list_good ? IDLE_MS
			       : s->list_due_ms > now         ? s->list_due_ms - now
							      : 1;
		}
	}
	(void)pthread_mutex_unlock(&s->lock);
	if (made)
		servers_tell(s);
	return wait;
}

int servers_list_start(struct servers *s, struct err *err)
{
	s->lister = duty_start("servers-list", list_tick, s, err);
	return s->lister ? 0 : (int)err->code;
}

uint64_t servers_want_list(struct servers *s, int64_t deadline_ms)
{
	s->list_wanted = s->lists[LIST_REVIEWS] + 1;
	if (deadline_ms > s->list_wanted_ms)
		s->list_wanted_ms = deadline_ms;
	duty_wake(s->lister);
	return s->list_wanted;
}

bool servers_list_hopeless(const struct servers *s, uint64_t list, int64_t deadline_ms)
{
	return s->stopping || clock_ms() >= deadline_ms ||
	       (s->list_failed >= list && s->list_err.code == ERR_REFUSED);
}

int servers_list_error(const struct servers *s, uint64_t list, struct err *err)
{
	if (s->list_failed < list)
		return err_set(
			err, ERR_TIMEOUT, "the API server gave no list of GPUServers in time");
	if (err)
		*err = s->list_err;
	return (int)s->list_err.code;
}

int servers_refresh(struct servers *s, int64_t deadline_ms, struct err *err)
{
	uint64_t list;
	int rc = 0;

	(void)pthread_mutex_lock(&s->lock);
	list = servers_want_list(s, deadline_ms);
	while (s->list_good < list && rc == 0)
		if (servers_list_hopeless(s, list, deadline_ms))
			rc = servers_list_error(s, list, err);
		else
			(void)servers_wait(s, deadline_ms);
	(void)pthread_mutex_unlock(&s->lock);
	return rc;
}

bool servers_partly(struct servers *s)
{
	bool yes;

	(void)pthread_mutex_lock(&s->lock);
	yes = s->list_partly;
	(void)pthread_mutex_unlock(&s->lock);
	return yes;
}
