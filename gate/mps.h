/* SPDX-License-Identifier: Apache-2.0 */
/* gate: clients of MPS are ended by its control daemon before any signal comes: one that is killed
 * without it can take its neighbours on the GPU along. The daemon may not answer, so a process of
 * ours asks it (gate/process/mps_ask.h), one at a time. */
#ifndef GATE_MPS_H
#define GATE_MPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "gate/loop.h"

/* Of one claim so many are asked for at a time; the next look finds those that are left. */
#define MPS_CLIENTS_MAX 64
/* Then it has not answered. */
#define MPS_PATIENCE_MS 10000

/* Zero it but for the first five, to begin. */
struct mps {
	const char *control; /* the control program; NULL: there is no MPS */
	const char *pipe;    /* its daemon's folder; NULL: the usual one */
	int loop;
	void *ctx;
	/* The daemon has ended those of the claim's processes that were its clients, or has not
	 * answered. */
	void (*over)(void *ctx, const char *uid, bool answered);
	pid_t pid; /* who asks; 0: nobody */
	int fd;    /* of that process: it is readable when it has ended */
	struct loop_watch watch;
	char uid[64]; /* the claim's */
	int64_t until_ms;
};

/* Have these processes of a claim ended; nothing while others are. */
void mps_end(struct mps *m, const char *uid, const pid_t *pids, size_t n);
/* Do what is due; milliseconds until more is, -1: nothing is. */
int64_t mps_turn(struct mps *m);
/* Nobody asks any more. */
void mps_close(struct mps *m);

#endif
