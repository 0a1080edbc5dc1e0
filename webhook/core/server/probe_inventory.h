/* SPDX-License-Identifier: Apache-2.0 */
/* core: what a probe answers at /v1/inventory (gpuprobe.inventory/1), read, and brought into a
 * GPUServer's status. Pure. */
#ifndef WEBHOOK_CORE_SERVER_PROBE_INVENTORY_H
#define WEBHOOK_CORE_SERVER_PROBE_INVENTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json/json_read.h"
#include "webhook/core/server/server_object.h"

#define PROBE_SCHEMA "gpuprobe.inventory/1"
/* Bytes of a trouble that are kept. */
#define PROBE_TROUBLE_MAX 512
/* Bytes of a parent's UUID that are. */
#define PROBE_UUID_MAX 96

enum probe_state { PROBE_READY, PROBE_DEGRADED, PROBE_UNFIT, PROBE_UNKNOWN };

struct probe_gpu {
	const char *id;     /* its UUID */
	const char *parent; /* of a MIG instance: the UUID of its GPU; "" for none */
	const char *model;
	uint64_t bytes; /* its whole memory as CUDA counts it; what is free just now is not placed
			   by */
	bool fit;
	const char **reasons;
	size_t n_reasons;
	const char *why; /* all of them, "; " between them; "" when fit */
};

/* Strings live in the arena. */
struct probe_inventory {
	enum probe_state state;
	int64_t age_s, stale_after_s;
	const char
		*trouble; /* of the server as a whole, as "NO_DRIVER: ..."; "" when there is none */
	struct probe_gpu *gpus; /* in the probe's order */
	size_t n_gpus;
};

/* Read a whole answer; members that are not named here are passed over. ERR_SYNTAX: no such
 * document, or another schema; ERR_INVALID: a member is missing or not what it should be, a UUID
 * stands twice, err->path says where; ERR_TOOBIG: more than SERVER_GPUS_MAX GPUs; ERR_NOMEM. */
int probe_inventory_read(
	const struct json *j, struct arena *a, struct probe_inventory *ret, struct err *err);

/* Does the probe stand by what it says: no older than its own limit, and its state is known? */
bool probe_inventory_fresh(const struct probe_inventory *inv);

/* Make o's status.gpus what the probe says. A GPU that is there keeps its `rest`; one that has
 * vanished stays, as missing, while a claim is on it (R10), else it is dropped. New strings are
 * borrowed from inv. True when that differs from the status (then it was changed). False with
 * a->failed: no memory, nothing was changed. */
bool server_status_from_probe(
	struct server_object *o, const struct probe_inventory *inv, struct arena *a);

#endif
