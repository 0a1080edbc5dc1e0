/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the pool as the JSON of /v1/pool. */
#ifndef WEBHOOK_EDGE_POOL_POOL_REPORT_H
#define WEBHOOK_EDGE_POOL_POOL_REPORT_H

#include "base/buf.h"
#include "base/err.h"
#include "webhook/core/pool/ledger.h"

/* Append the view as one compact JSON object, with a newline at its end. Sizes are integers of
 * bytes:
 *
 *   servers   [{name, address, labels {key: value}, drain, claims (how many),
 *              gpus [{id, model, bytes, freeBytes, claimedBytes, pendingBytes, fit, fresh,
 *                     missing, why}]}]
 *   claims    [{namespace, name, uid, state, since (RFC 3339, UTC), parts [{server, gpu, bytes}]}]
 *   summary   {gpus, fit, freeBytes, claims}
 *   waiting   as it is given: who waits (pool_waiting.h), or null where nobody knows now; absent:
 *             there is none
 *
 * freeBytes of a GPU is what is not claimed, never negative, and 0 when it is missing. summary.fit
 * counts the GPUs that can take claims (fit, fresh, not missing, on a server that is not draining),
 * summary.freeBytes what these have free. uid is the claim's key: namespace/name or a name of its
 * own when the review showed no uid. ERR_NOMEM or ERR_TOOBIG (out->max); out then holds a part. */
int pool_report_write(
	const struct pool_view *v, struct slice waiting, struct buf *out, struct err *err);

/* How much of a large pool one page lists, and of how many servers its map tells. */
#define POOL_PAGE_SERVERS 48
#define POOL_PAGE_CLAIMS 100
#define POOL_PAGE_HOLDS 32
#define POOL_PAGE_MAP 3000

/* Which page of the servers and which of the claims, from 1; 0 counts as 1, what is behind the last
 * as the last. */
struct pool_page {
	uint64_t servers, claims;
};

/* Append one page for a reader who draws it, as share/page.html does: servers and claims hold that
 * page alone, and there is more:
 *
 *   a server  probed: a probe tells its GPUs
 *   a GPU     state: what the part of it that nobody holds counts as (edge/pool/pool_states.h);
 *             holds [{namespace, name, state, bytes}]: who holds it, the pending last, else who
 *             came first, first; moreHolds: how many are not listed
 *   summary   bytes; states {bound, pending, free, …}, whose sum it is; overBytes: promised beyond
 *             it; pending: claims whose pod has not been seen
 *   pages     {servers {page, each, total}, claims {page, each, total}}
 *   map       of a pool with several pages of servers, the first servers of all:
 *             [[name, state]], where state is a word of pool_states.h, "part" (some of it is held)
 *             or "over"
 *
 * The arena takes what is needed to find who holds what: about 24 bytes for each GPU of each claim.
 * Errors as above. */
int pool_report_page(const struct pool_view *v, struct slice waiting, const struct pool_page *page,
	struct arena *a, struct buf *out, struct err *err);

/* The whole report of a ledger as it is now, claims included, without who waits. ERR_NOMEM,
 * ERR_TOOBIG, or what its view() says. */
int pool_report(struct ledger *l, struct buf *out, struct err *err);

#endif
