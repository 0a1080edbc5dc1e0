/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the leader's duty that keeps each GPUServer's own fields true. A server is looked at
 * when its version is new to us, or while it waits for something. */
#include "webhook/cluster/reconcile/server_keeper.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/rfc3339.h"
#include "webhook/cluster/duty/duty.h"
#include "webhook/core/server/server_keep.h"
#include "webhook/core/server/usage_record.h"

/* Between two looks at least: reviews change versions all the time. */
#define PAUSE_MS 250
#define WAITING_MS 1000
#define EVERY_MS 10000
#define EDIT_MS 5000
#define BODY_MAX_BYTES 65536
#define VERSION_SIZE 32
#define ARENA_MAX_BYTES ((size_t)16 << 20)

/* A server as we know it. */
struct known {
	char *name, *uid;
	char version[VERSION_SIZE];
	char done[VERSION_SIZE]; /* the version that is as it should be */
	int64_t since_ms; /* when this uid was first seen with GPUs and without the finalizer; 0:
			     never */
	bool deleting, finalizer;
	bool empty; /* deleting, and it may go */
	bool there; /* in the picture at this look */
	bool word;  /* the condition Unique is to be written, though no version is new */
};

struct server_keeper {
	struct duty *duty;
	const struct server_keeper_config *cfg;
	struct known *servers;
	size_t n, cap;
	size_t cursor; /* where find() begins */
	bool failed;   /* no memory while looking */
	bool told;     /* of something that cannot be written */
};

/* The picture is in the order of names and so are we, but for those that are new: the one that is
 * looked for is mostly the next. */
static struct known *find(struct server_keeper *k, const char *name)
{
	for (size_t i = 0; i < k->n; i++) {
		size_t at = (k->cursor + i) % k->n;

		if (strcmp(k->servers[at].name, name) == 0) {
			k->cursor = at + 1;
			return &k->servers[at];
		}
	}
	return NULL;
}

static int by_name(const void *a, const void *b)
{
	const struct known *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static void known_release(struct known *s)
{
	free(s->name);
	free(s->uid);
	*s = (struct known){0};
}

/* The one that is known by this name, or a new one, with this uid. NULL: no memory, and what is
 * known is as it was. */
static struct known *known_as(struct server_keeper *k, const struct server_object *o)
{
	struct known *s = find(k, o->name), next = {0};

	if (s && strcmp(s->uid, o->uid) == 0)
		return s;
	if (!s && !LIST_ROOM(k->servers, k->n, k->cap))
		return NULL;
	next.name = strdup(o->name);
	next.uid = strdup(o->uid);
	if (!next.name || !next.uid) {
		known_release(&next);
		return NULL;
	}
	if (s)
		known_release(s);
	else
		s = &k->servers[k->n++];
	*s = next;
	return s;
}

static void set_version(char to[static VERSION_SIZE], const char *from)
{
	size_t len = strnlen(from, VERSION_SIZE - 1);

	memcpy(to, from, len);
	to[len] = '\0';
}

/* May it go? Nobody holds anything of it, and what was used of it is stored (law P7). */
static bool is_empty(const struct server_object *o)
{
	struct arena a;
	bool unstored;

	if (o->status.n_claims > 0)
		return false;
	arena_init(&a, ARENA_MAX_BYTES);
	unstored = server_usage_unstored(o, &a) || a.failed;
	arena_release(&a);
	return !unstored;
}

/* ---- looking ---- */

static bool note(void *ctx, const struct server_object *o)
{
	struct server_keeper *k = ctx;
	struct known *s = known_as(k, o);

	if (!s) {
		k->failed = true;
		return false;
	}
	set_version(s->version, o->version);
	s->deleting = o->deleting;
	s->finalizer = o->finalizer;
	s->empty = o->deleting && is_empty(o);
	s->there = true;
	s->word = server_keep_unique_due(o);
	/* No pod can be given a claim on a server without GPUs, so a round of adoption says nothing
	 * about it. */
	if (s->finalizer || o->status.n_gpus == 0)
		s->since_ms = 0;
	else if (s->since_ms == 0)
		s->since_ms = clock_ms();
	return true;
}

static void look(struct server_keeper *k)
{
	size_t left = 0;

	k->failed = false;
	for (size_t i = 0; i < k->n; i++)
		k->servers[i].there = false;
	servers_each(k->cfg->servers, note, k);
	for (size_t i = 0; i < k->n; i++) {
		/* not all were looked at: nobody is forgotten */
		if (k->servers[i].there || k->failed)
			k->servers[left++] = k->servers[i];
		else
			known_release(&k->servers[i]);
	}
	k->n = left;
	k->cursor = 0;
	if (left > 1)
		qsort(k->servers, left, sizeof(*k->servers), by_name);
}

/* ---- the status ---- */

struct keeping {
	struct known *s;
	const char *now;
};

/* Only the version that was looked at is known to be as it should be, if nothing is changed on it:
 * by rule R16 one from before a change may come back. */
static enum edit_result keep(
	void *ctx, struct server_object *o, bool again, struct arena *a, struct err *err)
{
	const struct keeping *k = ctx;
	bool changed = server_keep_status(o, k->now, a);

	(void)again;
	if (a->failed) {
		err_set(err, ERR_NOMEM, "out of memory");
		return EDIT_GIVE_UP;
	}
	set_version(
		k->s->done, changed || strcmp(o->version, k->s->version) != 0 ? "" : o->version);
	return changed ? EDIT_CHANGED : EDIT_SAME;
}

/* ---- the finalizer ---- */

/* The merge patch that sets the list of finalizers, ours added or left out, on this very version.
 */
static void write_finalizers(
	const struct json *j, const struct json_node *root, bool want, struct buf *out)
{
	const struct json_node *list = json_path(j, root, "metadata", "finalizers", NULL);
	bool first = true;

	buf_str(out, "{\"metadata\":{\"uid\":");
	buf_json_str(out, kube_meta(j, root).uid);
	buf_str(out, ",\"resourceVersion\":");
	buf_json_str(out, kube_meta(j, root).version);
	buf_str(out, ",\"finalizers\":[");
	JSON_EACH(j, list, f)
	{
		if (json_is_str(j, f, SLICE(SERVER_FINALIZER)))
			continue;
		if (!first)
			buf_char(out, ',');
		first = false;
		buf_slice(out, json_raw(j, f));
	}
	if (want)
		buf_str(out, first ? "\"" SERVER_FINALIZER "\"" : ",\"" SERVER_FINALIZER "\"");
	buf_str(out, "]}}");
}

/* Judged on what the API server says now, past every cache. 0 also when there is nothing to do any
 * more. */
static int patch_finalizers(struct server_keeper *k, const struct known *s, struct kube_place at,
	const struct kube_answer *now, struct err *err)
{
	struct server_object o;
	struct arena arena;
	struct buf body;
	const struct kube_call call = {
		.method = "PATCH", .at = at, .content_type = KUBE_MERGE_PATCH, .text = &body};
	int rc;

	arena_init(&arena, ARENA_MAX_BYTES);
	buf_init(&body, BODY_MAX_BYTES);
	rc = server_object_read(&now->json, json_root(&now->json), &arena, &o, err);
	if (rc == 0 && strcmp(o.uid, s->uid) == 0 &&
		(o.deleting ? o.finalizer && is_empty(&o) : !o.finalizer)) {
		write_finalizers(&now->json, json_root(&now->json), !o.deleting, &body);
		rc = kube_do(k->cfg->kube, &call, NULL, err);
		if (rc == 0)
			log_line(k->cfg->log, LOG_LEVEL_INFO,
				o.deleting ? "server goes, no claim is on it any more"
					   : "server takes claims from now on",
				log_str("server", s->name));
	}
	buf_release(&body);
	arena_release(&arena);
	return rc;
}

static int keep_finalizer(struct server_keeper *k, const struct known *s, struct err *err)
{
	const struct kube_place at = {"/apis/" SERVER_API, NULL, "gpuservers", s->name, NULL};
	struct kube_answer now;
	int rc = kube_get_at(k->cfg->kube, at, 0, &now, err);

	if (rc == 0)
		rc = patch_finalizers(k, s, at, &now, err);
	kube_answer_release(&now);
	return rc;
}

/* Is it time to set or take away the finalizer? */
static bool finalizer_due(const struct server_keeper *k, const struct known *s)
{
	if (s->deleting)
		return s->finalizer && s->empty;
	if (s->finalizer || s->since_ms == 0)
		return false;
	return !k->cfg->adopted || k->cfg->adopted(k->cfg->adopted_ctx, s->since_ms);
}

/* ---- the duty ---- */

static void tell(struct server_keeper *k, const struct known *s, int rc, const struct err *err)
{
	/* gone, or changed in between: the next look sees it */
	if (rc == ERR_NOTFOUND || rc == ERR_CONFLICT)
		return;
	if (!k->told)
		log_line(k->cfg->log, LOG_LEVEL_WARN, "server cannot be kept true",
			log_str("server", s->name), log_str("error", err->msg));
	k->told = true;
}

/* True when there is nothing left to wait for. */
static bool serve(struct server_keeper *k, struct known *s, const char *now, bool *failed)
{
	struct keeping keeping = {s, now};
	struct err err = {0};
	bool waits = !s->finalizer || s->deleting;
	int rc = 0;

	if (strcmp(s->version, s->done) != 0 || s->word)
		rc = servers_edit(
			k->cfg->servers, s->name, keep, &keeping, clock_ms() + EDIT_MS, &err);
	if (rc == 0 && finalizer_due(k, s))
		rc = keep_finalizer(k, s, &err);
	if (rc != 0)
		tell(k, s, rc, &err);
	*failed = *failed || rc != 0;
	return rc == 0 && !waits;
}

static int64_t tick(void *ctx, struct duty *d)
{
	struct server_keeper *k = ctx;
	bool waiting = false, failed = false;
	char now[32];

	if (!servers_synced(k->cfg->servers))
		return WAITING_MS;
	rfc3339_write(clock_wall_ms(), now);
	look(k);
	for (size_t i = 0; i < k->n && !duty_stopping(d); i++)
		if (!serve(k, &k->servers[i], now, &failed))
			waiting = true;
	if (!failed)
		k->told = false;
	(void)duty_sleep(d, PAUSE_MS);
	return waiting || k->failed ? WAITING_MS : EVERY_MS;
}

static void stop(void *running)
{
	struct server_keeper *k = running;

	duty_stop(k->duty);
	for (size_t i = 0; i < k->n; i++)
		known_release(&k->servers[i]);
	free(k->servers);
	free(k);
}

static int start(void *ctx, void **ret, struct err *err)
{
	struct server_keeper *k = calloc(1, sizeof(*k));

	if (k)
		k->cfg = ctx;
	return duty_keep(k, "server-keeper", tick, ret, err);
}

struct leader_duty server_keeper_duty(struct server_keeper_config *cfg)
{
	return (struct leader_duty){.name = "server-keeper",
		.start = start,
		.stop = stop,
		.servers_changed = duty_wake_keeper,
		.ctx = cfg};
}
