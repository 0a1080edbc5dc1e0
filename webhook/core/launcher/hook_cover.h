/* SPDX-License-Identifier: Apache-2.0 */
/* core: which Secrets the conditions of the validating hook know: a pod that reads another one is
 * never sent to us. Pure. */
#ifndef WEBHOOK_CORE_LAUNCHER_HOOK_COVER_H
#define WEBHOOK_CORE_LAUNCHER_HOOK_COVER_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/json/json_read.h"

/* The expressions of validate.poolgate.io's matchConditions in a ValidatingWebhookConfiguration,
 * one after the other, in the arena, and behind them those of validate-policy.poolgate.io where
 * there is one. NULL: there are none to judge by (no such hook, no conditions, another object), or
 * out of memory. */
const char *hook_conditions(const struct json *j, struct arena *a);

/* Do they, those of each hook, name this Secret, 'juice-token', or begin one that it begins with,
 * startsWith('bitfusion-client-secret-')? */
bool hook_covers(const char *conditions, struct slice secret);

#endif
