/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the Job that made a pod. */
#ifndef WEBHOOK_CLUSTER_CLAIMS_JOB_GET_H
#define WEBHOOK_CLUSTER_CLAIMS_JOB_GET_H

#include "kube/kube.h"

/* GET it; ret is released by the caller in every case. ERR_CONFLICT: it is gone, or another one has
 * its name; else as kube_do says, ERR_REFUSED where we may not read Jobs. */
int job_get(struct kube *k, struct slice namespace, struct slice name, struct slice uid,
	struct kube_answer *ret, struct err *err);

#endif
