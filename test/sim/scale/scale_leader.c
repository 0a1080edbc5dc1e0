/* SPDX-License-Identifier: Apache-2.0 */
/* sim/scale: what the leader writes, which meets what reviews write: that a pod was seen, once a
 * second and server, and that it has ended, at most every 100 ms
 * (webhook/cluster/claims/claims_end.c). It is the first replica. */
#include <stdlib.h>

#include "test/sim/scale/scale.h"

#define ROUND_US (100 * MS)
#define BIND_US SECOND

void leader_seen(struct pod *pod)
{
	for (size_t i = 0; i < pod->n_parts; i++) {
		uint32_t server = pod->parts[i] / GPUS;

		if (world.replicas[0].entries[server].bind_due)
			continue;
		world.replicas[0].entries[server].bind_due = true;
		world.binds[world.n_binds++] = server;
	}
}

void leader_again(struct pod *pod, uint32_t server)
{
	if (world.n_ends == world.cap_ends) {
		world.cap_ends = world.cap_ends ? 2 * world.cap_ends : 256;
		world.ends = realloc(world.ends, world.cap_ends * sizeof(*world.ends));
		if (!world.ends)
			abort();
	}
	world.ends[world.n_ends++] = (struct part){pod, server};
}

void leader_ended(struct pod *pod)
{
	crowd_add(&world.crowd, pod, -1);
	pod->state = POD_ENDED;
	for (size_t k = 0; k < pod->n_parts; k++)
		if (k == 0 || pod->parts[k] / GPUS != pod->parts[k - 1] / GPUS)
			leader_again(pod, pod->parts[k] / GPUS);
}

static void edit(uint32_t server, enum edit_kind kind, struct pod *pod)
{
	struct edit *e = calloc(1, sizeof(*e));

	if (!e)
		abort();
	*e = (struct edit){.kind = kind, .pod = pod};
	edit_queue(&world.replicas[0], server, e);
}

/* What ends is written at once; what is to be bound waits for its second. */
void leader_round(void)
{
	struct replica *r = &world.replicas[0];
	bool bind = world.now_us >= world.bind_us;
	size_t n_ends = world.n_ends, n_binds = bind ? world.n_binds : 0;
	struct part *ends = world.ends;

	world.ends = NULL;
	world.n_ends = world.cap_ends = 0;
	for (size_t i = 0; i < n_ends; i++)
		edit(ends[i].server, EDIT_END, ends[i].pod);
	for (size_t i = 0; i < n_binds; i++) {
		r->entries[world.binds[i]].bind_due = false;
		edit(world.binds[i], EDIT_BIND, NULL);
	}
	for (size_t i = 0; i < n_ends; i++)
		commit_kick(r, ends[i].server);
	for (size_t i = 0; i < n_binds; i++)
		commit_kick(r, world.binds[i]);
	if (bind) {
		world.n_binds = 0;
		world.bind_us = world.now_us + BIND_US;
	}
	free(ends);
	event_push((struct event){.at_us = world.now_us + ROUND_US, .kind = EVENT_ROUND});
}
