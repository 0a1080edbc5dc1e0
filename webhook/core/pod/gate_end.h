/* SPDX-License-Identifier: Apache-2.0 */
/* core: what a pod must be like that reaches its servers through gates: room for its end, and the
 * annotations that this reads. */
#ifndef WEBHOOK_CORE_POD_GATE_END_H
#define WEBHOOK_CORE_POD_GATE_END_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "webhook/core/pod/plan.h"
#include "webhook/core/pod/pod.h"

/* Is this one of the annotations that the end reads? */
bool gate_end_key(struct slice key);

/* What is written of the servers for the end: "HOST:PORT,HOST:PORT". Absent when the arena ran out.
 */
struct slice gate_end_servers(const struct slice *addresses, size_t n, struct arena *a);

/* No node's network, whose address is many pods'. ERR_INVALID with the place, and what to do. */
int gate_end_network(const struct pod *p, bool by_address, struct err *err);

/* No node's network, on which the end would be the node's, and no container with a port of the
 * end's. ERR_INVALID with the place, and what to do. */
int gate_end_fits(const struct pod *p, uint16_t port, struct err *err);

/* A pod that comes without a plan must not bring the annotations along. ERR_INVALID with the place,
 * ERR_NOMEM. */
int gate_end_check_plain(const struct pod *p, struct arena *a, struct err *err);

/* A pod with a plan that is being created: without a gate in it there are no such annotations; with
 * one the pod fits, the servers are the plan's, or to come, and CAs are there. Where gates know it
 * by its address that is its own. Errors of gate_end_fits, ERR_REFUSED "PlanMismatch" with the
 * place, ERR_NOMEM. */
int gate_end_check_create(
	const struct pod *p, const struct plan *plan, struct arena *a, struct err *err);

/* An injected pod, and the image pull secret that the gate of its profile names: it is the pod's,
 * and the plan has put in no other. wanted absent: none. ERR_REFUSED "PlanMismatch" with the place.
 */
int gate_end_check_pull(
	const struct pod *p, const struct plan *plan, struct slice wanted, struct err *err);

#endif
