/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what the certificate keeper's files share: how it sees the cluster, and how it writes.
 */
#ifndef WEBHOOK_CLUSTER_SECRETS_CERT_KEEPER_IMPL_H
#define WEBHOOK_CLUSTER_SECRETS_CERT_KEEPER_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "certs/certs_names.h"
#include "certs/x509.h"
#include "webhook/cluster/duty/duty.h"
#include "webhook/cluster/secrets/cert_keeper.h"

/* Mutating and validating. */
#define KEEPER_CONFIGURATIONS 2
/* SHA-256 as x509_info has it. */
#define KEEPER_PRINT_SIZE 96

struct cert_keeper {
	struct cert_keeper_config cfg; /* defaults filled in */
	struct certs_names names;
	struct duty *duty;
	unsigned failures; /* looks in a row that failed */
	bool told;         /* that they do */
};

/* A CA's certificate and key. cert empty: there is none; key empty: it signs nothing (an old one,
 * or its key was lost). */
struct keeper_ca {
	struct x509_pair pair;
	struct rotation_span span;
	char print[KEEPER_PRINT_SIZE];
	bool everywhere, somewhere; /* in all hooks' bundles, in one at least */
};

/* The cluster at one moment. Read in this order: whoever writes goes the other way round, so that
 * no certificate is judged by a CA Secret that is older than itself. */
struct cert_view {
	struct kube_answer hooks[KEEPER_CONFIGURATIONS]; /* status 404: not there */
	struct kube_answer tls, ca;
	/* out of them */
	struct keeper_ca signing, next, old;
	struct x509_pair serving; /* empty unless the signing CA's, for our name, and whole */
	struct rotation_span serving_span;
	int64_t published_at, switched_at; /* Unix seconds; 0: not yet */
};

/* Look. ret is released with cert_view_release() in every case. Errors as kube_do; ERR_NOMEM. What
 * is there and unreadable counts as absent. A signing CA whose Secret is lost is taken out of the
 * bundles, without its key. */
int cert_view_read(
	const struct cert_keeper *k, int64_t now, struct cert_view *ret, struct err *err);
void cert_view_release(struct cert_view *v);
struct rotation_state cert_view_state(const struct cert_view *v, int64_t now);

/* Is there one? */
static inline bool keeper_has(const struct keeper_ca *ca)
{
	return ca->pair.cert.len > 0;
}

/* Write v's CAs and times into the CA Secret, or the pair into the other one: what was read must
 * still be there. ERR_CONFLICT: it is not; ERR_REFUSED: somebody else's Secret is in the way;
 * others as kube_do. */
int cert_write_ca(const struct cert_keeper *k, const struct cert_view *v, struct err *err);
int cert_write_serving(const struct cert_keeper *k, const struct cert_view *v,
	const struct x509_pair *pair, struct err *err);
/* Make the bundle of every hook these CAs, those that are there. ERR_INVALID: a configuration has
 * changed since. */
int cert_publish(const struct cert_keeper *k, const struct cert_view *v,
	const struct keeper_ca *const cas[], size_t n, struct err *err);

/* Where configuration i stands. */
struct kube_place cert_configuration(const struct cert_keeper *k, size_t i);

#define KEEPER_PUBLISHED_AT "poolgate.io/published-at"
#define KEEPER_SWITCHED_AT "poolgate.io/switched-at"

#endif
