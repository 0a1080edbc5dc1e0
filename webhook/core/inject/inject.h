/* SPDX-License-Identifier: Apache-2.0 */
/* core: the parts of an injection: one container, and the pod around the containers. Used by mutate
 * alone. */
#ifndef WEBHOOK_CORE_INJECT_INJECT_H
#define WEBHOOK_CORE_INJECT_INJECT_H

#include "base/arena.h"
#include "base/err.h"
#include "webhook/core/image/image.h"
#include "webhook/core/inject/wrap.h"
#include "webhook/core/launcher/launcher.h"
#include "webhook/core/pod/gpu_request.h"
#include "webhook/core/pod/plan.h"
#include "webhook/core/pod/plan_proof.h"
#include "webhook/core/pod/pod.h"
#include "webhook/core/review/patch.h"

/* One injection while it is made. */
struct injection {
	const struct pod *pod;
	const struct profile *profile;
	const struct profile_client *client;
	const struct plan *before; /* the plan that the pod already carries, or NULL */
	struct plan *plan;         /* the one being made */
	struct patch *patch;
	struct arena *a;
	struct warnings *warnings;
	uint64_t plan_hash; /* of the annotation's bytes, once inject_pod has written it */
	/* Who proves it, and what is rendered (plan_proof.h); rendered NULL: the plan gets no
	 * proof. */
	const struct plan_signer *signer;
	const struct image_source *images; /* NULL: nobody knows what images start */
	struct slice namespace;
	struct buf *rendered;
};

/* The launch that a planned container stands for. Arrays are the plan's. */
struct launch inject_launch(const struct profile *p, const struct profile_client *client,
	const struct plan *plan, const struct plan_container *c);

/* Resources, command, environment and mounts of one container that asks; fills pc (name, kind,
 * amounts and units are there already). Errors have a path below the pod. */
int inject_container(struct injection *in, const struct pod_container *c,
	const struct gpu_request *req, struct plan_container *pc, struct err *err);

/* A container that the earlier plan already holds asks again: its resources are rewritten, all else
 * is done. ERR_REFUSED "RequestChanged" when it asks for something else than pc. */
int inject_again(struct injection *in, const struct pod_container *c, const struct gpu_request *req,
	const struct plan_container *pc, struct err *err);

/* Does it ask for what pc was given? A share that it leaves out is what the policy said when it was
 * left out then, too. */
bool inject_asks_same(const struct gpu_request *r, const struct plan_container *pc);

/* The environment of one container: what the profile sets or puts in front. A variable that the
 * container sets itself just as the profile would is left alone and is not in the plan; else
 * ERR_REFUSED "EnvCollision". */
int inject_env(struct injection *in, const struct pod_container *c, const struct launch *l,
	struct plan_container *pc, struct err *err);

/* The variable by which NVIDIA's runtime knows which of a node's GPUs a container sees; images set
 * it to all. */
#define VISIBLE_DEVICES "NVIDIA_VISIBLE_DEVICES"
#define VISIBLE_NONE "void"

/* Does poolgate write VISIBLE_NONE into this container (law P3)? One that asks by keys of others,
 * unless the profile sets the variable itself. */
bool inject_hides(const struct profile *p, const struct plan_container *c);

/* Does the container's variable come from the Secret and key that the profile names? */
bool inject_refers(
	const struct json *j, const struct json_node *var, const struct profile_env *env);

/* What `value` becomes with `front` before it: joined by the separator, without empty elements.
 * Inside of a JSON string, like both arguments. Absent when the arena ran out. */
struct slice inject_join(
	struct slice front, struct slice separator, struct slice value, struct arena *a);

/* Volumes, init containers, label and annotations. The plan is complete but for what this adds to
 * it. */
int inject_pod(struct injection *in, struct err *err);

#endif
