/* SPDX-License-Identifier: Apache-2.0 */
/* core: growing sums out of periods that come and go. */
#include "webhook/core/server/usage_meter.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"

#define ARENA_MAX ((size_t)256 << 20)

/* What a server had counted when it was looked at. */
struct seen {
	const char *uid;
	struct usage_record u;
};

struct look {
	struct arena arena;
	struct seen *at;
	size_t n, room;
};

struct usage_meter {
	struct look now, before; /* the one that goes on, and the last one that ended */
	bool began;              /* one has ended */
	struct usage_totals totals;
};

static void look_init(struct look *l)
{
	*l = (struct look){0};
	arena_init(&l->arena, ARENA_MAX);
}

struct usage_meter *usage_meter_new(void)
{
	struct usage_meter *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	look_init(&m->now);
	look_init(&m->before);
	return m;
}

static void total_release(struct usage_total *t)
{
	free(t->namespace);
	free(t->policy);
	free(t->model);
}

void usage_meter_free(struct usage_meter *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->totals.n; i++)
		total_release(&m->totals.at[i]);
	free(m->totals.at);
	arena_release(&m->now.arena);
	arena_release(&m->before.arena);
	free(m);
}

const struct usage_totals *usage_meter_totals(const struct usage_meter *m)
{
	return &m->totals;
}

/* ---- looking ---- */

/* Rows share texts with the object, which does not stay. */
static void keep_texts(struct usage_period *p, struct arena *a)
{
	for (size_t i = 0; i < p->n_rows; i++) {
		p->rows[i].namespace = arena_strdup(a, slice_of(p->rows[i].namespace));
		p->rows[i].model = arena_strdup(a, slice_of(p->rows[i].model));
	}
}

static bool add_seen(struct look *l, const struct seen *s)
{
	if (!LIST_ROOM_IN(&l->arena, l->at, l->n, l->room))
		return false;
	l->at[l->n++] = *s;
	return true;
}

bool usage_meter_see(struct usage_meter *m, const struct server_object *o, int64_t now_s)
{
	struct arena *a = &m->now.arena;
	struct err err = {0};
	struct seen s = {0};

	if (!o->status.usage || a->failed)
		return !a->failed;
	if (usage_record_read(slice_of(o->status.usage), a, &s.u, &err) != 0)
		return !a->failed;
	if (!usage_record_advance(&s.u, o, now_s, a))
		return false;
	s.uid = arena_strdup(a, slice_of(o->uid));
	keep_texts(&s.u.closed, a);
	keep_texts(&s.u.open, a);
	return !a->failed && add_seen(&m->now, &s);
}

/* ---- adding ---- */

static int compare(
	const struct usage_total *t, const char *namespace, const char *policy, const char *model)
{
	int c = strcmp(t->namespace, namespace);

	if (c == 0)
		c = strcmp(t->policy, policy);
	return c ? c : strcmp(t->model, model);
}

/* Room for one more at that place. */
static bool make_room(struct usage_totals *t, size_t place)
{
	if (!LIST_ROOM(t->at, t->n, t->room))
		return false;
	memmove(&t->at[place + 1], &t->at[place], (t->n - place) * sizeof(*t->at));
	t->n++;
	return true;
}

/* Without memory, or room, it is the others'. */
static struct usage_total *total_of(
	struct usage_totals *t, const char *namespace, const char *policy, const char *model)
{
	size_t low = 0, high = t->n;
	struct usage_total made;

	while (low < high) {
		size_t mid = (low + high) / 2;
		int c = compare(&t->at[mid], namespace, policy, model);

		if (c == 0)
			return &t->at[mid];
		if (c < 0)
			low = mid + 1;
		else
			high = mid;
	}
	if (t->n >= USAGE_TOTALS_MAX)
		return &t->others;
	made = (struct usage_total){
		.namespace = strdup(namespace), .policy = strdup(policy), .model = strdup(model)};
	if (!made.namespace || !made.policy || !made.model || !make_room(t, low)) {
		total_release(&made);
		return &t->others;
	}
	t->at[low] = made;
	return &t->at[low];
}

/* What has come; *now is the larger of both from now on: a commit of a replica whose clock is
 * behind ours takes back what we have counted to our own, and that is not to count twice. */
static usage_sum grown(usage_sum before, usage_sum *now)
{
	usage_sum more = *now > before ? *now - before : 0;

	if (*now < before)
		*now = before;
	return more;
}

static void raise(usage_sum *total, usage_sum before, usage_sum *now)
{
	*total = usage_plus(*total, grown(before, now));
}

static struct usage_row grown_row(const struct usage_row *before, struct usage_row *now)
{
	return (struct usage_row){.byte_s = grown(before->byte_s, &now->byte_s),
		.gpu_s = grown(before->gpu_s, &now->gpu_s),
		.used = grown(before->used, &now->used),
		.known = grown(before->known, &now->known)};
}

static struct usage_row sum_of(const struct usage_period *p)
{
	struct usage_row sum = {0};

	for (size_t i = 0; i < p->n_rows; i++)
		usage_row_add(&sum, &p->rows[i]);
	return sum;
}

static bool is_others(const struct usage_row *row)
{
	return strcmp(row->namespace, USAGE_OTHERS) == 0 && strcmp(row->model, USAGE_OTHERS) == 0;
}

/* A period that ends folds small rows into one, of which most has been counted by name: what is the
 * others' is what all of it has grown by, less what the named ones have. */
static void add_rows(struct usage_totals *t, const struct usage_period *before,
	struct usage_period *now, usage_policy_fn *policy, void *ctx)
{
	static const struct usage_row nothing;
	struct usage_row was = sum_of(before), all, more;

	for (size_t i = 0; i < now->n_rows; i++) {
		struct usage_row *row = &now->rows[i];
		size_t at;
		const struct usage_row *old =
			usage_row_find(before, row->namespace, row->model, &at);
		struct usage_total *to;

		if (is_others(row))
			continue;
		more = grown_row(old ? old : &nothing, row);
		if (!(more.byte_s | more.gpu_s | more.used | more.known))
			continue;
		to = total_of(t, row->namespace, policy(ctx, row->namespace), row->model);
		usage_row_add(&to->sum, &more);
		usage_row_add(&was, &more);
	}
	all = sum_of(now);
	more = grown_row(&was, &all);
	usage_row_add(&t->others.sum, &more);
}

static int by_uid(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	return strcmp(x->uid, y->uid);
}

static const struct usage_period *same_period(const struct seen *old, const struct usage_period *p)
{
	if (old && old->u.has_closed && old->u.closed.from_s == p->from_s)
		return &old->u.closed;
	return old && old->u.has_open && old->u.open.from_s == p->from_s ? &old->u.open : NULL;
}

static void add_period(struct usage_meter *m, const struct seen *old, struct usage_period *p,
	usage_policy_fn *policy, void *ctx)
{
	static const struct usage_period nothing;
	const struct usage_period *before = same_period(old, p);

	/* Nobody knows how much of it others have counted. */
	if (!before && !m->began)
		return;
	if (!before)
		before = &nothing;
	raise(&m->totals.capacity, before->capacity, &p->capacity);
	raise(&m->totals.free, before->free, &p->free);
	raise(&m->totals.unfit, before->unfit, &p->unfit);
	raise(&m->totals.over, before->over, &p->over);
	add_rows(&m->totals, before, p, policy, ctx);
}

void usage_meter_end(struct usage_meter *m, usage_policy_fn *policy, void *ctx)
{
	struct look *now = &m->now, *before = &m->before, ended;

	if (now->n > 0)
		qsort(now->at, now->n, sizeof(*now->at), by_uid);
	for (size_t i = 0; i < now->n && !now->arena.failed; i++) {
		struct seen *s = &now->at[i];
		const struct seen *old =
			before->n > 0 ? bsearch(s, before->at, before->n, sizeof(*s), by_uid)
				      : NULL;

		if (s->u.has_closed)
			add_period(m, old, &s->u.closed, policy, ctx);
		if (s->u.has_open)
			add_period(m, old, &s->u.open, policy, ctx);
	}
	if (!now->arena.failed) {
		m->began = true;
		ended = *before;
		*before = *now;
		*now = ended;
	}
	arena_reset(&now->arena);
	*now = (struct look){.arena = now->arena};
}
