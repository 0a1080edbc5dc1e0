/* SPDX-License-Identifier: Apache-2.0 */
/* core: a GPUPolicy: what pods of a namespace that picks it get without asking, which keys of
 * others they may write, and what they may take. A namespace picks one by a label; who may set it
 * is for the cluster to say (law P1). Pure. */
#ifndef WEBHOOK_CORE_POLICY_POLICY_H
#define WEBHOOK_CORE_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json/json_read.h"
#include "base/slice.h"
#include "webhook/core/pool/inventory.h"

#define POLICY_API "poolgate.io/v1alpha1"
#define POLICY_KIND "GPUPolicy"
#define LABEL_POLICY "poolgate.io/policy"

/* Resources by which other products ask for GPUs, in limits or requests. */
enum foreign_key {
	FOREIGN_GPU,         /* nvidia.com/gpu: whole GPUs (NVIDIA's device plugin); beside one of
				the others, how many shares (HAMi) */
	FOREIGN_MEM,         /* nvidia.com/gpumem: MiB of each (HAMi) */
	FOREIGN_MEM_PERCENT, /* nvidia.com/gpumem-percentage: percent of each GPU's memory (HAMi) */
	FOREIGN_CORES        /* nvidia.com/gpucores: percent of each GPU's cores (HAMi) */
};
#define FOREIGN_KEYS 4

/* Everything lives in the arena that it was read into. */
struct policy {
	const char *name;
	/* spec.inject: a pod that asks is injected without the annotation. */
	bool inject;
	/* spec.share: of 100 groups of pods (law P5) so many; 100 where it does not say. */
	uint32_t share;
	/* spec.defaults, for pods that do not say it themselves; NULL and 0: the server's own. */
	const char *launcher, *os, *version;
	const char *when_full; /* "wait" or "refuse" */
	uint32_t percent;      /* 1 to 100, of each GPU */
	/* In the queue, of those whose PriorityClass does not count there (W5); 0 where it does not
	 * say. */
	int priority;
	/* spec.accepts: 1 << enum foreign_key for each key that is read as ours. */
	unsigned accepts;
	bool keep_ties;       /* spec.ties: keep; else ties to GPU nodes are taken out (P3) */
	bool local_on_outage; /* spec.onOutage: local; else what was not converted is refused (P2)
			       */
	/* spec.allow; empty: all of them. */
	struct label *servers; /* a server has all of these labels */
	size_t n_servers;
	const char **launchers, **models;
	size_t n_launchers, n_models;
	/* spec.allow.gpus, memory, waiting: over all namespaces of the policy together, at once;
	 * UINT32_MAX, UINT64_MAX: no bound. gpus counts each GPU that a pod holds a part of. */
	uint32_t gpus, waiting;
	uint64_t bytes;
};

/* Who knows which policy a namespace picks now. */
struct policy_source {
	void *ctx;
	/* 0 with *ret NULL: it picks none. What is found lives in the arena, or longer.
	 * ERR_REFUSED, reason "NoPolicy": it picks one that does not exist, or of which there has
	 * been no version that could be read; or namespaces without one are refused here.
	 * ERR_TIMEOUT: nobody knows now. ERR_NOMEM. */
	int (*of)(void *ctx, struct slice namespace, struct arena *a, const struct policy **ret,
		struct err *err);
};

/* As source->of; a source that is NULL: nobody picks one. */
static inline int policy_of(const struct policy_source *source, struct slice namespace,
	struct arena *a, const struct policy **ret, struct err *err)
{
	*ret = NULL;
	return source ? source->of(source->ctx, namespace, a, ret, err) : 0;
}

/* "nvidia.com/gpu", … */
const char *foreign_key_name(enum foreign_key k);

/* Read a GPUPolicy. Everything is copied into the arena. ERR_INVALID with the path, what was found
 * and what is expected, for what the CRD's schema would refuse; ERR_SYNTAX: it is no GPUPolicy;
 * ERR_NOMEM. */
int policy_read(const struct json *j, const struct json_node *object, struct arena *a,
	struct policy *ret, struct err *err);

/* Is each member of spec one that policy_read knows? It passes over those of later versions. Else
 * ERR_INVALID with its path. ERR_NOMEM. */
int policy_check_keys(
	const struct json *j, const struct json_node *object, struct arena *a, struct err *err);

/* The refusal of a source: the namespace picks a policy of which nobody knows. ERR_REFUSED. */
int policy_missing(const char *name, struct err *err);
/* It picks none, and must. ERR_REFUSED. */
int policy_required(struct err *err);
/* It picks one, and nobody here looks. ERR_REFUSED. */
int policy_unset(struct err *err);

#endif
