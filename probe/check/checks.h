/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the checks that a worker makes of its GPU through the CUDA runtime. */
#ifndef PROBE_CHECK_CHECKS_H
#define PROBE_CHECK_CHECKS_H

#include "probe/check/worker.h"
#include "probe/result/report.h"
#include "probe/result/thresholds.h"
#include "probe/runtime/rt.h"

/* What a check works with. The worker owns all of it. */
struct check_world {
	const struct rt *rt;
	const struct worker_job *job;
	const struct gpu_report *gpu; /* described, memory known */
	const struct thresholds *thresholds;
	rt_library library; /* the kernels, loaded */
	uint64_t seed; /* of patterns and chains: the job's; of stress another one each round */
	rt_stream stream;
	/* Tell the parent that the next step may take so long; it kills a worker that is late. */
	void (*within)(void *arg, double seconds);
	/* Tell how far it is: 0 … 1, and a few words. */
	void (*progress)(void *arg, double done, const char *text);
	/* Should it end early? Asked at least once a second. */
	bool (*stopped)(void *arg);
	void *arg;
};

/* Each fills a result that check_begin() has begun. An error of the runtime becomes STATUS_FAIL
 * with its code when a healthy GPU cannot cause it (ECC, kernel fault), else STATUS_ERROR. True:
 * the context can still be used. */
bool check_free_memory(struct check_world *w, struct check_result *r);
bool check_exact(struct check_world *w, struct check_result *r); /* fp32, fp64, tensor: by r->id */
bool check_shared_memory(struct check_world *w, struct check_result *r);
bool check_mem_pattern(struct check_world *w, struct check_result *r);
bool check_mem_rate(
	struct check_world *w, struct check_result *r); /* read, write, copy: by r->id */
bool check_link_rate(struct check_world *w,
	struct check_result *r); /* h2d, d2h of any size, remote.bandwidth: by r->id */
bool check_flop_rate(
	struct check_world *w, struct check_result *r); /* fp32, fp64, tensor: by r->id */
bool check_round_trip(struct check_world *w,
	struct check_result *r); /* launches, many of them, remote.rtt: by r->id */

#endif
