// SPDX-License-Identifier: Apache-2.0
// edge: the page's servers: a card for each with its GPUs as bars, and a map of all when they are many.
#include <stdlib.h>

#include "webhook/edge/html.h"
#include "webhook/edge/page_impl.h"

/* What one card shows; more is said in a number. */
#define GPUS_SHOWN 32
#define HOLDS_SHOWN 32
#define LABELS_SHOWN 6
#define WORD_MAX 80
#define WHY_MAX 300
/* The map: squares in a row, and how many at most. */
#define MAP_ROW 60
#define MAP_MAX 3000
#define MAP_STEP 11

/* ---- one GPU ---- */

/* The first hold on that GPU or behind it. */
static size_t first_hold(const struct page_state *st, size_t gpu)
{
	size_t low = 0, high = st->n_holds;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (st->holds[mid].gpu < gpu)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void add_pod(struct buf *out, const struct claim *c)
{
	html_cut(out, slice_of(c->namespace), WORD_MAX);
	buf_char(out, '/');
	if (c->name[0])
		html_cut(out, slice_of(c->name), WORD_MAX);
	else
		buf_str(out, "(no name yet)");
}

static void add_rect(
	struct buf *out, const char *class, uint64_t at, uint64_t bytes, uint64_t whole)
{
	buf_fmt(out, "<rect class=\"%s\" height=\"100%%\" x=\"", class);
	html_percent(out, at, whole);
	buf_str(out, "\" width=\"");
	html_percent(out, bytes, whole);
	buf_str(out, "\"/>");
}

/* Each claim a piece of the bar, named in its title. Returns the bytes drawn. */
static uint64_t add_holds(const struct page_state *st, size_t gpu, uint64_t whole)
{
	size_t first = first_hold(st, gpu), end = first;
	struct buf *out = st->out;
	uint64_t at = 0, rest = 0;

	while (end < st->n_holds && st->holds[end].gpu == gpu)
		end++;
	for (size_t i = first; i < end; i++) {
		const struct page_hold *h = &st->holds[i];

		if (i - first >= HOLDS_SHOWN) {
			rest += h->bytes;
			continue;
		}
		buf_str(out, "<g><title>");
		add_pod(out, h->claim);
		buf_str(out, ": ");
		html_bytes(out, h->bytes);
		buf_fmt(out, ", %s</title>", claim_state_name(h->claim->state));
		add_rect(out, h->claim->state == CLAIM_PENDING ? "pending" : "bound", at, h->bytes,
			whole);
		buf_str(out, "</g>");
		at += h->bytes;
	}
	if (rest) {
		buf_fmt(out, "<g><title>%zu more</title>", end - first - HOLDS_SHOWN);
		add_rect(out, "bound", at, rest, whole);
		buf_str(out, "</g>");
	}
	return at + rest;
}

static void add_gpu_words(
	const struct page_state *st, const struct gpu_server *s, size_t g, uint64_t claimed)
{
	const struct gpu *gpu = &s->gpus[g];
	enum pool_state state = pool_state_of(s, gpu);
	struct buf *out = st->out;

	buf_str(out, "<p><b>");
	html_cut(out, slice_of(gpu->id), WORD_MAX);
	buf_str(out, "</b> <span>");
	html_cut(out, slice_of(gpu->model), WORD_MAX);
	buf_str(out, "</span><em>");
	if (claimed > gpu->bytes) {
		buf_str(out, "<i class=\"bad\">");
		html_bytes(out, claimed - gpu->bytes);
		buf_str(out, " too many promised</i>");
	} else if (state == POOL_FREE) {
		if (claimed > 0)
			html_bytes_of(out, gpu->bytes - claimed, gpu->bytes);
		else
			html_bytes(out, gpu->bytes);
		buf_str(out, " free");
	} else {
		buf_fmt(out, "<i class=\"%s\">%s</i> ",
			state == POOL_UNFIT || state == POOL_MISSING ? "bad" : "dim",
			pool_state_name(state));
		html_bytes(out, gpu->bytes);
	}
	buf_str(out, "</em></p>");
}

static void add_gpu(const struct page_state *st, const struct gpu_server *s, size_t g)
{
	const struct gpu *gpu = &s->gpus[g];
	uint64_t claimed = st->p->view->usage.claimed[s->first_gpu + g];
	/* Over-promised: the bar shows the shares of the promise. */
	uint64_t whole = claimed > gpu->bytes ? claimed : gpu->bytes, drawn;
	struct buf *out = st->out;

	buf_str(out, "<li>");
	add_gpu_words(st, s, g, claimed);
	buf_str(out, "<svg class=\"bar\" role=\"img\" aria-label=\"held ");
	html_bytes(out, claimed);
	buf_str(out, " of ");
	html_bytes(out, gpu->bytes);
	buf_fmt(out, "%s\">", claimed > gpu->bytes ? ", more than there is" : "");
	drawn = add_holds(st, s->first_gpu + g, whole);
	if (drawn < whole)
		add_rect(out, pool_state_name(pool_state_of(s, gpu)), drawn, whole - drawn, whole);
	buf_str(out, "</svg>");
	if (gpu->why && gpu->why[0]) {
		buf_str(out, "<p class=\"why\">");
		html_cut(out, slice_of(gpu->why), WHY_MAX);
		buf_str(out, "</p>");
	}
	buf_str(out, "</li>\n");
}

/* ---- one server ---- */

static void add_labels(struct buf *out, const struct gpu_server *s)
{
	if (!s->n_labels)
		return;
	buf_str(out, "<p class=\"labels\">");
	for (size_t i = 0; i < s->n_labels && i < LABELS_SHOWN; i++) {
		buf_str(out, i ? " <span>" : "<span>");
		html_cut(out, slice_of(s->labels[i].key), WORD_MAX);
		buf_char(out, '=');
		html_cut(out, slice_of(s->labels[i].value), WORD_MAX);
		buf_str(out, "</span>");
	}
	if (s->n_labels > LABELS_SHOWN)
		buf_fmt(out, " and %zu more", s->n_labels - LABELS_SHOWN);
	buf_str(out, "</p>");
}

static void add_server(const struct page_state *st, size_t i)
{
	const struct gpu_server *s = &st->p->view->inventory.servers[i];
	struct buf *out = st->out;

	buf_fmt(out, "<article id=\"s%zu\"><header><h3>", i);
	html_cut(out, slice_of(s->name), WORD_MAX * 3);
	buf_str(out, "</h3><span class=\"dim\">");
	html_cut(out, slice_of(s->address), WORD_MAX);
	buf_str(out, "</span>");
	if (s->drain)
		buf_str(out, "<span class=\"chip\">draining</span>");
	buf_str(out, "<span class=\"n\">");
	page_count(out, st->p->view->usage.n_claims[i], "claim", "claims");
	buf_str(out, "</span></header>");
	add_labels(out, s);
	if (s->n_gpus == 0)
		buf_fmt(out, "<p class=\"none\">No GPU is known%s.</p>",
			s->probe_url ? " until its probe answers" : "");
	else
		buf_str(out, "<ul class=\"gpus\">\n");
	for (size_t g = 0; g < s->n_gpus && g < GPUS_SHOWN; g++)
		add_gpu(st, s, g);
	if (s->n_gpus > 0)
		buf_str(out, "</ul>");
	if (s->n_gpus > GPUS_SHOWN) {
		buf_str(out, "<p class=\"none\">and ");
		page_count(out, s->n_gpus - GPUS_SHOWN, "more GPU", "more GPUs");
		buf_str(out, "</p>");
	}
	buf_str(out, "</article>\n");
}

/* ---- the map ---- */

/* One word for a whole server: what keeps it from taking claims, or how full it is. */
static const char *map_class(const struct pool_view *v, size_t i)
{
	const struct gpu_server *s = &v->inventory.servers[i];
	struct pool_split split = {0};
	size_t usable = 0;
	uint64_t held;

	if (s->n_gpus == 0)
		return "stale";
	for (size_t g = 0; g < s->n_gpus; g++)
		usable += inventory_usable(s, &s->gpus[g]);
	pool_split_server(v, i, &split);
	held = split.bytes[POOL_BOUND] + split.bytes[POOL_PENDING];
	if (split.over)
		return "over";
	if (!usable)
		return pool_state_name(pool_state_of(s, &s->gpus[0]));
	return !held ? "free" : !split.bytes[POOL_FREE] ? "bound" : "part";
}

static void add_map(const struct page_state *st)
{
	size_t n = st->p->view->inventory.n_servers, shown = n;
	struct buf *out = st->out;

	if (st->servers_pages < 2)
		return;
	if (shown > MAP_MAX)
		shown = MAP_MAX;
	buf_fmt(out,
		"<svg class=\"map\" role=\"img\" aria-label=\"All servers\" viewBox=\"0 0 %d "
		"%zu\">",
		MAP_ROW * MAP_STEP, (shown + MAP_ROW - 1) / MAP_ROW * MAP_STEP);
	for (size_t i = 0; i < shown; i++) {
		buf_fmt(out, "<a href=\"?servers=%zu&amp;claims=%u#s%zu\"><title>",
			i / PAGE_SERVERS + 1, st->claims_page + 1, i);
		html_cut(out, slice_of(st->p->view->inventory.servers[i].name), WORD_MAX);
		buf_fmt(out,
			"</title><rect class=\"%s\" x=\"%zu\" y=\"%zu\" width=\"9\" height=\"9\" "
			"rx=\"2\"/></a>",
			map_class(st->p->view, i), i % MAP_ROW * MAP_STEP, i / MAP_ROW * MAP_STEP);
	}
	buf_str(out, "</svg>");
	if (n > shown) {
		buf_str(out, "<p class=\"none\">and ");
		page_count(out, n - shown, "more", "more");
		buf_str(out, "</p>");
	}
}

void page_servers(const struct page_state *st)
{
	size_t n = st->p->view->inventory.n_servers;
	size_t first = (size_t)st->servers_page * PAGE_SERVERS;

	buf_str(st->out, "<section id=\"servers\"><h2>GPU servers</h2>");
	if (n == 0)
		buf_str(st->out,
			"<p class=\"none\">No GPU server is known: every pod that asks for "
			"a GPU is refused.</p>");
	add_map(st);
	page_pager(st, true, PAGE_SERVERS, n);
	buf_str(st->out, "<div class=\"servers\">\n");
	for (size_t i = first; i < n && i < first + PAGE_SERVERS; i++)
		add_server(st, i);
	buf_str(st->out, "</div></section>\n");
}
