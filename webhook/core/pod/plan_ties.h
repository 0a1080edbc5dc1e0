/* SPDX-License-Identifier: Apache-2.0 */
/* core: the member "ties" of a plan. Used by plan.c and plan_read.c. */
#ifndef WEBHOOK_CORE_POD_PLAN_TIES_H
#define WEBHOOK_CORE_POD_PLAN_TIES_H

#include "base/json/json_read.h"
#include "webhook/core/pod/plan.h"

/* Is nothing taken out? */
bool plan_ties_none(const struct plan_ties *t);

/* Append ,"ties":{…}, or nothing where nothing was taken. */
void plan_ties_write(const struct plan_ties *t, struct buf *out);

/* Read it from the plan's root, whose text outlives *ret. ERR_INVALID with the path, ERR_NOMEM. */
int plan_ties_read(const struct json *j, const struct json_node *root, struct arena *a,
	struct plan_ties *ret, struct err *err);

#endif
