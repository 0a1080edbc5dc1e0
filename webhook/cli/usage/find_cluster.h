/* SPDX-License-Identifier: Apache-2.0 */
/* cli: which cluster a person means, and who he is there. */
#ifndef WEBHOOK_CLI_USAGE_FIND_CLUSTER_H
#define WEBHOOK_CLI_USAGE_FIND_CLUSTER_H

#include "kube/kube_config.h"

/* The kubeconfig file that is named; NULL: $KUBECONFIG, a pod's service account, ~/.kube/config, in
 * this order. Errors of kube_config_load and kube_config_in_cluster; ERR_INVALID where KUBECONFIG
 * names several files, ERR_NOTFOUND where nothing names a cluster. ret is inited here; release it
 * in every case. */
int find_cluster(const char *kubeconfig, struct kube_config *ret, struct err *err);

#endif
