/* SPDX-License-Identifier: Apache-2.0 */
/* cli: which policy a namespace of the cluster picks, and what of it is used. For `poolgate plan`
 * and `poolgate explain`. */
#ifndef WEBHOOK_CLI_POLICY_USE_H
#define WEBHOOK_CLI_POLICY_USE_H

#include "webhook/cli/pool_read.h"
#include "webhook/core/policy/policy_account.h"

/* What was asked of one namespace. */
struct policy_answer {
	struct policy_answer *next;
	struct slice namespace;
	const struct policy *policy; /* NULL: it picks none, or: */
	struct err why;              /* code 0: it could be told */
};

/* Asks the cluster, for each namespace once. Zeroed, it asks nobody. */
struct policy_asked {
	struct policy_look *look;
	struct arena *arena;
	struct policy_answer *picks;
	struct policy_source source;
};

/* k and the arena are borrowed; source is set, and points to asked. ERR_NOMEM. */
int policy_asked_begin(struct policy_asked *asked, struct kube *k, bool required, struct arena *a,
	struct err *err);
void policy_asked_end(struct policy_asked *asked);

/* What the namespaces of a policy hold by the claims of the pool, and how many of their pods wait.
 */
struct policy_use {
	struct policy_use *next;
	const struct policy *policy;
	struct account account;
	size_t cap_rows, waiting;
};

/* All that was asked for. */
struct policy_uses {
	const struct policy_source *of; /* NULL: nobody picks any */
	struct pool_read *pool;         /* and its arena */
	struct policy_use *all;
	struct err unknown; /* some namespaces could not be asked about: code 0: none */
};

/* Counted when it is asked for first. NULL: out of memory. */
struct policy_use *policy_use_of(struct policy_uses *u, const struct policy *p);
/* A placement as an account counts it. */
struct account_sum policy_use_sum(const struct placement *where);
/* Do the caps of p (NULL: there are none) leave so much to a pod of that namespace? ERR_REFUSED as
 * the hook would say it; ERR_NOMEM. */
int policy_use_leaves(struct policy_uses *u, const struct policy *p, struct slice namespace,
	struct account_sum wants, struct err *err);
/* It takes it. False: out of memory. */
bool policy_use_add(struct policy_uses *u, const struct policy *p, struct slice namespace,
	struct account_sum takes);

/* Has it anything to say of: does it bound something? */
bool policy_use_bounds(const struct policy *p);
/* A pod that is to be placed: what its namespace's policy bounds and refuses, as the hook and the
 * leader say it: the bound is put into the demand. ERR_REFUSED; ERR_NOMEM. */
int policy_use_check(struct policy_uses *u, const struct policy *p, struct slice namespace,
	struct demand *d, struct err *err);
/* Those of the pool that wait: bounded, ordered, and barred as the leader has them. False: out of
 * memory. */
bool policy_use_waiting(struct policy_uses *u);

/* Append it as a line for people, or as an object. */
void policy_use_say(const struct policy_use *use, struct buf *out);
void policy_use_json(const struct policy_use *use, struct buf *out);

#endif
