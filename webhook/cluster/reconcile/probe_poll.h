/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the leader's duties that ask the probes of GPU servers what they have, and their gates
 * what is used, and write it into their status. */
#ifndef WEBHOOK_CLUSTER_RECONCILE_PROBE_POLL_H
#define WEBHOOK_CLUSTER_RECONCILE_PROBE_POLL_H

#include "webhook/cluster/leader/leader.h"

#define PROBE_PATH "/v1/inventory"

struct poll_kind;

/* All borrowed for as long as the duty may run. Zero means the default in brackets. */
struct probe_poll_config {
	struct kube *kube;
	struct servers *servers;
	const struct log *log;
	struct metrics *metrics;
	const char *namespace; /* of the Secrets that specs name: key ca.crt, key token */
	int64_t every_ms;      /* [10 000] from one question to a probe to the next, spread over the
				  servers */
	int64_t timeout_ms;    /* [3 000] for one answer */
	/* [500] for one that has always answered in that time, while others wait. Who needs more is
	 * asked again with all of timeout_ms, and has that from then on; so 200 of 1 000 that begin
	 * to hang keep the others waiting for 7 s, once. */
	int64_t haste_ms;
	int64_t stale_after_ms; /* [30 000] without a good answer: Fresh=False (R17); so do three
				   failures in a row */
	const struct poll_kind *kind; /* whom; set by what follows */
	unsigned at_once; /* [16] questions that wait at one time; at most half of them to those
			     that did not answer the last */
};

/* The duty as the leader starts it; cfg becomes its ctx. */
struct leader_duty probe_poll_duty(struct probe_poll_config *cfg);
struct leader_duty gate_poll_duty(struct probe_poll_config *cfg);

#endif
