/* SPDX-License-Identifier: Apache-2.0 */
/* gate: MPS's control daemon is asked which processes are its clients, and to end these. */
#ifndef GATE_PROCESS_MPS_ASK_H
#define GATE_PROCESS_MPS_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* `gpugate mps CONTROL PID …`, started by the gate: CONTROL is the control program, which finds its
 * daemon by CUDA_MPS_PIPE_DIRECTORY. 0: the daemon has answered to all, and has ended those of the
 * processes that are its clients. It waits for as long as the daemon does. */
int mps_main(int argc, char **argv);

bool mps_is_among(pid_t pid, const pid_t *all, size_t n);

#endif
