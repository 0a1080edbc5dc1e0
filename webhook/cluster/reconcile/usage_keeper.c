/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the leader's duty for usage. What has ended stands in a server's status until it is
 * stored; only what this replica knows to be stored is dropped there, by name of its period. So a
 * leader may die anywhere, and two may do the same: nothing is lost, and what is stored twice is
 * known by server and period. */
#include "webhook/cluster/reconcile/usage_keeper.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "webhook/cluster/duty/duty.h"
#include "webhook/core/server/usage_record.h"
#include "webhook/edge/metrics/metrics.h"

#define EVERY_MS 10000
#define ABSENT_MS 60000
#define WAITING_MS 1000
#define EDIT_MS 5000
#define ARENA_MAX ((size_t)16 << 20)
/* An object of etcd has 1.5 MiB, and one server's period is less than 100 KB: no other is added
 * behind so much. */
#define OBJECT_FULL ((size_t)800 * 1000)
#define BODY_MAX_BYTES ((size_t)2 << 20)
#define DAY_SIZE 10

/* What a server's usage waits for. */
enum need {
	NEED_NOTHING,
	NEED_BEGIN,
	NEED_TURN, /* its day is over, and nobody commits */
	NEED_END
};

/* A server that needs something. */
struct due {
	char *name;
	char *closed; /* the period that is to be stored; NULL where there is none */
};

struct dues {
	struct due *at;
	size_t n, cap;
	bool failed; /* no memory: not all are in it */
};

struct usage_keeper {
	struct duty *duty;
	const struct usage_keeper_config *cfg;
	bool told; /* that nothing can be stored */
	bool told_unknown;
};

/* One look at all servers. */
struct look {
	struct usage_keeper *k;
	struct dues dues;
	struct arena arena; /* for one server's record at a time */
	char *unknown;      /* the first server whose text cannot be read */
	/* for storing: */
	struct buf periods; /* elements of the object's list */
	char day[RFC3339_SIZE];
	bool more;
};

static void due_release(struct due *due)
{
	free(due->name);
	free(due->closed);
}

static bool add(struct dues *d, const char *name, const char *closed)
{
	if (!LIST_ROOM(d->at, d->n, d->cap))
		return false;
	d->at[d->n] = (struct due){strdup(name), closed ? strdup(closed) : NULL};
	if (d->at[d->n].name && (!closed || d->at[d->n].closed)) {
		d->n++;
		return true;
	}
	due_release(&d->at[d->n]);
	return false;
}

static void dues_release(struct dues *d)
{
	for (size_t i = 0; i < d->n; i++)
		due_release(&d->at[i]);
	free(d->at);
	*d = (struct dues){0};
}

static void look_init(struct look *l, struct usage_keeper *k)
{
	*l = (struct look){.k = k};
	arena_init(&l->arena, ARENA_MAX);
	buf_init(&l->periods, BODY_MAX_BYTES);
}

static void look_release(struct look *l)
{
	dues_release(&l->dues);
	free(l->unknown);
	arena_release(&l->arena);
	buf_release(&l->periods);
}

/* ---- begin, turn, end ---- */

/* Is usage to be counted here? A server that goes is counted until its last claim has gone. */
static bool wanted(const struct usage_keeper_config *cfg, const struct server_object *o)
{
	return cfg->enabled && o->finalizer && (!o->deleting || o->status.n_claims > 0);
}

/* *ret_unknown: its text cannot be read, nothing is done to it. */
static enum need need_of(const struct usage_keeper_config *cfg, const struct server_object *o,
	int64_t now_s, struct arena *a, bool *ret_unknown)
{
	const char *text = o->status.usage ? o->status.usage : "";
	struct usage_record u;
	struct err err = {0};

	*ret_unknown = false;
	if (usage_record_read(slice_of(text), a, &u, &err) != 0) {
		*ret_unknown = err.code == ERR_INVALID;
		return NEED_NOTHING;
	}
	if (!u.has_open)
		return wanted(cfg, o) ? NEED_BEGIN : NEED_NOTHING;
	if (u.has_closed)
		return NEED_NOTHING;
	if (!wanted(cfg, o))
		return NEED_END;
	return now_s / USAGE_DAY_S > u.open.from_s / USAGE_DAY_S && now_s > u.open.at_s
		       ? NEED_TURN
		       : NEED_NOTHING;
}

static bool note_need(void *ctx, const struct server_object *o)
{
	struct look *l = ctx;
	bool unknown;

	arena_reset(&l->arena);
	if (need_of(l->k->cfg, o, kube_wall_ms(l->k->cfg->kube) / 1000, &l->arena, &unknown) !=
		NEED_NOTHING)
		l->dues.failed = !add(&l->dues, o->name, NULL) || l->dues.failed;
	if (unknown && !l->unknown)
		l->unknown = strdup(o->name);
	return true;
}

/* Whoever commits has counted until now, and turned the page where the day is over: then that is
 * what there is to write. */
static enum edit_result edit_need(
	void *ctx, struct server_object *o, bool again, struct arena *a, struct err *err)
{
	const struct usage_keeper *k = ctx;
	int64_t now_ms = kube_wall_ms(k->cfg->kube);
	bool unknown, changed = true;

	(void)again;
	switch (need_of(k->cfg, o, now_ms / 1000, a, &unknown)) {
	case NEED_BEGIN:
		changed = server_usage_begin(o, now_ms, a);
		break;
	case NEED_END:
		changed = server_usage_end(o, a);
		break;
	case NEED_TURN:
	case NEED_NOTHING:
		break;
	}
	if (a->failed) {
		err_set(err, ERR_NOMEM, "out of memory");
		return EDIT_GIVE_UP;
	}
	return changed ? EDIT_CHANGED : EDIT_SAME;
}

/* True when nothing failed. */
static bool serve_needs(struct usage_keeper *k, const struct duty *d)
{
	struct look l;
	bool good;

	look_init(&l, k);
	servers_each(k->cfg->servers, note_need, &l);
	good = !l.dues.failed;
	for (size_t i = 0; i < l.dues.n && !duty_stopping(d); i++) {
		struct err err = {0};
		int rc = servers_edit(k->cfg->servers, l.dues.at[i].name, edit_need, k,
			clock_ms() + EDIT_MS, &err);

		good = good && (rc == 0 || rc == ERR_NOTFOUND);
	}
	if (l.unknown && !k->told_unknown)
		log_line(k->cfg->log, LOG_LEVEL_WARN, "usage cannot be read: nobody counts there",
			log_str("server", l.unknown));
	k->told_unknown = l.unknown != NULL;
	look_release(&l);
	return good;
}

/* ---- storing ---- */

/* An object holds periods that began on one day. */
static bool note_closed(void *ctx, const struct server_object *o)
{
	struct look *l = ctx;
	struct buf *out = &l->periods;
	char day[RFC3339_SIZE];
	const char *closed;
	int64_t from_s;

	arena_reset(&l->arena);
	closed = server_usage_closed(o, &l->arena, &from_s);
	if (!closed)
		return true;
	rfc3339_write(from_s * 1000, day);
	day[DAY_SIZE] = '\0';
	if (l->dues.n == 0)
		memcpy(l->day, day, sizeof(day));
	if (out->len > OBJECT_FULL || strcmp(day, l->day) != 0) {
		l->more = true;
		return true;
	}
	buf_str(out, out->len > 0 ? ",{\"server\":" : "{\"server\":");
	buf_json_str(out, slice_of(o->name));
	buf_str(out, ",\"uid\":");
	buf_json_str(out, slice_of(o->uid));
	buf_str(out, ",\"usage\":");
	buf_json_str(out, slice_of(closed));
	buf_char(out, '}');
	l->dues.failed = !add(&l->dues, o->name, closed);
	return !l->dues.failed;
}

/* Behind a conflict etcd may have been restored, and what was stored have gone with it: the next
 * round stores it again, as the same. */
static enum edit_result edit_drop(
	void *ctx, struct server_object *o, bool again, struct arena *a, struct err *err)
{
	const struct due *due = ctx;
	bool changed;

	if (again) {
		err_set(err, ERR_CONFLICT, "the status of %s has changed meanwhile", o->name);
		return EDIT_GIVE_UP;
	}
	changed = server_usage_drop(o, due->closed, a);
	if (a->failed) {
		err_set(err, ERR_NOMEM, "out of memory");
		return EDIT_GIVE_UP;
	}
	return changed ? EDIT_CHANGED : EDIT_SAME;
}

/* Make the object. Its name says what it holds, so one of that name holds the same. */
static int make(const struct usage_keeper *k, const struct look *l, struct err *err)
{
	struct buf body;
	const struct kube_call call = {.method = "POST", .path = USAGES_PATH, .text = &body};
	int rc;

	buf_init(&body, BODY_MAX_BYTES);
	buf_fmt(&body,
		"{\"apiVersion\":\"" SERVER_API "\",\"kind\":\"GPUUsage\",\"metadata\":{\"name\":"
		"\"%s-%016llx\"},\"periods\":[",
		l->day, (unsigned long long)text_hash64(buf_as_slice(&l->periods)));
	buf_slice(&body, buf_as_slice(&l->periods));
	buf_str(&body, "]}");
	rc = l->periods.failed || l->dues.failed ? err_set(err, ERR_NOMEM, "out of memory")
						 : kube_do(k->cfg->kube, &call, NULL, err);
	buf_release(&body);
	return rc == ERR_CONFLICT ? 0 : rc;
}

/* No such kind, or no right to it. */
static bool absent(int rc)
{
	return rc == ERR_NOTFOUND || rc == ERR_REFUSED;
}

static void tell(struct usage_keeper *k, const struct err *err)
{
	if (!k->told)
		log_line(k->cfg->log, LOG_LEVEL_WARN,
			"usage cannot be stored, and stays in the GPUServers' status: is "
			"components/usage installed?",
			log_str("error", err->msg));
	k->told = true;
}

/* Store what has ended on one day, then forget it. *ret_more: there is some left. */
static int store_some(struct usage_keeper *k, const struct duty *d, bool *ret_more)
{
	struct err err = {0};
	struct look l;
	int rc = 0;

	look_init(&l, k);
	servers_each(k->cfg->servers, note_closed, &l);
	if (l.dues.n > 0 || l.dues.failed)
		rc = make(k, &l, &err);
	if (rc != 0)
		tell(k, &err);
	else if (l.dues.n > 0)
		log_line(k->cfg->log, LOG_LEVEL_INFO, "usage is stored", log_str("day", l.day),
			log_int("servers", (int64_t)l.dues.n));
	for (size_t i = 0; rc == 0 && i < l.dues.n && !duty_stopping(d); i++) {
		int dropped = servers_edit(k->cfg->servers, l.dues.at[i].name, edit_drop,
			&l.dues.at[i], clock_ms() + EDIT_MS, &err);

		/* it is stored again, as the same, and then forgotten */
		if (dropped != 0 && dropped != ERR_NOTFOUND && dropped != ERR_CONFLICT)
			rc = dropped;
	}
	if (l.dues.n > 0 || l.dues.failed)
		metric_add(
			k->cfg->metrics, M_USAGE_STORES, rc == 0 ? STORE_DONE : STORE_FAILED, 0, 1);
	k->told = k->told && rc != 0;
	*ret_more = rc == 0 && l.more;
	look_release(&l);
	return rc;
}

/* ---- the duty ---- */

static int64_t usual(int set_ms, int64_t usual_ms)
{
	return set_ms ? set_ms : usual_ms;
}

static int64_t tick(void *ctx, struct duty *d)
{
	struct usage_keeper *k = ctx;
	bool good, more = true;
	int rc = 0;

	if (!servers_synced(k->cfg->servers))
		return usual(k->cfg->every_ms, WAITING_MS);
	good = serve_needs(k, d);
	while (rc == 0 && more && !duty_stopping(d))
		rc = store_some(k, d, &more);
	if (absent(rc))
		return usual(k->cfg->absent_ms, ABSENT_MS);
	return usual(k->cfg->every_ms, good && rc == 0 ? EVERY_MS : WAITING_MS);
}

static int start(void *ctx, void **ret, struct err *err)
{
	struct usage_keeper *k = calloc(1, sizeof(*k));

	if (k)
		k->cfg = ctx;
	return duty_keep(k, "usage-keeper", tick, ret, err);
}

struct leader_duty usage_keeper_duty(struct usage_keeper_config *cfg)
{
	return (struct leader_duty){
		.name = "usage-keeper", .start = start, .stop = duty_free_keeper, .ctx = cfg};
}
