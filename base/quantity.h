/* SPDX-License-Identifier: Apache-2.0 */
/* base: Kubernetes quantities, read exactly as k8s.io/apimachinery reads them (pkg/api/resource,
 * ParseQuantity). */
#ifndef BASE_QUANTITY_H
#define BASE_QUANTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

/* A Kubernetes quantity: sign, digits with at most one point, then nothing, an exponent (e3, E-2)
 * or one of n u m k M G T P E Ki Mi Gi Ti Pi Ei. Kept exactly as nano-units; what lies beyond
 * ±(2^63−1) whole units is capped there, and finer than nano is rounded away from zero. */
struct quantity {
	__int128_t nano;
};

/* Parse. ERR_INVALID with what was found and what is accepted. As in Kubernetes the digits may be
 * missing: "+", "." and "Ki" are 0; "" is refused. */
int quantity_parse(struct slice s, struct quantity *ret, struct err *err);
/* -1, 0, 1 */
int quantity_cmp(struct quantity a, struct quantity b);
/* The whole number, rounded up away from zero as Quantity.Value() does; fits since parsing caps. */
int64_t quantity_ceil(struct quantity q);
/* Is it a whole number? */
bool quantity_integral(struct quantity q);

#endif
