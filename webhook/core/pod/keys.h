/* SPDX-License-Identifier: Apache-2.0 */
/* core: keys that look like ours and are none: a typo must not take a whole GPU in silence. */
#ifndef WEBHOOK_CORE_POD_KEYS_H
#define WEBHOOK_CORE_POD_KEYS_H

#include "base/arena.h"
#include "base/err.h"
#include "webhook/core/pod/plan.h"
#include "webhook/core/pod/pod.h"
#include "webhook/core/review/review.h"

/* Does a pod that is created bring a bitfusion.io/ resource, or an annotation under poolgate.io/ or
 * bitfusion-client/, that nobody knows? ERR_INVALID with the place, and what was probably meant. p
 * as pod_read leaves it. plan (may be NULL): of this pod, and genuine; the keys that it lists are
 * known to another version. */
int keys_check(const struct pod *p, const struct plan *plan, struct arena *a, struct err *err);

/* The same for an update: judged are annotations that it adds or changes, never what the old object
 * carries. Resources of a pod that lives are the API server's to keep. */
int keys_check_update(
	const struct pod *now, const struct pod *was, struct arena *a, struct err *err);

/* Warn about annotations under auto-management/ that are not ours, the switch in other letters
 * among them. all: also about what keys_check refuses, in a pod whose switch is off. */
void keys_warn(const struct pod *p, bool all, struct arena *a, struct warnings *w);

#endif
