/* SPDX-License-Identifier: Apache-2.0 */
/* cli: which cluster a person means: the way from a flag over the environment to the usual file. */
#include "webhook/cli/usage/find_cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 4096

int find_cluster(const char *kubeconfig, struct kube_config *ret, struct err *err)
{
	const char *list = getenv("KUBECONFIG"), *host = getenv("KUBERNETES_SERVICE_HOST"),
		   *home = getenv("HOME");
	char path[PATH_BYTES];

	*ret = (struct kube_config){.ca_fd = -1, .cert_fd = -1, .key_fd = -1};
	arena_init(&ret->arena, 4096);
	if (kubeconfig)
		return kube_config_load(kubeconfig, ret, err);
	if (list && strchr(list, ':'))
		return err_set(err, ERR_INVALID,
			"KUBECONFIG names several files; name one with --kubeconfig");
	if (list && *list)
		return kube_config_load(list, ret, err);
	if (host)
		return kube_config_in_cluster(
			host, getenv("KUBERNETES_SERVICE_PORT"), KUBE_ACCOUNT_DIR, ret, err);
	(void)snprintf(path, sizeof(path), "%s/.kube/config", home ? home : "");
	if (home && access(path, R_OK) == 0)
		return kube_config_load(path, ret, err);
	return err_set(err, ERR_NOTFOUND,
		"no cluster is named: neither --kubeconfig nor KUBECONFIG, no service account, no "
		"~/.kube/config");
}
