/* SPDX-License-Identifier: Apache-2.0 */
/* gate: `gpugate keep`, the parent of one claim's server: whatever that starts, and however it
 * hides, stays below this process, and ends with it. It is a process of its own so that it outlives
 * the gate, and it is gpugate's account's, so that the server cannot end it. */
#ifndef GATE_PROCESS_KEEP_H
#define GATE_PROCESS_KEEP_H

/* The socket of a server that is given one, which is its alone: by systemd's protocol for that
 * (sd_listen_fds(3)). */
#define KEEP_SOCKET 3

/* Its name, for the kernel, once its server has ended, and others of the family may be left. */
#define KEEP_ALONE "gpugate: alone"

/* keep UID GID GRACE_MS CGROUP SOCKET CONTROL PIPE PROGRAM [WORD ...], with the server's
 * environment. "-" for UID: the account that it has; for CGROUP: the one that it is in, else the
 * folder of the server's; SOCKET: "-", "socket": it has KEEP_SOCKET, or "talk": its standard input
 * and output are the server's; CONTROL: MPS's control program, which ends its clients before any of
 * them is killed, "-" where there is none; PIPE: the folder by which that finds its daemon, or "-".
 * It starts nothing before it has read a byte. SIGTERM: end. Status: 0 when it was told to end, or
 * never to begin, 127 when the program could not be started, else 1. */
int keep_main(int argc, char **argv);

#endif
