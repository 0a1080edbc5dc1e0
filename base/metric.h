/* SPDX-License-Identifier: Apache-2.0 */
/* base: counters, gauges and histograms in the Prometheus text format. Every series is declared in
 * a const table, so a stranger cannot make new ones; updates are lock-free. */
#ifndef BASE_METRIC_H
#define BASE_METRIC_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

#define METRIC_LABELS_MAX 3

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

/* A label and all values it can have, NULL-terminated. */
struct metric_label {
	const char *name; /* NULL: no such label */
	const char *const *values;
};

/* One row of the table. Values are integers; what is written is value / scale, exactly (scale 1, or
 * a power of ten: 1000000 turns microseconds into seconds). */
struct metric_desc {
	const char *name;
	const char *help;
	enum metric_type type;
	int64_t scale;          /* 0 counts as 1 */
	const int64_t *buckets; /* histogram: upper bounds, ascending, unscaled, ended by a 0; +Inf
				   is added */
	struct metric_label label[METRIC_LABELS_MAX];
};

struct metrics;

/* The cells of all series of the table, all 0. The table is borrowed. NULL when out of memory. */
struct metrics *metrics_new(const struct metric_desc *desc, size_t ndesc);
void metrics_free(struct metrics *m);

/* id is the row in the table; i and j are the places of the first two labels' values in their lists
 * (0 without the label); of a third one it is the first value. Out of range, or the wrong type of
 * metric, does nothing. Any thread. */
void metric_add(struct metrics *m, size_t id, size_t i, size_t j, int64_t n); /* counter, gauge */
void metric_set(struct metrics *m, size_t id, size_t i, size_t j,
	int64_t value); /* gauge, or a counter kept elsewhere */
void metric_observe(
	struct metrics *m, size_t id, size_t i, size_t j, int64_t value); /* histogram */
int64_t metric_value(const struct metrics *m, size_t id, size_t i,
	size_t j); /* a histogram's: its count; summed over a third label */
/* metric_add for three labels: k is the place of the third one's value. */
void metric_add3(struct metrics *m, size_t id, size_t i, size_t j, size_t k, int64_t n);

/* Append all series. Content type: METRIC_CONTENT_TYPE. out->failed says whether it fitted. */
void metrics_render(const struct metrics *m, struct buf *out);
#define METRIC_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* For what is bounded by something else than a table (a gauge per GPU server): HELP and TYPE, then
 * one line per sample. labels: name, value, name, value, …; values are escaped. */
void metric_head(struct buf *out, const char *name, const char *help, enum metric_type type);
void metric_sample(struct buf *out, const char *name, const struct slice *labels, size_t nlabels,
	int64_t value, int64_t scale);
/* The same with a number that is written already: one that has more than 64 bits. */
void metric_sample_text(struct buf *out, const char *name, const struct slice *labels,
	size_t nlabels, const char *value);

#endif
