/* SPDX-License-Identifier: Apache-2.0 */
/* sim: one seed from its beginning to its end: faults, calm, and what must have come true by then.
 */
#include "test/sim/sim_world.h"

/* Faults last at most so long; then comes calm, and after so much of it nothing may be owed any
 * more: a new leader (17 s), what it waits for a pending claim (R5: 45 s), and the 60 s that the
 * law of liveness gives. */
#define FAULTS_US (120 * SECOND)
#define CALM_US (122 * SECOND)
/* A claim that a replica announced before it died is waited for. */
#define CAPS_CALM_US (300 * SECOND)

void run_calm(void)
{
	int64_t began = sim_now(), last = began + (habits.caps ? CAPS_CALM_US : CALM_US);
	const char *owed;

	do {
		sim_sleep(SECOND);
		laws_calm(chaos_calm());
		laws_queue(chaos_calm());
		owed = laws_owed();
	} while (*owed && sim_now() < last);
	if (*owed)
		sim_fail("liveness", "%.0f s after the last fault: %s",
			(double)(sim_now() - began) / 1e6, owed);
}

void sim_run(uint64_t seed, bool trace)
{
	static int64_t until;

	sim_begin(seed, trace);
	chaos_draw();
	until = SECOND * 20 + (int64_t)sim_below(FAULTS_US);
	until *= habits.stall ? 4 : 1;
	sim_trace(seed, "seed %llu: %d replicas, faults for %.1f s", (unsigned long long)seed,
		replicas, (double)until / 1e6);
	for (int i = 1; i <= replicas; i++)
		replica_start(i);
	if (!orderly)
		sim_spawn(WORLD, "users", users, &until);
	if (habits.waits)
		sim_spawn(WORLD, "waiters", waiters, &until);
	if (lean_on && sky == STORM)
		lean_draw(seed);
	if (slips_on)
		sim_spawn(WORLD, "slips", slips, NULL);
	sim_spawn(WORLD, "chaos", chaos, &until);
	while (!chaos_calm() || pods_open() > 0) {
		sim_sleep(SECOND);
		laws_fair();
		laws_calm(chaos_calm());
		laws_queue(chaos_calm());
	}
	run_calm();
	replicas_said();
	sim_done();
}
