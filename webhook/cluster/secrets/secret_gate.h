/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: was a namespace opened for the client's Secrets? For reviews: the answer is kept for a
 * while. */
#ifndef WEBHOOK_CLUSTER_SECRETS_SECRET_GATE_H
#define WEBHOOK_CLUSTER_SECRETS_SECRET_GATE_H

#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "base/slice.h"
#include "kube/kube.h"

/* So long it is believed that a namespace is open, and that it is not. */
#define SECRET_GATE_OPEN_MS 30000
#define SECRET_GATE_CLOSED_MS 2000

struct secret_gate;

/* source: NAMESPACE/NAME; account: who the namespace is to be opened for, "NAMESPACE:NAME" as
 * kubectl's --serviceaccount takes it. Everything is borrowed. NULL: out of memory. */
struct secret_gate *secret_gate_new(
	struct kube *k, const struct log *log, const char *source, const char *account);
/* NULL-safe. */
void secret_gate_free(struct secret_gate *g);

/* May a pod that needs these Secrets come to be in that namespace? 0: yes: none of them is one that
 * secret_sync.h copies, or our account may create Secrets there (a SelfSubjectAccessReview, 1 s at
 * most, half the time until the deadline at most), or the API server did not answer: that is no
 * reason to refuse. ERR_REFUSED with reason NamespaceNotOpen and the remedy. ctx is the struct
 * secret_gate. deadline_ms: CLOCK_MONOTONIC, 0: none. Any thread that may wait. */
int secret_gate_check(void *ctx, struct slice namespace, const struct slice *secrets, size_t n,
	int64_t deadline_ms, struct err *err);

#endif
