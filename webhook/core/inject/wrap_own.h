/* SPDX-License-Identifier: Apache-2.0 */
/* core: commands that start the launcher themselves: recognised, and held against what the pod asks
 * for. */
#ifndef WEBHOOK_CORE_INJECT_WRAP_OWN_H
#define WEBHOOK_CORE_INJECT_WRAP_OWN_H

#include "base/arena.h"
#include "base/err.h"
#include "base/json/json_read.h"
#include "webhook/core/launcher/launcher.h"
#include "webhook/core/review/review.h"

/* The container's command starts the launcher (wrap_is_own): do its own amount, fraction and memory
 * options agree with the launch? An amount that is not given counts as 1, a share that is not given
 * as whole GPUs. ERR_INVALID with both figures and a path below the container; a value that only a
 * shell could compute cannot be compared and is refused. Warns about one string with blanks, which
 * no kernel can execute. */
int wrap_own_agrees(const struct json *j, const struct json_node *container, const struct launch *l,
	struct arena *a, struct warnings *w, struct err *err);

#endif
