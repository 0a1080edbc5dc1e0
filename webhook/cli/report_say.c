/* SPDX-License-Identifier: Apache-2.0 */
/* cli: usage for people, for spreadsheets, for programs. */
#include "webhook/cli/report_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rfc3339.h"
#include "base/utf8.h"

#define GB_HOUR (UINT64_C(1000000000) * 3600)
#define HOUR 3600
#define COLUMN_GAP 2

const char *const report_bys[] = {"namespace", "policy", "model", "server", NULL};

/* Models come from strangers: no control character of theirs reaches a terminal. */
static size_t write_name(const char *name, struct buf *out)
{
	size_t width = 0, n;

	for (const char *c = name; *c; c += n, width++) {
		n = utf8_len(c, strlen(c));
		if (n == 0 || utf8_unsafe(utf8_char(c, n)))
			buf_char(out, '?');
		else
			buf_add(out, c, n);
		n += n == 0;
	}
	return width;
}

static size_t width_of(const char *name)
{
	struct buf b;
	size_t width;

	buf_init(&b, 4 * strlen(name) + 1);
	width = write_name(name, &b);
	buf_release(&b);
	return width;
}

static void pad(size_t n, struct buf *out)
{
	while (n-- > 0)
		buf_char(out, ' ');
}

/* In units of so many, with two digits behind the point, right-aligned. */
static void write_units(usage_sum n, uint64_t unit, size_t width, struct buf *out)
{
	char whole[USAGE_SUM_SIZE], text[USAGE_SUM_SIZE + 4];
	usage_sum rest = (n % unit * 100 + unit / 2) / unit;

	usage_sum_write(n / unit + rest / 100, whole);
	(void)snprintf(text, sizeof(text), "%s.%02u", whole, (unsigned)(rest % 100));
	pad(strlen(text) < width ? width - strlen(text) : 0, out);
	buf_str(out, text);
}

#define NUMBER_WIDTH 14
#define SHARE_WIDTH 5

/* What was used, and of which share of what was held that is known. */
static void write_used(const struct usage_row *row, struct buf *out)
{
	char share[16] = "-";

	if (row->known > 0)
		(void)snprintf(share, sizeof(share), "%.0f%%",
			100 * (double)row->known / (double)row->byte_s);
	pad(COLUMN_GAP, out);
	if (row->known > 0)
		write_units(row->used, GB_HOUR, NUMBER_WIDTH, out);
	else
		buf_fmt(out, "%*s", NUMBER_WIDTH, "-");
	pad(COLUMN_GAP, out);
	buf_fmt(out, "%*s", SHARE_WIDTH, share);
}

static void write_line(const char *name, size_t width, const struct usage_row *row, struct buf *out)
{
	pad(width - write_name(name, out) + COLUMN_GAP, out);
	write_units(row->gpu_s, HOUR, NUMBER_WIDTH, out);
	pad(COLUMN_GAP, out);
	write_units(row->byte_s, GB_HOUR, NUMBER_WIDTH, out);
	write_used(row, out);
	buf_char(out, '\n');
}

static int most_first(const void *a, const void *b)
{
	const struct usage_row *x = a, *y = b;

	if (x->byte_s != y->byte_s)
		return x->byte_s < y->byte_s ? 1 : -1;
	return strcmp(x->namespace, y->namespace);
}

/* The most first, in memory that the caller frees; NULL: out of memory. */
static struct usage_row *ordered(const struct report *r)
{
	struct usage_row *rows = calloc(r->sum.n_rows + 1, sizeof(*rows));

	if (rows && r->sum.n_rows > 0) {
		memcpy(rows, r->sum.rows, r->sum.n_rows * sizeof(*rows));
		qsort(rows, r->sum.n_rows, sizeof(*rows), most_first);
	}
	return rows;
}

void report_say_table(const struct report *r, struct buf *out)
{
	static const char *const heads[] = {"NAMESPACE", "POLICY", "MODEL", "SERVER"};
	struct usage_row *rows = ordered(r);
	size_t width = strlen(heads[r->by]);

	if (!rows) {
		out->failed = true;
		return;
	}
	for (size_t i = 0; i < r->sum.n_rows; i++)
		if (width_of(rows[i].namespace) > width)
			width = width_of(rows[i].namespace);
	buf_str(out, heads[r->by]);
	pad(width - strlen(heads[r->by]) + COLUMN_GAP, out);
	buf_fmt(out, "%*s  %*s  %*s  %*s\n", NUMBER_WIDTH, "GPU-HOURS", NUMBER_WIDTH, "GB-HOURS",
		NUMBER_WIDTH, "USED-GB-HOURS", SHARE_WIDTH, "KNOWN");
	for (size_t i = 0; i < r->sum.n_rows; i++)
		write_line(rows[i].namespace, width, &rows[i], out);
	buf_str(out, "The pool had ");
	write_units(r->sum.capacity, GB_HOUR, 0, out);
	buf_str(out, " GB-hours; nobody held ");
	write_units(r->sum.free, GB_HOUR, 0, out);
	buf_str(out, " of GPUs that took claims and ");
	write_units(r->sum.unfit, GB_HOUR, 0, out);
	buf_str(out, " of others; ");
	write_units(r->sum.over, GB_HOUR, 0, out);
	buf_str(out, " were held beyond.\n");
	if (r->unreadable > 0)
		buf_fmt(out, "%zu records could not be read and are not in this.\n", r->unreadable);
	free(rows);
}

static void write_sum(usage_sum n, struct buf *out)
{
	char text[USAGE_SUM_SIZE];

	usage_sum_write(n, text);
	buf_str(out, text);
}

/* RFC 4180. What a spreadsheet would take for a formula is taken for text. */
static void write_field(const char *s, struct buf *out)
{
	buf_char(out, '"');
	if (strchr("=+@\t\r", *s) && *s)
		buf_char(out, '\'');
	for (; *s; s++) {
		if (*s == '"')
			buf_char(out, '"');
		buf_char(out, *s);
	}
	buf_char(out, '"');
}

void report_say_csv(const struct report *r, struct buf *out)
{
	struct usage_row *rows = ordered(r);

	if (!rows) {
		out->failed = true;
		return;
	}
	buf_fmt(out, "%s,gpuSeconds,byteSeconds,usedByteSeconds,knownByteSeconds\r\n",
		report_bys[r->by]);
	for (size_t i = 0; i < r->sum.n_rows; i++) {
		write_field(rows[i].namespace, out);
		buf_char(out, ',');
		write_sum(rows[i].gpu_s, out);
		buf_char(out, ',');
		write_sum(rows[i].byte_s, out);
		buf_char(out, ',');
		if (rows[i].known > 0)
			write_sum(rows[i].used, out);
		buf_char(out, ',');
		write_sum(rows[i].known, out);
		buf_str(out, "\r\n");
	}
	free(rows);
}

/* Sums pass 2^53, which many readers of JSON keep no more than: they are strings. */
static void json_sum(const char *key, usage_sum n, struct buf *out)
{
	buf_fmt(out, ",\"%s\":\"", key);
	write_sum(n, out);
	buf_char(out, '"');
}

static void json_time(const char *key, int64_t s, struct buf *out)
{
	char text[RFC3339_SIZE];

	rfc3339_write(s * 1000, text);
	buf_fmt(out, ",\"%s\":\"%s\"", key, text);
}

void report_say_json(const struct report *r, struct buf *out)
{
	struct usage_row *rows = ordered(r);

	if (!rows) {
		out->failed = true;
		return;
	}
	buf_fmt(out, "{\"by\":\"%s\"", report_bys[r->by]);
	json_time("from", r->from_s, out);
	json_time("to", r->to_s, out);
	json_sum("capacity", r->sum.capacity, out);
	json_sum("free", r->sum.free, out);
	json_sum("unfit", r->sum.unfit, out);
	json_sum("over", r->sum.over, out);
	buf_fmt(out, ",\"unreadable\":%zu,\"rows\":[", r->unreadable);
	for (size_t i = 0; i < r->sum.n_rows; i++) {
		buf_str(out, i > 0 ? ",{\"name\":" : "{\"name\":");
		buf_json_str(out, slice_of(rows[i].namespace));
		json_sum("gpuSeconds", rows[i].gpu_s, out);
		json_sum("byteSeconds", rows[i].byte_s, out);
		if (rows[i].known > 0)
			json_sum("usedByteSeconds", rows[i].used, out);
		else
			buf_str(out, ",\"usedByteSeconds\":null");
		json_sum("knownByteSeconds", rows[i].known, out);
		buf_char(out, '}');
	}
	buf_str(out, "]}\n");
	free(rows);
}
