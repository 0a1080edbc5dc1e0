/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the accounts of policies with caps (law P6), in the status of the GPUPolicies: what
 * waits for the same account shares one compare-and-swap, as with GPUServers. */
#ifndef WEBHOOK_CLUSTER_LEDGER_POLICY_ACCOUNTS_H
#define WEBHOOK_CLUSTER_LEDGER_POLICY_ACCOUNTS_H

#include "base/log.h"
#include "webhook/cluster/ledger/servers.h"
#include "webhook/core/policy/policy_account.h"

#define POLICIES_PATH "/apis/poolgate.io/v1alpha1/gpupolicies"
/* What a leader has had in view for so long without a claim behind it will never have one: longer
 * than any write is on its way, and than a replica stands still between two steps. */
#define ACCOUNT_FLIGHT_MS 240000

struct accounts;

/* All borrowed. ERR_NOMEM. */
struct accounts *accounts_new(
	struct kube *k, struct servers *s, const struct log *log, struct err *err);
/* When no call runs any more. NULL-safe. */
void accounts_free(struct accounts *x);
/* Before anything is raised: which policy a namespace picks, as far as it is known without asking
 * anybody; borrowed. Without it only who asks has a row. */
void accounts_set_policies(struct accounts *x, const struct policy_source *shown);
/* Who calls accounts_flush until all is written, woken where nobody may come with the next write;
 * borrowed. Without him nothing is counted ahead. */
struct duty;
void accounts_set_janitor(struct accounts *x, struct duty *janitor);

/* A name for a take, like no other: who stood still must not close what another has opened since.
 */
uint64_t accounts_new_take(void);

/* Before anything of a claim is written: count it in the account of that policy, by the caps that
 * the object has now. 0: it counts, or there is no cap. ERR_REFUSED, reason "PolicyFull" of a count
 * that was begun after this call (as rule R4 has it), "NoPolicy" where there is none of that name.
 * ERR_TIMEOUT: not confirmed by then. ERR_IO: the API server does not let us. ERR_NOMEM. Any thread
 * that may wait. */
int accounts_raise(struct accounts *x, const char *policy, const struct account_ask *ask,
	int64_t deadline_ms, struct err *err);
/* It is known what came of the claim that was raised under this take: what stands of it, stands.
 * Written with whatever is raised next. Takes of others, and such as were never raised, are
 * ignored. Any thread. */
void accounts_close(struct accounts *x, uint64_t take);
/* The last write of it was not confirmed, and follows that version of that server: it may land
 * until there is another one. */
void accounts_close_after(struct accounts *x, uint64_t take, const char *server, uint64_t version);
/* Nobody here will know: its name stays until a leader counts its claim as whole, or has had it in
 * view for long enough. */
void accounts_leave(struct accounts *x, uint64_t take);
/* Nothing that was counted ahead is used any more. */
void accounts_stop_ahead(struct accounts *x);
/* Write what was closed. True: nothing is left, and nothing counted ahead, but of policies that
 * cannot be read or written. */
bool accounts_flush(struct accounts *x, int64_t deadline_ms);

/* A leader counts anew who waits (NULL), and one more of that policy does. Those were all: from now
 * on that is how many wait. */
void accounts_note_waiting(struct accounts *x, const char *policy);
void accounts_noted_all(struct accounts *x);
/* A leader begins, and has counted nobody yet: until it has, the number stays as it was. */
void accounts_noted_none(struct accounts *x);
/* May one more pod wait, by the count that the leader has written last, and what this replica has
 * let in since it read that? ERR_REFUSED, reason "PolicyFull"; else as accounts_raise. dry_run: it
 * will not. */
int accounts_may_wait(struct accounts *x, const struct policy *policy, bool dry_run,
	int64_t deadline_ms, struct err *err);

/* What a leader knows for a count. */
struct account_care {
	void *ctx;
	/* Asked about each. Has this been in view for ACCOUNT_FLIGHT_MS? */
	bool (*is_over)(void *ctx, const char *policy, const struct account_flight *f);
};
/* Compare it with the picture of the GPUServers; where they differ count anew, past every cache,
 * and write what is another, with the number of those who wait. Errors as above, and ERR_CONFLICT:
 * somebody raised it meanwhile. */
int accounts_repair(struct accounts *x, const char *policy, const struct account_care *care,
	int64_t deadline_ms, struct err *err);

#endif
