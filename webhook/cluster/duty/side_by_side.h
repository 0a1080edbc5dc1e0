/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: calls that wait for somebody else are made at the same time, not one after the other. */
#ifndef WEBHOOK_CLUSTER_DUTY_SIDE_BY_SIDE_H
#define WEBHOOK_CLUSTER_DUTY_SIDE_BY_SIDE_H

#include <stddef.h>

/* Call fn(ctx, i) once for each i below n, sixteen at a time; returns when all have returned. The
 * calling thread does its part: where no other can be had it does all. The others take the signals
 * that it takes. */
void run_side_by_side(size_t n, void (*fn)(void *ctx, size_t i), void *ctx);

#endif
