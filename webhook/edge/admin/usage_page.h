/* SPDX-License-Identifier: Apache-2.0 */
/* edge: GET /usage-metrics: what namespaces were promised, as counters, for those whose token the
 * API server knows and whose account may get that path. A listener of its own: /metrics is open to
 * all pods and names nobody. */
#ifndef WEBHOOK_EDGE_ADMIN_USAGE_PAGE_H
#define WEBHOOK_EDGE_ADMIN_USAGE_PAGE_H

#include "base/buf.h"
#include "base/log.h"
#include "net/http_server.h"
#include "webhook/core/server/usage_meter.h"
#include "webhook/edge/admin/readers.h"

/* What an account must be allowed to `get`. */
#define USAGE_PAGE_PATH "/usage-metrics"

/* ctx of the http_app. Borrowed; must outlive the server. */
struct usage_page {
	struct readers *readers;
	void *ctx;
	/* Ask the API server, in a time of its own; any thread that may wait. */
	enum reader (*ask)(void *ctx, struct slice token);
	/* Append the metrics. */
	void (*write)(void *ctx, struct buf *out);
	const struct log *log;
};

#define USAGE_ROUTES 1
/* 401 without a token, or for one that nobody knows or can have; 403 for an account that may not;
 * 429 for an address of which too many were not let in; 503 where the API server cannot be asked.
 */
extern const struct http_route usage_routes[USAGE_ROUTES];
/* The http_app's done: forgets the token. */
void usage_page_done(void *ctx, struct http_request *req);
/* Its log. */
void usage_page_transport(void *ctx, const char *msg);

/* Append the sums in the Prometheus text format. */
void usage_totals_write(const struct usage_totals *t, struct buf *out);

#endif
