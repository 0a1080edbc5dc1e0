/* SPDX-License-Identifier: Apache-2.0 */
/* core: would a ResourceQuota refuse this pod? Pure. */
#ifndef WEBHOOK_CORE_POOL_QUOTA_H
#define WEBHOOK_CORE_POOL_QUOTA_H

#include "base/arena.h"
#include "base/err.h"
#include "base/json/json_read.h"

/* Judges by what the quota's status says is used, as the API server's quota admission does, and
 * only what is sure: no quota with scopes; of a pod itself, and its containers' requests and limits
 * without its init containers, which can make it need more, never less. quota is an object of a
 * ResourceQuotaList's items. 0: it would not, or nobody can tell. ERR_REFUSED, reason
 * "QuotaExceeded", with the quota's name and the numbers. ERR_NOMEM. */
int quota_check(const struct json *qj, const struct json_node *quota, const struct json *pj,
	const struct json_node *pod, struct arena *a, struct err *err);

#endif
