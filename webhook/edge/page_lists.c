// SPDX-License-Identifier: Apache-2.0
// edge: the page's two lists: who holds what, and what became of the last reviews.
#define _GNU_SOURCE 1 /* memrchr */
#include <string.h>

#include "base/text.h"
#include "webhook/edge/html.h"
#include "webhook/edge/page_impl.h"

#define WORD_MAX 120
#define PARTS_SHOWN 16

static void add_pod(struct buf *out, struct slice namespace, struct slice name)
{
	buf_str(out, "<span class=\"dim\">");
	html_cut(out, namespace, WORD_MAX);
	buf_str(out, "/</span>");
	if (name.len)
		html_cut(out, name, WORD_MAX);
	else
		buf_str(out, "<span class=\"dim\">(no name yet)</span>");
}

/* ---- claims ---- */

static void add_claim(const struct page_state *st, const struct claim *c)
{
	struct buf *out = st->out;

	buf_str(out, "<tr><td class=\"pod\">");
	add_pod(out, slice_of(c->namespace), slice_of(c->name));
	buf_fmt(out, "</td><td><span class=\"chip %s\">%s</span></td><td class=\"age\">",
		c->state == CLAIM_PENDING ? "wait" : "yes", claim_state_name(c->state));
	page_when(st, c->since_ms);
	buf_str(out, "</td><td class=\"parts\">");
	for (size_t i = 0; i < c->n_parts && i < PARTS_SHOWN; i++) {
		buf_str(out, i ? " <span>" : "<span>");
		html_cut(out, slice_of(c->parts[i].server), WORD_MAX);
		buf_char(out, '/');
		html_cut(out, slice_of(c->parts[i].gpu), WORD_MAX);
		buf_str(out, " <b>");
		html_bytes(out, c->parts[i].bytes);
		buf_str(out, "</b></span>");
	}
	if (c->n_parts > PARTS_SHOWN)
		buf_fmt(out, " <span>and %zu more</span>", c->n_parts - PARTS_SHOWN);
	buf_str(out, "</td></tr>\n");
}

void page_claims(const struct page_state *st)
{
	const struct pool_view *v = st->p->view;
	size_t first = (size_t)st->claims_page * PAGE_CLAIMS;

	buf_str(st->out, "<section id=\"claims\"><h2>Who holds what</h2>");
	if (v->n_claims == 0) {
		buf_str(st->out, "<p class=\"none\">Nobody holds anything.</p></section>\n");
		return;
	}
	page_pager(st, false, PAGE_CLAIMS, v->n_claims);
	buf_str(st->out, "<table class=\"claims\"><thead><tr><th>Pod</th><th>State</th>"
			 "<th>For</th><th>Holds</th></tr></thead><tbody>\n");
	for (size_t i = first; i < v->n_claims && i < first + PAGE_CLAIMS; i++)
		add_claim(st, &v->claims[i]);
	buf_str(st->out, "</tbody></table></section>\n");
}

/* ---- decisions ---- */

static const char *result_class(enum metric_result r)
{
	switch (r) {
	case RESULT_PATCHED:
	case RESULT_CLAIMED:
		return "yes";
	case RESULT_REFUSED:
	case RESULT_FAILED:
	case RESULT_UNREADABLE:
		return "no";
	case RESULT_UNTOUCHED:
		return "";
	}
	return "";
}

/* "gpu-01/gpu-0=8000000000 …": bytes for people. */
static void add_granted(struct buf *out, struct slice message)
{
	struct slice word, number;
	const char *eq;
	uint64_t bytes;

	while (text_word(&message, &word)) {
		eq = memrchr(word.at, '=', word.len);
		number = eq ? (struct slice){eq + 1, word.len - (size_t)(eq + 1 - word.at)}
			    : (struct slice){0};
		buf_char(out, ' ');
		if (!text_u64(number, UINT64_MAX, &bytes)) {
			html_text(out, word);
			continue;
		}
		html_text(out, (struct slice){word.at, (size_t)(eq - word.at)});
		buf_char(out, ' ');
		html_bytes(out, bytes);
	}
}

static void add_decision(const struct page_state *st, const struct decision *d)
{
	struct buf *out = st->out;

	buf_str(out, "<tr><td class=\"age\">");
	page_when(st, d->at_ms);
	buf_fmt(out,
		"</td><td class=\"hook\">%s <span class=\"dim\">%s%s</span></td><td class=\"pod\">",
		d->hook == HOOK_MUTATE ? "mutate" : "validate", metric_operation_name(d->operation),
		d->dry_run ? ", dry run" : "");
	if (d->kind[0] && !slice_is(SLICE("Pod"), d->kind)) {
		html_cut(out, slice_of(d->kind), WORD_MAX);
		buf_char(out, ' ');
	}
	add_pod(out, slice_of(d->namespace), slice_of(d->name));
	buf_fmt(out, "</td><td class=\"said\"><span class=\"chip %s\">%s</span>",
		result_class(d->result), metric_result_name(d->result));
	if (d->reason[0]) {
		buf_str(out, " <b>");
		html_str(out, d->reason);
		buf_str(out, "</b>");
	}
	if (d->message[0]) {
		buf_str(out, " <span class=\"words\">");
		if (d->result == RESULT_CLAIMED)
			add_granted(out, slice_of(d->message));
		else
			html_str(out, d->message);
		buf_str(out, "</span>");
	}
	buf_str(out, "</td></tr>\n");
}

void page_decisions(const struct page_state *st)
{
	buf_str(st->out, "<section id=\"decisions\"><h2>Recent decisions <small>of this replica"
			 "</small></h2>");
	if (st->p->n_decisions == 0) {
		buf_str(st->out, "<p class=\"none\">No review has come yet.</p></section>\n");
		return;
	}
	buf_str(st->out, "<table class=\"decisions\"><thead><tr><th>Ago</th><th>Hook</th>"
			 "<th>Pod</th><th>Decision</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < st->p->n_decisions && i < PAGE_DECISIONS; i++)
		add_decision(st, &st->p->decisions[i]);
	buf_str(st->out, "</tbody></table></section>\n");
}
