/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the table of the server's own metrics. */
#ifndef WEBHOOK_EDGE_METRICS_METRICS_H
#define WEBHOOK_EDGE_METRICS_METRICS_H

#include <stdbool.h>

#include "base/metric.h"
#include "webhook/core/review/review.h"

enum metric_id {
	M_REVIEWS,        /* counter {hook, result, operation} */
	M_REFUSALS,       /* counter {hook, reason}: metric_reason() */
	M_REVIEW_SECONDS, /* histogram {hook}, observed in microseconds */
	M_STAGE_SECONDS,  /* histogram {hook, stage}, observed in microseconds */
	M_RELOAD_OK,      /* gauge {what}: 1 when the last load succeeded */
	M_RELOAD_ERRORS,  /* counter {what} */
	M_RELOAD_TIME,    /* gauge {what}: of the last load that succeeded, seconds since 1970 */
	M_CERT_NOT_AFTER, /* gauge: seconds since 1970 */
	M_LEADER,         /* gauge: 1 while this replica leads */
	M_LEADER_CHANGES, /* counter: times it began or ended to lead */
	M_CA_NOT_AFTER, /* gauge: seconds since 1970; 0 while this replica does not look after it */
	M_PROBE_POLLS,  /* counter {result}: enum metric_probe */
	M_GATE_POLLS,   /* counter {result}: enum metric_probe */
	M_GATE_FINDINGS, /* gauge {what}: enum metric_finding */
	M_COMMITS,       /* counter {outcome}: writes of a GPUServer's status */
	M_PLACES,        /* counter: pods that were told late which GPUs they have */
	M_QUEUE_DEPTH,   /* gauge: pods that wait for their turn */
	M_QUEUE_HEAD,   /* gauge: seconds for which the oldest of the highest priority has waited */
	M_QUEUE_KEPT,   /* gauge: bytes that are kept for who has waited for long */
	M_WAIT_SECONDS, /* histogram: from when a pod came to its claim, observed in microseconds */
	M_ADOPTIONS,    /* counter: claims given to live pods that had none */
	M_CLAIMS_ENDED, /* counter {why}: enum metric_end */
	M_PHANTOMS,     /* gauge: namespaces of rule R12 */
	M_UNSTARTED,    /* gauge {why}: metric_why(); pods with a claim that have waited for long */
	M_EVICTIONS, /* counter {result}: enum metric_evict; pods with a claim and without a node */
	M_PROFILES_LEFT_OUT, /* gauge: launcher profiles whose Secrets the hooks do not know */
	M_PLAN_KEYS,         /* gauge: keys that replicas share */
	M_POLICY_LOCAL,      /* counter */
	M_PLAN_PROOFS,       /* counter {proof}: enum proof, from PROOF_NONE on */
	M_HOOKS_READ,        /* gauge: 1 when our hooks could be looked at */
	M_USAGE_STORES,      /* counter {result}: enum metric_store */
	M_SECRET_NAMESPACES, /* gauge {state}: enum metric_places */
	M_COUNT
};

/* What became of usage that was to be stored. */
enum metric_store { STORE_DONE, STORE_FAILED };

/* Namespaces with a bound claim, by what became of the client's Secrets there. */
enum metric_places {
	PLACES_FILLED,
	PLACES_FOREIGN, /* a Secret there is somebody else's */
	PLACES_CLOSED,  /* not open to us */
	PLACES_FAILED,
	METRIC_PLACES
};

/* What became of a question to a probe or a gate. */
enum metric_probe {
	PROBE_ANSWERED, /* an inventory that counts; what is used */
	PROBE_STALE,    /* an inventory that the probe itself calls old, or unknown; a gate that
			   does not know what is used */
	PROBE_FAILED    /* no answer, or none that can be read */
};

/* What gates have told, by the leader. */
enum metric_finding {
	FINDING_OVER_SHARE, /* pods that have more of a GPU than they hold */
	FINDING_UNUSED,     /* pods that have used nothing for an hour */
	FINDING_STRANGERS,  /* processes that belong to no claim */
	FINDING_UNKNOWN,    /* servers of which it is not known */
	METRIC_FINDINGS
};

enum metric_hook { HOOK_MUTATE, HOOK_VALIDATE };

/* What became of a review. */
enum metric_result {
	RESULT_PATCHED,    /* allowed, with a patch */
	RESULT_UNTOUCHED,  /* allowed, nothing to do */
	RESULT_CLAIMED,    /* allowed, a claim was taken or stood already */
	RESULT_WAITING,    /* allowed, behind our gate and without a claim */
	RESULT_REFUSED,    /* allowed: false */
	RESULT_UNREADABLE, /* HTTP 4xx */
	RESULT_FAILED      /* HTTP 500, or never sent */
};

/* Where a review's time goes. Not every review has every stage. */
enum metric_stage {
	STAGE_WAIT,   /* whole, and waiting for a thread */
	STAGE_READ,   /* its JSON */
	STAGE_DECIDE, /* the plan, or what is wrong with it */
	STAGE_CLAIM,  /* the ledger, and the API server behind it */
	STAGE_WRITE,  /* the reply's JSON */
	METRIC_STAGES
};

/* Why a claim ended. Of one that spans several GPUServer objects each counts. */
enum metric_end {
	END_FINISHED, /* its pod has finished */
	END_GONE,     /* its pod is gone */
	END_EXPIRED,  /* its pod never came, or claimTtl is over */
	END_RELEASED, /* by hand, or by a DELETE review */
	END_UNSENT    /* the answer that it was taken for was never sent */
};

/* What the API server said to an eviction. */
enum metric_evict {
	EVICT_DONE,
	EVICT_LATER,  /* the pod has changed, a budget does not allow it now, no answer */
	EVICT_REFUSED /* we may not */
};

/* Why pods do not start, as classes. */
enum metric_why { WHY_UNSCHEDULABLE, WHY_IMAGE, WHY_OTHER, METRIC_WHYS };

enum metric_what { WHAT_CONFIG, WHAT_POOL, WHAT_CERTIFICATE };

enum metric_commit { COMMIT_WRITTEN, COMMIT_CONFLICT, COMMIT_UNKNOWN };

/* The table in the order of enum metric_id, M_COUNT rows. */
extern const struct metric_desc metric_table[];

/* The class of a pod's reason, such as "ImagePullBackOff". */
enum metric_why metric_why(const char *reason);

/* "patched", … */
const char *metric_result_name(enum metric_result r);

/* "CREATE", … */
const char *metric_operation_name(enum operation op);
/* The value of the label `operation` for reviews that cannot be read. */
#define OPERATION_NONE 4

/* Which value of the label `reason` stands for a refusal's reason: its own, or "other" for one that
 * the table does not know, so that nothing but a new version of this program makes new series. */
size_t metric_reason(const char *reason);

/* A load of that part, now, and whether it succeeded. */
void metric_reloaded(struct metrics *m, enum metric_what what, bool ok);

#endif
