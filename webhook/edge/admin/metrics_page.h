/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the whole text of /metrics: the table's, the transport's, the pool's, the program's. */
#ifndef WEBHOOK_EDGE_ADMIN_METRICS_PAGE_H
#define WEBHOOK_EDGE_ADMIN_METRICS_PAGE_H

#include "base/buf.h"
#include "net/http_server.h"
#include "webhook/core/pool/ledger.h"
#include "webhook/edge/metrics/metrics.h"

/* Servers that have series of their own; those behind them, by name, share one with this label (no
 * server can be called so). */
#define METRIC_SERVERS_MAX 1000
#define METRIC_SERVERS_REST "(others)"

/* Append everything. st NULL: there is no TLS server (yet, or any more). The ledger is asked for
 * the pool; when it has no answer the pool's series are left out. */
void metrics_page(const struct metrics *m, const struct http_stats *st, struct ledger *ledger,
	const char *version, struct buf *out);

#endif
