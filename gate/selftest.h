/* SPDX-License-Identifier: Apache-2.0 */
/* gate: the gate's side of `gpugate try`: begun once, on a GPU that nobody has a claim on, where
 * the GPUServer says that it has a gate. Meanwhile no server starts on that GPU. What seems to hold
 * may be somebody else who fills the GPU: the same processes must then get what was refused when
 * all of the GPU is their share, and no look may find others there. */
#ifndef GATE_SELFTEST_H
#define GATE_SELFTEST_H

#include <stdint.h>

#include "base/log.h"
#include "gate/children.h"
#include "gate/loop.h"
#include "webhook/core/server/gate_page.h"

enum selftest_state {
	SELFTEST_DUE,
	SELFTEST_STARTING,  /* a context is made */
	SELFTEST_MEASURING, /* somebody is to see what it takes */
	SELFTEST_TRYING,
	SELFTEST_DONE
};

/* Zero it but for the first five, to begin. */
struct selftest {
	const struct log *log;
	struct children *children;
	int loop;
	bool looks;     /* somebody looks at the GPUs */
	uint64_t usual; /* bytes of a context where nobody sees it */
	enum selftest_state state;
	struct children_tried tried;
	struct loop_watch watch;
	char line[256];
	size_t len;
	int64_t until_ms, again_ms;
	uint64_t context; /* what NVML counts of an empty one; 0: not known */
	char gpu[128];    /* where it is tried */
	bool others;      /* somebody else was seen there */
	uint64_t starts;  /* of servers, before it began */
	bool control;     /* half of it seemed to hold: all of it is tried */
	enum gate_shares shares;
	bool told; /* why it is not known */
};

/* Do what is due; milliseconds until more is, -1: nothing is. Without a picture none begins. */
int64_t selftest_turn(struct selftest *t, const struct picture *p);
/* Somebody has looked at the GPUs. */
void selftest_looked(struct selftest *t, const struct usage_look *look);
/* It ends, whatever it was about. */
void selftest_end(struct selftest *t);

#endif
