/* SPDX-License-Identifier: Apache-2.0 */
/* bench: a large pool: its objects as an API server shows them (scale_pool.c), that API server
 * (scale_api.c), how long one lock is held (scale_lock.c), and what is measured (scale.c). */
#ifndef TEST_BENCH_SCALE_H
#define TEST_BENCH_SCALE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

#define GPUS 8
#define GPU_BYTES 80000000000ull
#define SERVERS "/apis/poolgate.io/v1alpha1/gpuservers"

/* Of 100 GPUs so many are taken whole; of the others some are begun. FILL_RAGGED: each GPU has one
 * claim of a random size. */
#define FILL_RAGGED (-1)

/* ---- scale_pool.c ---- */

uint64_t dice(uint64_t *seed, uint64_t n);
/* The status of server i; the same arguments give the same text. */
void pool_status(struct buf *out, size_t i, int fill);
/* The object. */
void pool_server(struct buf *out, size_t i, uint64_t version, struct slice status);
/* The k-th of the pods that hold the claims of server i in pool_status(); false: there are not so
 * many. */
bool pool_pod(struct buf *out, size_t i, size_t k, int fill);

/* ---- scale_api.c ---- */

/* A process of its own that answers lists, watches, GETs and status PUTs of so many servers, and
 * lists of their pods. url: 64 bytes. */
pid_t scale_api_start(size_t servers, int fill, char *url);
void scale_api_stop(pid_t pid);

/* ---- scale_lock.c ---- */

struct hold_times {
	uint64_t times;
	double sum_us, max_us;
};

/* From now on the times for which this lock is held are measured, in CPU time of the thread that
 * holds it, from zero. */
void lock_measure(pthread_mutex_t *lock);
struct hold_times lock_measured(void);

#endif
