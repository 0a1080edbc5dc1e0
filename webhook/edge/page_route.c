// SPDX-License-Identifier: Apache-2.0
// edge: what the page shows is gathered here, and its headers are set.
#include "webhook/edge/page_route.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "webhook/edge/admin_guard.h"
#include "webhook/edge/metrics.h"
#include "webhook/edge/page.h"
#include "webhook/edge/plain_routes.h"

#define PAGE_BYTES_MAX (8u * 1024 * 1024)
#define VIEW_ARENA_MAX (256u * 1024 * 1024)
/* Both numbers go to the worker in one word. */
#define PAGE_BITS 16

/* The page's number from 0; what is no number is the first. */
static uintptr_t page_number(const struct http_request *req, const char *name)
{
	uint64_t n;

	return text_u64(slice_of(http_request_arg(req, name)), PAGE_NUMBER_MAX, &n) && n > 0
		       ? (uintptr_t)n - 1
		       : 0;
}

enum http_outcome page_route(void *ctx, struct http_request *req, struct http_reply *reply)
{
	(void)ctx;
	if (!admin_allows(req, reply))
		return HTTP_DONE;
	req->user = (void *)(page_number(req, "servers") << PAGE_BITS | page_number(req, "claims"));
	return HTTP_LATER;
}

static void set_headers(struct http_reply *reply)
{
	size_t n = 0;

	reply->header[n++] = (struct http_header){"Content-Security-Policy", page_policy};
	reply->header[n++] = (struct http_header){"X-Content-Type-Options", "nosniff"};
	reply->header[n++] = (struct http_header){"Referrer-Policy", "no-referrer"};
	reply->header[n] = (struct http_header){"Cache-Control", "no-store"};
}

/* The view is taken first: nothing on the page is younger than its time. */
static int write_page(
	struct plain *p, uintptr_t pages, struct decision *kept, struct buf *out, struct err *err)
{
	struct pool_view view;
	struct tls_info tls;
	struct page page = {.view = &view,
		.decisions = kept,
		.version = p->version,
		.trouble = p->unready ? p->unready(p->unready_ctx) : NULL,
		.leads = metric_value(p->metrics, M_LEADER, 0, 0) == 1,
		.servers_page = (unsigned)(pages >> PAGE_BITS),
		.claims_page = (unsigned)(pages & ((1u << PAGE_BITS) - 1))};
	struct arena a;
	int rc;

	arena_init(&a, VIEW_ARENA_MAX);
	rc = p->ledger->ops->view(p->ledger, true, &a, &view, err);
	if (p->decisions)
		page.n_decisions = decisions_copy(p->decisions, kept, PAGE_DECISIONS);
	if (tls_identity_info(p->identity, &tls))
		page.certificate_ms = tls.not_after * 1000;
	page.now_ms = clock_wall_ms();
	if (rc == 0)
		rc = page_render(&page, &a, out, err);
	arena_release(&a);
	return rc;
}

enum http_outcome page_route_slow(void *ctx, struct http_request *req, struct http_reply *reply)
{
	struct decision *kept = calloc(PAGE_DECISIONS, sizeof(*kept));
	struct err err = {0};
	struct buf out;
	int rc;

	buf_init(&out, PAGE_BYTES_MAX);
	rc = kept ? write_page(ctx, (uintptr_t)req->user, kept, &out, &err)
		  : err_set(&err, ERR_NOMEM, "out of memory while writing the page");
	free(kept);
	req->user = NULL;
	if (rc != 0) {
		buf_release(&out);
		http_reply_text(reply, 500, err.msg);
		return HTTP_DONE;
	}
	reply->status = 200;
	reply->content_type = "text/html; charset=utf-8";
	reply->body = buf_take(&out, &reply->body_len);
	set_headers(reply);
	return HTTP_DONE;
}
