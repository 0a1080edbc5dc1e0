/* SPDX-License-Identifier: Apache-2.0 */
/* test: a driver's library for `gpugate take`, and a limiter before it as HAMi-core is one, by the
 * environment: CUDA_DEVICE_MEMORY_LIMIT=8192m, counted over all processes that share the file
 * CUDA_DEVICE_MEMORY_SHARED_CACHE; without that file over each process, as MPS counts; without a
 * limit not at all. FAKE_CUDA_INIT=100: what cuInit answers. FAKE_CUDA_HANG=1: it never does.
 * FAKE_CUDA_BYTES: what the GPU has, for all that share the file. FAKE_GPU: fake_present.h. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "test/probe/fake_present.h"

#define SUCCESS 0
#define OUT_OF_MEMORY 2
#define EXPORT __attribute__((visibility("default")))

static uint64_t own; /* bytes of this process */

/* Add to the sum of all, if that stays within the limit. */
static int add(const char *path, int64_t bytes, uint64_t limit)
{
	uint64_t sum = 0;
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), rc = OUT_OF_MEMORY;

	if (fd < 0 || flock(fd, LOCK_EX) != 0)
		abort();
	if (pread(fd, &sum, sizeof(sum), 0) < 0)
		abort();
	sum += (uint64_t)bytes;
	if (bytes < 0 || sum <= limit) {
		if (pwrite(fd, &sum, sizeof(sum), 0) != sizeof(sum))
			abort();
		rc = SUCCESS;
	}
	(void)close(fd);
	return rc;
}

static uint64_t number(const char *name, unsigned shift)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) << shift : UINT64_MAX;
}

int cuInit(unsigned flags);
int cuDeviceGet(int *ret, int n);
int cuDevicePrimaryCtxRetain(void **ret, int device);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(uint64_t *ret, size_t bytes);

EXPORT int cuInit(unsigned flags)
{
	const char *answer = getenv("FAKE_CUDA_INIT");

	(void)flags;
	while (getenv("FAKE_CUDA_HANG"))
		(void)pause();
	return answer ? (int)strtol(answer, NULL, 10) : SUCCESS;
}

EXPORT int cuDeviceGet(int *ret, int n)
{
	*ret = n;
	return SUCCESS;
}

EXPORT int cuDevicePrimaryCtxRetain(void **ret, int device)
{
	(void)device;
	*ret = &own;
	fake_present(0);
	return SUCCESS;
}

EXPORT int cuCtxSetCurrent(void *context)
{
	return context == &own ? SUCCESS : 201;
}

EXPORT int cuMemAlloc_v2(uint64_t *ret, size_t bytes)
{
	const char *region = getenv("CUDA_DEVICE_MEMORY_SHARED_CACHE");
	uint64_t limit = number("CUDA_DEVICE_MEMORY_LIMIT", 20), all = number("FAKE_CUDA_BYTES", 0);

	limit = all < limit ? all : limit;
	if (region ? add(region, (int64_t)bytes, limit) != SUCCESS : own + bytes > limit)
		return OUT_OF_MEMORY;
	own += bytes;
	fake_present(own);
	*ret = own;
	return SUCCESS;
}

__attribute__((destructor)) static void give_back(void)
{
	const char *region = getenv("CUDA_DEVICE_MEMORY_SHARED_CACHE");

	if (region && own)
		(void)add(region, -(int64_t)own, 0);
}
