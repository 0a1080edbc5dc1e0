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
	struct keep_list *seen;
	struct queue_kept *list;
	size_t n, cap;
};

static bool note_seen(struct keep_reading *r, const char *server, const struct kept_for *k)
{
	struct keep_list *l = r->seen;
	struct kept_part *gpus = arena_array(r->a, k->n_gpus, sizeof(*gpus));

	if (!gpus || !LIST_ROOM_IN(r->a, l->seen, l->n, l->cap))
		return false;
	for (size_t i = 0; i < k->n_gpus; i++)
		gpus[i] = (struct kept_part){.gpu = arena_strdup(r->a, slice_of(k->gpus[i].gpu)),
			.bytes = k->gpus[i].bytes};
	l->seen[l->n++] = (struct keep_seen){arena_strdup(r->a, slice_of(server)),
		{.uid = arena_strdup(r->a, slice_of(k->uid)), .gpus = gpus, .n_gpus = k->n_gpus}};
	return !r->a->failed;
}

/* k: as it was noted; the list goes by its texts. */
static bool add(struct keep_reading *r, const struct gpu_server *s, const struct kept_for *k)
{
	for (size_t i = 0; i < k->n_gpus; i++) {
		const struct gpu *g = inventory_gpu(s, slice_of(k->gpus[i].gpu));

		if (!g)
			continue;
		if (!LIST_ROOM_IN(r->a, r->list, r->n, r->cap))
			return false;
		r->list[r->n++] = (struct queue_kept){.uid = slice_of(k->uid),
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

	for (size_t i = 0; i < o->status.n_kept; i++)
		if (!note_seen(r, o->name, &o->status.kept[i]) ||
			(s && !add(r, s, &r->seen->seen[r->seen->n - 1].kept)))
			return false;
	return true;
}

int keep_read(struct claims *c, const struct inventory *inv, struct arena *a,
	struct keep_list *seen, struct queue_kept **ret, size_t *ret_n, struct err *err)
{
	struct keep_reading r = {.inv = inv, .a = a, .seen = seen};

	servers_each(c->cfg->servers, read_server, &r);
	if (a->failed)
		return err_set(err, ERR_NOMEM, "out of memory for the queue");
	queue_kept_order(r.list, r.n);
	*ret = r.list;
	*ret_n = r.n;
	return 0;
}

static bool same_kept(const struct kept_for *x, const struct kept_for *y)
{
	bool same = strcmp(x->uid, y->uid) == 0 && x->n_gpus == y->n_gpus;

	for (size_t i = 0; same && i < x->n_gpus; i++)
		same = x->gpus[i].bytes == y->gpus[i].bytes &&
		       strcmp(x->gpus[i].gpu, y->gpus[i].gpu) == 0;
	return same;
}

bool keep_known(const struct keep_list *seen, const char *server, const struct kept_for *k)
{
	for (size_t i = 0; i < seen->n; i++)
		if (strcmp(seen->seen[i].server, server) == 0 && same_kept(&seen->seen[i].kept, k))
			return true;
	return false;
}

/* ---- write ---- */

/* What one server is to say. */
struct keep_edit {
	const struct keep_list *seen;    /* NULL: whatever it says */
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
	for (size_t i = 0; e->seen && i < o->status.n_kept; i++)
		if (!keep_known(e->seen, o->name, &o->status.kept[i])) {
			(void)err_set(
				err, ERR_CONFLICT, "another leader keeps GPUs of %s", o->name);
			return EDIT_GIVE_UP;
		}
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
	const struct keep_list *seen;
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
	struct keep_edit e = {.seen = w->seen, .head = w->head};

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

bool keep_write(struct claims *c, const struct keep_list *seen, const struct inventory *inv,
	const struct queue_pod *head, const struct queue_kept *keep, size_t n)
{
	struct keep_writing w = {
		.c = c, .seen = seen, .inv = inv, .head = head, .keep = keep, .n = n};
	bool any = false;

	if (n == 0 && !c->now.keeps)
		return false;
	arena_init(&w.arena, 1u << 20);
	servers_each(c->cfg->servers, see_kept, &w);
	for (size_t i = 0; i < w.n_due && !w.arena.failed && !duty_stopping(c->self); i++) {
		struct keep_edit e = edit_of(&w, w.due[i]);
		struct err err = {0};

		any |= servers_edit(c->cfg->servers, w.due[i], edit_kept, &e,
			       clock_ms() + CLAIMS_CALL_MS, &err) == 0;
	}
	arena_release(&w.arena);
	return any;
}
