/* SPDX-License-Identifier: Apache-2.0 */
/* test: the fake CUDA runtime, which notes what is asked of it, and in which one thing can be
 * spoiled: a call that fails, a launch that does nothing, a bit of what comes from the GPU. As
 * in CUDA a copy is made when somebody waits for it, and new memory holds garbage. */
#ifndef TEST_UNIT_SPOILED_RT_H
#define TEST_UNIT_SPOILED_RT_H

#include <stdbool.h>

#include "probe/runtime/rt.h"

#define LAUNCHED_MAX 1024
#define LAUNCH_ARGS_MAX 13

struct launched {
	const char *name;
	unsigned blocks;
	uint64_t arg[LAUNCH_ARGS_MAX]; /* pointers, too */
};

struct spoiled_rt {
	/* Which call, launch, copy to or from the host, from 1 on; 0: none. */
	unsigned fail_at, leave_out, spoil_copy;
	unsigned drop_copy; /* this one and all after it are called done, and bring nothing */
	int error;          /* of the call */
	size_t spoil_at; /* byte of the copy, from its end on when it is at least half of SIZE_MAX
			  */
	uint8_t spoil_bits; /* exclusive-ored to it */
	const float *times; /* of events, in ms, in their order; then those of the fake again */
	unsigned n_times;
	/* Seen since spoiled_rt_begin(): */
	unsigned calls, copies, owned; /* owned: allocations and events that were not given back */
	unsigned n_to_device, n_from_device;
	size_t largest_copy;
	unsigned n_launched, given_back_after, other_calls_after; /* after the failed call */
	const char *failed;                     /* the call that did, "cudaMalloc"; or NULL */
	bool pinned_refused;                    /* cudaMallocHost has nothing to give */
	struct launched launched[LAUNCHED_MAX]; /* behind the last comes the first again */
};

extern struct spoiled_rt spoiled;

/* Nothing is spoiled, and nothing was seen; what was not given back is given back now. Returns the
 * table, over that of the fake runtime. */
const struct rt *spoiled_rt_begin(const struct rt *fake);

#endif
