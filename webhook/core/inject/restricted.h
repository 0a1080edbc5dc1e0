/* SPDX-License-Identifier: Apache-2.0 */
/* core: would Pod Security `restricted` take what a profile injects? For `--check`, which warns. */
#ifndef WEBHOOK_CORE_INJECT_RESTRICTED_H
#define WEBHOOK_CORE_INJECT_RESTRICTED_H

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

/* Append what keeps this container (a JSON object) out of a namespace that enforces `restricted`,
 * joined by ", "; nothing when it passes by itself, whatever the pod says. Source:
 * k8s.io/pod-security-admission/policy. ERR_SYNTAX, ERR_NOMEM. */
int restricted_container(struct slice json, struct buf *out, struct err *err);

/* The same for a volume: only the kinds that `restricted` allows. */
int restricted_volume(struct slice json, struct buf *out, struct err *err);

#endif
