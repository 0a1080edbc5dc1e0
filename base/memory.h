/* SPDX-License-Identifier: Apache-2.0 */
/* base: memory that a program on every node need not hold. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

/* At the start of main: memory is asked for in small steps, and given back when it is not needed.
 * For a program of one thread. */
void memory_begin(void);

/* When everything runs: let go what the start alone needed, free memory and the pages of code (they
 * stay in the kernel's cache for as long as it has room, and come back when they are called). Costs
 * about a millisecond. */
void memory_settle(void);

#endif
