/* SPDX-License-Identifier: Apache-2.0 */
/* cli: what `poolgate explain` knows of a pod and the pool. Shared by explain.c, explain_read.c and explain_say.c. */
#ifndef WEBHOOK_CLI_EXPLAIN_IMPL_H
#define WEBHOOK_CLI_EXPLAIN_IMPL_H

#include "kube/kube.h"
#include "webhook/core/pod/plan.h"
#include "webhook/core/pod/queue_read.h"
#include "webhook/core/pool/queue.h"
#include "webhook/core/server/server_object.h"

/* So many that stand before a pod are named. */
#define EXPLAIN_NAMED_MAX 5

enum explain_state {
	EXPLAIN_HOLDS,    /* a claim stands */
	EXPLAIN_WAITS,    /* behind our gate, without a claim */
	EXPLAIN_FINISHED, /* it has ended, and holds nothing */
	EXPLAIN_LOST, /* injected, without gate and claim: the leader gives it one, or has not yet */
	EXPLAIN_NOT_OURS /* not injected: it holds nothing */
};

/* A pod that waits, with what it asks. */
struct explain_pod {
	struct queue_pod pod;
	struct demand demand;
};

struct explain {
	struct arena arena;
	int64_t now_ms;
	const char *namespace, *name;
	/* As the leader has them; what is shipped where the settings cannot be read, for this reason. */
	struct queue_classes classes;
	int64_t reserve_ms;
	struct err settings;
	struct slice uid;
	enum explain_state state;
	struct server_object *servers; /* by name, those that could be read */
	size_t n_servers, cap_servers, n_unreadable;
	struct inventory inv;
	struct usage usage;
	struct queue_share *shares;
	size_t n_shares;
	struct queue_kept *kept;
	size_t n_kept;
	struct explain_pod *waiting;
	size_t n_waiting, cap_waiting;
	struct queue_pod *pods; /* the same for the queue */
	struct demand demand;   /* of the pod that is explained */
	bool asks;              /* there is one */
	size_t self;            /* its index in pods */
	struct queue_world world;
	struct queue_round round; /* EXPLAIN_WAITS */
	struct err refusal; /* EXPLAIN_LOST: what placement says; code 0: it would be placed */
};

/* Read the pod, the GPUServers and those who wait. Errors of kube_get and kube_list; ERR_NOMEM. */
int explain_read(struct kube *k, struct explain *e, struct err *err);

/* Append all of it, for people or as JSON. */
void explain_say(const struct explain *e, struct buf *out);
void explain_json(const struct explain *e, struct buf *out);

#endif
