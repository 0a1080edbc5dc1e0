/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what frees up for a pod that has waited for long is kept for it (law W6 of waiting): the
 * GPUServers' statuses say so, so that every replica counts it as taken, and the next leader goes
 * on with it. */
#include "base/clock.h"
#include "base/list.h"
#include "webhook/cluster/claims/claims_impl.h"

/* ---- read ---- */

struct keep_reading {
	const struct inventory *inv;
	struct arena *a;
	struct queue_kept *list;
	size_t n, cap;
};

static bool add(struct keep_reading *r, const struct gpu_server *s, const struct kept_for *k)
{
	for (size_t i = 0; i < k->n_gpus; i++) {
		const struct gpu *g = inventory_gpu(s, slice_of(k->gpus[i].gpu));

		if (!g)
			continue;
		if (!LIST_ROOM_IN(r->a, r->list, r->n, r->cap))
			return false;
		r->list[r->n++] = (struct queue_kept){.uid = arena_slice(r->a, slice_of(k->uid)),
			.server = (size_t)(s - r->inv->servers),
			.gpu = (size_t)(g - s->gpus),
			.bytes = k->gpus[i].bytes};
	}
	return true;
}

static bool read_server(void *ctx, const struct server_object *o)
{
	struct keep_reading *r = ctx;
	const struct gpu_server *s =
		o->status.n_kept ? inventory_server(r->inv, slice_of(o->name)) : NULL;

	for (size_t i = 0; s && i < o->status.n_kept; i++)
		if (!add(r, s, &o->status.kept[i]))
			return false;
	return true;
}

int keep_read(struct claims *c, const struct inventory *inv, struct arena *a,
	struct queue_kept **ret, size_t *ret_n, struct err *err)
{
	struct keep_reading r = {.inv = inv, .a = a};

	servers_each(c->cfg->servers, read_server, &r);
	if (a->failed)
		return err_set(err, ERR_NOMEM, "out of memory for the queue");
	queue_kept_order(r.list, r.n);
	*ret = r.list;
	*ret_n = r.n;
	return 0;
}

bool keep_known(const struct adoption *a, const char *server, const struct kept_for *k)
{
	const struct inventory *inv = &a->pool.inventory;
	size_t n = 0;

	for (size_t i = 0; i < a->n_kept; i++) {
		const struct queue_kept *known = &a->kept[i];
		const struct gpu_server *s = &inv->servers[known->server];

		if (strcmp(s->name, server) != 0 || !slice_is(known->uid, k->uid))
			continue;
		for (size_t g = 0; g < k->n_gpus; g++)
			n += strcmp(s->gpus[known->gpu].id, k->gpus[g].gpu) == 0 &&
			     known->bytes == k->gpus[g].bytes;
	}
	return n == k->n_gpus;
}

/* ---- write ---- */

/* What one server is to say. */
struct keep_edit {
	const struct gpu_server *server; /* NULL: nothing */
	const struct queue_pod *head;
	const struct queue_kept *keep; /* of this server alone */
	size_t n;
};

static bool says_so(const struct server_object *o, const struct keep_edit *e)
{
	const struct kept_for *k = o->status.kept;

	if (o->status.n_kept != (e->n > 0))
		return false;
	if (e->n == 0)
		return true;
	if (!slice_is(e->head->uid, k->uid) || k->n_gpus != e->n)
		return false;
	for (size_t i = 0; i < e->n; i++)
		if (k->gpus[i].bytes != e->keep[i].bytes ||
			strcmp(k->gpus[i].gpu, e->server->gpus[e->keep[i].gpu].id) != 0)
			return false;
	return true;
}

static enum edit_result edit_kept(
	void *ctx, struct server_object *o, bool again, struct arena *a, struct err *err)
{
	const struct keep_edit *e = ctx;
	struct kept_for *k;

	(void)again;
	if (says_so(o, e))
		return EDIT_SAME;
	if (e->n == 0) {
		o->status.n_kept = 0;
		return EDIT_CHANGED;
	}
	k = arena_alloc(a, sizeof(*k));
	if (k && o->status.n_kept == 1 && slice_is(e->head->uid, o->status.kept->uid))
		*k = *o->status.kept;
	else if (k)
		*k = (struct kept_for){.uid = arena_strdup(a, e->head->uid),
			.namespace = arena_strdup(a, e->head->namespace),
			.name = arena_strdup(a, e->head->name),
			.since_ms = clock_wall_ms()};
	if (k)
		k->gpus = arena_array(a, e->n, sizeof(*k->gpus));
	if (!k || a->failed) {
		(void)err_set(err, ERR_NOMEM, "out of memory for what is kept");
		return EDIT_GIVE_UP;
	}
	k->n_gpus = e->n;
	for (size_t i = 0; i < e->n; i++)
		k->gpus[i] = (struct kept_part){
			.gpu = arena_strdup(a, slice_of(e->server->gpus[e->keep[i].gpu].id)),
			.bytes = e->keep[i].bytes};
	o->status.kept = k;
	o->status.n_kept = 1;
	return EDIT_CHANGED;
}

struct keep_writing {
	struct claims *c;
	const struct inventory *inv;
	const struct queue_pod *head;
	const struct queue_kept *keep;
	size_t n;
	struct arena arena;
	const char **due; /* servers that say something else */
	size_t n_due, cap;
};

static struct keep_edit edit_of(const struct keep_writing *w, const char *name)
{
	struct keep_edit e = {.head = w->head};

	for (size_t i = 0; i < w->n; i++) {
		const struct gpu_server *s = &w->inv->servers[w->keep[i].server];

		if (strcmp(s->name, name) != 0)
			continue;
		if (e.n++ == 0)
			e.keep = &w->keep[i];
		e.server = s;
	}
	return e;
}

static bool see_kept(void *ctx, const struct server_object *o)
{
	struct keep_writing *w = ctx;
	struct keep_edit e = edit_of(w, o->name);

	if (says_so(o, &e))
		return true;
	if (!LIST_ROOM_IN(&w->arena, w->due, w->n_due, w->cap))
		return false;
	w->due[w->n_due] = arena_strdup(&w->arena, slice_of(o->name));
	return w->due[w->n_due++] != NULL;
}

bool keep_write(struct claims *c, const struct inventory *inv, const struct queue_pod *head,
	const struct queue_kept *keep, size_t n)
{
	struct keep_writing w = {.c = c, .inv = inv, .head = head, .keep = keep, .n = n};
	bool any = false;

	if (n == 0 && !c->now.keeps)
		return false;
	arena_init(&w.arena, 1u << 20);
	servers_each(c->cfg->servers, see_kept, &w);
	for (size_t i = 0; i < w.n_due && !w.arena.failed && !duty_stopping(c->self); i++) {
		struct keep_edit e = edit_of(&w, w.due[i]);
		struct err err = {0};

		if (servers_edit(c->cfg->servers, w.due[i], edit_kept, &e,
			    clock_ms() + CLAIMS_CALL_MS, &err) == 0)
			any = true;
		else
			claims_until(c, clock_ms() + CLAIMS_AWAY_MS);
	}
	arena_release(&w.arena);
	return any;
}
