/* SPDX-License-Identifier: Apache-2.0 */
/* sim: replicas that are short of memory. Each allocation of one that has started may fail: one at
 * a time, or some in a row. Chance of its own, so that all else of a seed goes on as it would. In
 * half of the seeds all are as likely; in the others those of a kind that are many fail seldom, so
 * that what is allocated once in a run is not forgotten. */
#include <string.h>

#include "test/sim/sim_api.h"
#include "test/sim/sim_world.h"
#include "test/unit/oom_wrap.h"

/* Of a million allocations; in a row. */
#define MOST 1500
#define IN_A_ROW 30
#define KINDS 16384 /* a power of two */

bool lean_on;

static struct {
	uint64_t chance;
	unsigned once_in, row[REPLICAS_MAX + 1];
	/* The first of a kind fails once in so many times; the n-th, in n times as many. 0: all are
	 * alike. */
	unsigned first_in, times[KINDS];
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

/* A kind are those of the same size by tasks of the same name: the same in all programs, however
 * they are compiled. Two that share a place are one. */
static unsigned once_in(size_t size)
{
	uint64_t kind = (store_hash(sim_self_name()) ^ size) * UINT64_C(0x9E3779B97F4A7C15);

	if (!lean.first_in)
		return lean.once_in;
	return lean.first_in * ++lean.times[kind >> 32 & (KINDS - 1)];
}

bool oom_fails(size_t size)
{
	int owner = sim_owner();

	if (!lean.once_in || owner == WORLD || !replica_is_ready(owner))
		return false;
	if (lean.row[owner] > 0)
		lean.row[owner]--;
	else if (drawn(once_in(size)) != 0)
		return false;
	else if (drawn(4) == 0)
		lean.row[owner] = (unsigned)drawn(IN_A_ROW);
	sim_trace(30, "an allocation fails");
	return true;
}
