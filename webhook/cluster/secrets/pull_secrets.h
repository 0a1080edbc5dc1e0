/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what a pod's imagePullSecrets hold for the registry of its image. For reviews. */
#ifndef WEBHOOK_CLUSTER_SECRETS_PULL_SECRETS_H
#define WEBHOOK_CLUSTER_SECRETS_PULL_SECRETS_H

#include "kube/kube.h"
#include "webhook/edge/image/image_look.h"

/* Of one pod are read; each is one GET. */
#define PULL_SECRETS_MAX 8

/* The `find` of a struct login_source; ctx is the struct kube. The API server has added its
 * account's imagePullSecrets to the pod already. A Secret that is not there, or none of a registry,
 * is passed over, as kubelets do; one that may not be read is told in why. */
int pull_secrets_find(void *ctx, const struct image_ask *ask, const struct image_name *name,
	int64_t deadline_ms, struct arena *a, struct pull_logins *ret, struct err *why);

#endif
