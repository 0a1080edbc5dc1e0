/* SPDX-License-Identifier: Apache-2.0 */
/* cli: the settings of the poolgate that a cluster runs, as files of this machine. */
#ifndef WEBHOOK_CLI_INJECT_INSTALLED_H
#define WEBHOOK_CLI_INJECT_INSTALLED_H

#include "base/arena.h"
#include "base/err.h"

/* Where the manifests install it. */
#define INSTALLED_NAMESPACE "poolgate-system"
#define INSTALLED_WORDS_MAX 64

struct installed {
	struct arena arena;
	char *folder; /* ours; NULL: there is none */
	/* The flags of the Deployment, files among their values as they are found here. */
	char *words[INSTALLED_WORDS_MAX];
	int n_words;
	const char *total_gpu_memory; /* of its environment; NULL: not set */
};

/* Read the Deployment `poolgate` and the ConfigMaps that its pods mount, and write these into a new
 * folder below $TMPDIR. kubeconfig: as find_cluster() takes it. takes: is this flag (without
 * dashes) wanted? Errors of find_cluster and kube_do, ERR_NOTFOUND where the cluster has no such
 * Deployment, ERR_INVALID where its files cannot be laid out here, ERR_IO, ERR_NOMEM. ret is inited
 * here; remove it in every case. */
int installed_fetch(const char *kubeconfig, bool (*takes)(const char *flag), struct installed *ret,
	struct err *err);

/* Remove the folder, too. */
void installed_remove(struct installed *i);

#endif
