/* SPDX-License-Identifier: Apache-2.0 */
/* test: which allocation fails: the n-th. See oom_wrap.h. */
#include <stdatomic.h>

#include "test/unit/oom_wrap.h"

/* The one that fails; negative: none does. */
static atomic_long first = -1;
/* Allocations since oom_begin(). */
static atomic_long count;
static atomic_bool failed, all_after;

void oom_begin(long n, enum oom_extent extent)
{
	atomic_store(&first, -1);
	atomic_store(&count, 0);
	atomic_store(&failed, false);
	atomic_store(&all_after, extent == OOM_ALL_AFTER);
	atomic_store(&first, n);
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

bool oom_fails(const void *from)
{
	long nth = atomic_load(&first), n;

	(void)from;
	if (nth < 0)
		return false;
	n = atomic_fetch_add(&count, 1);
	if (n < nth || (n > nth && !atomic_load(&all_after)))
		return false;
	atomic_store(&failed, true);
	return true;
}
