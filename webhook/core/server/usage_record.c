/* SPDX-License-Identifier: Apache-2.0 */
/* core: usage as a text: read, added to, written (law P7). */
#include "webhook/core/server/usage_record.h"

#include "base/list.h"
#include "base/rfc3339.h"
#include "base/text.h"

#define SUM_MAX (~(usage_sum)0)
#define CLOSED USAGE_CLOSED
#define OPEN "open"

usage_sum usage_plus(usage_sum a, usage_sum b)
{
	return a > SUM_MAX - b ? SUM_MAX : a + b;
}

/* ---- rows ---- */

void usage_row_add(struct usage_row *to, const struct usage_row *more)
{
	to->byte_s = usage_plus(to->byte_s, more->byte_s);
	to->gpu_s = usage_plus(to->gpu_s, more->gpu_s);
	to->used = usage_plus(to->used, more->used);
	to->known = usage_plus(to->known, more->known);
}

int usage_row_compare(const struct usage_row *r, const char *namespace, const char *model)
{
	int c = strcmp(r->namespace, namespace);

	return c ? c : strcmp(r->model, model);
}

struct usage_row *usage_row_find(
	const struct usage_period *p, const char *namespace, const char *model, size_t *ret_at)
{
	size_t low = 0, high = p->n_rows;

	while (low < high) {
		size_t mid = (low + high) / 2;
		int c = usage_row_compare(&p->rows[mid], namespace, model);

		*ret_at = mid;
		if (c == 0)
			return &p->rows[mid];
		if (c < 0)
			low = mid + 1;
		else
			high = mid;
	}
	*ret_at = low;
	return NULL;
}

struct usage_row *usage_row(
	struct usage_period *p, const char *namespace, const char *model, struct arena *a)
{
	size_t at;
	struct usage_row *row = usage_row_find(p, namespace, model, &at);

	if (row)
		return row;
	if (!LIST_ROOM_IN(a, p->rows, p->n_rows, p->room))
		return NULL;
	memmove(&p->rows[at + 1], &p->rows[at], (p->n_rows - at) * sizeof(*p->rows));
	p->n_rows++;
	p->rows[at] = (struct usage_row){.namespace = namespace, .model = model};
	return &p->rows[at];
}

/* ---- reading ---- */

static int wrong(struct err *err)
{
	return err_set(err, ERR_INVALID, "found no record of usage that this version knows");
}

static bool read_number(struct slice word, usage_sum *ret)
{
	usage_sum n = 0;

	if (word.len == 0 || word.len >= USAGE_SUM_SIZE)
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

static bool read_sum(struct slice *line, usage_sum *ret)
{
	struct slice word;

	return text_word(line, &word) && read_number(word, ret);
}

/* What was promised; behind it, where that is known of some of it, what was used. */
static bool read_byte_s(struct slice *line, struct usage_row *row)
{
	struct slice word, part[3];
	size_t n = 0, from = 0;

	if (!text_word(line, &word))
		return false;
	for (size_t i = 0; i <= word.len; i++) {
		if (i < word.len && word.at[i] != '/')
			continue;
		if (n == 3)
			return false;
		part[n++] = (struct slice){word.at + from, i - from};
		from = i + 1;
	}
	if (n == 1)
		return read_number(part[0], &row->byte_s);
	return n == 3 && read_number(part[0], &row->byte_s) && read_number(part[1], &row->used) &&
	       read_number(part[2], &row->known) && row->known <= row->byte_s;
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

	if (!p || !text_word(&line, &namespace) || !read_byte_s(&line, &row) ||
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
	usage_row_add(to, &row);
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

static void write_sum(char before, usage_sum n, struct buf *out)
{
	char text[USAGE_SUM_SIZE];

	usage_sum_write(n, text);
	buf_char(out, before);
	buf_str(out, text);
}

static void write_row(const struct usage_row *row, struct buf *out)
{
	buf_char(out, ' ');
	buf_str(out, row->namespace);
	write_sum(' ', row->byte_s, out);
	if (row->known > 0) {
		write_sum('/', row->used, out);
		write_sum('/', row->known, out);
	}
	write_sum(' ', row->gpu_s, out);
	buf_char(out, ' ');
	buf_str(out, row->model);
	buf_char(out, '\n');
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
	write_sum(' ', p->capacity, out);
	write_sum(' ', p->free, out);
	write_sum(' ', p->unfit, out);
	write_sum(' ', p->over, out);
	buf_char(out, '\n');
	for (size_t i = 0; i < p->n_rows; i++)
		write_row(&p->rows[i], out);
}

void usage_record_write(const struct usage_record *u, struct buf *out)
{
	if (u->has_closed)
		write_period(CLOSED, &u->closed, out);
	if (u->has_open)
		write_period(OPEN, &u->open, out);
}
