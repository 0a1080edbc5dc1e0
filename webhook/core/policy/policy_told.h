/* SPDX-License-Identifier: Apache-2.0 */
/* core: what a GPUPolicy is told in its status, as a condition. Pure. */
#ifndef WEBHOOK_CORE_POLICY_POLICY_TOLD_H
#define WEBHOOK_CORE_POLICY_POLICY_TOLD_H

#include "base/buf.h"
#include "base/json/json_read.h"
#include "webhook/core/policy/policy.h"

/* A condition that says what the operator may not have thought of; absent means no. */
#define TOLD_TIES "TiesKept"
#define TIES_KEEPS "PolicyKeepsTies"

/* Is the object that p was read from to be told something new, or no more? Then the merge patch of
 * its status is appended, for this very version of it; conditions of others stay. now: RFC 3339. */
bool policy_told(const struct json *j, const struct json_node *object, const struct policy *p,
	const char *now, struct buf *patch);

#endif
