/* SPDX-License-Identifier: Apache-2.0 */
/* base: memory given back to the kernel. */
#define _GNU_SOURCE
#include "base/memory.h"

#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define STEP 4096

void memory_begin(size_t spare)
{
	(void)mallopt(M_ARENA_MAX, 1);
	(void)mallopt(M_TOP_PAD, STEP);
	(void)mallopt(M_TRIM_THRESHOLD, (int)spare);
}

/* "7f00-7f80 r-xp 00000000 08:01 1234 /usr/lib/x.so": code of a file. Nobody has written to it, so
 * the file has all of it; what is only readable may have been written to by the dynamic linker, and
 * stays. */
static void let_go(const char *line)
{
	char *at;
	uintptr_t from = strtoul(line, &at, 16), to;

	if (*at != '-')
		return;
	to = strtoul(at + 1, &at, 16);
	if (strncmp(at, " r-xp ", 6) != 0 || !strchr(at, '/'))
		return;
	/* An address out of the kernel's list: there is no pointer that it could be made from. */
	(void)madvise(
		(void *)from, to - from, MADV_DONTNEED); /* NOLINT(performance-no-int-to-ptr) */
}

void memory_settle(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];

	while (maps && fgets(line, sizeof(line), maps))
		let_go(line);
	if (maps)
		(void)fclose(maps);
	(void)malloc_trim(0);
}
