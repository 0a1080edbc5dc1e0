/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: does the validating hook hear of pods that read a Secret? Looked at again each minute,
 * on every replica: settings and hooks arrive in either order. */
#ifndef WEBHOOK_CLUSTER_RECONCILE_HOOK_LOOK_H
#define WEBHOOK_CLUSTER_RECONCILE_HOOK_LOOK_H

#include "base/log.h"
#include "base/metric.h"
#include "kube/kube.h"

struct hook_look;

/* All borrowed. */
struct hook_look_config {
	struct kube *kube;
	const struct log *log;
	struct metrics *metrics;
	const char *configuration; /* name of the ValidatingWebhookConfiguration */
	int64_t every_ms;          /* [60 000] */
};

/* Until the first look nothing is known. NULL: ERR_NOMEM, ERR_INTERNAL. */
struct hook_look *hook_look_start(const struct hook_look_config *cfg, struct err *err);
void hook_look_stop(struct hook_look *l);
/* Counts what has changed of the answers below. Any thread. */
uint64_t hook_look_version(struct hook_look *l);
/* Does the hook hear of pods that read this Secret? True, too, where nobody knows: an outage would
 * be worse. */
bool hook_look_covers(struct hook_look *l, struct slice secret);

#endif
