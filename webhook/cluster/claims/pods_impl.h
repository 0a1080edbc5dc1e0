/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what the two halves of the picture of pods share: the table (pods.c), and what one state
 * of a pod says (pods_read.c). */
#ifndef WEBHOOK_CLUSTER_CLAIMS_PODS_IMPL_H
#define WEBHOOK_CLUSTER_CLAIMS_PODS_IMPL_H

#include "webhook/cluster/claims/pods.h"

/* What pods_see_waiting was told. */
struct pods_sight {
	bool (*waits)(const struct json *j, const struct json_node *object); /* NULL: none does */
	struct queue_classes classes;
};

/* What one state of a pod says. */
struct pod_told {
	enum pod_seen seen;
	uint64_t plan_hash;
	uint32_t grace_s;
	bool placed, waits;
	struct pod_waiting *waiting; /* becomes the table's */
	char why[POD_WHY_SIZE];
};

/* there: it is shown, not the last state of one that is gone. Out of memory its plan counts as
 * none, and it as one that does not wait. */
struct pod_told pod_told_of(const struct pods_sight *s, const struct json *j,
	const struct json_node *object, bool there);

/* One user less; the last one frees it. NULL-safe. By whoever holds the table's lock, or alone has
 * it. */
void pod_waiting_release(struct pod_waiting *w);

#endif
