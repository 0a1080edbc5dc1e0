/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the caps of policies, as the leader meets them: what it is about to give is counted in
 * their accounts first (law P6), and where a cap was full a moment ago nobody who asks as much asks
 * the API server again. */
#ifndef WEBHOOK_CLUSTER_CLAIMS_POLICY_CAPS_H
#define WEBHOOK_CLUSTER_CLAIMS_POLICY_CAPS_H

#include <pthread.h>

#include "base/log.h"
#include "webhook/cluster/ledger/policy_accounts.h"

struct policy_bar;

struct policy_caps {
	const struct policy_source *policies; /* NULL: there are none */
	struct accounts *accounts;
	const struct log *log;
	struct policy_bar *first; /* policies whose caps were full a moment ago */
	pthread_mutex_t lock;     /* of these; taken before and after nothing */
};

/* Everything is borrowed until policy_caps_release. */
void policy_caps_init(struct policy_caps *c, const struct policy_source *policies,
	struct accounts *accounts, const struct log *log);
void policy_caps_release(struct policy_caps *c);

/* Count what somebody is about to be given in the account of the policy that his namespace picks,
 * if it has caps. *ret_take: of the ask, for accounts_close(); 0: there is nothing to close. Who
 * runs already (forced) is counted whatever the cap is, and where that cannot be done he has his
 * claim all the same: 0. Errors of accounts_raise, and ERR_REFUSED where there is no such policy.
 * Any thread. */
int policy_caps_raise(
	struct policy_caps *c, const struct account_ask *ask, uint64_t *ret_take, struct err *err);

/* The cap of this namespace's policy is full, whoever asks: its pods are barred until the time that
 * is returned (CLOCK_MONOTONIC). Any thread. */
int64_t policy_caps_bar(struct policy_caps *c, const char *namespace, const char *why);
/* Why that policy's pods are barred now, as long as nobody raises anything; NULL: they are not. */
const char *policy_caps_barred(const struct policy_caps *c, const char *policy);

#endif
