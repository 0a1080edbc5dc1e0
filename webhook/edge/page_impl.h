/* SPDX-License-Identifier: Apache-2.0 */
/* edge: what the page's files share. */
#ifndef WEBHOOK_EDGE_PAGE_IMPL_H
#define WEBHOOK_EDGE_PAGE_IMPL_H

#include "webhook/edge/page.h"
#include "webhook/edge/pool_states.h"

/* One claim's part on one GPU. */
struct page_hold {
	size_t gpu; /* among all GPUs of the inventory */
	const struct claim *claim;
	uint64_t bytes;
};

struct page_state {
	const struct page *p;
	struct buf *out;
	struct page_hold *holds; /* sorted by GPU */
	size_t n_holds;
	unsigned servers_page, claims_page; /* that exist */
	unsigned servers_pages, claims_pages;
};

/* "3 servers", "1 server" */
void page_count(struct buf *out, size_t n, const char *one, const char *many);

/* A moment as how long ago it was, exactly when in its title. */
void page_when(const struct page_state *st, int64_t at_ms);

/* "1–48 of 900" with links to the pages before and behind; nothing when there is one page. */
void page_pager(const struct page_state *st, bool servers, size_t each, size_t total);

/* A bar of the parts, with the words of it for who does not see it. */
void page_split_bar(struct buf *out, const struct pool_split *split, const char *class);

/* The sections. */
void page_servers(const struct page_state *st);
void page_claims(const struct page_state *st);
void page_decisions(const struct page_state *st);

#endif
