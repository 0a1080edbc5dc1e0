/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: takes part in the election, and does the leader's duties while this replica leads (rule
 * R8). */
#ifndef WEBHOOK_CLUSTER_LEADER_LEADER_H
#define WEBHOOK_CLUSTER_LEADER_LEADER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/log.h"
#include "base/metric.h"
#include "webhook/cluster/ledger/servers.h"

/* One duty as the leader knows it: started when this replica begins to lead, stopped when it ends.
 */
struct leader_duty {
	const char *name;
	/* Make and start it; ret is handed to stop and wake. ERR_NOMEM, ERR_INTERNAL, …: tried
	 * again every second. */
	int (*start)(void *ctx, void **ret, struct err *err);
	void (*stop)(void *running);
	/* The picture of the servers has changed; must return at once. May be NULL. */
	void (*servers_changed)(void *running);
	void *ctx;
};

struct leader_config {
	struct kube *kube;
	const struct log *log;
	struct metrics *metrics;
	struct servers *servers;
	const char *namespace, *lease, *identity;
	const struct leader_duty *duties; /* borrowed */
	size_t n_duties;
	/* 0: the usual times. Tests make them shorter. */
	int duration_s, renew_ms, retry_ms, leaderless_ms;
};

struct leader;

/* Borrowed: all that cfg points to. Errors of kube_lease_start and duty_start. Duties are started
 * in their order and stopped in the opposite one, by the leader's own thread: a duty that takes
 * long to stop may still run when another replica leads, which by rule R6 is harmless. The metric
 * poolgate_leader is 1 while we lead. While the Lease has not changed for 60 s by our own clock,
 * servers_set_leaderless is told so. */
struct leader *leader_start(const struct leader_config *cfg, struct err *err);
/* For the `changed` of servers_start: hand it to the duties. ctx is the struct leader. A duty is
 * also told once after its start. */
void leader_servers_changed(void *leader);
/* Does this replica lead now? Any thread. */
bool leader_is(struct leader *l);
/* Stop the duties, then give the lease back. NULL-safe. */
void leader_stop(struct leader *l);

#endif
