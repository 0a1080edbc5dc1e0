/* SPDX-License-Identifier: Apache-2.0 */
/* faults: preloaded into a program, moves its time of day by the seconds in the file FAULT_CLOCK,
 * as if somebody had set the machine's clock. What counts time that has passed (CLOCK_MONOTONIC,
 * CLOCK_BOOTTIME) goes on as it did. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NEXT */
#endif
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int (*real_gettime)(clockid_t clock, struct timespec *t);
static const volatile int64_t *offset_s;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("FAULT_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *symbol = dlsym(RTLD_NEXT, "clock_gettime"), *at;

	memcpy(&real_gettime, &symbol, sizeof(real_gettime));
	if (fd < 0)
		return;
	at = mmap(NULL, sizeof(*offset_s), PROT_READ, MAP_SHARED, fd, 0);
	if (at != MAP_FAILED)
		offset_s = at;
	(void)close(fd);
}

/* The C library's names of the parameters are reserved ones. */
/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */
int clock_gettime(clockid_t clock, struct timespec *t)
{
	int rc;

	if (!real_gettime)
		begin();
	rc = real_gettime(clock, t);
	if (rc == 0 && offset_s && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		t->tv_sec += *offset_s;
	return rc;
}

time_t time(time_t *ret)
{
	struct timespec t = {0};

	(void)clock_gettime(CLOCK_REALTIME, &t);
	if (ret)
		*ret = t.tv_sec;
	return t.tv_sec;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
	struct timespec t = {0};

	(void)zone;
	(void)clock_gettime(CLOCK_REALTIME, &t);
	ret->tv_sec = t.tv_sec;
	ret->tv_usec = t.tv_nsec / 1000;
	return 0;
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
