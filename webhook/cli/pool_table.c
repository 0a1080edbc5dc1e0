/* SPDX-License-Identifier: Apache-2.0 */
/* cli: the pool as tables with aligned columns. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/json/json_read.h"
#include "base/utf8.h"
#include "webhook/cli/pool.h"

#define COLUMNS_MAX 7
#define MB 1000000
/* 100 000 claims have 2 million values. */
#define NODES_MAX 8000000u
#define ARENA_MAX (512u << 20)

/* Text that is safe to print, and how many columns it takes. */
struct cell {
	const char *text;
	size_t width;
};

struct row {
	struct cell cells[COLUMNS_MAX];
	struct row *next;
};

struct table {
	struct arena *arena;
	size_t columns;
	unsigned right; /* bit i: column i is right-aligned */
	struct row *first, **last;
};

static void table_init(struct table *t, struct arena *a, size_t columns, unsigned right)
{
	*t = (struct table){.arena = a, .columns = columns, .right = right};
	t->last = &t->first;
}

/* A string of the document as a cell. */
static struct cell cell_of(struct arena *a, struct slice s)
{
	struct cell c = {"", 0};
	size_t n;
	struct buf b;

	buf_init(&b, s.len * 8 + 1);
	for (size_t i = 0; i < s.len; i += n) {
		uint32_t ch;

		n = utf8_len(s.at + i, s.len - i); /* the reader has checked it: not 0 */
		ch = utf8_char(s.at + i, n);
		if (utf8_unsafe(ch)) {
			size_t before = b.len;

			buf_fmt(&b, "\\u%04x", (unsigned)ch);
			c.width += b.len - before;
		} else {
			buf_add(&b, s.at + i, n);
			c.width++;
		}
	}
	c.text = b.failed ? NULL : arena_strdup(a, buf_as_slice(&b));
	if (!c.text)
		a->failed = true;
	buf_release(&b);
	return c;
}

static void table_row(struct table *t, const struct cell *cells)
{
	struct row *r = arena_alloc(t->arena, sizeof(*r));

	if (!r)
		return;
	memcpy(r->cells, cells, t->columns * sizeof(*cells));
	*t->last = r;
	t->last = &r->next;
}

static void table_head(struct table *t, const char *const *words)
{
	struct cell cells[COLUMNS_MAX];

	for (size_t i = 0; i < t->columns; i++)
		cells[i] = (struct cell){words[i], strlen(words[i])};
	table_row(t, cells);
}

static void pad(struct buf *out, size_t n)
{
	while (n--)
		buf_char(out, ' ');
}

static void table_print(const struct table *t, struct buf *out)
{
	size_t widths[COLUMNS_MAX] = {0};

	for (const struct row *r = t->first; r; r = r->next)
		for (size_t i = 0; i < t->columns; i++)
			if (r->cells[i].width > widths[i])
				widths[i] = r->cells[i].width;
	for (const struct row *r = t->first; r; r = r->next) {
		for (size_t i = 0; i < t->columns; i++) {
			const struct cell *c = &r->cells[i];
			bool right = t->right >> i & 1;

			if (i)
				pad(out, 2);
			if (right)
				pad(out, widths[i] - c->width);
			buf_str(out, c->text);
			if (!right && i + 1 < t->columns)
				pad(out, widths[i] - c->width);
		}
		buf_char(out, '\n');
	}
}

/* ---- the document ---- */

struct doc {
	struct json j;
	struct arena arena;
};

static struct cell text_at(struct doc *d, const struct json_node *o, struct slice key)
{
	const struct json_node *v = json_get(&d->j, o, key);

	return cell_of(
		&d->arena, json_is(v, JSON_STRING) ? json_str(&d->j, v, &d->arena) : SLICE("?"));
}

static struct cell mb_at(struct doc *d, const struct json_node *o, struct slice key)
{
	struct cell c = {"?", 1};
	int64_t n;

	if (json_int(&d->j, json_get(&d->j, o, key), &n)) {
		c.text = arena_fmt(&d->arena, "%" PRId64, n / MB);
		c.width = c.text ? strlen(c.text) : 0;
	}
	return c;
}

static bool is_at(struct doc *d, const struct json_node *o, struct slice key, enum json_type type)
{
	return json_is(json_get(&d->j, o, key), type);
}

static struct cell pair(struct doc *d, struct cell a, const char *between, struct cell b)
{
	struct cell c = {
		arena_fmt(&d->arena, "%s%s%s", a.text ? a.text : "", between, b.text ? b.text : ""),
		a.width + strlen(between) + b.width};

	return c;
}

/* "ok", "draining", "unfit: ECC errors" */
static struct cell gpu_state(struct doc *d, const struct json_node *s, const struct json_node *g)
{
	const struct json_node *reason = json_get(&d->j, g, SLICE("why"));
	struct cell why = {"", 0};
	const char *word = is_at(d, g, SLICE("missing"), JSON_TRUE)  ? "missing"
			   : is_at(d, g, SLICE("fit"), JSON_FALSE)   ? "unfit"
			   : is_at(d, g, SLICE("fresh"), JSON_FALSE) ? "stale"
			   : is_at(d, s, SLICE("drain"), JSON_TRUE)  ? "draining"
								     : "ok";
	struct cell c = {word, strlen(word)};

	if (json_is(reason, JSON_STRING))
		why = cell_of(&d->arena, json_str(&d->j, reason, &d->arena));
	return why.width ? pair(d, c, ": ", why) : c;
}

static void print_servers(struct doc *d, const struct json_node *servers, struct buf *out)
{
	static const char *const head[] = {
		"SERVER", "ADDRESS", "GPU", "MODEL", "FREE MB", "OF MB", "STATE"};
	const struct cell none = {"-", 1};
	struct table t;

	table_init(&t, &d->arena, 7, 1u << 4 | 1u << 5);
	table_head(&t, head);
	JSON_EACH(&d->j, servers, s)
	{
		const struct json_node *gpus = json_get(&d->j, s, SLICE("gpus"));
		struct cell name = text_at(d, s, SLICE("name"));
		struct cell address = text_at(d, s, SLICE("address"));

		if (!json_first(&d->j, gpus)) {
			const char *state =
				is_at(d, s, SLICE("drain"), JSON_TRUE) ? "draining" : "no GPUs";
			struct cell row[] = {
				name, address, none, none, none, none, {state, strlen(state)}};

			table_row(&t, row);
		}
		JSON_EACH(&d->j, gpus, g)
		{
			struct cell row[] = {name, address, text_at(d, g, SLICE("id")),
				text_at(d, g, SLICE("model")), mb_at(d, g, SLICE("freeBytes")),
				mb_at(d, g, SLICE("bytes")), gpu_state(d, s, g)};

			table_row(&t, row);
		}
	}
	table_print(&t, out);
}

static void print_claims(struct doc *d, const struct json_node *claims, struct buf *out)
{
	static const char *const head[] = {"POD", "GPU", "MB", "STATE", "SINCE", "UID"};
	struct table t;

	table_init(&t, &d->arena, 6, 1u << 2);
	table_head(&t, head);
	JSON_EACH(&d->j, claims, c)
	{
		struct cell pod = pair(
			d, text_at(d, c, SLICE("namespace")), "/", text_at(d, c, SLICE("name")));
		struct cell state = text_at(d, c, SLICE("state"));
		struct cell since = text_at(d, c, SLICE("since"));
		struct cell uid = text_at(d, c, SLICE("uid"));

		JSON_EACH(&d->j, json_get(&d->j, c, SLICE("parts")), p)
		{
			struct cell row[] = {pod,
				pair(d, text_at(d, p, SLICE("server")), "/",
					text_at(d, p, SLICE("gpu"))),
				mb_at(d, p, SLICE("bytes")), state, since, uid};

			table_row(&t, row);
		}
	}
	table_print(&t, out);
}

/* A pod's place in the queue; "-": it has none, or the replica that was asked does not know. */
static struct cell place_at(struct doc *d, const struct json_node *o)
{
	struct cell c = {"-", 1};
	int64_t n;

	if (json_int(&d->j, json_get(&d->j, o, SLICE("place")), &n) && n > 0) {
		c.text = arena_fmt(&d->arena, "%" PRId64, n);
		c.width = c.text ? strlen(c.text) : 0;
	}
	return c;
}

static void print_waiting(struct doc *d, const struct json_node *pods, struct buf *out)
{
	static const char *const heads[] = {"PLACE", "WAITS", "GANG", "SINCE", "ASKS", "WHY"};
	struct table t;

	table_init(&t, &d->arena, 6, 1 << 0);
	table_head(&t, heads);
	JSON_EACH(&d->j, pods, p)
	{
		struct cell row[] = {place_at(d, p),
			pair(d, text_at(d, p, SLICE("namespace")), "/",
				text_at(d, p, SLICE("name"))),
			text_at(d, p, SLICE("gang")), text_at(d, p, SLICE("since")),
			text_at(d, p, SLICE("asks")), text_at(d, p, SLICE("why"))};

		table_row(&t, row);
	}
	table_print(&t, out);
}

static void print_count(struct doc *d, const struct json_node *summary, struct slice key,
	const char *one, struct buf *out)
{
	int64_t n = 0;

	(void)json_int(&d->j, json_get(&d->j, summary, key), &n);
	buf_i64(out, n);
	buf_fmt(out, " %s%s", one, n == 1 ? "" : "s");
}

/* A replica of before says nothing of them, and so does a server without a cluster. */
static void print_how_many(struct doc *d, const struct json_node *waiting, struct buf *out)
{
	if (json_is(waiting, JSON_NULL))
		buf_str(out, "; who waits is not known to this replica now");
	if (!json_first(&d->j, json_get(&d->j, waiting, SLICE("pods"))))
		return;
	buf_str(out, is_at(d, waiting, SLICE("more"), JSON_TRUE) ? ", more than " : ", ");
	print_count(d, waiting, SLICE("total"), "pod", out);
	buf_str(out, " waiting");
}

static void print_summary(struct doc *d, const struct json_node *summary,
	const struct json_node *waiting, struct buf *out)
{
	struct cell free = mb_at(d, summary, SLICE("freeBytes"));
	int64_t fit = 0;

	print_count(d, summary, SLICE("gpus"), "GPU", out);
	(void)json_int(&d->j, json_get(&d->j, summary, SLICE("fit")), &fit);
	buf_fmt(out, ", %" PRId64 " can take pods, %s MB free, ", fit, free.text ? free.text : "?");
	print_count(d, summary, SLICE("claims"), "claim", out);
	print_how_many(d, waiting, out);
	buf_char(out, '\n');
}

int pool_table_write(struct slice json, struct buf *out, struct err *err)
{
	struct doc d = {0};
	const struct json_node *servers, *claims, *waiting, *pods;
	char *copy = NULL;
	int rc = json_read_copy(&d.j, json.at, json.len, NODES_MAX, &copy, err);

	if (rc != 0) {
		json_release(&d.j); /* keeps its nodes for a next reading */
		return rc;
	}
	arena_init(&d.arena, ARENA_MAX);
	servers = json_get(&d.j, json_root(&d.j), SLICE("servers"));
	claims = json_get(&d.j, json_root(&d.j), SLICE("claims"));
	if (!json_is(servers, JSON_ARRAY) || !json_is(claims, JSON_ARRAY)) {
		rc = err_set(err, ERR_INVALID,
			"not a pool: expected an object with the arrays servers and claims");
	} else {
		print_servers(&d, servers, out);
		if (json_first(&d.j, claims)) {
			buf_char(out, '\n');
			print_claims(&d, claims, out);
		}
		waiting = json_get(&d.j, json_root(&d.j), SLICE("waiting"));
		pods = json_get(&d.j, waiting, SLICE("pods"));
		if (json_first(&d.j, pods)) {
			buf_char(out, '\n');
			print_waiting(&d, pods, out);
		}
		buf_char(out, '\n');
		print_summary(&d, json_get(&d.j, json_root(&d.j), SLICE("summary")), waiting, out);
		if (d.arena.failed || out->failed)
			rc = err_set(err, ERR_NOMEM, "out of memory for the table");
	}
	arena_release(&d.arena);
	json_release(&d.j);
	free(copy);
	return rc;
}
