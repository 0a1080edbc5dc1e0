/* SPDX-License-Identifier: Apache-2.0 */
/* gate: MPS's control daemon is asked which processes are its clients, and to end these: one that
 * is killed without it can take its neighbours on the GPU along. */
#ifndef GATE_PROCESS_MPS_ASK_H
#define GATE_PROCESS_MPS_ASK_H

#include <sys/types.h>

/* Then its daemon has not answered. */
#define MPS_PATIENCE_MS 10000

enum mps_answer {
	MPS_NONE,      /* it has not answered, or cannot; in that time some may have ended */
	MPS_ELSEWHERE, /* nor can it: it numbers processes otherwise than we do */
	MPS_OVER,      /* none is its client any more */
};

/* Those who came of this process and are its clients are ended by its daemon, which the control
 * program finds by the folder (NULL: the usual one), and which may never answer: a process of ours
 * asks it. */
enum mps_answer mps_end(const char *control, const char *pipe, pid_t root);

#endif
