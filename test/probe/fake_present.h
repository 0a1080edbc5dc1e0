/* SPDX-License-Identifier: Apache-2.0 */
/* test: processes on the fake GPU. Who has a context there has a file, named by its pid, in the
 * folder FAKE_GPU, with the bytes that it has; it is locked for as long as the process lives. */
#ifndef TEST_PROBE_FAKE_PRESENT_H
#define TEST_PROBE_FAKE_PRESENT_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

/* Of an empty context. */
#define FAKE_CONTEXT_BYTES (UINT64_C(500) << 20)

/* We are there, with so many bytes beside the context; nothing where no folder is named. */
static inline void fake_present(uint64_t bytes)
{
	static int fd = -1;
	const char *folder = getenv("FAKE_GPU");
	char path[4096], text[32];
	int n = snprintf(
		text, sizeof(text), "%020llu\n", (unsigned long long)(FAKE_CONTEXT_BYTES + bytes));

	if (!folder)
		return;
	(void)snprintf(path, sizeof(path), "%s/%d", folder, (int)getpid());
	if (fd < 0) {
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
		if (fd < 0 || flock(fd, LOCK_EX) != 0)
			abort();
	}
	if (pwrite(fd, text, (size_t)n, 0) != n)
		abort();
}

#endif
