/* SPDX-License-Identifier: Apache-2.0 */
/* soak: a worker: one connection, and the pods it holds room for. */
#ifndef TEST_FAULTS_SOAK_WORKER_H
#define TEST_FAULTS_SOAK_WORKER_H

#include <pthread.h>

#include "base/json/json_read.h"
#include "test/faults/soak.h"

#define GPUS 4
#define PER_GPU 2
#define HOLDS (GPUS * PER_GPU)
#define UNKNOWN_MAX 256

struct totals {
	uint64_t asked, answered, wrong, killed, allowed, refused, either, handshakes;
};

struct run {
	struct document *docs;
	size_t n_docs, longest;
	gnutls_certificate_credentials_t trust;
	uint16_t port;
	unsigned workers;
	uint64_t rate, kills, seed;
	int64_t began_us, end_us;
	pthread_mutex_t lock;
	/* Guarded by lock: */
	struct totals totals;
	uint64_t histogram[TIMES];
	unsigned said;
};

struct unknown {
	uint64_t pod, settled; /* by which request of the worker */
};

struct worker {
	struct run *run;
	unsigned index;
	struct client client;
	struct reply reply;
	char *text;
	struct json json;
	const struct document *create, *delete;
	uint64_t random, n, last_pod;
	struct {
		uint64_t pod;
		char gpu; /* its digit */
	} sure[HOLDS];    /* pods that hold room for certain */
	size_t n_sure;
	struct unknown unknown[UNKNOWN_MAX]; /* pods that may */
	size_t n_unknown;
	struct totals totals;
	uint64_t histogram[TIMES];
	int64_t ended_us; /* its last request, but for those that clean up */
};

/* The thread of a worker. */
void *worker_run(void *ctx);

#endif
