/* SPDX-License-Identifier: Apache-2.0 */
/* sim: replicas that are short of memory. Each allocation of one that has started may fail: one at
 * a time, or some in a row. Chance of its own, so that all else of a seed goes on as it would. */
#include "test/sim/sim_world.h"
#include "test/unit/oom_wrap.h"

/* Of a million allocations; in a row. */
#define MOST 1500
#define IN_A_ROW 30

bool lean_on;

static struct {
	uint64_t chance;
	unsigned once_in, row[REPLICAS_MAX + 1];
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
	lean.chance = (seed + 1) * UINT64_C(0x9E3779B97F4A7C15);
	/* Of few failures each is followed by what it may break. */
	lean.once_in = 1000000 / (1 + (unsigned)drawn(drawn(2) ? MOST : MOST / 30));
}

void lean_end(void)
{
	lean.once_in = 0;
}

bool oom_fails(void)
{
	int owner = sim_owner();

	if (!lean.once_in || owner == WORLD || !replica_is_ready(owner))
		return false;
	if (lean.row[owner] > 0)
		lean.row[owner]--;
	else if (drawn(lean.once_in) != 0)
		return false;
	else if (drawn(4) == 0)
		lean.row[owner] = (unsigned)drawn(IN_A_ROW);
	sim_trace(30, "an allocation fails");
	return true;
}
