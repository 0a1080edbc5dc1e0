/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the injected pods as the leader's watch shows them: who is there, who has finished, who
 * was lost a moment ago. */
#ifndef WEBHOOK_CLUSTER_CLAIMS_PODS_H
#define WEBHOOK_CLUSTER_CLAIMS_PODS_H

#include "base/err.h"
#include "base/log.h"
#include "kube/kube.h"
#include "kube/kube_watch.h"
#include "webhook/core/pod/plan.h"
#include "webhook/core/pod/pod.h"
#include "webhook/core/pod/queue_read.h"
#include "webhook/core/pool/claim_life.h"

/* The label that injected pods carry (core/pod/plan.h LABEL_INJECTED). */
#define PODS_PATH "/api/v1/pods?labelSelector=poolgate.io%2Finjected%3Dtrue"
/* So long a pod that the watch lost is remembered, so that its claim is asked about at once. */
#define PODS_LOST_MS 60000

/* One pod of the table. Strings live as long as the call that shows them. */
struct pod_shown {
	const char *uid, *namespace, *name;
	enum pod_seen seen; /* POD_NOT_SHOWN: lost at lost_ms; POD_FINISHED also of one that was
			       lost since, or as it finished */
	bool waits;         /* to be told its place, or for its turn (carrier.h) */
	bool queued;        /* for its turn: it comes without a claim (law W2 of waiting) */
	bool unplaced;    /* lost by a delete that the watch has told, without a node: nothing of it
			     ever ran */
	uint32_t grace_s; /* the longest grace period that a delete of it has named, in seconds; 0:
			     none */
	int64_t waits_ms; /* since when it has not run, as far as the watch shows; 0: it runs, or
			     has */
	char why[POD_WHY_SIZE]; /* pod_waits() */
	char ips[POD_IPS_SIZE]; /* pod_ips() */
	int64_t since_ms; /* when the watch first showed it (CLOCK_MONOTONIC, as all times here) */
	int64_t lost_ms;  /* 0: it is shown */
	uint64_t plan_hash; /* of the plan annotation's bytes, as a review counts it; 0: it has none
			     */
};

/* A pod that waits for its turn, or a member of a gang that waits no more, as it was shown last. It
 * never changes, and stays for as long as somebody has it. */
struct pod_waiting {
	struct arena arena; /* of what is in pod and demand */
	struct queue_pod pod;
	struct demand demand;
	struct plan plan;
	struct slice job; /* that made it, by name, where its gang is as large as that says */
	uint64_t plan_hash;
	uint32_t grace_s; /* pod_grace */
	bool leaving;     /* it is being deleted: it is given nothing any more */
	bool let_go;      /* of its gang, it waits no more: it lives, or */
	bool ended;       /* has ended with success */
	/* Kueue has let it go, and nobody has written when: pod.since_ms is when this leader saw it
	 * first (claims_since.c). */
	bool unmarked;
	struct slice version; /* of this state: resourceVersion */
	struct slice said;    /* reason of the condition LATE_CONDITION; absent: it has none */
	unsigned users;       /* of the table and those who have it; under its lock */
};

struct pods;

/* An empty table. changed (may be NULL) is called after each change of what it shows, without its
 * lock, from the watch's thread. NULL: out of memory. About 200 bytes a pod. All functions may be
 * called from any thread. */
struct pods *pods_new(void (*changed)(void *ctx), void *ctx);
/* How to see that a pod waits to be told its place (carrier.h), and which PriorityClasses count in
 * the queue (borrowed names); before pods_start. Without it none does. */
void pods_see_waiting(struct pods *p,
	bool (*waits)(const struct json *j, const struct json_node *object),
	const struct queue_classes *classes);
/* Start to watch. ERR_NOMEM, ERR_IO, ERR_INTERNAL. */
int pods_start(struct pods *p, struct kube *k, const struct log *log, struct err *err);
/* Ends the watch: nothing is called afterwards. NULL-safe. */
void pods_stop(struct pods *p);
/* Ends the watch, and frees. NULL-safe. */
void pods_free(struct pods *p);

/* What kube_watch calls: pods_start hands it over; tests feed it. */
struct kube_watch_app pods_app(struct pods *p);

/* Has a whole list come, ever? */
bool pods_synced(struct pods *p);
/* Does the table show every pod but the newest: synced, the stream stands, nothing was left out for
 * want of memory? */
bool pods_whole(struct pods *p);

/* One pod by uid: ret without its strings. POD_NOT_SHOWN with lost_ms 0 for one that is unknown. */
void pods_find(struct pods *p, struct slice uid, struct pod_shown *ret);

/* Those that wait for their turn, and members of gangs that wait no more, in no order; each is
 * given back together with the list. False: out of memory, and nobody knows whether there are any.
 */
bool pods_take_waiting(struct pods *p, struct pod_waiting ***ret, size_t *ret_n);
void pods_give_waiting(struct pods *p, struct pod_waiting **list, size_t n);
/* Only this one, where it waits for its turn; NULL else. */
struct pod_waiting *pods_take_one(struct pods *p, struct slice uid);
void pods_give_one(struct pods *p, struct pod_waiting *one);

/* Each pod that is shown, in no order, with the lock held: copy, call nothing back. False ends it.
 */
typedef bool pods_each_fn(void *ctx, const struct pod_shown *pod);
void pods_each(struct pods *p, pods_each_fn *fn, void *ctx);

#endif
