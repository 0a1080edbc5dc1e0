/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the keys of plans' proofs out of the Secret that all replicas share (ledger rule R18),
 * and the leader's duty to make them.
 *
 * Its data hold keys of 32 bytes under their numbers. The manifests ship it empty; it is read and
 * updated by name, never made. */
#ifndef WEBHOOK_CLUSTER_SECRETS_PLAN_KEY_SECRET_H
#define WEBHOOK_CLUSTER_SECRETS_PLAN_KEY_SECRET_H

#include <stdint.h>

#include "base/log.h"
#include "base/metric.h"
#include "kube/kube.h"
#include "webhook/cluster/leader/leader.h"
#include "webhook/edge/admission/plan_keys.h"

#define PLAN_KEY_SECRET "poolgate-plan-keys"

/* All borrowed until the look, or the leader, has stopped. */
struct plan_key_config {
	struct kube *kube;
	const struct log *log;
	struct metrics *metrics;
	const char *namespace;
	struct plan_keys *keys; /* that share what is found */
	int64_t every_ms;       /* 0: 20 000, so that a new key is everywhere before it signs */
	int64_t rotate_ms;      /* 0: an hour */
};

struct plan_key_look;

/* On each replica: GET the Secret again and again. Where it is missing or forbidden nothing is
 * shared; while no answer comes, what was. NULL: ERR_NOMEM, ERR_INTERNAL. */
struct plan_key_look *plan_key_look_start(const struct plan_key_config *cfg, struct err *err);
/* NULL-safe. */
void plan_key_look_stop(struct plan_key_look *l);

/* For the leader: make keys, and drop those that are not believed any more. cfg is borrowed. */
struct leader_duty plan_key_duty(struct plan_key_config *cfg);

#endif
