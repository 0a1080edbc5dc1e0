/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the routes /mutate and /validate, and those of namespaces that pick a policy: bytes in, a
 * decision of the core, bytes out, and the claim behind it. */
#ifndef WEBHOOK_EDGE_ADMISSION_ADMISSION_H
#define WEBHOOK_EDGE_ADMISSION_ADMISSION_H

#include "base/err.h"
#include "base/log.h"
#include "base/metric.h"
#include "net/http_server.h"
#include "webhook/core/inject/mutate.h"
#include "webhook/core/launcher/config.h"
#include "webhook/core/pod/plan_proof.h"
#include "webhook/core/pool/ledger.h"
#include "webhook/edge/admission/decisions.h"
#include "webhook/edge/image/image_look.h"

/* Where the configuration in force comes from. acquire: a snapshot that stays as it is until it is
 * released; never NULL. Any thread. */
struct config_source {
	void *ctx;
	const struct config *(*acquire)(void *ctx);
	void (*release)(void *ctx, const struct config *config);
};

/* Asked before a claim is taken for a pod whose launcher needs Secrets: will they come to be in
 * that namespace? 0, or ERR_REFUSED with reason and message. May wait until the deadline
 * (CLOCK_MONOTONIC). check NULL: nobody brings any, nothing is asked. */
struct secrets_check {
	void *ctx;
	int (*check)(void *ctx, struct slice namespace, const struct slice *secrets, size_t n,
		int64_t deadline_ms, struct err *err);
};

/* Asked before a claim is taken: will a ResourceQuota refuse that pod behind us (rule R12)? Else as
 * above. */
struct quotas_check {
	void *ctx;
	int (*check)(void *ctx, struct slice namespace, const struct json *j,
		const struct json_node *pod, int64_t deadline_ms, struct err *err);
};

/* Who knows which policy a namespace picks. any: false where there are none at all. of: as in
 * struct policy_source, and may wait until the deadline (CLOCK_MONOTONIC); 0: it must not, and says
 * ERR_TIMEOUT where it would have to. picks: the API server has seen that it picks one, so that who
 * sees none is behind, and asks. What is found lives in the arena or in the configuration. any
 * NULL: there are none. */
struct policies_known {
	void *ctx;
	bool (*any)(void *ctx, const struct config *config);
	int (*of)(void *ctx, const struct config *config, struct slice namespace, bool picks,
		int64_t deadline_ms, struct arena *a, const struct policy **ret, struct err *err);
};

/* Everything is borrowed and must outlive the admission. */
struct admission_deps {
	struct config_source source;
	struct ledger *ledger;
	struct secrets_check secrets; /* these three with a ledger that may wait alone */
	struct quotas_check quotas;
	struct waiters waiters; /* count NULL: nobody knows */
	struct policies_known policies;
	struct image_look *images;        /* NULL: no image is looked at */
	const struct plan_signer *signer; /* NULL: plans have no proofs */
	struct metrics *metrics;          /* over metric_table */
	struct decisions *decisions;      /* where each is noted; may be NULL */
	const struct log *log;
};

struct admission;

/* NULL and err (ERR_NOMEM) when out of memory. Free it after the server that uses it has stopped.
 */
struct admission *admission_new(const struct admission_deps *deps, struct err *err);
void admission_free(struct admission *a);

/* For the route table of the TLS server; ctx of the http_app is the struct admission. Both routes
 * are POST with content_type "application/json"; handle and slow as below; `queued` and `done` of
 * the http_app as below. */
enum http_outcome admission_mutate(void *ctx, struct http_request *req, struct http_reply *reply);
enum http_outcome admission_mutate_slow(
	void *ctx, struct http_request *req, struct http_reply *reply);
enum http_outcome admission_validate(void *ctx, struct http_request *req, struct http_reply *reply);
enum http_outcome admission_validate_slow(
	void *ctx, struct http_request *req, struct http_reply *reply);

/* Ledger rule R3: unless an allowed reply was given to the transport, the claim that was taken for
 * it is taken back. */
void admission_queued(void *ctx, struct http_request *req, bool queued);
void admission_done(void *ctx, struct http_request *req);
/* `log` of the http_app: a sentence of the transport. */
void admission_transport(void *ctx, const char *msg);

/* The routes, ready for the table: {"/mutate", …}, {"/validate", …}, and the same two for reviews
 * from namespaces that the API server has seen pick a policy: {"/mutate-policy", …},
 * {"/validate-policy", …}. */
#define ADMISSION_ROUTES 4
extern const struct http_route admission_routes[ADMISSION_ROUTES];

#endif
