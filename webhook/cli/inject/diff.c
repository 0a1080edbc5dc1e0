/* SPDX-License-Identifier: Apache-2.0 */
/* cli: Myers' O(ND) difference over lines (An O(ND) Difference Algorithm and Its Variations, 1986).
 */
#include "webhook/cli/inject/diff.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Lines around a change. */
#define CONTEXT 3
/* Edits that are searched for; the trace takes 4 bytes times their square. */
#define EDITS_MAX 2000

struct lines {
	struct slice *at; /* with their newline */
	int n;
};

/* Which lines go and which come. */
struct comparison {
	struct lines a, b;
	bool *gone; /* of a */
	bool *come; /* of b */
	bool colour;
};

/* Take the first line off a text that is not empty. */
static struct slice take_line(struct slice *text)
{
	const char *end = memchr(text->at, '\n', text->len);
	struct slice line = {text->at, end ? (size_t)(end - text->at) + 1 : text->len};

	text->at += line.len;
	text->len -= line.len;
	return line;
}

static int split(struct slice text, struct lines *ret, struct err *err)
{
	struct slice rest = text;
	size_t n = 0;

	for (; rest.len > 0; n++)
		take_line(&rest);
	if (n > DIFF_LINES_MAX)
		return err_set(err, ERR_TOOBIG, "more than %d lines to compare", DIFF_LINES_MAX);
	ret->at = calloc(n + 1, sizeof(ret->at[0]));
	if (!ret->at)
		return err_set(err, ERR_NOMEM, "out of memory while comparing");
	ret->n = (int)n;
	for (size_t i = 0; i < n; i++)
		ret->at[i] = take_line(&text);
	return 0;
}

/* Walk back from the end over the furthest reaching paths that were noted for each number of edits.
 * v holds, row by row, the positions for d = 0, 1, 2 …; row d has 2 d + 1 of them and begins at d².
 */
static void walk_back(struct comparison *c, const int *v, int edits, int x, int y, int skip)
{
	for (int d = edits; d > 0; d--) {
		const int *row = v + (size_t)(d - 1) * (size_t)(d - 1) + (d - 1);
		int k = x - y;
		bool down = k == -d || (k != d && row[k - 1] < row[k + 1]);
		int from = down ? k + 1 : k - 1;
		int from_x = row[from];
		int from_y = from_x - from;

		if (down)
			c->come[skip + from_y] = true;
		else
			c->gone[skip + from_x] = true;
		x = from_x;
		y = from_y;
	}
}

/* One more edit: how far each diagonal reaches. True when the end is reached. */
static bool advance(const struct lines *a, const struct lines *b, const int *last, int *row, int d)
{
	for (int k = -d; k <= d; k += 2) {
		bool down = d > 0 && (k == -d || (k != d && last[k - 1] < last[k + 1]));
		int x = d == 0 ? 0 : down ? last[k + 1] : last[k - 1] + 1;
		int y = x - k;

		while (x < a->n && y < b->n && x >= 0 && y >= 0 && slice_eq(a->at[x], b->at[y])) {
			x++;
			y++;
		}
		row[k] = x;
		if (x >= a->n && y >= b->n)
			return true;
	}
	return false;
}

/* Compare what is left between an equal head and tail of the texts. */
static int search(struct comparison *c, int head, int tail, struct err *err)
{
	struct lines a = {c->a.at + head, c->a.n - head - tail};
	struct lines b = {c->b.at + head, c->b.n - head - tail};
	int most = a.n + b.n < EDITS_MAX ? a.n + b.n : EDITS_MAX;
	size_t places = ((size_t)most + 1) * ((size_t)most + 1);
	int *v = calloc(places, sizeof(v[0]));
	bool found = false;

	if (!v)
		return err_set(err, ERR_NOMEM, "out of memory while comparing");
	for (int d = 0; d <= most && !found; d++) {
		int *row = v + (size_t)d * (size_t)d + d;
		const int *last = d > 0 ? v + (size_t)(d - 1) * (size_t)(d - 1) + (d - 1) : row;

		found = advance(&a, &b, last, row, d);
		if (found)
			walk_back(c, v, d, a.n, b.n, head);
	}
	free(v);
	for (int i = 0; !found && i < a.n; i++)
		c->gone[head + i] = true;
	for (int i = 0; !found && i < b.n; i++)
		c->come[head + i] = true;
	return 0;
}

static int compare(struct comparison *c, struct err *err)
{
	int head = 0, tail = 0;
	int least = c->a.n < c->b.n ? c->a.n : c->b.n;

	c->gone = calloc((size_t)c->a.n + 1, sizeof(c->gone[0]));
	c->come = calloc((size_t)c->b.n + 1, sizeof(c->come[0]));
	if (!c->gone || !c->come)
		return err_set(err, ERR_NOMEM, "out of memory while comparing");
	while (head < least && slice_eq(c->a.at[head], c->b.at[head]))
		head++;
	while (tail < least - head &&
		slice_eq(c->a.at[c->a.n - 1 - tail], c->b.at[c->b.n - 1 - tail]))
		tail++;
	return search(c, head, tail, err);
}

/* What git has for such lines: removed red, added green, hunks cyan, names bold. */
static void paint(const struct comparison *c, struct buf *out, char mark)
{
	if (c->colour && mark != ' ')
		buf_str(out, mark == '-'   ? "\033[31m"
			     : mark == '+' ? "\033[32m"
			     : mark == '@' ? "\033[36m"
			     : mark == 'b' ? "\033[1m"
					   : "\033[0m");
}

static void write_line(const struct comparison *c, struct buf *out, char mark, struct slice line)
{
	bool ended = line.len > 0 && line.at[line.len - 1] == '\n';

	paint(c, out, mark);
	buf_char(out, mark);
	buf_slice(out, (struct slice){line.at, line.len - (ended ? 1 : 0)});
	paint(c, out, mark == ' ' ? ' ' : '0');
	buf_str(out, ended ? "\n" : "\n\\ No newline at end of file\n");
}

static void write_range(struct buf *out, char mark, int from, int n)
{
	/* an empty range stands behind the line before it */
	buf_fmt(out, "%c%d", mark, n == 0 ? from : from + 1);
	if (n != 1)
		buf_fmt(out, ",%d", n);
}

/* Lines a..a_end of the one text and b..b_end of the other, changes and what is around them. */
static void write_hunk(
	const struct comparison *c, int a, int a_end, int b, int b_end, struct buf *out)
{
	paint(c, out, '@');
	buf_str(out, "@@ ");
	write_range(out, '-', a, a_end - a);
	buf_char(out, ' ');
	write_range(out, '+', b, b_end - b);
	buf_str(out, " @@");
	paint(c, out, c->colour ? '0' : ' ');
	buf_char(out, '\n');
	while (a < a_end || b < b_end) {
		if (a < a_end && c->gone[a])
			write_line(c, out, '-', c->a.at[a++]);
		else if (b < b_end && c->come[b])
			write_line(c, out, '+', c->b.at[b++]);
		else if (a < a_end && b++ < b_end)
			write_line(c, out, ' ', c->a.at[a++]);
		else
			break;
	}
}

static void write_hunks(const struct comparison *c, struct buf *out)
{
	int a = 0, b = 0;

	while (a < c->a.n || b < c->b.n) {
		int from_a, from_b, quiet = 0;

		if (!(a < c->a.n && c->gone[a]) && !(b < c->b.n && c->come[b])) {
			a++;
			b++;
			continue;
		}
		from_a = a < CONTEXT ? 0 : a - CONTEXT;
		from_b = b - (a - from_a);
		/* on until twice the context holds no change: then the hunks do not touch */
		while ((a < c->a.n || b < c->b.n) && quiet <= 2 * CONTEXT) {
			if (a < c->a.n && c->gone[a]) {
				a++;
				quiet = 0;
			} else if (b < c->b.n && c->come[b]) {
				b++;
				quiet = 0;
			} else {
				a++;
				b++;
				quiet++;
			}
		}
		int back = quiet > CONTEXT ? quiet - CONTEXT : 0;

		write_hunk(c, from_a, a - back, from_b, b - back, out);
	}
}

int diff_unified(struct slice before, struct slice after, const char *before_name,
	const char *after_name, bool colour, struct buf *out, struct err *err)
{
	struct comparison c = {.colour = colour};
	int rc;

	if (slice_eq(before, after))
		return 0;
	rc = split(before, &c.a, err);
	if (rc == 0)
		rc = split(after, &c.b, err);
	if (rc == 0)
		rc = compare(&c, err);
	if (rc == 0) {
		paint(&c, out, 'b');
		buf_fmt(out, "--- %s\n+++ %s", before_name, after_name);
		paint(&c, out, '0');
		buf_char(out, '\n');
		write_hunks(&c, out);
		if (out->failed)
			rc = err_set(err, ERR_TOOBIG, "the difference takes more than %zu bytes",
				out->max);
	}
	free(c.a.at);
	free(c.b.at);
	free(c.gone);
	free(c.come);
	return rc;
}
