/* SPDX-License-Identifier: Apache-2.0 */
/* cli: what is missing for a pod, and where least. Pure but for the heap. */
#ifndef WEBHOOK_CLI_POOL_MISSING_H
#define WEBHOOK_CLI_POOL_MISSING_H

#include "webhook/core/pool/placement.h"

/* A GPU that would hold a part of the pod, and what has to be given back there before it does. */
struct pool_missing {
	uint64_t bytes;
	size_t server, gpu;
};

/* The GPUs that have to give back least so that the pod's largest container has all of its own, by
 * bytes. The caller frees them. NULL, and *ret_n 0: nothing is missing, nothing would do, or out of
 * memory. */
struct pool_missing *pool_missing_find(const struct inventory *inv, const struct usage *use,
	const struct demand *d, size_t *ret_n);

#endif
