/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the page with the pool for people: one HTML document, nothing fetched from anywhere, whatever names say. */
#ifndef WEBHOOK_EDGE_PAGE_H
#define WEBHOOK_EDGE_PAGE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "webhook/core/ledger.h"
#include "webhook/edge/decisions.h"

/* What is shown in detail at a time, whatever the size of the pool; the rest is on further pages. */
#define PAGE_SERVERS 48
#define PAGE_CLAIMS 100
#define PAGE_DECISIONS 60
/* Further pages that can be asked for: 48 000 servers. */
#define PAGE_NUMBER_MAX 1000

/* Everything that the page says. Borrowed for the call. */
struct page {
	const struct pool_view *view;     /* with claims */
	const struct decision *decisions; /* the youngest first */
	size_t n_decisions;
	int64_t now_ms; /* milliseconds since 1970 */
	const char *version;
	const char *trouble;    /* why reviews cannot be decided now, or NULL */
	int64_t certificate_ms; /* end of the serving certificate, milliseconds since 1970; 0: none */
	bool leads;             /* this replica leads */
	unsigned servers_page; /* from 0; behind the last one counts as the last one */
	unsigned claims_page;
};

/* Append the document. The arena takes what is needed to find who holds what: about 24 bytes for each GPU of each claim.
 * ERR_NOMEM, or ERR_TOOBIG (out->max); out then holds a part. */
int page_render(const struct page *p, struct arena *a, struct buf *out, struct err *err);

/* The Content-Security-Policy to send with it: our style and script by their hashes, this server for the refresh, nothing else. */
extern const char page_policy[];

/* The text between <style> and </style>, <script> and </script>, in pieces, NULL behind them: what the hashes are of. */
extern const char *const page_style[], *const page_script[];

#endif
