/* SPDX-License-Identifier: Apache-2.0 */
/* core: what a policy leaves the pods of its namespaces of launchers, servers and models, and how
 * it orders those that wait. Pure. */
#ifndef WEBHOOK_CORE_POLICY_POLICY_BOUND_H
#define WEBHOOK_CORE_POLICY_POLICY_BOUND_H

#include "webhook/core/policy/policy.h"
#include "webhook/core/pool/queue.h"

/* The bound of a demand, which borrows from the policy; in the arena. NULL: there is none, or
 * a->failed. */
const struct pool_bound *policy_bound(const struct policy *p, struct arena *a);

/* May pods of it (NULL: everything may be) use this launcher profile? 0, or ERR_REFUSED, reason
 * "PolicyBound". */
int policy_allows_launcher(const struct policy *p, struct slice launcher, struct err *err);

/* Its priority is the policy's (NULL: it has none), where no PriorityClass gives it one. */
void policy_order(const struct policy *p, struct queue_pod *pod);

#endif
