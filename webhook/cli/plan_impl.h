/* SPDX-License-Identifier: Apache-2.0 */
/* cli: what `poolgate plan` knows of the pool and of the manifests. Shared by plan.c and the files
 * plan_*.c beside it. */
#ifndef WEBHOOK_CLI_PLAN_IMPL_H
#define WEBHOOK_CLI_PLAN_IMPL_H

#include "kube/kube_config.h"
#include "webhook/cli/inject/inject.h"
#include "webhook/cli/inject/inject_world.h"
#include "webhook/cli/policy_use.h"
#include "webhook/cli/pool_missing.h"
#include "webhook/cli/pool_read.h"

/* Copies of one template that are looked at: each may cost a look at the whole pool. */
#define PLAN_COPIES_MAX 1000

enum plan_verdict {
	PLAN_PLAIN,   /* it does not concern us */
	PLAN_INVALID, /* the mutator refuses it, whatever is free */
	PLAN_NEVER,   /* the pool would not hold it if nobody used it (law W2) */
	PLAN_PLACED   /* `started` of `copies` start now; the others wait or are refused */
};

/* A pod, or the pods of a template, of a manifest. Strings live in the arena. */
struct plan_work {
	const char *file;
	uint32_t line;
	struct slice kind, namespace, name;
	enum plan_verdict verdict;
	bool waits; /* who finds no room waits for its turn */
	int64_t copies;
	size_t looked,
		started; /* copies that were looked at (PLAN_COPIES_MAX); of them, that start */
	struct demand *demand; /* of PLAN_NEVER and PLAN_PLACED */
	struct queue_pod pod;  /* what the queue knows of each copy */
	const char *path; /* of PLAN_INVALID: where in the document; NULL: nowhere in particular */
	struct slice why;
	size_t place, depth; /* of the first copy that waits; 0: it has none */
	struct pool_missing *missing;
	size_t n_missing;
	const struct policy *policy;  /* of its namespace; NULL: it picks none, or nobody asked */
	const struct plan *converted; /* its pods ask by keys of others, which become this */
};

/* A ResourceQuota or LimitRange over a key that its namespace's policy takes out of pods. */
struct plan_bound {
	const char *kind;
	struct slice namespace, name;
	unsigned keys;
	const struct policy *policy;
};

/* A priority class that counts. */
struct plan_class {
	int64_t priority;
	bool for_all; /* pods that name none have it */
};

struct plan_job {
	struct ledger ledger;  /* first: the pool as the mutator sees it, with nobody on it */
	struct pool_read pool; /* its usage is counted on as pods start */
	struct arena scratch;  /* of one round, or one search; inited like the pool's */
	uint64_t *claimed;
	uint32_t *n_claims;
	struct usage empty;
	struct mutate_world world;
	struct plan_class *classes; /* as pool.classes */
	struct err priorities;      /* why they cannot be read */
	struct kube_config kube_config;
	struct kube *kube;         /* the cluster; NULL: there is none */
	struct policy_asked asked; /* of the cluster */
	struct policy_uses uses;   /* and of files */
	struct plan_bound *bounds;
	size_t n_bounds, cap_bounds;
	struct err bounds_why; /* why some may be missing */
	struct plan_work *works;
	size_t n_works, cap_works;
	struct queue_pod *queue; /* who waits: of the cluster, then of the manifests */
	size_t *work_of;         /* of each; SIZE_MAX: it is the cluster's */
	size_t n_queue, cap_queue;
};

/* plan_look.c: what becomes of one pod of a manifest, on what those before it leave: an
 * inject_look. */
int plan_look(const struct inject_job *files, void *ctx, const struct manifest_pod *pod);

/* plan_change.c: find the bounds over keys that the policies of works take out. What cannot be read
 * is told there. ERR_NOMEM. */
int plan_bounds(struct plan_job *job, struct err *err);

/* plan_change.c: how pods that ask by keys of others are converted, and which bounds count nothing
 * then. */
void plan_say_change(const struct plan_work *w, struct buf *out);
void plan_say_bounds(const struct plan_job *job, struct buf *out);
/* Members of a work's object, and of the whole. */
void plan_json_change(const struct plan_work *w, struct buf *out);
void plan_json_bounds(const struct plan_job *job, struct buf *out);

/* plan_decide.c: give GPUs to whoever of those that wait can start, until nobody can. ERR_NOMEM. */
int plan_settle(struct plan_job *job, struct err *err);
/* The last work's copies, on what is left. ERR_NOMEM. */
int plan_place(struct plan_job *job, struct err *err);
/* All works are there: say why and where those wait that do not start. ERR_NOMEM. */
int plan_finish(struct plan_job *job, struct err *err);

/* plan_say.c: do all copies start? Append all of it, for people or as JSON. */
bool plan_starts(const struct plan_work *w);
void plan_say(const struct plan_job *job, struct buf *out);
void plan_json(const struct plan_job *job, struct buf *out);

#endif
