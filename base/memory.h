/* SPDX-License-Identifier: Apache-2.0 */
/* base: memory that a program on every node need not hold. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stddef.h>

/* At the start of main: memory is asked for in small steps, and given back when it is not needed,
 * but for so many bytes: what comes and goes all the time should not ask the kernel each time. For
 * a program of one thread. */
void memory_begin(size_t spare);

/* When everything runs: let go what the start alone needed, free memory and the pages of code (they
 * stay in the kernel's cache for as long as it has room, and come back when they are called). Costs
 * about a millisecond. */
void memory_settle(void);

#endif
