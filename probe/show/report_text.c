/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the report for people: a table, what is wrong with a hint, what was left out, and the
 * verdict. ASCII alone. */
#include <stdio.h>
#include <stdlib.h>

#include "probe/result/report_links.h"
#include "probe/result/report_words.h"
#include "probe/result/units.h"

enum column {
	COLUMN_GPU,
	COLUMN_NAME,
	COLUMN_PCI,
	COLUMN_MEM,
	COLUMN_FREE,
	COLUMN_MEM_TEST,
	COLUMN_READ,
	COLUMN_H2D,
	COLUMN_P2P,
	COLUMN_EXACT,
	COLUMN_HEALTH,
	COLUMN_COUNT
};

#define CELL_MAX 64
#define GAP 2

struct row {
	char cell[COLUMN_COUNT][CELL_MAX];
};

/* Left out first where the terminal is narrow. */
static const enum column optional[] = {COLUMN_FREE, COLUMN_P2P, COLUMN_H2D, COLUMN_EXACT,
	COLUMN_READ, COLUMN_MEM_TEST, COLUMN_PCI, COLUMN_NAME, COLUMN_MEM};

static const struct row head = {{"GPU", "NAME", "PCI", "MEM GiB", "FREE", "MEM-TEST", "READ", "H2D",
	"P2P", "EXACT", "HEALTH"}};

/* Copied as far as it fits, what is not printable ASCII as '?'. */
static void put_cell(char *to, const char *text)
{
	size_t n = 0;

	for (; text[n] && n + 1 < CELL_MAX; n++)
		to[n] = text[n] >= ' ' && text[n] <= '~' ? text[n] : '?';
	to[n] = '\0';
	if (n == 0)
		memcpy(to, "-", 2);
}

static void fill_memory_test(const struct check_result *c, char *to)
{
	char bytes[UNITS_MAX];

	if (!c || c->status == STATUS_SKIP)
		return;
	units_write((double)c->bytes_tested, "B", bytes);
	if (c->status == STATUS_PASS || c->status == STATUS_WARN)
		snprintf(to, CELL_MAX, "%s ok", bytes);
	else if (c->status == STATUS_FAIL && c->errors > 0)
		snprintf(to, CELL_MAX, "%lld wrong", (long long)c->errors);
	else
		snprintf(to, CELL_MAX, "%s", c->status == STATUS_FAIL ? "FAIL" : "-");
}

static void fill_rate(const struct check_result *c, bool share, char *to)
{
	if (!c || !(c->value > 0))
		return;
	if (share && c->ratio > 0)
		snprintf(to, CELL_MAX, "%.0f %%", c->ratio * 100);
	else
		units_write(c->value, c->unit, to);
}

/* All three kinds of exact arithmetic in one cell: the worst of them. */
static void fill_exact(const struct gpu_report *g, char *to)
{
	static const enum check_id ids[] = {CHECK_EXACT_FP32, CHECK_EXACT_FP64, CHECK_EXACT_TENSOR};
	const struct check_result *first = g->checks[CHECK_EXACT_FP32];

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		const struct check_result *c = g->checks[ids[i]];

		if (c && c->status == STATUS_FAIL) {
			snprintf(to, CELL_MAX, "FAIL");
			return;
		}
		if (!c || c->status == STATUS_ERROR)
			return;
	}
	if (first->status == STATUS_PASS && first->sms_visited >= 0)
		snprintf(to, CELL_MAX, "%d/%d", first->sms_visited, first->sms_total);
	else if (first->status == STATUS_PASS)
		snprintf(to, CELL_MAX, "ok");
}

static void fill(const struct report *r, const struct gpu_report *g, struct row *row)
{
	static const char *const words[] = {"unknown", "ok", "warn", "FAIL"};
	enum probe_code code = report_problem(r, g);
	size_t called;
	const char *call,
		*health = words[(unsigned)g->health <= HEALTH_FAIL ? g->health : HEALTH_UNKNOWN];

	for (int i = 0; i < COLUMN_COUNT; i++)
		put_cell(row->cell[i], "");
	snprintf(row->cell[COLUMN_GPU], CELL_MAX, "%d", g->index);
	put_cell(row->cell[COLUMN_NAME], g->name);
	put_cell(row->cell[COLUMN_PCI], g->pci);
	if (g->memory_total_bytes > 0)
		snprintf(row->cell[COLUMN_MEM], CELL_MAX, "%.1f",
			(double)g->memory_total_bytes / (1 << 30));
	if (g->memory_total_bytes > 0 && g->memory_free_bytes >= 0)
		snprintf(row->cell[COLUMN_FREE], CELL_MAX, "%.0f %%",
			/* not rounded up: what is not all free does not look so */
			(double)(int)(100 * (double)g->memory_free_bytes /
				      (double)g->memory_total_bytes));
	fill_memory_test(g->checks[CHECK_MEM_PATTERN], row->cell[COLUMN_MEM_TEST]);
	fill_rate(g->checks[CHECK_MEM_READ], true, row->cell[COLUMN_READ]);
	fill_rate(g->checks[CHECK_H2D], false, row->cell[COLUMN_H2D]);
	fill_rate(g->checks[CHECK_P2P], false, row->cell[COLUMN_P2P]);
	fill_exact(g, row->cell[COLUMN_EXACT]);
	called = report_failed_call(r, g, &call);
	snprintf(row->cell[COLUMN_HEALTH], CELL_MAX, "%s%s%s%s%.*s", health,
		code == CODE_NONE ? "" : "  ", code_text(code)->name, called ? " " : "",
		called ? (int)called - 1 : 0, call);
}

static size_t table_width(const size_t width[COLUMN_COUNT], unsigned shown)
{
	size_t n = 0;

	for (int i = 0; i < COLUMN_COUNT; i++)
		if (shown >> i & 1)
			n += width[i] + (n > 0 ? GAP : 0);
	return n;
}

/* Which columns: those with something in them, as far as they fit. */
static unsigned columns(
	const struct row *rows, size_t n, unsigned limit, size_t width[COLUMN_COUNT])
{
	unsigned shown = 1u << COLUMN_GPU | 1u << COLUMN_NAME | 1u << COLUMN_PCI |
			 1u << COLUMN_MEM | 1u << COLUMN_HEALTH;

	for (int i = 0; i < COLUMN_COUNT; i++) {
		width[i] = strlen(head.cell[i]);
		for (size_t k = 0; k < n; k++) {
			size_t len = strlen(rows[k].cell[i]);

			if (len > width[i])
				width[i] = len;
			if (strcmp(rows[k].cell[i], "-") != 0)
				shown |= 1u << i;
		}
	}
	for (size_t i = 0; limit > 0 && i < sizeof(optional) / sizeof(optional[0]); i++)
		if (table_width(width, shown) > limit)
			shown &= ~(1u << optional[i]);
	return shown;
}

static void put_row(
	const struct row *row, const size_t width[COLUMN_COUNT], unsigned shown, struct buf *out)
{
	bool first = true;

	for (int i = 0; i < COLUMN_COUNT; i++) {
		bool left = i == COLUMN_NAME || i == COLUMN_PCI || i == COLUMN_HEALTH;

		if (!(shown >> i & 1))
			continue;
		buf_fmt(out, "%*s", first ? 0 : GAP, "");
		first = false;
		if (i == COLUMN_HEALTH)
			buf_str(out, row->cell[i]); /* the last one: no blanks behind it */
		else
			buf_fmt(out, left ? "%-*s" : "%*s", (int)width[i], row->cell[i]);
	}
	buf_char(out, '\n');
}

static void put_table(const struct report *r, unsigned limit, struct buf *out)
{
	struct row *rows = calloc(r->n_gpus, sizeof(*rows));
	size_t width[COLUMN_COUNT];
	unsigned shown;

	if (!rows) {
		buf_str(out, "no memory for the table\n");
		return;
	}
	for (size_t i = 0; i < r->n_gpus; i++)
		fill(r, &r->gpus[i], &rows[i]);
	shown = columns(rows, r->n_gpus, limit, width);
	put_row(&head, width, shown, out);
	for (size_t i = 0; i < r->n_gpus; i++)
		put_row(&rows[i], width, shown, out);
	free(rows);
}

/* Words, wrapped at `limit` columns (0: not at all), each line behind `indent` blanks. */
static void put_words(const char *text, size_t indent, unsigned limit, struct buf *out)
{
	size_t column = 0, n;

	for (; *text; text += n) {
		text += strspn(text, " \n");
		n = strcspn(text, " \n");
		if (n == 0)
			break;
		if (column > 0 && limit > 0 && column + 1 + n > limit) {
			buf_char(out, '\n');
			column = 0;
		}
		if (column == 0) {
			buf_fmt(out, "%*s", (int)indent, "");
			column = indent;
		} else {
			buf_char(out, ' ');
			column++;
		}
		for (size_t i = 0; i < n; i++)
			buf_char(out, text[i] > ' ' && text[i] <= '~' ? text[i] : '?');
		column += n;
	}
	buf_char(out, '\n');
}

/* hinted: the codes whose hint was given already; eight GPUs may have one problem. */
static void put_problem(int gpu, const char *where, enum probe_code code, const char *message,
	bool hinted[CODE_COUNT], unsigned limit, struct buf *out)
{
	const struct code_text *t = code_text(code);
	char line[512];
	int n;

	n = gpu < 0 ? snprintf(line, sizeof(line), "Server: ")
		    : snprintf(line, sizeof(line), "GPU %d: ", gpu);
	snprintf(line + n, sizeof(line) - (size_t)n, "%s%s: %s%s%s%s", where, t->name, t->sentence,
		*message ? " (" : "", message, *message ? ")" : "");
	put_words(line, 0, limit, out);
	if ((unsigned)code >= CODE_COUNT || hinted[code])
		return;
	put_words(t->hint, 4, limit, out);
	hinted[code] = true;
}

/* What merely did not run is told as a list. */
static bool only_missing(const struct check_result *c)
{
	return c->status == STATUS_ERROR &&
	       (c->code == CODE_NOT_RUN || c->code == CODE_INTERRUPTED);
}

static void put_missing(const struct gpu_report *g, unsigned limit, struct buf *out)
{
	struct buf line;
	bool any = false;

	buf_init(&line, 2048);
	buf_fmt(&line, "GPU %d: did not run, but is required:", g->index);
	for (size_t i = 0; i < CHECK_COUNT; i++) {
		if (!g->checks[i] || !only_missing(g->checks[i]))
			continue;
		buf_fmt(&line, " %s", check_kind((enum check_id)i)->id);
		any = true;
	}
	if (any && line.data)
		put_words(line.data, 0, limit, out);
	buf_release(&line);
}

static void put_errors(const struct report *r, bool of_server, bool hinted[CODE_COUNT],
	unsigned limit, struct buf *out)
{
	for (size_t i = 0; i < r->n_errors; i++) {
		const struct report_error *e = &r->errors[i];

		if ((e->gpu < 0) == of_server)
			put_problem(e->gpu, "", e->code, e->message, hinted, limit, out);
	}
}

static void put_problems(const struct report *r, unsigned limit, struct buf *out)
{
	bool hinted[CODE_COUNT] = {false};

	put_errors(r, true, hinted, limit, out);
	put_errors(r, false, hinted, limit, out);
	for (size_t i = 0; i < r->n_gpus; i++) {
		for (size_t k = 0; k < CHECK_COUNT; k++) {
			const struct check_result *c = r->gpus[i].checks[k];
			char where[64];

			if (!c || c->status < STATUS_WARN || only_missing(c))
				continue;
			snprintf(where, sizeof(where), "%s: %s", check_kind(c->id)->id,
				c->status == STATUS_WARN ? "warning: " : "");
			put_problem(
				r->gpus[i].index, where, c->code, c->message, hinted, limit, out);
		}
		put_missing(&r->gpus[i], limit, out);
	}
}

/* Number i of all results, GPU by GPU, when it was skipped. That a GPU of which nothing is known
 * lacks optional ones, too, says nothing. */
static const struct check_result *skipped(const struct report *r, size_t i)
{
	const struct gpu_report *g = &r->gpus[i / CHECK_COUNT];
	const struct check_result *c = g->checks[i % CHECK_COUNT];

	if (!c || c->status != STATUS_SKIP)
		return NULL;
	return g->fit || strcmp(c->reason, "not_run") != 0 ? c : NULL;
}

/* The checks that were skipped for the reason that number i, c, has, unless one before had it too.
 */
static void put_reason(const struct report *r, size_t i, const struct check_result *c,
	unsigned limit, struct buf *out)
{
	bool done[CHECK_COUNT] = {false};
	struct buf line;

	for (size_t k = 0; k < i; k++) {
		const struct check_result *d = skipped(r, k);

		if (d && strcmp(d->reason, c->reason) == 0)
			return;
	}
	buf_init(&line, 4096);
	buf_fmt(&line, "Skipped (%s):", c->reason);
	for (size_t k = i; k < r->n_gpus * CHECK_COUNT; k++) {
		const struct check_result *d = skipped(r, k);

		if (!d || done[d->id] || strcmp(d->reason, c->reason) != 0)
			continue;
		done[d->id] = true;
		buf_fmt(&line, " %s", check_kind(d->id)->id);
	}
	if (line.data)
		put_words(line.data, 0, limit, out);
	buf_release(&line);
}

void report_text(const struct report *r, unsigned width, struct buf *out)
{
	struct buf verdict;

	if (r->n_gpus > 0)
		put_table(r, width, out);
	links_text(r, width, out);
	put_problems(r, width, out);
	for (size_t i = 0; i < r->n_gpus * CHECK_COUNT; i++) {
		const struct check_result *c = skipped(r, i);

		if (c)
			put_reason(r, i, c, width, out);
	}
	buf_init(&verdict, 8192);
	words_verdict(r, &verdict);
	if (verdict.data)
		put_words(verdict.data, 0, width, out);
	buf_release(&verdict);
}
