/* SPDX-License-Identifier: Apache-2.0 */
/* gate: a process and all that came of it, found in /proc by who is whose parent. */
#ifndef GATE_PROCESS_FAMILY_H
#define GATE_PROCESS_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Send a signal (0: none) to all that came of this process, itself left out; caught: to those alone
 * who catch it, and do not end by it. How many there were that have not ended; -1: /proc cannot be
 * read. What has ended and waits to be asked for is not counted. */
int family_signal(pid_t root, int signal, bool caught);

/* Did this process come of that one, and has not been asked for since it ended? */
bool family_has(pid_t root, pid_t pid);

/* Its parent; 0: there is no such process, or it has none. */
pid_t family_parent(pid_t pid);

/* When this process began, in the kernel's ticks since it did: with the pid it names one process.
 * 0: there is none. */
uint64_t family_began(pid_t pid);

/* Is this the first letters of its name that the kernel keeps? */
bool family_is_named(pid_t pid, const char *name);

/* Are processes numbered here as the machine does? */
bool family_of_machine(void);

#endif
