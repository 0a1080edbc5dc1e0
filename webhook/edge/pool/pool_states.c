/* SPDX-License-Identifier: Apache-2.0 */
/* edge: GPUs' memory by state. */
#include "webhook/edge/pool/pool_states.h"

const char *pool_part_name(enum pool_part s)
{
	static const char *const names[POOL_STATES] = {
		"bound", "pending", "free", "drained", "stale", "unfit", "missing"};

	return (size_t)s < POOL_STATES ? names[s] : "unknown";
}

enum pool_part pool_part_of(const struct gpu_server *s, const struct gpu *g)
{
	if (g->missing)
		return POOL_MISSING;
	/* An old verdict is none. */
	if (!g->fresh)
		return POOL_STALE;
	if (!g->fit)
		return POOL_UNFIT;
	return s->drain ? POOL_DRAINED : POOL_FREE;
}

void pool_split_gpu(const struct pool_view *v, size_t i, size_t g, struct pool_split *add)
{
	const struct gpu_server *s = &v->inventory.servers[i];
	uint64_t bytes = s->gpus[g].bytes;
	uint64_t claimed = v->usage.claimed[s->first_gpu + g];
	uint64_t pending = v->usage.pending[s->first_gpu + g];

	if (claimed > bytes) {
		add->over += claimed - bytes;
		claimed = bytes;
	}
	if (pending > claimed)
		pending = claimed;
	add->bytes[POOL_BOUND] += claimed - pending;
	add->bytes[POOL_PENDING] += pending;
	add->bytes[pool_part_of(s, &s->gpus[g])] += bytes - claimed;
}

void pool_split_server(const struct pool_view *v, size_t i, struct pool_split *add)
{
	for (size_t g = 0; g < v->inventory.servers[i].n_gpus; g++)
		pool_split_gpu(v, i, g, add);
}
