/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the leader's duty that copies the client's Secrets into namespaces that use them. */
#ifndef WEBHOOK_CLUSTER_SECRETS_SECRET_SYNC_H
#define WEBHOOK_CLUSTER_SECRETS_SECRET_SYNC_H

#include "webhook/cluster/leader/leader.h"

/* The source NAMESPACE/NAME holds the keys ca.crt, client.yaml and servers.conf; the copies are
 * bitfusion-client-secret-ca.crt, -client.yml and -servers.conf, each with one of these keys under
 * its own name. Where three Secrets of the copies' names stand beside the source, they are the
 * source instead. Nothing else is copied: no other key, no source that is not Opaque.
 *
 * A namespace is filled while it holds a bound (or adopted) claim and our account may write there:
 * the operator opens it with a RoleBinding. The copies are refreshed when the source changes, and
 * deleted some seconds after the last claim there has ended. A Secret without our label is never
 * written or deleted: said once, in the log and as an Event on a pod. Left out are our own
 * namespace, the source's, and kube-system, kube-public, kube-node-lease.
 *
 * Our account cannot list Secrets or namespaces. So the names of filled namespaces stand in a
 * ConfigMap of our namespace, written before the first copy is made, where the next leader finds
 * them. Without it nothing is copied. Limits: a namespace that was closed before its last claim
 * ended cannot be told from one that is gone; after give_up_ms it is forgotten, with a line in the
 * log, and copies in it stay. At most SECRET_NAMESPACES_MAX namespaces. */
#define SECRET_SYNC_RECORD "poolgate-secret-copies"
#define SECRET_NAMESPACES_MAX 4096
/* Marks what is ours, beside app.kubernetes.io/managed-by: poolgate: for those who clean up. */
#define SECRET_COPY_LABEL "poolgate.io/secret-copy"

#define SECRET_KINDS 3
/* One of the client's Secrets: the copy's name, and the one key in it. */
struct secret_kind {
	const char *copy, *key;
};
extern const struct secret_kind secret_kinds[SECRET_KINDS];

/* The namespace in "NAMESPACE/NAME", and the name. */
struct slice secret_source_namespace(const char *source);
const char *secret_source_name(const char *source);

/* All borrowed for as long as the duty may run. Zero means the default in brackets. */
struct secret_sync_config {
	struct kube *kube;
	struct servers *servers;
	const struct log *log;
	struct metrics *metrics;
	const char *namespace;   /* ours */
	const char *source;      /* NAMESPACE/NAME */
	int64_t source_every_ms; /* [15 000] between two looks at the source, while anybody uses it
				  */
	int64_t recheck_ms;      /* [300 000] between two looks at the copies of a namespace */
	int64_t remove_after_ms; /* [10 000] without a claim */
	int64_t retry_ms; /* [5 000] after something failed; twice as long each time, up to 12 times
			   */
	int64_t give_up_ms; /* [600 000] of being refused where copies are to be deleted */
	int64_t pause_ms;   /* [250] between two looks at the claims, however often they change */
};

/* The duty as the leader starts it; cfg becomes its ctx. Two at once are harmless: every write
 * names the version it follows. */
struct leader_duty secret_sync_duty(struct secret_sync_config *cfg);

#endif
