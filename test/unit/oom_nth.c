/* SPDX-License-Identifier: Apache-2.0 */
/* test: which allocation fails: the n-th. See oom_wrap.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_getname_np */
#endif
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "test/unit/oom_wrap.h"

/* The one that fails; negative: none does. */
static atomic_long first = -1;
/* Allocations since oom_begin(). */
static atomic_long count;
static atomic_bool failed, all_after;
/* Of threads of this name alone. NULL: of all. */
static const char *_Atomic only;
/* Or of this one alone. */
static atomic_bool here;
static _Thread_local bool is_here;

void oom_begin(long n, enum oom_extent extent)
{
	atomic_store(&first, -1);
	atomic_store(&count, 0);
	atomic_store(&failed, false);
	atomic_store(&all_after, extent == OOM_ALL_AFTER);
	atomic_store(&only, NULL);
	atomic_store(&here, false);
	atomic_store(&first, n);
}

void oom_begin_here(long n, enum oom_extent extent)
{
	oom_begin(-1, extent);
	is_here = true;
	atomic_store(&here, true);
	atomic_store(&first, n);
}

void oom_begin_in(const char *thread, long n, enum oom_extent extent)
{
	oom_begin(-1, extent);
	atomic_store(&only, thread);
	atomic_store(&first, n);
}

/* Is this thread one of those whose allocations are counted? */
static bool counts(void)
{
	const char *name = atomic_load(&only);
	char own[16] = "";

	if (atomic_load(&here))
		return is_here;
	return !name || (pthread_getname_np(pthread_self(), own, sizeof(own)) == 0 &&
				strcmp(own, name) == 0);
}

bool oom_end(void)
{
	atomic_store(&first, -1);
	return atomic_load(&failed);
}

bool oom_failed(void)
{
	return atomic_load(&failed);
}

bool oom_fails(size_t size)
{
	long nth = atomic_load(&first), n;

	(void)size;
	if (nth < 0 || !counts())
		return false;
	n = atomic_fetch_add(&count, 1);
	if (n < nth || (n > nth && !atomic_load(&all_after)))
		return false;
	atomic_store(&failed, true);
	return true;
}
