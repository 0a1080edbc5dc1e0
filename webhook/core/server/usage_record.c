/* SPDX-License-Identifier: Apache-2.0 */
/* core: usage as a text: read, added to, written (law P7). */
#include "webhook/core/server/usage_record.h"

#include <stdlib.h>

#include "base/rfc3339.h"
#include "base/text.h"
#include "webhook/core/server/server_object_impl.h"

#define SUM_MAX (~(usage_sum)0)
/* The last second that RFC 3339 can say. */
#define TIME_MAX_S INT64_C(253402300799)
#define TEXT_MAX ((size_t)2 << 20)
#define CLOSED "closed"
#define OPEN "open"

usage_sum usage_plus(usage_sum a, usage_sum b)
{
	return a > SUM_MAX - b ? SUM_MAX : a + b;
}

static usage_sum times(uint64_t n, int64_t seconds)
{
	return (usage_sum)n * (uint64_t)seconds;
}

/* ---- rows ---- */

static int compare(const struct usage_row *r, const char *namespace, const char *model)
{
	int c = strcmp(r->namespace, namespace);

	return c ? c : strcmp(r->model, model);
}

static bool grow(struct usage_period *p, struct arena *a)
{
	size_t room = p->room ? 2 * p->room : 16;
	struct usage_row *rows = arena_space(a, room, sizeof(*rows));

	if (!rows)
		return false;
	if (p->n_rows > 0)
		memcpy(rows, p->rows, p->n_rows * sizeof(*rows));
	p->rows = rows;
	p->room = room;
	return true;
}

struct usage_row *usage_row(
	struct usage_period *p, const char *namespace, const char *model, struct arena *a)
{
	size_t low = 0, high = p->n_rows;

	while (low < high) {
		size_t mid = (low + high) / 2;
		int c = compare(&p->rows[mid], namespace, model);

		if (c == 0)
			return &p->rows[mid];
		if (c < 0)
			low = mid + 1;
		else
			high = mid;
	}
	if (p->n_rows == p->room && !grow(p, a))
		return NULL;
	memmove(&p->rows[low + 1], &p->rows[low], (p->n_rows - low) * sizeof(*p->rows));
	p->n_rows++;
	p->rows[low] = (struct usage_row){.namespace = namespace, .model = model};
	return &p->rows[low];
}

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
	return compare(x, y->namespace, y->model);
}

static int by_name(const void *a, const void *b)
{
	const struct usage_row *x = a, *y = b;

	return compare(x, y->namespace, y->model);
}

static void fold(struct usage_period *p, struct arena *a)
{
	struct usage_row sum = {0}, *others;

	if (p->n_rows <= USAGE_ROWS_KEPT)
		return;
	qsort(p->rows, p->n_rows, sizeof(*p->rows), by_bytes);
	for (size_t i = USAGE_ROWS_KEPT; i < p->n_rows; i++) {
		sum.byte_s = usage_plus(sum.byte_s, p->rows[i].byte_s);
		sum.gpu_s = usage_plus(sum.gpu_s, p->rows[i].gpu_s);
	}
	p->n_rows = USAGE_ROWS_KEPT;
	qsort(p->rows, p->n_rows, sizeof(*p->rows), by_name);
	others = usage_row(p, USAGE_OTHERS, USAGE_OTHERS, a);
	if (!others)
		return;
	others->byte_s = usage_plus(others->byte_s, sum.byte_s);
	others->gpu_s = usage_plus(others->gpu_s, sum.gpu_s);
}

/* ---- reading ---- */

static int wrong(struct err *err)
{
	return err_set(err, ERR_INVALID, "found no record of usage that this version knows");
}

static bool read_sum(struct slice *line, usage_sum *ret)
{
	struct slice word;
	usage_sum n = 0;

	if (!text_word(line, &word) || word.len >= USAGE_SUM_SIZE)
		return false;
	for (size_t i = 0; i < word.len; i++) {
		unsigned digit = (unsigned)(unsigned char)word.at[i] - '0';

		if (digit > 9 || n > (SUM_MAX - digit) / 10)
			return false;
		n = n * 10 + digit;
	}
	*ret = n;
	return true;
}

static bool read_time(struct slice *line, int64_t *ret_s)
{
	struct slice word;
	int64_t ms;

	if (!text_word(line, &word) || !rfc3339_read(word, &ms) || ms < 0)
		return false;
	*ret_s = ms / 1000;
	return true;
}

/* "closed" or "open", and what stands behind. */
static bool read_head(struct slice line, struct usage_record *u, struct usage_period **ret)
{
	struct slice word;
	struct usage_period p = {0};
	bool closed;

	if (!text_word(&line, &word))
		return false;
	closed = slice_is(word, CLOSED);
	if ((!closed && !slice_is(word, OPEN)) || u->has_open || (closed && u->has_closed) ||
		!read_time(&line, &p.from_s) || !read_time(&line, &p.at_s) || p.at_s < p.from_s ||
		!read_sum(&line, &p.capacity) || !read_sum(&line, &p.free) ||
		!read_sum(&line, &p.unfit) || !read_sum(&line, &p.over) || text_word(&line, &word))
		return false;
	*ret = closed ? &u->closed : &u->open;
	**ret = p;
	*(closed ? &u->has_closed : &u->has_open) = true;
	return true;
}

static bool read_row(struct slice line, struct usage_period *p, struct arena *a)
{
	struct slice namespace;
	struct usage_row row = {0}, *to;
	const char *ns, *model;
	size_t n;

	if (!p || !text_word(&line, &namespace) || !read_sum(&line, &row.byte_s) ||
		!read_sum(&line, &row.gpu_s) || line.len < 2)
		return false;
	/* behind one blank the model, whatever is in it */
	ns = arena_strdup(a, namespace);
	model = arena_strdup(a, (struct slice){line.at + 1, line.len - 1});
	if (!ns || !model)
		return true;
	n = p->n_rows;
	to = usage_row(p, ns, model, a);
	if (!to)
		return true;
	to->byte_s = row.byte_s;
	to->gpu_s = row.gpu_s;
	/* no two of one name */
	return p->n_rows > n;
}

int usage_record_read(struct slice text, struct arena *a, struct usage_record *ret, struct err *err)
{
	struct usage_record u = {0};
	struct usage_period *p = NULL;

	while (text.len > 0) {
		const char *end = memchr(text.at, '\n', text.len);
		struct slice line = {text.at, end ? (size_t)(end - text.at) : text.len};

		if (!end || line.len == 0)
			return wrong(err);
		text = (struct slice){end + 1, text.len - line.len - 1};
		if (line.at[0] == ' ' ? !read_row(line, p, a) : !read_head(line, &u, &p))
			return wrong(err);
		if (a->failed)
			return err_set(err, ERR_NOMEM, "out of memory while reading usage");
	}
	*ret = u;
	return 0;
}

/* ---- writing ---- */

void usage_sum_write(usage_sum n, char ret[static USAGE_SUM_SIZE])
{
	char *at = &ret[USAGE_SUM_SIZE - 1];
	uint64_t low = (uint64_t)n;

	*at = '\0';
	/* dividing 128 bits is slow, and most sums have 64 */
	for (; n > UINT64_MAX; n /= 10, low = (uint64_t)n)
		*--at = (char)('0' + (char)(n % 10));
	do {
		*--at = (char)('0' + (char)(low % 10));
		low /= 10;
	} while (low > 0);
	memmove(ret, at, strlen(at) + 1);
}

static void write_sum(usage_sum n, struct buf *out)
{
	char text[USAGE_SUM_SIZE];

	usage_sum_write(n, text);
	buf_char(out, ' ');
	buf_str(out, text);
}

static void write_time(int64_t s, struct buf *out)
{
	char text[RFC3339_SIZE];

	rfc3339_write(s * 1000, text);
	buf_char(out, ' ');
	buf_str(out, text);
}

static void write_period(const char *word, const struct usage_period *p, struct buf *out)
{
	buf_str(out, word);
	write_time(p->from_s, out);
	write_time(p->at_s, out);
	write_sum(p->capacity, out);
	write_sum(p->free, out);
	write_sum(p->unfit, out);
	write_sum(p->over, out);
	buf_char(out, '\n');
	for (size_t i = 0; i < p->n_rows; i++) {
		buf_char(out, ' ');
		buf_str(out, p->rows[i].namespace);
		write_sum(p->rows[i].byte_s, out);
		write_sum(p->rows[i].gpu_s, out);
		buf_char(out, ' ');
		buf_str(out, p->rows[i].model);
		buf_char(out, '\n');
	}
}

void usage_record_write(const struct usage_record *u, struct buf *out)
{
	if (u->has_closed)
		write_period(CLOSED, &u->closed, out);
	if (u->has_open)
		write_period(OPEN, &u->open, out);
}

/* ---- adding ---- */

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

static bool add_claims(struct usage_period *p, const struct server_status *s, struct gpu_use *use,
	int64_t seconds, struct arena *a)
{
	for (size_t i = 0; i < s->n_claims; i++) {
		const struct claim *c = &s->claims[i].claim;
		const char *namespace =
			text_dns_label(slice_of(c->namespace)) ? c->namespace : USAGE_OTHERS;

		for (size_t k = 0; counts(c) && k < c->n_parts; k++) {
			ptrdiff_t gpu = server_status_gpu(s, slice_of(c->parts[k].gpu));
			/* a GPU that is not listed has no bytes, so all of that is over */
			struct gpu_use *g = &use[gpu < 0 ? s->n_gpus : (size_t)gpu];
			struct usage_row *row = charged(p, namespace, g->model, a);

			if (!row)
				return false;
			row->byte_s = usage_plus(row->byte_s, times(c->parts[k].bytes, seconds));
			row->gpu_s = usage_plus(row->gpu_s, (usage_sum)(uint64_t)seconds);
			if (gpu < 0)
				p->over = usage_plus(p->over, times(c->parts[k].bytes, seconds));
			else if (__builtin_add_overflow(g->held, c->parts[k].bytes, &g->held))
				g->held = UINT64_MAX;
		}
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
	if (a->failed || !add_claims(p, s, use, seconds, a))
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
	if (!text || strncmp(text, CLOSED " ", strlen(CLOSED " ")) != 0 || !read_of(o, a, &u) ||
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
