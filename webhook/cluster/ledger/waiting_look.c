/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: counts pods that wait for GPUs. Replicas that do not lead have no picture of pods: they
 * ask, and keep the answer for a while. */
#include "webhook/cluster/ledger/waiting_look.h"

#include "base/clock.h"
#include "base/text.h"
#include "kube/kube_object.h"
#include "webhook/core/pod/late.h"

/* A pod that waits has no node. */
#define PATH                                                                                       \
	"/api/v1/pods?labelSelector=poolgate.io%2Finjected%3Dtrue&fieldSelector=spec.nodeName%3D"  \
	"%2Cstatus.phase%3DPending"
#define LIST_MAX_MS 700

void waiting_look_init(struct waiting_look *w)
{
	*w = (struct waiting_look){0};
	(void)pthread_mutex_init(&w->lock, NULL);
}

void waiting_look_release(struct waiting_look *w)
{
	(void)pthread_mutex_destroy(&w->lock);
}

static void begin(void *ctx)
{
	struct waiting_seen *seen = ctx;

	seen->n = 0;
	seen->more = false;
}

static bool each(void *ctx, const struct json *j, const struct json_node *pod)
{
	struct waiting_seen *seen = ctx;
	const struct json_node *gates = late_gates(j, pod);

	if (!late_is_held(j, pod) || gates->count != 1)
		return true;
	seen->more = seen->n == WAITING_LOOK_MAX;
	if (!seen->more)
		seen->namespaces[seen->n++] = text_hash64(kube_meta(j, pod).namespace);
	return !seen->more;
}

/* The lock is held before and after. */
static void look(struct waiting_look *w)
{
	struct waiting_seen seen = {0};
	struct err err = {0};
	char version[32];
	int rc;

	w->looking = true;
	(void)pthread_mutex_unlock(&w->lock);
	rc = kube_list(w->kube, PATH, LIST_MAX_MS, begin, each, &seen, version, &err);
	(void)pthread_mutex_lock(&w->lock);
	w->looking = false;
	w->known = rc == 0 || seen.more;
	w->seen = seen;
	w->due_ms = clock_ms() + WAITING_LOOK_AGAIN_MS;
}

bool waiting_look_count(void *ctx, struct slice namespace, struct waiters_count *ret)
{
	struct waiting_look *w = ctx;
	uint64_t own = text_hash64(namespace);
	bool known;

	(void)pthread_mutex_lock(&w->lock);
	if (!w->looking && clock_ms() >= w->due_ms)
		look(w);
	known = w->known;
	*ret = (struct waiters_count){.all = w->seen.n, .more = w->seen.more};
	for (size_t i = 0; i < w->seen.n; i++)
		ret->here += w->seen.namespaces[i] == own;
	(void)pthread_mutex_unlock(&w->lock);
	return known;
}
