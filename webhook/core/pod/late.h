/* SPDX-License-Identifier: Apache-2.0 */
/* core: how a place that comes late is carried by a pod: variables that read annotations, and a
 * scheduling gate that keeps the pod from starting before these are written. All names are here:
 * who decides about places, and who counts them, knows none. */
#ifndef WEBHOOK_CORE_POD_LATE_H
#define WEBHOOK_CORE_POD_LATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_read.h"
#include "webhook/core/pod/place.h"
#include "webhook/core/pod/plan.h"
#include "webhook/core/pod/pod.h"

#define LATE_GATE "poolgate.io/capacity"
/* Of a pod that waits for its turn: has it, or why not. */
#define LATE_CONDITION "poolgate.io/Admitted"
/* The whole place for people and for whoever has to find it again: "gpu-01/gpu-0,gpu-01/gpu-1".
 * Values of single containers stand beside it, under names that begin alike. */
#define ANN_PLACE "poolgate.io/place"
/* When the last gate before ours fell, where Kueue held the pod, as the leader saw it first and
 * wrote it: from then on it waits for us (W7). */
#define ANN_QUEUED_SINCE "poolgate.io/queued-since"

/* What it reads: "metadata.annotations['poolgate.io/place-0.servers']" of the container with that
 * slot. NULL: the arena ran out. */
const char *late_field(enum late_value v, uint32_t slot, struct arena *a);
/* Does this variable of a container read just that field? False too when the arena ran out. */
bool late_reads(const struct json *j, const struct json_node *var, enum late_value v, uint32_t slot,
	struct arena *a);

/* Is this an annotation that only poolgate's leader writes: of the place, or ANN_QUEUED_SINCE? */
bool late_is_leaders(struct slice key);
/* The pod's scheduling gates, NULL where it has none; stands ours among them? Total. */
const struct json_node *late_gates(const struct json *j, const struct json_node *object);
bool late_is_held(const struct json *j, const struct json_node *object);

/* The API server takes no gate where the node is chosen already. ERR_INVALID with the place, and
 * what to do instead. */
int late_check_node(const struct pod *p, struct err *err);
/* A pod with a plan that is being created: where its place comes late the gate must be there,
 * elsewhere it must not, and nobody may have written an annotation of the leader's. ERR_REFUSED
 * "PlanMismatch" with the place, errors of late_check_node, ERR_NOMEM. */
int late_check_create(
	const struct pod *p, const struct plan *plan, struct arena *a, struct err *err);
/* A pod that comes without a plan, for which nobody would take our gate away. ERR_INVALID with the
 * place. */
int late_check_plain(const struct pod *p, struct err *err);
/* Only poolgate's leader takes the gate away. ERR_REFUSED "PlanChanged" with the place. */
int late_check_update(const struct json *j, const struct json_node *now,
	const struct json_node *was, struct err *err);

/* Append the JSON patch that brings this place (NULL: its client is told none) to the pod and takes
 * the gate away, in one write, which the API server makes for this uid alone and while the gate
 * stands. object: the pod as it was read. False: no gate stands there, nothing was written.
 * out->failed or a->failed: it is not whole. */
bool late_patch(const struct json *j, const struct json_node *object, const struct plan *plan,
	const struct gpu_place *place, struct arena *a, struct buf *out);
/* The same for the pod with this uid, before which no other gate stands. */
void late_patch_last(struct slice uid, const struct plan *plan, const struct gpu_place *place,
	struct arena *a, struct buf *out);

/* The servers that the pod's place names, each once, in the arena; none where no place is written.
 * ERR_INVALID: it is none of ours; ERR_NOMEM. */
int late_servers(
	const struct pod *p, struct arena *a, struct slice **ret, size_t *ret_n, struct err *err);

#endif
