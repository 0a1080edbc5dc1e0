/* SPDX-License-Identifier: Apache-2.0 */
/* core: usage of a GPUServer: what stood there is added, periods begin and end (law P7). */
#include "webhook/core/server/usage_record.h"

#include <stdlib.h>

#include "base/text.h"
#include "webhook/core/server/server_object_impl.h"

/* The last second that RFC 3339 can say. */
#define TIME_MAX_S INT64_C(253402300799)
#define TEXT_MAX ((size_t)2 << 20)

/* ---- rows ---- */

/* The row that is to be charged: beyond so many a new one is the others'. */
static struct usage_row *charged(
	struct usage_period *p, const char *namespace, const char *model, struct arena *a)
{
	size_t n = p->n_rows;
	struct usage_row *r = usage_row(p, namespace, model, a);

	if (!r || p->n_rows == n || n < USAGE_ROWS_MAX)
		return r;
	memmove(r, r + 1, (size_t)(p->rows + p->n_rows - (r + 1)) * sizeof(*r));
	p->n_rows--;
	return usage_row(p, USAGE_OTHERS, USAGE_OTHERS, a);
}

/* The most bytes first; what is equal by name, so that every replica keeps the same. */
static int by_bytes(const void *a, const void *b)
{
	const struct usage_row *x = a, *y = b;

	if (x->byte_s != y->byte_s)
		return x->byte_s < y->byte_s ? 1 : -1;
	return usage_row_compare(x, y->namespace, y->model);
}

static int by_name(const void *a, const void *b)
{
	const struct usage_row *x = a, *y = b;

	return usage_row_compare(x, y->namespace, y->model);
}

static void fold(struct usage_period *p, struct arena *a)
{
	struct usage_row sum = {0}, *others;

	if (p->n_rows <= USAGE_ROWS_KEPT)
		return;
	qsort(p->rows, p->n_rows, sizeof(*p->rows), by_bytes);
	for (size_t i = USAGE_ROWS_KEPT; i < p->n_rows; i++)
		usage_row_add(&sum, &p->rows[i]);
	p->n_rows = USAGE_ROWS_KEPT;
	qsort(p->rows, p->n_rows, sizeof(*p->rows), by_name);
	others = usage_row(p, USAGE_OTHERS, USAGE_OTHERS, a);
	if (others)
		usage_row_add(others, &sum);
}

/* ---- adding ---- */

static usage_sum times(uint64_t n, int64_t seconds)
{
	return (usage_sum)n * (uint64_t)seconds;
}

/* What a GPU is called in a row: one line, and never nothing. */
static const char *model_of(const char *model, struct arena *a)
{
	char *clean;

	if (!model || !*model)
		return USAGE_OTHERS;
	if (!strpbrk(model, "\n"))
		return model;
	clean = arena_strdup(a, slice_of(model));
	for (char *c = clean; c && *c; c++)
		if (*c == '\n')
			*c = ' ';
	return clean;
}

/* What claims hold of one GPU, and what it is called. */
struct gpu_use {
	const char *model;
	uint64_t held;
};

/* Nobody counts a pod that nobody has seen. */
static bool counts(const struct claim *c)
{
	return c->state != CLAIM_PENDING;
}

/* Of this GPU; one that is not listed stands behind the others. */
static struct gpu_use *use_of(
	const struct server_status *s, struct gpu_use *use, const struct claim_part *part)
{
	ptrdiff_t gpu = server_status_gpu(s, slice_of(part->gpu));

	return &use[gpu < 0 ? s->n_gpus : (size_t)gpu];
}

/* For how many of the seconds from then on it is known what the claim's pod used. A gate tells it
 * of all GPUs together: of whose models differ nobody knows which it was. */
static int64_t known_for(const struct server_status *s, const struct claim_record *r,
	struct gpu_use *use, int64_t from_s, int64_t seconds)
{
	int64_t left = r->used_until_ms / 1000 - from_s;
	const struct claim *c = &r->claim;

	if (left <= 0)
		return 0;
	for (size_t k = 1; k < c->n_parts; k++)
		if (strcmp(use_of(s, use, &c->parts[k])->model,
			    use_of(s, use, &c->parts[0])->model) != 0)
			return 0;
	return left < seconds ? left : seconds;
}

static bool add_claim(struct usage_period *p, const struct server_status *s,
	const struct claim_record *r, struct gpu_use *use, int64_t seconds, struct arena *a)
{
	const struct claim *c = &r->claim;
	const char *namespace =
		text_dns_label(slice_of(c->namespace)) ? c->namespace : USAGE_OTHERS;
	int64_t known = known_for(s, r, use, p->at_s, seconds);

	for (size_t k = 0; k < c->n_parts; k++) {
		const struct claim_part *part = &c->parts[k];
		struct gpu_use *g = use_of(s, use, part);
		struct usage_row *row = charged(p, namespace, g->model, a);

		if (!row)
			return false;
		usage_row_add(row, &(struct usage_row){.byte_s = times(part->bytes, seconds),
					   .gpu_s = (usage_sum)(uint64_t)seconds,
					   .used = k == 0 ? times(r->used, known) : 0,
					   .known = times(part->bytes, known)});
		/* a GPU that is not listed has no bytes, so all of that is over */
		if (g == &use[s->n_gpus])
			p->over = usage_plus(p->over, times(part->bytes, seconds));
		else if (__builtin_add_overflow(g->held, part->bytes, &g->held))
			g->held = UINT64_MAX;
	}
	return true;
}

/* The server's four, each for itself. */
static void add_gpus(struct usage_period *p, const struct server_object *o,
	const struct gpu_use *use, int64_t seconds)
{
	for (size_t i = 0; i < o->status.n_gpus; i++) {
		const struct gpu *g = &o->status.gpus[i].gpu;
		uint64_t bytes = g->missing ? 0 : g->bytes;
		usage_sum *rest = server_gpu_usable(o, i) ? &p->free : &p->unfit;

		p->capacity = usage_plus(p->capacity, times(bytes, seconds));
		if (use[i].held > bytes)
			p->over = usage_plus(p->over, times(use[i].held - bytes, seconds));
		else
			*rest = usage_plus(*rest, times(bytes - use[i].held, seconds));
	}
}

/* False, or a->failed: out of memory. */
static bool accrue(struct usage_period *p, const struct server_object *before, int64_t until_s,
	struct arena *a)
{
	const struct server_status *s = &before->status;
	int64_t seconds = until_s - p->at_s;
	struct gpu_use *use;

	if (seconds <= 0)
		return true;
	use = arena_array(a, s->n_gpus + 1, sizeof(*use));
	if (!use)
		return false;
	for (size_t i = 0; i < s->n_gpus; i++)
		use[i].model = model_of(s->gpus[i].gpu.model, a);
	use[s->n_gpus].model = USAGE_OTHERS;
	for (size_t i = 0; i < s->n_claims && !a->failed; i++)
		if (counts(&s->claims[i].claim) && !add_claim(p, s, &s->claims[i], use, seconds, a))
			return false;
	add_gpus(p, before, use, seconds);
	p->at_s = until_s;
	return true;
}

void usage_record_close(struct usage_record *u, struct arena *a)
{
	u->closed = u->open;
	u->has_closed = true;
	u->open = (struct usage_period){0};
	u->has_open = false;
	fold(&u->closed, a);
}

/* A new one begins where the one before has ended. */
static void turn(struct usage_record *u, struct arena *a)
{
	int64_t at = u->open.at_s;

	usage_record_close(u, a);
	u->open = (struct usage_period){.from_s = at, .at_s = at};
	u->has_open = true;
}

bool usage_record_advance(
	struct usage_record *u, const struct server_object *before, int64_t now_s, struct arena *a)
{
	int64_t midnight;

	if (now_s > TIME_MAX_S)
		now_s = TIME_MAX_S;
	if (!u->has_open || now_s <= u->open.at_s)
		return true;
	midnight = now_s - now_s % USAGE_DAY_S;
	if (!u->has_closed && u->open.from_s < midnight) {
		if (!accrue(&u->open, before, midnight, a))
			return false;
		turn(u, a);
	}
	if (!accrue(&u->open, before, now_s, a))
		return false;
	if (!u->has_closed && u->open.n_rows > USAGE_ROWS_FULL)
		turn(u, a);
	return !a->failed;
}

/* ---- on an object ---- */

static const char *text_of(const struct usage_record *u, struct arena *a)
{
	const char *text = NULL;
	struct buf out;

	buf_init(&out, TEXT_MAX);
	usage_record_write(u, &out);
	if (out.failed)
		a->failed = true;
	else
		text = arena_strdup(a, buf_as_slice(&out));
	buf_release(&out);
	return text;
}

static bool read_of(const struct server_object *o, struct arena *a, struct usage_record *ret)
{
	const char *text = o->status.usage;
	struct err err = {0};

	*ret = (struct usage_record){0};
	return !text || usage_record_read(slice_of(text), a, ret, &err) == 0;
}

/* It has become that. */
static bool put(struct server_object *o, const struct usage_record *u, struct arena *a)
{
	const char *text = text_of(u, a);

	if (text)
		o->status.usage = text;
	return text;
}

bool server_usage_advance(struct server_object *o, int64_t wall_ms, struct arena *a)
{
	struct usage_record u;

	if (!o->status.usage || !*o->status.usage)
		return true;
	if (!read_of(o, a, &u) || !u.has_open || wall_ms / 1000 <= u.open.at_s)
		return !a->failed;
	return usage_record_advance(&u, o, wall_ms / 1000, a) && put(o, &u, a);
}

bool server_usage_begin(struct server_object *o, int64_t wall_ms, struct arena *a)
{
	struct usage_record u;
	int64_t now = wall_ms > 0 ? wall_ms / 1000 : 0;

	if (!read_of(o, a, &u) || u.has_open)
		return false;
	if (u.has_closed && now < u.closed.at_s)
		now = u.closed.at_s;
	u.open = (struct usage_period){.from_s = now, .at_s = now};
	u.has_open = true;
	return put(o, &u, a);
}

bool server_usage_end(struct server_object *o, struct arena *a)
{
	struct usage_record u;

	if (!read_of(o, a, &u) || !u.has_open || u.has_closed)
		return false;
	usage_record_close(&u, a);
	return put(o, &u, a);
}

const char *server_usage_closed(const struct server_object *o, struct arena *a, int64_t *ret_from_s)
{
	const char *text = o->status.usage;
	struct usage_record u;

	/* It stands first: of most servers no more is read. */
	if (!text || strncmp(text, USAGE_CLOSED, strlen(USAGE_CLOSED)) != 0 || !read_of(o, a, &u) ||
		!u.has_closed)
		return NULL;
	*ret_from_s = u.closed.from_s;
	u.has_open = false;
	return text_of(&u, a);
}

bool server_usage_drop(struct server_object *o, const char *closed, struct arena *a)
{
	struct usage_record u;
	int64_t from_s;
	const char *stands = server_usage_closed(o, a, &from_s);

	if (!stands || strcmp(stands, closed) != 0 || !read_of(o, a, &u))
		return false;
	u.has_closed = false;
	return put(o, &u, a);
}

bool server_usage_unstored(const struct server_object *o, struct arena *a)
{
	struct usage_record u;

	return read_of(o, a, &u) && (u.has_open || u.has_closed);
}
