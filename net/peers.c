/* SPDX-License-Identifier: Apache-2.0 */
/* net: a bucket for each peer. Pure. */
#include "net/peers.h"

#include <stddef.h>

#define MINUTE_MS 60000
#define WAYS 16

static const struct peer *set_of(const struct peers *p, uint64_t key)
{
	uint64_t mixed = key * UINT64_C(0x9e3779b97f4a7c15);

	return &p->peer[(mixed >> 32) % (PEERS_MAX / WAYS) * WAYS];
}

static int64_t spent(const struct peer *one, int64_t now_ms)
{
	int64_t left = one->spent_ms - (now_ms - one->at_ms);

	return left > 0 ? left : 0;
}

bool peers_may(const struct peers *p, uint64_t key, int64_t now_ms)
{
	const struct peer *set = set_of(p, key);

	for (size_t i = 0; i < WAYS && p->per_minute > 0; i++)
		if (set[i].key == key)
			return spent(&set[i], now_ms) + MINUTE_MS / p->per_minute <= MINUTE_MS;
	return true;
}

void peers_failed(struct peers *p, uint64_t key, int64_t now_ms)
{
	struct peer *set = p->peer + (set_of(p, key) - p->peer), *one = set;

	if (p->per_minute == 0)
		return;
	for (size_t i = 0; i < WAYS; i++) {
		if (set[i].key == key) {
			one = &set[i];
			break;
		}
		if (set[i].key == 0 ? one->key != 0 : set[i].at_ms < one->at_ms && one->key != 0)
			one = &set[i];
	}
	*one = (struct peer){key,
		(one->key == key ? spent(one, now_ms) : 0) + MINUTE_MS / p->per_minute, now_ms};
}
