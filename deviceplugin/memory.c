/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: memory given back to the kernel. */
#define _GNU_SOURCE
#include "deviceplugin/memory.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define STEP 4096
#define TRIM 65536

void memory_begin(void)
{
	(void)mallopt(M_ARENA_MAX, 1);
	(void)mallopt(M_TOP_PAD, STEP);
	(void)mallopt(M_TRIM_THRESHOLD, TRIM);
}

/* "7f00-7f80 r-xp 00000000 08:01 1234 /usr/lib/x.so": code of a file. Nobody has written to it, so the file has all of it; what is
 * only readable may have been written to by the dynamic linker, and stays. */
static void let_go(const char *line)
{
	uintptr_t from, to;
	char mode[5];

	if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &from, &to, mode) != 3 ||
		strcmp(mode, "r-xp") != 0 || !strchr(line, '/'))
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
