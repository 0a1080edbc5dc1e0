/* SPDX-License-Identifier: Apache-2.0 */
/* core: what a container asks by keys of other products that its namespace's policy accepts, read
 * as if it asked by ours:
 *
 *   nvidia.com/gpu: N             N GPUs; the policy's percent of each, else all of it. NVIDIA's
 *                                 device plugin gives out whole ones. 0 asks for nothing, and the
 *                                 container is left as it is. Missing beside one of the next three:
 *                                 one GPU, as HAMi's hook writes it there.
 *   nvidia.com/gpumem: M          M MiB of each GPU: bitfusion.io/gpu-memory: MMi. 0: not said.
 *   nvidia.com/gpumem-percentage  percent of each GPU's memory; beside gpumem that one holds.
 *   nvidia.com/gpucores: 100      a GPU of its own at HAMi, which puts nothing beside it: each GPU
 *                                 is taken whole, whatever is said of memory.
 *   nvidia.com/gpucores: < 100    shares of the pool are of memory, and its cores are not bounded:
 *                                 it is taken out with a warning, and makes no share smaller.
 *
 * Numbers are whole, as the API server wants those of extended resources. HAMi's meaning is that of
 * its pkg/device/nvidia/device.go (GenerateResourceRequests, mutateContainerResource) and
 * docs/config.md. */
#ifndef WEBHOOK_CORE_POD_FOREIGN_H
#define WEBHOOK_CORE_POD_FOREIGN_H

#include "webhook/core/pod/gpu_request.h"
#include "webhook/core/pod/plan.h"
#include "webhook/core/pod/pod.h"

#define FOREIGN_ALL ((1U << FOREIGN_KEYS) - 1)

/* By which keys, and what they come to. */
struct foreign_terms {
	uint64_t total_mb; /* as for gpu_request_read */
	unsigned accepts;  /* as in struct policy; 0: none is read */
	uint32_t percent;  /* of each GPU, of who says no share; 0: all of it */
};

/* The terms of a policy (NULL: nothing is accepted), and those by which a container that the plan
 * holds is read again: what it asks by stands in the plan. */
struct foreign_terms foreign_terms(const struct policy *policy, uint64_t total_mb);
struct foreign_terms foreign_terms_again(const struct plan_container *pc, uint64_t total_mb);

/* Does the container ask by these keys? What cannot be read asks: foreign_read says what is wrong.
 */
bool foreign_asks(const struct json *j, const struct json_node *container, unsigned accepts);

/* The first container that asks by these keys; NULL: none does. */
const struct pod_container *foreign_first(const struct pod *p, unsigned accepts);

/* Does any container ask, by our keys or by these? One that the plan (NULL: there is none) knows to
 * ask by keys of others: by any of them. */
bool foreign_any_asks(const struct pod *p, const struct plan *plan, unsigned accepts);

/* gpu_request_read, by ours or by accepted keys of others. ERR_INVALID too where one container asks
 * by both; bitfusion.io/gpu does not ask. */
int foreign_read(const struct json *j, const struct json_node *container,
	const struct foreign_terms *terms, struct arena *a, struct warnings *w,
	struct gpu_request *ret, struct err *err);

/* Refuse a pod of which a part would be converted, and which asks its node for GPUs with the rest:
 * any nvidia.com/ resource that is neither zero nor accepted. Beside an accepted one it changes
 * what that means (gpumem beside gpu); in another container it needs the ties that the pod loses.
 * ERR_INVALID with the path below the pod. */
int foreign_check_rest(const struct pod *p, unsigned accepts, struct arena *a, struct err *err);

/* The keys of others among an object's members: 1 << enum foreign_key. */
unsigned foreign_keys_in(const struct json *j, const struct json_node *object);

/* Which of the keys a ResourceQuota or a LimitRange bounds (either object): what is taken out of
 * pods counts in it no more. */
unsigned foreign_bounded(const struct json *j, const struct json_node *object, struct arena *a);

#endif
