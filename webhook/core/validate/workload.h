/* SPDX-License-Identifier: Apache-2.0 */
/* core: objects that make pods (Deployment, Job, …): what would become of their pods, said while
 * the user still looks. */
#ifndef WEBHOOK_CORE_VALIDATE_WORKLOAD_H
#define WEBHOOK_CORE_VALIDATE_WORKLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "webhook/core/inject/mutate.h"

/* The pods that a workload makes. */
struct workload {
	const struct json_node *template; /* has metadata and spec, like a pod */
	int64_t replicas;                 /* pods at one time, 0 and more */
	int64_t there;                    /* of these, what was asked for before: an update */
	const char *deadline; /* a limit that runs while its pods wait: "activeDeadlineSeconds";
				 NULL: it has none */
	bool job;             /* a Job makes them */
	bool ordered;         /* a pod is made when the one before it runs */
	bool switched; /* the switch stands on the workload's own metadata, where no pod takes it
			  from */
};

/* The template in a Deployment, StatefulSet, DaemonSet, ReplicaSet, ReplicationController, Job,
 * CronJob or PodTemplate. False for other kinds, and when there is no template. A DaemonSet's pods
 * per node count as one. */
bool workload_read(const struct json *j, const struct json_node *object, struct slice kind,
	struct workload *ret);

/* An update of `old`: when the template is the same, its pods stay, and only those beyond them are
 * new. */
void workload_was(
	const struct json *j, const struct json_node *old, struct slice kind, struct workload *w);

/* Warn if its pods would be refused, or not all of them would fit now, or their gang would never be
 * whole. Never refuses: 0, or ERR_NOMEM. */
int workload_warn(const struct mutate_world *world, const struct json *j, const struct workload *w,
	struct slice namespace, struct arena *a, struct warnings *warnings, struct err *err);

#endif
