/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the pool as the JSON of /v1/pool. */
#ifndef WEBHOOK_EDGE_POOL_REPORT_H
#define WEBHOOK_EDGE_POOL_REPORT_H

#include "base/buf.h"
#include "base/err.h"
#include "webhook/core/ledger.h"

/* Append the view as one compact JSON object, with a newline at its end. Sizes are integers of bytes:
 *
 *   servers   [{name, address, labels {key: value}, drain, claims (how many),
 *              gpus [{id, model, bytes, freeBytes, claimedBytes, pendingBytes, fit, fresh, missing, why}]}]
 *   claims    [{namespace, name, uid, state, since (RFC 3339, UTC), parts [{server, gpu, bytes}]}]
 *   summary   {gpus, fit, freeBytes, claims}
 *
 * freeBytes of a GPU is what is not claimed, never negative, and 0 when it is missing. summary.fit counts the GPUs that can take
 * claims (fit, fresh, not missing, on a server that is not draining), summary.freeBytes what these have free. uid is the claim's
 * key: namespace/name or a name of its own when the review showed no uid.
 * ERR_NOMEM or ERR_TOOBIG (out->max); out then holds a part. */
int pool_report_write(const struct pool_view *v, struct buf *out, struct err *err);

/* The same of a ledger as it is now, claims included. ERR_NOMEM, ERR_TOOBIG, or what its view() says. */
int pool_report(struct ledger *l, struct buf *out, struct err *err);

#endif
