/* SPDX-License-Identifier: Apache-2.0 */
/* core: which GPUs a pod can be given. Pure: the inventory and what is taken go in, GPUs or the
 * reason come out. */
#ifndef WEBHOOK_CORE_POOL_PLACEMENT_H
#define WEBHOOK_CORE_POOL_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "webhook/core/pool/inventory.h"
#include "webhook/core/pool/room_index.h"

/* When a container runs, in relation to the others of its pod. */
enum container_kind {
	CONTAINER_APP,        /* spec.containers */
	CONTAINER_INIT,       /* spec.initContainers: runs before the app containers and ends */
	CONTAINER_RESTARTABLE /* spec.initContainers with restartPolicy Always: runs beside all that
				 come after it */
};

/* More GPUs than one container can mean; beyond it the arithmetic of units would leave 63 bits. */
#define GPU_AMOUNT_MAX 10000

/* What one container needs: amount distinct GPUs with so much memory of each. */
struct demand_container {
	struct slice name;
	enum container_kind kind;
	uint32_t amount;    /* distinct GPUs, at least 1 */
	uint32_t percent;   /* 1..100 of each GPU's own memory; 0 when asked by memory */
	uint64_t memory_mb; /* megabytes (10^6) of each GPU; 0 when asked by percent */
};

/* What one pod needs. Containers in the order of the pod: initContainers first, then containers. */
struct demand {
	struct demand_container *containers;
	size_t n_containers;
	struct filter *filters;
	size_t n_filters;
	struct slice *servers; /* when n_servers > 0: exactly these are used (placement: servers) */
	size_t n_servers;
	bool whole_servers; /* granularity: server. Every GPU of a server that is used is held whole
			     */
	bool no_ipv4, no_ipv6; /* servers with such an address cannot be used */
	bool one_server; /* all on one server, or not at all: the launcher reaches no second one */
	struct slice launcher; /* the pod's profile: servers that name others cannot be used;
				  absent: any server can */
	bool guarded; /* its launcher leaves shares to the gates: other servers cannot be used */
	enum gate_by gate_by;           /* gates that go by something else cannot be used */
	const struct pool_bound *bound; /* by its namespace's policy; NULL: none */
};

/* So many bytes of one GPU, promised to one pod. */
struct hold {
	size_t server; /* index in inventory.servers, in the order of names */
	size_t gpu;    /* index in that server's gpus */
	uint64_t bytes;
};

/* At most one hold per GPU, ordered by server and GPU. */
struct placement {
	struct hold *holds;
	size_t n_holds;
	/* granularity and placement: the servers used, in the order of the inventory */
	size_t *servers;
	size_t n_servers;
};

/* What is free in an inventory, laid out so that a search over thousands of servers reads little.
 * Without GPUs that take no claims, whatever is free of them; how many claims a server has is not
 * looked at. */
struct pool_room {
	const uint32_t *first;  /* per server: its first GPU in `free` */
	const uint32_t *gpus;   /* per server: how many it has */
	const uint64_t *bytes;  /* per server: the memory of each of its GPUs that take claims; 0:
				   they differ, or there are none */
	const uint64_t *most;   /* per server: what is free of the GPU of which most is */
	const uint64_t *free;   /* per GPU */
	const uint32_t *usable; /* per server: how many of its GPUs take claims, full ones too */
	size_t widest;          /* GPUs of the server that has most */
	const struct room_index *index; /* all this in order; NULL: nobody keeps it, and each search
					   looks at every server */
};

/* What is taken of each GPU of the inventory, indexed by gpu_server.first_gpu + gpu. */
struct usage {
	const uint64_t *claimed; /* bytes of all live claims, pending ones included */
	const uint64_t *pending; /* of these, of claims whose pod has not been seen; for messages */
	const uint32_t *n_claims; /* per SERVER: claims on it (CLAIMS_PER_SERVER_MAX is full) */
	/* Between servers that serve as well the search begins with the one whose name is the
	 * first-th, goes on by name, and ends with those before. 0: ties by name. Who shares the
	 * pool with others begins somewhere else than they. */
	size_t first;
	/* Who holds a lock that others wait for gives placement_find() so many looks alone. 0:
	 * SEARCH_WORK_MAX. */
	uint64_t budget;
	const struct pool_room *room; /* of this inventory with these claims, as room_note() tells
					 it; NULL: each search reads it for itself */
};

/* A status with more claims would make each commit slow. The last ones of a server, as many as it
 * has GPUs of which more than half is free, are for pods that take more than half of a GPU. */
#define CLAIMS_PER_SERVER_MAX 256

/* Bytes that `percent` of this GPU, or `memory_mb`, stand for. percent: floor(p × bytes / 100), so
 * that percents that sum to at most 100 always fit. */
uint64_t demand_bytes(const struct demand_container *d, const struct gpu *g);

/* One server's part of a room: bytes, most, usable, and free of each of its GPUs. claimed: of its
 * first GPU and on. */
void room_note(const struct gpu_server *s, const uint64_t *claimed, uint64_t *ret_bytes,
	uint64_t *ret_most, uint32_t *ret_usable, uint64_t *ret_free);

/* Find GPUs for the whole demand among usable ones that the filter selects. Containers in falling
 * order of bytes, each on one server if any can hold it, best fit, ties by name, else over several.
 * App and restartable containers are placed first; then each init container, for which what the app
 * containers and the restartable ones that start later hold counts as free; per GPU the maximum
 * over these moments is held. Servers that the pod uses already come first: each server is a commit
 * of its own in a cluster. A packing that this greedy search misses may be refused. With
 * whole_servers a server is used only when nobody else is on it and each of its GPUs can take
 * claims. With one_server, where that spreads the pod, the first server by name that holds all of
 * it. docs/performance.md says how long it takes. err NULL: nobody reads why not, which takes as
 * long again. ret's arrays live in the arena. ERR_REFUSED with reason "NoCapacity" (or "NoServer"
 * when no usable GPU matches the filter at all, "ServerTaken" when demand.servers names servers and
 * these cannot hold it) and a sentence: what was asked, what the best GPUs that match have free,
 * how much is held by pods that have not started, what would fit, and whether waiting helps. The
 * work of a search is bounded, whatever is asked and however large the pool is: one that has used
 * its budget up before anything can be said is refused with reason "SearchTooLong". ERR_TIMEOUT:
 * with use->budget, when that is used up, or the reasons would have to be looked for in the whole
 * pool: nothing is known. ERR_NOMEM. */
int placement_find(const struct inventory *inv, const struct usage *use, const struct demand *d,
	struct arena *a, struct placement *ret, struct err *err);

/* The same search, told by containers: ret[c] holds the demand's amount of GPUs for container c, as
 * indexes over all GPUs of the inventory, rising. Not for whole servers. ERR_REFUSED, ERR_NOMEM;
 * both without words. */
int placement_containers(const struct inventory *inv, const struct usage *use,
	const struct demand *d, struct arena *a, uint32_t ***ret);

/* How many copies of this demand, which names no servers, would fit one after the other, at most
 * `limit`: for warnings on workloads. *ret_more: the search had used its budget up, so there may be
 * more. */
size_t placement_copies(const struct inventory *inv, const struct usage *use,
	const struct demand *d, size_t limit, struct arena *a, bool *ret_more);

#endif
