/* SPDX-License-Identifier: Apache-2.0 */
/* kube: list, then watch from there: what is asked for, and what follows from the answers. */
#include "kube/reflector.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "kube/kube_answer.h"
#include "kube/watch_reader.h"

/* A watch is asked to end after 4 to 6 minutes, so that not all watches of all clients come back at
 * one time. */
#define WATCH_S 240
#define WATCH_SPREAD_S 120
/* A list that gets too old between two pages is begun anew this often before that is an error. */
#define RESTARTS 2
/* So many refusals in a row: perhaps the version is the problem. */
#define REFUSALS_MAX 5
#define TOKEN_MAX 16384
#define REQUEST_MAX 65536

enum connection { CONNECTION_NEW, CONNECTION_UP, CONNECTION_DOWN };

struct reflector {
	struct reflector_config cfg;
	char *path, *resource; /* resource: the path without its query, for messages */
	uint64_t random;
	enum connection connection;
	char version[32];  /* where to watch from; "": list first */
	uint64_t highest;  /* version seen, as a number */
	unsigned failures; /* in a row */
	int64_t due_ms;    /* nothing is asked before */
	/* The list on its way. */
	bool listing;
	unsigned restarts;
	int64_t page_until_ms;
	struct kube_page page; /* the last one that came */
	/* The answer on its way. */
	bool asked;
	long status; /* 0: its head has not come */
	int64_t head_ms, heard_ms;
	struct buf request, body;
	struct json json;
	struct watch_reader reader;
	struct err err; /* why it is of no more use */
	bool stale;     /* and that may be the version's fault */
};

static bool watching(const struct reflector *r)
{
	return r->version[0] != '\0';
}

/* From 0 to n - 1: splitmix64. */
static int64_t dice(struct reflector *r, int64_t n)
{
	uint64_t x = r->random += 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return (int64_t)((x ^ (x >> 31)) % (uint64_t)n);
}

/* ---- whether it runs ---- */

static void up(struct reflector *r)
{
	if (r->connection == CONNECTION_UP)
		return;
	r->connection = CONNECTION_UP;
	r->cfg.app.connected(r->cfg.app.ctx, true, NULL);
}

static void down(struct reflector *r)
{
	if (r->connection == CONNECTION_DOWN)
		return;
	r->connection = CONNECTION_DOWN;
	r->cfg.app.connected(r->cfg.app.ctx, false, &r->err);
}

static void back_off(struct reflector *r, int64_t now_ms)
{
	int64_t ms = REFLECTOR_WAIT_FIRST_MS;

	for (unsigned i = 0; i < r->failures && ms < REFLECTOR_WAIT_LAST_MS; i++)
		ms *= 2;
	r->failures++;
	ms = ms < REFLECTOR_WAIT_LAST_MS ? ms : REFLECTOR_WAIT_LAST_MS;
	r->due_ms = now_ms + ms / 2 + dice(r, ms / 2 + 1);
}

/* ---- what is asked ---- */

static void add_watch(struct reflector *r)
{
	buf_fmt(&r->request,
		"%s%cwatch=true&allowWatchBookmarks=true&timeoutSeconds=%d&resourceVersion=",
		r->path, kube_separator(r->path), WATCH_S + (int)dice(r, WATCH_SPREAD_S));
	buf_percent(&r->request, slice_of(r->version));
}

static void add_page(struct reflector *r, int64_t now_ms)
{
	if (!r->listing) {
		r->listing = true;
		r->restarts = 0;
	}
	r->page_until_ms = now_ms + REFLECTOR_PAGE_MS;
	if (r->page.next.len == 0)
		r->cfg.app.listing(r->cfg.app.ctx);
	kube_page_path(&r->page, r->path, &r->request);
}

const char *reflector_ask(struct reflector *r, int64_t now_ms)
{
	if (r->asked || now_ms < r->due_ms)
		return NULL;
	buf_clear(&r->request);
	if (watching(r))
		add_watch(r);
	else
		add_page(r, now_ms);
	r->asked = true;
	r->status = 0;
	r->head_ms = r->heard_ms = now_ms;
	r->stale = false;
	err_clear(&r->err);
	buf_clear(&r->body);
	r->body.max = r->cfg.answer_max;
	watch_reader_reset(&r->reader);
	if (!r->request.failed)
		return r->request.data;
	(void)err_set(&r->err, ERR_NOMEM, "GET %s: no room for the path", r->resource);
	reflector_end(r, NULL, now_ms);
	return NULL;
}

/* ---- what comes ---- */

bool reflector_head(struct reflector *r, long status, int64_t now_ms)
{
	if (r->status == 0)
		r->head_ms = now_ms;
	r->status = status;
	r->heard_ms = now_ms;
	return r->err.code == ERR_NONE;
}

static int on_event(void *ctx, const struct watch_event *event, struct err *err)
{
	struct reflector *r = ctx;
	uint64_t number =
		kube_version_number((struct slice){event->version, strlen(event->version)});

	/* By rule R16: a list tells what there is now. */
	if (number && number < r->highest)
		return err_set(err, ERR_IO,
			"GET %s: after version %s came %s, as after a restore of etcd", r->resource,
			r->version, event->version);
	if (number)
		r->highest = number;
	r->failures = 0;
	up(r);
	memcpy(r->version, event->version, sizeof(r->version));
	return r->cfg.app.change(r->cfg.app.ctx, event->what, event->json, event->object, err);
}

/* The body had no room for more. */
static void too_long(struct reflector *r)
{
	size_t mib = r->cfg.answer_max >> 20;

	if (!r->body.full)
		(void)err_set(
			&r->err, ERR_NOMEM, "GET %s: out of memory for an answer", r->resource);
	else if (r->status != 200)
		(void)err_set(&r->err, ERR_TOOBIG,
			"GET %s was answered with status %ld and more than %zu MiB", r->resource,
			r->status, mib);
	else
		(void)err_set(&r->err, ERR_TOOBIG, "GET %s: a page of the list is over %zu MiB%s%s",
			r->resource, mib, r->cfg.advice ? "; " : "",
			r->cfg.advice ? r->cfg.advice : "");
}

bool reflector_body(struct reflector *r, struct slice bytes, int64_t now_ms)
{
	r->heard_ms = now_ms;
	if (r->err.code != ERR_NONE)
		return false;
	if (watching(r) && r->status == 200) {
		if (!watch_reader_read(&r->reader, bytes)) {
			r->err = r->reader.err;
			r->stale = true;
		}
	} else {
		buf_slice(&r->body, bytes);
		if (r->body.failed)
			too_long(r);
	}
	return r->err.code == ERR_NONE;
}

bool reflector_tick(struct reflector *r, int64_t now_ms)
{
	if (!r->asked || r->err.code != ERR_NONE)
		return !r->asked;
	/* An old version is told at once, in the stream; after a quiet second it was taken. */
	if (watching(r) && r->status == 200 && now_ms - r->head_ms >= REFLECTOR_GOOD_MS) {
		r->failures = 0;
		up(r);
	}
	/* Bookmarks come each minute. Perhaps a restored etcd waits for a version that is yet to
	 * come: another watch would, too. */
	r->stale = watching(r) && now_ms - r->heard_ms >= REFLECTOR_SILENCE_MS;
	if (r->stale)
		(void)err_set(&r->err, ERR_TIMEOUT, "GET %s: nothing came for %d s", r->resource,
			REFLECTOR_SILENCE_MS / 1000);
	if (!watching(r) && now_ms >= r->page_until_ms)
		(void)err_set(&r->err, ERR_TIMEOUT, "GET %s: the page did not come within %d s",
			r->resource, REFLECTOR_PAGE_MS / 1000);
	return r->err.code == ERR_NONE;
}

void reflector_anew(struct reflector *r)
{
	if (!watching(r))
		return;
	if (!r->asked) {
		r->version[0] = '\0';
		return;
	}
	r->stale = true;
	if (r->err.code == ERR_NONE)
		(void)err_set(&r->err, ERR_IO,
			"GET %s: another list says that versions have gone back, as after a "
			"restore of etcd",
			r->resource);
}

/* ---- how it ends ---- */

/* Answered, but not with what was asked for. */
static void read_refusal(struct reflector *r)
{
	(void)kube_read(&r->body, &r->json, NULL);
	(void)kube_failure(
		"GET", r->resource, r->status, &r->json, buf_as_slice(&r->body), &r->err);
}

static int put_objects(struct reflector *r, struct err *err)
{
	const struct json_node *items;
	const struct reflector_app *app = &r->cfg.app;
	int rc;

	if (r->cfg.tables)
		return app->change(app->ctx, KUBE_PUT, &r->json, json_root(&r->json), err);
	rc = kube_page_items(&r->json, r->resource, &items, err);
	if (rc != 0)
		return rc;
	JSON_EACH(&r->json, items, object)
	{
		rc = app->change(app->ctx, KUBE_PUT, &r->json, object, err);
		if (rc != 0)
			return rc;
	}
	return 0;
}

/* Rule R16: a consistent list is as new as all that was seen before it. */
static void see_version(struct reflector *r)
{
	uint64_t number = kube_version_number(slice_of(r->page.version));

	if (number && number < r->highest && r->cfg.app.restored)
		r->cfg.app.restored(r->cfg.app.ctx);
	if (number)
		r->highest = number;
}

static void read_page(struct reflector *r)
{
	struct err what = {0};
	int rc = kube_read(&r->body, &r->json, &what);

	if (rc != 0)
		(void)err_set(&r->err, (enum err_code)rc, "GET %s: the answer cannot be read: %s",
			r->resource, what.msg);
	else if (kube_page_read(&r->page, r->resource, &r->json, &r->err) == 0)
		see_version(r);
	if (r->err.code == ERR_NONE)
		(void)put_objects(r, &r->err);
}

static void finish_list(struct reflector *r)
{
	r->listing = false;
	memcpy(r->version, r->page.version, sizeof(r->version));
	r->cfg.app.listed(r->cfg.app.ctx, r->version);
	up(r);
}

static void end_list(struct reflector *r, int64_t now_ms)
{
	if (r->err.code == ERR_NONE && r->status != 200)
		read_refusal(r);
	else if (r->err.code == ERR_NONE)
		read_page(r);
	json_release(&r->json);
	buf_release(&r->body);
	r->due_ms = now_ms;
	if (r->err.code == ERR_NONE) {
		if (r->page.next.len == 0)
			finish_list(r);
		return;
	}
	buf_clear(&r->page.next);
	if (r->status == 410 && r->restarts++ < RESTARTS)
		return;
	r->listing = false;
	down(r);
	back_off(r, now_ms);
}

/* Is the version at fault? Who we are and whether there is time for us says nothing about it;
 * whatever else is wrong may. */
static bool blames_version(const struct reflector *r)
{
	if (r->status >= 400 && r->status < 500)
		return r->status != 401 && r->status != 403 && r->status != 408 && r->status != 429;
	return r->failures >= REFUSALS_MAX;
}

static void end_watch(struct reflector *r, int64_t now_ms)
{
	bool expired = r->reader.expired || r->status == 410;

	if (r->status != 0 && r->status != 200)
		r->stale = blames_version(r);
	if (r->status != 200 && r->err.code == ERR_NONE)
		read_refusal(r);
	json_release(&r->json);
	buf_release(&r->body);
	if (r->stale)
		r->version[0] = '\0';
	if (r->err.code != ERR_NONE && !expired)
		down(r);
	if (r->err.code != ERR_NONE || now_ms - r->head_ms < REFLECTOR_GOOD_MS)
		back_off(r, now_ms);
	else
		r->due_ms = now_ms;
}

void reflector_end(struct reflector *r, const struct err *why, int64_t now_ms)
{
	if (!r->asked)
		return;
	if (r->err.code == ERR_NONE && why)
		r->err = *why;
	if (watching(r))
		end_watch(r, now_ms);
	else
		end_list(r, now_ms);
	r->asked = false;
}

int64_t reflector_when(const struct reflector *r)
{
	int64_t good = r->head_ms + REFLECTOR_GOOD_MS, silent = r->heard_ms + REFLECTOR_SILENCE_MS;

	if (!r->asked)
		return r->due_ms;
	if (r->err.code != ERR_NONE)
		return r->heard_ms;
	if (!watching(r))
		return r->page_until_ms;
	if (r->status == 200 && (r->connection != CONNECTION_UP || r->failures > 0))
		return good < silent ? good : silent;
	return silent;
}

/* ---- life ---- */

int reflector_new(const struct reflector_config *cfg, struct reflector **ret, struct err *err)
{
	struct reflector *r = calloc(1, sizeof(*r));

	if (!r)
		return err_set(err, ERR_NOMEM, "out of memory for watching %s", cfg->path);
	r->cfg = *cfg;
	r->random = cfg->seed;
	r->path = strdup(cfg->path);
	r->resource = strndup(cfg->path, strcspn(cfg->path, "?"));
	buf_init(&r->page.next, TOKEN_MAX);
	buf_init(&r->request, REQUEST_MAX);
	buf_init(&r->body, cfg->answer_max);
	watch_reader_init(&r->reader, on_event, r);
	if (!r->path || !r->resource) {
		reflector_free(r);
		return err_set(err, ERR_NOMEM, "out of memory for watching %s", cfg->path);
	}
	*ret = r;
	return 0;
}

void reflector_free(struct reflector *r)
{
	if (!r)
		return;
	watch_reader_release(&r->reader);
	json_release(&r->json);
	buf_release(&r->page.next);
	buf_release(&r->request);
	buf_release(&r->body);
	free(r->path);
	free(r->resource);
	free(r);
}
