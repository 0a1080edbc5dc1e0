/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the leader's duty that keeps claims true: binds them, ends them, gives one to a live pod
 * that has none (ledger rules R5 to R7). */
#ifndef WEBHOOK_CLUSTER_CLAIMS_CLAIMS_H
#define WEBHOOK_CLUSTER_CLAIMS_CLAIMS_H

#include <stdatomic.h>

#include "webhook/cluster/claims/carrier.h"
#include "webhook/cluster/leader/leader.h"
#include "webhook/cluster/ledger/policy_accounts.h"
#include "webhook/cluster/ledger/waiting_look.h"
#include "webhook/core/pod/queue_read.h"
#include "webhook/edge/admission/admission.h"

/* All borrowed for as long as the duty may run. Zero means the default in brackets. */
struct claims_config {
	struct kube *kube;
	struct servers *servers;
	const struct log *log;
	struct metrics *metrics;
	/* For the granularity of profiles, so that what is adopted is what a review would have
	 * taken. acquire NULL: a pod whose plan names servers holds them whole. */
	struct config_source source;
	/* [there are none] Which policy a namespace picks now, and their accounts. */
	const struct policy_source *policies;
	struct accounts *accounts;
	const struct carrier *carrier; /* [&carrier_gate] */
	struct waiting_look *waiting;  /* [nobody] who is told who waits */
	struct queue_classes classes;  /* [none] whose priority counts in the queue */
	int64_t pending_ms;            /* [CLAIM_PENDING_MS] */
	int64_t ask_ms;                /* [CLAIM_ASK_MS] */
	int64_t retry_ms;              /* [CLAIM_RETRY_MS] */
	int64_t margin_ms;             /* [CLAIM_MARGIN_MS] */
	int64_t grace_ms;              /* [POD_GRACE_S] of claims that do not say it */
	int64_t max_grace_ms; /* [3 600 000] a claim's pod has no longer grace period than that
				 (rule R13) */
	int64_t unstarted_ms; /* [300 000] a pod has held its claim and does not run: that is told
			       */
	int64_t unplaced_ms;  /* [60 000] no node takes it: that is told */
	int64_t evict_ms; /* [never] no node takes it: it is evicted, where another is made without
			     harm */
	int64_t evict_again_ms; /* [60 000] after the API server did not take an eviction */
	int64_t lost_after_ms;  /* [10 000] a pod waits to be told its place, and has no claim: that
				   is told */
	int64_t bind_every_ms;  /* [1 000] between two writes for binding alone */
	int64_t reserve_ms; /* [600 000] a pod has waited for so long: what frees up is kept for it
			     */
	int64_t adopt_after_ms; /* [2 000] a pod without a claim has been in view */
	int64_t adopt_again_ms; /* [60 000] after one could not be given a claim */
	/* Kept by the duty: every live pod that was first seen before then has been looked at, in a
	 * round that was begun after it. 0: none. */
	atomic_int_least64_t settled_ms;
};

/* The duty as the leader starts it; cfg becomes its ctx. Two at once are harmless: every removal
 * names a uid and what was seen of it. */
struct leader_duty claims_duty(struct claims_config *cfg);

/* For server_keeper: has every live pod that could have run on a server before since_ms
 * (CLOCK_MONOTONIC: when its GPUs first stood in its status) been given a claim, or been looked at
 * and could not? A second is allowed for the watch to be behind. False while the watch of pods is
 * not synced or broken, and while a question is open. cfg is the struct claims_config. */
bool claims_adopted_since(void *cfg, int64_t since_ms);

#endif
