/* SPDX-License-Identifier: Apache-2.0 */
/* gate: MPS's control daemon is asked which processes are its clients, and to end these: one that
 * is killed without it can take its neighbours on the GPU along. */
#ifndef GATE_PROCESS_MPS_ASK_H
#define GATE_PROCESS_MPS_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Then its daemon has not answered. */
#define MPS_PATIENCE_MS 10000

/* Those of these processes that are its clients are ended by its daemon, which the control program
 * finds by the folder (NULL: the usual one), and which may never answer: a process of ours asks it.
 * False: it has not answered, or cannot; in that time some may have ended. */
bool mps_end(const char *control, const char *pipe, const pid_t *pids, size_t n);

#endif
