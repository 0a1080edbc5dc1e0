/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the last reviews and what became of them, for the page. So many and no more, nothing of a
 * pod but its names. */
#ifndef WEBHOOK_EDGE_ADMISSION_DECISIONS_H
#define WEBHOOK_EDGE_ADMISSION_DECISIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "webhook/core/review/review.h"
#include "webhook/edge/metrics/metrics.h"

/* Refusals and failures have a ring of their own: what is allowed comes in crowds and would push
 * them out. */
#define DECISIONS_KEPT 64 /* in each of the two */
#define DECISION_NAME_MAX 254
#define DECISION_MESSAGE_MAX 400

/* One review that could be read. Texts are NUL-terminated, valid UTF-8 when what was given is, cut
 * where they are too long. */
struct decision {
	uint64_t number; /* counts up over both rings */
	int64_t at_ms;   /* milliseconds since 1970 */
	enum metric_hook hook;
	enum operation operation;
	enum metric_result result;
	bool dry_run;
	char kind[64];
	char namespace[DECISION_NAME_MAX];
	char name[DECISION_NAME_MAX]; /* "" for one that the API server will make up */
	char reason[32];              /* of refusals */
	char message[DECISION_MESSAGE_MAX];
};

/* What is noted; slices are borrowed for the call. */
struct decision_note {
	enum metric_hook hook;
	enum operation operation;
	enum metric_result result;
	bool dry_run;
	struct slice kind, namespace, name;
	const char *reason;   /* or NULL */
	struct slice message; /* or absent */
};

struct decisions;

/* NULL when out of memory. */
struct decisions *decisions_new(void);
void decisions_free(struct decisions *d);

/* Note one as of now; the oldest of its ring is forgotten. d NULL: nothing. Any thread. */
void decisions_add(struct decisions *d, const struct decision_note *note);

/* Copy what is kept, the youngest first: at most max, and never more than 2 * DECISIONS_KEPT.
 * Returns how many. Any thread. */
size_t decisions_copy(struct decisions *d, struct decision *ret, size_t max);

/* Append all that is kept as a JSON array, the youngest first: [{at (RFC 3339, UTC), hook
 * ("mutate", "validate"), operation, dryRun, kind, namespace, name, result, reason, message}];
 * out->failed tells of want of memory. d NULL: an empty array. Any thread. */
void decisions_write(struct decisions *d, struct buf *out);

#endif
