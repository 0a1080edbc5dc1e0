/* SPDX-License-Identifier: Apache-2.0 */
/* cli: a cluster's pool as its objects show it: GPUServers, what they hold and keep, and who waits.
 */
#ifndef WEBHOOK_CLI_POOL_READ_H
#define WEBHOOK_CLI_POOL_READ_H

#include "kube/kube.h"
#include "webhook/core/pod/plan.h"
#include "webhook/core/pod/queue_read.h"
#include "webhook/core/pool/queue.h"
#include "webhook/core/server/server_object.h"

/* A pod that waits, or a member of a gang that waits no more, with what it asks. */
struct pool_read_pod {
	struct queue_pod pod;
	struct demand demand;
	struct slice job;   /* that made it, where its gang is as large as that says */
	bool let_go, ended; /* it does not wait; it has ended with success */
	bool leaving;       /* it is being deleted */
};

/* Zeroed, but for what is said to be the caller's. All lives in the arena. */
struct pool_read {
	struct arena arena; /* the caller's: inited, and released at the end */
	int64_t now_ms;     /* the caller's, like the two that follow: as the leader has them */
	struct queue_classes classes;
	int64_t reserve_ms;
	struct slice self; /* the caller's: uid of a pod whose plan counts where it waits for its
			      place alone; absent: none */
	struct server_object *servers; /* by name, those that could be read */
	size_t n_servers, cap_servers, n_unreadable;
	struct inventory inv;
	struct usage usage; /* claims alone */
	struct queue_share *shares;
	size_t n_shares, cap_shares;
	struct queue_kept *kept;
	size_t n_kept;
	struct pool_read_pod *waiting; /* and members of gangs that wait no more */
	size_t n_waiting, cap_waiting;
	struct queue_pod *pods; /* those who wait, for the queue */
	size_t n_pods;
};

/* Read the GPUServers: servers, inv, usage, shares, kept. Errors of kube_list; ERR_NOMEM. */
int pool_read_servers(struct kube *k, struct pool_read *p, struct err *err);
/* Then the injected pods of all namespaces: waiting and pods. Errors of kube_list; ERR_NOMEM. */
int pool_read_waiting(struct kube *k, struct pool_read *r, struct err *err);
/* The queue's world of all that was read; it borrows from r. */
struct queue_world pool_read_world(const struct pool_read *r);

/* So many bytes more that the namespace holds. False: out of memory. */
bool pool_read_add_share(struct pool_read *p, struct slice namespace, uint64_t bytes);
/* Does a pod of this uid hold anything? */
bool pool_read_claimed(const struct pool_read *p, struct slice uid);
/* What the pod's plan asks. False: it has none that can be read, it waits for its place alone, or
 * there is no memory. */
bool pool_read_demand(struct pool_read *p, const struct json *j, const struct json_node *object,
	struct demand *ret);

/* Append how many GPUServers were left out, as a line; nothing where none was. */
void pool_read_say_unreadable(const struct pool_read *p, struct buf *out);

#endif
