/* SPDX-License-Identifier: Apache-2.0 */
/* sim: replicas that are short of memory. Each allocation of one that has started may fail: one at
 * a time, or some in a row. Chance of its own, so that all else of a seed goes on as it would. In
 * half of the seeds all are as likely; in the others who allocates often fails seldom, so that who
 * allocates once in a run is not forgotten. */
#include <string.h>

#include "test/sim/sim_world.h"
#include "test/unit/oom_wrap.h"

/* Of a million allocations; in a row. */
#define MOST 1500
#define IN_A_ROW 30
#define CALLERS 4096 /* a power of two, of which fewer than half are used */

bool lean_on;

static struct {
	uint64_t chance;
	unsigned once_in, row[REPLICAS_MAX + 1];
	/* Who allocates for the first time fails once in so many times; for the n-th, in n times as
	 * many. 0: all are alike. */
	unsigned first_in;
	struct {
		const void *from;
		unsigned times;
	} callers[CALLERS];
} lean;

static uint64_t drawn(uint64_t below)
{
	lean.chance ^= lean.chance << 13;
	lean.chance ^= lean.chance >> 7;
	lean.chance ^= lean.chance << 17;
	return lean.chance % below;
}

void lean_draw(uint64_t seed)
{
	memset(&lean, 0, sizeof(lean));
	lean.chance = (seed + 1) * UINT64_C(0x9E3779B97F4A7C15);
	lean.first_in = drawn(2) ? 4u << drawn(5) : 0;
	/* Of few failures each is followed by what it may break. */
	lean.once_in = 1000000 / (1 + (unsigned)drawn(drawn(2) ? MOST : MOST / 30));
}

void lean_end(void)
{
	lean.once_in = 0;
}

/* Of this caller's next allocation. Where the program lies in memory decides nothing: its place in
 * the table is all that comes of it. */
static unsigned once_in(const void *from)
{
	size_t at = (uintptr_t)from * UINT64_C(0x9E3779B97F4A7C15) >> 32 & (CALLERS - 1);

	if (!lean.first_in)
		return lean.once_in;
	while (lean.callers[at].from && lean.callers[at].from != from)
		at = (at + 1) & (CALLERS - 1);
	lean.callers[at].from = from;
	return lean.first_in * ++lean.callers[at].times;
}

bool oom_fails(const void *from)
{
	int owner = sim_owner();

	if (!lean.once_in || owner == WORLD || !replica_is_ready(owner))
		return false;
	if (lean.row[owner] > 0)
		lean.row[owner]--;
	else if (drawn(once_in(from)) != 0)
		return false;
	else if (drawn(4) == 0)
		lean.row[owner] = (unsigned)drawn(IN_A_ROW);
	sim_trace(30, "an allocation fails");
	return true;
}
