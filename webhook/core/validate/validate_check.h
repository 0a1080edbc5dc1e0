/* SPDX-License-Identifier: Apache-2.0 */
/* core: what the checks of a pod against its plan share. Used by the files of validate alone. */
#ifndef WEBHOOK_CORE_VALIDATE_VALIDATE_CHECK_H
#define WEBHOOK_CORE_VALIDATE_VALIDATE_CHECK_H

#include "webhook/core/launcher/launcher.h"
#include "webhook/core/pod/plan.h"
#include "webhook/core/pod/pod.h"
#include "webhook/core/validate/validate.h"

/* One pod and its plan, and what this replica knows about the plan's launcher. */
struct checking {
	const struct pod *pod;
	const struct plan *plan;
	const struct config *config;
	const struct profile *profile; /* the plan's */
	const struct profile_client *client;
	struct arena *a;
	struct err *err;
};

/* A plan that contradicts itself is reported at its annotation. */
#define PLAN_PATH "metadata/annotations/poolgate.io~1plan"

/* printf style message, reason PlanMismatch. */
#define MISMATCH(c, ...) err_reason((c)->err, ERR_REFUSED, "PlanMismatch", __VA_ARGS__)

/* A container that asks, in a pod of which a part was injected. */
#define CHECK_NOT_SEEN                                                                             \
	"asks for GPUs, but was not injected: the mutating hook did not see it; create the pod "   \
	"again"

/* Put the container's path and a place in it in front of the error's; returns its code. */
int check_in(struct checking *c, const struct pod_container *pc, const char *where);

/* What the profile renders in the pod or a container: its name or path, and the whole object. */
struct check_part {
	struct slice name, json;
};

/* Such parts are in the array, each found by its `key`, as they were rendered. what: the word for
 * one in a message. Errors of check_container, with the path of the array. */
int check_parts(struct checking *c, const struct json_node *array, const char *key,
	const struct check_part *parts, size_t n, const char *what, const char *where);

/* A container that the plan speaks of is there, with all that the profile writes for what it asks
 * and nothing else of ours. ERR_REFUSED "PlanMismatch" with a path, ERR_NOMEM; where the profile
 * cannot express what it asks, errors of profile_expresses. */
int check_container(struct checking *c, const struct plan_container *plan);

/* Its units alone: those that the plan says, which are what the plan's request comes to. Errors as
 * above. */
int check_resources(
	struct checking *c, const struct pod_container *pc, const struct plan_container *plan);

/* The container's command against the plan: word for word. Errors as above. */
int check_command(struct checking *c, const struct pod_container *pc,
	const struct plan_container *plan, const struct launch *l);

/* Of its node's GPUs a container that asked for them and has the pool's sees none (law P3).
 * ERR_REFUSED "PlanMismatch" with a path. */
int check_void(
	struct checking *c, const struct pod_container *pc, const struct plan_container *plan);

/* A volume or variable with a client's Secret gives its pool token to a pod that nobody counted,
 * where the config says so. ERR_REFUSED "SecretWithoutClaim" with a path. */
int check_secrets(const struct config *c, const struct pod *p, struct err *err);

/* Containers that this update brings to a pod that lives (pods/ephemeralcontainers): whatever the
 * pod holds, they hold no claim. Errors as above, and ERR_NOMEM. */
int check_ephemeral_secrets(
	const struct config *c, const struct review *r, struct arena *a, struct err *err);

#endif
