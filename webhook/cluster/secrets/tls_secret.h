/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: every replica's serving pair out of a Secret, read through the API: a mount would wait
 * for a Secret that nobody has made. */
#ifndef WEBHOOK_CLUSTER_SECRETS_TLS_SECRET_H
#define WEBHOOK_CLUSTER_SECRETS_TLS_SECRET_H

#include <stdint.h>

#include "base/log.h"
#include "base/metric.h"
#include "kube/kube.h"
#include "net/tls_identity.h"

/* All borrowed until tls_secret_stop. */
struct tls_secret_config {
	struct kube *kube;
	const struct log *log;
	struct metrics *metrics;
	struct tls_identity *identity;
	const char *namespace, *name; /* "poolgate-tls": keys tls.crt and tls.key */
	int64_t look_every_ms;        /* 0: 20 000 */
};

struct tls_secret;

/* Watch the Secret, and GET it every 20 s, too: a stream that was cut in silence is noticed only
 * after 90 s, which the waits of a rotation (cert_keeper.h) do not allow for. What cannot be used
 * changes nothing, is logged once and sets poolgate_reload_ok to 0. ERR_NOMEM, ERR_IO,
 * ERR_INTERNAL. */
struct tls_secret *tls_secret_start(const struct tls_secret_config *cfg, struct err *err);
/* NULL-safe. */
void tls_secret_stop(struct tls_secret *t);

#endif
