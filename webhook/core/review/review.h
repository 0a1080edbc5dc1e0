/* SPDX-License-Identifier: Apache-2.0 */
/* core: the AdmissionReview protocol: what a request says, and how an answer is written (k8s.io/api
 * admission/v1). */
#ifndef WEBHOOK_CORE_REVIEW_REVIEW_H
#define WEBHOOK_CORE_REVIEW_REVIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_read.h"
#include "base/slice.h"
#include "webhook/core/pool/ledger.h"

/* Nodes (keys and values) that one review may hold: 8 MiB of the densest real review stay far below
 * it. */
#define REVIEW_NODES_MAX 1000000

enum operation { OP_CREATE, OP_UPDATE, OP_DELETE, OP_CONNECT };

/* A decoded request. Slices and nodes point into the JSON text or the arena. */
struct review {
	const struct json *j;
	bool v1beta1; /* else v1 */
	struct slice uid;
	struct slice group; /* request.kind */
	struct slice version;
	struct slice kind;
	struct slice resource;    /* "pods" */
	struct slice subresource; /* "" when there is none */
	struct slice name;        /* request.name, "" when absent (generateName) */
	struct slice namespace;   /* request.namespace, else object.metadata.namespace, else "" */
	enum operation operation;
	bool dry_run;
	bool graceless;                     /* DELETE with options.gracePeriodSeconds 0 */
	const struct json_node *object;     /* NULL when absent or null */
	const struct json_node *old_object; /* likewise */
};

/* Decode the root of j. ERR_SYNTAX (answered with HTTP 400) when it is no readable AdmissionReview:
 * not an object, unknown apiVersion or kind, no request, no uid, an unknown operation, members of
 * the wrong type. ERR_NOMEM. */
int review_read(const struct json *j, struct arena *a, struct review *ret, struct err *err);

/* Is this about a whole Pod (core group, kind Pod, resource pods, the subresource given, "" for
 * none)? */
bool review_is_pod(const struct review *r, const char *subresource);

/* Most warnings that one answer carries; each is cut to WARNING_MAX bytes (advised in admission/v1
 * types.go). */
#define WARNINGS_MAX 16
#define WARNING_MAX 120

/* Sentences that the user sees beside a yes. */
struct warnings {
	struct slice text[WARNINGS_MAX];
	size_t n;
	size_t dropped;
};

/* Add one (printf style, allocated in the arena, cut behind a word where
 * one ends near the limit, never within a character, control characters replaced). The same text
 * twice is kept once; over WARNINGS_MAX or out of memory it is counted in dropped. */
void warn_add(struct warnings *w, struct arena *a, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Add a long sentence in as many pieces as it takes, each cut at a blank; the later ones begin with
 * "... ". */
void warn_add_long(struct warnings *w, struct arena *a, struct slice text);

/* What is answered. */
struct answer {
	bool allowed;
	int code;             /* refusals: 403, or 422 for a value that can never be right */
	const char *reason;   /* refusals: CamelCase */
	struct slice message; /* refusals */
	struct slice patch;   /* JSON patch text; absent or empty: none. Only for allowed answers of
				 the mutating hook */
	const struct warnings *warnings; /* NULL: none */
	/* For the API server's audit log, beside the reason of a refusal; absent: nothing to say.
	 */
	struct slice audit_plan;  /* the plan's hash, as the claim in a GPUServer's status has it */
	struct slice audit_claim; /* answer_claim() */
};

/* Most bytes of an audit annotation's value. */
#define AUDIT_MAX 1024

/* Append the AdmissionReview reply: uid, apiVersion and kind echoed; patch (base64) and patchType
 * both or neither; a refusal always with status.code, reason and message. out->failed tells when it
 * did not fit. */
void review_write(const struct review *r, const struct answer *ans, struct buf *out);

/* Fill a refusal from an error: reason from err->reason or, without one, from its code; message
 * with the path in front. The message is copied into the arena. ERR_INVALID becomes 422 "Invalid",
 * everything else 403. */
void answer_refuse(struct answer *ans, const struct err *err, struct arena *a);

/* Note for the audit log what the answer rests on: the plan (its hash), and the parts of a claim as
 * "server/gpu=bytes", separated by blanks and counted where they are too many. Texts live in the
 * arena; when it runs out nothing is noted. */
void answer_plan(struct answer *ans, uint64_t plan_hash, struct arena *a);
void answer_claim(
	struct answer *ans, const struct claim_part *parts, size_t n_parts, struct arena *a);

#endif
