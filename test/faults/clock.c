/* SPDX-License-Identifier: Apache-2.0 */
/* faults: preloaded into a program, moves its time of day by the seconds in the file FAULT_CLOCK,
 * as if somebody had set the machine's clock. What counts time that has passed (CLOCK_MONOTONIC,
 * CLOCK_BOOTTIME) goes on as it did. FAULT_TIME: a file of two numbers of 64 bits: seconds by which
 * time has gone on quicker, for all clocks and for sleeps of a second and more; and until when, by
 * CLOCK_MONOTONIC in microseconds, the thread sleeps that waits for signals: 0 while it does not.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NEXT */
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Between two looks of who sleeps in time that is moved. */
#define NAP_NS 1000000

struct passed {
	volatile int64_t seconds, until_us;
};

static int (*real_gettime)(clockid_t clock, struct timespec *t);
static int (*real_nanosleep)(const struct timespec *t, struct timespec *left);
static int (*real_wait)(const sigset_t *set, siginfo_t *info, const struct timespec *limit);
static const volatile int64_t *offset_s;
static struct passed *passed;

static void *map(const char *name, size_t bytes, int mode, int rights)
{
	const char *path = getenv(name);
	int fd = path ? open(path, mode | O_CLOEXEC) : -1;
	void *at = MAP_FAILED;

	if (fd < 0)
		return NULL;
	at = mmap(NULL, bytes, rights, MAP_SHARED, fd, 0);
	(void)close(fd);
	return at == MAP_FAILED ? NULL : at;
}

static void find(const char *name, void *to)
{
	void *symbol = dlsym(RTLD_NEXT, name);

	memcpy(to, &symbol, sizeof(symbol));
}

__attribute__((constructor)) static void begin(void)
{
	find("clock_gettime", &real_gettime);
	find("nanosleep", &real_nanosleep);
	find("sigtimedwait", &real_wait);
	offset_s = map("FAULT_CLOCK", sizeof(*offset_s), O_RDONLY, PROT_READ);
	passed = map("FAULT_TIME", sizeof(*passed), O_RDWR, PROT_READ | PROT_WRITE);
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
	if (rc == 0 && passed && clock != CLOCK_PROCESS_CPUTIME_ID &&
		clock != CLOCK_THREAD_CPUTIME_ID)
		t->tv_sec += passed->seconds;
	return rc;
}

static int64_t now_us(void)
{
	struct timespec t = {0};

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int nanosleep(const struct timespec *t, struct timespec *left)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};
	int64_t until = now_us() + (int64_t)t->tv_sec * 1000000 + t->tv_nsec / 1000;

	if (!passed || t->tv_sec == 0)
		return real_nanosleep(t, left);
	while (now_us() < until)
		if (real_nanosleep(&nap, left) != 0)
			return -1;
	return 0;
}

int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info,
	const struct timespec *restrict limit)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};
	int64_t until = limit ? now_us() + (int64_t)limit->tv_sec * 1000000 + limit->tv_nsec / 1000
			      : INT64_MAX;
	int found;

	if (!passed)
		return real_wait(set, info, limit);
	passed->until_us = until;
	do
		found = real_wait(set, info, &nap);
	while (found < 0 && errno == EAGAIN && now_us() < until);
	passed->until_us = 0;
	return found;
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
