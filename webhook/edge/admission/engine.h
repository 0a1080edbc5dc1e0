/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the same decisions for pods that come from files instead of reviews. */
#ifndef WEBHOOK_EDGE_ADMISSION_ENGINE_H
#define WEBHOOK_EDGE_ADMISSION_ENGINE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "webhook/core/inject/mutate.h"

/* Mutate one pod (or template: metadata and spec) given as JSON text, exactly as /mutate would on
 * CREATE. The patch (a JSON array of operations with paths relative to the pod) is appended to
 * ret_patch; nothing is appended when the pod does not concern us. Each warning is appended to
 * ret_warnings as a line with '\n'. *ret_why_not: a few words when nothing is done, else NULL;
 * static text. Errors as mutate_create, ERR_SYNTAX for text that is no JSON. */
int engine_inject(const struct mutate_world *world, struct slice pod_json, struct slice namespace,
	struct buf *ret_patch, struct buf *ret_warnings, const char **ret_why_not, struct err *err);

/* The patch that takes the injection back, by the plan in the pod. As engine_inject. */
int engine_uninject(
	struct slice pod_json, struct buf *ret_patch, const char **ret_why_not, struct err *err);

#endif
