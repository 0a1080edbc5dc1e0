// SPDX-License-Identifier: Apache-2.0
// edge: the page as a whole: head, sums, and the order of its sections.
#include "webhook/edge/page.h"

#include <stdlib.h>

#include "webhook/edge/html.h"
#include "webhook/edge/page_impl.h"

/* Sums over the whole pool. */
struct totals {
	struct pool_split split;
	uint64_t bytes;
	size_t gpus, usable, pending;
};

void page_count(struct buf *out, size_t n, const char *one, const char *many)
{
	buf_u64(out, n);
	buf_char(out, ' ');
	buf_str(out, n == 1 ? one : many);
}

void page_when(const struct page_state *st, int64_t at_ms)
{
	buf_str(st->out, "<time datetime=\"");
	html_time(st->out, at_ms);
	buf_str(st->out, "\" title=\"");
	html_time(st->out, at_ms);
	buf_str(st->out, "\">");
	html_age(st->out, st->p->now_ms - at_ms);
	buf_str(st->out, "</time>");
}

static void pager_link(const struct page_state *st, bool servers, unsigned to, const char *words)
{
	buf_fmt(st->out, " <a href=\"?servers=%u&amp;claims=%u#%s\">%s</a>",
		servers ? to : st->servers_page + 1, servers ? st->claims_page + 1 : to,
		servers ? "servers" : "claims", words);
}

void page_pager(const struct page_state *st, bool servers, size_t each, size_t total)
{
	unsigned page = servers ? st->servers_page : st->claims_page;
	unsigned pages = servers ? st->servers_pages : st->claims_pages;
	size_t first = (size_t)page * each, end = first + each < total ? first + each : total;

	if (pages < 2)
		return;
	buf_fmt(st->out, "<p class=\"pager\">%zu\xe2\x80\x93%zu of %zu", first + 1, end, total);
	if (page > 0)
		pager_link(st, servers, page, "\xe2\x86\x90 before");
	if (page + 1 < pages)
		pager_link(st, servers, page + 2, "next \xe2\x86\x92");
	buf_str(st->out, "</p>");
}

void page_split_bar(struct buf *out, const struct pool_split *split, const char *class)
{
	uint64_t whole = 0, at = 0;
	const char *comma = "";

	for (int s = 0; s < POOL_STATES; s++)
		whole += split->bytes[s];
	buf_fmt(out, "<svg class=\"bar %s\" role=\"img\" aria-label=\"", class);
	for (int s = 0; s < POOL_STATES; s++) {
		if (!split->bytes[s])
			continue;
		buf_fmt(out, "%s%s ", comma, pool_state_name((enum pool_state)s));
		html_bytes(out, split->bytes[s]);
		comma = ", ";
	}
	buf_str(out, "\">");
	for (int s = 0; s < POOL_STATES; s++) {
		if (!split->bytes[s])
			continue;
		buf_fmt(out, "<rect class=\"%s\" height=\"100%%\" x=\"",
			pool_state_name((enum pool_state)s));
		html_percent(out, at, whole);
		buf_str(out, "\" width=\"");
		html_percent(out, split->bytes[s], whole);
		buf_str(out, "\"/>");
		at += split->bytes[s];
	}
	buf_str(out, "</svg>");
}

/* ---- sums ---- */

static struct totals sum_up(const struct pool_view *v)
{
	struct totals t = {0};

	for (size_t i = 0; i < v->inventory.n_servers; i++) {
		const struct gpu_server *s = &v->inventory.servers[i];

		pool_split_server(v, i, &t.split);
		for (size_t g = 0; g < s->n_gpus; g++) {
			t.gpus++;
			t.usable += inventory_usable(s, &s->gpus[g]);
			t.bytes += s->gpus[g].bytes;
		}
	}
	for (size_t i = 0; i < v->n_claims; i++)
		t.pending += v->claims[i].state == CLAIM_PENDING;
	return t;
}

static void tile(struct buf *out, const char *word)
{
	buf_fmt(out, "<div><dt>%s</dt><dd>", word);
}

static void add_tiles(const struct page_state *st, const struct totals *t)
{
	const struct pool_view *v = st->p->view;
	struct buf *out = st->out;

	buf_str(out, "<dl class=\"tiles\">");
	tile(out, "Memory free");
	html_bytes(out, t->split.bytes[POOL_FREE]);
	buf_str(out, " <small>of ");
	html_bytes(out, t->bytes);
	buf_str(out, "</small></dd></div>");
	tile(out, "GPUs that take claims");
	buf_fmt(out, "%zu <small>of %zu</small></dd></div>", t->usable, t->gpus);
	tile(out, "Servers");
	buf_fmt(out, "%zu</dd></div>", v->inventory.n_servers);
	tile(out, "Claims");
	buf_fmt(out, "%zu", v->n_claims);
	if (t->pending)
		buf_fmt(out, " <small>%zu pending</small>", t->pending);
	buf_str(out, "</dd></div></dl>");
}

static void add_legend(struct buf *out, const struct pool_split *split)
{
	static const char *const words[POOL_STATES] = {
		"held", "held, pod not seen yet", "free", "drained", "stale", "unfit", "missing"};

	buf_str(out, "<ul class=\"legend\">");
	for (int s = 0; s < POOL_STATES; s++) {
		if (!split->bytes[s] && s != POOL_BOUND && s != POOL_PENDING && s != POOL_FREE)
			continue;
		buf_fmt(out,
			"<li><svg class=\"key\" aria-hidden=\"true\"><rect class=\"%s\" "
			"width=\"100%%\" height=\"100%%\"/></svg>%s <b>",
			pool_state_name((enum pool_state)s), words[s]);
		html_bytes(out, split->bytes[s]);
		buf_str(out, "</b></li>");
	}
	if (split->over) {
		buf_str(out, "<li class=\"bad\">promised beyond what is there <b>");
		html_bytes(out, split->over);
		buf_str(out, "</b></li>");
	}
	buf_str(out, "</ul>");
}

/* ---- the document ---- */

static void add_all(struct buf *out, const char *const *pieces)
{
	while (*pieces)
		buf_str(out, *pieces++);
}

static void add_head(const struct page_state *st, const struct totals *t)
{
	struct buf *out = st->out;

	buf_str(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		     "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
		     "<title>poolgate: ");
	html_bytes(out, t->split.bytes[POOL_FREE]);
	buf_str(out, " free of ");
	html_bytes(out, t->bytes);
	buf_str(out, "</title>\n<style>");
	add_all(out, page_style);
	buf_str(out, "</style>\n<noscript><meta http-equiv=\"refresh\" content=\"10\"></noscript>\n"
		     "</head>\n<body>\n"
		     /* Hatches for what cannot be claimed; the refresh leaves them alone. */
		     "<svg class=\"defs\" aria-hidden=\"true\"><defs>"
		     "<pattern id=\"hatch\" width=\"6\" height=\"6\" "
		     "patternUnits=\"userSpaceOnUse\" "
		     "patternTransform=\"rotate(45)\"><rect class=\"h0\" width=\"6\" "
		     "height=\"6\"/><rect class=\"h1\" width=\"2\" height=\"6\"/></pattern>"
		     "<pattern id=\"cross\" width=\"6\" height=\"6\" "
		     "patternUnits=\"userSpaceOnUse\" "
		     "patternTransform=\"rotate(-45)\"><rect class=\"c0\" width=\"6\" "
		     "height=\"6\"/><rect class=\"c1\" width=\"3\" height=\"6\"/></pattern>"
		     "</defs></svg>\n<header><h1>poolgate</h1><p id=\"live\" "
		     "aria-live=\"polite\"></p></header>\n<main>\n");
	buf_str(out, "<p class=\"stand\">as of <time datetime=\"");
	html_time(out, st->p->now_ms);
	buf_str(out, "\">");
	html_time(out, st->p->now_ms);
	buf_str(out, "</time></p>\n");
	if (st->p->trouble) {
		buf_str(out, "<p class=\"trouble\" role=\"alert\">Reviews are not decided: ");
		html_str(out, st->p->trouble);
		buf_str(out, "</p>\n");
	}
}

static void add_foot(const struct page_state *st)
{
	struct buf *out = st->out;

	buf_str(out, "<footer><p>poolgate ");
	html_str(out, st->p->version);
	if (st->p->leads)
		buf_str(out, " \xc2\xb7 this replica leads");
	if (st->p->certificate_ms) {
		buf_str(out, " \xc2\xb7 certificate until ");
		html_time(out, st->p->certificate_ms);
	}
	buf_str(out, " \xc2\xb7 <a href=\"/v1/pool\">the pool as JSON</a></p></footer>\n"
		     "</main>\n<script>");
	add_all(out, page_script);
	buf_str(out, "</script>\n</body>\n</html>\n");
}

/* ---- who holds what ---- */

static int by_gpu(const void *a, const void *b)
{
	const struct page_hold *x = a, *y = b;

	if (x->gpu != y->gpu)
		return x->gpu < y->gpu ? -1 : 1;
	if ((x->claim->state == CLAIM_PENDING) != (y->claim->state == CLAIM_PENDING))
		return y->claim->state == CLAIM_PENDING ? -1 : 1;
	/* What has been held for longest stands first: bars keep their order while claims come and go. */
	if (x->claim->since_ms != y->claim->since_ms)
		return x->claim->since_ms < y->claim->since_ms ? -1 : 1;
	return x->claim < y->claim ? -1 : x->claim > y->claim;
}

static int index_holds(struct page_state *st, struct arena *a, struct err *err)
{
	const struct pool_view *v = st->p->view;
	size_t n = 0;

	for (size_t i = 0; i < v->n_claims; i++)
		n += v->claims[i].n_parts;
	st->holds = arena_array(a, n, sizeof(*st->holds));
	if (!st->holds)
		return err_set(err, ERR_NOMEM, "out of memory while writing the page");
	for (size_t i = 0; i < v->n_claims; i++) {
		const struct claim *c = &v->claims[i];

		for (size_t k = 0; k < c->n_parts; k++) {
			const struct gpu_server *s =
				inventory_server(&v->inventory, slice_of(c->parts[k].server));
			const struct gpu *g =
				s ? inventory_gpu(s, slice_of(c->parts[k].gpu)) : NULL;

			if (!g)
				continue;
			st->holds[st->n_holds++] =
				(struct page_hold){.gpu = s->first_gpu + (size_t)(g - s->gpus),
					.claim = c,
					.bytes = c->parts[k].bytes};
		}
	}
	if (st->n_holds > 1)
		qsort(st->holds, st->n_holds, sizeof(*st->holds), by_gpu);
	return 0;
}

static unsigned pages_of(size_t n, size_t each)
{
	size_t pages = n ? (n + each - 1) / each : 1;

	return pages > PAGE_NUMBER_MAX ? PAGE_NUMBER_MAX : (unsigned)pages;
}

int page_render(const struct page *p, struct arena *a, struct buf *out, struct err *err)
{
	struct page_state st = {.p = p,
		.out = out,
		.servers_pages = pages_of(p->view->inventory.n_servers, PAGE_SERVERS),
		.claims_pages = pages_of(p->view->n_claims, PAGE_CLAIMS)};
	struct totals t = sum_up(p->view);
	int rc = index_holds(&st, a, err);

	if (rc != 0)
		return rc;
	st.servers_page =
		p->servers_page < st.servers_pages ? p->servers_page : st.servers_pages - 1;
	st.claims_page = p->claims_page < st.claims_pages ? p->claims_page : st.claims_pages - 1;
	add_head(&st, &t);
	buf_str(out, "<section class=\"sum\" aria-label=\"Sums\">");
	add_tiles(&st, &t);
	if (t.bytes)
		page_split_bar(out, &t.split, "big");
	add_legend(out, &t.split);
	buf_str(out, "</section>\n");
	page_servers(&st);
	page_claims(&st);
	page_decisions(&st);
	add_foot(&st);
	if (!out->failed)
		return 0;
	return out->full ? err_set(err, ERR_TOOBIG, "the page is over %zu bytes", out->max)
			 : err_set(err, ERR_NOMEM, "out of memory while writing the page");
}
