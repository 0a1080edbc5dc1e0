/* SPDX-License-Identifier: Apache-2.0 */
/* cli: what `poolgate explain` knows of a pod and the pool. Shared by explain.c, explain_read.c and
 * explain_say.c. */
#ifndef WEBHOOK_CLI_EXPLAIN_IMPL_H
#define WEBHOOK_CLI_EXPLAIN_IMPL_H

#include "webhook/cli/policy_use.h"
#include "webhook/cli/pool_read.h"
#include "webhook/core/pod/pod.h"

/* So many that stand before a pod are named. */
#define EXPLAIN_NAMED_MAX 5

enum explain_state {
	EXPLAIN_HOLDS,    /* a claim stands */
	EXPLAIN_WAITS,    /* behind our gate, without a claim */
	EXPLAIN_FINISHED, /* it has ended, and holds nothing */
	EXPLAIN_LOST, /* injected, without gate and claim: the leader gives it one, or has not yet
		       */
	EXPLAIN_NOT_OURS /* not injected: it holds nothing */
};

struct explain {
	struct pool_read pool; /* its self is the pod that is explained */
	const char *namespace, *name;
	struct err settings; /* why the settings cannot be read: then what is shipped counts */
	enum explain_state state;
	struct demand demand;   /* of the pod that is explained */
	bool asks;              /* there is one */
	char why[POD_WHY_SIZE]; /* it does not run, for this; "": it does, or is being made */
	bool unplaced;          /* as no node takes it; then: */
	struct slice node_says; /* the scheduler's words, absent: none */
	size_t self;            /* its index in pool.pods */
	struct queue_world world;
	struct queue_round round;         /* EXPLAIN_WAITS */
	bool policies, policies_required; /* as the settings have them */
	struct policy_asked asked;
	struct policy_uses uses;
	const struct policy_use *use; /* of the pod's namespace, where that bounds anything */
	const char *not_ours; /* EXPLAIN_NOT_OURS: why, though it asks; NULL: it asks for nothing */
	struct err refusal;   /* EXPLAIN_LOST: what placement says; code 0: it would be placed */
};

/* Read the pod, the GPUServers and those who wait. Errors of kube_get and kube_list; ERR_NOMEM. */
int explain_read(struct kube *k, struct explain *e, struct err *err);

/* Append all of it, for people or as JSON. */
void explain_say(const struct explain *e, struct buf *out);
void explain_json(const struct explain *e, struct buf *out);

#endif
