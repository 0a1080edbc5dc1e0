/* SPDX-License-Identifier: Apache-2.0 */
/* kube: who leads: a Lease (coordination.k8s.io/v1), held and lost the way client-go's
 * leaderelection does it. */
#ifndef KUBE_KUBE_LEASE_H
#define KUBE_KUBE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "kube/kube.h"

/* As client-go's defaults for controllers. Others may take the lease when its record has not
 * changed for `duration`, by their own clock; the holder gives up when it could not renew for
 * `renew`. */
#define KUBE_LEASE_DURATION_S 15
#define KUBE_LEASE_RENEW_MS 10000
#define KUBE_LEASE_RETRY_MS 2000

struct kube_lease_config {
	struct kube *kube;
	const struct log *log;
	const char *namespace, *name;
	const char *identity; /* unique to this process: the pod's name and a random part; at most
				 127 bytes */
	/* From the lease's own thread. gained: we lead from now on. lost: somebody else may lead
	 * from now on; also before kube_lease_stop gives the lease back. gained and lost alternate.
	 * Both must return soon. */
	void (*gained)(void *ctx);
	void (*lost)(void *ctx);
	void *ctx;
	/* 0: the values above. Tests make them shorter. */
	int duration_s, renew_ms, retry_ms;
};

struct kube_lease;

/* Take part. Everything in cfg is borrowed; strings are copied. ERR_INVALID: an empty or too long
 * string, or times that are not in the order retry < renew < duration; ERR_NOMEM, ERR_INTERNAL. */
struct kube_lease *kube_lease_start(const struct kube_lease_config *cfg, struct err *err);

/* Calls lost() if we lead, gives the lease back (holderIdentity "", leaseDurationSeconds 1, as
 * client-go does) and ends the thread: within a second for a call that runs, and three for giving
 * back. NULL-safe. */
void kube_lease_stop(struct kube_lease *l);

/* Do we lead? False also from the moment on at which lost() is due. Any thread. */
bool kube_lease_held(struct kube_lease *l);

/* CLOCK_MONOTONIC milliseconds when the record was last seen to change, whoever holds it; 0 before
 * the first sight. Without a leader it stands still. Any thread. */
int64_t kube_lease_changed_ms(struct kube_lease *l);

#endif
