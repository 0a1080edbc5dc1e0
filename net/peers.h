/* SPDX-License-Identifier: Apache-2.0 */
/* net: tries that failed, of each peer. Pure. A peer is an address, of IPv6 as a rule its first 64
 * bits (net/address.h). Behind a NAT many pods are one peer, so a try that succeeds costs nothing.
 */
#ifndef NET_PEERS_H
#define NET_PEERS_H

#include <stdbool.h>
#include <stdint.h>

/* Peers that are remembered; who has not failed for longest makes room among sixteen. */
#define PEERS_MAX 1024

struct peer {
	uint64_t key;     /* 0: nobody */
	int64_t spent_ms; /* tries that failed, each as long as it takes to be forgotten */
	int64_t at_ms;    /* when that was */
};

/* Zero it, with the setting, to begin. */
struct peers {
	unsigned per_minute; /* so many may fail; 0: any */
	struct peer peer[PEERS_MAX];
};

/* May this peer try now? */
bool peers_may(const struct peers *p, uint64_t key, int64_t now_ms);
/* Its try failed. */
void peers_failed(struct peers *p, uint64_t key, int64_t now_ms);

#endif
