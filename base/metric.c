/* SPDX-License-Identifier: Apache-2.0 */
/* base: keeps the cells of all declared series in one array of atomics and writes them as
 * Prometheus text. */
#include "base/metric.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a row's cells are. */
struct row {
	size_t first;                    /* of the cells */
	size_t count[METRIC_LABELS_MAX]; /* values of each label, 1 without the label */
	size_t nbuckets;                 /* of a histogram, +Inf not counted */
	size_t width; /* cells of one series: 1, or a histogram's buckets, +Inf and sum */
};

struct metrics {
	const struct metric_desc *desc;
	size_t ndesc;
	struct row *row;
	_Atomic int64_t *cell;
};

static size_t label_count(const struct metric_label *label)
{
	size_t n = 0;
	if (!label->name)
		return 1;
	while (label->values[n])
		n++;
	return n;
}

static size_t row_fill(struct row *row, const struct metric_desc *d, size_t first)
{
	row->first = first;
	size_t n = 1;
	for (size_t k = 0; k < METRIC_LABELS_MAX; k++) {
		row->count[k] = label_count(&d->label[k]);
		n *= row->count[k];
	}
	while (d->type == METRIC_HISTOGRAM && d->buckets[row->nbuckets])
		row->nbuckets++;
	row->width = d->type == METRIC_HISTOGRAM ? row->nbuckets + 2 : 1;
	return n * row->width;
}

struct metrics *metrics_new(const struct metric_desc *desc, size_t ndesc)
{
	struct metrics *m = calloc(1, sizeof(*m));
	if (!m)
		return NULL;
	m->desc = desc;
	m->ndesc = ndesc;
	m->row = calloc(ndesc ? ndesc : 1, sizeof(*m->row));
	size_t cells = 1;
	for (size_t i = 0; m->row && i < ndesc; i++)
		cells += row_fill(&m->row[i], &desc[i], cells);
	/* All bits zero is an atomic zero here. */
	m->cell = calloc(cells, sizeof(*m->cell));
	if (!m->row || !m->cell) {
		metrics_free(m);
		return NULL;
	}
	return m;
}

void metrics_free(struct metrics *m)
{
	if (!m)
		return;
	free(m->row);
	free(m->cell);
	free(m);
}

/* The cells of one series, or NULL when the place does not exist. */
static _Atomic int64_t *series3(const struct metrics *m, size_t id, size_t i, size_t j, size_t k)
{
	if (id >= m->ndesc || i >= m->row[id].count[0] || j >= m->row[id].count[1] ||
		k >= m->row[id].count[2])
		return NULL;
	const struct row *row = &m->row[id];
	return m->cell + row->first + ((i * row->count[1] + j) * row->count[2] + k) * row->width;
}

static _Atomic int64_t *series(const struct metrics *m, size_t id, size_t i, size_t j)
{
	return series3(m, id, i, j, 0);
}

static void cell_add(_Atomic int64_t *cell, int64_t n)
{
	atomic_fetch_add_explicit(cell, n, memory_order_relaxed);
}

static int64_t cell_get(const _Atomic int64_t *cell)
{
	return atomic_load_explicit(cell, memory_order_relaxed);
}

void metric_add3(struct metrics *m, size_t id, size_t i, size_t j, size_t k, int64_t n)
{
	_Atomic int64_t *cell = series3(m, id, i, j, k);
	if (cell && m->desc[id].type != METRIC_HISTOGRAM)
		cell_add(cell, n);
}

void metric_add(struct metrics *m, size_t id, size_t i, size_t j, int64_t n)
{
	metric_add3(m, id, i, j, 0, n);
}

void metric_set(struct metrics *m, size_t id, size_t i, size_t j, int64_t value)
{
	_Atomic int64_t *cell = series(m, id, i, j);
	if (cell && m->desc[id].type != METRIC_HISTOGRAM)
		atomic_store_explicit(cell, value, memory_order_relaxed);
}

void metric_observe(struct metrics *m, size_t id, size_t i, size_t j, int64_t value)
{
	_Atomic int64_t *cell = series(m, id, i, j);
	if (!cell || m->desc[id].type != METRIC_HISTOGRAM)
		return;
	size_t n = m->row[id].nbuckets, b = 0;
	while (b < n && value > m->desc[id].buckets[b])
		b++;
	cell_add(&cell[b], 1);
	cell_add(&cell[n + 1], value);
}

static int64_t histogram_count(const _Atomic int64_t *cell, size_t nbuckets)
{
	int64_t sum = 0;
	for (size_t b = 0; b <= nbuckets; b++)
		sum += cell_get(&cell[b]);
	return sum;
}

int64_t metric_value(const struct metrics *m, size_t id, size_t i, size_t j)
{
	const _Atomic int64_t *cell;
	int64_t sum = 0;
	for (size_t k = 0; (cell = series3(m, id, i, j, k)); k++)
		sum += m->desc[id].type == METRIC_HISTOGRAM
			       ? histogram_count(cell, m->row[id].nbuckets)
			       : cell_get(cell);
	return sum;
}

/* ---- text ---- */

/* value / scale in decimal, exactly: scale is a power of ten. */
static void add_scaled(struct buf *out, int64_t value, int64_t scale)
{
	uint64_t u = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
	uint64_t s = scale > 1 ? (uint64_t)scale : 1;
	uint64_t rest = u % s;
	if (value < 0)
		buf_char(out, '-');
	buf_u64(out, u / s);
	if (rest == 0)
		return;
	buf_char(out, '.');
	while (rest > 0 && s >= 10) {
		s /= 10;
		buf_char(out, (char)('0' + rest / s));
		rest %= s;
	}
}

static void add_escaped(struct buf *out, struct slice s, bool quotes)
{
	for (size_t i = 0; i < s.len; i++) {
		if (s.at[i] == '\n')
			buf_str(out, "\\n");
		else if (s.at[i] == '\\' || (quotes && s.at[i] == '"'))
			buf_fmt(out, "\\%c", s.at[i]);
		else
			buf_char(out, s.at[i]);
	}
}

void metric_head(struct buf *out, const char *name, const char *help, enum metric_type type)
{
	static const char *const types[] = {"counter", "gauge", "histogram"};
	buf_fmt(out, "# HELP %s ", name);
	add_escaped(out, slice_of(help), false);
	buf_fmt(out, "\n# TYPE %s %s\n", name, types[type]);
}

/* The name with its labels, and the blank behind them. */
static void add_series(
	struct buf *out, const char *name, const struct slice *labels, size_t nlabels)
{
	buf_str(out, name);
	for (size_t k = 0; k + 1 < nlabels; k += 2) {
		buf_char(out, k == 0 ? '{' : ',');
		buf_slice(out, labels[k]);
		buf_str(out, "=\"");
		add_escaped(out, labels[k + 1], true);
		buf_char(out, '"');
	}
	buf_str(out, nlabels >= 2 ? "} " : " ");
}

void metric_sample(struct buf *out, const char *name, const struct slice *labels, size_t nlabels,
	int64_t value, int64_t scale)
{
	add_series(out, name, labels, nlabels);
	add_scaled(out, value, scale);
	buf_char(out, '\n');
}

void metric_sample_text(struct buf *out, const char *name, const struct slice *labels,
	size_t nlabels, const char *value)
{
	add_series(out, name, labels, nlabels);
	buf_str(out, value);
	buf_char(out, '\n');
}

/* Labels of one series in front of a histogram's "le". */
struct labels {
	struct slice at[2 * (METRIC_LABELS_MAX + 1)];
	size_t n;
};

static void label_add(struct labels *l, const char *name, struct slice value)
{
	l->at[l->n++] = slice_of(name);
	l->at[l->n++] = value;
}

static void render_histogram(const struct metrics *m, size_t id, const _Atomic int64_t *cell,
	struct labels *l, struct buf *out)
{
	const struct metric_desc *d = &m->desc[id];
	size_t n = m->row[id].nbuckets, base = l->n;
	int64_t sum = 0;
	char name[128];
	struct buf bound;
	buf_init(&bound, 64);
	(void)snprintf(name, sizeof(name), "%s_bucket", d->name);
	for (size_t b = 0; b <= n; b++) {
		buf_clear(&bound);
		if (b < n)
			add_scaled(&bound, d->buckets[b], d->scale);
		else
			buf_str(&bound, "+Inf");
		sum += cell_get(&cell[b]);
		l->n = base;
		label_add(l, "le", buf_as_slice(&bound));
		metric_sample(out, name, l->at, l->n, sum, 1);
	}
	buf_release(&bound);
	l->n = base;
	(void)snprintf(name, sizeof(name), "%s_sum", d->name);
	metric_sample(out, name, l->at, l->n, cell_get(&cell[n + 1]), d->scale);
	(void)snprintf(name, sizeof(name), "%s_count", d->name);
	metric_sample(out, name, l->at, l->n, sum, 1);
}

static void render_series(
	const struct metrics *m, size_t id, const size_t at[METRIC_LABELS_MAX], struct buf *out)
{
	const struct metric_desc *d = &m->desc[id];
	const _Atomic int64_t *cell = series3(m, id, at[0], at[1], at[2]);
	struct labels l = {.n = 0};
	for (size_t k = 0; k < METRIC_LABELS_MAX; k++)
		if (d->label[k].name)
			label_add(&l, d->label[k].name, slice_of(d->label[k].values[at[k]]));
	if (d->type == METRIC_HISTOGRAM)
		render_histogram(m, id, cell, &l, out);
	else
		metric_sample(out, d->name, l.at, l.n, cell_get(cell), d->scale);
}

static void render_row(const struct metrics *m, size_t id, struct buf *out)
{
	const struct metric_desc *d = &m->desc[id];
	const size_t *count = m->row[id].count;
	size_t at[METRIC_LABELS_MAX];
	metric_head(out, d->name, d->help, d->type);
	for (at[0] = 0; at[0] < count[0]; at[0]++)
		for (at[1] = 0; at[1] < count[1]; at[1]++)
			for (at[2] = 0; at[2] < count[2]; at[2]++)
				render_series(m, id, at, out);
}

void metrics_render(const struct metrics *m, struct buf *out)
{
	for (size_t id = 0; id < m->ndesc; id++)
		render_row(m, id, out);
}
