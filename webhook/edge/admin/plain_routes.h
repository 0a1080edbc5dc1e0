/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the two listeners without TLS: /livez, /readyz and /metrics for everybody in the cluster,
 * the page, /v1/pool, /v1/decisions and /v1/release for the machine's own people. */
#ifndef WEBHOOK_EDGE_ADMIN_PLAIN_ROUTES_H
#define WEBHOOK_EDGE_ADMIN_PLAIN_ROUTES_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/log.h"
#include "base/metric.h"
#include "net/http_server.h"
#include "net/tls_identity.h"
#include "webhook/core/pool/ledger.h"
#include "webhook/edge/admission/decisions.h"
#include "webhook/edge/pool/pool_waiting.h"

/* ctx of both http_apps. What plain_listeners_init leaves NULL is the caller's to fill; pointers
 * are borrowed and must outlive the servers. */
struct plain_listeners {
	atomic_bool draining; /* /readyz says 503 */
	struct tls_identity *identity;
	struct ledger *ledger;
	struct metrics *metrics;
	struct decisions *decisions; /* or NULL: none are shown */
	struct pool_waiting_source waiting;
	const char *version;
	const struct log *log;
	/* Why reviews cannot be decided yet, NULL when they can; NULL function: they always can.
	 * Any thread. */
	const char *(*unready)(void *ctx);
	void *unready_ctx;
	pthread_mutex_t lock;
	struct http_server *main; /* guarded by lock; see plain_listeners_show */
};

/* Empty, with its lock; and the lock given back, when no listener runs any more. */
void plain_listeners_init(struct plain_listeners *p);
void plain_listeners_release(struct plain_listeners *p);

/* The TLS server whose numbers /metrics shows and that makes /readyz say 200; NULL before it is
 * stopped: afterwards no handler looks at it. Any thread. */
void plain_listeners_show(struct plain_listeners *p, struct http_server *server);

#define PLAIN_ROUTES 3
/* GET /livez: 200 while the process answers. GET /readyz: 200 when reviews can be answered, else
 * 503 and why. GET /metrics: Prometheus text. */
extern const struct http_route plain_routes[PLAIN_ROUTES];

#define ADMIN_ROUTES 4
/* GET /: the page with the pool (webhook/edge/admin/page.h).
 * GET /v1/pool: servers, GPUs, claims, who waits as JSON; ?servers=2&claims=3, either or both, for
 * one page of a large pool, with what the page draws (webhook/edge/pool/pool_report.h).
 * GET /v1/decisions: {version, leads, certificateUntil, trouble (why reviews cannot be decided now,
 * or ""), decisions (webhook/edge/admission/decisions.h), now}: of this replica.
 * POST /v1/release with {"namespace": "N", "name": "P"} or {"uid": "U"} (application/json): ends
 * the pod's claims and answers {"released": 1}; 404 when there are none, 400 for anything else.
 * All: 421 for a Host that no program of this machine sends (webhook/edge/admin/admin_guard.h). */
extern const struct http_route admin_routes[ADMIN_ROUTES];

#endif
