/* SPDX-License-Identifier: Apache-2.0 */
/* core: what is free in a pool, laid out for searches. */
#include "webhook/core/pool/placement_search.h"

void room_note(const struct gpu_server *s, const uint64_t *claimed, uint64_t *ret_bytes,
	uint64_t *ret_most, uint32_t *ret_usable, uint64_t *ret_free)
{
	uint64_t bytes = 0, most = 0;
	uint32_t usable = 0;
	bool differ = false;

	for (size_t i = 0; i < s->n_gpus; i++) {
		const struct gpu *g = &s->gpus[i];
		uint64_t left = 0;

		if (inventory_usable(s, g)) {
			left = gpu_left(g, claimed[i]);
			differ = differ || (bytes && bytes != g->bytes);
			bytes = g->bytes;
			usable++;
		}
		most = left > most ? left : most;
		ret_free[i] = left;
	}
	*ret_bytes = differ ? 0 : bytes;
	*ret_most = most;
	*ret_usable = usable;
}
