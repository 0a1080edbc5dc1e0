/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the leader's duty that makes the CA and the serving pair, tells the API servers of the
 * CA, and renews both in time. */
#ifndef WEBHOOK_CLUSTER_SECRETS_CERT_KEEPER_H
#define WEBHOOK_CLUSTER_SECRETS_CERT_KEEPER_H

#include "certs/rotation.h"
#include "webhook/cluster/leader/leader.h"

/* A Secret that cannot be read is made anew only when it carries this label ("poolgate"); another's
 * is left and logged. */
#define CERT_KEEPER_LABEL "app.kubernetes.io/managed-by"
/* Both waits in a cluster. API servers watch the webhook configurations and replicas read the
 * Secret every 20 s at the latest (tls_secret.h), so each has three chances to see a change. */
#define CERT_KEEPER_WAIT_S 60

/* All borrowed for as long as the duty may run. Zero means the default in brackets. */
struct cert_keeper_config {
	struct kube *kube;
	const struct log *log;
	struct metrics *metrics;
	const char *namespace;
	const char *service;           /* the one name in the pair: SERVICE.NAMESPACE.svc */
	const char *configuration;     /* name of both webhook configurations */
	const char *ca_secret;         /* [poolgate-ca] */
	const char *tls_secret;        /* [poolgate-tls] */
	int64_t ca_valid_s;            /* [3650 days] */
	int64_t serving_valid_s;       /* [90 days] */
	struct rotation_policy policy; /* [CERT_KEEPER_WAIT_S each] */
	int64_t every_ms;              /* [5 000] between two looks at Secrets and configurations */
};

/* The duty as the leader starts it; cfg becomes its ctx. Two at once are harmless: every write
 * names the version it follows. */
struct leader_duty cert_keeper_duty(struct cert_keeper_config *cfg);

#endif
