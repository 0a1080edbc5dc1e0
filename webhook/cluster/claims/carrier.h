/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: how the leader's decision about a place reaches the pod. Whoever decides knows no more
 * of it than this. */
#ifndef WEBHOOK_CLUSTER_CLAIMS_CARRIER_H
#define WEBHOOK_CLUSTER_CLAIMS_CARRIER_H

#include "base/arena.h"
#include "base/err.h"
#include "kube/kube.h"
#include "webhook/core/pod/place.h"
#include "webhook/core/pool/queue.h"

struct carrier {
	/* Does the pod wait to be told its place? Total; object is the pod. */
	bool (*waits)(const struct json *j, const struct json_node *object);
	/* Bring the place (NULL: its client is told none) to the pod as it was read, and let it go:
	 * in one write, which is not made where the pod is another by now, or has been let go
	 * already. Can be repeated. 0: done, or it waits no more. ERR_INVALID: the API server did
	 * not take it, as where the pod is not as it was read; ERR_REFUSED: it does not take it
	 * from us. Others of kube_do; ERR_NOMEM. */
	int (*carry)(struct kube *k, const struct kube_answer *pod, const struct plan *plan,
		const struct gpu_place *place, struct arena *a, struct err *err);
	/* The same for one that has not been read, but waits for us alone, as the watch has shown
	 * it. ERR_INVALID and ERR_NOTFOUND: it is to be read. NULL: each is. */
	int (*carry_unread)(struct kube *k, const struct queue_pod *pod, const struct plan *plan,
		const struct gpu_place *place, struct arena *a, struct err *err);
};

/* Annotations, and a scheduling gate (core/pod/late.h). */
extern const struct carrier carrier_gate;

#endif
