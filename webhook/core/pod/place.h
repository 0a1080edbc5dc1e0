/* SPDX-License-Identifier: Apache-2.0 */
/* core: the place of a pod: which servers and GPUs its containers are told to use. It follows from
 * the pod's plan and its claim alone, so that whoever leads next finds the same. Pure. */
#ifndef WEBHOOK_CORE_POD_PLACE_H
#define WEBHOOK_CORE_POD_PLACE_H

#include "base/arena.h"
#include "base/err.h"
#include "webhook/core/launcher/launcher.h"
#include "webhook/core/pod/plan.h"
#include "webhook/core/pool/inventory.h"

/* What one container is told, by enum late_value. */
struct place_container {
	struct slice value[LATE_VALUES];
};

struct gpu_place {
	struct slice all;   /* "gpu-01/gpu-0,gpu-01/gpu-1": every GPU that the pod holds */
	struct slice gates; /* where the plan knows of gates: the servers that the pod's end dials,
			       in the order of its ports */
	struct place_container *containers; /* in the order of the plan's */
};

/* The place of a pod with that plan. servers: those that its claim spans, by name, with all their
 * GPUs; held: per GPU, by first_gpu, the bytes that the claim holds of it. Each container gets GPUs
 * of the claim that have room for it, as placement chooses among these; where they cannot be told
 * apart, all of them. An index counts the GPUs of the container's servers, in the order in which
 * these are named, without such as are missing. ERR_INVALID: the claim holds nothing, or its place
 * is too long to be written down, or of more servers than a pod has gates to. ERR_NOMEM. */
int gpu_place_of(const struct plan *plan, const struct inventory *servers, const uint64_t *held,
	struct arena *a, struct gpu_place *ret, struct err *err);

#endif
