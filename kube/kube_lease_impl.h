/* SPDX-License-Identifier: Apache-2.0 */
/* kube: what the files of the lease share. But for what is guarded, everything is its thread's. */
#ifndef KUBE_KUBE_LEASE_IMPL_H
#define KUBE_KUBE_LEASE_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "kube/kube_lease.h"
#include "kube/lease_record.h"

#define LEASE_HOLDER_SIZE 128
/* What a Lease's object may take; the API server allows 1.5 MB. */
#define LEASE_BYTES_MAX (4u * 1024 * 1024)

struct kube_lease {
	struct kube_lease_config cfg;
	char *namespace, *name, *identity;
	struct buf collection, path;
	pthread_t thread;
	atomic_bool stopping;

	/* The thread's own. */
	struct arena arena[2]; /* one holds the record, the other takes the next */
	struct lease_record record;
	bool seen, there;
	bool unsure; /* a write may have been carried out or not */
	bool failing;
	bool leads;

	pthread_mutex_t lock;
	pthread_cond_t cond;
	/* Guarded by lock, written by the thread alone. */
	bool held;
	int64_t renewed_ms; /* when our last write that was confirmed was sent */
	int64_t changed_ms;
};

/* Milliseconds for which we still lead; only while we do. */
int64_t lease_time_left(const struct kube_lease *l);

/* GET the Lease and take in what it says; that there is none is no error. */
int lease_look(struct kube_lease *l, struct err *err);
/* Write the record of this step; gained() when it is confirmed in time and we did not lead. Errors
 * as kube_do. */
int lease_write_step(struct kube_lease *l, enum lease_step step, struct err *err);
/* lost(), if we lead. */
void lease_lose(struct kube_lease *l, const char *why);
/* After lost(): write that nobody holds it any more, if we do. */
void lease_give_back(struct kube_lease *l);

#endif
