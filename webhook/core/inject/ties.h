/* SPDX-License-Identifier: Apache-2.0 */
/* core: what ties a converted pod to nodes with GPUs of their own (law P3): members of
 * nodeSelector, expressions of node affinity and tolerations whose keys begin with nvidia.com/, and
 * a runtimeClassName that begins with nvidia. What keeps a pod away from such nodes (NotIn,
 * DoesNotExist) is none. */
#ifndef WEBHOOK_CORE_INJECT_TIES_H
#define WEBHOOK_CORE_INJECT_TIES_H

#include "base/arena.h"
#include "base/err.h"
#include "webhook/core/pod/plan.h"
#include "webhook/core/pod/pod.h"
#include "webhook/core/review/patch.h"

/* Take them out, and note in ret what was taken. Of terms that are alternatives, one that was only
 * a tie goes: what is left is what the pod allowed, too. ERR_INVALID: more than PLAN_TIES_MAX
 * tolerations; ERR_NOMEM. */
int ties_take(const struct pod *p, struct arena *a, struct patch *patch, struct plan_ties *ret,
	struct err *err);

/* Put them back. ERR_NOMEM. */
int ties_give_back(const struct pod *p, const struct plan_ties *ties, struct arena *a,
	struct patch *patch, struct err *err);

/* The pod's own manifest was applied to `live`, which has lost them: take the same ones out of what
 * came, and nothing else. ERR_NOMEM. */
int ties_take_again(const struct pod *now, const struct pod *live, const struct plan_ties *ties,
	struct arena *a, struct patch *patch, struct err *err);

#endif
